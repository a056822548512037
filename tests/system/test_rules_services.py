# SPDX-License-Identifier: Apache-2.0
"""The host's packet rules for NodePorts and external addresses in a real
kernel, by rules-probe in a namespace."""
import pytest

from support.rulesprobe import (BASIC, HEALED, PROBE, TABLE, WRAPPER,
                                RulesProbe, listing, members, wait_healed)
from support.wait import wait_for

SERVED = BASIC + [
    "node-port-ip 169.254.0.252", "node-port-ip fc01::aabb:ccdd:eefe",
    "kept-mac aa:bb:cc:dd:ee:ff",
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


@pytest.mark.parametrize("name", sorted(SETS))
def test_members_that_a_foreign_hand_takes_or_adds_are_repaired(ns, probe,
                                                                name):
    probe.set(*SERVED, *PORTS)
    whole = listing(ns)
    tables = probe.number(r"written: (\d+) times")
    foreign = {"node_port_addrs_ipv4": "198.51.100.1",
               "node_port_addrs_ipv6": "2001:db8:77::1",
               "node_ports_ipv4": "udp . 1", "node_ports_ipv6": "tcp . 65535",
               "external_ipv4": "198.51.100.1 . tcp . 80",
               "external_ipv6": "2001:db8:77::1 . udp . 80"}[name]
    for command in ("flush set inet %s %s" % (TABLE, name),
                    "delete element inet %s %s { %s }" % (
                        TABLE, name, SETS[name][0]),
                    "add element inet %s %s { %s }" % (TABLE, name, foreign)):
        ns.run("nft", command)
        wait_for(lambda: sets(ns) == SETS, HEALED, "the repair", probe)
    assert sorted(listing(ns)) == sorted(whole)
    assert probe.number(r"written: (\d+) times") == tables
    # What can be no member of ours, and rules of ours: the whole table.
    for command in (
            "delete table inet " + TABLE, "flush chain inet %s output_nat"
            % TABLE, "add element inet %s node_ports_ipv4 { icmp . 1 }"
            % TABLE):
        ns.run("nft", command)
        wait_healed(probe, ns, whole)


def test_members_that_several_want_stay_until_the_last_one_goes(ns, probe):
    """As of two Services with the same address and port, in conflict."""
    one = PORTS[3]
    probe.set(*SERVED, one, one)
    assert members(ns, "external_ipv4") == ["203.0.113.10 . tcp . 443"]
    probe.send("un" + one)
    probe.wait_sync()
    assert members(ns, "external_ipv4") == ["203.0.113.10 . tcp . 443"]
    probe.send("un" + one, "un" + one)
    wait_for(lambda: members(ns, "external_ipv4") == [], 5, "none", probe)
    assert members(ns, "node_port_addrs_ipv4") \
        == SETS["node_port_addrs_ipv4"]


def test_d11_an_address_of_several_ports_is_used_as_long_as_one_is(ns, probe):
    probe.set(*SERVED, "port external 203.0.113.10 TCP 80 3")
    for n, port in enumerate((81, 80, 82)):
        assert len(members(ns, "external_ipv4")) == 3 - n
        probe.send("unport external 203.0.113.10 TCP %d" % port)
        wait_for(lambda n=n: len(members(ns, "external_ipv4")) == 2 - n, 5,
                 "one less", probe)


def test_a_change_costs_the_same_however_large_the_sets_are(ns, probe):
    def cost(port):
        probe.took()
        for _ in range(20):
            probe.send("port external 203.0.113.77 TCP %d" % port,
                       "port ports 0.0.0.0 UDP %d" % port)
            probe.wait_sync()
            probe.send("unport external 203.0.113.77 TCP %d" % port,
                       "unport ports 0.0.0.0 UDP %d" % port)
            probe.wait_sync()
        return probe.took()

    probe.set(*SERVED)
    cost(1)
    small = cost(1)
    probe.send(*["port external 203.0.113.%d TCP 1000 2000" % n
                 for n in range(10)], "port ports 0.0.0.0 TCP 30000 2700")
    probe.wait_sync()
    # Not those in which all is looked at, as happens now and then.
    large = min(cost(1) for _ in range(5))
    print("20 changes: %.1f ms, with 20000 members: %.1f ms" % (small, large))
    assert large < 3 * small + 5


def test_more_members_than_notifications_can_wait_are_written_once(ns, probe):
    """Those of our own write are lost then, and that must not be a reason to
    write again and again."""
    probe.set(*SERVED)
    probe.send(*["port external 203.0.113.%d TCP 1000 7000" % n
                 for n in range(10)])
    probe.wait_sync()
    tables = probe.number(r"written: (\d+) times")
    ns.run("nft", "flush", "ruleset")
    wait_for(lambda: probe.number(r"written: (\d+) times") > tables, 5,
             "the repair", probe)
    probe.wait_sync()
    assert probe.number(r"written: (\d+) times") <= tables + 2
    assert len(members(ns, "external_ipv4")) == 70000


def test_without_node_ports_there_are_no_chains_for_them(ns, probe):
    """As without proxyAll; and per family."""
    probe.set(*BASIC)
    for word in "dnat", "mark", "127.0.0.0", "type route":
        assert word not in listing(ns)
    probe.set("node-port-ip 169.254.0.252")
    assert "dnat ip to 169.254.0.252" in listing(ns)
    assert "dnat ip6" not in listing(ns)
    probe.set("clear", *BASIC)
    assert "dnat" not in listing(ns)


def test_what_an_earlier_run_served_stays_until_all_is_known(ns, tmp_path):
    with RulesProbe(ns, tmp_path) as probe:
        probe.set(*SERVED, *PORTS)
    before = listing(ns)
    with RulesProbe(ns, tmp_path) as probe:
        probe.set(*SERVED, "complete 0")
        probe.send(PORTS[0], "port ports 0.0.0.0 TCP 31000")
        wait_for(lambda: "tcp . 31000" in members(ns, "node_ports_ipv4"), 5,
                 "the new one", probe)
        assert set(sets(ns)["external_ipv4"]) == set(SETS["external_ipv4"])
        probe.set("complete 1")
        wait_for(lambda: sets(ns)["external_ipv4"] == [], 5, "none", probe)
        assert members(ns, "node_ports_ipv4") == ["tcp . 30080",
                                                  "tcp . 31000"]
    assert before != listing(ns)


@pytest.mark.skipif(b"__asan_init" in PROBE.read_bytes() or WRAPPER != [],
                    reason="memory is not the program's own")
def test_a_new_table_is_filled_step_by_step(ns, probe):
    """Many ports at once would be one long turn, and take much memory."""
    n = 10000
    probe.send(*["port external 203.0.%d.10 TCP 1000 5000" % i
                 for i in range(n // 5000)])
    probe.set(*SERVED)
    assert len(members(ns, "external_ipv4")) == n
    assert probe.memory() < 7000        # In KiB; as one text it is twice that.
    ns.run("nft", "delete", "table", "inet", TABLE)
    wait_for(lambda: len(members(ns, "external_ipv4") or []) == n, 20,
             "all members", probe)
    probe.wait_sync()
    assert members(ns, "node_port_addrs_ipv4") \
        == SETS["node_port_addrs_ipv4"]
    assert probe.memory() < 7000
