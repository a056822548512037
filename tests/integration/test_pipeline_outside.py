# SPDX-License-Identifier: Apache-2.0
"""NodePorts, external addresses and source ranges: who gets which endpoint,
and under which source.

No daemon takes part; the flows are those that src/pipeline renders."""
import contextlib
import itertools
import random
import re

import pytest

from support import packets
from support.packets import SCTP, SYN, TCP, UDP
from support.pipenode import VIRTUAL_IP, VIRTUAL_MAC, PipeNode, Service
from support.wait import wait_for

FAMILIES = pytest.mark.parametrize("family", [4, 6])
CLUSTER_IP = {4: "10.96.0.10", 6: "2001:db8:96::10"}
EXTERNAL_IP = {4: "203.0.113.80", 6: "2001:db8:f::80"}
LB_IP = {4: "203.0.113.81", 6: "2001:db8:f::81"}
NODE_PORT_IP = {4: "169.254.0.252", 6: "fc01::aabb:ccdd:eefe"}
CLIENT = {4: "198.51.100.9", 6: "2001:db8:9::9"}
REMOTE = {4: "198.18.0.7", 6: "2001:db8:18::7"}
PROTO = {"tcp": TCP, "udp": UDP, "sctp": SCTP}
NODE_PORT = 30080
SPORT = iter(range(20000, 60000))
SCTP_CLIENTS = itertools.count(10)


def marked(number):
    """What tells a packet of this test: a translated source has another
    port."""
    return b"\xbe\xef" + number.to_bytes(2, "big")


class Node(PipeNode):
    """A node that serves NodePorts."""

    def __init__(self, directory, number, mode):
        super().__init__(directory, number, mode)
        self.node_ports(*self.transport.values())

    def client(self, who, family):
        """Port and address of a client: "pod", "host" or "outside"."""
        if who == "pod":
            return self.pods[1].name, self.pods[1].of[family]
        return "gw", {"host": self.gateway[family],
                      "outside": CLIENT[family]}[who]

    def open(self, who, dst, dport, proto="udp", family=4, src=None):
        """Sends the first packet of a connection; its source port."""
        port, address = self.client(who, family)
        sport = next(SPORT)
        self.send(port, packets.ip(src or address, dst, PROTO[proto],
                                   self.first(proto, sport, dport)),
                  dst_mac=VIRTUAL_MAC if port == "gw" else None)
        return sport

    @staticmethod
    def first(proto, sport, dport):
        """The first packet of a connection, from its ports on."""
        if proto == "tcp":
            return packets.tcp(sport, dport, SYN,
                               int.from_bytes(marked(sport), "big"))
        if proto == "udp":
            return packets.udp(sport, dport, marked(sport))
        return packets.sctp_init(sport, dport)

    def arrived(self, sport):
        """Where the packet that began with a source port has left: a list of
        port and frame."""
        return [(port, frame) for port in ("gw", "pod1", "pod2")
                for frame in self.frames(port)
                if frame.proto in (TCP, UDP) and marked(sport) in frame.l4
                or frame.proto == SCTP and frame.ports[0] == sport]

    def left(self, sport):
        """By which port, and as which frame; waits."""
        found, = wait_for(lambda: self.arrived(sport), 10,
                          "the packet to leave", self.dump)
        return found

    def result(self, sport):
        """Port, source and destination by which a packet has left; waits."""
        port, frame = self.left(sport)
        return port, frame.src, frame.dst

    def rejects(self):
        """How many packets were handed over for a reject."""
        return sum(int(re.search(r"n_packets=(\d+)", line)[1])
                   for line in self.switch.ofctl(
                       "dump-flows", "table=14").splitlines()
                   if "controller" in line)

    def check_lost(self, sport, family):
        """A packet has not left; one that was sent later has."""
        port, address = self.client("pod", family)
        mark = next(SPORT)
        self.send(port, packets.ip(address, self.pods[0].of[family], UDP,
                                   packets.udp(mark, 7, marked(mark))))
        self.result(mark)
        assert not self.arrived(sport)


@contextlib.contextmanager
def node_in(directory, mode="noEncap"):
    """A node that serves NodePorts."""
    with Node(directory, 1, mode) as made:
        yield made
        assert not made.switch.unexpected_warnings()


@pytest.fixture(name="node")
def node_(tmp_path):
    """See node_in()."""
    with node_in(tmp_path / "1") as made:
        yield made


KINDS = ["NodePort", "external", "load balancer", "virtual"]


def address(node, kind, family):
    """Address and port of a frontend; "virtual" is the NodePort as the host
    sends it to the bridge."""
    return {"ClusterIP": (CLUSTER_IP[family], 80),
            "NodePort": (node.transport[family], NODE_PORT),
            "virtual": (NODE_PORT_IP[family], NODE_PORT),
            "external": (EXTERNAL_IP[family], 80),
            "load balancer": (LB_IP[family], 80)}[kind]


def service(family, proto="udp", affinity=0, internal="cluster",
            external="cluster"):
    """One with every kind of address."""
    svc = Service(7, proto, family, affinity)
    svc.at("cluster-ip", CLUSTER_IP[family], 80, internal)
    svc.at("node-port", "-", NODE_PORT, external)
    svc.at("external", EXTERNAL_IP[family], 80, external)
    svc.at("external", LB_IP[family], 80, external)
    return svc


# reference: who gets what for a new connection.  'have' is which endpoints
# there are: local ones, remote ones; a result is a set of endpoints, DROP or
# REJECT, and whether the source becomes another.
DROP, REJECT = "drop", "reject"
SNAT, KEPT = True, False
ROWS = [
    # Kind, policy, have, client, result, source.
    ("ClusterIP", "cluster", "", "pod", REJECT, None),
    ("ClusterIP", "cluster", "", "host", REJECT, None),
    ("ClusterIP", "cluster", "l", "pod", "l", KEPT),
    ("ClusterIP", "cluster", "r", "pod", "r", KEPT),
    ("ClusterIP", "cluster", "l", "host", "l", KEPT),
    ("ClusterIP", "local", "", "pod", REJECT, None),
    ("ClusterIP", "local", "r", "pod", DROP, None),
    ("ClusterIP", "local", "r", "host", DROP, None),
    ("ClusterIP", "local", "lr", "pod", "l", KEPT),
    ("ClusterIP", "local", "lr", "host", "l", KEPT),
    ("ClusterIP", "local", "", "host", REJECT, None),
    ("ClusterIP", "cluster", "", "outside", REJECT, None),
    ("ClusterIP", "cluster", "l", "outside", "l", KEPT),
    ("ClusterIP", "cluster", "r", "host", "r", SNAT),
    ("ClusterIP", "cluster", "r", "outside", "r", SNAT),
    ("ClusterIP", "local", "", "outside", REJECT, None),
    ("ClusterIP", "local", "r", "outside", DROP, None),
    ("ClusterIP", "local", "lr", "outside", "l", KEPT),
] + [row for kind in KINDS for row in [
    (kind, "cluster", "", "pod", REJECT, None),
    (kind, "cluster", "", "host", REJECT, None),
    (kind, "cluster", "", "outside", REJECT, None),
    (kind, "cluster", "l", "pod", "l", SNAT),
    (kind, "cluster", "r", "pod", "r", SNAT),
    (kind, "cluster", "l", "host", "l", SNAT),
    (kind, "cluster", "r", "host", "r", SNAT),
    (kind, "cluster", "l", "outside", "l", SNAT),
    (kind, "cluster", "r", "outside", "r", SNAT),
    (kind, "local", "", "pod", REJECT, None),
    (kind, "local", "", "host", REJECT, None),
    (kind, "local", "", "outside", REJECT, None),
    (kind, "local", "r", "pod", "r", KEPT),
    (kind, "local", "l", "pod", "l", KEPT),
    (kind, "local", "r", "host", "r", SNAT),
    (kind, "local", "l", "host", "l", SNAT),
    (kind, "local", "lr", "outside", "l", KEPT),
    (kind, "local", "r", "outside", DROP, None),
]]


def expected_source(node, who, result, source, family):
    """The source of a packet at its endpoint.  The node's own has the
    gateway's address already; what goes to the host has the virtual one."""
    if source == KEPT:
        return node.client(who, family)[1]
    return (VIRTUAL_IP if result == "r" else node.gateway)[family]


def check_row(node, row, family, proto):
    """Sends a packet, and looks where it goes."""
    kind, _, _, who, result, source = row
    dst, dport = address(node, kind, family)
    before = node.rejects()
    # This datapath tracks SCTP without ports.
    node.flush_conntrack()
    sport = node.open(who, dst, dport, proto, family)
    if result == REJECT:
        wait_for(lambda: node.rejects() == before + 1, 10, "a reject",
                 node.dump)
        assert not node.arrived(sport)
        return
    if result == DROP:
        node.check_lost(sport, family)
        assert node.rejects() == before
        return
    endpoint = node.pods[0].of if result == "l" else REMOTE
    assert node.result(sport) == (
        "pod1" if result == "l" else "gw",
        expected_source(node, who, result, source, family), endpoint[family])


@FAMILIES
@pytest.mark.parametrize("proto,affinity", [
    ("tcp", 0), ("udp", 0), ("sctp", 0), ("tcp", 100)])
def test_every_row_of_the_table_of_verdicts(node, family, proto, affinity):
    """For new connections."""
    def setting(row):
        return row[0] == "ClusterIP", row[1], row[2]

    for key, rows in itertools.groupby(sorted(ROWS, key=setting), setting):
        cluster_ip, policy, have = key
        svc = service(family, proto, affinity, policy if cluster_ip else
                      "cluster", "cluster" if cluster_ip else policy)
        ends = {"l": node.pods[0].of[family], "r": REMOTE[family]}
        svc.endpoints["cluster"] = [ends[end] for end in have]
        svc.endpoints["local"] = [ends["l"]] if "l" in have else []
        node.serve(svc)
        node.load()
        for row in rows:
            # The policy Cluster's choice among both is of another test.
            check_row(node, row, family, proto)


@FAMILIES
@pytest.mark.parametrize("who", ["pod", "host", "outside"])
@pytest.mark.parametrize("end", ["l", "r"])
def test_answers_come_back_from_the_address_that_was_asked(node, family, who,
                                                           end):
    """Also to packets of a connection that nobody has answered yet."""
    svc = service(family)
    svc.endpoints["cluster"] = [node.pods[0].of[family] if end == "l" else
                                REMOTE[family]]
    node.serve(svc)
    node.load()
    port, src = node.client(who, family)
    for kind in KINDS:
        dst, dport = address(node, kind, family)
        sport = node.open(who, dst, dport, family=family)
        out, frame = node.left(sport)
        seen_as, endpoint, seen_port = frame.src, frame.dst, frame.ports[0]
        mac = VIRTUAL_MAC if port == "gw" else None
        for number in range(3):
            data = b"more %d" % number
            node.send(port, packets.ip(src, dst, UDP, packets.udp(
                sport, dport, data)), dst_mac=mac)
            more = node.got(out, lambda f, want=data: f.proto == UDP
                            and want in f.l4)
            assert (more.src, more.dst, more.ports) == (
                seen_as, endpoint, (seen_port, 8080))
            if not number:
                continue
            node.send(out, packets.ip(endpoint, seen_as, UDP, packets.udp(
                8080, seen_port, b"answer to " + data)), dst_mac=(
                    VIRTUAL_MAC if out == "gw" else None))
            back = node.got(port, lambda f, want=data: f.proto == UDP
                            and b"answer to " + want in f.l4)
            assert (back.src, back.dst, back.ports) == (dst, src,
                                                        (dport, sport))


@FAMILIES
@pytest.mark.parametrize("who", ["pod", "host", "outside"])
def test_the_answer_of_another_node_comes_back_by_this_one(tmp_path, family,
                                                           who):
    """Through the tunnel, and policy Cluster; the client may be anybody."""
    with Node(tmp_path / "1", 1, "encap") as one, \
            PipeNode(tmp_path / "2", 2, "encap") as two:
        one.connect(two)
        one.tunnel(two)
        two.tunnel(one)
        svc = service(family)
        peer = two.pods[0]
        svc.endpoints["cluster"] = [peer.of[family]]
        one.serve(svc)
        one.load()
        two.load()
        port, src = one.client(who, family)
        for kind in KINDS + ["ClusterIP"]:
            dst, dport = address(one, kind, family)
            sport = one.open(who, dst, dport, family=family)
            there = two.got(peer.name, lambda f, want=marked(sport):
                            f.proto == UDP and want in f.l4)
            kept = kind == "ClusterIP" and who == "pod"
            assert (there.src, there.dst) == (
                src if kept else one.gateway[family], peer.of[family])
            two.send(peer.name, packets.ip(
                peer.of[family], there.src, UDP,
                packets.udp(8080, there.ports[0], b"answer")))
            back = one.got(port, lambda f, want=sport: f.proto == UDP
                           and f.ports[1] == want)
            assert (back.src, back.dst, back.ports) == (dst, src,
                                                        (dport, sport))
        for each in (one, two):
            assert not each.switch.unexpected_warnings()


@FAMILIES
@pytest.mark.parametrize("external", ["cluster", "local"])
@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_an_error_is_told_to_the_client_outside(node, family, external,
                                                proto):
    """About the packet that it sent, from the address that it asked."""
    svc = service(family, proto, external=external)
    pod = node.pods[0]
    svc.endpoints = {"cluster": [pod.of[family]], "local": [pod.of[family]]}
    node.serve(svc)
    node.load()
    icmp = {4: packets.ICMP, 6: packets.ICMPV6}[family]
    for kind in KINDS:
        dst, dport = address(node, kind, family)
        sport = node.open("outside", dst, dport, proto, family)
        _, frame = node.left(sport)
        node.send(pod.name, packets.ip(
            pod.of[family], frame.src, icmp, packets.icmp_error(
                family, packets.UNREACHABLE[family], packets.ip(
                    frame.src, frame.dst, frame.proto, frame.l4))))
        back = node.got("gw", lambda f: f.proto == icmp)
        assert (back.src, back.dst) == (dst, CLIENT[family])
        assert back.icmp == packets.UNREACHABLE[family]
        assert (back.quoted.src, back.quoted.dst, back.quoted.ports) == (
            CLIENT[family], dst, (sport, dport))


@FAMILIES
@pytest.mark.parametrize("external", ["cluster", "local"])
def test_a_pod_reaches_itself_by_any_address(node, family, external):
    """From the gateway's address, whatever the policy."""
    pod = node.pods[1]
    svc = service(family, external=external)
    svc.endpoints = {"cluster": [pod.of[family]], "local": [pod.of[family]]}
    node.serve(svc)
    node.load()
    for kind in ["ClusterIP"] + KINDS:
        dst, dport = address(node, kind, family)
        sport = node.open("pod", dst, dport, family=family)
        assert node.result(sport) == (pod.name, node.gateway[family],
                                      pod.of[family])


@FAMILIES
def test_an_external_address_may_be_one_of_the_nodes(node, family):
    """Its Service comes before a NodePort with the same number; other
    NodePorts are served there as before."""
    own = Service(7, "udp", family)
    own.at("external", node.transport[family], NODE_PORT)
    own.at("external", NODE_PORT_IP[family], NODE_PORT)
    own.endpoints["cluster"] = [node.pods[0].of[family]]
    other = Service(8, "udp", family)
    other.at("node-port", "-", NODE_PORT, "local")
    other.endpoints = {"cluster": [REMOTE[family]],
                       "local": [REMOTE[family]]}
    third = Service(9, "udp", family)
    third.at("node-port", "-", NODE_PORT + 1)
    third.endpoints["cluster"] = [REMOTE[family]]
    for svc in (own, other, third):
        node.serve(svc)
    node.load()
    for kind in ("NodePort", "virtual"):
        dst, dport = address(node, kind, family)
        for who in ("pod", "outside"):
            assert node.result(node.open(who, dst, dport, family=family)
                               )[2] == node.pods[0].of[family]
            assert node.result(node.open(who, dst, dport + 1, family=family)
                               )[2] == REMOTE[family]


@FAMILIES
@pytest.mark.parametrize("mode", ["noEncap", "networkPolicyOnly"])
def test_the_virtual_addresses_lead_nowhere_else(tmp_path, family, mode):
    """Neither to the host, who would send it back, nor to a pod."""
    with node_in(tmp_path / "1", mode) as node:
        node.serve(service(family))
        node.load()
        for dst in (NODE_PORT_IP[family], VIRTUAL_IP[family]):
            for who in ("pod", "host", "outside"):
                for dport in (NODE_PORT + 1, 80):
                    node.check_lost(node.open(who, dst, dport, family=family),
                                    family)


# Source ranges.

def restricted(family, scope, ranges, affinity=0):
    """A load balancer's address that is for some only."""
    svc = Service(7, "udp", family, affinity)
    svc.at("external", EXTERNAL_IP[family], 80, scope)
    svc.at("external", LB_IP[family], 80, scope, restricted=True)
    svc.ranges = ranges
    return svc


@FAMILIES
@pytest.mark.parametrize("scope,affinity", [("cluster", 0), ("local", 0),
                                            ("local", 100)])
def test_ranges_come_before_everything(node, family, scope, affinity):
    """For pods, the node and clients outside; and for what would else be
    rejected or dropped."""
    pod = node.pods[1].of[family]
    inside = {4: "192.0.2.%d", 6: "2001:db8:aa::%x"}[family]
    bits = {4: 32, 6: 128}[family]
    svc = restricted(family, scope, [
        {4: "192.0.2.0/25", 6: "2001:db8:aa::/121"}[family],
        "%s/%d" % (pod, bits), "%s/%d" % (CLIENT[family], bits)], affinity)
    local = node.pods[0].of[family]
    svc.endpoints = {"cluster": [local], "local": [local]}
    node.serve(svc)
    node.load()

    def goes(who, src=None, dst=LB_IP[family]):
        sport = node.open(who, dst, 80, family=family, src=src)
        return node.result(sport)[2] == local

    def lost(who, src=None):
        node.check_lost(node.open(who, LB_IP[family], 80, family=family,
                                  src=src), family)

    assert goes("pod") and goes("outside")
    assert goes("outside", inside % 1) and goes("outside", inside % 127)
    lost("outside", inside % 128)
    lost("outside", REMOTE[family])
    lost("host")
    # Not of the other address.
    assert goes("host", dst=EXTERNAL_IP[family])
    assert goes("outside", REMOTE[family], EXTERNAL_IP[family])
    # A range with the gateway's address is none with the node's.
    svc.ranges.append("%s/%d" % (node.gateway[family], bits))
    node.update()
    lost("host")
    svc.node_in_ranges = True
    node.update()
    assert goes("host")
    lost("outside", REMOTE[family])
    # Nobody is let in by an empty list that has to be minded.
    svc.ranges, svc.node_in_ranges = [], False
    node.update()
    for who in ("pod", "host", "outside"):
        lost(who)
    svc.ranges = ["%s/%d" % (CLIENT[family], bits)]
    svc.endpoints = {"cluster": [], "local": []}
    node.update()
    before = node.rejects()
    lost("outside", REMOTE[family])
    assert node.rejects() == before
    node.open("outside", LB_IP[family], 80, family=family)
    wait_for(lambda: node.rejects() == before + 1, 10, "a reject", node.dump)


@FAMILIES
def test_thousands_of_ranges(node, family):
    """Of all lengths, inside of each other, side by side."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    dice = random.Random(seed)
    ranges = {("10.%d.%d.0/24" if family == 4 else "2001:db8:%x:%x::/64")
              % (dice.randrange(128), dice.randrange(256))
              for _ in range(2000)}
    svc = restricted(family, "cluster", sorted(ranges))
    svc.endpoints["cluster"] = [node.pods[0].of[family]]
    node.serve(svc)
    node.load()
    for cidr in dice.sample(sorted(ranges), 10):
        src = cidr.split("/", maxsplit=1)[0]
        src = src[:-1] + "9" if family == 4 else src + "9"
        assert node.result(node.open("outside", LB_IP[family], 80,
                                     family=family, src=src)
                           )[2] == node.pods[0].of[family]
    node.check_lost(node.open("outside", LB_IP[family], 80, family=family,
                              src={4: "10.200.0.9",
                                   6: "2001:db8:200:1::9"}[family]), family)


# Limits of the table.

def test_a_service_ends_its_look_up_whatever_is_missing(node):
    """Flows that another hand has deleted: nothing goes in circles."""
    svc = service(4, affinity=100)
    svc.endpoints["cluster"] = [node.pods[0].of[4], REMOTE[4]]
    node.serve(svc)
    node.load()
    flow = ("in_port=%d,udp,dl_src=%s,nw_src=%s,nw_dst=%s,udp_dst=80,"
            "nw_ttl=64" % (node.pods[1].ofport, node.pods[1].mac,
                           node.pods[1].of[4], CLUSTER_IP[4]))
    for deleted in ("table=14,reg3=0/0", "table=14", "table=11", "table=15"):
        node.load()
        node.switch.ofctl("del-flows", deleted)
        assert "over max" not in node.switch.trace(flow)
