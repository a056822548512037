# SPDX-License-Identifier: Apache-2.0
"""Session affinity as clients see it: who is sent where, for how long, and
what forgets them."""
import re
import time

import pytest

from support import objects
from support.cluster import (NAMESPACE, NODE, OUTSIDE, PORT, SERVICE_CIDRS,
                             at, lost_syns)
from support.traffic import Client
from support.wait import slowness, wait_for

BOTH = pytest.mark.parametrize("family", [4, 6])
PROTOS = pytest.mark.parametrize("proto", ["tcp", "udp"])
CLUSTER = {"n_pods": 5, "antreaProxy": {"proxyAll": True}}
N_ENDPOINTS = 30
LONG = 10800
TABLE = 11
BALANCED = {4: "203.0.113.20", 6: "2001:db8:ff::20"}
NODE_PORT, NUMBER = 30080, 900
SLACK = 1.5                     # The switch looks for what is over once a
                                # second.


def affine(seconds):
    """Fields of a Service."""
    return {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {
        "clientIP": {"timeoutSeconds": seconds}}}


def endpoints(cluster, n=N_ENDPOINTS):
    """In two pods, which serve on many ports."""
    return [at(cluster.pods[1 + i % 2], 8080 + i // 2) for i in range(n)]


def where(service, client, family, proto="tcp", **more):
    """The one endpoint that some connections have reached."""
    result = service.ask(client, family, proto=proto, **more)
    assert result["n_failures"] == 0, result["kinds"]
    assert len(result["answers"]) == 1, result["answers"]
    return next(iter(result["answers"]))


def learned(cluster, family=None):
    """The clients that are remembered."""
    text = cluster.node.switch.ofctl("dump-flows", "table=%d" % TABLE)
    found = re.findall(r"(?:nw_src|ipv6_src)=(\S+) ", text)
    return [a for a in found if family is None or (":" in a) == (family == 6)]


@pytest.fixture(name="nobody", autouse=True)
def nobody_(cluster):
    """Each test begins and ends with an empty memory."""
    assert not learned(cluster)
    yield
    for obj in cluster.api.objects("services"):
        cluster.api.delete(obj)
    for obj in cluster.api.objects("endpointslices"):
        cluster.api.delete(obj)
    wait_for(lambda: "objects: 0 Services, 0 EndpointSlices"
             in cluster.daemon.appctl("sync"), 10, "no Service",
             cluster.daemon)
    cluster.daemon.wait_synced()
    wait_for(lambda: not learned(cluster), 10, "an empty memory",
             cluster.daemon)


@BOTH
@PROTOS
def test_f1_f6_a_client_keeps_its_endpoint(cluster, family, proto):
    """Whatever protocol, on the userspace datapath; a pod, the node, and
    another pod have each their own."""
    service = cluster.service(endpoints(cluster), **affine(LONG))
    clients = [cluster.pods[0], *cluster.pods[3:], cluster.host]
    first = [where(service, c, family, proto, count=30) for c in clients]
    again = [where(service, c, family, proto, count=30) for c in clients]
    assert first == again
    assert len(learned(cluster, family)) == len(clients)


@BOTH
def test_f12_without_affinity_a_client_is_spread(cluster, family):
    """Over all of them."""
    service = cluster.service(endpoints(cluster, 3))
    answers = service.ask(cluster.pods[0], family, 200)["answers"]
    assert len(answers) == 3 and not learned(cluster)


@BOTH
@PROTOS
def test_d18_a_first_burst_finds_one_endpoint(cluster, family, proto):
    """50 connections at once, of a client that nobody knows."""
    service = cluster.service(endpoints(cluster), **affine(LONG))
    where(service, cluster.pods[0], family, proto, count=50, concurrency=50)


@BOTH
@PROTOS
def test_a_connection_made_while_affinity_comes_is_served(cluster, family,
                                                          proto):
    """For a while the datapath goes on with what it has cached of the Service
    without it, here until its revalidators are let go on; so the packet is
    half-way through when the group has other buckets."""
    service = cluster.service(endpoints(cluster, 3))
    client, switch = cluster.pods[0], cluster.node.switch
    switch.appctl("revalidator/pause")
    try:
        service.ask(client, family, 20, proto=proto)
        service.change(**affine(LONG))
        before = lost_syns(client)
        result = service.ask(client, family, 20, proto=proto)
    finally:
        switch.appctl("revalidator/resume")
    assert result["n"] == 20, result["kinds"]
    assert lost_syns(client) == before


@BOTH
def test_f4_the_time_runs_from_the_last_new_connection(cluster, family):
    """Each one counts, and packets of an old one do not."""
    service = cluster.service(endpoints(cluster), **affine(3))
    client = cluster.pods[0]
    # Each interval is less than the timeout, all of them are more.
    where(service, client, family, count=5, interval=1.5)
    with service.client(client, "hold", family, interval=0.05) as held:
        start = time.monotonic()
        wait_for(lambda: not learned(cluster), 10, "the client's end",
                 cluster.daemon)
        took = time.monotonic() - start
    assert 3 - SLACK < took < 3 + SLACK * slowness(), took
    assert held.result["n_failures"] == 0 and held.result["n"] > 20


@BOTH
def test_f10_d18_a_second_is_a_second(cluster, family):
    """The shortest timeout; who was forgotten goes elsewhere."""
    service = cluster.service(endpoints(cluster), **affine(1))
    found = set()
    for _ in range(4):          # Not the same one by chance.
        found.add(where(service, cluster.pods[0], family, count=5))
        wait_for(lambda: not learned(cluster), 1 + SLACK, "the end",
                 cluster.daemon)
    assert len(found) > 1


@BOTH
def test_f7_switched_off_all_is_forgotten_at_once(cluster, family):
    """And switched on again it is as new."""
    service = cluster.service(endpoints(cluster, 3), **affine(LONG))
    first = where(service, cluster.pods[0], family, count=5)
    service.change(sessionAffinity="None", sessionAffinityConfig=None)
    wait_for(lambda: not learned(cluster), 2, "all forgotten", cluster.daemon)
    cluster.node.switch.wait_revalidated()
    answers = service.ask(cluster.pods[0], family, 100)["answers"]
    assert len(answers) == 3
    service.change(**affine(LONG))
    cluster.node.switch.wait_revalidated()
    assert where(service, cluster.pods[0], family, count=20)
    assert first


@BOTH
def test_d18_an_endpoint_that_goes_takes_its_clients_and_no_others(cluster,
                                                                  family):
    """They go to another one, and stay there."""
    all_of_them = endpoints(cluster, 4)
    service = cluster.service(all_of_them, **affine(LONG))
    clients = [cluster.pods[0], *cluster.pods[3:], cluster.host]
    before = [where(service, c, family) for c in clients]
    gone = before[0]
    service.set([e for e in all_of_them
                 if "p%d:%d" % (cluster.pods.index(pod_of(cluster, e)), e.port)
                 != gone])
    wait_for(lambda: len(learned(cluster, family))
             == len(clients) - before.count(gone), 2, "exactly these gone",
             cluster.daemon)
    cluster.node.switch.wait_revalidated()
    after = [where(service, c, family, count=10) for c in clients]
    assert gone not in after
    assert [a for a, b in zip(after, before) if b != gone] \
        == [b for b in before if b != gone]


def pod_of(cluster, endpoint):
    """The pod that an endpoint is in."""
    return next(p for p in cluster.pods
                if set(p.addresses) & set(endpoint.addresses.values()))


@BOTH
@pytest.mark.parametrize("hard", [True, False], ids=["kill", "term"])
def test_a_restart_of_the_daemon_forgets_nobody(cluster, family, hard):
    """Also for connections made while it is away."""
    service = cluster.service(endpoints(cluster), **affine(LONG))
    clients = [cluster.pods[0], *cluster.pods[3:]]
    before = [where(service, c, family) for c in clients]
    if hard:
        cluster.daemon.kill()
    else:
        cluster.daemon.terminate()
    assert [where(service, c, family, count=5) for c in clients] == before
    cluster.daemon.start()
    cluster.daemon.wait_synced()
    assert [where(service, c, family, count=5) for c in clients] == before
    assert re.search(r"^sent: 0 flow puts, 0 flow deletes",
                     cluster.daemon.appctl("sync"), re.M)


@BOTH
def test_f3_d18_another_timeout_keeps_who_is_in_time(cluster, family):
    """Also a long one, and the other way round."""
    service = cluster.service(endpoints(cluster), **affine(LONG))
    client = cluster.pods[0]
    first = where(service, client, family)
    for seconds in (86400, 65536, 65535, 600):
        service.change(**affine(seconds))
        assert where(service, client, family, count=5) == first
    service.change(**affine(2))
    start = time.monotonic()
    wait_for(lambda: not learned(cluster), 2 + SLACK, "the end",
             cluster.daemon)
    assert time.monotonic() - start < 2 + SLACK * slowness()


# Addresses of all kinds.

@pytest.fixture(name="exposed")
def exposed_(cluster):
    """Makes a Service with a NodePort and a load balancer's address; the
    latter is led to the node."""
    for f in (4, 6):
        cluster.outside.ip("route", "replace", BALANCED[f], "via", NODE[f])
        cluster.node.ip("route", "replace", BALANCED[f], "via", OUTSIDE[f])

    def make(**spec):
        addresses = [objects.nth(SERVICE_CIDRS[f], NUMBER) for f in (4, 6)]
        with cluster.api.batch():
            cluster.api.apply(objects.service(
                NAMESPACE, "exposed", [objects.port(
                    PORT, "web", "TCP", nodePort=NODE_PORT)], addresses,
                type="LoadBalancer", status={"loadBalancer": {"ingress": [
                    {"ip": BALANCED[f]} for f in (4, 6)]}}, **spec))
            for f in (4, 6):
                for port in range(8080, 8095):
                    cluster.api.apply(objects.slice_(
                        NAMESPACE, "exposed",
                        [objects.endpoint(p.of(f), "n1")
                         for p in cluster.pods[1:3]], [(port, "web", "TCP")],
                        name="exposed-%d-%d" % (f, port),
                        address_type="IPv%d" % f))
        wait_for(lambda: cluster.node.switch.ofctl(
            "dump-flows", "table=14").count("learn(") >= 60, 10,
                 "15 ports of two pods in two families", cluster.daemon)
        wait_for(lambda: len(routed(cluster)) == 2, 10, "the host's rules",
                 cluster.daemon)
        cluster.daemon.wait_synced()
    return make


def routed(cluster):
    """The load balancer's addresses that the host leads into the bridge."""
    text = cluster.node.run("nft", "list", "table", "inet", "ofproxyd").stdout
    return {a for a in BALANCED.values() if a in text}


def ways(family):
    """(address, port) of each kind."""
    return [(objects.nth(SERVICE_CIDRS[family], NUMBER), PORT),
            (NODE[family], NODE_PORT), (BALANCED[family], PORT)]


def reached(client, family, which, count=5):
    """The endpoints that a client gets by some of the ways."""
    found = set()
    for host, port in which:
        result = Client(client, "connect", host, port, count=count).wait()
        assert result["n_failures"] == 0, (host, port, result["kinds"])
        found |= set(result["answers"])
    return found


@BOTH
def test_one_memory_for_all_addresses_of_a_service_port(cluster, family,
                                                        exposed):
    """A client that came by one of them is known at the others; inside and
    outside."""
    exposed(**affine(LONG))
    for client, which in ((cluster.pods[0], ways(family)),
                          (cluster.pods[3], ways(family)[::-1]),
                          (cluster.outside, ways(family)[1:])):
        assert len(reached(client, family, which)) == 1
    assert len(learned(cluster, family)) == 3


@BOTH
def test_f9_the_local_path_has_affinity_and_a_memory_of_its_own(cluster,
                                                                family,
                                                                exposed):
    """With policy Local clients outside have the one, pods the other."""
    exposed(externalTrafficPolicy="Local", **affine(LONG))
    assert len(reached(cluster.outside, family, ways(family)[1:])) == 1
    assert len(reached(cluster.pods[0], family, ways(family))) == 1
    text = cluster.node.switch.ofctl("dump-flows", "table=%d" % TABLE)
    groups = {int(g, 16) for g in re.findall(r"reg7=(0x\w+)", text)}
    assert len(groups) == 2
    assert {bool(g & 0x100) for g in groups} == {False, True}
