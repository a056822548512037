# SPDX-License-Identifier: Apache-2.0
"""A cluster of several nodes, each with its own switch and ofproxyd, on an
underlay of two subnets with a router between them.

                      router 203.0.113.1 -- outside 203.0.113.2
        subnet a 192.0.2.1 |            | 198.51.100.1 subnet b
              +------------+--+         +--+
           n1 .11          n2 .12          n3 .13

    with MultiCluster(directory, subnets="aab", mode="hybrid") as cluster:
        one, two, three = (node.pods[0] for node in cluster.nodes)
        with cluster.capture() as capture:
            packets.ping(one, 4, three.of(4))
        assert capture.between(one.of(4), three.of(4)) == {"geneve"}

IPv6 likewise: 2001:db8:2::/64, 2001:db8:5::/64, 2001:db8:7::/64.  The API
server listens in the router's namespace.  Captures are made there too, where
each node's link ends.

Without a kernel datapath, tunnels leave by a bridge that has the node's
address (Open vSwitch's userspace tunnelling): "br-phy", with the link to the
router as its port.  Modes without tunnels have the address on the link.
"""
import contextlib
import ipaddress
import json
import pathlib
import re

from support import objects, packets
from support.apiserver import ApiServer
from support.capture import Capture
from support.cluster import FAMILIES, SERVICE_CIDRS, Base, Member
from support.daemon import Ofproxyd
from support.netns import Namespace, Node
from support.rig import State
from support.wait import wait_for

SUBNETS = {"a": {4: "192.0.2.0/24", 6: "2001:db8:2::/64"},
           "b": {4: "198.51.100.0/24", 6: "2001:db8:5::/64"},
           "outside": {4: "203.0.113.0/24", 6: "2001:db8:7::/64"}}
TUNNELLING = ("encap", "hybrid")
OVERHEAD = {"geneve": 50, "vxlan": 50, "gre": 42}   # Over IPv4.
GATEWAY = "antrea-gw0"
UPLINK, UNDERLAY_BRIDGE = "uplink", "br-phy"
SERVED = "8080-8081"            # What every pod serves, TCP and UDP.
ROUTER, OUTSIDE = 1, 2          # The hosts' numbers in their networks.


def pod_cidrs(number, families=FAMILIES):
    """The pod networks of the node with this number."""
    texts = {4: "10.10.%d.0/24", 6: "2001:db8:10:%d::/64"}
    return [texts[f] % number for f in families]


def host_of(subnet, family, number):
    """The address of a host, with and without prefix length."""
    network = ipaddress.ip_network(SUBNETS[subnet][family])
    return "%s/%d" % (network[number], network.prefixlen), str(network[number])


def ghost(number, subnet="a", name=None, cidrs=None):
    """A Node object that nobody runs, with this host's address."""
    return objects.node(name or "ghost-%d" % number,
                        cidrs or pod_cidrs(number),
                        [host_of(subnet, f, number)[1] for f in FAMILIES])


def quiet_links(namespace):
    """New links of a namespace speak when they are told to only."""
    namespace.sysctl(net__ipv6__conf__default__accept_dad=0,
                     net__ipv6__conf__default__dad_transmits=0,
                     net__ipv6__conf__default__accept_ra=0,
                     net__ipv6__conf__default__router_solicitations=0)


class Router(Namespace):
    """Between the subnets, and to the outside; knows no way to pods."""

    def __init__(self, label):
        super().__init__(label)
        quiet_links(self)
        self.sysctl(net__ipv4__ip_forward=1,
                    net__ipv6__conf__all__forwarding=1,
                    net__ipv4__conf__all__rp_filter=0,
                    net__ipv4__conf__default__rp_filter=0,
                    net__ipv4__conf__all__send_redirects=0,
                    net__ipv4__conf__default__send_redirects=0,
                    # Errors are what some tests look for.
                    net__ipv4__icmp_ratelimit=0, net__ipv6__icmp__ratelimit=0)
        for number, subnet in enumerate(SUBNETS):
            # Without an address of its own it takes one of its ports', and
            # another one when the next node comes.
            self.ip("link", "add", "sub-" + subnet, "address",
                    "02:00:00:00:01:%02x" % number, "type", "bridge")
            self.ip("link", "set", "sub-" + subnet, "up")
            for family in FAMILIES:
                self.ip("addr", "add", host_of(subnet, family, ROUTER)[0],
                        "dev", "sub-" + subnet)

    def connect(self, namespace, subnet, link=UPLINK, mtu=1500):
        """A link from a namespace to a subnet; its name at this end."""
        end = "to-" + namespace.label
        namespace.batch(
            "link add %s mtu %d type veth peer name %s mtu %d netns %s"
            % (link, mtu, end, mtu, self.name), "link set %s up" % link)
        self.batch("link set %s master sub-%s up" % (end, subnet))
        # A switch in userspace wants whole checksums; and what is captured
        # should be the packets of the wire.
        for one, name in ((namespace, link), (self, end)):
            one.run("ethtool", "-K", name, "tx", "off", "gro", "off")
        return end

    def route(self, cidr, via):
        """Lets it know a way; via=None: no longer."""
        if via:
            self.ip("route", "replace", str(cidr), "via", via)
        else:
            self.ip("route", "del", str(cidr))


class UnderlayNode(Node):
    """A node with an address on a subnet.

    number: of its addresses and pod networks.  bridged: the address is on
    UNDERLAY_BRIDGE.  chained: a primary CNI has given the pods addresses and
    host routes, and they have no network of their own."""

    def __init__(self, name, directory, *, number=1, subnet="a",
                 families=FAMILIES, underlay=FAMILIES, bridged=True,
                 chained=False):
        super().__init__(name, directory, pod_cidrs(number, families))
        self.number, self.subnet = number, subnet
        self.underlay_families = underlay
        self.bridged, self.chained = bridged, chained
        quiet_links(self)

    @property
    def link(self):
        """The link that has the node's addresses."""
        return UNDERLAY_BRIDGE if self.bridged else UPLINK

    def of(self, family):
        """The node's own address."""
        return host_of(self.subnet, family, 10 + self.number)[1]

    def object(self, **spec):
        """The Node."""
        cidrs = [] if self.chained else [str(c) for c in self.cidrs]
        return objects.node(self.node_name, cidrs, [
            self.of(f) for f in self.underlay_families], **spec)

    def bring_up_underlay(self):
        """Gives the link its addresses and routes, as the system's network
        configuration would; also after the switch has been restarted."""
        if self.bridged:
            self._make_bridge()
        # So that replies to peers don't depend on who asks first.
        self.ip("link", "set", self.link, "up")
        for family in self.underlay_families:
            address, _ = host_of(self.subnet, family, 10 + self.number)
            more = ["nodad"] if family == 6 else []
            self.ip("addr", "replace", address, "dev", self.link, *more)
            self.ip("-%d" % family, "route", "replace", "default", "via",
                    host_of(self.subnet, family, ROUTER)[1])

    def _make_bridge(self):
        """The link to the router as a port of a bridge.

        The kernel sees what the switch reads from that link, too.  It does
        not answer, since the bridge has another MAC address and the link has
        no IP address."""
        self.sysctl(**{"net__ipv6__conf__%s__disable_ipv6" % UPLINK: 1})
        self.switch.vsctl(
            "--may-exist", "add-br", UNDERLAY_BRIDGE, "--", "set", "bridge",
            UNDERLAY_BRIDGE, "datapath_type=netdev",
            "other_config:hwaddr=02:00:00:00:00:%02x" % self.number, "--",
            "--may-exist", "add-port", UNDERLAY_BRIDGE, UPLINK)

    def restart_switch(self, hard=False):
        """Restarts ovs-vswitchd; bridges' links lose their addresses."""
        self.switch.restart(hard)
        self.bring_up_underlay()

    def prefix_of(self, address):
        if self.chained:
            return ipaddress.ip_address(address).max_prefixlen
        return super().prefix_of(address)

    def gateway_of(self, address):
        if self.chained:
            return self.of(ipaddress.ip_address(address).version)
        return super().gateway_of(address)

    def add_pod(self, name, n=None, namespace="ns1", families=FAMILIES):
        pod = super().add_pod(name, n, namespace, families)
        if self.chained:
            for address in pod.addresses:
                self.ip("route", "replace", address, "dev", GATEWAY)
        return pod


class MultiCluster(Base):
    """See the top of the file.

    subnets: one letter for each node.
    mode, tunnel: trafficEncapMode and tunnelType.
    families: of the pods' addresses; underlay: of the nodes'.
    outside_knows: the outside and the router know the way to the pods; the
        router does in noEncap and networkPolicyOnly anyhow.
    n_pods: on each node; each serves TCP and UDP on 8080 and 8081 as
        "NAME:PORT", NAME being n1-0, n1-1, n2-0 and so on.
    daemons: False for a rig without ofproxyd.
    bridged: False for addresses on the links also where there are tunnels;
        then these carry nothing, but the host sees what comes for them, as
        with the kernel's datapath.
    beside: another cluster, on whose underlay this one is, too; then
        'first' is the number of its first node and 'service_cidrs' the
        networks of its Services.
    resources: more kinds that the API server has (apistore.Resource).
    config: more keys of antrea-agent.conf."""

    def __init__(self, directory, subnets="aa", *, mode="encap",
                 tunnel="geneve", families=FAMILIES, underlay=FAMILIES,
                 outside_knows=False, n_pods=2, daemons=True, bridged=True,
                 beside=None, first=1, service_cidrs=None, resources=(),
                 **config):
        super().__init__(families)
        self._dir = pathlib.Path(directory)
        self._beside, self._first = beside, first
        self._resources = resources
        self.service_cidrs = service_cidrs or SERVICE_CIDRS
        self.mode, self.tunnel, self.underlay = mode, tunnel, underlay
        self.outside_knows, self._bridged = outside_knows, bridged
        self._n_pods, self._daemons = n_pods, daemons
        config.setdefault("antreaProxy", {"proxyAll": True})
        self.config = {"trafficEncapMode": mode, "tunnelType": tunnel,
                       "serviceCIDR": self.service_cidrs[4],
                       "serviceCIDRv6": self.service_cidrs[6], **config}
        self.nodes = []
        try:
            self._make_underlay()
            for subnet in subnets:
                self.add_node(subnet, pods=False)
            for node in self.nodes:
                self.add_pods(node)
            if daemons:
                self.wait_pods()
            if daemons and (bridged or not self.tunnels):
                self.wait_connected()
        except BaseException:
            self.close()
            raise

    def _make_underlay(self):
        if self._beside:
            self.router = self._beside.router
            self.outside = self._beside.outside
        else:
            self._make_router()
        self.api = ApiServer(self._dir / "api", netns=self.router.name,
                             address=host_of("outside", self.underlay[0],
                                             ROUTER)[1])
        for resource in self._resources:
            self.api.add_resource(resource)
        self.api.start()

    def _make_router(self):
        self.router = Router("router")
        self.outside = Namespace("outside")
        # pylint: disable=protected-access
        self._netns._all += [self.router, self.outside]
        quiet_links(self.outside)
        self.router.connect(self.outside, "outside", "eth0")
        for f in FAMILIES:
            self.outside.ip("addr", "add", host_of("outside", f, OUTSIDE)[0],
                            "dev", "eth0")
            for subnet in ("a", "b"):
                self.outside.ip("route", "add", SUBNETS[subnet][f], "via",
                                host_of("outside", f, ROUTER)[1])

    # Nodes.

    @property
    def tunnels(self):
        """Whether the mode has tunnels."""
        return self.mode in TUNNELLING

    @property
    def pod_mtu(self):
        """What the mode leaves to pods."""
        if not self.tunnels and "multicluster" not in self.config:
            return 1500
        return 1500 - OVERHEAD[self.tunnel] - 20 * (6 in self.underlay)

    def kind(self, one, other):
        """How packets of pods pass between two nodes: "geneve", "plain"
        and so on (capture.Seen)."""
        if self.mode == "encap" or (self.mode == "hybrid"
                                    and one.subnet != other.subnet):
            return self.tunnel
        return "plain"

    @property
    def masquerades(self):
        """Whether the outside sees the node's address, not the pod's."""
        return (self.mode != "networkPolicyOnly"
                and not self.config.get("noSNAT"))

    def add_node(self, subnet="a", pods=True, apply=True):
        """One more node; pods=False: without pods yet; apply=False: without
        its Node object."""
        number = len(self.nodes) + self._first
        name = "n%d" % number
        node = UnderlayNode(
            name, self._dir / name, number=number, subnet=subnet,
            families=self.families, underlay=self.underlay,
            bridged=self._bridged and (self.tunnels
                                       or "multicluster" in self.config),
            chained=self.mode == "networkPolicyOnly")
        # pylint: disable=protected-access
        self._netns._all.append(node)
        node.pod_mtu = self.pod_mtu
        self.nodes.append(node)
        node.start_switch()
        self.router.connect(node, subnet)
        node.bring_up_underlay()
        self._tell_the_way(node)
        if apply:
            self.api.apply(node.object())
        if self._daemons:
            daemon = Ofproxyd(self._dir / ("ofproxyd-" + name), self.api,
                              node.switch, node=name, **self.config)
            self.members.append(Member(node, daemon))
            daemon.start()
        if pods:
            self.add_pods(node)
            self.wait_pods()
        return node

    def _tell_the_way(self, node):
        """To the node's pods, for those who have to know."""
        for cidr in node.cidrs:
            f = cidr.version
            if f not in self.underlay:
                continue
            if not self.tunnels or self.outside_knows:
                self.router.route(cidr, node.of(f))
            if self.outside_knows:
                self.outside.ip("route", "add", str(cidr), "via",
                                host_of("outside", f, ROUTER)[1])

    def add_pods(self, node):
        """Pods that serve."""
        made = [node.add_pod("%s-%d" % (node.label, len(node.pods)),
                             families=self.families)
                for _ in range(self._n_pods)]
        self.serve(made, SERVED)
        return made

    def member(self, node):
        """The Member with this node."""
        return next(m for m in self.members if m.node is node)

    # What passes.

    def outside_address(self, family):
        """Of the outside client."""
        return host_of("outside", family, OUTSIDE)[1]

    @contextlib.contextmanager
    def narrow_outside(self):
        """The outside's link takes small packets only, as its router
        tells."""
        def set_mtu(mtu):
            self.outside.ip("link", "set", "eth0", "mtu", str(mtu))
            for link in ("to-outside", "sub-outside"):
                self.router.ip("link", "set", link, "mtu", str(mtu))
        set_mtu(1280)
        try:
            yield
        finally:
            set_mtu(1500)

    def capture(self, *nodes, ports=None):
        """A running capture on the underlay: of these nodes, or of all."""
        return Capture(self.router, *("to-" + n.label
                                      for n in nodes or self.nodes),
                       ports=ports)

    def wait_connected(self, timeout=10):
        """Waits until a pod of each node reaches one of each other node, in
        each family; so the switches know the tunnels' next hops, too."""
        for one in self.nodes:
            for other in self.nodes:
                for family in self.families if one is not other else ():
                    self._wait_ping(one.pods[0], other.pods[0], family,
                                    timeout)

    def _wait_ping(self, one, other, family, timeout):
        wait_for(lambda: packets.ping(one, family, other.of(family), 0.2),
                 timeout, "a ping from %s to %s over IPv%d"
                 % (one.label, other.label, family), self.dump)

    def dump(self):
        """For failure messages."""
        return "".join(m.daemon.dump() for m in self.members) + "".join(
            "--- %s\n%s" % (node.label, host_state(node))
            for node in self.nodes)


# The state of a node, as text.

def host_state(node):
    """What a node's host has of routes, addresses, neighbours and rules;
    only what does not change by itself."""
    show = {
        "addresses": "ip -o addr show scope global",
        "routes": "ip -4 route show table all",
        "routes 6": "ip -6 route show table all",
        "rules": "ip -4 rule show", "rules 6": "ip -6 rule show",
        "neighbours": "ip neigh show nud permanent",
        "links": "ip -o link show dev " + GATEWAY,
        "nftables": "nft -s list ruleset"}
    lines = []
    for name, command in show.items():
        text = node.run(*command.split(), check=False).stdout
        found = [_clean(line) for line in text.splitlines()]
        if not name.startswith("nft"):
            found.sort()        # The order is that of their making.
        lines += ["%s: %s" % (name, line) for line in found
                  if line and "fe80::" not in line and "ff00::" not in line
                  and "multicast" not in line]
    return "\n".join(lines) + "\n"


def _clean(line):
    """A line without numbers that the kernel gives, and timers."""
    line = re.sub(r"^\d+: ", "", line)
    line = re.sub(r"\\ .*(valid_lft|link/ether).*", "", line)
    return re.sub(r" (qlen|expires|hoplimit|error|state|qdisc) \S+"
                  r"| pref medium", "", line).rstrip()


def bridge_state(member):
    """Flows, groups and ports of a node's bridge, without ids that depend
    on what was before, and without the gateway's MAC address."""
    switch = member.switch
    lines = State(switch, member.daemon).named
    rows = json.loads(switch.vsctl(
        "--format=json", "--columns=name,type,options,mtu_request,ofport",
        "list", "Interface"))["data"]
    lines += ["port %s" % row for row in sorted(rows)]
    text = "\n".join(lines) + "\n"
    found = re.search(r"link/ether (\S+)", member.node.run(
        "ip", "link", "show", GATEWAY, check=False).stdout)
    return text.replace(found[1], "GATEWAY-MAC") if found else text


def state(member):
    """All that a daemon has made on its node, as text: equal texts mean
    equal behaviour."""
    return bridge_state(member) + host_state(member.node)


def wipe(member):
    """Takes away all that a daemon may have made, as on a node that has
    never seen one; the daemon has ended before.  Its pods stay, without
    ports: attach them again."""
    node, switch = member.node, member.switch
    for pod in node.pods:
        pod.detach()
    switch.vsctl("--if-exists", "del-br", switch.bridge)
    node.run("nft", "flush", "ruleset")
    for family in "46":
        text = node.ip("-" + family, "-o", "route", "show", "table", "all")
        for protocol in set(re.findall(r"proto (\d+)", text)):
            node.run("ip", "-" + family, "route", "flush", "table", "all",
                     "proto", protocol, check=False)
