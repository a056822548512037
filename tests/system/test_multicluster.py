# SPDX-License-Identifier: Apache-2.0
"""Services and pods across two clusters, with packets: who answers, by which
way, and how large packets pass, in modes, by tunnels and in families.

Each cluster has a gateway (n1 and n3) and a regular node (n2 and n4)."""
import contextlib
import ipaddress
import itertools
import socket

import pytest

from support import packets
from support.asking import REFUSED, Answer, Question, ask, check
from support.cluster import PORT, at
from support.clusterset import POD_TO_POD, ClusterSet
from support.multinode import OVERHEAD
from support.traffic import Client, Server, converse
from support.wait import wait_for

WORLDS = {
    "encap": {},
    "noEncap-vxlan": {"mode": "noEncap", "tunnel": "vxlan"},
    "hybrid-dual": {"mode": "hybrid", "families": (4, 6)},
    "encap-gre-IPv6": {"tunnel": "gre", "families": (6,)}}
PROTOS = ("tcp", "udp")
CLIENTS = pytest.mark.parametrize("n_client", [0, 1],
                                  ids=["gateway", "regular"])
TARGET = 8080                   # The port of a pod.
CLOSED = 9                      # Nobody listens there.
HOST_PORT = 8090                # Of a process in a host's network.
VIRTUAL = {4: "169.254.0.253", 6: "fc01::aabb:ccdd:eeff"}
HEADER = 14                     # Ethernet's.


@pytest.fixture(name="clusters", scope="module", params=WORLDS)
def _clusters(request, tmp_path_factory):
    with ClusterSet(tmp_path_factory.mktemp("mc"), **POD_TO_POD,
                    **WORLDS[request.param]) as made:
        yield made.wait()
        assert not made.unexpected_warnings()


def names(*pods):
    """How pods call themselves."""
    return {"%s:%d" % (pod.pod_name, TARGET) for pod in pods}


def far_source(clusters, client, family):
    """What the other cluster sees of a client of east: the gateway, if it has
    an address of that family for other clusters."""
    return (clusters.east.nodes[0] if family == clusters.family
            else client).of(family)


def questions_to(service, client, want, family, proto="tcp"):
    """Some, so that each of 'want' is likely to get one."""
    return [Question(client, service.of(family), PORT,
                     Answer({name: None for name in want}), proto)
            for _ in range(5 * len(want))]


def settle(clusters, service, client, want, family):
    """Waits until only 'want' answer: a switch drops what it has no neighbour
    for until it knows it."""
    wait_for(lambda: not ask(questions_to(service, client, want, family),
                             0.5), 10, "answers of %s" % sorted(want),
             lambda: clusters.east.dump() + clusters.west.dump())


def ask_all(service, client, want, family):
    """Asks by TCP and UDP until all of 'want' have answered, and no one else
    has; the clients' addresses that they have seen."""
    sources = set()
    for proto in PROTOS:
        answers = set()
        for _ in range(10):
            questions = questions_to(service, client, want, family, proto)
            check(questions)
            answers |= {q.got[0] for q in questions}
            sources |= {q.got[1] for q in questions}
            if answers == want:
                break
        assert answers == want
    return sources


def test_pods_of_both_clusters_answer(clusters):
    """From a pod of a regular node and one of the gateway's node, to pods of
    both kinds of nodes in both clusters."""
    east, west = clusters.east, clusters.west
    served = {name: [at(n.pods[0]) for n in cluster.nodes]
              for name, cluster in clusters.clusters.items()}
    web, _ = clusters.export(served)
    want = names(*(n.pods[0] for c in (east, west) for n in c.nodes))
    for family in clusters.families:
        for node in east.nodes:
            settle(clusters, web, node.pods[1], want, family)
            ask_all(web, node.pods[1], want, family)


@CLIENTS
def test_the_far_side_sees_the_gateway(clusters, n_client):
    """While a pod of the own cluster sees the client."""
    east, west = clusters.east, clusters.west
    client = east.nodes[n_client].pods[1]
    far, _ = clusters.export({"west": [at(n.pods[0]) for n in west.nodes]})
    near, _ = clusters.export({"east": [at(n.pods[0]) for n in east.nodes]})
    for family in clusters.families:
        for service, cluster, source in (
                (far, west, far_source(clusters, client, family)),
                (near, east, client.of(family))):
            want = names(*(n.pods[0] for n in cluster.nodes))
            settle(clusters, service, client, want, family)
            assert ask_all(service, client, want, family) == {source}


@CLIENTS
def test_m2_what_is_exported_only_here_stays_here(clusters, n_client):
    """M2: the only endpoint is a cluster IP of the own cluster.  Nothing goes
    to the other cluster."""
    east = clusters.east
    client, pod = east.nodes[n_client].pods[1], east.nodes[0].pods[0]
    web, _ = clusters.export({"east": [at(pod)]})
    for family in clusters.families:
        settle(clusters, web, client, names(pod), family)
        with east.capture(*clusters.west.nodes) as capture:
            results = [web.ask(client, family, 10, proto=p) for p in PROTOS]
        assert [r["answers"] for r in results] == 2 * [
            {n: 10 for n in names(pod)}]
        assert not capture.of(pod.of(family)) + capture.of(client.of(family))
        assert not [s for s in capture.seen if s.kind != "plain"]


def hops(clusters, capture):
    """Of what nodes sent in tunnels: {(kind, from node, to node, source,
    destination)}, the last two with their ports."""
    labels = {node.of(f): node.label for c in clusters.clusters.values()
              for node in c.nodes for f in clusters.families}
    return {(s.kind, labels[s.outer.src], labels[s.outer.dst],
             (s.inner.src, s.inner.ports[0]), (s.inner.dst, s.inner.ports[1]))
            for s in capture.of(sent=False) if s.kind != "plain"}


def expected_hops(clusters, client, far, served, family):
    """From a client at a regular node of east to a pod's (address, port) at a
    regular node of west, and back.  far: what is called in west.  Clients'
    ports are None."""
    asker = client.of(family), None
    mine = far_source(clusters, client, family), None
    way = [("n2", "n1", asker, far), ("n1", "n3", mine, far),
           ("n3", "n4", mine, served)]
    return {(clusters.east.tunnel, *hop) for one, other, src, dst in way
            for hop in ((one, other, src, dst), (other, one, dst, src))}


def without_ports(seen, servers):
    """Ports of all but servers' are None."""
    def clean(end):
        return end if end in servers else (end[0], None)
    return {(*hop, clean(src), clean(dst)) for *hop, src, dst in seen}


@contextlib.contextmanager
def watched(clusters, client, far, served, family):
    """What passes meanwhile does so between the gateways and inside each
    cluster; and that is all."""
    both = clusters.clusters.values()
    with clusters.east.capture(*(n for c in both for n in c.nodes)) as seen:
        yield
    assert without_ports(hops(clusters, seen), {far, served}) == (
        expected_hops(clusters, client, far, served, family))
    assert not seen.plain_of([
        ipaddress.ip_network(net) for c in both for net in
        (*c.service_cidrs.values(), *(c for n in c.nodes for c in n.cidrs))])


def test_the_way_there_and_back(clusters):
    """To a Service, and directly to its pod."""
    client, pod = (c.nodes[1].pods[i] for c, i in (
        (clusters.east, 1), (clusters.west, 0)))
    web, made = clusters.export({"west": [at(pod)]})
    for family in clusters.families:
        settle(clusters, web, client, names(pod), family)
        served = pod.of(family), TARGET
        for target, far in (((web.of(family), PORT),
                             (made["west"].of(family), PORT)),
                            (served, served)):
            with watched(clusters, client, far, served, family):
                assert [Client(client, "connect", *target, proto=p,
                               count=5).wait()["n"] for p in PROTOS] == [5, 5]


def test_the_host_asks(clusters):
    """Of a regular node and of the gateway; in the gateways' family."""
    east, west = clusters.east, clusters.west
    pods = [n.pods[0] for c in (east, west) for n in c.nodes]
    web, _ = clusters.export({
        "east": [at(p) for p in pods[:2]], "west": [at(p) for p in pods[2:]]})
    for node in east.nodes:
        settle(clusters, web, node, names(*pods), clusters.family)
        ask_all(web, node, names(*pods), clusters.family)


def test_endpoints_in_the_network_of_a_host(clusters):
    """Of a regular node's, which sees the gateway, and of the gateway's, which
    sees the virtual address: answers pass its bridge again."""
    west = clusters.west
    hosts = [n.of(clusters.family) for n in west.nodes]
    web, _ = clusters.export({"west": [
        at({clusters.family: host}, HOST_PORT, node=node.node_name)
        for host, node in zip(hosts, west.nodes)]})
    with contextlib.ExitStack() as stack:
        for host, node in zip(hosts, west.nodes):
            stack.enter_context(Server(
                node, node.label, "--address", host, tcp=[HOST_PORT],
                udp=[HOST_PORT]))
        for node in clusters.east.nodes:
            for client in (node, node.pods[1]):
                want = {n.label for n in west.nodes}
                settle(clusters, web, client, want, clusters.family)
                assert ask_all(web, client, want, clusters.family) == {
                    hosts[0], VIRTUAL[clusters.family]}


def settle_pods(clusters, client, pod, family):
    """Waits until a pod reaches one of the other cluster."""
    wait_for(lambda: packets.ping(client, family, pod.of(family), 0.2), 10,
             "an answer of %s to %s" % (pod.label, client.label),
             lambda: clusters.east.dump() + clusters.west.dump())


@pytest.mark.parametrize("home", ["east", "west"])
def test_pods_reach_pods(clusters, home):
    """Of regular nodes and gateways, from either side; and are told that there
    is no other port."""
    here = clusters.clusters[home]
    there, = clusters.others(home).values()
    questions = []
    for family, one, other, proto in itertools.product(
            clusters.families, here.nodes, there.nodes, PROTOS):
        client, pod = one.pods[1], other.pods[0]
        source = here.nodes[0] if family == clusters.family else client
        if proto == PROTOS[0]:
            settle_pods(clusters, client, pod, family)
        name, = names(pod)
        questions += [
            Question(client, pod.of(family), TARGET,
                     Answer({name: source.of(family)}), proto),
            Question(client, pod.of(family), CLOSED, REFUSED, proto)]
    check(questions)


def check_stream(clusters, client, target, family):
    """Whole windows of TCP, by frames that fill the underlay, none of which is
    a fragment."""
    with clusters.east.capture(
            *clusters.east.nodes, *clusters.west.nodes) as capture:
        with packets.sock(client, family, socket.SOCK_STREAM) as sock:
            sock.connect(target)
            converse(sock, 100000)
    assert not [s for s in capture.seen if s.outer.more or s.outer.offset]
    longest = max((s for s in capture.seen if s.kind != "plain"),
                  key=lambda s: len(s.data))
    assert len(longest.data) == HEADER + clusters.east.pod_mtu + OVERHEAD[
        longest.kind] + 20 * (longest.outer.eth_type == packets.ETH_IPV6)


def check_datagrams(client, target, family):
    """Of several fragments, there and back, the first one of a connection
    being one of them."""
    with packets.sock(client, family) as sock:
        for size in (3000, 10, 8000):
            sock.sendto(b"y" * size, target)
            assert sock.recv(65536).split()[-1] == b"y" * size


@CLIENTS
def test_large_packets(clusters, n_client):
    """To a Service and to a pod."""
    client = clusters.east.nodes[n_client].pods[1]
    pod = clusters.west.nodes[1].pods[0]
    web, _ = clusters.export({"west": [at(pod)]})
    for family in clusters.families:
        settle(clusters, web, client, names(pod), family)
        for target in ((pod.of(family), TARGET), (web.of(family), PORT)):
            check_stream(clusters, client, target, family)
            check_datagrams(client, target, family)
