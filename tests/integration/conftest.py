# SPDX-License-Identifier: Apache-2.0
"""The fixtures `rig` (support.rig) and `kube_probe` (support.kubeprobe)."""
import os

import pytest

from support.kubeprobe import KubeProbe
from support.rig import Rig, own_node


def pytest_collection_modifyitems(items):
    """Its network namespace needs root."""
    if os.geteuid() == 0:
        return
    for item in items:
        if "rig" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def rig(tmp_path):
    """A daemon that is not started yet, behind a relay to a switch with dummy
    ports, and an API server that has only the node's own object.

    The test fails as well if daemon or switch have logged a warning that
    was not allowed."""
    with Rig(tmp_path / "rig", relay=True) as made:
        made.api.apply(own_node())
        yield made
    made.check_quiet()


@pytest.fixture
def kube_probe(tmp_path):
    """A function that starts probes, which must all end well."""
    made = []

    def make(api=None, **options):
        directory = tmp_path / ("probe-%d" % len(made))
        directory.mkdir()
        made.append(KubeProbe(directory, api, **options))
        return made[-1]

    yield make
    for one in made:
        status = one.close()
        assert status == 0, "exit status %s\n%s" % (status, one.dump())
