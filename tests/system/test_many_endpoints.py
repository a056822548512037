# SPDX-License-Identifier: Apache-2.0
"""Services with hundreds and thousands of endpoints: every way in which
groups select, and the steps from one to the next.

An endpoint is one of 500 ports of one of four pods."""
import contextlib

import pytest

from support.cluster import at, lost_syns
from support.traffic import Server

BOTH = pytest.mark.parametrize("family", [4, 6])
CLUSTER = {"n_pods": 5, "antreaProxy": {"proxyAll": True}}
FIRST = 10000                   # Of the 500 ports.


@pytest.fixture(scope="module", autouse=True)
def _servers(cluster):
    ports = ["%d-%d" % (FIRST, FIRST + 499)]
    with contextlib.ExitStack() as stack:
        for pod in cluster.pods[1:]:
            stack.enter_context(Server(pod, pod.pod_name, "--by-port",
                                       tcp=ports, udp=ports))
        yield


@pytest.fixture(scope="module", name="service")
def _service(cluster):
    """One for all, for a Service of 2000 takes a second or two."""
    return cluster.service()


def endpoints(cluster, n):
    """The first n."""
    return [at(cluster.pods[1 + i % 4], FIRST + i // 4) for i in range(n)]


# With three connections for each of 700 endpoints chance leaves out 5 %, with
# one and a half for each of 2000 it leaves out 22 %.
@BOTH
@pytest.mark.parametrize("proto", ["tcp", "udp"])
@pytest.mark.parametrize("n, n_clients, share", [
    (700, 2100, 0.90), (2000, 3000, 0.70)])
def test_d1_every_endpoint_can_be_chosen(cluster, service, family, proto, n,
                                         n_clients, share):
    """D1, D02, D01: in groups of groups; by pods and by the host."""
    if len(service.endpoints) != n:
        service.set(endpoints(cluster, n))
    result = service.ask(cluster.pods[0], family, n_clients, proto=proto,
                         concurrency=10)
    assert result["n_failures"] == 0, result["failures"]
    assert len(result["answers"]) > share * n
    assert max(result["answers"].values()) < 15
    result = service.ask(cluster.host, family, 100, proto=proto)
    assert result["n"] == 100 and len(result["answers"]) > 80


# Of up to 64 endpoints, 550, more; see src/pipeline/group.c.
STEPS = (10, 64, 65, 550, 551, 700, 1600, 700, 551, 550, 65, 64, 10)


@BOTH
def test_d4_growing_and_shrinking_loses_no_connection(cluster, service,
                                                      family):
    """Over all sizes at which the way to select changes."""
    client = cluster.pods[0]
    service.set(endpoints(cluster, STEPS[0]))
    before = lost_syns(client)
    with service.client(client, family=family, interval=0.001,
                        concurrency=3) as traffic, \
            service.client(client, "hold", family, interval=0.005) as held, \
            service.client(client, "stream", family,
                           interval=0.005) as stream:
        for n in STEPS:
            service.set(endpoints(cluster, n))
            assert service.ask(client, family, 50)["n"] == 50
    for one in (traffic, held, stream):
        assert one.result["n_failures"] == 0, one.result["failures"]
    assert len(held.result["answers"]) == len(stream.result["answers"]) == 1
    assert lost_syns(client) == before


def test_d4_one_endpoint_more_is_one_message_for_each_group(cluster,
                                                            service):
    """D4: two families, two protocols: in a group of groups those leaves
    change whose share did."""
    service.set(endpoints(cluster, 300))
    cluster.daemon.wait_synced()
    before = cluster.sent()
    service.set(endpoints(cluster, 301))
    cluster.daemon.wait_synced()
    after = cluster.sent()
    assert after["group puts"] - before["group puts"] == 4
    assert after["flow puts"] == before["flow puts"]
