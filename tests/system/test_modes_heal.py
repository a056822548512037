# SPDX-License-Identifier: Apache-2.0
"""What a foreign hand takes from a node comes back, and with it the traffic
between nodes.  The times are printed (pytest -rP)."""
import time

import pytest

from support import packets
from support.cluster import at
from support.multinode import GATEWAY, state
from support.wait import wait_for

MULTI = {"encap": {"tunnel": "geneve"},
         "noEncap": {"mode": "noEncap"},
         "hybrid": {"mode": "hybrid", "subnets": "aab"}}
SOON = 2.0                      # Seconds.
DAMAGE = {
    "routes": "ip route flush proto 201",
    "routes-of-the-gateway": "ip route flush dev " + GATEWAY,
    "routes-6-of-the-gateway": "ip -6 route flush dev " + GATEWAY,
    "rules": "nft flush ruleset",
    "addresses": "ip addr flush dev " + GATEWAY,
    "neighbours": "ip neigh flush nud permanent dev " + GATEWAY,
    "gateway-down": "ip link set %s down" % GATEWAY}


def is_whole(multi, service):
    """Whether all ways over the nodes work."""
    first, last = multi.nodes[0], multi.nodes[-1]
    return all(
        packets.ping(*way, 0.3) for f in (4, 6) for way in (
            (first.pods[0], f, last.pods[0].of(f)),
            (last.pods[0], f, first.pods[0].of(f)),
            (first, f, last.pods[0].of(f)),
            (first.pods[0], f, multi.outside_address(f)))
    ) and all(not service.ask(client, f, 1, timeout=0.3)["n_failures"]
              for f in (4, 6) for client in (first, first.pods[0]))


def check_heals(multi, damage, limit):
    """The state is the one from before within 'limit' seconds after
    damage(), and the traffic flows."""
    member = multi.members[0]
    service = multi.service([at(multi.nodes[-1].pods[0])])
    before = state(member)
    assert is_whole(multi, service)
    damage(member)
    began = time.monotonic()
    wait_for(lambda: state(member) == before, limit + 8,
             "the state from before", member.daemon)
    seconds = time.monotonic() - began
    wait_for(lambda: is_whole(multi, service), 5, "traffic", member.daemon)
    print("healed after %.2f s, traffic after %.2f s"
          % (seconds, time.monotonic() - began))
    assert seconds < limit
    service.delete()


@pytest.mark.parametrize("what", DAMAGE)
def test_what_the_host_loses_comes_back(multi, what):
    """Routes, rules, addresses, the link itself (C16, C20)."""
    check_heals(multi, lambda member: member.node.run(
        *DAMAGE[what].split()), SOON)


@pytest.mark.parametrize("hard", [True, False], ids=["kill", "exit"])
def test_a_switch_that_restarts_is_filled_again(multi, hard):
    """With all ports, flows and groups; the gateway's link is a new one."""
    member = multi.members[0]
    member.daemon.allow("ofconn.*WARN.*(given up|can't connect)")
    check_heals(multi, lambda member: member.node.restart_switch(hard), SOON)
