# SPDX-License-Identifier: Apache-2.0
"""Services that can be reached from outside, on several nodes, and what a
client of each address should get (services.md 2.5).

    with World(directory, "ab", mode="encap") as world:
        service = Exposed(world, endpoints=[world.pod(0)])
        service.apply(externalTrafficPolicy="Local")
        world.settle()

A world is a MultiCluster with more around it: the outside has several
addresses; EXTERNAL are addresses that nobody has, and which the router sends
to a node (`lead`), or to the balancer: a machine beside the outside that
answers for them itself.  Each node serves in its own network, too, on
HOST_PORT as "host-NAME".
"""
import dataclasses
import itertools

from support import objects
from support.asking import REFUSED, SILENCE, Answer
from support.cluster import FAMILIES, SERVICE_CIDRS
from support.multinode import (OUTSIDE, ROUTER, MultiCluster, host_of,
                               quiet_links)
from support.netns import Namespace
from support.traffic import Server
from support.wait import wait_for

VIRTUAL = {4: "169.254.0.253", 6: "fc01::aabb:ccdd:eeff"}
EXTERNAL = {4: "203.0.113.128/25", 6: "2001:db8:e::/64"}
NAMESPACE = "ns1"
MARKER = "marker"
POD_PORT, HOST_PORT = 8080, 8090
OUTSIDE_MORE = (20, 21)         # More of the outside's addresses.
BALANCER = 3                    # Number beside the outside.
BALANCED_PORTS = "7990-8130"    # What the balancer serves.


@dataclasses.dataclass(frozen=True)
class Target:
    """An endpoint: of a pod, or (pod=None) of a node's host.

    more: for objects.endpoint()."""
    node: object
    pod: object = None
    more: dict = dataclasses.field(default_factory=dict)

    @property
    def server(self):
        """What it answers as."""
        return ("%s:%d" % (self.pod.label, POD_PORT) if self.pod
                else "host-" + self.node.label)

    @property
    def port(self):
        """That it serves."""
        return POD_PORT if self.pod else HOST_PORT

    def of(self, family):
        """Its address."""
        return (self.pod or self.node).of(family)


@dataclasses.dataclass(frozen=True)
class Asker:
    """A client: a pod or host of a node, or (node=None) somebody outside.

    source: the address that it binds to, or None."""
    who: object
    node: object = None
    is_pod: bool = False
    source: str = None

    @property
    def label(self):
        """For messages."""
        return self.who.label


class Exposed:
    """A Service with all kinds of addresses in both families, of TCP and UDP.

    It has the port 8000 + N, the NodePort 30000 + N, an external IP, and
    a load-balancer address that is N-th of their kinds; 'external', 'ingress'
    and what apply() gets change that."""

    def __init__(self, world, endpoints=(), number=None, families=FAMILIES,
                 **spec):
        self.world, self.endpoints = world, list(endpoints)
        self.number = number or next(world.numbers)
        self.name = "svc-%d" % self.number
        self.families = families
        self.port, self.node_port = 8000 + self.number, 30000 + self.number
        self.spec = {"type": "LoadBalancer", **spec}
        self.created = None     # The Service's creationTimestamp.
        self.external = [self.external_ip(f) for f in families]
        self.ingress = [{"ip": self.balanced_ip(f)} for f in families]
        self._slices = set()

    def cluster_ip(self, family):
        """Inside."""
        return objects.nth(SERVICE_CIDRS[family], self.number)

    def external_ip(self, family):
        """Of spec.externalIPs."""
        return objects.nth(EXTERNAL[family], self.number)

    def balanced_ip(self, family):
        """Of status.loadBalancer."""
        return objects.nth(EXTERNAL[family], 64 + self.number)

    def object(self):
        """As the API has it."""
        plain = self.spec["type"] == "ClusterIP"
        ports = [objects.port(self.port, p.lower(), p, **(
            {} if plain or not self.node_port
            else {"nodePort": self.node_port})) for p in ("TCP", "UDP")]
        return objects.service(
            NAMESPACE, self.name, ports,
            [self.cluster_ip(f) for f in self.families],
            created=self.created,
            status={"loadBalancer": {"ingress": self.ingress}},
            externalIPs=list(self.external), **self.spec)

    def _slice(self, port, family, targets):
        name = "%s-%d-%d" % (self.name, port, family)
        return objects.slice_(
            NAMESPACE, self.name,
            [objects.endpoint(t.of(family), t.node.node_name, **t.more)
             for t in targets],
            [(port, p.lower(), p) for p in ("TCP", "UDP")], name=name)

    def apply(self, **spec):
        """Tells the API server; fields of the spec change (None: go)."""
        self.spec.update(spec)
        api, made = self.world.api, []
        for port, family in itertools.product(
                sorted({t.port for t in self.endpoints}), self.families):
            made.append(self._slice(port, family, [
                t for t in self.endpoints if t.port == port]))
        names = {m["metadata"]["name"] for m in made}
        with api.batch():
            for one in (self.object(), *made):
                api.apply(one)
            for name in self._slices - names:
                api.delete("endpointslices", NAMESPACE, name)
        self._slices = names
        return self

    def delete(self):
        """Takes it away."""
        api = self.world.api
        with api.batch():
            api.delete("services", NAMESPACE, self.name)
            for name in self._slices:
                api.delete("endpointslices", NAMESPACE, name)
        self._slices = set()


class World(MultiCluster):
    """See the top of the file; 'more' as for a MultiCluster."""

    def __init__(self, directory, subnets="ab", **more):
        self.numbers = itertools.count(1)
        self._serials = itertools.count(1)
        super().__init__(directory, subnets, **more)
        for node in self.nodes:     # Errors are what some tests look for.
            node.sysctl(net__ipv4__icmp_ratelimit=0,
                        net__ipv6__icmp__ratelimit=0)
        try:
            self._widen_outside()
            self._make_balancer()
            for node, f in itertools.product(self.nodes, FAMILIES):
                self._servers.append(Server(
                    node, "host-" + node.label, "--address", node.of(f),
                    tcp=[HOST_PORT], udp=[HOST_PORT]))
        except BaseException:
            self.close()
            raise

    def _widen_outside(self):
        for f in FAMILIES:
            for number in OUTSIDE_MORE:
                # Deprecated: only for who asks for it.
                self.outside.ip("addr", "add", host_of("outside", f,
                                                       number)[0],
                                "dev", "eth0", "preferred_lft", "0")
            self.outside.ip("route", "add", "default", "via",
                            host_of("outside", f, ROUTER)[1])
            self.outside.ip("route", "add", EXTERNAL[f], "via",
                            host_of("outside", f, ROUTER)[1])
            self.router.ip("route", "add", "blackhole", EXTERNAL[f])

    def _make_balancer(self):
        """It has all external addresses, if it is asked."""
        self.balancer = Namespace("balancer")
        self._netns._all.append(self.balancer)
        quiet_links(self.balancer)
        self.balancer.sysctl(net__ipv6__ip_nonlocal_bind=1)
        self.router.connect(self.balancer, "outside", "eth0")
        for f in FAMILIES:
            self.balancer.ip("addr", "add", host_of("outside", f,
                                                    BALANCER)[0],
                             "dev", "eth0")
            self.balancer.ip("route", "add", "default", "via",
                             host_of("outside", f, ROUTER)[1])
            self.balancer.ip("route", "add", "local", EXTERNAL[f], "dev",
                             "lo")
        self._servers.append(Server(
            self.balancer, "balancer", tcp=[BALANCED_PORTS],
            udp=[BALANCED_PORTS]))

    def lead(self, address, node=None):
        """The router sends an external address to a node, or to the
        balancer."""
        f = 6 if ":" in address else 4
        self.router.route(address, node.of(f) if node else host_of(
            "outside", f, BALANCER)[1])

    def lead_all(self):
        """The router sends all external addresses to the balancer."""
        self.router.batch(*(
            "route replace %s via %s" % (
                objects.nth(EXTERNAL[f], n), host_of("outside", f,
                                                     BALANCER)[1])
            for f in FAMILIES for n in range(1, 127)))

    def strict_and_closed(self):
        """Nodes as distributions ship them: reverse path filters on the first
        one, a firewall that forwards nothing by itself on the last one."""
        first, last = self.nodes[0], self.nodes[-1]
        for link in ("all", "default", first.link):
            first.sysctl(**{"net__ipv4__conf__%s__rp_filter" % link: 1})
        for command in ("iptables", "ip6tables"):
            last.run(command, "-P", "FORWARD", "DROP")

    # Endpoints and clients.

    def pod(self, n_node, n_pod=0, **more):
        """A pod as an endpoint."""
        node = self.nodes[n_node]
        return Target(node, node.pods[n_pod], more)

    def host(self, n_node):
        """A host as an endpoint."""
        return Target(self.nodes[n_node])

    def askers(self, n_pod=1):
        """A pod and the host of each node, and the outside."""
        for node in self.nodes:
            yield Asker(node.pods[n_pod], node, True)
            yield Asker(node, node)
        yield Asker(self.outside)

    def outside_askers(self, family):
        """The outside with each of its addresses."""
        return [Asker(self.outside, source=host_of("outside", family, n)[1])
                for n in (OUTSIDE, *OUTSIDE_MORE)]

    def restart(self, member, **config):
        """Restarts a node's daemon with more of a configuration than the
        others have."""
        member.daemon.write_config(**{**self.config, **config})
        member.daemon.restart()
        member.daemon.wait_synced()
        member.switch.wait_revalidated()

    # Waiting.

    def settle(self, timeout=20):
        """Waits until all daemons have taken and written what the API server
        has by now of Services and slices: a last change of each says so; and
        until the switches have nothing older in their caches."""
        serial = next(self._serials)
        with self.api.batch():
            self.api.apply(objects.service(
                NAMESPACE, MARKER, [serial],
                [objects.nth(SERVICE_CIDRS[4], 65000)]))
            self.api.apply(objects.slice_(NAMESPACE, MARKER, [
                objects.endpoint("192.0.2.200", "elsewhere")], [serial]))
        for member in self.members:
            wait_for(lambda m=member: self._is_marked(m.daemon, serial),
                     timeout, "the last change", member.daemon)
            member.daemon.wait_synced()
            member.switch.wait_revalidated()

    @staticmethod
    def _is_marked(daemon, serial):
        text = daemon.appctl("flows", NAMESPACE + "/" + MARKER, check=False)
        return ("tp_dst=%d " % serial in text
                and "192.0.2.200:%d)" % serial in text)

    # What should come.

    def gateway(self, node, family):
        """The gateway's address on a node."""
        if self.mode == "networkPolicyOnly":
            return node.of(family)
        return str(next(c for c in node.cidrs if c.version == family)[1])

    def translated(self, node, target, family):
        """The source of what a node has given one of its own."""
        if target.node is node:
            return (self.gateway(node, family) if target.pod
                    else VIRTUAL[family])
        if target.pod and self.kind(node, target.node) != "plain":
            return self.gateway(node, family)
        return node.of(family)

    def kept(self, asker, target, family):
        """The source of what a pod sends and no node translates, but for
        what leaves the cluster's pod networks."""
        if (target.pod is None and target.node is not asker.node
                and self.masquerades):
            return asker.node.of(family)
        return asker.who.of(family)

    def arriving(self, asker, family):
        """The source of a client at a node that is not its own."""
        if asker.source:
            return asker.source
        if asker.is_pod and not self.masquerades:
            return asker.who.of(family)
        return (asker.node.of(family) if asker.node
                else self.outside_address(family))

    def want(self, asker, entry, family, targets, policy, inside=False):
        """What a client gets of a Service with these endpoints, at an
        address that the node 'entry' leads in; 'inside': at its cluster IP
        (services.md 2.5)."""
        if not targets:
            return REFUSED
        at_home = asker.node is entry
        if policy == "Local" and (inside or not at_home):
            targets = [t for t in targets if t.node is entry]
        if not targets:
            return SILENCE
        kept = at_home and asker.is_pod and (inside or policy == "Local")
        seen = {}
        for t in targets:
            if kept:
                seen[t.server] = self.kept(asker, t, family)
            elif not at_home and (t.pod and t.node is entry if inside
                                  else policy == "Local"):
                seen[t.server] = self.arriving(asker, family)
            else:
                seen[t.server] = self.translated(entry, t, family)
            if kept and t.pod is asker.who:
                seen[t.server] = self.gateway(entry, family)
        return Answer(seen)
