# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that run the host layer, or its packet rules, alone."""
import pytest

from support.hostprobe import Probe, make_host
from support.rulesprobe import RulesProbe


@pytest.fixture
def host(netns):
    """A namespace with a gateway link and an uplink."""
    return make_host(netns)


@pytest.fixture
def start(host, tmp_path):
    """Starts probes."""
    probes = []

    def start_one(*lines, sync=True, **more):
        probe = Probe(host, tmp_path, **more)
        probes.append(probe)
        if lines:
            probe.set(*lines, sync=sync)
        return probe

    yield start_one
    for probe in probes:
        if probe.process.returncode is None:
            probe.stop()


@pytest.fixture
def ns(netns):
    """A namespace for packet rules."""
    return netns.namespace("rules")


@pytest.fixture
def probe(ns, tmp_path):
    """What keeps the packet rules there."""
    with RulesProbe(ns, tmp_path) as made:
        yield made
