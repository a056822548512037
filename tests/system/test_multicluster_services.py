# SPDX-License-Identifier: Apache-2.0
"""Services whose endpoints are cluster IPs, with packets: what they promise
besides answers."""
import pytest

from support import objects
from support.cluster import NAMESPACE, PORT, Endpoint, at
from support.clusterset import ClusterSet
from support.multinode import ROUTER, host_of
from support.traffic import Client
from support.wait import wait_for

PROTOS = pytest.mark.parametrize("proto", ["tcp", "udp"])
CLIENTS = pytest.mark.parametrize("n_client", [0, 1],
                                  ids=["gateway", "regular"])
AT_ONCE = 2                     # Seconds.
NODE_PORT = 30095
EXTERNAL = "203.0.113.180"


@pytest.fixture(name="clusters", scope="module")
def _clusters(tmp_path_factory):
    with ClusterSet(tmp_path_factory.mktemp("mc")) as made:
        yield made.wait()
        assert not made.unexpected_warnings()


def assert_refused(clusters, service, client, proto):
    """Each try is, in no time."""
    def is_refused():
        result = service.ask(client, 4, 5, proto=proto)
        return result["kinds"] == {"ECONNREFUSED": 5} and result
    result = wait_for(is_refused, 10, "refusals",
                      lambda: clusters.east.dump() + clusters.west.dump())
    assert max(f["after"] for f in result["failures"]) < AT_ONCE


def change_spec(service, **fields):
    """Of an imported Service; does not wait."""
    service.cluster.api.patch("services", NAMESPACE, service.name,
                              {"spec": fields})


def settle(clusters, service, client, pods, **more):
    """Waits until these pods answer."""
    want = {"%s:8080" % pod.pod_name for pod in pods}
    wait_for(lambda: set(service.ask(client, 4, 20, timeout=0.5,
                                     **more)["answers"]) == want, 10,
             "answers of %s" % sorted(want),
             lambda: clusters.east.dump() + clusters.west.dump())


@PROTOS
@CLIENTS
def test_the_far_side_refuses(clusters, n_client, proto):
    """Without an endpoint there: through the tunnels."""
    web, _ = clusters.export({"west": []})
    assert_refused(clusters, web, clusters.east.nodes[n_client].pods[1],
                   proto)


@PROTOS
@CLIENTS
def test_the_own_cluster_refuses(clusters, n_client, proto):
    web, _ = clusters.export({"east": []})
    assert_refused(clusters, web, clusters.east.nodes[n_client].pods[1],
                   proto)


def in_loops(east):
    """A Service that names itself, two that name each other, and three in a
    ring."""
    made = []
    for n in (1, 2, 3):
        ring = [east.service(wait=False) for _ in range(n)]
        for i, service in enumerate(ring):
            service.set([Endpoint({4: ring[(i + 1) % n].of(4)}, PORT, None)],
                        wait=False)
        made += ring
    return made


@PROTOS
@CLIENTS
def test_a_loop_ends_in_a_refusal(clusters, n_client, proto):
    """And the switch has nothing to say (see the fixture)."""
    east = clusters.east
    for member in east.members:
        member.daemon.allow(r"\|notice\|WARN\|Service .*: connections that get "
                            "it are rejected", r"Dropped \d+ log messages")
    for service in in_loops(east):
        assert_refused(clusters, service, east.nodes[n_client].pods[1], proto)
        assert_refused(clusters, service, east.nodes[n_client], proto)


def test_the_far_side_remembers(clusters):
    """Affinity of the exported Service: all clients of the other cluster are
    one, its gateway."""
    east, west = clusters.east, clusters.west
    web, made = clusters.export({"west": [at(p) for n in west.nodes
                                          for p in n.pods]})
    made["west"].change(sessionAffinity="ClientIP")
    answers = set()
    for node in east.nodes:
        client = node.pods[1]
        wait_for(lambda c=client: web.ask(c, timeout=0.5)["n"], 10,
                 "an answer", west.dump)
        answers |= set(web.ask(client, 4, 20)["answers"])
    assert len(answers) == 1


@CLIENTS
def test_the_near_side_remembers_the_cluster(clusters, n_client):
    """Affinity of the imported Service: a client stays with one cluster IP;
    which of its pods answers is that Service's choice."""
    east, west = clusters.east, clusters.west
    web, _ = clusters.export({name: [at(n.pods[0]) for n in cluster.nodes]
                              for name, cluster in clusters.clusters.items()})
    client = east.nodes[n_client].pods[1]
    sides = [{"%s:8080" % n.pods[0].pod_name for n in c.nodes}
             for c in (east, west)]
    settle(clusters, web, client, [n.pods[0] for c in (east, west)
                                   for n in c.nodes])
    change_spec(web, sessionAffinity="ClientIP")
    wait_for(lambda: set(web.ask(client, 4, 20)["answers"]) in sides, 10,
             "one cluster", east.dump)
    assert set(web.ask(client, 4, 40)["answers"]) in sides


@PROTOS
@CLIENTS
def test_both_sides_remember(clusters, n_client, proto):
    """One pod is left."""
    web, made = clusters.export({name: [at(n.pods[0]) for n in cluster.nodes]
                                 for name, cluster
                                 in clusters.clusters.items()})
    for name, service in made.items():
        service.change(sessionAffinity="ClientIP")
        assert service.cluster is clusters.clusters[name]
    change_spec(web, sessionAffinity="ClientIP")
    client = clusters.east.nodes[n_client].pods[1]
    wait_for(lambda: len(web.ask(client, 4, 20, proto=proto)["answers"]) == 1,
             10, "one pod", clusters.east.dump)


@PROTOS
@pytest.mark.parametrize("n_node", [0, 1], ids=["gateway", "regular"])
@pytest.mark.parametrize("how", ["node port", "external"])
def test_from_outside(clusters, n_node, how, proto):
    """By a node port or an external address of the imported Service."""
    east, west = clusters.east, clusters.west
    pods = [n.pods[0] for c in (east, west) for n in c.nodes]
    web, _ = clusters.export({
        "east": [at(p) for p in pods[:2]], "west": [at(p) for p in pods[2:]]})
    node = east.nodes[n_node]
    external = "203.0.113.80"
    change_spec(web, type="NodePort", externalIPs=[EXTERNAL], ports=[
        objects.port(PORT, p.lower(), p, nodePort=NODE_PORT)
        for p in ("TCP", "UDP")])
    host, port = node.of(4), NODE_PORT
    if how == "external":
        host, port = EXTERNAL, PORT
        east.router.route(EXTERNAL, node.of(4))
        east.outside.ip("route", "replace", EXTERNAL, "via",
                        host_of("outside", 4, ROUTER)[1])
    want = {"%s:8080" % pod.pod_name for pod in pods}
    try:
        wait_for(lambda: set(Client(
            east.outside, "connect", host, port, count=20, proto=proto,
            timeout=0.5).wait()["answers"]) == want, 10, "all answers",
            lambda: east.dump() + west.dump())
        result = Client(east.outside, "connect", host, port, count=20,
                        proto=proto).wait()
        assert result["n"] == 20, result
    finally:
        web.delete()
