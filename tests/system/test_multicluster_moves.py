# SPDX-License-Identifier: Apache-2.0
"""Gateways change their addresses, move and die while packets flow between
two clusters: what is lost, and what goes on.  In every mode.

east's n1 and west's n3 are gateways at first; the clients are east's."""
import collections
import contextlib
import re
import time

import pytest

from support import packets
from support.capture import Capture
from support.cluster import at
from support.clusterset import INTERVAL, ClusterSet, assert_short_outage, \
    late_failures, several, traffic
from support.wait import slowness, wait_for

BOTH = pytest.mark.parametrize("name", ["east", "west"])
SECOND = {"east": "192.0.2.90", "west": "198.51.100.90"}    # Of gateways.
SNAT_ZONE = 65521
DIED = (r"\|(ofconn|rconn|ovsdb|reconnect|stream|vconn|host|gwlink|routes)"
        r"\|WARN\|")


@pytest.fixture(name="clusters", scope="module",
                params=["encap", "noEncap", "hybrid"])
def _clusters(request, tmp_path_factory):
    with ClusterSet(tmp_path_factory.mktemp("mc"), request.param) as made:
        yield made.wait()
        assert not made.unexpected_warnings()


def member_of(cluster, n):
    """The Member with this node."""
    return cluster.member(cluster.nodes[n])


@pytest.fixture(name="far")
def _far(clusters):
    """(a Service that both nodes of west serve, a client at each node of
    east): answered."""
    web, _ = clusters.export(
        {"west": [at(n.pods[0]) for n in clusters.west.nodes]})
    clients = [n.pods[1] for n in clusters.east.nodes]
    for client in clients:
        clusters.settle(web, client)
    return web, clients


# Another address.

def wait_address(clusters, name, address, old):
    """Waits until the flows everywhere are those of a gateway's address, and
    none are those of the old one."""
    cluster = clusters.clusters[name]
    (other,) = clusters.others(name).values()
    for member in other.members:
        member.daemon.wait_flow("nw_dst=%s " % address)
        member.daemon.wait_flow(old, present=False)
    member_of(cluster, 1).daemon.wait_flow(
        "table=L3Forwarding", "nw_dst=" + other.service_cidrs[4],
        "%s->tun_dst" % address)
    member_of(cluster, 0).daemon.wait_flow("table=UnSNAT", "nw_dst=" + old,
                                           present=False)


def wait_forgotten(cluster, source):
    """Waits until no switch knows a connection with this source."""
    pattern = re.compile("reply=.*dst=%s,.*zone=%d" % (
        re.escape(source), SNAT_ZONE))
    for member in cluster.members:
        wait_for(lambda s=member.switch: not any(
            pattern.search(line) for line in s.conntrack()), 5,
                 "the end of " + source, member.daemon)


@BOTH
def test_m3_a_gateways_address_changes(clusters, far, name):
    """M3: for other clusters and for nodes.  Connections go on being made,
    sockets of UDP that are held are answered, connections of TCP that had
    the old source are reset, and afterwards nothing passes by the old
    address."""
    web, pods = far
    node, address = clusters.gateways[name], SECOND[name]
    old = node.of(4)
    node.ip("addr", "add", address + "/24", "dev", node.link)
    try:
        with several(web, pods, "hold", proto="udp", timeout=0.3 * slowness(),
                     concurrency=4) as udp, \
                several(web, pods, "hold", timeout=5 * slowness(),
                        concurrency=4) as tcp:
            with traffic(web, pods[1], 8, 0.5) as clients:
                clusters.set_gateway(name, node, address=address)
                wait_address(clusters, name, address, old)
                for _ in range(3):  # So that an outage has an end.
                    clusters.settle(web, pods[1])
            if name == "east":
                wait_forgotten(clusters.east, old)
            when = time.monotonic()
            with clusters.east.capture(*clusters.east.nodes) as capture:
                assert web.ask(pods[1], 4, 40, interval=0.02)["n"] == 40
        for one in udp:
            assert not late_failures(one, when), one.result
        for one in tcp:
            assert one.result["kinds"] == (
                {"ECONNRESET": 4} if name == "east" else {}), one.result
        assert_short_outage("%s's address" % name, clients)
        ends = {end for s in capture.seen if s.kind != "plain"
                for end in (s.outer.src, s.outer.dst)}
        assert address in ends
        assert old not in {s.outer.dst for s in capture.seen
                           if s.kind != "plain"}
    finally:
        clusters.set_gateway(name, node)
        node.ip("addr", "del", address + "/24", "dev", node.link)
        clusters.wait()


# Another node.

class Arrivals:
    """How many datagrams of streams have come to pods; a context manager."""

    def __init__(self, pods):
        self._captures = [(pod, Capture(pod, "eth0")) for pod in pods]
        self.texts = collections.Counter()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pod, capture in self._captures:
            self.texts.update(
                s.inner.l4[8:].decode() for s in capture.stop().of(
                    pod.of(4), sent=False)
                if s.inner.proto == packets.UDP and s.inner.dst == pod.of(4)
                and s.inner.l4[8:9] == b"s")


@contextlib.contextmanager
def streams(clusters, service, pods):
    """Datagrams without a pause from some pods: yields the clients.  Prints
    at the end how many have not come to a pod of west."""
    with Arrivals([n.pods[0] for n in clusters.west.nodes]) as arrivals:
        with several(service, pods, "stream") as clients:
            yield clients
    sent = sum(c.result["n"] + c.result["n_failures"] for c in clients)
    print("streams: %d sent, %d lost, %s not answered" % (
        sent, sent - sum(arrivals.texts.values()),
        [c.result["n_failures"] for c in clients]))
    assert sent - sum(arrivals.texts.values()) < 0.1 * slowness() / INTERVAL


def assert_short_pause(clients, seconds=1):
    """Streams were answered but for a while."""
    for client in clients:
        unanswered = client.result["n_failures"] * INTERVAL
        assert unanswered < seconds * slowness(), client.result["failures"]


@BOTH
def test_the_gateway_moves_to_another_node(clusters, far, name):
    """And back, while the old one is alive.  New connections are made all
    the time, and datagrams of a socket that is held arrive, whichever node
    learns of it first; answers come back once the other cluster knows."""
    web, pods = far
    cluster = clusters.clusters[name]
    for node in (cluster.nodes[1], cluster.nodes[0]):
        with streams(clusters, web, pods) as held, \
                traffic(web, pods[1], 8, 0.5) as clients:
            clusters.set_gateway(name, node)
            clusters.wait()
            for _ in range(3):      # So that an outage has an end.
                clusters.settle(web, pods[1])
        assert_short_outage("%s's gateway to %s" % (name, node.label),
                            clients)
        assert_short_pause(held)
        assert web.ask(pods[1], 4)["sources"] == [
            clusters.gateways["east"].of(4)]


# Death.

def kill_node(member):
    """Its daemon and its switch."""
    member.daemon.kill()
    member.switch.kill_vswitchd()


def revive(member):
    """Both again, and the addresses that the switch had."""
    member.switch.start_vswitchd()
    member.node.bring_up_underlay()
    member.daemon.start()


def expect_trouble(member):
    """The warnings of a switch's death."""
    member.daemon.allow(DIED)
    member.switch.allow(r"\|WARN\|")


def wait_answer(service, client):
    """Asks until there is an answer; the seconds that it took."""
    began = time.monotonic()
    wait_for(lambda: service.ask(client, 4, timeout=0.1 * slowness())["n"], 20,
             "an answer")
    return time.monotonic() - began


@BOTH
def test_a_dead_gateway_is_replaced(clusters, name):
    """Once another node is named."""
    cluster = clusters.clusters[name]
    old, new = (member_of(cluster, n) for n in (0, 1))
    web, _ = clusters.export({"west": [at(clusters.west.nodes[1].pods[0])]})
    client = clusters.east.nodes[1].pods[1]
    clusters.settle(web, client)
    expect_trouble(old)
    with several(web, [client], "hold", proto="udp",
                 timeout=0.2 * slowness()) as held:
        kill_node(old)
        assert not web.ask(client, 4, 3, timeout=0.2)["n"]
        clusters.set_gateway(name, new.node)
        print("%s: after the gateway's death was told: %.3f s"
              % (name, wait_answer(web, client)))
        when = time.monotonic()
        assert web.ask(client, 4, 60, interval=0.02)["n"] == 60
        revive(old)
        clusters.wait()
        clusters.settle(web, client)
        assert web.ask(client, 4, 60)["n"] == 60
    assert not late_failures(held[0], when + 0.5 * slowness())
    clusters.set_gateway(name, old.node)
    clusters.wait()
    clusters.settle(web, client)


@BOTH
def test_a_gateways_switch_restarts(clusters, name):
    """It has what it had, and sockets that are held are answered again."""
    cluster = clusters.clusters[name]
    member = member_of(cluster, 0)
    web, _ = clusters.export({"west": [at(clusters.west.nodes[1].pods[0])]})
    client = clusters.east.nodes[1].pods[1]
    clusters.settle(web, client)
    expect_trouble(member)
    before = member.switch.state()
    with several(web, [client], "stream") as held:
        member.node.restart_switch(hard=True)
        wait_for(lambda: member.switch.state() == before, 10,
                 "its old state", member.daemon)
        clusters.settle(web, client)
    print("%s's switch: %.3f s without an answer" % (
        name, held[0].result["n_failures"] * INTERVAL))
    assert_short_pause(held, 5)
    clusters.wait()
    for other in clusters.east.members + clusters.west.members:
        other.daemon.wait_synced()
