# SPDX-License-Identifier: Apache-2.0
"""What operators see of traffic between two clusters: traces that go the way
that packets go, and counters that agree.

Each cluster has a gateway (n1 and n3) and a regular node (n2 and n4)."""
import re
import time

import pytest

from support import ctl
from support.cluster import PORT, at
from support.clusterset import ClusterSet
from support.wait import wait_for

PROTOS = pytest.mark.parametrize("proto", ["tcp", "udp"])
TARGET = 8080                   # The port of a pod.


@pytest.fixture(name="clusters", scope="module", params=["encap", "noEncap"])
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


def hops(capture):
    """Of what nodes sent: {(kind, from node, to node, source, destination)},
    the last two with their ports; of packets in tunnels."""
    return {(s.kind, s.outer.src, s.outer.dst,
             (s.inner.src, s.inner.ports[0]), (s.inner.dst, s.inner.ports[1]))
            for s in capture.of(sent=False) if s.kind != "plain"}


def without_ports(seen, servers):
    """Ports of all but servers' are None."""
    def clean(end):
        return end if end in servers else (end[0], None)
    return {(*hop, clean(src), clean(dst)) for *hop, src, dst in seen}


def split(target):
    """(address, port) of ADDRESS:PORT/PROTOCOL"""
    address, port = target.split("/")[0].split(":")
    return address, int(port)


def told(way):
    """What traces say, as hops() has it."""
    return [("geneve", member.node.of(4),
             re.search("^To: ([0-9.]+)", text, re.M).group(1),
             (args[0], None), split(args[1]))
            for (member, _, text), (_, args, _) in zip(way, way[1:])]


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
        way = clusters.follow(east.nodes[n_client], client.address,
                              "%s:%d/%s" % (address, PORT, proto))
        assert len(way) == 2 + n_client + n_pod
        assert re.search(r"\nResult: leaves by pod on port \d+ \(ns1/%s\)\n$"
                         % pod.pod_name, way[-1][2]), way[-1]
        with east.capture(*east.nodes, *west.nodes) as capture:
            web.ask(client, 4, 5, proto=proto)
        seen = without_ports(hops(capture), {(far, PORT),
                                             (pod.of(4), TARGET)})
        assert set(told(way)) == {hop for hop in seen if hop[4][1]}


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

    def read_anew():
        """The counters, once they have been read after now."""
        began = time.monotonic()
        wait_for(lambda: all(age(m) + 0.1 < time.monotonic() - began
                             for m in gateways), 30, "a reading")
        return [counts(m) for m in gateways]

    def is_quiet():
        before.append(read_anew())
        return before[-1:] == before[-2:-1]

    def age(member):
        return float(re.search(r"counted ([0-9.]+) s ago", ctl.output(
            member, "clusters")).group(1))

    def agree():
        east, west = ([b - a for a, b in zip(*pair)]
                      for pair in zip(before[-1], [counts(m) for m in gateways]))
        seen.append((east, west))
        return east == west[2:] + west[:2] and east[0] >= 60

    before, seen = [], []
    wait_for(is_quiet, 60, "no traffic", lambda: str(before))
    assert web.ask(client, 4, 20)["n"] == 20
    wait_for(agree, 40, "equal counters", lambda: "%s %s" % (before[-1], seen))
