# SPDX-License-Identifier: Apache-2.0
"""The link for traffic between nodes, found and followed in a namespace."""
import os
import random
import time

import pytest

from support.hostprobe import SOON, WRAPPER
from support.wait import wait_for

V4, V6 = "192.0.2.5/24", "2001:db8::5/64"
BY_IP = ["find ip 192.0.2.5", "find ip 2001:db8::5", "find not gw0"]


def states(probe):
    """All states that it has had: [name, MTU, IPv4, IPv6] each."""
    return [line.split()[1:5] for line in probe.lines
            if line.startswith("uplink ")]


def wait_state(probe, *want, timeout=SOON):
    """Waits for a state; returns the seconds."""
    begin = time.monotonic()
    wait_for(lambda: states(probe) and states(probe)[-1] == list(want),
             timeout, "uplink %s" % " ".join(want),
             lambda: "%s\n%s" % (states(probe), probe.log.read_text()))
    return time.monotonic() - begin


def settled(probe):
    """The states when all notifications up to now have been dealt with: it
    is asked twice whether there is anything new, 400 ms apart."""
    before = None
    while before != states(probe):
        before = states(probe)
        end = time.monotonic() + 0.4 * SOON
        wait_for(lambda end=end: time.monotonic() > end, 1 + SOON, "a pause")
        probe.other("state")
    return before


def add_link(ns, name, *addresses, up=True):
    """A link with addresses."""
    ns.batch("link add %s type veth peer name %sp" % (name, name),
             "link set %sp up" % name)
    ns.sysctl(**{"net__ipv6__conf__%s__accept_dad" % name: 0})
    if up:
        ns.ip("link", "set", name, "up")
    for address in addresses:
        add_address(ns, name, address)


def add_address(ns, link, address, *more):
    """An address that is usable at once."""
    ns.ip("addr", "add", address, "dev", link,
          *(["nodad"] if ":" in address else []), *more)


@pytest.fixture
def find(start):
    """Starts probes that look for a link."""

    def find_one(*lines):
        probe = start()
        probe.send(*lines, "find set")
        return probe

    return find_one


# Finding.

@pytest.mark.parametrize("lines", [
    ["find iface eth0"],
    ["find cidr 192.0.2.0/24", "find cidr 2001:db8::/64"],
    ["find cidr 198.51.100.0/24", "find cidr 2001:db8::/32"],
    ["find ip 192.0.2.5"], ["find ip 2001:db8::5"],
    ["find ip 198.51.100.1", "find ip 192.0.2.5"], BY_IP],
    ids=lambda l: "+".join(s.split(" ", 1)[1] for s in l))
def test_link_is_found_by_name_block_or_address(host, find, lines):
    """With its addresses of both families, MTU and prefixes; a family whose
    blocks are elsewhere has none."""
    probe = find(*lines)
    v4 = "::/0" if "find cidr 198.51.100.0/24" in lines else V4
    wait_state(probe, "eth0", "1500", v4, V6)
    assert not probe.log_lines("WARN")
    host.ip("link", "set", "eth0", "mtu", "9000")
    wait_state(probe, "eth0", "9000", v4, V6)


def test_name_goes_before_blocks_and_blocks_before_addresses(host, find):
    """And an earlier block before a later one."""
    add_link(host, "eth1", "198.51.100.5/24", "198.51.100.77/24")
    add_link(host, "eth2", "203.0.113.5/24", "192.0.2.6/24")
    probe = find("find iface eth2", "find cidr 198.51.100.0/24", *BY_IP)
    wait_state(probe, "eth2", "1500", "203.0.113.5/24", "::/0")
    probe.send("find clear", "find cidr 198.51.100.64/26",
               "find cidr 203.0.113.0/24", *BY_IP, "find set")
    wait_state(probe, "eth1", "1500", "198.51.100.77/24", "::/0")
    probe.send("find clear", "find cidr 203.0.113.0/24",
               "find cidr 198.51.100.0/24", *BY_IP, "find set")
    wait_state(probe, "eth2", "1500", "203.0.113.5/24", "::/0")
    probe.send("find clear", *BY_IP, "find set")
    wait_state(probe, "eth0", "1500", V4, V6)


def test_gateway_is_never_the_uplink(host, find, start):
    """Not even with the right address; nor is what we have put there."""
    host.batch("link set gw0 up", "addr del 192.0.2.5/24 dev eth0",
               "addr add 192.0.2.5/24 dev gw0",
               "addr add 192.0.2.6/24 dev eth0")
    probe = find("find ip 192.0.2.5", "find not gw0")
    probe.wait_log("no link for traffic between nodes")
    assert states(probe) == []
    host.ip("addr", "del", "192.0.2.5/24", "dev", "gw0")
    start("gateway gw0", "ready 1", "complete 1", "addr 192.0.2.5/24")
    probe.send("find clear", "find ip 192.0.2.5", "find set")
    assert settled(probe) == []
    host.ip("addr", "add", "192.0.2.5/24", "dev", "eth0")
    wait_state(probe, "eth0", "1500", V4, V6)


def test_what_is_not_there_is_named_once_and_waited_for(host, find):
    """A link that comes later, by its name."""
    probe = find("find iface eth7")
    probe.wait_log("no link for traffic between nodes: eth7 does not exist")
    host.ip("link", "set", "eth0", "mtu", "1400")
    add_link(host, "eth8")
    assert settled(probe) == []
    add_link(host, "eth7", "198.51.100.5/24")
    wait_state(probe, "eth7", "1500", "198.51.100.5/24", "::/0")
    assert len(probe.log_lines("WARN")) == 1


@pytest.mark.parametrize("lines,text", [
    (["find cidr 198.51.100.0/24"], "transportInterfaceCIDRs"),
    (["find ip 198.51.100.1"], "one of the node's addresses")])
def test_address_that_is_not_there_is_waited_for(host, find, lines, text):
    """On a link that has no other yet."""
    probe = find(*lines)
    assert text in probe.wait_log("no link for traffic")
    add_link(host, "eth1", "198.51.100.1/30")
    wait_state(probe, "eth1", "1500", "198.51.100.1/30", "::/0")
    assert len(probe.log_lines("WARN")) == 1


def test_of_several_links_with_the_address_one_that_is_up_is_taken(host,
                                                                   find):
    """Then none of loopback, then the oldest."""
    host.ip("addr", "add", "192.0.2.5/32", "dev", "lo")
    add_link(host, "eth1", V4)
    probe = find("find ip 192.0.2.5")
    wait_state(probe, "eth0", "1500", V4, V6)
    host.ip("link", "set", "eth0", "down")
    wait_state(probe, "eth1", "1500", V4, "::/0")
    host.ip("link", "set", "eth1", "down")
    wait_state(probe, "lo", "65536", "192.0.2.5/32", "::/0")
    host.ip("addr", "del", "192.0.2.5/32", "dev", "lo")
    wait_for(lambda: states(probe)[-1][0] == "eth0", SOON, "eth0", probe)
    host.ip("link", "set", "eth1", "up")
    wait_state(probe, "eth1", "1500", V4, "::/0")


def test_k1_loopback_with_the_nodes_address_is_an_uplink(host, find):
    """As nodes have it whose routing daemon announces the address."""
    host.batch("addr flush dev eth0", "addr add 192.0.2.5/32 dev lo")
    probe = find(*BY_IP)
    wait_state(probe, "lo", "65536", "192.0.2.5/32", "::/0")


def test_more_links_than_looked_at_are_named(host, find):
    """Input from outside is bounded."""
    host.batch(*(line for n in range(70) for line in (
        "link add d%d type veth peer name d%dp" % (n, n),
        "addr add 198.51.100.%d/32 dev d%d" % (n, n))))
    probe = find("find cidr 198.51.100.0/24")
    probe.wait_log("more than 64 links")
    wait_for(lambda: states(probe), SOON, "a link", probe)
    assert states(probe)[-1][0].startswith("d")
    assert len(probe.log_lines("WARN")) == 1


# Which address.

def test_secondary_addresses_do_not_count(host, find):
    """The node's address does, wherever it stands, else the first one."""
    add_link(host, "eth1", "198.51.100.1/24", "198.51.100.2/24",
             "203.0.113.1/24", "2001:db8:1::1/64", "2001:db8:1::2/64")
    probe = find("find iface eth1")
    wait_state(probe, "eth1", "1500", "198.51.100.1/24", "2001:db8:1::1/64")
    add_address(host, "eth1", "203.0.113.9/24")
    add_address(host, "eth1", "2001:db8:1::9/64")
    assert len(settled(probe)) == 1
    probe.send("find ip 203.0.113.9", "find ip 2001:db8:1::2", "find set")
    wait_state(probe, "eth1", "1500", "203.0.113.9/24", "2001:db8:1::2/64")
    # The first of a network goes, and the second becomes the first.
    host.sysctl(net__ipv4__conf__eth1__promote_secondaries=1)
    probe.send("find clear", "find iface eth1", "find set")
    host.ip("addr", "del", "198.51.100.1/24", "dev", "eth1")
    wait_for(lambda: states(probe)[-1][2] in ("198.51.100.2/24",
                                              "203.0.113.1/24"), SOON,
             "another", probe)


def test_ipv6_addresses_that_cannot_be_used_do_not_count(host, find):
    """Link-local, tentative, duplicate; deprecated ones only for want of
    another."""
    add_link(host, "eth1", "198.51.100.1/24")
    host.batch("addr add 2001:db8:1::1/64 dev eth1 nodad preferred_lft 0",
               "addr add fe80::77/64 dev eth1 nodad")
    probe = find("find iface eth1")
    wait_state(probe, "eth1", "1500", "198.51.100.1/24", "2001:db8:1::1/64")
    host.sysctl(net__ipv6__conf__eth1__accept_dad=1,
                net__ipv6__conf__eth1__dad_transmits=3)
    host.ip("addr", "add", "2001:db8:1::2/64", "dev", "eth1")
    assert "tentative" in host.ip("addr", "show", "dev", "eth1")
    assert states(probe)[-1][3] == "2001:db8:1::1/64"
    wait_state(probe, "eth1", "1500", "198.51.100.1/24", "2001:db8:1::2/64",
               timeout=10 + SOON)
    assert "tentative" not in host.ip("addr", "show", "dev", "eth1")
    host.ip("addr", "add", "2001:db8:1::3/64", "dev", "eth1p", "nodad")
    host.ip("addr", "add", "2001:db8:1::3/64", "dev", "eth1")
    wait_for(lambda: "dadfailed" in host.ip("addr", "show", "dev", "eth1"),
             10, "the check for duplicates")
    probe.send("find ip 2001:db8:1::3", "find set")
    assert settled(probe)[-1][3] == "2001:db8:1::2/64"


# Following.

def test_link_that_flaps_is_no_change(host, find):
    """Nor is what IPv6 loses meanwhile; it is said once a flap."""
    probe = find(*BY_IP)
    wait_state(probe, "eth0", "1500", V4, V6)
    host.ip("link", "set", "eth0", "down")
    assert "has lost 2001:db8::5/64" in probe.wait_log("WARN")
    host.ip("link", "set", "eth0", "up")
    add_address(host, "eth0", V6)
    host.ip("link", "set", "eth0", "mtu", "1400")
    wait_state(probe, "eth0", "1400", V4, V6)
    assert len(settled(probe)) == 2
    assert len(probe.log_lines("WARN")) == 1


def test_link_that_is_gone_counts_until_there_is_another(host, find):
    """Its name, MTU and addresses stay."""
    probe = find(*BY_IP)
    wait_state(probe, "eth0", "1500", V4, V6)
    host.ip("link", "del", "eth0")
    probe.wait_log('link "eth0" for traffic between nodes is gone')
    assert len(settled(probe)) == 1
    add_link(host, "eth1", V4, V6)
    took = wait_state(probe, "eth1", "1500", V4, V6)
    print("found after %.0f ms" % (took * 1000))
    assert len(probe.log_lines("is gone")) == 1


def test_link_by_name_that_is_made_anew_is_found(host, find):
    """With another index."""
    probe = find("find iface eth0")
    wait_state(probe, "eth0", "1500", V4, V6)
    host.ip("link", "del", "eth0")
    probe.wait_log("is gone")
    add_link(host, "eth0", "192.0.2.66/24")
    wait_state(probe, "eth0", "1500", "192.0.2.66/24", V6)


def test_link_that_is_renamed_is_followed(host, find):
    """By address; one that was configured by name is gone then."""
    probe, named = find(*BY_IP), find("find iface eth0")
    for one in (probe, named):
        wait_state(one, "eth0", "1500", V4, V6)
    host.sysctl(net__ipv6__conf__eth0__keep_addr_on_down=1)
    host.batch("link set eth0 down", "link set eth0 name en0",
               "link set en0 up")
    wait_state(probe, "en0", "1500", V4, V6)
    assert states(named)[-1][0] == "eth0"
    host.batch("link set en0 down", "link set en0 name eth0",
               "link set eth0 up")
    wait_state(probe, "eth0", "1500", V4, V6)
    assert len(settled(named)) == 1


def test_addresses_that_move_to_a_bridge_are_followed(host, find):
    """As when the uplink is put into a bridge at run time."""
    probe = find(*BY_IP)
    wait_state(probe, "eth0", "1500", V4, V6)
    add_link(host, "br0")
    host.ip("link", "set", "br0", "mtu", "1400")
    host.batch("addr del %s dev eth0" % V4, "addr add %s dev br0" % V4,
               "addr del %s dev eth0" % V6, "addr add %s dev br0 nodad" % V6)
    wait_state(probe, "br0", "1400", V4, V6)


def test_node_with_another_address_is_followed(host, find):
    """The Node object and the link change, in either order."""
    probe = find(*BY_IP)
    wait_state(probe, "eth0", "1500", V4, V6)
    host.batch("addr add 198.51.100.5/24 dev eth0",
               "addr del 192.0.2.5/24 dev eth0")
    wait_state(probe, "eth0", "1500", "198.51.100.5/24", V6)
    probe.send("find clear", "find ip 203.0.113.5", "find ip 2001:db8::5",
               "find set")
    add_link(host, "eth1", "203.0.113.5/24")
    wait_state(probe, "eth1", "1500", "203.0.113.5/24", "::/0")


def test_prefix_that_changes_is_followed(host, find):
    """It decides which nodes are neighbours."""
    probe = find(*BY_IP)
    wait_state(probe, "eth0", "1500", V4, V6)
    host.batch("addr add 192.0.2.5/26 dev eth0",
               "addr del 192.0.2.5/24 dev eth0")
    wait_state(probe, "eth0", "1500", "192.0.2.5/26", V6)


def test_other_links_cost_nothing(host, find):
    """Pods come and go."""
    probe = find(*BY_IP)
    wait_state(probe, "eth0", "1500", V4, V6)
    for n in range(100):
        host.batch("link add v%d type veth peer name v%dp" % (n, n),
                   "link set v%d up" % n,
                   "addr add 198.51.100.%d/32 dev v%d" % (n, n),
                   "link del v%d" % n)
    host.ip("link", "set", "eth0", "mtu", "1400")
    wait_state(probe, "eth0", "1400", V4, V6)
    probe.stop()
    print("%.0f ms of CPU time" % probe.last("cpu"))
    assert WRAPPER or probe.last("cpu") < 200
    assert len(states(probe)) == 2


def test_lost_notifications_cost_only_a_look(host, find):
    """More of them than the socket holds, while nobody reads."""
    probe = find(*BY_IP)
    wait_state(probe, "eth0", "1500", V4, V6)
    add_link(host, "eth1")
    with probe.paused():
        host.batch(*("link set eth1 mtu %d" % (1300 + n % 100)
                     for n in range(6000)), "link set eth0 mtu 1400")
    wait_state(probe, "eth0", "1400", V4, V6)


def test_after_any_sequence_the_state_is_right(host, find):
    """Random trouble; at the end what a fresh one finds."""
    seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
    print("SEED=%d" % seed)
    rng = random.Random(seed)
    add_link(host, "eth1")
    probe = find(*BY_IP)
    for _ in range(6):
        for _ in range(15):
            link = rng.choice(["eth0", "eth1"])
            host.run("ip", *rng.choice([
                "link set %s down" % link, "link set %s up" % link,
                "link set %s mtu %d" % (link, rng.randrange(1300, 1500)),
                "addr del %s dev %s" % (V4, link),
                "addr add %s dev %s" % (V4, link),
                "addr add 192.0.2.5/%d dev %s" % (rng.randrange(20, 28),
                                                  link),
                "addr del %s dev %s" % (V6, link),
                "addr add %s dev %s nodad" % (V6, link),
                "addr flush dev %s" % link]).split(), check=False)
        for link in ("eth0", "eth1"):
            host.ip("addr", "flush", "dev", link)
            host.ip("link", "set", link, "up")
        link = rng.choice(["eth0", "eth1"])
        host.batch("addr add %s dev %s nodad" % (V6, link),
                   "addr add %s dev %s" % (V4, link))
        fresh = find(*BY_IP)
        wait_for(lambda fresh=fresh: states(fresh), SOON, "a link", fresh)
        wait_state(probe, *states(fresh)[-1])
        fresh.stop()
