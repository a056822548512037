# SPDX-License-Identifier: Apache-2.0
"""Gateways and clusters come, change and go while packets flow between two
clusters."""
import contextlib
import itertools
import os
import random
import time

import pytest

from support import apistore, packets
from support.cluster import PORT, at, lost_syns
from support.clusterset import NAMESPACE as MC, ClusterSet, \
    assert_no_failures, cluster_info, gateway, late_failures, traffic
from support.multinode import bridge_state
from support.traffic import ask_once
from support.wait import slowness, wait_for

HOW = pytest.mark.parametrize("hard", [True, False], ids=["kill", "term"])
SOURCE_PORT = 22001
ELSEWHERE = "203.0.113.90"      # A gateway of a cluster that isn't there.
WARNED = (r"\|multicluster\|WARN\|.* is not used: it overlaps",
          r"ClusterInfoImport .* is not used: it overlaps",
          r"of 2 Gateways only the oldest")
DIED = (r"\|(ofconn|rconn|ovsdb|reconnect|stream|vconn|host|gwlink|routes)"
        r"\|WARN\|")


@pytest.fixture(name="clusters", scope="module")
def _clusters(tmp_path_factory):
    with ClusterSet(tmp_path_factory.mktemp("mc")) as made:
        made.allow(*WARNED)
        yield made.wait()
        assert not made.unexpected_warnings()


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
    clusters.settle(web, client)
    return web, client


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
    clusters.settle(web, client)


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
    assert_no_failures(clients)
    assert lost_syns(client) == lost
    clusters.wait()
    assert [m.switch.state() for m in east.members] == before


def test_of_overlapping_networks_the_first_is_used(clusters, far):
    """It is named, and takes over when the first goes."""
    east = clusters.east
    web, client = far
    late = "10.97.128.0/17"
    try:
        with traffic(web, client) as clients:
            east.api.apply(cluster_info("south", [ELSEWHERE], late))
            for member in east.members:
                wait_for(lambda d=member.daemon:
                         "ClusterInfoImport south: %s is not used" % late
                         in d.appctl("sync"), 10, "the flaw", member.daemon)
            wait_network(east, late, present=False)
        assert_no_failures(clients)
        east.api.delete("clusterinfoimports", MC, "west")
        wait_network(east, late)
        wait_network(east, "10.97.0.0/16", present=False)
    finally:
        east.api.delete("clusterinfoimports", MC, "south")
        clusters.set_gateway("west", clusters.gateways["west"])
        clusters.wait()
    wait_network(east, late, present=False)
    clusters.settle(web, client)


def test_what_is_for_a_cluster_that_left_goes_outside(clusters, far):
    """By the gateway link, as anything outside; also when it has another
    network.  Traffic of the own cluster is not harmed, not even by one that
    claims the own networks."""
    east = clusters.east
    web, client = far
    own = east.service([at(n.pods[0]) for n in east.nodes])
    address = clusters.west.service_cidrs[4].replace("0.0/16", "7.7")
    info = clusters.info("west")

    def ways():
        for member in east.members:
            member.switch.wait_revalidated()
        with east.capture(*east.nodes) as capture:
            ask_once(client, address, 80, timeout=0.2)
        return {s.kind for s in capture.of(address)}

    with traffic(own, client) as clients:
        assert ways() == {"geneve"}
        for change in (
                lambda: east.api.delete("clusterinfoimports", MC, "west"),
                lambda: east.api.apply(cluster_info(
                    "west", [clusters.addresses["west"]], "10.98.0.0/16"))):
            change()
            wait_network(east, "10.97.0.0/16", present=False)
            assert ways() == {"plain"}
            east.api.apply(info)
            wait_network(east, "10.97.0.0/16")
            assert ways() == {"geneve"}
        east.api.apply(cluster_info("thief", [ELSEWHERE], "10.96.0.0/16"))
        for member in east.members:
            wait_for(lambda d=member.daemon:
                     "ClusterInfoImport thief: 10.96.0.0/16 is not used"
                     in d.appctl("sync"), 10, "the flaw", member.daemon)
        east.api.delete("clusterinfoimports", MC, "thief")
    assert_no_failures(clients)
    clusters.wait()
    clusters.settle(web, client)


class Kills:
    """Steps of random changes, each with daemons that die before, during or
    after it."""

    def __init__(self, clusters, steps):
        self.seed = int(os.environ.get("SEED", random.randrange(1000000)))
        print("SEED=%d" % self.seed)
        self.rng = random.Random(self.seed)
        self._clusters, self._steps = clusters, steps
        self._dead = []

    def _kill(self):
        members = [m for c in self._clusters.clusters.values()
                   for m in c.members if m not in self._dead]
        if members and self.rng.random() < 0.6:
            member = self.rng.choice(members)
            member.daemon.kill()
            self._dead.append(member)

    def _revive(self, chance):
        for member in list(self._dead):
            if self.rng.random() < chance:
                member.daemon.start()
                self._dead.remove(member)

    def run(self, n):
        """Also brings all to an end."""
        try:
            for _ in range(n):
                self._kill()
                self.rng.choice(self._steps)(self.rng)
                self._kill()
                self._revive(0.5)
        finally:
            self._revive(1)


def cold_states(clusters):
    """What new daemons make of new switches, of each node."""
    for cluster in clusters.clusters.values():
        for member in cluster.members:
            member.daemon.allow(DIED)
            member.switch.allow(r"\|WARN\|")
            member.daemon.kill()
            member.node.restart_switch(hard=True)
            member.daemon.start()
    return states(clusters)


def states(clusters):
    """Of each node's bridge, once nothing is to be done."""
    clusters.wait(20)
    return [settled_state(m) for c in clusters.clusters.values()
            for m in c.members]


def settled_state(member):
    """Once it doesn't change any more: old groups linger."""
    texts = [bridge_state(member)]

    def is_settled():
        texts.append(bridge_state(member))
        return texts[-1] == texts[-2]

    wait_for(is_settled, 10, "an end of changes", member.daemon)
    return texts[-1].splitlines()


def test_kills_while_others_change_lose_nothing(clusters, far):
    """Clusters come, change and go, and Gateways that are not the active
    one, while daemons are killed: connections don't notice."""
    web, client = far
    kinds = list(clusters.clusters)

    def put_cluster(rng):
        clusters.clusters[rng.choice(kinds)].api.apply(cluster_info(
            rng.choice(("north", "south")), [ELSEWHERE],
            rng.choice(("10.98.0.0/16", "10.99.0.0/16", "10.98.128.0/17"))))

    def delete_cluster(rng):
        for name in ("north", "south"):
            api = clusters.clusters[rng.choice(kinds)].api
            if api.get("clusterinfoimports", MC, name):
                api.delete("clusterinfoimports", MC, name)

    def put_gateway(rng):
        cluster = clusters.clusters[rng.choice(kinds)]
        cluster.api.apply(gateway(cluster.nodes[1], gatewayIP=ELSEWHERE))

    def delete_gateway(rng):
        cluster = clusters.clusters[rng.choice(kinds)]
        name = cluster.nodes[1].node_name
        if cluster.api.get("gateways", MC, name):
            cluster.api.delete("gateways", MC, name)

    def tell_more(rng):
        clusters.tell(rng.choice(kinds),
                      *rng.sample((ELSEWHERE,), rng.randrange(2)))

    steps = [put_cluster, delete_cluster, put_gateway, delete_gateway,
             tell_more]
    lost = lost_syns(client)
    with traffic(web, client) as clients, web.client(
            client, "hold", 4, interval=0.005, concurrency=4,
            least=3) as held:
        Kills(clusters, steps).run(20)
        for cluster in clusters.clusters.values():
            for resource, first in (("clusterinfoimports", ("east", "west")),
                                    ("gateways", ("n1", "n3"))):
                for found in list(cluster.api.objects(resource)):
                    name = found["metadata"]["name"]
                    if name not in first:
                        cluster.api.delete(resource, MC, name)
        for kind in kinds:
            clusters.tell(kind)
        clusters.wait(20)
    assert_no_failures({**clients, "held": held})
    assert lost_syns(client) == lost


def test_kills_while_gateways_move(clusters, far):
    """Afterwards all is as after a cold start, and answered."""
    web, client = far

    def move(rng):
        name, cluster = rng.choice(sorted(clusters.clusters.items()))
        clusters.set_gateway(name, rng.choice(cluster.nodes))

    with traffic(web, client, 4, slowness()) as clients, web.client(
            client, "hold", 4, proto="udp", interval=0.005,
            timeout=0.3 * slowness()) as held:
        Kills(clusters, [move]).run(20)
        for name, cluster in clusters.clusters.items():
            clusters.set_gateway(name, cluster.nodes[0])
        clusters.wait(20)
        clusters.settle(web, client)
        when = time.monotonic() + 1.5 * slowness()
        wait_for(lambda: time.monotonic() > when, 10, "the passes' end")
        assert web.ask(client, 4, 60, interval=0.01)["n"] == 60
    for name, one in {**clients, "held": held}.items():
        assert not late_failures(one, when), (name, one.result)
    warm = states(clusters)
    assert warm == cold_states(clusters)
    clusters.settle(web, client)


@HOW
def test_a_restart_of_any_daemon_loses_nothing(clusters, hard):
    """One after the other, while connections are made and held.

    To a port that no other test asks for: connections that a gateway's move
    has cut off stay half open in switches and pods, and a new one with the
    same ends would be taken for them."""
    web, _ = clusters.export({
        name: [at(n.pods[0], 8081) for n in cluster.nodes]
        for name, cluster in clusters.clusters.items()})
    client = clusters.east.nodes[1].pods[1]
    clusters.settle(web, client)
    lost = lost_syns(client)
    with traffic(web, client) as clients, web.client(
            client, "hold", 4, interval=0.005, concurrency=8,
            least=3) as held:
        for member in itertools.chain(clusters.east.members,
                                      clusters.west.members):
            before = member.switch.state()
            member.daemon.restart(hard)
            member.daemon.wait_synced()
            assert member.switch.state() == before
    assert_no_failures({**clients, "held": held})
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
    clusters.settle(web, client)
    clusters.set_gateway("west", west.nodes[0])
    clusters.wait()
    clusters.settle(web, client)


def answered(sock):
    """Whether a datagram is answered before the next one is sent."""
    word = b"%d" % time.monotonic_ns()
    sock.send(word)
    with contextlib.suppress(TimeoutError):
        return sock.recv(200).split()[-1] == word
    return False


def test_a_gateway_was_away_while_another_was_it(clusters):
    """It knows nothing of that, and has got what the other one had looked up
    for its pod from a client that it knows: a UDP socket that is held is
    answered again when it is the gateway for others, too."""
    west, pod = clusters.west, clusters.west.nodes[0].pods[0]
    first, client = member_of(west, 0), clusters.east.nodes[1].pods[1]
    web, _ = clusters.export({"west": [at(pod)]})
    clusters.settle(web, client)
    entry = "udp,orig=(src=%s,dst=%s,sport=%d," % (
        clusters.addresses["east"], pod.of(4), SOURCE_PORT)
    with packets.sock(client, 4, port=SOURCE_PORT, timeout=0.05) as sock:
        sock.connect((web.of(4), PORT))
        wait_for(lambda: answered(sock), 5, "an answer", clusters)
        first.daemon.kill()
        try:
            clusters.set_gateway("west", west.nodes[1])

            def is_sent():
                answered(sock)
                return any(line.startswith(entry)
                           for line in first.switch.conntrack())
            wait_for(is_sent, 10, "what the other one looks up", clusters)
        finally:
            clusters.set_gateway("west", west.nodes[0])
            first.daemon.start()
        clusters.wait()
        wait_for(lambda: answered(sock), 5, "an answer", clusters)


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
        clusters.settle(web, clusters.east.nodes[1].pods[1])
        assert not clusters.unexpected_warnings()
