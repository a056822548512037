# SPDX-License-Identifier: Apache-2.0
"""ServiceCIDR objects, with packets: what no Service has ends in the bridge,
and one route leads the host to all cluster IPs."""
import pytest

from support import objects, packets
from support.cluster import PORT, SERVICE_CIDRS, Cluster, at
from support.packets import Wire
from support.traffic import Client, ask_once
from support.wait import wait_for

BOTH = pytest.mark.parametrize("family", [4, 6])
WHO = pytest.mark.parametrize("who", ["pod", "host"])
UNUSED = {4: "10.96.200.1", 6: "2001:db8:96::c801"}


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"),
                 antreaProxy={"proxyAll": True}) as made:
        made.api.apply(objects.service_cidr("kubernetes",
                                            SERVICE_CIDRS.values()))
        wait_for(lambda: "Service networks: 10.96.0.0/16 2001:db8:96::/112"
                 in made.daemon.appctl("sync"), 10, "the networks",
                 made.daemon)
        made.daemon.wait_synced()
        yield made
    assert not made.unexpected_warnings()


def client_of(cluster, who):
    return cluster.pods[0] if who == "pod" else cluster.host


@BOTH
@WHO
@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_what_no_service_has_is_dropped(cluster, family, who, proto):
    """Nobody answers, and nothing goes round."""
    client = client_of(cluster, who)
    target = UNUSED[family]
    with Wire(cluster.node, "antrea-gw0") as gateway:
        result = Client(client, "connect", target, PORT, count=1, proto=proto,
                        timeout=0.5).wait()
        assert not packets.ping(client, family, target, 0.2)
        answered = gateway.wait(lambda f: f.src == target, 0.2)
    assert set(result["kinds"]) == {"TimeoutError"}
    assert answered is None
    came = [f for f in gateway.frames if f.dst == target]
    # From a pod by way of the host, where another proxy might serve it.
    assert len(came) <= 8, came
    if who == "pod":
        assert came


@BOTH
@WHO
def test_services_in_it_are_served(cluster, family, who):
    """By one route, whatever their number; other ports are refused."""
    service = cluster.service([at(cluster.pods[1])])
    client = client_of(cluster, who)
    assert service.ask(client, family, 5)["answers"] == {"p1:8080": 5}
    other = ask_once(client, service.of(family), PORT + 1, timeout=2)
    assert other["kinds"] == {"ECONNREFUSED": 1}
    routes = cluster.node.ip("-%d" % family, "route", "show", "dev",
                             "antrea-gw0")
    assert SERVICE_CIDRS[family] in routes
    assert service.of(family) + " " not in routes


@BOTH
def test_without_the_network_it_is_the_hosts_business(cluster, family):
    """And its Services have routes of their own, without a gap."""
    service = cluster.service([at(cluster.pods[1])])
    kept = cluster.api.get("servicecidrs", "", "kubernetes").obj
    stream = service.client(cluster.host, "connect", family, count=400,
                            interval=0.005)
    cluster.api.delete("servicecidrs", "", "kubernetes")
    try:
        wait_for(lambda: "Service networks: none"
                 in cluster.daemon.appctl("sync"), 10, "no network",
                 cluster.daemon)
        cluster.daemon.wait_synced()
        cluster.node.switch.wait_revalidated()      # It has dropped these.
        with Wire(cluster.node, "antrea-gw0") as gateway:
            ask_once(cluster.pods[0], UNUSED[family], PORT, timeout=0.3)
            assert gateway.wait(lambda f: f.dst == UNUSED[family])
    finally:
        cluster.api.apply(kept, force=True)
    wait_for(lambda: "Service networks: 10.96.0.0/16 2001:db8:96::/112"
             in cluster.daemon.appctl("sync"), 10, "the networks",
             cluster.daemon)
    cluster.daemon.wait_synced()
    result = stream.wait()
    assert not result["failures"] and result["n"] == 400
