# SPDX-License-Identifier: Apache-2.0
"""The roles of conf/kubernetes allow what the daemon asks for, no more and no
less, and a right that is missing is named."""
import contextlib

import pytest

from support import clusterset, manifests, objects
from support.kubeprobe import KubeProbe
from support.rig import Rig, own_node
from support.wait import wait_for

BASE = "base/rbac.yaml"
BUSY = {"antreaProxy": {"proxyAll": True}}
# What makes the daemon use the rights of each file.
CONFIG = {BASE: BUSY,
          "overlays/multicluster/rbac.yaml": {**BUSY, **clusterset.ON},
          manifests.TRANSPORT + "/rbac.yaml": {
              **BUSY, "transportInterface": "eth0"}}
# The daemon sends a count after six minutes only.
COUNT = ("events.k8s.io", "events", "patch")


def used(api):
    """The rights that it has been asked for: (group, resource, verb)."""
    return {(r.path.split("/")[2] if r.path.startswith("/apis/") else "",
             r.resource, r.verb) for r in api.requests}


def conflict():
    """Two Services that want the same address, which is an Event."""
    return [objects.service("ns1", name, cluster_ips=["10.96.0.%d" % number],
                            externalIPs=["198.51.100.7"])
            for number, name in enumerate(("svc-a", "svc-b"), 1)]


@pytest.fixture(name="rig_of")
def _rig_of(tmp_path):
    """A function: a rig whose daemon, not started yet, has reasons to use the
    rights of a file."""
    with contextlib.ExitStack() as stack:
        def make(name):
            rig = stack.enter_context(Rig(tmp_path / "rig", **CONFIG[name]))
            rig.api.apply_all([own_node(), *conflict()])
            rig.daemon.allow("belongs to", "HTTP 403")
            stack.callback(rig.check_quiet)
            return rig
        yield make


def count_event(api, directory):
    """Sends an Event, and then its count."""
    with KubeProbe(directory, api, event_repeat_ms=50) as probe:
        probe.wait_synced()
        probe.emit("ns1/svc-a", "note", times=3)
        request, = probe.wait(lambda: [
            r for r in api.requests_for("events", "patch") if r.status],
            "an answer to the count")
        if request.status != 403:
            return "counted"
        return probe.wait(lambda: probe.event_stats()["error"],
                          "the end of the request")


@pytest.mark.parametrize("name", CONFIG)
def test_the_rights_used_are_those_given(rig_of, name):
    """Both ways."""
    rig = rig_of(name)
    given = manifests.rights(*{BASE, name}) - {COUNT}
    rig.daemon.start()
    wait_for(lambda: used(rig.api) >= given, 20, "use of all rights",
             lambda: "unused: %s\n%s" % (given - used(rig.api), rig.dump()))
    rig.wait_settled()
    assert used(rig.api) == given


def test_an_event_is_created_and_then_counted(apiserver, tmp_path):
    """The one right that the daemon has no use for in the time of a test."""
    count_event(apiserver, tmp_path)
    assert COUNT in used(apiserver) and COUNT in manifests.rights(BASE)


@pytest.mark.parametrize("name,group,resource,verb", [
    (name, *right) for name in CONFIG
    for right in sorted(manifests.rights(name) - {COUNT})])
def test_a_right_that_is_missing_is_named(rig_of, name, group, resource,
                                          verb):
    """And all else goes on."""
    rig = rig_of(name)
    rig.api.forbid(resource, verb)
    rig.daemon.start()
    line = rig.daemon.wait_log(
        'cannot %s resource "%s" in API group "%s"' % (verb, resource, group))
    assert "HTTP 403" in line
    wait_for(lambda: used(rig.api) >= {
        right for right in manifests.rights(*{BASE, name}) - {COUNT}
        if right[1] != resource and right[1] != "events"}, 10,
             "use of the other rights", rig)


def test_a_count_that_is_forbidden_is_named(apiserver, tmp_path):
    """As the creation of an Event."""
    apiserver.forbid("events", "patch")
    said = count_event(apiserver, tmp_path)
    assert 'cannot patch resource "events"' in said
