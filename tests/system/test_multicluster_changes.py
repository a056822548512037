# SPDX-License-Identifier: Apache-2.0
"""Gateways and clusters come, change and go while packets flow between two
clusters."""
import contextlib
import itertools

import pytest

from support import apistore
from support.cluster import at, lost_syns
from support.clusterset import NAMESPACE as MC, ClusterSet, cluster_info, \
    gateway
from support.wait import slowness, wait_for

HOW = pytest.mark.parametrize("hard", [True, False], ids=["kill", "term"])
GATEWAY_2 = "198.51.100.113"    # Another address of west's gateway.
ELSEWHERE = "203.0.113.90"      # A gateway of a cluster that isn't there.
WARNED = r"\|multicluster\|WARN\|.* is not used: it overlaps"
INTERVAL = 0.002                # Seconds from question to question.


@pytest.fixture(name="clusters", scope="module")
def _clusters(tmp_path_factory):
    with ClusterSet(tmp_path_factory.mktemp("mc")) as made:
        made.allow(WARNED)
        yield made.wait()
        assert not made.unexpected_warnings()


def dump(clusters):
    """For failure messages."""
    return clusters.east.dump() + clusters.west.dump()


def settle(clusters, service, client, timeout=10):
    """Waits until all of 20 questions are answered."""
    wait_for(lambda: service.ask(client, 4, 20, timeout=0.5)["n"] == 20,
             timeout, "answers", lambda: dump(clusters))


def member_of(cluster, n):
    """The Member with this node."""
    return cluster.member(cluster.nodes[n])


@pytest.fixture(name="far")
def _far(clusters):
    """(a Service that is served by a regular node of west, a client at a
    regular node of east): answered."""
    web, _ = clusters.export(
        {"west": [at(n.pods[0]) for n in clusters.west.nodes]})
    client = clusters.east.nodes[1].pods[1]
    settle(clusters, web, client)
    return web, client


@contextlib.contextmanager
def traffic(service, client, concurrency=1, timeout=2):
    """Questions by TCP and UDP from here to the end of the block."""
    with contextlib.ExitStack() as stack:
        yield {proto: stack.enter_context(service.client(
            client, "connect", 4, proto=proto, interval=INTERVAL,
            concurrency=concurrency, timeout=timeout))
               for proto in ("tcp", "udp")}


def assert_short_outage(what, clients):
    """Also prints what the traffic has lost.  The outage: from the first
    failure to the last."""
    for proto, client in clients.items():
        result = client.result
        times = [f["at"] for f in result["failures"]] or [0]
        outage = max(times) - min(times)
        print("%s: %s: %d answers, %d failures %s in %.3f s, slowest %.3f s"
              % (what, proto, result["n"], result["n_failures"],
                 result["kinds"], outage, result["max"]))
        assert result["n"] > 10, (proto, result)
        assert outage < 3 * slowness(), (proto, result["failures"])


def tunnelled_to(member, network):
    """Where a node sends what is for a network of another cluster: the texts
    of its L3Forwarding flows."""
    return [flow for flow in member.switch.dump_flows("table=L3Forwarding")
            if "nw_dst=%s" % network in flow]


def test_m3_no_flow_leads_to_a_gateways_old_address(clusters, far):
    """M3: both addresses of west's Gateway change.  Connections go on being
    made, and afterwards nothing passes by the old one."""
    east, west = clusters.east, clusters.west
    web, client = far
    node = west.nodes[0]
    old = node.of(4)
    node.ip("addr", "add", GATEWAY_2 + "/24", "dev", node.link)
    try:
        with traffic(web, client, 8, 0.5) as clients:
            west.api.apply(gateway(node, gatewayIP=GATEWAY_2,
                                   internalIP=GATEWAY_2))
            east.api.apply({**clusters.info("west"), "spec": {
                **clusters.info("west")["spec"],
                "gatewayInfos": [{"gatewayIP": GATEWAY_2}]}})
            for member in east.members:
                member.daemon.wait_flow("nw_dst=%s " % GATEWAY_2)
                member.daemon.wait_flow(old, present=False)
            other = member_of(west, 1)
            wait_for(lambda: all(
                "%s->tun_dst" % GATEWAY_2 in flow for flow in tunnelled_to(
                    other, east.service_cidrs[4])), 10, "the new address",
                other.daemon)
            member_of(west, 0).daemon.wait_flow(
                "table=UnSNAT", "nw_dst=" + old, present=False)
            for _ in range(5):  # So that an outage has an end.
                settle(clusters, web, client)
        assert_short_outage("gateway's address", clients)
        settle(clusters, web, client)
        with east.capture(*east.nodes) as capture:
            assert web.ask(client, 4, 10)["n"] == 10
        ends = {end for s in capture.seen if s.kind != "plain"
                for end in (s.outer.src, s.outer.dst)}
        assert GATEWAY_2 in ends
        assert not [s for s in capture.seen if s.outer.dst == old
                    and s.kind != "plain"]
    finally:
        clusters.set_gateway("west", node)
        node.ip("addr", "del", GATEWAY_2 + "/24", "dev", node.link)
        clusters.wait()


@pytest.mark.parametrize("name", ["east", "west"])
def test_the_gateway_moves_to_another_node(clusters, far, name):
    """While connections are made; and back.  Those that were made by the old
    one end, new ones are made all the time."""
    web, client = far
    cluster = clusters.clusters[name]
    for node in (cluster.nodes[1], cluster.nodes[0]):
        settle(clusters, web, client)
        with traffic(web, client, 8, 0.5) as clients:
            clusters.set_gateway(name, node)
            clusters.wait()
            for _ in range(5):  # So that an outage has an end.
                settle(clusters, web, client)
        assert_short_outage("%s's gateway to %s" % (name, node.label),
                            clients)
        assert web.ask(client, 4)["sources"] == [
            clusters.gateways["east"].of(4)]


def test_a_socket_of_udp_outlives_the_gateways_move(clusters, far):
    """Of a pod of the node that becomes the gateway, and is it no longer: the
    switch still knows the connection, with another source or none."""
    web, client = far
    for node in (clusters.east.nodes[1], clusters.east.nodes[0]):
        with web.client(client, "hold", 4, proto="udp", interval=INTERVAL,
                        concurrency=4, timeout=0.5) as held:
            clusters.set_gateway("east", node)
            clusters.wait()
            for _ in range(5):
                settle(clusters, web, client)
        assert_short_outage("held, gateway to " + node.label, {"udp": held})


def test_no_gateway_no_flows(clusters, far):
    """The Gateway goes and comes back."""
    web, client = far
    east, west = clusters.east, clusters.west
    east.api.delete("gateways", MC, clusters.gateways["east"].node_name)
    try:
        for member in east.members:
            member.daemon.wait_flow("nw_dst=" + west.service_cidrs[4],
                                    present=False)
            member.daemon.wait_flow("aa:bb:cc:dd:ee:f0", present=False)
            assert "multicluster: no gateway" in member.daemon.appctl("sync")
    finally:
        clusters.set_gateway("east", clusters.gateways["east"])
        clusters.wait()
    settle(clusters, web, client)


def wait_network(cluster, network, present=True):
    """Waits until every node sends this network to another cluster, or none
    does."""
    for member in cluster.members:
        member.daemon.wait_flow("table=L3Forwarding", "nw_dst=%s " % network,
                                present=present)


def test_a_cluster_comes_changes_and_goes(clusters, far):
    """Traffic to the other one loses nothing."""
    east = clusters.east
    web, client = far
    before = [m.switch.state() for m in east.members]
    lost = lost_syns(client)
    with traffic(web, client) as clients:
        east.api.apply(cluster_info("north", [ELSEWHERE], "10.98.0.0/16"))
        wait_network(east, "10.98.0.0/16")
        wait_network(east, ELSEWHERE)
        east.api.apply(cluster_info("north", [ELSEWHERE], "10.99.0.0/16"))
        wait_network(east, "10.99.0.0/16")
        wait_network(east, "10.98.0.0/16", present=False)
        east.api.delete("clusterinfoimports", MC, "north")
        for network in ("10.99.0.0/16", ELSEWHERE):
            wait_network(east, network, present=False)
    for name, one in clients.items():
        assert not one.result["n_failures"], (name, one.result["failures"])
    assert lost_syns(client) == lost
    clusters.wait()
    assert [m.switch.state() for m in east.members] == before


def test_of_overlapping_networks_the_first_is_used(clusters, far):
    """It is named, and takes over when the first goes."""
    east = clusters.east
    web, client = far
    late = "10.97.128.0/17"
    with traffic(web, client) as clients:
        east.api.apply(cluster_info("south", [ELSEWHERE], late))
        for member in east.members:
            wait_for(lambda d=member.daemon:
                     "ClusterInfoImport south: %s is not used" % late
                     in d.appctl("sync"), 10, "the flaw", member.daemon)
        wait_network(east, late, present=False)
    for name, one in clients.items():
        assert not one.result["n_failures"], (name, one.result["failures"])
    east.api.delete("clusterinfoimports", MC, "west")
    try:
        wait_network(east, late)
        wait_network(east, "10.97.0.0/16", present=False)
    finally:
        east.api.delete("clusterinfoimports", MC, "south")
        clusters.set_gateway("west", clusters.gateways["west"])
        clusters.wait()
    wait_network(east, late, present=False)
    settle(clusters, web, client)


@HOW
def test_a_restart_of_any_daemon_loses_nothing(clusters, hard):
    """One after the other, while connections are made and held."""
    web, _ = clusters.export({
        name: [at(n.pods[0]) for n in cluster.nodes]
        for name, cluster in clusters.clusters.items()})
    client = clusters.east.nodes[1].pods[1]
    settle(clusters, web, client)
    lost = lost_syns(client)
    with traffic(web, client) as clients, web.client(
            client, "hold", 4, interval=0.005, concurrency=8) as held:
        for member in itertools.chain(clusters.east.members,
                                      clusters.west.members):
            before = member.switch.state()
            member.daemon.restart(hard)
            member.daemon.wait_synced()
            assert member.switch.state() == before
    for name, one in {**clients, "held": held}.items():
        assert not one.result["n_failures"], (name, one.result["failures"])
        assert one.result["n"] > 10, name
    assert lost_syns(client) == lost


def test_changes_while_a_daemon_is_away(clusters, far):
    """Both gateways' daemons are; west's gateway moves meanwhile."""
    web, client = far
    east, west = clusters.east, clusters.west
    away = [member_of(east, 0), member_of(west, 0)]
    for member in away:
        member.daemon.kill()
    try:
        assert web.ask(client, 4, 20)["n"] == 20
        clusters.set_gateway("west", west.nodes[1])
    finally:
        for member in away:
            member.daemon.start()
    clusters.wait()
    settle(clusters, web, client)
    clusters.set_gateway("west", west.nodes[0])
    clusters.wait()
    settle(clusters, web, client)


def test_kinds_that_come_later_are_picked_up(tmp_path):
    """The API server doesn't have them at first; that is no fault."""
    with ClusterSet(tmp_path, resources=()) as clusters:
        for member in clusters.east.members + clusters.west.members:
            member.daemon.wait_synced()
            assert "multicluster: no gateway" in member.daemon.appctl("sync")
        for cluster in clusters.clusters.values():
            for resource in apistore.MULTICLUSTER:
                cluster.api.add_resource(resource)
        clusters.introduce()
        clusters.wait(90)
        web, _ = clusters.export(
            {"west": [at(clusters.west.nodes[1].pods[0])]})
        settle(clusters, web, clusters.east.nodes[1].pods[1])
        assert not clusters.unexpected_warnings()
