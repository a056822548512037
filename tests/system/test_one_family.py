# SPDX-License-Identifier: Apache-2.0
"""A node that has one of the two families, in a cluster of both."""
import pytest

from support.cluster import Cluster, at
from support.wait import wait_for

REMOTE = {4: "10.10.2.9", 6: "2001:db8:10:2::9"}


@pytest.fixture(scope="module", name="cluster", params=[4, 6])
def _cluster(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with Cluster(directory, families=(request.param,),
                 antreaProxy={"proxyAll": True}) as made:
        yield made
    assert not made.unexpected_warnings()


@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_i2_the_familys_part_of_a_service_works(cluster, proto):
    """I2: for pods, for the host, and as a hairpin; the other's part does no
    harm."""
    family, = cluster.families
    other = 10 - family
    client, web = cluster.pods[:2]
    service = cluster.service([at(web), at({other: REMOTE[other]})],
                              families=(4, 6))
    for who in (client, web, cluster.host):
        result = service.ask(who, family, 10, proto=proto)
        assert result["answers"] == {"p1:8080": 10}
    cluster.daemon.wait_synced()


def test_i2_what_has_no_endpoint_is_refused(cluster):
    """Q1, in the family that there is."""
    family, = cluster.families
    service = cluster.service(families=(4, 6))
    for who in (cluster.pods[0], cluster.host):
        result = service.ask(who, family, 3)
        assert result["kinds"] == {"ECONNREFUSED": 3}


def test_i2_the_host_has_routes_and_addresses_of_it_only(cluster):
    """Nothing of the family that the node is not of."""
    family, = cluster.families
    other = 10 - family
    service = cluster.service(families=(4, 6))
    wait_for(lambda: service.of(family) in cluster.node.ip(
        "-%d" % family, "route"), 5, "the route", cluster.daemon)
    assert service.of(other) not in cluster.node.ip("-%d" % other, "route")
    text = cluster.node.ip("-%d" % other, "addr", "show", "dev",
                           "antrea-gw0", "scope", "global")
    assert "inet" not in text


def test_i2_a_restart_changes_nothing(cluster):
    """It finds all as it wants it."""
    cluster.daemon.wait_synced()
    before = cluster.node.switch.state()
    cluster.daemon.restart(hard=True)
    cluster.daemon.wait_synced()
    assert cluster.node.switch.state() == before
    assert set(cluster.sent().values()) == {0}
