# SPDX-License-Identifier: Apache-2.0
"""Pods of the node among themselves, with the host and with the outside; and
what a pod may not pretend to be."""
import pytest

from support import packets
from support.cluster import NODE, OUTSIDE, PORT, VIRTUAL_MAC, at
from support.packets import BROADCAST, ETH_ARP, UDP, Wire
from support.traffic import Server, ask_once

BOTH = pytest.mark.parametrize("family", [4, 6])
PROTOS = pytest.mark.parametrize("proto", ["tcp", "udp"])
OURS = b"ours"                  # Behind an ARP packet: not the kernel's.
STRANGER = {4: "203.0.113.66", 6: "2001:db8:dead::66"}


# Who may talk.

@BOTH
@PROTOS
def test_pods_reach_each_other_without_a_router(cluster, family, proto):
    """As on one wire: nothing is rewritten, no hop counted."""
    one, two = cluster.pods[:2]
    number = {"tcp": packets.TCP, "udp": packets.UDP}[proto]
    with Wire(two) as wire:
        result = ask_once(one, two.of(family), 8080, proto=proto)
        frame = wire.wait(lambda f: f.proto == number
                          and f.src == one.of(family))
    assert result["sources"] == [one.of(family)]
    assert (frame.eth_src, frame.eth_dst) == (one.mac, two.mac)
    assert frame.ttl == 64


@BOTH
def test_pods_and_the_gateway_ping_each_other(cluster, family):
    """In either direction."""
    for pod in cluster.pods[:2]:
        assert packets.ping(pod, family, cluster.gateway(family))
        assert packets.ping(cluster.host, family, pod.of(family))


@BOTH
@PROTOS
def test_the_host_probes_a_pod(cluster, family, proto):
    """As a kubelet does, from the gateway's address."""
    pod = cluster.pods[0]
    result = ask_once(cluster.host, pod.of(family), 8080, proto=proto)
    assert result["answers"] == {"p0:8080": 1}
    assert result["sources"] == [cluster.gateway(family)]


@BOTH
@PROTOS
def test_a_pod_and_the_outside_reach_each_other(cluster, family, proto):
    """The host is the router between; others don't know the pods' addresses."""
    pod = cluster.pods[0]
    result = ask_once(cluster.outside, pod.of(family), 8080, proto=proto)
    assert result["sources"] == [OUTSIDE[family]]
    with Server(cluster.outside, "outside", tcp=[7000], udp=[7000]):
        result = ask_once(pod, OUTSIDE[family], 7000, proto=proto)
    assert result["sources"] == [NODE[family]]
    assert packets.ping(pod, family, OUTSIDE[family])


def test_the_virtual_address_is_answered_for(cluster):
    """By the switch; it is nobody's."""
    pod = cluster.pods[0]
    with Wire(pod) as wire:
        wire.send(BROADCAST, (ETH_ARP, packets.arp(
            pod.mac, pod.of(4), "169.254.0.253")))
        answer = wire.wait(lambda f: f.eth_type == ETH_ARP
                           and f.src == "169.254.0.253")
    assert answer.eth_src == VIRTUAL_MAC
    assert (answer.dst, answer.proto) == (pod.of(4), 2)


def test_the_kernel_does_not_answer_for_the_gateway(cluster):
    """It listens on the pods' links as well, and what pods sent to the MAC
    address that it would give would pass the bridge by."""
    node = cluster.node
    node.sysctl(net__ipv4__conf__all__arp_ignore=0)
    try:
        pod = node.add_pod("late")
        cluster.daemon.wait_flow("L3Forwarding", "_dst=%s " % pod.of(4))
        with Wire(pod) as wire:
            def is_answer(frame):
                return (frame.eth_type == ETH_ARP
                        and frame.src == cluster.gateway(4))

            wire.send(BROADCAST, (ETH_ARP, packets.arp(
                pod.mac, pod.of(4), cluster.gateway(4))))
            assert wire.wait(is_answer)
            assert not wire.wait(
                lambda f: is_answer(f)
                and f.eth_src != cluster.gateway_mac(), 0.3)
    finally:
        node.sysctl(net__ipv4__conf__all__arp_ignore=1)
        pod.close()
        node.pods.remove(pod)


# Who may not.

@BOTH
@pytest.mark.parametrize("lie", ["none", "mac", "neighbour", "stranger",
                                 "both", "gateway"])
def test_a_pod_may_not_pretend_to_be_another(cluster, family, lie):
    """Neither its MAC nor its IP address: such packets reach nobody, directly
    or by a Service."""
    liar, victim, third = cluster.pods
    src = {"neighbour": victim.of(family), "stranger": STRANGER[family],
           "both": victim.of(family),
           "gateway": cluster.gateway(family)}.get(lie, liar.of(family))
    mac = victim.mac if lie in ("mac", "both") else liar.mac
    service = cluster.service([at(third)])
    with Wire(liar) as here, Wire(third) as there:
        here.send(third.mac, packets.ip(
            src, third.of(family), UDP, packets.udp(1001, 8080, b"x")), mac)
        here.send(cluster.gateway_mac(), packets.ip(
            src, service.of(family), UDP, packets.udp(1002, PORT, b"x")), mac)
        here.send(third.mac, packets.ip(    # So that we know when to look.
            liar.of(family), third.of(family), UDP,
            packets.udp(1003, 8080, b"x")))
        assert there.wait(lambda f: f.proto == UDP and f.ports[0] == 1003)
        got = {f.ports[0] for f in there.frames if f.proto == UDP}
    assert got == ({1001, 1002, 1003} if lie == "none" else {1003})
    assert not any(",dst=%s," % service.of(family) in line and lie != "none"
                   for line in cluster.node.switch.conntrack())


@pytest.mark.parametrize("lie", ["none", "spa", "sha", "gateway"])
def test_a_pod_may_not_answer_arp_for_another(cluster, lie):
    """Requests and replies alike, whatever the frame around them says."""
    liar, victim, third = cluster.pods
    spa = {"spa": victim.of(4),
           "gateway": cluster.gateway(4)}.get(lie, liar.of(4))
    sha = victim.mac if lie == "sha" else liar.mac
    with Wire(liar) as here, Wire(third) as there:
        for op in (1, 2):
            here.send(third.mac, (ETH_ARP, packets.arp(
                sha, spa, third.of(4), op, third.mac) + OURS))
        here.send(third.mac, packets.ip(
            liar.of(4), third.of(4), UDP, packets.udp(1004, 8080, b"x")))
        assert there.wait(lambda f: f.proto == UDP and f.ports[0] == 1004)
        got = [f.proto for f in there.frames if f.eth_type == ETH_ARP
               and f.eth_src == liar.mac and f.l4.endswith(OURS)]
    assert [op for op in got if op == 2] == ([2] if lie == "none" else [])
    assert bool(got) == (lie == "none")


@BOTH
def test_an_unknown_port_gets_nothing_through(cluster, family):
    """A link that no CNI plugin has announced."""
    stranger = cluster.node.add_pod("unknown", 77)
    cluster.node.pods.remove(stranger)
    try:
        cluster.daemon.wait_flow("SpoofGuard", stranger.mac)
        cluster.node.switch.vsctl("clear", "Interface", stranger.iface,
                                  "external_ids")
        cluster.daemon.wait_flow("SpoofGuard", stranger.mac, present=False)
        result = ask_once(stranger, cluster.pods[0].of(family), 8080,
                          timeout=0.3)
        assert result["n"] == 0
    finally:
        stranger.close()
