# SPDX-License-Identifier: Apache-2.0
"""Services whose endpoints are cluster IPs, with packets: what they promise
besides answers."""
import re
import socket

import pytest

from support import objects, packets
from support.cluster import NAMESPACE, PORT, Endpoint, at
from support.clusterset import ClusterSet
from support.multinode import GATEWAY, OUTSIDE, ROUTER, host_of
from support.traffic import Client, Server, converse
from support.wait import wait_for

PROTOS = pytest.mark.parametrize("proto", ["tcp", "udp"])
CLIENTS = pytest.mark.parametrize("n_client", [0, 1],
                                  ids=["gateway", "regular"])
AT_ONCE = 2                     # Seconds.
MAX_LOOKUPS = 30                # As many as any connection to a Service.
NODE_PORT = 30095
EXTERNAL = "203.0.113.180"


@pytest.fixture(name="clusters", scope="module")
def _clusters(tmp_path_factory):
    with ClusterSet(tmp_path_factory.mktemp("mc")) as made:
        yield made.wait()
        assert not made.unexpected_warnings()


def assert_refused(clusters, service, client, proto):
    """Each try is, in no time, once the switches know their neighbours."""
    def is_refused():
        result = service.ask(client, 4, 5, proto=proto)
        return (result["kinds"] == {"ECONNREFUSED": 5}
                and max(f["after"] for f in result["failures"]) < AT_ONCE)
    wait_for(is_refused, 10, "refusals",
             lambda: clusters.east.dump() + clusters.west.dump())


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


def n_lookups(pod, address):
    """How many tables a SYN from a pod passes until the daemon gets it."""
    text = pod.node.switch.trace(
        "in_port=%s,tcp,dl_src=%s,dl_dst=%s,nw_src=%s,nw_dst=%s,nw_ttl=64,"
        "tcp_src=40000,tcp_dst=%d,tcp_flags=syn" % (
            pod.iface, pod.mac, packets.mac_of(pod.node, GATEWAY), pod.of(4),
            address, PORT))
    assert "controller(" in text, text
    return len(re.findall(r"^ *\d+\. ", text, re.MULTILINE))


@PROTOS
@CLIENTS
def test_a_loop_ends_in_a_refusal(clusters, n_client, proto):
    """After some look-ups; and the switch has nothing to say (see the
    fixture)."""
    east = clusters.east
    for member in east.members:
        member.daemon.allow(r"\|notice\|WARN\|Service .*: connections that get "
                            "it are rejected", r"Dropped \d+ log messages")
    for service in in_loops(east):
        assert_refused(clusters, service, east.nodes[n_client].pods[1], proto)
        assert_refused(clusters, service, east.nodes[n_client], proto)
        assert n_lookups(east.nodes[n_client].pods[1],
                         service.of(4)) <= MAX_LOOKUPS


def test_the_far_side_remembers(clusters):
    """Affinity of the exported Service: all clients of the other cluster are
    one, its gateway."""
    east, west = clusters.east, clusters.west
    web, _ = clusters.export({"west": [at(p) for n in west.nodes
                                       for p in n.pods]},
                             sessionAffinity="ClientIP")
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
    chosen = web.ask(client, 4, 20, proto=proto)["answers"]
    for member in (clusters.east.member(clusters.east.nodes[n_client]),
                   clusters.west.member(clusters.west.nodes[0])):
        member.daemon.restart(hard=True)
        member.daemon.wait_synced()
        assert web.ask(client, 4, 20, proto=proto)["answers"] == chosen


@CLIENTS
def test_policy_local_is_that_of_the_node_which_chooses(clusters, n_client):
    """internalTrafficPolicy of the exported Services: the client's node in its
    own cluster, the gateway in the other one."""
    web, made = clusters.export({name: [at(n.pods[0]) for n in cluster.nodes]
                                 for name, cluster
                                 in clusters.clusters.items()})
    for service in made.values():
        service.change(internalTrafficPolicy="Local")
    node = clusters.east.nodes[n_client]
    settle(clusters, web, node.pods[1], [
        node.pods[0], clusters.west.nodes[0].pods[0]])


@CLIENTS
def test_the_client_is_the_endpoint(clusters, n_client):
    """By way of a cluster IP of its cluster: it sees its gateway."""
    pod = clusters.east.nodes[n_client].pods[0]
    web, _ = clusters.export({"east": [at(pod)]})
    settle(clusters, web, pod, [pod])
    for proto in ("tcp", "udp"):
        result = web.ask(pod, 4, 5, proto=proto)
        assert (result["n"], result["sources"]) == (
            5, [clusters.east.nodes[n_client].gateway_of(pod.of(4))])


def test_ports_have_names(clusters):
    """The imported Service's port is not the exported ones'."""
    pods = [c.nodes[1].pods[0] for c in clusters.clusters.values()]
    web, _ = clusters.export({"east": [at(pods[0])], "west": [at(pods[1])]})
    change_spec(web, ports=[objects.port(8000, p.lower(), p)
                            for p in ("TCP", "UDP")])
    client = clusters.east.nodes[1].pods[1]
    for proto in ("tcp", "udp"):
        wait_for(lambda p=proto: set(Client(
            client, "connect", web.of(4), 8000, proto=p, count=20,
            timeout=0.5).wait()["answers"]) == {
                pod.pod_name + ":8080" for pod in pods}, 10, "both answers",
                 clusters.east.dump)


def test_what_has_no_cluster_ip_leads_nowhere(clusters):
    """A headless Service and an ExternalName whose endpoints are cluster IPs
    make no flows, and no trouble."""
    east = clusters.east
    _, made = clusters.export({"west": [at(clusters.west.nodes[1].pods[0])]})
    before = [m.switch.state() for m in east.members]
    for name, spec in (("headless", {"clusterIP": "None"}),
                       ("elsewhere", {"type": "ExternalName",
                                      "externalName": "web.example"})):
        east.api.apply(objects.service(NAMESPACE, name, [PORT], [], **spec))
        east.api.apply(objects.slice_(
            NAMESPACE, name, [made["west"].of(4)], [(PORT, "")]))
    mark = east.service([at(east.nodes[0].pods[0])])
    mark.delete()
    wait_for(lambda: [m.switch.state() for m in east.members] == before, 10,
             "the state before", east.dump)


def test_pods_are_not_reached_without_the_key(clusters):
    """Nothing is sent to them, and nothing says so."""
    east, west = clusters.east, clusters.west
    client, pod = east.nodes[1].pods[1], west.nodes[1].pods[0]
    with east.capture(*east.nodes, *west.nodes) as capture:
        assert not packets.ping(client, 4, pod.of(4), 0.3)
    assert not [s for s in capture.of(pod.of(4)) if s.kind != "plain"]
    networks = [str(c) for n in west.nodes for c in n.cidrs]
    for member in east.members:
        text = "\n".join(member.switch.dump_flows())
        text += member.daemon.appctl("sync")
        assert not [net for net in networks if net in text]


def test_a_router_behind_the_far_side_is_heard(clusters):
    """Its "fragmentation needed" about what leaves the other cluster reaches
    the pod, and quotes the packet that the pod sent."""
    east, target = clusters.east, host_of("outside", 4, OUTSIDE)[1]
    pod = east.nodes[1].pods[1]
    web, _ = clusters.export({"west": [at({4: target}, PORT, node="out")]})
    with Server(east.outside, "outside", tcp=[PORT]), \
            packets.Wire(pod) as wire:
        wait_for(lambda: web.ask(pod, 4, timeout=0.5)["n"], 10, "an answer",
                 lambda: east.dump() + clusters.west.dump())
        with packets.sock(pod, 4, socket.SOCK_STREAM) as sock:
            sock.connect((web.of(4), PORT))
            with east.narrow_outside():
                converse(sock, 20000)
            port = sock.getsockname()[1]
        error = wire.wait(lambda f: f.proto == packets.ICMP
                          and f.icmp == packets.TOO_BIG[4])
    pod.ip("-4", "route", "flush", "cache")
    assert error, "no error has come"
    assert (error.quoted.src, error.quoted.dst, error.quoted.ports) == (
        pod.of(4), web.of(4), (port, PORT))


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
    change_spec(web, type="NodePort", externalIPs=[EXTERNAL], ports=[
        objects.port(PORT, p.lower(), p, nodePort=NODE_PORT)
        for p in ("TCP", "UDP")])
    clusters.wait()     # A new route disturbs the tunnels of its node.
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
