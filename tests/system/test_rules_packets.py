# SPDX-License-Identifier: Apache-2.0
"""What the host's packet rules do to packets.

A node with an underlay to another machine, and with a gateway link behind
which a namespace stands for the bridge and its pods."""
import concurrent.futures
import re
import socket

import pytest

from support.packets import sock
from support.rulesprobe import BASIC, SLOWER, RulesProbe, members
from support.wait import wait_for

GENEVE = 6081
# Of the node, of another node, and of a machine that is none.
NODE = {4: "192.0.2.1", 6: "2001:db8::1"}
PEER = {4: "192.0.2.2", 6: "2001:db8::2"}
OTHER = {4: "192.0.2.99", 6: "2001:db8::99"}
GATEWAY = {4: "10.10.1.1", 6: "2001:db8:10:1::1"}
POD = {4: "10.10.1.5", 6: "2001:db8:10:1::5"}
PEER_POD = {4: "10.10.2.5", 6: "2001:db8:10:2::5"}
SERVICE = {4: "10.96.0.10", 6: "fd96::10"}
VIRTUAL = {4: "169.254.0.253", 6: "fc01::aabb:ccdd:eeff"}
FAMILIES = pytest.mark.parametrize("family", [4, 6])


class World:
    """Node, bridge with pods, and underlay."""

    def __init__(self, netns):
        self.node = netns.namespace("node")
        self.pods = netns.namespace("pods")
        self.peer = netns.namespace("peer")
        for ns in self.node, self.pods, self.peer:
            ns.sysctl(net__ipv6__conf__default__accept_dad=0,
                      net__ipv4__conf__all__rp_filter=0,
                      net__ipv4__conf__default__rp_filter=0)
        self.node.sysctl(net__ipv4__ip_forward=1,
                         net__ipv6__conf__all__forwarding=1)
        self.node.batch(
            "link add gw0 type veth peer name eth0 netns " + self.pods.name,
            "link add up0 type veth peer name eth0 netns " + self.peer.name,
            "link set gw0 up", "link set up0 up",
            *self.addresses("gw0", GATEWAY), *self.addresses("up0", NODE))
        self.pods.batch("link set eth0 up",
                        *self.addresses("eth0", POD, SERVICE, VIRTUAL),
                        *("route add default via " + GATEWAY[f]
                          for f in (4, 6)))
        self.peer.batch("link set eth0 up",
                        *self.addresses("eth0", PEER, OTHER, PEER_POD),
                        *("route add default via " + NODE[f]
                          for f in (4, 6)))
        self.node.batch(*("route add %s via %s" % (SERVICE[f], POD[f])
                          for f in (4, 6)),
                        *("route add %s via %s" % (PEER_POD[f], PEER[f])
                          for f in (4, 6)))

    @staticmethod
    def addresses(link, *more):
        """Lines that give these to a link, in their networks of /24 or
        /64."""
        return ["addr add %s/%d dev %s%s" % (
                    one[f], {4: 24, 6: 64}[f], link,
                    " nodad" if f == 6 else "")
                for one in more for f in (4, 6)]

    def tracked(self, family, *more):
        """How many connections the node tracks."""
        reply = self.node.run("conntrack", "-L", "-f", "ipv%d" % family, "-p",
                              "udp", *more)
        return int(re.search(r"(\d+) flow entries", reply.stderr)[1])


@pytest.fixture(name="world")
def _world(netns):
    return World(netns)


@pytest.fixture(name="probe")
def _probe(world, tmp_path):
    with RulesProbe(world.node, tmp_path) as probe:
        yield probe


def source_seen(way, family, port=9000, source_port=0, n=1):
    """Sends datagrams; the addresses and ports that they arrive from.

    'way' is (namespace, address, namespace, address)."""
    sender, src, receiver, dst = way
    with sock(receiver, family, address=dst, port=port) as there, \
            sock(sender, family, address=src, port=source_port) as here:
        for _ in range(n):
            here.sendto(b"x", (dst, port))
        return there.recvfrom(100)[1][:2]


def to_and_fro(world, family, port, other=None, source_port=20000, n=1):
    """Datagrams between the node and a machine, in both directions."""
    other = other or PEER
    source_seen((world.node, NODE[family], world.peer, other[family]), family,
                port, source_port, n)
    source_seen((world.peer, other[family], world.node, NODE[family]), family,
                port, source_port, n)


@FAMILIES
def test_tunnel_packets_between_nodes_are_not_tracked(world, probe, family):
    probe.set(*BASIC)
    to_and_fro(world, family, GENEVE)
    assert world.tracked(family) == 0
    to_and_fro(world, family, GENEVE, OTHER)
    assert world.tracked(family) == 2
    to_and_fro(world, family, GENEVE + 1)
    assert world.tracked(family) == 4


@FAMILIES
def test_tracking_follows_the_nodes(world, probe, family):
    probe.set(*BASIC)
    member = "nodes %s/%d" % (OTHER[family], {4: 32, 6: 128}[family])
    probe.send("add " + member)
    probe.wait_sync()
    to_and_fro(world, family, GENEVE, OTHER)
    assert world.tracked(family) == 0
    probe.send("del " + member)
    probe.wait_sync()
    to_and_fro(world, family, GENEVE, OTHER)
    assert world.tracked(family) == 2


@FAMILIES
def test_e19_what_was_tracked_before_is_removed_once(world, probe, family):
    world.node.run("nft", "add table inet x; add chain inet x all_out { "
                   "type filter hook output priority 0; }; "
                   "add rule inet x all_out ct state new counter")
    for i in range(20):
        to_and_fro(world, family, GENEVE, source_port=20000 + i)
    to_and_fro(world, family, GENEVE, OTHER)
    to_and_fro(world, family, GENEVE + 1)
    assert world.tracked(family) == 44
    probe.set(*BASIC)
    wait_for(lambda: world.tracked(family) == 4, 5 * SLOWER, "4 are left",
             probe)
    probe.wait_log("removed conntrack entries of tunnels: 40")
    assert probe.number(r"tunnels removed: (\d+)") == 40


@FAMILIES
def test_pods_are_masqueraded_to_outside_the_cluster_only(world, probe,
                                                          family):
    probe.set(*BASIC)
    pod = (world.pods, POD[family])
    for there in OTHER, PEER:
        assert source_seen((*pod, world.peer, there[family]),
                           family)[0] == NODE[family]
    assert source_seen((*pod, world.peer, PEER_POD[family]),
                       family)[0] == POD[family]
    probe.set("masquerade 0")
    # Not the connection of before, which keeps its translation.
    assert source_seen((*pod, world.peer, OTHER[family]), family,
                       port=9001)[0] == POD[family]


@FAMILIES
def test_masquerade_takes_random_ports_if_told_to(world, probe, family):
    probe.set(*BASIC)
    way = (world.pods, POD[family], world.peer, OTHER[family])
    assert source_seen(way, family, source_port=20000) == (NODE[family], 20000)
    probe.set("random 1")
    ports = [source_seen(way, family, source_port=20001 + n)[1]
             for n in range(4)]
    assert ports != [20001 + n for n in range(4)]


def test_a_counter_that_counts_is_no_change(world, probe):
    probe.set(*BASIC)
    source_seen((world.pods, POD[4], world.peer, OTHER[4]), 4)
    assert "packets 1 " in world.node.run("nft", "list", "ruleset").stdout
    world.node.run("nft", "add element inet ofproxyd nodes_ipv4 "
                   "{ 198.51.100.1 }")
    wait_for(lambda: members(world.node, "nodes_ipv4") == [PEER[4]],
             SLOWER, "the repair", probe)
    assert probe.number(r"written: (\d+) times") == 1


@FAMILIES
def test_the_virtual_address_is_masqueraded(world, probe, family):
    probe.set(*BASIC, "masquerade 0")
    assert source_seen((world.pods, VIRTUAL[family], world.peer,
                        PEER[family]), family)[0] == NODE[family]


@FAMILIES
def test_the_host_reaches_services_with_the_gateways_address(world, probe,
                                                             family):
    probe.set(*BASIC)
    assert source_seen((world.node, NODE[family], world.pods,
                        SERVICE[family]), family)[0] == GATEWAY[family]
    way = (world.node, GATEWAY[family], world.pods, SERVICE[family])
    assert source_seen(way, family, source_port=20000) == (GATEWAY[family],
                                                           20000)


@FAMILIES
def test_forwarded_packets_to_the_bridge_keep_their_source(world, probe,
                                                           family):
    probe.set(*BASIC)
    assert source_seen((world.peer, OTHER[family], world.pods,
                        POD[family]), family)[0] == OTHER[family]


@FAMILIES
def test_g1_a_host_that_drops_forwarded_packets_lets_ours_pass(world, probe,
                                                               family):
    tool = {4: "iptables", 6: "ip6tables"}[family]
    world.node.run(tool, "-P", "FORWARD", "DROP")
    way = (world.pods, POD[family], world.peer, OTHER[family])
    with pytest.raises(socket.timeout):
        source_seen(way, family)
    probe.set(*BASIC)
    assert source_seen(way, family)[0] == NODE[family]
    assert source_seen((world.peer, OTHER[family], world.pods,
                        POD[family]), family)[0] == OTHER[family]
    probe.ask("cleanup")
    with pytest.raises(socket.timeout):
        # The probe heals, so it is stopped first.
        probe.stop()
        world.node.run(tool, "-F", "FORWARD")
        source_seen(way, family, port=9002)


@FAMILIES
def test_e21_an_address_of_the_node_can_still_be_translated(world, probe,
                                                            family):
    """An external IP that is the node's address, handled by others."""
    tool = {4: "iptables", 6: "ip6tables"}[family]
    world.node.run(tool, "-t", "nat", "-A", "PREROUTING", "-p", "udp", "-d",
                   NODE[family], "--dport", "80", "-j", "DNAT",
                   "--to-destination", {4: "%s:8080", 6: "[%s]:8080"}[family]
                   % POD[family])
    probe.set(*BASIC)
    with sock(world.pods, family, address=POD[family], port=8080) as pod, \
            sock(world.peer, family, address=PEER[family]) as client:
        client.sendto(b"ask", (NODE[family], 80))
        data, source = pod.recvfrom(100)
        pod.sendto(b"answer", source)
        assert data == b"ask"
        assert client.recvfrom(100)[1][:2] == (NODE[family], 80)


def test_replacing_the_table_loses_nothing(world, probe):
    """While it is written again and again no tunnel packet gets tracked, no
    packet of a pod leaves untranslated, none is lost."""
    probe.set(*BASIC)
    rounds, per_round = 30, 100

    def write():
        for n in range(rounds):
            probe.set("random %d" % (n % 2))

    with concurrent.futures.ThreadPoolExecutor(1) as pool, \
            sock(world.peer, 4, address=OTHER[4], port=9000) as outside, \
            sock(world.peer, 4, address=PEER[4], port=GENEVE) as tunnel:
        writing = pool.submit(write)
        n = 0
        while not writing.done():
            for _ in range(per_round):
                with sock(world.pods, 4, address=POD[4]) as pod, \
                        sock(world.node, 4, address=NODE[4]) as node:
                    pod.sendto(b"x", (OTHER[4], 9000))
                    node.sendto(b"x", (PEER[4], GENEVE))
                n += 1
                assert outside.recvfrom(100)[1][0] == NODE[4]
                assert tunnel.recvfrom(100)[1][0] == NODE[4]
        writing.result()
    print("%d packets each way" % n)
    assert probe.number(r"written: (\d+) times") == rounds
    assert world.tracked(4, "--dport", str(GENEVE)) == 0
