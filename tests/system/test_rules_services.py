# SPDX-License-Identifier: Apache-2.0
"""The host's packet rules for NodePorts and external addresses in a real
kernel, by rules-probe in a namespace."""
import pytest

from support.rulesprobe import (BASIC, HEALED, TABLE, RulesProbe, listing,
                                members, wait_healed)
from support.wait import wait_for

SERVED = BASIC + [
    "node-port-ip 169.254.0.252", "node-port-ip fc01::aabb:ccdd:eefe",
    "add addrs 192.0.2.1/32", "add addrs 127.0.0.1/32",
    "add addrs 2001:db8::1/128"]
PORTS = ["port ports 0.0.0.0 TCP 30080", "port ports 0.0.0.0 SCTP 30081",
         "port ports :: UDP 30053",
         "port external 203.0.113.10 TCP 443",
         "port external 203.0.113.10 UDP 53",
         "port external 2001:db8:ff::10 SCTP 5060"]
SETS = {
    "node_port_addrs_ipv4": ["127.0.0.1", "192.0.2.1"],
    "node_port_addrs_ipv6": ["2001:db8::1"],
    "node_ports_ipv4": ["sctp . 30081", "tcp . 30080"],
    "node_ports_ipv6": ["udp . 30053"],
    "external_ipv4": ["203.0.113.10 . tcp . 443", "203.0.113.10 . udp . 53"],
    "external_ipv6": ["2001:db8:ff::10 . sctp . 5060"],
}


@pytest.fixture(name="ns")
def _ns(netns):
    return netns.namespace("rules")


@pytest.fixture(name="probe")
def _probe(ns, tmp_path):
    with RulesProbe(ns, tmp_path) as probe:
        yield probe


def sets(ns):
    """All members of the sets for Services."""
    return {name: members(ns, name) for name in SETS}


def test_members_are_the_same_one_by_one_and_with_the_table(ns, probe):
    probe.set(*SERVED, *PORTS)
    whole = listing(ns)
    assert sets(ns) == SETS
    probe.send(*["un" + line for line in PORTS])
    probe.wait_sync()
    wait_for(lambda: sets(ns)["external_ipv6"] == [], 5, "nothing", probe)
    assert sets(ns)["node_ports_ipv4"] == []
    tables = probe.number(r"written: (\d+) times")
    probe.send(*PORTS)
    wait_for(lambda: sets(ns) == SETS, 5, "all members", probe)
    probe.wait_sync()
    assert sorted(listing(ns)) == sorted(whole)
    assert probe.number(r"written: (\d+) times") == tables
