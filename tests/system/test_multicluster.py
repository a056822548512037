# SPDX-License-Identifier: Apache-2.0
"""Services across two clusters, with packets: who answers, and by which way.

Each cluster has a gateway (n1 and n3) and a regular node (n2 and n4)."""
import ipaddress
import re

import pytest

from support import ctl
from support.cluster import PORT, at
from support.clusterset import ClusterSet
from support.wait import wait_for

PROTOS = pytest.mark.parametrize("proto", ["tcp", "udp"])
TARGET = 8080                   # The port of a pod.


@pytest.fixture(name="clusters", scope="module",
                params=["encap", "noEncap", "hybrid"])
def _clusters(request, tmp_path_factory):
    with ClusterSet(tmp_path_factory.mktemp("mc"), request.param) as made:
        yield made.wait()
        assert not made.unexpected_warnings()


def names(*pods):
    """How pods call themselves."""
    return {"%s:%d" % (pod.pod_name, TARGET) for pod in pods}


def settle(clusters, service, client, want):
    """Waits until all of 'want' answer, and no one else: a switch drops what
    it has no neighbour for until it knows it."""
    wait_for(lambda: set(service.ask(client, 4, 20, timeout=0.5)["answers"])
             == want, 10, "answers of %s" % sorted(want),
             lambda: clusters.east.dump() + clusters.west.dump())


def ask_all(service, client, want, proto):
    """Asks until all of 'want' have answered, and no one else has; the
    clients' addresses that they have seen."""
    answers, sources = set(), set()
    for _ in range(40):
        result = service.ask(client, 4, proto=proto)
        assert not result["n_failures"], result
        answers |= set(result["answers"])
        sources |= set(result["sources"])
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
    for node in east.nodes:
        settle(clusters, web, node.pods[1], want)
        for proto in ("tcp", "udp"):
            ask_all(web, node.pods[1], want, proto)


@PROTOS
@pytest.mark.parametrize("n_client", [0, 1], ids=["gateway", "regular"])
def test_the_far_side_sees_the_gateway(clusters, n_client, proto):
    """While a pod of the own cluster sees the client."""
    east, west = clusters.east, clusters.west
    client = east.nodes[n_client].pods[1]
    far, _ = clusters.export({"west": [at(n.pods[0]) for n in west.nodes]})
    near, _ = clusters.export({"east": [at(n.pods[0]) for n in east.nodes]})
    for service, cluster, source in (
            (far, west, east.nodes[0].of(4)), (near, east, client.of(4))):
        want = names(*(n.pods[0] for n in cluster.nodes))
        settle(clusters, service, client, want)
        assert ask_all(service, client, want, proto) == {source}


@PROTOS
@pytest.mark.parametrize("n_client", [0, 1], ids=["gateway", "regular"])
def test_m2_what_is_exported_only_here_stays_here(clusters, n_client, proto):
    """M2: the only endpoint is a cluster IP of the own cluster.  Nothing goes
    to the other cluster."""
    east = clusters.east
    client, pod = east.nodes[n_client].pods[1], east.nodes[0].pods[0]
    web, _ = clusters.export({"east": [at(pod)]})
    settle(clusters, web, client, names(pod))
    with east.capture(*clusters.west.nodes) as capture:
        result = web.ask(client, 4, 10, proto=proto)
    assert result["answers"] == {"%s:%d" % (pod.pod_name, TARGET): 10}
    assert not capture.of(pod.of(4)) + capture.of(client.of(4))
    assert not [s for s in capture.seen if s.kind != "plain"]


def hops(capture):
    """Of what nodes sent: {(kind, from node, to node, source, destination)},
    the last two with their ports; of packets in tunnels."""
    return {(s.kind, s.outer.src, s.outer.dst,
             (s.inner.src, s.inner.ports[0]), (s.inner.dst, s.inner.ports[1]))
            for s in capture.of(sent=False) if s.kind != "plain"}


def expected_hops(clusters, client, far, pod):
    """From a client at a regular node of east to a pod at a regular node of
    west, and back.  far: (cluster IP, port) in west.  Clients' ports are
    None."""
    n1, n2 = (n.of(4) for n in clusters.east.nodes)
    n3, n4 = (n.of(4) for n in clusters.west.nodes)
    asker, mine, served = (client.of(4), None), (n1, None), (
        pod.of(4), TARGET)
    way = [("geneve", n2, n1, asker, far), ("geneve", n1, n3, mine, far),
           ("geneve", n3, n4, mine, served)]
    return set(way) | {(kind, to, fro, dst, src)
                       for kind, fro, to, src, dst in way}


def without_ports(seen, servers):
    """Ports of all but servers' are None."""
    def clean(end):
        return end if end in servers else (end[0], None)
    return {(*hop, clean(src), clean(dst)) for *hop, src, dst in seen}


@PROTOS
def test_the_way_there_and_back(clusters, proto):
    """Between the gateways and inside each cluster; and that is all."""
    east, west = clusters.east, clusters.west
    client, pod = east.nodes[1].pods[1], west.nodes[1].pods[0]
    web, made = clusters.export({"west": [at(pod)]})
    settle(clusters, web, client, names(pod))
    far = (made["west"].of(4), PORT)
    with east.capture(*east.nodes, *west.nodes) as capture:
        result = web.ask(client, 4, 5, proto=proto)
    assert result["n"] == 5, result
    assert without_ports(hops(capture), {far, (pod.of(4), TARGET)}) == (
        expected_hops(clusters, client, far, pod))
    assert not capture.plain_of([
        ipaddress.ip_network(net) for c in (east, west) for net in
        (c.service_cidrs[4], *(c for n in c.nodes for c in n.cidrs))])


NEXT = re.compile(r"^To: ([0-9.]+).*\nNext, on [^:]*: ofproxyctl trace "
                  r"(\S+) ([0-9.]+):(\d+)/(TCP|UDP) (\S+)$", re.M)


def follow(clusters, node, *args):
    """The way that `ofproxyctl trace` tells, each time called as it has
    said: [hop as in hops()], and the last result."""
    way = []
    while len(way) < 5:
        member = next(m for c in clusters.clusters.values()
                      for m in c.members if m.node is node)
        text = ctl.output(member, "trace", *args)
        found = NEXT.search(text)
        if not found:
            break
        to, src, dst, port, proto, peer = found.groups()
        way.append(("geneve", node.of(4), to, (src, None), (dst, int(port))))
        node = next(n for c in clusters.clusters.values() for n in c.nodes
                    if n.of(4) == to)
        args = src, "%s:%s/%s" % (dst, port, proto), peer
    return way, text[text.index("Result: "):].strip()


@PROTOS
@pytest.mark.parametrize("n_client", [0, 1], ids=["gateway", "regular"])
@pytest.mark.parametrize("n_pod", [0, 1], ids=["to gateway", "to regular"])
def test_a_trace_follows_the_way(clusters, n_client, n_pod, proto):
    """From one node to the next, by what it says itself: as packets go, to
    the pod that gets them."""
    east, west = clusters.east, clusters.west
    client, pod = east.nodes[n_client].pods[1], west.nodes[n_pod].pods[0]
    web, made = clusters.export({"west": [at(pod)]})
    settle(clusters, web, client, names(pod))
    far = made["west"].of(4)
    for address in web.of(4), far:
        way, result = follow(clusters, east.nodes[n_client], client.address,
                             "%s:%d/%s" % (address, PORT, proto))
        assert len(way) == 1 + n_client + n_pod
        assert re.fullmatch(r"Result: leaves by pod on port \d+ \(ns1/%s\)"
                            % pod.pod_name, result), result
        with east.capture(*east.nodes, *west.nodes) as capture:
            web.ask(client, 4, 5, proto=proto)
        seen = without_ports(hops(capture), {(far, PORT),
                                             (pod.of(4), TARGET)})
        assert set(way) == {hop for hop in seen if hop[4][1]}


COUNTS = re.compile(r"sent: (\d+) packets, (\d+) bytes; "
                    r"received: (\d+) packets, (\d+) bytes")


def counts(member):
    """[packets sent, bytes sent, packets received, bytes received]"""
    return [int(n) for n in COUNTS.search(
        ctl.output(member, "clusters")).groups()]


def test_gateways_count_the_same(clusters):
    """What one has sent is what the other has received, in both
    directions."""
    gateways = clusters.east.members[0], clusters.west.members[0]
    client = clusters.east.nodes[1].pods[1]
    web, _ = clusters.export({
        "west": [at(n.pods[0]) for n in clusters.west.nodes]})
    settle(clusters, web, client,
           names(*(n.pods[0] for n in clusters.west.nodes)))

    def quiet():
        """The counters, when they don't grow any more."""
        wait_for(lambda: all(age(m) < 4 for m in gateways), 30, "a reading")
        return [counts(m) for m in gateways]

    def age(member):
        return float(re.search(r"counted ([0-9.]+) s ago", ctl.output(
            member, "clusters")).group(1))

    def agree():
        east, west = ([b - a for a, b in zip(*pair)]
                      for pair in zip(before, [counts(m) for m in gateways]))
        seen.append((east, west))
        return east == west[2:] + west[:2] and east[0] >= 60

    wait_for(lambda: all(age(m) > 6 for m in gateways), 60, "no traffic")
    before, seen = quiet(), []
    assert web.ask(client, 4, 20)["n"] == 20
    wait_for(agree, 40, "equal counters", lambda: "%s %s" % (before, seen))


@PROTOS
def test_the_host_asks(clusters, proto):
    """Of a regular node and of the gateway."""
    east, west = clusters.east, clusters.west
    pods = [n.pods[0] for c in (east, west) for n in c.nodes]
    web, _ = clusters.export({
        "east": [at(p) for p in pods[:2]], "west": [at(p) for p in pods[2:]]})
    for node in east.nodes:
        settle(clusters, web, node, names(*pods))
        ask_all(web, node, names(*pods), proto)
