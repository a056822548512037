# SPDX-License-Identifier: Apache-2.0
"""The way of marked packets into the bridge: a routing rule and a table with
a default route, of both families; and 127.0.0.1 by the gateway."""
import pytest

from support.hostprobe import (BASIC, MARKED, SOON, TABLE, VIA, VIA6,
                               add_gateway, everything, marked, rules, sysctl,
                               wait_everything)
from support.wait import wait_for

RULE = "201:\tfrom all fwmark 0x20000000/0x20000000 lookup 2010201 proto 201"
ROUTES = ["default via %s dev gw0 proto 201 onlink" % VIA,
          "default via %s dev gw0 proto 201 metric 1024 onlink pref medium"
          % VIA6]
ALL = BASIC + MARKED
LOCALNET = "net.ipv4.conf.gw0.route_localnet"
# Each with the family's option.
HANDS = {
    "rule": "%s rule del pref 201",
    "rule flush": "%s rule flush table " + TABLE,
    "route": "%s route del default table " + TABLE,
    "route flush": "%s route flush table " + TABLE,
    "route elsewhere": "%s route replace default dev eth0 proto 201 table "
                       + TABLE,
    "more rules": "%s rule add pref 300 fwmark 7 lookup 77 protocol 201",
    "more routes": "%s route add {one} dev gw0 proto 201 table " + TABLE,
    "both": "%s rule del pref 201; %s route flush table " + TABLE,
}


def test_only_marked_packets_take_the_way(host, start):
    start(*ALL)
    assert rules(host) == [RULE, RULE]
    assert marked(host) == ROUTES
    for family, ip in ("-4", "198.51.100.1"), ("-6", "2001:db8:77::1"):
        for mark, link in (("0", "eth0"), ("0x20000000", "gw0"),
                           ("0x2000ffff", "gw0"), ("0xdfffffff", "eth0")):
            assert " dev %s " % link in host.ip(family, "route", "get", ip,
                                                "mark", mark)


def test_a_family_that_is_not_wanted_has_no_way(host, start):
    probe = start(*BASIC, MARKED[0])
    assert rules(host) == [RULE] and marked(host) == ROUTES[:1]
    probe.set("clear", *ALL)
    assert rules(host) == [RULE, RULE]
    probe.set("clear", *BASIC)
    assert rules(host) == [] and marked(host) == []


@pytest.mark.parametrize("family", ["-4", "-6"])
@pytest.mark.parametrize("hand", HANDS)
def test_c16_what_a_foreign_hand_does_is_undone_within_a_second(
        host, start, hand, family):
    probe = start(*ALL)
    want = everything(host)
    one = {"-4": "198.51.100.1/32", "-6": "2001:db8:77::1/128"}[family]
    for command in HANDS[hand].replace("%s", family).format(
            one=one).split("; "):
        host.ip(*command.split())
    wait_everything(host, want, probe)


def test_c16_a_gateway_that_goes_down_or_is_made_anew_gets_it_back(host,
                                                                   start):
    probe = start(*ALL)
    want = everything(host)
    host.ip("link", "set", "gw0", "down")
    wait_everything(host, want, probe)
    host.ip("link", "del", "gw0")
    add_gateway(host)
    wait_everything(host, want, probe)


FOREIGN = ["rule add pref 201 fwmark 0x20000000/0x20000000 lookup 88",
           "rule add pref 201 from 198.51.100.0/24 lookup 88",
           "rule add pref 200 fwmark 0x20000000/0x20000000 lookup 2010201 "
           "protocol 99",
           "-6 rule add pref 201 from 2001:db8:77::/64 lookup 88",
           "route add 198.51.100.0/24 dev eth0 table 2010201 proto static",
           "route add default dev eth0 table 88 proto 201"]


def test_d34_rules_of_others_stay(host, start):
    """Also those that look like ours but have another protocol number."""
    for command in FOREIGN:
        host.ip(*command.split())
    theirs = rules(host)
    probe = start(*ALL)
    assert sorted(theirs + [RULE, RULE]) == rules(host)
    host.ip("-4", "rule", "del", "pref", "201", "protocol", "201")
    wait_for(lambda: sorted(theirs + [RULE, RULE]) == rules(host), SOON,
             "the repair", probe)
    probe.set("clear", *BASIC)
    assert rules(host) == theirs
    assert marked(host) == ["198.51.100.0/24 dev eth0 proto 4 scope 253"]
    assert "proto 201" in host.ip("-N", "route", "show", "table", "88")


def test_c14_left_overs_go_when_all_is_known(host, start):
    """Also after it was switched off."""
    start(*ALL).stop()
    probe = start("complete 0", *BASIC[:2], *BASIC[3:])
    assert rules(host) == [RULE, RULE]
    probe.set("complete 1")
    wait_for(lambda: not rules(host) and not marked(host), SOON,
             "the left-overs to go", probe)


def test_d34_clean_up_removes_it_and_nothing_else(host, start):
    for command in FOREIGN:
        host.ip(*command.split())
    theirs = rules(host)
    start(*ALL, "localhost 1").stop()
    assert sysctl(host, LOCALNET) == "1"
    probe = start()
    probe.send("gateway gw0")
    lines = probe.other("cleanup")
    assert sysctl(host, LOCALNET) == "0"
    assert lines[-1] == "ok"
    for line in ("removed IPv4 routing rule 201 to table 2010201",
                 "removed IPv6 routing rule 201 to table 2010201",
                 "removed route to 0.0.0.0/0 of table 2010201",
                 "removed route to ::/0 of table 2010201"):
        assert line in lines
    assert rules(host) == theirs
    assert marked(host) == ["198.51.100.0/24 dev eth0 proto 4 scope 253"]


def test_what_is_wanted_can_change_again_and_again(host, start):
    probe = start(*ALL)
    for _ in range(3):
        probe.set("clear", *BASIC)
        probe.set("clear", *ALL)
    assert rules(host) == [RULE, RULE]
    assert "rule in place, route in place" in probe.state()


def test_127_0_0_1_is_let_out_only_while_it_is_served(host, start):
    probe = start(*ALL)
    for value in "0101":
        probe.send("localhost " + value)
        wait_for(lambda value=value: sysctl(host, LOCALNET) == value, SOON,
                 "the setting", probe)
    probe.stop()
    # An earlier run has served it: this one has to say first what it does.
    probe = start(*ALL)
    assert sysctl(host, LOCALNET) == "1"
    probe.send("localhost 0")
    wait_for(lambda: sysctl(host, LOCALNET) == "0", SOON, "the setting",
             probe)
