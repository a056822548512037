# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that run the host layer alone."""
import pytest

from support.hostprobe import Probe, add_gateway


@pytest.fixture
def host(netns):
    """A namespace with a gateway link and another one, eth0, that has the
    default routes."""
    ns = netns.namespace("host")
    ns.batch("link add eth0 type veth peer name eth0p")
    ns.sysctl(net__ipv6__conf__eth0__accept_dad=0,
              net__ipv6__conf__eth0p__accept_dad=0)
    ns.batch("link set eth0p up", "link set eth0 up",
             "addr add 192.0.2.5/24 dev eth0",
             "addr add 2001:db8::5/64 dev eth0 nodad",
             "route add default via 192.0.2.1 dev eth0",
             "route add default via 2001:db8::1 dev eth0")
    add_gateway(ns)
    return ns


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
