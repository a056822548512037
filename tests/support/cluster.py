# SPDX-License-Identifier: Apache-2.0
"""A whole small cluster for the system tests: a node with pods that serve,
something outside, the API server, and ofproxyd.

    with Cluster(directory) as cluster:
        web = cluster.service([at(cluster.pods[1]), at(cluster.pods[2])])
        result = web.ask(cluster.pods[0], family=6, proto="udp")
"""
import itertools
import pathlib
import re
from dataclasses import dataclass, field

from support import objects, packets
from support.apiserver import ApiServer
from support.daemon import Ofproxyd
from support.netns import Netns, Node
from support.traffic import Client, Server
from support.wait import wait_for

FAMILIES = (4, 6)
NODE = {4: "192.0.2.11", 6: "2001:db8:2::11"}
OUTSIDE = {4: "192.0.2.1", 6: "2001:db8:2::1"}
VIRTUAL_MAC = "aa:bb:cc:dd:ee:ff"
SERVICE_CIDRS = {4: "10.96.0.0/16", 6: "2001:db8:96::/112"}
PORT = 80                       # Of every Service.
SERVED = "8080-8129"            # What every pod serves, TCP and UDP.
NAMESPACE = "ns1"


@dataclass(frozen=True)
class Member:
    """A node of a cluster and its daemon."""
    node: Node
    daemon: Ofproxyd

    @property
    def name(self):
        """The Node object's."""
        return self.node.node_name

    @property
    def switch(self):
        """The node's."""
        return self.node.switch


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of a Service: addresses by family, and its port."""
    addresses: dict
    port: int
    node: str
    more: dict = field(default_factory=dict)


def at(where, port=8080, node=None, **more):
    """An endpoint in a pod, or at {family: address}; 'more' as for
    objects.endpoint()."""
    if isinstance(where, dict):
        return Endpoint(where, port, node or "n2", more)
    addresses = {6 if ":" in a else 4: a for a in where.addresses}
    return Endpoint(addresses, port, node or where.node.node_name, more)


class Service:
    """A Service with port 80 of TCP and UDP (and SCTP if asked for)."""

    def __init__(self, cluster, name, number, families=FAMILIES, sctp=False,
                 **spec):
        self.cluster, self.name, self.families = cluster, name, families
        self.number, self._spec = number, spec
        self.addresses = {f: objects.nth(cluster.service_cidrs[f], number)
                          for f in families}
        self.protocols = ["TCP", "UDP"] + ["SCTP"] * sctp
        self.endpoints = []
        self._slices = {}

    def of(self, family):
        """Its cluster IP."""
        return self.addresses[family]

    def object(self):
        """As the API has it."""
        return objects.service(
            NAMESPACE, self.name,
            [objects.port(PORT, p.lower(), p) for p in self.protocols],
            [self.addresses[f] for f in self.families], **self._spec)

    def _make_slices(self):
        """One for each port and family, by name."""
        made = {}
        by_slice = {}
        for e, family in itertools.product(self.endpoints, self.families):
            if family in e.addresses:
                by_slice.setdefault((e.port, family), []).append(
                    objects.endpoint(e.addresses[family], e.node, **e.more))
        for (port, family), endpoints in by_slice.items():
            name = "%s-%d-%d" % (self.name, port, family)
            made[name] = objects.slice_(
                NAMESPACE, self.name, endpoints,
                [(port, p.lower(), p) for p in self.protocols], name=name)
        return made

    def set(self, endpoints, wait=True):
        """Gives it these endpoints, in one go; waits until they are in use."""
        self.endpoints = list(endpoints)
        old, self._slices = self._slices, self._make_slices()
        api = self.cluster.api
        with api.batch():
            api.apply(self.object())
            for made in self._slices.values():
                api.apply(made)
            for name in old.keys() - self._slices.keys():
                api.delete("endpointslices", NAMESPACE, name)
        return self.wait() if wait else self

    def change(self, **spec):
        """Changes fields of its spec; waits until that is in use."""
        self._spec.update(spec)
        return self.set(self.endpoints)

    def delete(self):
        """Takes it and its slices away; waits until it is gone."""
        api = self.cluster.api
        with api.batch():
            api.delete("services", NAMESPACE, self.name)
            for name in self._slices:
                api.delete("endpointslices", NAMESPACE, name)
        self._slices = {}
        for member in self.cluster.members:
            daemon = member.daemon
            wait_for(lambda d=daemon: NAMESPACE + "/" + self.name + " "
                     not in d.appctl("services"), 10, "the Service's end",
                     daemon)
            daemon.wait_synced()

    @property
    def _local(self):
        return self._spec.get("internalTrafficPolicy") == "Local"

    def _expected(self, here):
        """The endpoints that buckets must have, as they are printed, on the
        node of this name."""
        texts = set()
        for e, family in itertools.product(self.endpoints, self.families):
            if (family in e.addresses and e.more.get("ready", True)
                    and (not self._local or e.node == here)):
                text = "[%s]:%d" if family == 6 else "%s:%d"
                texts.add(text % (e.addresses[family], e.port))
        return texts

    def _n_drops(self, here):
        """How many flows drop: those of families that have endpoints, but
        none that policy Local allows."""
        anywhere, local = (
            {family for e in self.endpoints for family in e.addresses
             if e.more.get("ready", True) and (e.node == here or elsewhere)}
            for elsewhere in (True, False))
        return self._local * len(self.protocols) * len(
            (anywhere - local) & set(self.families))

    def _flows(self, daemon):
        """What a daemon has rendered: [state, flow or group]."""
        text = daemon.appctl(
            "flows", NAMESPACE + "/" + self.name, check=False)
        return [line.split(None, 1) for line in text.splitlines()
                if line.startswith(("installed ", "missing ", "differs "))]

    def _is_installed(self, member):
        lines = self._flows(member.daemon)
        text = "\n".join(item for _, item in lines)
        groups = re.findall(r"ServiceLB.*group:(\d+)", text)
        whole = "\n".join(item for _, item in lines
                          if "nw_frag=" not in item)
        return (whole.count("table=ServiceLB")
                == len(self.protocols) * len(self.families)
                and all(state == "installed" for state, _ in lines)
                and set(re.findall(r"nat\(dst=([^)]+)\)", text))
                == self._expected(member.name)
                and whole.count("actions=drop") == self._n_drops(member.name)
                and all(bool(int(g) & 0x100) == self._local for g in groups))

    def wait(self, timeout=10):
        """Waits until the bridges have what the API has.  (A daemon may have
        more to do: groups that nobody uses linger for a while.)"""
        for member in self.cluster.members:
            wait_for(lambda m=member: self._is_installed(m), timeout,
                     "the endpoints of " + self.name, member.daemon)
        return self

    def client(self, namespace, kind="connect", family=4, **more):
        """Traffic to it (traffic.Client)."""
        return Client(namespace, kind, self.of(family), PORT, **more)

    def ask(self, namespace, family=4, count=1, **more):
        """The result of some questions."""
        return self.client(namespace, "connect", family, count=count,
                           **more).wait()

    def counters(self, table="ServiceLB"):
        """n_packets of its flows: {match and actions: packets}."""
        found = {}
        text = self.cluster.node.switch.ofctl(
            "dump-flows", "table=" + table, options=("--names",))
        for line in text.splitlines():
            if any("=%s," % a in line for a in self.addresses.values()):
                found[line.split(", ")[-1].strip()] = int(
                    re.search(r"n_packets=(\d+)", line)[1])
        return found


class Base:
    """What clusters of any number of nodes have.

    members: its nodes with their daemons."""
    service_cidrs = SERVICE_CIDRS

    def __init__(self, families):
        self.families = families
        self.members = []
        self.api = None
        self._names = itertools.count(1)
        self._netns = Netns()
        self._servers = []

    def close(self):
        """Takes all away; never fails."""
        for server in self._servers:
            server.stop()
        for member in self.members:
            member.daemon.stop()
        if self.api:
            self.api.stop()
        self._netns.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def serve(self, pods, ports=SERVED):
        """Lets pods serve on all of these ports, TCP and UDP."""
        self._servers += [Server(pod, pod.pod_name, "--by-port",
                                 tcp=[ports], udp=[ports])
                          for pod in pods]

    def wait_pods(self, timeout=10):
        """Waits until every pod reaches the gateway port of its node."""
        for member in self.members:
            for pod in member.node.pods:
                for address in pod.addresses:
                    member.daemon.wait_flow(
                        "L3Forwarding", "_dst=%s " % address,
                        timeout=timeout)
            member.daemon.wait_synced()

    def service(self, endpoints=(), wait=True, **more):
        """A new Service (see Service) with these endpoints."""
        number = next(self._names)
        more.setdefault("families", self.families)
        made = Service(self, "svc-%d" % number, number, **more)
        return made.set(endpoints, wait)

    def unexpected_warnings(self):
        """Of the daemons and the switches."""
        return [line for member in self.members
                for line in member.daemon.unexpected_warnings()
                + member.switch.unexpected_warnings()]


class Cluster(Base):
    """See the top of the file: one node.

    n_pods: pods that serve TCP and UDP on ports 8080 to 8129, each as
        "NAME:PORT", NAME being p0, p1 and so on.
    families: those of the node's pod networks.
    config: keys of antrea-agent.conf."""

    def __init__(self, directory, n_pods=3, families=FAMILIES, **config):
        super().__init__(families)
        directory = pathlib.Path(directory)
        cidrs = {4: "10.10.1.0/24", 6: "2001:db8:10:1::/64"}
        try:
            self.node = self._netns.node("n1", directory / "node", cidrs=[
                cidrs[f] for f in families])
            self.outside = self._netns.namespace("outside")
            self.api = ApiServer(directory / "api", netns=self.node.name)
            self.daemon = Ofproxyd(directory / "ofproxyd", self._start_api(),
                                   self.node.switch, **config)
            self.members = [Member(self.node, self.daemon)]
            self._connect_outside()
            self.daemon.start()
            self.pods = [self.node.add_pod("p%d" % i) for i in range(n_pods)]
            self.serve(self.pods)
            self.wait_pods()
        except BaseException:
            self.close()
            raise

    def _start_api(self):
        self.api.apply(objects.node("n1", [str(c) for c in self.node.cidrs],
                                    [NODE[f] for f in self.families]))
        return self.api.start()

    def _connect_outside(self):
        """A wire to a namespace that knows the way to the pods."""
        lengths = {4: 24, 6: 64}
        self.outside.sysctl(net__ipv6__conf__default__accept_dad=0)
        first, *rest = self.families
        here, there = self._netns.connect(
            self.node, self.outside, "%s/%d" % (NODE[first], lengths[first]),
            "%s/%d" % (OUTSIDE[first], lengths[first]))
        for f in rest:
            self.node.ip("addr", "add", "%s/%d" % (NODE[f], lengths[f]),
                         "dev", here, "nodad")
            self.outside.ip("addr", "add", "%s/%d" % (OUTSIDE[f], lengths[f]),
                            "dev", there, "nodad")
        for cidr in self.node.cidrs:
            self.outside.ip("route", "add", str(cidr), "via",
                            NODE[cidr.version])

    @property
    def host(self):
        """The node as a client."""
        return self.node

    def gateway(self, family):
        """The gateway's address."""
        return str(next(c for c in self.node.cidrs
                        if c.version == family)[1])

    def gateway_mac(self):
        """The gateway's MAC address."""
        return packets.mac_of(self.node, "antrea-gw0")

    def sent(self):
        """How many modifications the daemon has sent since its start."""
        line = re.search(r"^sent: (.*)$", self.daemon.appctl("sync"), re.M)
        return {name: int(n) for n, name in
                re.findall(r"(\d+) ([a-z ]+)", line[1])}


def lost_syns(namespace):
    """How often a namespace has sent a SYN again: none is lost if never."""
    text = namespace.run("cat", "/proc/net/netstat").stdout
    rows = [line.split() for line in text.splitlines()
            if line.startswith("TcpExt:")]
    return int(dict(zip(*rows))["TCPSynRetrans"])
