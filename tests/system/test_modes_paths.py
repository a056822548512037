# SPDX-License-Identifier: Apache-2.0
"""Traffic between nodes and to the outside, in every trafficEncapMode: who
reaches whom, in a tunnel or not, with which addresses and header fields.

The userspace datapath has no stt, so there is none here; geneve, vxlan and
gre carry both families over both.  Two nodes are enough, but for hybrid,
which has to choose: its third node is in another subnet.
"""
import contextlib
import socket

from support import packets
from support.cluster import PORT, at
from support.multinode import OVERHEAD
from support.packets import UDP, Wire
from support.traffic import Client, Server, converse

MULTI = {
    "encap-geneve": {"tunnel": "geneve", "subnets": "ab"},
    "encap-vxlan": {"tunnel": "vxlan"},
    "encap-gre": {"tunnel": "gre"},
    "encap-geneve-over-IPv6": {"tunnel": "geneve", "underlay": (6,)},
    "encap-gre-over-IPv6": {"tunnel": "gre", "underlay": (6,)},
    "hybrid-geneve": {"mode": "hybrid", "subnets": "aab"},
    "noEncap": {"mode": "noEncap", "subnets": "ab"},
    "noEncap-noSNAT": {"mode": "noEncap", "noSNAT": True,
                       "outside_knows": True},
    "networkPolicyOnly": {"mode": "networkPolicyOnly", "subnets": "ab",
                          "outside_knows": True}}
TOS = 0xb8 | 2                  # DSCP EF, ECN-capable.
CE = 3
PROBE_PORT = 9999               # Nobody listens there.
SERVED = 8080
HEADER = 14                     # Ethernet's.


def pairs(multi):
    """Nodes between which all kinds of ways are: the first to each other."""
    first, *rest = multi.nodes
    return [(first, other) for other in rest]


def check_way(multi, capture, one, other, addresses):
    """All packets between two addresses went the way that the mode says, and
    none has been seen of the pods elsewhere."""
    seen = capture.of(*addresses)
    assert seen
    kind = multi.kind(one, other)
    assert {s.kind for s in seen} == {kind}
    if kind == "plain":
        return
    ends = [{one.of(f), other.of(f)} for f in multi.underlay]
    for s in seen:
        assert {s.outer.src, s.outer.dst} in ends
        assert s.inner.tos & ~3 == 0 or s.outer.tos & 3 == s.inner.tos & 3
    assert not capture.plain_of(one.cidrs + other.cidrs)


@contextlib.contextmanager
def watched(multi, one, other, *addresses):
    """Checks the way of what passes meanwhile."""
    with multi.capture(one, other) as capture:
        yield
    check_way(multi, capture, one, other, addresses)


def send_probe(sender, family, address, port=PROBE_PORT, tos=TOS, size=8):
    """One datagram with header fields that are told from the usual."""
    with packets.sock(sender, family) as sock:
        if family == 4:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)
        sock.sendto(bytes(size), (address, port))


def is_probe(frame):
    """Whether a frame is what send_probe() sent."""
    return frame.proto == UDP and PROBE_PORT in frame.ports


def test_pods_reach_pods_of_other_nodes(multi, family):
    """With their own addresses, by TCP, UDP and ping."""
    for here, there in pairs(multi):
        one, two = here.pods[0], there.pods[0]
        with watched(multi, here, there, one.of(family), two.of(family)):
            for proto in ("tcp", "udp"):
                result = Client(one, "connect", two.of(family), SERVED,
                                proto=proto, count=5).wait()
                assert result["answers"] == {
                    "%s:%d" % (two.label, SERVED): 5}
                assert result["sources"] == [one.of(family)]
            assert packets.ping(two, family, one.of(family))


def test_a_service_has_endpoints_on_other_nodes(multi, family):
    """They see the pod that asks; the way is that of pods."""
    for here, there in pairs(multi):
        one, two = here.pods[0], there.pods[1]
        service = multi.service([at(two)])
        with watched(multi, here, there, one.of(family), two.of(family)):
            for proto in ("tcp", "udp"):
                result = service.ask(one, family, 5, proto=proto)
                assert result["answers"] == {two.label + ":8080": 5}
                assert result["sources"] == [one.of(family)]
        service.delete()


def test_a_service_is_spread_over_the_nodes(multi, family):
    """All endpoints answer, also the one that is the client itself."""
    pods = [node.pods[0] for node in multi.nodes]
    service = multi.service([at(pod) for pod in pods])
    for client in (pods[0], multi.nodes[-1].pods[1]):
        assert set(service.ask(client, family, 60)["answers"]) == {
            pod.label + ":8080" for pod in pods}
    service.delete()


def test_the_host_reaches_services_on_other_nodes(multi, host_family):
    """From an address to which the answer finds back: the gateway's where
    there is a tunnel, and otherwise the node's."""
    for here, there in pairs(multi):
        service = multi.service([at(there.pods[0])])
        tunnelled = multi.kind(here, there) != "plain"
        source = (here.gateway_of(here.pods[0].of(host_family)) if tunnelled
                  else here.of(host_family))
        for proto in ("tcp", "udp"):
            with watched(multi, here, there, source,
                         there.pods[0].of(host_family)):
                result = service.ask(here, host_family, 5, proto=proto)
            assert result["answers"] == {there.pods[0].label + ":8080": 5}
            assert result["sources"] == [source]
        service.delete()


def test_the_host_reaches_pods_of_other_nodes(multi, host_family):
    """As a kubelet's probe would."""
    for here, there in pairs(multi):
        assert packets.ping(here, host_family, there.pods[0].of(host_family))
        result = Client(here, "connect", there.pods[0].of(host_family),
                        SERVED, count=3).wait()
        assert result["n_failures"] == 0, result


def test_pods_reach_the_outside(multi, host_family):
    """Masqueraded where the mode says so; never through the tunnel."""
    node = multi.nodes[0]
    pod, target = node.pods[0], multi.outside_address(host_family)
    source = (node if multi.masquerades else pod).of(host_family)
    with Server(multi.outside, "outside", tcp=[SERVED], udp=[SERVED]):
        with multi.capture(node) as capture:
            for proto in ("tcp", "udp"):
                result = Client(pod, "connect", target, SERVED, proto=proto,
                                count=5).wait()
                assert result["answers"] == {"outside": 5}
                assert result["sources"] == [source]
            assert packets.ping(pod, host_family, target)
    assert {s.kind for s in capture.of(target)} == {"plain"}
    assert len(capture.of(target, source)) == len(capture.of(target))


def test_pods_reach_hosts_of_other_nodes_through_a_service(multi,
                                                            host_family):
    """Endpoints in the host's network, such as an API server's."""
    for here, there in pairs(multi):
        pod = here.pods[0]
        service = multi.service(
            [at({host_family: there.of(host_family)}, 8090,
                node=there.node_name)], families=[host_family])
        with Server(there, "host", "--address", there.of(host_family),
                    tcp=[8090], udp=[8090]):
            for client in (pod, here):
                for proto in ("tcp", "udp"):
                    result = service.ask(client, host_family, 3, proto=proto)
                    assert result["answers"] == {"host": 3}
        service.delete()


def test_each_hop_counts_once(multi, family):
    """Both nodes are hops, and the router where it routes pods' packets;
    DSCP and ECN arrive as they were sent, also through a Service."""
    for here, there in pairs(multi):
        one, two = here.pods[0], there.pods[0]
        service = multi.service([at(two, PROBE_PORT)])
        routed = (multi.kind(here, there) == "plain"
                  and (here.subnet != there.subnet
                       or multi.mode == "networkPolicyOnly"))
        for address, port in ((two.of(family), PROBE_PORT),
                              (service.of(family), PORT)):
            with Wire(two) as wire:
                send_probe(one, family, address, port)
                frame = wire.wait(is_probe)
            assert frame, "no packet to %s" % address
            assert (frame.ttl, frame.tos) == (62 - routed, TOS)
            assert (frame.src, frame.dst) == (one.of(family), two.of(family))
        service.delete()


def test_congestion_on_the_way_is_told_to_the_pod(multi, family):
    """A mark on the outer header becomes one on the packet that was in it
    (RFC 6040)."""
    for here, there in pairs(multi):
        one, two = here.pods[0], there.pods[0]
        with multi.capture(there) as capture, Wire(two) as wire:
            send_probe(one, family, two.of(family))
            assert wire.wait(is_probe)
        passed, = [s for s in capture.of(one.of(family)) if s.sent
                   and is_probe(s.inner)]
        link = "to-" + there.label
        with Wire(multi.router, link) as router, Wire(two) as wire:
            router.sock.send(passed.marked)
            frame = wire.wait(is_probe)
        assert frame and frame.tos == TOS | CE


def test_e24_fragments_pass_through_services(multi, family):
    """Datagrams of several fragments, there and back (E24); the first one of a
    connection is one of them."""
    for here, there in pairs(multi):
        service = multi.service([at(there.pods[0])])
        with packets.sock(here.pods[0], family) as sock:
            for size in (3000, 10, 8000):
                sock.sendto(b"y" * size, (service.of(family), PORT))
                assert sock.recv(65536).split()[-1] == b"y" * size
        service.delete()


def test_gateway_and_pods_fill_the_underlay_and_no_more(multi, family):
    """The gateway has the pods' MTU; no packet on the wire is a fragment."""
    for here, there in pairs(multi):
        for node in (here, there):
            assert "mtu %d " % multi.pod_mtu in node.ip(
                "link", "show", "antrea-gw0")
        service = multi.service([at(there.pods[0])])
        with multi.capture(here) as capture, packets.sock(
                here.pods[0], family, socket.SOCK_STREAM) as sock:
            sock.connect((service.of(family), PORT))
            converse(sock, 100000)
        assert not [s for s in capture.seen if s.outer.more
                    or s.outer.offset]
        longest = max(capture.seen, key=lambda s: len(s.data))
        assert len(longest.data) == HEADER + multi.pod_mtu + (
            OVERHEAD.get(longest.kind, 0)
            + 20 * (longest.kind != "plain"
                    and longest.outer.eth_type == packets.ETH_IPV6))
        service.delete()


def test_a_router_that_wants_smaller_packets_is_heard(multi, host_family):
    """Its error about a translated connection reaches the pod, and quotes
    the packet that the pod sent; the connection goes on.

    Over IPv6 the connection is not one to a Service: of ICMPv6 errors about
    translated connections, Open vSwitch 3.1's connection tracking in
    userspace spoils two bytes of the quoted source address."""
    pod = multi.nodes[0].pods[0]
    target = multi.outside_address(host_family)
    service = multi.service([at({host_family: target}, PORT, node="outside")],
                            families=[host_family])
    called = service.of(4) if host_family == 4 else target
    kind = {4: (3, 4), 6: (2, 0)}[host_family]
    proto = {4: packets.ICMP, 6: packets.ICMPV6}[host_family]
    with Server(multi.outside, "outside", tcp=[PORT]), Wire(pod) as wire, \
            packets.sock(pod, host_family, socket.SOCK_STREAM) as sock:
        sock.connect((called, PORT))
        with multi.narrow_outside():
            converse(sock, 20000)
        error = wire.wait(lambda f: f.proto == proto and f.icmp == kind)
        port = sock.getsockname()[1]
    assert error, "no error has come"
    assert error.dst == pod.of(host_family)
    assert (error.quoted.src, error.quoted.dst) == (pod.of(host_family),
                                                    called)
    assert error.quoted.ports == (port, PORT)
    service.delete()
    pod.ip("-%d" % host_family, "route", "flush", "cache")
