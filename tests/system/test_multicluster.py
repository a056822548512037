# SPDX-License-Identifier: Apache-2.0
"""Services across two clusters, with packets."""
import pytest

from support.cluster import at
from support.clusterset import ClusterSet
from support.wait import wait_for


@pytest.fixture(name="clusters", scope="module", params=["encap", "noEncap"])
def _clusters(request, tmp_path_factory):
    with ClusterSet(tmp_path_factory.mktemp("mc"), request.param) as made:
        yield made.wait()
        assert not made.unexpected_warnings()


def test_pods_of_both_clusters_answer(clusters):
    """From a pod of a regular node and one of the gateway's node, to pods of
    both kinds of nodes in both clusters."""
    east, west = clusters.east, clusters.west
    served = {"east": [at(n.pods[0]) for n in east.nodes],
              "west": [at(n.pods[0]) for n in west.nodes]}
    web, _ = clusters.export(served)
    want = {"%s:%d" % (n.pods[0].pod_name, 8080)
            for c in (east, west) for n in c.nodes}
    for node in east.nodes:
        # A switch drops what it has no neighbour for until it knows it.
        wait_for(lambda n=node: set(web.ask(n.pods[1], 4, 20)["answers"])
                 == want, 10, "answers from everywhere",
                 lambda: "".join(c.dump() for c in (east, west)))
        for proto in ("tcp", "udp"):
            seen = set()
            for _ in range(40):
                result = web.ask(node.pods[1], 4, proto=proto)
                seen |= set(result["answers"])
                assert not result["n_failures"], result
                if seen == want:
                    break
            assert seen == want, (node.label, proto)
