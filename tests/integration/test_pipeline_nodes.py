# SPDX-License-Identifier: Apache-2.0
"""Packets between the bridges of two nodes, in each trafficEncapMode.

No daemon takes part: the flows are those that src/pipeline renders, and the
test is pods, hosts and routers."""
import contextlib

import pytest

from support import packets
from support.packets import (ACK, ETH_ARP, ICMP, ICMPV6, SYN, TCP, TOO_BIG,
                             UDP, UNREACHABLE)
from support.pipenode import VIRTUAL_IP, VIRTUAL_MAC, PipeNode

FAMILIES = pytest.mark.parametrize("family", [4, 6])
CLUSTER_IP = {4: "10.96.0.10", 6: "2001:db8:96::10"}
GONE_IP = {4: "10.96.0.99", 6: "2001:db8:96::99"}
CLIENT = {4: "198.51.100.9", 6: "2001:db8:9::9"}
ROUTER = {4: "198.51.100.1", 6: "2001:db8:9::1"}
ICMP_OF = {4: ICMP, 6: ICMPV6}
TUNNEL_PORT = {"geneve": 6081, "vxlan": 4789}


@contextlib.contextmanager
def nodes(directory, mode, way, underlay=4, tunnel_type="geneve"):
    """Two nodes that reach each other by tunnel or routed, with a Service
    whose endpoint is pod1 of the second."""
    with contextlib.ExitStack() as stack:
        one, two = [stack.enter_context(PipeNode(
            directory / str(n), n, mode, tunnel_type)) for n in (1, 2)]
        one.with_tunnel = two.with_tunnel = way == "tunnel"
        if way == "tunnel":
            one.connect(two)
            one.tunnel(two, underlay)
            two.tunnel(one, underlay)
        else:
            one.routed(two)
            two.routed(one)
        number = 0
        for proto in ("tcp", "udp"):
            for family in (4, 6):
                number += 1
                one.service(number, proto, CLUSTER_IP[family],
                            two.pods[0].of[family])
        one.load()
        two.load()
        yield one, two
        for node in (one, two):
            assert not node.switch.unexpected_warnings()


@pytest.fixture(name="tunnelled", scope="module",
                params=["geneve", "vxlan", "underlay6"])
def tunnelled_(request, tmp_path_factory):
    """Two nodes with a tunnel between them."""
    kind = request.param
    with nodes(tmp_path_factory.mktemp("tunnel"), "encap", "tunnel",
               6 if kind == "underlay6" else 4,
               "geneve" if kind == "underlay6" else kind) as made:
        yield made


@pytest.fixture(name="routed", scope="module", params=["noEncap", "hybrid"])
def routed_(request, tmp_path_factory):
    """Two nodes whose hosts route between them."""
    with nodes(tmp_path_factory.mktemp("routed"), request.param,
               "routed") as made:
        yield made


@pytest.fixture(name="chained", scope="module")
def chained_(tmp_path_factory):
    """A node that is chained to a primary network."""
    directory = tmp_path_factory.mktemp("chained")
    with PipeNode(directory / "1", 1, "networkPolicyOnly") as node:
        node.service(1, "udp", CLUSTER_IP[4], CLIENT[4])
        node.service(2, "udp", CLUSTER_IP[6], CLIENT[6])
        node.load()
        yield node
        assert not node.switch.unexpected_warnings()


SPORT = iter(range(20000, 60000))


def udp(src, dst, sport, dport, ttl=64):
    """A UDP packet."""
    return packets.ip(src, dst, UDP, packets.udp(sport, dport, b"data"), ttl)


def ends(src, sport, dst, dport):
    """A condition: a packet with these addresses and ports."""
    return lambda f: (f.proto in (TCP, UDP) and f.src == src and f.dst == dst
                      and f.ports == (sport, dport))


def assert_macs(frame, src, dst):
    """The MAC addresses of a frame."""
    assert (frame.eth_src, frame.eth_dst) == (src, dst)


# By the tunnel.

@FAMILIES
def test_a_pod_reaches_a_pod_behind_the_tunnel(tunnelled, family):
    """And gets its answer; each node is one hop."""
    one, two = tunnelled
    pod, peer = one.pods[0], two.pods[0]
    sport = next(SPORT)
    for _ in range(2):          # The second knows the connection.
        one.send(pod.name, udp(pod.of[family], peer.of[family], sport, 8080))
        there = two.got(peer.name, ends(pod.of[family], sport,
                                        peer.of[family], 8080))
        assert there.ttl == 62
        assert_macs(there, two.mac, peer.mac)
        two.send(peer.name, udp(peer.of[family], pod.of[family], 8080, sport))
        back = one.got(pod.name, ends(peer.of[family], 8080, pod.of[family],
                                      sport))
        assert back.ttl == 62
        assert_macs(back, one.mac, pod.mac)


def test_packets_between_nodes_are_encapsulated(tunnelled):
    """Between their transport addresses, and by nothing else."""
    one, two = tunnelled
    pod, peer = one.pods[0], two.pods[0]
    sport = next(SPORT)
    one.send(pod.name, udp(pod.of[4], peer.of[4], sport, 8080))
    outer = one.got("p0", lambda f: f.proto == UDP and
                    sport.to_bytes(2, "big") in f.l4)
    underlay = 6 if ":" in outer.src else 4
    assert (outer.src, outer.dst) == (one.transport[underlay],
                                      two.transport[underlay])
    assert outer.ports[1] == TUNNEL_PORT[one.tunnel_type]
    two.got(peer.name, ends(pod.of[4], sport, peer.of[4], 8080))
    assert not [f for f in one.frames("gw") if f.dst == peer.of[4]]


@FAMILIES
@pytest.mark.parametrize("proto", [TCP, UDP])
def test_a_pod_reaches_an_endpoint_behind_the_tunnel(tunnelled, family,
                                                     proto):
    """By the Service's address, under its own."""
    one, two = tunnelled
    pod, peer = one.pods[0], two.pods[0]
    src, svc, dst = pod.of[family], CLUSTER_IP[family], peer.of[family]
    sport = next(SPORT)

    def l4(a, b, flags):
        return packets.tcp(a, b, flags) if proto == TCP else packets.udp(a, b)

    for flags in (SYN, ACK):
        one.send(pod.name, packets.ip(src, svc, proto, l4(sport, 80, flags)))
        there = two.got(peer.name, ends(src, sport, dst, 8080))
        assert (there.proto, there.ttl) == (proto, 62)
        two.send(peer.name, packets.ip(dst, src, proto,
                                       l4(8080, sport, flags | ACK)))
        back = one.got(pod.name, ends(svc, 80, src, sport))
        assert back.ttl == 62
        assert_macs(back, one.mac, pod.mac)


@FAMILIES
def test_the_host_reaches_an_endpoint_behind_the_tunnel(tunnelled, family):
    """Under the gateway's address, which the peer answers by the tunnel; the
    host, where it begins, is no hop, nor where it ends."""
    one, two = tunnelled
    peer = two.pods[0]
    src, svc, dst = one.gateway[family], CLUSTER_IP[family], peer.of[family]
    sport = next(SPORT)
    for _ in range(2):
        one.send("gw", udp(src, svc, sport, 80), dst_mac=VIRTUAL_MAC)
        there = two.got(peer.name, ends(src, sport, dst, 8080))
        assert there.ttl == 63
        two.send(peer.name, udp(dst, src, 8080, sport))
        back = one.got("gw", ends(svc, 80, src, sport))
        assert back.ttl == 63 and back.eth_dst == one.mac


@FAMILIES
def test_the_host_reaches_a_pod_behind_the_tunnel(tunnelled, family):
    """By the route that leads to the virtual address."""
    one, two = tunnelled
    peer = two.pods[1]
    src, dst = one.gateway[family], peer.of[family]
    sport = next(SPORT)
    one.send("gw", udp(src, dst, sport, 7), dst_mac=VIRTUAL_MAC)
    assert two.got(peer.name, ends(src, sport, dst, 7)).ttl == 63
    two.send(peer.name, udp(dst, src, 7, sport))
    assert one.got("gw", ends(dst, 7, src, sport)).ttl == 63


@FAMILIES
def test_a_pod_reaches_the_host_behind_the_tunnel(tunnelled, family):
    """By the address of its gateway."""
    one, two = tunnelled
    pod, dst = one.pods[0], two.gateway[family]
    src, sport = pod.of[family], next(SPORT)
    one.send(pod.name, udp(src, dst, sport, 7))
    there = two.got("gw", ends(src, sport, dst, 7))
    assert there.ttl == 63 and there.eth_dst == two.mac
    two.send("gw", udp(dst, src, 7, sport), dst_mac=VIRTUAL_MAC)
    assert one.got(pod.name, ends(dst, 7, src, sport)).ttl == 63


@FAMILIES
def test_what_the_tunnel_brings_is_not_looked_up_again(tmp_path, family):
    """The sender has chosen a pod here; that a Service has the pod's address
    as one of its own must not send it on, or back."""
    with nodes(tmp_path, "encap", "tunnel") as (one, two):
        pod, peer = one.pods[0], two.pods[1]
        src, dst = pod.of[family], peer.of[family]
        two.service(9, "udp", dst, one.pods[1].of[family])
        two.load()
        sport = next(SPORT)
        one.send(pod.name, udp(src, dst, sport, 80))
        two.got(peer.name, ends(src, sport, dst, 80))
        # Of a pod of its own it is.
        two.send("pod1", udp(two.pods[0].of[family], dst, sport, 80))
        one.got("pod2", ends(two.pods[0].of[family], sport,
                             one.pods[1].of[family], 8080))


@FAMILIES
def test_an_unreachable_port_behind_the_tunnel_is_told_to_the_pod(tunnelled,
                                                                  family):
    """From the Service's address, about the packet that the pod sent."""
    one, two = tunnelled
    pod, peer = one.pods[0], two.pods[0]
    src, svc, dst = pod.of[family], CLUSTER_IP[family], peer.of[family]
    sport = next(SPORT)
    one.send(pod.name, udp(src, svc, sport, 80))
    two.got(peer.name, ends(src, sport, dst, 8080))
    error = packets.icmp_error(family, UNREACHABLE[family],
                               udp(src, dst, sport, 8080))
    two.send(peer.name, packets.ip(dst, src, ICMP_OF[family], error))
    back = one.got(pod.name, lambda f: f.proto == ICMP_OF[family])
    assert (back.src, back.dst, back.icmp) == (svc, src, UNREACHABLE[family])
    assert (back.quoted.src, back.quoted.dst) == (src, svc)
    assert back.quoted.ports == (sport, 80)
    assert_macs(back, one.mac, pod.mac)


@FAMILIES
def test_a_pod_that_stopped_listening_tells_the_endpoint(tunnelled, family):
    """About an answer, as the endpoint sent it."""
    one, two = tunnelled
    pod, peer = one.pods[0], two.pods[0]
    src, svc, dst = pod.of[family], CLUSTER_IP[family], peer.of[family]
    sport = next(SPORT)
    one.send(pod.name, udp(src, svc, sport, 80))
    two.got(peer.name, ends(src, sport, dst, 8080))
    two.send(peer.name, udp(dst, src, 8080, sport))
    one.got(pod.name, ends(svc, 80, src, sport))
    error = packets.icmp_error(family, UNREACHABLE[family],
                               udp(svc, src, 80, sport))
    one.send(pod.name, packets.ip(src, svc, ICMP_OF[family], error))
    there = two.got(peer.name, lambda f: f.proto == ICMP_OF[family])
    assert (there.src, there.dst, there.icmp) == (src, dst,
                                                  UNREACHABLE[family])
    assert (there.quoted.src, there.quoted.dst) == (dst, src)
    assert there.quoted.ports == (8080, sport)


@FAMILIES
def test_a_service_that_is_gone_does_not_leave_by_the_tunnel(tunnelled,
                                                             family):
    """Though the host's packets to it have the tunnel's MAC address."""
    one, two = tunnelled
    peer = two.pods[0]
    sport = next(SPORT)
    one.send("gw", udp(one.gateway[family], GONE_IP[family], sport, 80),
             dst_mac=VIRTUAL_MAC)
    one.send("gw", udp(one.gateway[family], peer.of[family], sport, 80),
             dst_mac=VIRTUAL_MAC)
    two.got(peer.name, ends(one.gateway[family], sport, peer.of[family], 80))
    assert not [f for f in one.frames("p0") if f.proto == UDP
                and bytes.fromhex("0063") + sport.to_bytes(2, "big") in f.l4]
    for node in (one, two):
        assert not [f for f in node.frames("gw") if f.dst == GONE_IP[family]]


@FAMILIES
def test_a_pod_that_is_gone_costs_its_packets_no_second_trip(tunnelled,
                                                             family):
    """Neither back by the tunnel nor to the host."""
    one, two = tunnelled
    gone = {4: "10.10.2.77", 6: "2001:db8:10:2::77"}[family]
    pod, peer = one.pods[0], two.pods[0]
    sport = next(SPORT)
    n_before = len(two.frames("p0"))
    for dst in (gone, peer.of[family]):
        one.send(pod.name, udp(pod.of[family], dst, sport, 7))
    two.got(peer.name, ends(pod.of[family], sport, peer.of[family], 7))
    assert len(two.frames("p0")) == n_before
    assert not [f for f in two.frames("gw") if f.dst == gone]


@FAMILIES
def test_without_the_tunnel_port_nothing_leaves_unencapsulated(tmp_path,
                                                               family):
    """Its number is not known yet: packets are lost, not sent to the host."""
    with nodes(tmp_path, "encap", "tunnel") as (one, two):
        pod, peer = one.pods[0], two.pods[0]
        one.with_tunnel = False
        one.load()
        sport = next(SPORT)
        for dst in (peer.of[family], CLUSTER_IP[family], CLIENT[family]):
            one.send(pod.name, udp(pod.of[family], dst, sport, 80))
        one.got("gw", ends(pod.of[family], sport, CLIENT[family], 80))
        assert not [f for f in one.frames("gw")
                    if f.dst == peer.of[family]]
        one.with_tunnel = True
        one.load()
        one.send(pod.name, udp(pod.of[family], CLUSTER_IP[family], sport, 80))
        two.got(peer.name, ends(pod.of[family], sport, peer.of[family],
                                8080))


def test_the_gateway_of_a_peer_is_answered_for(tunnelled):
    """Routes of a previous agent have it as their next hop."""
    one, two = tunnelled
    one.send("gw", (ETH_ARP, packets.arp(one.mac, one.gateway[4],
                                         two.gateway[4])),
             dst_mac=packets.BROADCAST)
    reply = one.got("gw", lambda f: f.eth_type == ETH_ARP and f.proto == 2)
    assert (reply.src, reply.dst) == (two.gateway[4], one.gateway[4])
    assert_macs(reply, VIRTUAL_MAC, one.mac)


# By the hosts.

@FAMILIES
def test_a_pod_reaches_an_endpoint_that_the_host_routes_to(routed, family):
    """Under its own address; the hop is the host's to count."""
    one, two = routed
    pod, peer = one.pods[0], two.pods[0]
    src, svc, dst = pod.of[family], CLUSTER_IP[family], peer.of[family]
    sport = next(SPORT)
    for _ in range(2):
        one.send(pod.name, udp(src, svc, sport, 80))
        out = one.got("gw", ends(src, sport, dst, 8080))
        assert out.ttl == 64 and out.eth_dst == one.mac
        two.send("gw", udp(src, dst, sport, 8080, 62), dst_mac=peer.mac)
        there = two.got(peer.name, ends(src, sport, dst, 8080))
        assert there.ttl == 62
        two.send(peer.name, udp(dst, src, 8080, sport))
        out = two.got("gw", ends(dst, 8080, src, sport))
        assert out.ttl == 64 and out.eth_dst == two.mac
        one.send("gw", udp(dst, src, 8080, sport, 62), dst_mac=pod.mac)
        back = one.got(pod.name, ends(svc, 80, src, sport))
        assert back.ttl == 62
        assert_macs(back, one.mac, pod.mac)


@FAMILIES
def test_the_host_reaches_an_endpoint_that_it_routes_to_itself(routed,
                                                               family):
    """From the virtual address, or the host would see a packet from itself;
    and gets the answer under the one that it used."""
    one, two = routed
    src, svc = one.gateway[family], CLUSTER_IP[family]
    virtual, dst = VIRTUAL_IP[family], two.pods[0].of[family]
    sport = next(SPORT)
    for _ in range(2):
        one.send("gw", udp(src, svc, sport, 80), dst_mac=VIRTUAL_MAC)
        out = one.got("gw", ends(virtual, sport, dst, 8080))
        assert out.ttl == 64 and out.eth_dst == one.mac
        one.send("gw", udp(dst, virtual, 8080, sport, 62),
                 dst_mac=VIRTUAL_MAC)
        back = one.got("gw", ends(svc, 80, src, sport))
        assert back.ttl == 62 and back.eth_dst == one.mac


@FAMILIES
def test_a_pod_and_its_peer_talk_by_their_hosts(routed, family):
    """Without a Service; nothing comes back out of the gateway."""
    one, two = routed
    pod, peer = one.pods[0], two.pods[0]
    src, dst, sport = pod.of[family], peer.of[family], next(SPORT)
    one.send(pod.name, udp(src, dst, sport, 7))
    assert one.got("gw", ends(src, sport, dst, 7)).ttl == 64
    # A host that routes it back gets it no third time.
    one.send("gw", udp(src, dst, sport, 7, 63))
    one.send(pod.name, udp(src, dst, sport, 7, 60))
    assert one.got("gw", ends(src, sport, dst, 7)).ttl == 60


@pytest.mark.parametrize("who,family,proto", [
    ("pod", 4, TCP), ("pod", 4, UDP), ("pod", 6, TCP), ("pod", 6, UDP),
    ("host", 4, TCP), ("host", 4, UDP), ("host", 6, TCP),
    # docs/modes.md, "Limits": here the MTU can't be saved.
    pytest.param("host", 6, UDP, marks=pytest.mark.xfail(
        reason="Open vSwitch's userspace conntrack")),
])
def test_a_packet_too_big_for_the_way_is_told_to_the_client(routed, who,
                                                            family, proto):
    """By a router that knows only translated addresses."""
    one, two = routed
    port, src = ("gw", one.gateway[family]) if who == "host" else (
        "pod1", one.pods[0].of[family])
    svc, dst = CLUSTER_IP[family], two.pods[0].of[family]
    seen_as = VIRTUAL_IP[family] if who == "host" else src
    sport = next(SPORT)

    def big(src, dst, dport):
        data = bytes(1400)
        l4 = packets.tcp(sport, dport, SYN) + data if proto == TCP else (
            packets.udp(sport, dport, data))
        return packets.ip(src, dst, proto, l4)

    one.send(port, big(src, svc, 80))
    one.got("gw", ends(seen_as, sport, dst, 8080))
    kind, whole = big(seen_as, dst, 8080)
    # As much as RFC 1812 and RFC 4443 allow.  The 28 bytes of RFC 792 would
    # do, but ovs-vswitchd 3.1.0 writes the quoted TCP's checksum behind them.
    error = packets.icmp_error(family, TOO_BIG[family], (
        kind, whole[:548 if family == 4 else 1232]), 1400)
    one.send("gw", packets.ip(ROUTER[family], seen_as, ICMP_OF[family],
                              error),
             dst_mac=VIRTUAL_MAC if who == "host" else one.pods[0].mac)
    back = one.got(port, lambda f: f.proto == ICMP_OF[family])
    assert (back.dst, back.icmp) == (src, TOO_BIG[family])
    assert int.from_bytes(back.l4[4:8], "big") == 1400
    assert (packets.checksum(back.l4) if family == 4
            else packets.l4_checksum(back)) == 0
    assert (back.quoted.src, back.quoted.dst) == (src, svc)
    assert back.quoted.ports == (sport, 80)


@FAMILIES
def test_a_client_outside_gets_its_answer_by_the_gateway(routed, family):
    """The host has counted the hop and will again."""
    one, _ = routed
    pod, client = one.pods[0], CLIENT[family]
    sport = next(SPORT)
    one.send("gw", udp(client, pod.of[family], sport, 7, 50),
             dst_mac=pod.mac)
    assert one.got(pod.name, ends(client, sport, pod.of[family], 7)).ttl == 50
    one.send(pod.name, udp(pod.of[family], client, 7, sport))
    assert one.got("gw", ends(pod.of[family], 7, client, sport)).ttl == 64


@FAMILIES
@pytest.mark.parametrize("mode", ["encap", "noEncap", "networkPolicyOnly"])
def test_a_pod_reaches_itself_by_a_service(tmp_path, family, mode):
    """From the gateway's address, whatever the mode."""
    with PipeNode(tmp_path / "1", 1, mode) as one:
        pod, svc = one.pods[0], CLUSTER_IP[family]
        src, gateway = pod.of[family], one.gateway[family]
        one.service(1, "udp", svc, src)
        one.load()
        sport = next(SPORT)
        for _ in range(2):
            one.send(pod.name, udp(src, svc, sport, 80))
            there = one.got(pod.name, lambda f: f.src == gateway
                            and f.proto == UDP)
            assert there.dst == src and there.ports[1] == 8080
            assert_macs(there, one.mac, pod.mac)
            one.send(pod.name, udp(src, gateway, 8080, there.ports[0]))
            back = one.got(pod.name, ends(svc, 80, src, sport))
            assert_macs(back, one.mac, pod.mac)


# Chained to a primary network.

def test_every_address_is_answered_for(chained):
    """But the one who asks for his own is told nothing."""
    pod, other = chained.pods
    for port, mac, spa in ((pod.name, pod.mac, pod.of[4]),
                           ("gw", chained.mac, chained.gateway[4])):
        for tpa in (spa, "169.254.1.1", other.of[4], CLIENT[4]):
            chained.send(port, (ETH_ARP, packets.arp(mac, spa, tpa)),
                         dst_mac=packets.BROADCAST)
        for tpa in ("169.254.1.1", other.of[4], CLIENT[4]):
            reply = chained.got(port, lambda f: f.eth_type == ETH_ARP
                                and f.proto == 2)
            assert (reply.src, reply.dst) == (tpa, spa)
            assert_macs(reply, VIRTUAL_MAC, mac)


def test_every_address_is_answered_for_in_neighbour_discovery(chained):
    """By a router's advertisement; but not to who has no address yet."""
    pod, other = chained.pods
    for port, mac, src in ((pod.name, pod.mac, pod.of[6]),
                           (pod.name, pod.mac, "fe80::5"),
                           ("gw", chained.mac, chained.gateway[6])):
        for target in ("fe80::1", other.of[6], CLIENT[6]):
            chained.send("gw", packets.ip("::", "ff02::1:ff00:1", ICMPV6,
                                          packets.solicit(mac, target), 255))
            chained.send(port, packets.ip(src, "ff02::1:ff00:1", ICMPV6,
                                          packets.solicit(mac, target), 255))
            reply = chained.got(port, lambda f: f.icmp == (136, 0))
            assert (reply.src, reply.dst) == (target, src)
            assert reply.l4[4:] == packets.advertise(VIRTUAL_MAC, target)[4:]
            assert reply.ttl == 255
            assert packets.l4_checksum(reply) == 0
            assert_macs(reply, VIRTUAL_MAC, mac)
    assert not [f for f in chained.frames("gw") if f.dst == "::"]


@FAMILIES
def test_everything_goes_to_the_host_but_what_is_for_a_pod(chained, family):
    """Whatever MAC address it was sent to."""
    pod, other = chained.pods
    sport = next(SPORT)
    for dst_mac in (chained.mac, VIRTUAL_MAC, "0e:00:00:00:00:01"):
        chained.send(pod.name, udp(pod.of[family], CLIENT[family], sport, 7),
                     dst_mac=dst_mac)
        out = chained.got("gw", ends(pod.of[family], sport, CLIENT[family],
                                     7))
        assert out.ttl == 64 and out.eth_dst == chained.mac
        chained.send(pod.name, udp(pod.of[family], other.of[family], sport,
                                   7), dst_mac=dst_mac)
        there = chained.got(other.name, ends(pod.of[family], sport,
                                             other.of[family], 7))
        assert there.ttl == 63
        assert_macs(there, chained.mac, other.mac)


@FAMILIES
def test_the_host_reaches_a_pod_by_the_virtual_mac(chained, family):
    """Which it was told when it asked; the answer leaves by the gateway."""
    pod, src, sport = chained.pods[0], chained.gateway[family], next(SPORT)
    for src in (src, CLIENT[family]):
        chained.send("gw", udp(src, pod.of[family], sport, 7),
                     dst_mac=VIRTUAL_MAC)
        there = chained.got(pod.name, ends(src, sport, pod.of[family], 7))
        assert there.ttl == 64
        assert_macs(there, chained.mac, pod.mac)
        chained.send(pod.name, udp(pod.of[family], src, 7, sport))
        out = chained.got("gw", ends(pod.of[family], 7, src, sport))
        assert out.ttl == 64 and out.eth_dst == chained.mac


@FAMILIES
@pytest.mark.parametrize("who", ["pod", "host"])
def test_an_endpoint_elsewhere_is_reached_by_the_gateway(chained, family,
                                                         who):
    """By a pod under its own address, by the host from the virtual one."""
    port, src = ("gw", chained.gateway[family]) if who == "host" else (
        "pod1", chained.pods[0].of[family])
    seen_as = VIRTUAL_IP[family] if who == "host" else src
    svc, dst, sport = CLUSTER_IP[family], CLIENT[family], next(SPORT)
    for _ in range(2):
        chained.send(port, udp(src, svc, sport, 80))
        out = chained.got("gw", ends(seen_as, sport, dst, 8080))
        assert out.ttl == 64 and out.eth_dst == chained.mac
        chained.send("gw", udp(dst, seen_as, 8080, sport, 60),
                     dst_mac=VIRTUAL_MAC)
        assert chained.got(port, ends(svc, 80, src, sport)).ttl == 60
