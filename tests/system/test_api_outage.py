# SPDX-License-Identifier: Apache-2.0
"""The API server is away for a while, and objects change in the meantime."""
import contextlib
import time

import pytest

from support.cluster import FAMILIES, NAMESPACE, at
from support.wait import wait_for

CLUSTER = {"n_pods": 4}
OUTAGE = 1.5                    # Seconds.
MINUTES = 125                   # Longer than all that waits longer each time.
CATCH_UP = 40                   # The longest wait between two tries is 30 s.


@pytest.fixture(autouse=True)
def _expected_warnings(cluster):
    """That it is away is said."""
    cluster.daemon.allow(r"\|(reflector|watcher|kube|http)\|WARN\|")


@contextlib.contextmanager
def outage(cluster, how, seconds=OUTAGE):
    """Nothing listens, or nothing is said; then, if 'how' says so, what was
    before is too old to be told."""
    began = time.monotonic()
    if how == "silent":
        cluster.api.freeze()
    else:
        cluster.api.stop("rst")
    yield
    if how == "forgetful":
        cluster.api.compact()
    # The test's subject: nothing may happen all this time.
    time.sleep(max(0, seconds - (time.monotonic() - began)))
    if how == "silent":
        cluster.api.thaw()
    else:
        cluster.api.start()


def traffic(stack, client, *services):
    """Connections to Services in both families: new ones, held ones."""
    return [stack.enter_context(service.client(client, kind, family,
                                               interval=0.005))
            for service in services for kind in ("connect", "hold")
            for family in FAMILIES]


def ask_all(service, client, n=1):
    """The answers to n questions in each family."""
    return [service.ask(client, family, n)["answers"] for family in FAMILIES]


@pytest.mark.parametrize("how, seconds", [
    ("away", OUTAGE), ("silent", OUTAGE), ("forgetful", MINUTES)])
def test_b16_traffic_goes_on_and_changes_are_made_up_for(cluster, how,
                                                         seconds):
    """B16, D08: the Service, the slice and the port that went meanwhile go;
    what was born is there."""
    daemon, switch, (client, *web) = (cluster.daemon, cluster.node.switch,
                                      cluster.pods)
    service = cluster.service([at(web[0]), at(web[1], 8081)])
    ghost = cluster.service([at(web[0])])
    other = cluster.service([at(p) for p in web])
    daemon.wait_synced()
    before = switch.state()
    with contextlib.ExitStack() as stack:
        all_traffic = traffic(stack, client, service, other)
        with outage(cluster, how, seconds):
            service.set([at(web[1], 8081)], wait=False)
            cluster.api.delete("services", NAMESPACE, ghost.name)
            born = cluster.service([at(web[2])], wait=False)
            assert ask_all(ghost, client) == 2 * [{"p1:8080": 1}]
            assert switch.state() == before
        service.wait(CATCH_UP)
        born.wait(CATCH_UP)
        for family in FAMILIES:
            daemon.wait_flow("=%s," % ghost.of(family), present=False)
        daemon.wait_synced()
        assert ask_all(service, client, 20) == 2 * [{"p2:8081": 20}]
        assert ask_all(born, client) == 2 * [{"p3:8080": 1}]
    assert all(t.result["n"] and not t.result["n_failures"]
               for t in all_traffic)


def test_a_daemon_that_starts_without_it_leaves_all_as_it_was(cluster):
    """Promise 2: traffic goes on until the objects can be listed again."""
    daemon, switch, (client, *web) = (cluster.daemon, cluster.node.switch,
                                      cluster.pods)
    service = cluster.service([at(web[0])])
    daemon.wait_synced()
    before = switch.state()
    with contextlib.ExitStack() as stack:
        all_traffic = traffic(stack, client, service)
        daemon.kill()
        with outage(cluster, "away"):
            daemon.start()
            service.set([at(web[1])], wait=False)
            wait_for(lambda: "failing:" in daemon.appctl("sync"), 10,
                     "what it says", daemon)
            assert "in sync: no" in daemon.appctl("sync")
            assert ask_all(service, client, 20) == 2 * [{"p1:8080": 20}]
            assert switch.state() == before
        service.wait(30)
        assert ask_all(service, client, 20) == 2 * [{"p2:8080": 20}]
    assert all(t.result["n"] and not t.result["n_failures"]
               for t in all_traffic)
