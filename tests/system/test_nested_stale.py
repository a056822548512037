# SPDX-License-Identifier: Apache-2.0
"""Connections of UDP that came by way of a cluster IP, when the pod behind it
goes."""
import re

import pytest

from support import apistore, clusterset
from support.cluster import PORT, SERVICE_CIDRS, Cluster, Endpoint, at
from support.wait import slowness, wait_for


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("nested"), families=(4,),
                 serviceCIDR=SERVICE_CIDRS[4], **clusterset.ON) as cluster:
        for resource in apistore.MULTICLUSTER:
            cluster.api.add_resource(resource)
        yield cluster


def repliers(cluster, address):
    """Who answers connections that were opened to an address."""
    return set(re.findall(
        r"^udp,orig=\(src=[^,]*,dst=%s,.*?reply=\(src=([^,]*)," % re.escape(
            address), "\n".join(cluster.node.switch.conntrack()),
        re.MULTILINE))


def test_a_fixed_source_port_moves_to_the_new_pod(cluster):
    """The client never closes its socket, and asks another Service."""
    client, old, new = cluster.pods
    exported = cluster.service([at(old)])
    imported = cluster.service([Endpoint({4: exported.of(4)}, PORT, None)],
                               wait=False)
    cluster.daemon.wait_flow("ServiceLB", imported.of(4))
    cluster.daemon.wait_synced()
    with imported.client(client, "stream", 4, interval=0.01,
                         source_port=20001) as stream:
        for pod in (old, new):
            exported.set([at(pod)])
            wait_for(lambda p=pod: repliers(cluster, imported.of(4))
                     == {p.of(4)}, 5, "the entries", cluster.daemon)
        result = stream.stop()
    assert set(result["answers"]) == {"p1:8080", "p2:8080"}
    assert result["n_failures"] < 60 * slowness()
