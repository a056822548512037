# SPDX-License-Identifier: Apache-2.0
"""Random changes of Services, EndpointSlices, Nodes and pods.

Few names, addresses and ports, so that they meet: Services that claim one
address, slices that move between Services, endpoints in several slices.
Each step is one method of Churn; Churn.step() takes one by chance.
"""
import copy
import json
import re

from support import churnmc, objects
from support.churnnodes import NODES, ZONES, NodeChurn
from support.rig import NODE_IP, PROXY_NAME

NAMESPACES = ("ns1", "ns2")
SERVICES = ["svc-%d" % i for i in range(10)]
SLICES = ["slice-%02d" % i for i in range(20)]
V4 = ["10.96.0.%d" % i for i in range(1, 17)]
V6 = ["2001:db8:96::%d" % i for i in range(1, 17)]
PORT_NAMES = ("a", "b", "c", "d")
PROTOCOLS = ("TCP", "UDP", "SCTP")
LARGE = (64, 65, 66, 300, 550, 551, 600, 700)
PODS = {"p%d" % i: ("10.10.1.%d" % (i + 2), "2001:db8:10:1::%d" % (i + 2))
        for i in range(6)}

# External addresses: of nobody, of this node, of Services, of another family
# than the Service is, and none at all.
OUTER = ["203.0.113.%d" % i for i in range(1, 5)] + [
    "2001:db8:3::%d" % i for i in range(1, 4)] + [
    NODE_IP, "2001:db8:2::11", "10.10.1.1", "10.96.0.3", "2001:db8:96::3",
    "203.0.113.002", "169.254.0.252"]
BAD_OUTER = ["", "203.0.113", "127.0.0.1", "224.0.0.1", "x"]
RANGES = ["198.51.100.0/24", " 198.51.100.7/24 ", "198.51.100.64/26",
          "10.10.0.0/16", "192.0.2.0/24", "2001:db8:4::/48",
          "2001:db8:2::/64", "198.51.100.9/32"]
ALL_RANGES = ["0.0.0.0/0", "::/0", "203.0.113.7/0"]
BAD_RANGES = ["198.51.100.0", "198.51.100.0/33", "", "x/8"]
NODE_PORTS = (30080, 30081, 30082, 30083, 31000)
HEALTH_PORTS = (32000, 32001, 32002)
TIMEOUTS = (1, 60, 10800, 65535, 65536, 86400)

# Names of Service and slice methods, and how often each is to come.
STEPS = {
    "replace_service": 16, "delete_service": 2, "recreate_service": 5,
    "edit_ports": 8, "edit_families": 5, "edit_policy": 5, "edit_kind": 4,
    "edit_proxy_name": 3, "edit_flags": 3, "swap_addresses": 4,
    "share_address": 2, "touch_service": 1,
    "edit_type": 6, "edit_node_ports": 6, "edit_external_ips": 6,
    "edit_ingress": 8, "edit_ranges": 5, "edit_external_policy": 5,
    "edit_affinity": 5, "edit_health": 3, "finalize_service": 1,
    "replace_slice": 12, "delete_slice": 3, "recreate_slice": 3,
    "edit_endpoints": 14, "edit_conditions": 8, "edit_hints": 4,
    "edit_slice_ports": 3, "move_slice": 4, "share_endpoints": 4,
    "large_slice": 1, "odd_slice": 2,
    "edit_zone": 3, "edit_pod_cidrs": 1, "edit_other_node": 3,
    "recreate_node": 1, "break_object": 2, "move_pod": 3,
    "put_peer": 10, "delete_peer": 4, "edit_peer_addresses": 6,
    "edit_peer_cidrs": 6, "annotate_peer": 4, "recreate_peer": 4,
    "swap_peers": 3, "hide_own_node": 1, "edit_service_cidr": 4,
}
# Those of Services and slices only.
OBJECT_STEPS = {name: weight for name, weight in STEPS.items()
                if not re.search("_node$|zone|peer|pod|cidr", name)}

# What all of it makes the daemon say.
EXPECTED = (
    r"\|WARN\|Dropped \d+ log messages",
    r"\|net\|WARN\|Node ", r"\|local\|WARN\|Node ",
    r"\|uplink\|WARN\|", r"\|(rules|routes|host|gwlink)\|WARN\|",
    r"\|agent\|WARN\|there is no Node ",
    r"\|notice\|WARN\|Service .*: .* belongs to ",
    r"\|checks\|WARN\|Service .*: health checks can't be answered",
    r"\|services\|WARN\|Service .* addresses or source ranges are left out",
    r"\|kube\|WARN\|(services|endpointslices): an object is left out: ",
    r"\|kube\|WARN\|(services|endpointslices|nodes|servicecidrs"
    "|gateways|clusterinfoimports): .*",
    r"\|svccidrs\|WARN\|networks of Services are left out:",
    r"(serviceCIDR|ServiceCIDR) .* is not used: ",
    r"\|ofconn\|WARN\|.*: (connection given up in state|can't connect)",
    r"\|ofconn_bundle\|WARN\|.*: the switch refuses ",
    r"\|report\|WARN\|.*: the switch refused it ",
    r"\|ovsdb\|WARN\|",
    r"\|reconnect\|WARN\|",
    *churnmc.EXPECTED,
)


def malformed(kind, namespace, name, choice):
    """The bytes of an object that cannot be read."""
    good = {"name": name, "namespace": namespace,
            "labels": {objects.SERVICE_LABEL: SERVICES[0]}}
    return json.dumps({"metadata": good, **{
        "services": (
            {"spec": {"clusterIP": "10.96.0.300", "clusterIPs":
                      ["10.96.0.300"], "ports": [{"port": 80}]}},
            {"spec": {"clusterIP": "10.96.0.9", "ports": "none"}},
            {"spec": {"clusterIP": "10.96.0.9",
                      "ports": [{"port": 70000}]}}),
        "endpointslices": (
            {"addressType": "IPv4", "endpoints": 7},
            {"addressType": "IPv4", "ports": [],
             "endpoints": [{"addresses": ["10.10.1"]}]},
            {"addressType": "IPv5", "endpoints": None}),
    }[kind][choice]}).encode()


class Churn(NodeChurn, churnmc.McChurn):
    """Changes the objects of a support.rig.Rig, as `rng` decides; `more`:
    steps besides STEPS, such as churnmc.STEPS."""

    def __init__(self, rng, rig, more=None):
        self.rng, self.rig, self.api = rng, rig, rig.api
        self.services, self.slices, self.nodes = {}, {}, {}
        self.broken = set()     # (resource, namespace, name)
        self.resources = ("services", "endpointslices", "nodes") + (
            ("gateways", "clusterinfoimports") if more else ())
        self.done = []          # What was done, for failure messages.
        self._n_uids = 0
        self._hidden = False
        self.own_address = NODE_IP
        self._steps = {**STEPS, **(more or {})}
        self._put_node(self._own_node())

    def step(self, steps=None):
        """One random change; `steps`: of these, as STEPS are."""
        steps = steps or self._steps
        name, = self.rng.choices(list(steps), steps.values())
        self.done.append(name)
        getattr(self, name)()

    def mend(self):
        """Takes away what cannot be read: it would stay with the daemon as
        it was before, and a cold start would not know it."""
        for resource, namespace, name in sorted(self.broken):
            kept = (self.services if resource == "services"
                    else self.slices).get((namespace, name))
            if kept:
                self.api.apply(kept, force=True)
            else:
                self.api.delete(resource, namespace, name)
        self.broken.clear()
        if self._hidden:
            self._hidden = False
            self._put_node(self.nodes["n1"])

    # Choices.

    def chance(self, one_in):
        """True once in so many times."""
        return self.rng.randrange(one_in) == 0

    def some(self, values, most):
        """Up to `most` different ones."""
        return self.rng.sample(values, self.rng.randint(0, min(most,
                                                               len(values))))

    def _service(self):
        """A Service that exists, to be changed; None if there is none."""
        if not self.services:
            return None
        key = self.rng.choice(sorted(self.services))
        return copy.deepcopy(self.services[key])

    def _slice(self):
        if not self.slices:
            return None
        return copy.deepcopy(self.slices[self.rng.choice(
            sorted(self.slices))])

    # Putting and deleting.

    @staticmethod
    def _key(obj):
        return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]

    def _put(self, obj):
        """Writes a Service or a slice."""
        resource, kept = (
            ("services", self.services) if obj["kind"] == "Service"
            else ("endpointslices", self.slices))
        key = self._key(obj)
        kept[key] = obj
        self.broken.discard((resource, *key))
        self.api.apply(obj)

    def _delete(self, obj):
        resource, kept = (
            ("services", self.services) if obj["kind"] == "Service"
            else ("endpointslices", self.slices))
        key = self._key(obj)
        del kept[key]
        self.broken.discard((resource, *key))
        self.api.delete(obj)

    # Services.

    def _ports(self):
        """1 to 3 ports, as the API server lets them pass."""
        if self.chance(6):
            return [objects.port(self.rng.choice((53, 80)), None,
                                 self.rng.choice(PROTOCOLS))]
        names = self.rng.sample(PORT_NAMES, self.rng.randint(1, 3))
        pairs = self.rng.sample([(n, p) for n in (53, 80, 443)
                                 for p in PROTOCOLS], len(names))
        return [objects.port(number, name, protocol)
                for name, (number, protocol) in zip(names, pairs)]

    def _addresses(self):
        v4, v6 = self.rng.choice(V4), self.rng.choice(V6)
        return self.rng.choice(([v4], [v4], [v6], [v4, v6], [v6, v4]))

    def _new_service(self, namespace, name, addresses=None):
        self._n_uids += 1
        labels = ({PROXY_NAME: "other"} if self.chance(20) else {})
        more = {}
        if self.chance(4):
            more["internalTrafficPolicy"] = self.rng.choice(
                ("Local", "Local", "Cluster", None))
        svc = objects.service(
            namespace, name, self._ports(), addresses or self._addresses(),
            labels=labels, uid="uid-%d" % self._n_uids,
            created="2026-01-01T00:00:0%dZ" % self.rng.randrange(4), **more)
        for change in (self._set_type, self._set_external_ips,
                       self._set_ingress, self._set_ranges,
                       self._set_affinity):
            if self.chance(3):
                change(svc)
        return svc

    def _change_service(self, change):
        """Changes one that exists by a function."""
        svc = self._service()
        if svc:
            change(svc)
            self._put(svc)

    def replace_service(self):
        """Created, or replaced by another one."""
        self._put(self._new_service(self.rng.choice(NAMESPACES),
                                    self.rng.choice(SERVICES)))

    def delete_service(self):
        """Deleted."""
        svc = self._service()
        if svc:
            self._delete(svc)

    def recreate_service(self):
        """Deleted and created at once, sometimes with the same addresses."""
        svc = self._service()
        if svc:
            with self.api.batch():
                self._delete(svc)
                self._put(self._new_service(
                    *self._key(svc), self.rng.choice(
                        (None, svc["spec"].get("clusterIPs")))))

    def touch_service(self):
        """A change that means nothing here."""
        svc = self._service()
        if svc:
            svc["metadata"]["annotations"] = {"x": str(self.rng.random())}
            self._put(svc)

    def edit_ports(self):
        """Other ports, or one of them renamed, renumbered, or of another
        protocol."""
        svc = self._service()
        if not svc:
            return
        ports = svc["spec"]["ports"]
        port = self.rng.choice(ports)
        field, value = self.rng.choice((
            ("name", self.rng.choice(PORT_NAMES)),
            ("port", self.rng.choice((53, 80, 443, 8443))),
            ("protocol", self.rng.choice(PROTOCOLS)), (None, None)))
        if field:
            port[field] = value
        else:
            svc["spec"]["ports"] = ports = self._ports()
        if (len({p.get("name") for p in ports}) == len(ports)
                and len({(p["port"], p["protocol"]) for p in ports})
                == len(ports)):
            self._put(svc)

    def edit_families(self):
        """A family added, removed, or the two exchanged."""
        svc = self._service()
        if svc and svc["spec"].get("clusterIP") not in (None, "", "None"):
            old = svc["spec"]["clusterIPs"]
            if len(old) == 2:
                new = self.rng.choice((old[:1], old[1:], old[::-1]))
            else:
                other = self.rng.choice(V4 if ":" in old[0] else V6)
                new = [old[0], other]
            self._set_addresses(svc, new)
            self._put(svc)

    @staticmethod
    def _set_addresses(svc, addresses):
        svc["spec"].update(
            clusterIP=addresses[0], clusterIPs=list(addresses),
            ipFamilies=["IPv6" if ":" in a else "IPv4" for a in addresses])

    def edit_policy(self):
        """internalTrafficPolicy."""
        svc = self._service()
        if svc:
            svc["spec"]["internalTrafficPolicy"] = self.rng.choice(
                ("Local", "Cluster"))
            self._put(svc)

    def edit_kind(self):
        """Headless, ExternalName, and back, in place."""
        svc = self._service()
        if not svc:
            return
        spec = svc["spec"]
        kind = self.rng.randrange(4)
        spec["type"] = "ExternalName" if kind == 0 else "ClusterIP"
        if kind == 0:
            spec.update(clusterIP="", clusterIPs=None, ipFamilies=None)
        elif kind == 1:
            spec.update(clusterIP="None", clusterIPs=["None"])
        else:
            self._set_addresses(svc, self._addresses())
        self._put(svc)

    # What leads in from outside.

    def _set_node_ports(self, svc):
        for port in svc["spec"]["ports"]:
            port.pop("nodePort", None)
            if not self.chance(4):
                port["nodePort"] = self.rng.choice(NODE_PORTS)

    def _set_type(self, svc):
        spec = svc["spec"]
        spec["type"] = self.rng.choice(("ClusterIP", "NodePort",
                                        "LoadBalancer", "LoadBalancer"))
        if spec["type"] == "ClusterIP":
            for port in spec["ports"]:
                port.pop("nodePort", None)
            # Sometimes the controller is slower.
            if not self.chance(3):
                svc["status"] = {"loadBalancer": {}}
        else:
            self._set_node_ports(svc)
            if spec["type"] == "LoadBalancer":
                self._set_ingress(svc)

    def _outer(self, most):
        addresses = self.some(OUTER, most)
        if self.chance(8):
            addresses.append(self.rng.choice(BAD_OUTER))
        if addresses and self.chance(8):
            addresses.append(addresses[0])
        return addresses

    def _set_external_ips(self, svc):
        svc["spec"]["externalIPs"] = self._outer(3)

    def _set_ingress(self, svc):
        entries = []
        for address in self._outer(3):
            entry = {"ip": address}
            mode = self.rng.choice((None, None, "VIP", "Proxy"))
            if mode:
                entry["ipMode"] = mode
            entries.append(entry)
        if self.chance(4):
            entries.append({"hostname": "lb.example.com"})
        self.rng.shuffle(entries)
        svc["status"] = {"loadBalancer": {"ingress": entries}}

    def _set_ranges(self, svc):
        ranges = self.some(RANGES, 4)
        if self.chance(5):
            ranges.append(self.rng.choice(ALL_RANGES))
        if self.chance(8):
            ranges.append(self.rng.choice(BAD_RANGES))
        self.rng.shuffle(ranges)
        svc["spec"]["loadBalancerSourceRanges"] = ranges

    def _set_affinity(self, svc):
        spec = svc["spec"]
        spec.pop("sessionAffinityConfig", None)
        spec["sessionAffinity"] = "None" if self.chance(4) else "ClientIP"
        if not self.chance(3):
            spec["sessionAffinityConfig"] = {"clientIP": {
                "timeoutSeconds": self.rng.choice(TIMEOUTS)}}

    def edit_type(self):
        """ClusterIP, NodePort or LoadBalancer, in place."""
        self._change_service(self._set_type)

    def edit_node_ports(self):
        """Other NodePorts, or none, whatever the type."""
        self._change_service(self._set_node_ports)

    def edit_external_ips(self):
        """externalIPs."""
        self._change_service(self._set_external_ips)

    def edit_ingress(self):
        """The load balancer's addresses: others, or one more, one less, or
        one of another mode."""
        svc = self._service()
        if not svc:
            return
        old = svc["status"]["loadBalancer"].get("ingress")
        if not old or self.chance(2):
            self._set_ingress(svc)
        elif self.chance(2):
            del old[self.rng.randrange(len(old))]
        else:
            self.rng.choice(old)["ipMode"] = self.rng.choice(
                ("VIP", "Proxy"))
        self._put(svc)

    def edit_ranges(self):
        """loadBalancerSourceRanges."""
        self._change_service(self._set_ranges)

    def edit_external_policy(self):
        """externalTrafficPolicy."""
        def change(svc):
            svc["spec"]["externalTrafficPolicy"] = self.rng.choice(
                ("Local", "Local", "Cluster"))
        self._change_service(change)

    def edit_health(self):
        """healthCheckNodePort, and the policy that it takes."""
        def change(svc):
            svc["spec"].update(
                externalTrafficPolicy="Local",
                healthCheckNodePort=self.rng.choice((0, *HEALTH_PORTS)))
        self._change_service(change)

    def finalize_service(self):
        """It is to go once others have done what they have to do."""
        def change(svc):
            svc["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:09Z"
        self._change_service(change)

    def edit_affinity(self):
        """On, off, or of another time."""
        self._change_service(self._set_affinity)

    def edit_proxy_name(self):
        """The label that leaves a Service to another proxy."""
        svc = self._service()
        if svc:
            labels = svc["metadata"].setdefault("labels", {})
            if labels.pop(PROXY_NAME, None) is None:
                labels[PROXY_NAME] = self.rng.choice(("other", ""))
            self._put(svc)

    def edit_flags(self):
        """Other fields."""
        svc = self._service()
        if svc:
            svc["spec"].update(self.rng.choice((
                {"publishNotReadyAddresses": True},
                {"publishNotReadyAddresses": False},
                {"sessionAffinity": "None"},
                {"allocateLoadBalancerNodePorts": False},
                {"trafficDistribution": self.rng.choice((
                    "PreferClose", "PreferSameZone", "PreferSameNode"))})))
            self._put(svc)

    def swap_addresses(self):
        """Two Services exchange their addresses."""
        one, other = self._service(), self._service()
        if one and self._key(one) != self._key(other):
            mine, its = (s["spec"].get("clusterIPs") for s in (one, other))
            if mine and its and "None" not in mine + its:
                self._set_addresses(one, its)
                self._set_addresses(other, mine)
                if self.chance(2):
                    with self.api.batch():
                        self._put(one)
                        self._put(other)
                else:
                    self._put(one)
                    self._put(other)

    def share_address(self):
        """A Service claims another one's addresses."""
        one, other = self._service(), self._service()
        addresses = other and other["spec"].get("clusterIPs")
        if addresses and addresses != ["None"]:
            one["spec"]["type"] = "ClusterIP"
            self._set_addresses(one, addresses)
            self._put(one)

    # Slices.

    def _endpoint(self, family, spread=20):
        n = self.rng.randint(2, spread + 2)
        node = self.rng.choice(NODES)
        subnet = (NODES.index(node) + 1) % 4 + n // 200
        address = ("10.10.%d.%d" % (subnet, n % 200) if family == "IPv4"
                   else "2001:db8:10:%d::%x" % (subnet, n))
        more = {}
        if self.chance(4):
            more = self._conditions()
        return objects.endpoint(address, node, pod=("ns1", "pod-%d" % n)
                                if self.chance(2) else None, **more)

    def _conditions(self):
        ready = self.rng.choice((True, False, None))
        return {"ready": ready, "serving": self.chance(2),
                "terminating": self.chance(2)}

    def _slice_ports(self):
        if not self.chance(5):
            return [objects.slice_port(8080, name, protocol)
                    for name in PORT_NAMES + ("",) for protocol in PROTOCOLS]
        names = self.rng.sample(PORT_NAMES + ("",), self.rng.randint(0, 4))
        ports = [objects.slice_port(self.rng.randint(8080, 8083), name,
                                    self.rng.choice(PROTOCOLS))
                 for name in names]
        if ports and self.chance(10):
            ports[0]["port"] = None
        return ports

    def _service_name(self, namespace):
        """Of a Service that is mostly there."""
        there = [name for ns, name in sorted(self.services)
                 if ns == namespace]
        return self.rng.choice(there if there and not self.chance(5)
                               else SERVICES)

    def _new_slice(self, namespace, name):
        family = self.rng.choice(("IPv4", "IPv6"))
        endpoints = [self._endpoint(family)
                     for _ in range(self.rng.choice((0, 1, 2, 3, 5, 20)))]
        return objects.slice_(namespace, self._service_name(namespace),
                              endpoints, self._slice_ports(), name=name,
                              family=family)

    def replace_slice(self):
        """Created, or replaced by another one."""
        self._put(self._new_slice(self.rng.choice(NAMESPACES),
                                  self.rng.choice(SLICES)))

    def delete_slice(self):
        """Deleted."""
        sl = self._slice()
        if sl:
            self._delete(sl)

    def recreate_slice(self):
        """Deleted and created at once: the same, or another one."""
        sl = self._slice()
        if sl:
            with self.api.batch():
                self._delete(sl)
                self._put(sl if self.chance(2)
                          else self._new_slice(*self._key(sl)))

    def edit_endpoints(self):
        """Endpoints come and go."""
        sl = self._slice()
        if sl:
            endpoints = sl["endpoints"] or []
            self.rng.shuffle(endpoints)
            keep = endpoints[self.rng.randint(0, 3):]
            keep += [self._endpoint(sl["addressType"])
                     for _ in range(self.rng.randint(0, 3))]
            sl["endpoints"] = keep or None
            self._put(sl)

    def edit_conditions(self):
        """Endpoints become ready, unready, terminating."""
        sl = self._slice()
        if sl and sl["endpoints"]:
            for endpoint in self.some(sl["endpoints"], 3):
                conditions = self._conditions()
                if conditions.pop("ready") is not None:
                    conditions["ready"] = self.chance(2)
                endpoint["conditions"] = conditions
            self._put(sl)

    def edit_hints(self):
        """Hints for all, some or none of the endpoints: of zones, of nodes
        or of both."""
        sl = self._slice()
        if sl and sl["endpoints"]:
            share = self.rng.choice((0, 1, 1, 2))
            for endpoint in sl["endpoints"]:
                endpoint.pop("hints", None)
                if share and self.chance(share):
                    endpoint["hints"] = {
                        key: [{"name": self.rng.choice(names)}]
                        for key, names in (("forZones", ZONES),
                                           ("forNodes", NODES[:3]))
                        if not self.chance(3)}
            self._put(sl)

    def edit_slice_ports(self):
        """Other ports."""
        sl = self._slice()
        if sl:
            sl["ports"] = self._slice_ports() or None
            self._put(sl)

    def move_slice(self):
        """To another Service."""
        sl = self._slice()
        if sl:
            sl["metadata"]["labels"][objects.SERVICE_LABEL] = (
                self._service_name(sl["metadata"]["namespace"]))
            self._put(sl)

    def share_endpoints(self):
        """Endpoints of one slice stand in another one, too."""
        one, other = self._slice(), self._slice()
        if one and one["addressType"] == other["addressType"]:
            other["endpoints"] = ((other["endpoints"] or [])
                                  + copy.deepcopy(self.some(
                                      one["endpoints"] or [], 5))) or None
            self._put(other)

    def odd_slice(self):
        """Of names, of no Service, or made by somebody else."""
        sl = self._new_slice(self.rng.choice(NAMESPACES),
                             self.rng.choice(SLICES))
        kind = self.rng.randrange(3)
        if kind == 0:
            sl.update(addressType="FQDN", endpoints=[
                objects.endpoint("web.example.com")])
        elif kind == 1:
            del sl["metadata"]["labels"][objects.SERVICE_LABEL]
        else:
            sl["metadata"]["labels"][objects.MANAGED_BY] = "example.com"
        self._put(sl)

    def large_slice(self):
        """As many endpoints as make a difference to the group."""
        sl = self._new_slice(self.rng.choice(NAMESPACES),
                             self.rng.choice(SLICES))
        n = self.rng.choice(LARGE)
        sl["endpoints"] = [
            objects.endpoint(
                "10.10.%d.%d" % (10 + i // 200, i % 200 + 1)
                if sl["addressType"] == "IPv4"
                else "2001:db8:11::%x" % (i + 1), self.rng.choice(NODES))
            for i in range(n)]
        self._put(sl)

    # Trouble with objects.

    def break_object(self):
        """An object that cannot be read, new or instead of a good one."""
        resource, names = self.rng.choice((("services", SERVICES),
                                           ("endpointslices", SLICES)))
        namespace = self.rng.choice(NAMESPACES)
        name = self.rng.choice(names)
        self.broken.add((resource, namespace, name))
        self.api.put_raw(resource, namespace, name, malformed(
            resource, namespace, name, self.rng.randrange(3)))

    # Pods.

    def move_pod(self):
        """A pod comes, goes, or gets another port."""
        name = self.rng.choice(sorted(PODS))
        if name in self.rig.pods:
            self.rig.del_pod(name)
            if self.chance(2):
                return
        free = set(range(1, 40)) - {p[1] for p in self.rig.pods.values()}
        self.rig.add_pod(name, PODS[name], self.rng.choice(sorted(free)))
