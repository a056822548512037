# SPDX-License-Identifier: Apache-2.0
"""Endpoints come and go while clients are at work.

The servers go on, as those of terminating pods do: so no connection may fail
at all, unless there is no endpoint."""
import contextlib
import random
import re
import time

import pytest

from support import objects, packets
from support.cluster import NAMESPACE, PORT, SERVICE_CIDRS, at, lost_syns
from support.wait import wait_for

BOTH = pytest.mark.parametrize("family", [4, 6])
PROTOS = pytest.mark.parametrize("proto", ["tcp", "udp"])
CLUSTER = {"n_pods": 4, "antreaProxy": {"proxyAll": True}}


def set_now(service, pods):
    """Gives a Service these endpoints, also for what the datapath had
    cached."""
    service.set([at(p) for p in pods])
    service.cluster.node.switch.wait_revalidated()


@contextlib.contextmanager
def no_loss(service, client, family, proto="tcp", moves=0):
    """Clients that connect all the time: none fails, no SYN is sent twice; but
    each time that an endpoint is gone, its connections of UDP are forgotten,
    and with them what a new client with a remembered port number has on its
    way (test_stale.py has what survives)."""
    before = lost_syns(client)
    with service.client(client, family=family, proto=proto, concurrency=4,
                        interval=0.001, least=21) as traffic:
        yield traffic
        service.ask(client, family, 100, proto=proto)
    lost = moves if proto == "udp" else 0
    assert traffic.result["n_failures"] <= lost, traffic.result["failures"]
    assert traffic.result["n"] > 20
    assert lost_syns(client) == before


@BOTH
@PROTOS
def test_scaling_up_and_down_loses_no_connection(cluster, family, proto):
    """Step by step; new endpoints are used, old ones no more (but by UDP
    clients whose port number is remembered)."""
    client, *web = cluster.pods
    service = cluster.service([at(web[0])])
    with no_loss(service, client, family, proto, moves=2) as traffic:
        for n in (2, 3, 1, 3, 2):
            set_now(service, web[:n])
            result = service.ask(client, family, 50, proto=proto)
            wanted = {p.pod_name + ":8080" for p in web[:n]}
            assert wanted <= set(result["answers"])
            assert proto == "udp" or wanted == set(result["answers"])
    assert set(traffic.result["answers"]) == {"p1:8080", "p2:8080",
                                              "p3:8080"}


@BOTH
@PROTOS
def test_a_rolling_update_loses_no_connection(cluster, family, proto):
    """Many changes in quick succession, without waiting for any."""
    client, *web = cluster.pods
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    endpoints = [at(p, port) for p in web for port in range(8080, 8090)]
    service = cluster.service(endpoints[:1])
    with no_loss(service, client, family, proto, moves=15):
        for _ in range(60):
            service.set(rng.sample(endpoints, rng.randint(1, 30)),
                        wait=False)
            time.sleep(rng.random() / 50)
        service.wait()


@BOTH
def test_connections_outlive_their_endpoint(cluster, family):
    """Down to zero, and without the Service: what is established stays, as
    long as the pod serves it; what is new is refused."""
    client, web, other = cluster.pods[:3]
    service = cluster.service([at(web)])
    with service.client(client, "hold", family, interval=0.005,
                        concurrency=5) as held:
        set_now(service, [other])
        assert service.ask(client, family, 20)["answers"] == {"p2:8080": 20}
        set_now(service, [])
        assert service.ask(client, family, 5)["kinds"] == {
            "ECONNREFUSED": 5}
        service.delete()
        service.set([at(other)])
        assert service.ask(client, family, 5)["answers"] == {"p2:8080": 5}
    assert held.result["n_failures"] == 0, held.result["failures"]
    assert set(held.result["answers"]) == {"p1:8080"}


@BOTH
@PROTOS
def test_a_service_comes_back_from_zero(cluster, family, proto):
    """Connections fail in between, but never in silence: not even those that
    are on their way to a group when it goes."""
    client, web, other = cluster.pods[:3]
    service = cluster.service([at(web)])
    with service.client(client, family=family, proto=proto,
                        concurrency=4, interval=0.001) as traffic:
        for _ in range(3):
            service.set([])
            # Of UDP, a port number may be remembered a little longer.  (By
            # another pod: the switch limits the rejects of each.)
            wait_for(lambda: service.ask(other, family, proto=proto)["kinds"]
                     == {"ECONNREFUSED": 1}, 1 if proto == "udp" else 0,
                     "the refusal", cluster.daemon)
            service.set([at(web)])
            assert service.ask(client, family, proto=proto)["n"] == 1
    kinds = dict(traffic.result["kinds"])
    if proto == "udp":          # As in no_loss().
        assert kinds.pop("TimeoutError", 0) <= 4
    assert set(kinds) <= {"ECONNREFUSED"}
    assert traffic.result["max"] < 0.9
    groups = set(re.findall(r"group:(\d+)", cluster.daemon.appctl(
        "flows", NAMESPACE + "/" + service.name)))
    service.set([])
    cluster.daemon.wait_synced()
    left = "\n".join(cluster.node.switch.dump_groups())
    assert len(groups) == 4 and not any(g in left for g in groups)


@BOTH
def test_policy_edits_lose_no_connection(cluster, family):
    """B1, D03: a local endpoint is in either set."""
    client, web = cluster.pods[:2]
    service = cluster.service([at(web), at(cluster.pods[2], node="n2")])
    with no_loss(service, client, family):
        for _ in range(10):
            for policy in ("Local", "Cluster"):
                service.change(internalTrafficPolicy=policy)


@BOTH
def test_a_recreated_service_loses_no_connection(cluster, family):
    """B2, D04: deleted and made again in one breath."""
    client, web = cluster.pods[:2]
    service = cluster.service([at(web)])
    cluster.daemon.wait_synced()
    flows = cluster.node.switch.state()
    with no_loss(service, client, family):
        for i in range(10):
            with cluster.api.batch():
                cluster.api.delete("services", NAMESPACE, service.name)
                again = service.object()
                again["metadata"]["uid"] = "00000000-%d" % i
                cluster.api.apply(again)
        wait_for(lambda: cluster.api.delivered("services"), 5, "the events")
        service.wait()
    cluster.daemon.wait_synced()
    assert cluster.node.switch.state() == flows


def test_an_added_family_does_not_touch_the_other(cluster):
    """B19: one group and one flow more for each protocol, and one for the
    cluster IP, and that is all."""
    client, web = cluster.pods[:2]
    service = cluster.service([at(web)], families=(4,))
    before = cluster.sent()
    with no_loss(service, client, 4):
        service.families = (4, 6)
        service.addresses[6] = objects.nth(SERVICE_CIDRS[6], service.number)
        service.set(service.endpoints)
    assert service.ask(client, 6)["n"] == 1
    after = cluster.sent()
    # TCP, UDP, UDP in fragments, and what no port takes.
    assert {name: after[name] - n for name, n in before.items()} == {
        "flow puts": 4, "group puts": 2, "flow deletes": 0,
        "group deletes": 0, "refused": 0}


@BOTH
@pytest.mark.parametrize("who", ["pod", "host"])
def test_one_way_datagrams_all_reach_one_endpoint(cluster, family, who):
    """As those of a syslog: nothing ever comes back, so the connection stays
    new; the endpoints around it change meanwhile."""
    client = cluster.pods[0] if who == "pod" else cluster.host
    web = cluster.pods[1:]
    port = 9000
    service = cluster.service([at(p, port) for p in web[:2]])
    sinks = [packets.sock(p, family, port=port) for p in web]
    with contextlib.ExitStack() as stack:
        for sink in sinks:
            stack.enter_context(sink)
            sink.setblocking(False)
        for attempt in range(5):
            sock = stack.enter_context(packets.sock(client, family))
            sock.connect((service.of(family), PORT))
            got = {}
            for i in range(5):
                sock.send(b"%d.%d" % (attempt, i))
                if i == 1:
                    wait_for(lambda: sum(map(len, collect(sinks, got))) == 2,
                             5, "two datagrams", lambda: str(got))
                    mine, *others = sorted(
                        range(3), key=lambda i: -len(got.get(i, [])))
                    service.set([at(web[i], port) for i in (
                        mine, others[attempt % 2])])
                elif i == 3:
                    service.set([at(p, port) for p in web[:2]])
            wait_for(lambda: sum(map(len, collect(sinks, got))) == 5, 5,
                     "five datagrams", lambda: str(got))
            assert sorted(map(len, got.values())) == [0, 0, 5], got


def collect(sinks, got):
    """Adds what has arrived to {index: datagrams}; its values."""
    for i, sink in enumerate(sinks):
        with contextlib.suppress(BlockingIOError):
            while True:
                got.setdefault(i, []).append(sink.recv(100))
        got.setdefault(i, [])
    return got.values()


@BOTH
def test_a_stream_of_datagrams_stays_with_its_endpoint(cluster, family):
    """While others come and go."""
    client, *web = cluster.pods
    service = cluster.service([at(web[0])])
    with service.client(client, "stream", family, interval=0.002) as traffic:
        for n in (3, 1, 2, 1):
            service.set([at(p) for p in web[:n]])
    assert traffic.result["n_failures"] == 0
    assert set(traffic.result["answers"]) == {"p1:8080"}
