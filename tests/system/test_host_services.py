# SPDX-License-Identifier: Apache-2.0
"""The host as a client of ClusterIP Services: antreaProxy.proxyAll."""
import socket

import pytest

from support import packets
from support.cluster import (NODE, PORT, SERVICE_CIDRS, Cluster, at,
                             lost_syns)
from support.packets import Wire
from support.traffic import Server
from support.wait import slowness, wait_for

BOTH = pytest.mark.parametrize("family", [4, 6])
PROTOS = pytest.mark.parametrize("proto", ["tcp", "udp"])
VIRTUAL = {4: "169.254.0.253", 6: "fc01::aabb:ccdd:eeff"}
NODE_PORT_IP = {4: "169.254.0.252", 6: "fc01::aabb:ccdd:eefe"}
CIDRS = {"serviceCIDR": SERVICE_CIDRS[4], "serviceCIDRv6": SERVICE_CIDRS[6]}


@pytest.fixture(scope="module", name="cluster",
                params=[{}, CIDRS], ids=["one-by-one", "by-range"])
def _cluster(request, tmp_path_factory):
    """The host gets a route for each Service, or one for their range."""
    directory = tmp_path_factory.mktemp("cluster")
    with Cluster(directory, antreaProxy={"proxyAll": True},
                 **request.param) as made:
        yield made
    assert not made.unexpected_warnings()


def routes(cluster, family):
    """What the host sends to the virtual address, but for that itself and for
    the one that NodePorts are translated to."""
    text = cluster.node.ip("-%d" % family, "route", "show", "dev",
                           "antrea-gw0")
    found = [line.split()[0] for line in text.splitlines()
             if "via %s " % VIRTUAL[family] in line]
    assert NODE_PORT_IP[family] in found
    return [to for to in found
            if to not in (VIRTUAL[family], NODE_PORT_IP[family])]


@BOTH
def test_the_host_has_the_routes_that_it_needs(cluster, request, family):
    """And no other: they go with the last Service of an address."""
    service = cluster.service([at(cluster.pods[0])])
    if "by-range" in request.node.name:
        assert routes(cluster, family) == [SERVICE_CIDRS[family]]
        return
    assert service.of(family) in routes(cluster, family)
    service.delete()
    wait_for(lambda: service.of(family) not in routes(cluster, family), 5,
             "the route's end", cluster.daemon)


@BOTH
@PROTOS
def test_the_host_reaches_a_pod(cluster, family, proto):
    """With the gateway's address as its own."""
    service = cluster.service([at(p) for p in cluster.pods[:2]])
    result = service.ask(cluster.host, family, 40, proto=proto)
    assert result["n"] == 40
    assert set(result["answers"]) == {"p0:8080", "p1:8080"}
    assert result["sources"] == [cluster.gateway(family)]
    held = service.client(cluster.host, "hold", family, proto=proto,
                          count=20).wait()
    assert held["n"] == 20


@BOTH
@PROTOS
def test_the_host_reaches_itself(cluster, family, proto):
    """An endpoint of the host network: the packet comes back to where it
    came from, from the virtual address."""
    service = cluster.service([at(NODE, 7001)])
    with Server(cluster.node, "host", "--address", NODE[family], tcp=[7001],
                udp=[7001]):
        result = service.ask(cluster.host, family, 20, proto=proto)
        held = service.client(cluster.host, "hold", family, proto=proto,
                              count=20).wait()
    assert result["answers"] == held["answers"] == {"host": 20}
    assert result["sources"] == [VIRTUAL[family]]


@BOTH
def test_the_host_may_use_another_of_its_addresses(cluster, family):
    """Bound to it by the program; it arrives at a pod as the gateway's, where
    answers find back, and comes back from one as well as from the host
    itself."""
    for endpoint, source in ((at(cluster.pods[0]), cluster.gateway(family)),
                             (at(NODE, 7001), VIRTUAL[family])):
        service = cluster.service([endpoint])
        with Server(cluster.node, "host", "--address", NODE[family],
                    tcp=[7001]), packets.sock(
                        cluster.host, family, socket.SOCK_STREAM,
                        NODE[family]) as sock:
            sock.connect((service.of(family), PORT))
            for _ in range(3):
                sock.send(b"hello\n")
                assert sock.recv(100).decode().split()[1] == source


@BOTH
@PROTOS
def test_the_host_is_refused_at_once(cluster, family, proto):
    """Q1, Q2: by a Service without endpoints."""
    service, before = cluster.service(), lost_syns(cluster.host)
    result = service.ask(cluster.host, family, 5, proto=proto)
    assert result["kinds"] == {"ECONNREFUSED": 5}
    assert max(f["after"] for f in result["failures"]) < 0.5 * slowness()
    assert lost_syns(cluster.host) == before


@BOTH
def test_an_error_reaches_the_host_in_the_services_name(cluster, family):
    """Nobody listens at the endpoint."""
    service = cluster.service([at(cluster.pods[0], 9)])
    with Wire(cluster.node, "antrea-gw0") as wire:
        result = service.ask(cluster.host, family, proto="udp")
        error = wire.wait(lambda f: f.proto in (packets.ICMP, packets.ICMPV6)
                          and f.icmp == packets.UNREACHABLE[family])
    assert result["kinds"] == {"ECONNREFUSED": 1}
    assert error.src == error.quoted.dst == service.of(family)
    assert error.quoted.ports[1] == PORT


@BOTH
def test_local_policy_counts_for_the_host_too(cluster, family):
    """It is a client of this node."""
    service = cluster.service(
        [at({4: "10.10.2.5", 6: "2001:db8:10:2::5"})],
        internalTrafficPolicy="Local")
    result = service.ask(cluster.host, family, timeout=0.5)
    assert result["kinds"] == {"TimeoutError": 1}
    service.set(service.endpoints + [at(cluster.pods[0])])
    assert service.ask(cluster.host, family, 10)["answers"] == {
        "p0:8080": 10}


@BOTH
def test_pods_are_clients_as_ever(cluster, family):
    """Of Services and of the host."""
    client, web = cluster.pods[:2]
    service = cluster.service([at(web), at(NODE, 7001)])
    with Server(cluster.node, "host", tcp=[7001]):
        result = service.ask(client, family, 40)
    assert set(result["answers"]) == {"host", "p1:8080"}
    assert result["sources"] == [client.of(family)]


@BOTH
def test_scaling_loses_no_connection_of_the_host(cluster, family):
    """From one pod to three and back, while it connects."""
    service = cluster.service([at(cluster.pods[0])])
    with service.client(cluster.host, family=family) as traffic:
        for n in (3, 2, 3, 1):
            service.set([at(p) for p in cluster.pods[:n]])
            service.ask(cluster.host, family, 30)
    assert traffic.result["n_failures"] == 0, traffic.result["failures"]
    assert len(traffic.result["answers"]) == 3
