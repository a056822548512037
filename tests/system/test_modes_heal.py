# SPDX-License-Identifier: Apache-2.0
"""What a foreign hand takes from a node comes back, and with it the traffic
between nodes.  The times are printed (pytest -rP)."""
import time

import pytest

from support import packets
from support.cluster import at
from support.multinode import GATEWAY, state
from support.wait import slowness, wait_for

MULTI = {"encap": {"tunnel": "geneve"},
         "noEncap": {"mode": "noEncap"},
         "hybrid": {"mode": "hybrid", "subnets": "aab"}}
SOON = 2.0                      # Seconds.
DAMAGE = {
    "routes": "ip route flush proto 201",
    "routes-of-the-gateway": "ip route flush dev " + GATEWAY,
    "routes-6-of-the-gateway": "ip -6 route flush dev " + GATEWAY,
    "rules": "nft flush ruleset",
    # The link-local one among them, with which the kernel asks for pods.
    "addresses": "ip addr flush dev %s; ip -6 neigh flush dev %s" % (
        GATEWAY, GATEWAY),
    "neighbours": "ip neigh flush nud permanent dev " + GATEWAY,
    "gateway-down": "ip link set %s down" % GATEWAY}


def is_whole(multi, service):
    """Whether all ways over the nodes work."""
    first, last = multi.nodes[0], multi.nodes[-1]
    patience = 0.3 * slowness()
    return all(
        packets.ping(*way, patience) for f in (4, 6) for way in (
            (first.pods[0], f, last.pods[0].of(f)),
            (last.pods[0], f, first.pods[0].of(f)),
            (first, f, last.pods[0].of(f)),
            (first.pods[0], f, multi.outside_address(f)))
    ) and all(not service.ask(client, f, 1, timeout=patience)["n_failures"]
              for f in (4, 6) for client in (first, first.pods[0]))


def check_heals(multi, damage, limit):
    """The state is the one from before within 'limit' seconds after
    damage(), and the traffic flows."""
    member = multi.members[0]
    service = multi.service([at(multi.nodes[-1].pods[0])])
    before = state(member)
    wait_for(lambda: is_whole(multi, service), 5, "traffic", member.daemon)
    damage(member)
    began = time.monotonic()
    wait_for(lambda: state(member) == before, limit + 8,
             "the state from before", member.daemon)
    seconds = time.monotonic() - began
    wait_for(lambda: is_whole(multi, service), 5, "traffic", member.daemon)
    print("healed after %.2f s, traffic after %.2f s"
          % (seconds, time.monotonic() - began))
    assert seconds < limit * slowness()
    service.delete()


@pytest.mark.parametrize("what", DAMAGE)
def test_what_the_host_loses_comes_back(multi, what):
    """Routes, rules, addresses, the link being up (C16, C20)."""
    check_heals(multi, lambda member: [
        member.node.run(*command.split())
        for command in DAMAGE[what].split("; ")], SOON)


def delete_link(member):
    """Somebody deletes the gateway's link; the switch keeps the port."""
    member.node.ip("link", "del", GATEWAY)


def allow_loss(member):
    """What is logged then, by the daemon once and by the switch for each try
    to use the link."""
    member.daemon.allow('link "%s": No such device' % GATEWAY)
    member.switch.allow(r"%s.*(No such device|bad state|of unknown type|"
                        r"Address family not supported)" % GATEWAY,
                        r"Dropped \d+ log messages")


@pytest.fixture
def loser(multi):
    """The node whose gateway link is deleted."""
    allow_loss(multi.members[0])
    return multi.members[0]


def log_count(member, text):
    """How many of the daemon's log lines have a text."""
    return member.daemon.log.read_text().count(text)


def interface(member):
    """What the database has of the gateway, but for what the switch says."""
    return member.switch.vsctl(
        "--columns=name,type,mac,external_ids,other_config,ofport_request,"
        "ofport,mtu_request", "list", "Interface", GATEWAY)


def mac(member):
    """The MAC address of the gateway's link."""
    return member.node.ip("-o", "link", "show", GATEWAY).split(
        "link/ether ")[1].split()[0]


def test_a_gateway_link_that_is_deleted_comes_back(multi, loser):
    """The same port with the same address; said once (C16)."""
    logged = log_count(loser, "took port")
    before, address = interface(loser), mac(loser)
    check_heals(multi, delete_link, SOON)
    assert (interface(loser), mac(loser)) == (before, address)
    assert log_count(loser, "took port") == logged + 1


def test_an_adopted_gateway_comes_back_as_it_was(multi, loser):
    """With its address also if the database has none, and without becoming
    the daemon's (C16)."""
    switch = loser.switch
    switch.vsctl("remove", "Port", GATEWAY, "external_ids", "ofproxyd-made",
                 "--", "set", "Port", GATEWAY,
                 "external_ids:antrea-type=gateway", "--", "set", "Interface",
                 GATEWAY, "external_ids:by=somebody")
    before, address = interface(loser), mac(loser)
    port = switch.vsctl("get", "Port", GATEWAY, "external_ids")
    check_heals(multi, delete_link, SOON)
    assert (interface(loser), mac(loser)) == (before, address)
    assert switch.vsctl("get", "Port", GATEWAY, "external_ids") == port
    assert log_count(loser, "which ofproxyd has not made")


def close_port(member):
    """What the database has between the two steps of the repair."""
    member.switch.vsctl("set", "Interface", GATEWAY, "type=ofproxyd-reopen")


def lose_while_away(member):
    """The link goes while no daemon runs."""
    member.daemon.kill()
    delete_link(member)
    member.daemon.start()


def die_halfway(member):
    """The daemon ends with the port out of the switch."""
    member.daemon.kill()
    delete_link(member)
    close_port(member)
    member.daemon.start()


def both_die_halfway(member):
    """The switch too."""
    member.daemon.kill()
    delete_link(member)
    close_port(member)
    member.node.restart_switch(True)
    member.daemon.start()


def lose_without_database(member):
    """The link goes while the database is away."""
    member.daemon.allow("ovsdb.*(WARN|ERR)")
    member.switch.stop_ovsdb()
    delete_link(member)
    member.switch.start_ovsdb()


@pytest.mark.parametrize("damage", [lose_while_away, die_halfway,
                                    both_die_halfway, lose_without_database])
def test_a_gateway_link_comes_back_whatever_ends(multi, loser, damage):
    """With the same address (C16)."""
    address = mac(loser)
    check_heals(multi, damage, 4 * SOON)
    assert mac(loser) == address


@pytest.mark.parametrize("hard", [True, False], ids=["kill", "exit"])
def test_a_switch_that_restarts_is_filled_again(multi, hard):
    """With all ports, flows and groups; the gateway's link is a new one."""
    member = multi.members[0]
    member.daemon.allow("ofconn.*WARN.*(given up|can't connect)")
    check_heals(multi, lambda member: member.node.restart_switch(hard), SOON)
