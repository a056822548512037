# SPDX-License-Identifier: Apache-2.0
"""What /metrics tells of the connections of a Service, with real ones; and
who reaches the health of the node."""
import pytest

from support import httpclient
from support.asking import Answer, Question, check
from support.cluster import NAMESPACE, NODE, PORT, Cluster, at
from support.wait import wait_for


@pytest.fixture(scope="module", name="cluster")
def make_cluster(tmp_path_factory):
    """A node that serves metrics, and health to the outside."""
    with Cluster(tmp_path_factory.mktemp("http"),
                 antreaProxy={"proxyAll": True},
                 enablePrometheusMetrics=True) as made:
        yield made


def connections(cluster, service, **labels):
    """New connections of a Service, as the page tells."""
    reply = httpclient.get(cluster.node.name, "127.0.0.1", 10249, "/metrics")
    page = httpclient.parse_metrics(reply.body)
    family = page["ofproxyd_service_new_connections_total"]
    return sum(value for _, its, value in family.samples
               if dict(its, **labels) == its
               and (its["namespace"], its["service"]) == (NAMESPACE,
                                                          service.name))


def test_connections_are_counted_by_service_port_and_family(cluster):
    """Those of another Service, port or family are not among them."""
    web = cluster.service([at(cluster.pods[1]), at(cluster.pods[2])])
    other = cluster.service([at(cluster.pods[1])])
    for family, n in ((4, 30), (6, 20)):
        assert web.ask(cluster.pods[0], family, n)["n_failures"] == 0
    # Each from another port.
    check(Question(cluster.pods[0], web.of(4), PORT, Answer(
        {"p1:8080": None, "p2:8080": None}), "udp") for _ in range(7))

    def counts():
        return [connections(cluster, web, protocol=proto, ip_family=family)
                for proto, family in (("TCP", "IPv4"), ("TCP", "IPv6"),
                                      ("UDP", "IPv4"), ("UDP", "IPv6"))]

    # The switch counts what its datapath has done once in a while.
    wait_for(lambda: counts() == [30, 20, 7, 0], 20, "counters",
             lambda: str(counts()))
    assert connections(cluster, other) == 0


@pytest.mark.parametrize("family", [4, 6])
def test_health_is_reached_from_outside_and_metrics_are_not(cluster, family):
    """0.0.0.0 means both families."""
    reply = httpclient.get(cluster.outside.name, NODE[family], 10256,
                           "/healthz")
    assert reply.status == 200
    with pytest.raises(OSError):
        httpclient.get(cluster.outside.name, NODE[family], 10249, "/metrics")
