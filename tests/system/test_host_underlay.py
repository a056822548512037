# SPDX-License-Identifier: Apache-2.0
"""Routes by way of other nodes, against a real kernel."""
import os
import random
import re
import time

import pytest

from support.hostprobe import (BASIC, SOON, VIA, VIA6, WRAPPER, Monitor,
                               addresses, everything, ours, routes, sysctl,
                               wait_everything)
from support.wait import slowness, wait_for

PEERS = ["peer 10.10.2.0/24 192.0.2.9", "peer fd00:10:2::/64 2001:db8::9"]
ALL = BASIC + PEERS
THEIR_ROUTES = ["10.10.2.0/24 via 192.0.2.9 dev %s proto 201 metric 4096",
                "fd00:10:2::/64 via 2001:db8::9 dev %s proto 201 metric 4096 "
                "pref medium"]


def on_link(ns, link):
    """True if both routes are there and lie on the link."""
    return {r % link for r in THEIR_ROUTES} <= set(routes(ns))


def wait_on_link(ns, link, probe, timeout=SOON):
    """Waits for that; returns the seconds."""
    begin = time.monotonic()
    wait_for(lambda: on_link(ns, link), timeout, "the routes on " + link,
             lambda: "%s\n%s" % (routes(ns), probe.dump()))
    return time.monotonic() - begin


def add_link(ns, name):
    """Another link that is up."""
    ns.batch("link add %s type veth peer name %sp" % (name, name),
             "link set %sp up" % name, "link set %s up" % name)


@pytest.fixture
def steady(host):
    """The host; its IPv6 addresses outlast a link that goes down, as a
    network manager would have it."""
    host.sysctl(net__ipv6__conf__eth0__keep_addr_on_down=1)
    return host


# Making.

def test_the_kernel_finds_the_link_of_the_next_hop(steady, start):
    """With our protocol and metric; the peer's pods go there."""
    start(*ALL)
    assert on_link(steady, "eth0")
    assert "via 192.0.2.9 dev eth0" in steady.ip("route", "get", "10.10.2.7")
    assert "via 2001:db8::9 dev eth0" in steady.ip("route", "get",
                                                   "fd00:10:2::7")


def test_second_run_writes_nothing_for_the_underlay(steady, start, tmp_path):
    """It takes over what it finds."""
    start(*ALL).stop()
    before = everything(steady)
    monitor = Monitor(steady, tmp_path / "monitor", "route")
    start(*ALL).stop()
    assert monitor.lines() == []
    assert everything(steady) == before


def test_c14_left_overs_of_other_nodes_go_when_complete(steady, start):
    """Nodes that went while nobody looked."""
    start(*ALL, "peer 10.10.3.0/24 192.0.2.10").stop()
    probe = start("complete 0", *(c for c in BASIC if c != "complete 1"))
    assert {"10.10.2.0/24", "10.10.3.0/24"} < set(ours(steady))
    probe.set("complete 1", PEERS[0])
    assert "10.10.2.0/24" in ours(steady)
    assert {"10.10.3.0/24", "fd00:10:2::/64"}.isdisjoint(ours(steady))


def test_c19_route_of_a_node_that_is_gone_already_is_done(steady, start):
    """No retry and no complaint."""
    probe = start(*ALL)
    with probe.paused():
        steady.ip("route", "del", "10.10.2.0/24")
        steady.ip("-6", "route", "del", "fd00:10:2::/64")
        probe.send("clear", *BASIC[3:], "set")
    probe.set()
    assert ours(steady) == ["10.96.0.0/12", "203.0.113.10", "fd96::/108"]
    assert not probe.log_lines("WARN")


@pytest.mark.parametrize("route", [
    "10.10.2.0/24 via 192.0.2.77 dev eth0",
    "10.10.2.0/24 via 192.0.2.77 dev eth0 metric 4096",
    "fd00:10:2::/64 via 2001:db8::77 dev eth0",
    "fd00:10:2::/64 via 2001:db8::77 dev eth0 metric 4096"])
def test_c17_foreign_route_to_a_peer_is_left_and_named_once(steady, start,
                                                            route):
    """A routing daemon's, say; when it goes ours is used."""
    same_metric = "4096" in route
    steady.ip("route", "add", *route.split())
    theirs = [r for r in routes(steady) if "77" in r]
    probe = start(*ALL, sync=not same_metric)
    probe.wait_log("is not ours")
    probe.set("addr 10.10.9.1/24", sync=False)
    wait_for(lambda: len(ours(steady)) == 5 - same_metric, SOON, "ours",
             probe)
    assert set(theirs) < set(routes(steady))
    assert len(probe.log_lines("is not ours")) == 1
    steady.ip("route", "del", *route.split())
    wait_on_link(steady, "eth0", probe)


def test_i4_impossible_peers_stop_no_other(steady, start):
    """Each alone is left out, or fails and is tried again."""
    probe = start(*BASIC, "peer 10.20.0.0/24 fd00::9", "peer 10.21.0.0/24 ::",
                  "peer 10.22.0.0/24 127.0.0.1", "peer 0.0.0.0/0 192.0.2.9",
                  "peer 10.23.0.0/24 198.51.100.9",
                  "peer fd00:24::/64 fe80::9", "peer fd00:26::/64 fd00:9::9",
                  "peer 10.25.0.0/24 203.0.113.77", *PEERS, PEERS[0],
                  sync=False)
    wait_on_link(steady, "eth0", probe)
    for dst in ("10.20.0.0/24", "10.21.0.0/24", "10.22.0.0/24", "0.0.0.0/0"):
        probe.wait_log("route to %s is impossible" % dst)
    assert "can't be added: Invalid argument" in \
        probe.wait_log("fd00:24::/64 via fe80::9")
    probe.wait_log("can't be added, and perhaps others: ")
    assert "4 failed" in probe.state()
    # The network of one of them appears.
    steady.ip("addr", "add", "198.51.100.5/24", "dev", "eth0")
    wait_for(lambda: "10.23.0.0/24" in ours(steady), SOON, "the route", probe)
    assert "3 failed" in probe.state()
    assert len(probe.log_lines("and perhaps others")) == 1
    assert len(probe.log_lines("fd00:24::/64 via")) == 1


# Changes of links.

def test_routes_come_back_with_the_link(steady, start):
    """Within a second; that they can't be added is said once."""
    probe = start(*ALL, *("peer 10.11.%d.0/24 192.0.2.%d" % (i, i)
                          for i in range(100, 200)))
    want = everything(steady)
    for _ in range(3):
        steady.ip("link", "set", "eth0", "down")
        wait_for(lambda: "102 failed" in probe.state(), 5 * SOON, "the loss",
                 probe)
        assert len(ours(steady)) == 3
        steady.ip("link", "set", "eth0", "up")
        steady.run("ip", "route", "add", "default", "via", "192.0.2.1",
                   check=False)
        steady.run("ip", "route", "add", "default", "via", "2001:db8::1",
                   check=False)
        took = wait_everything(steady, want, probe)
        print("102 routes back %.0f ms after the link" % (took * 1000))
    assert len(probe.log_lines("can't be added")) == 3
    assert not probe.log_lines("impossible")


def test_routes_come_back_with_the_address(steady, start):
    """IPv6 ones are gone after a flap, usually, and take a while."""
    steady.sysctl(net__ipv6__conf__eth0__keep_addr_on_down=0)
    probe = start(*ALL)
    steady.batch("link set eth0 down", "link set eth0 up")
    wait_for(lambda: "10.10.2.0/24" in ours(steady), SOON, "IPv4", probe)
    assert "fd00:10:2::/64" not in ours(steady)
    steady.ip("addr", "add", "2001:db8::5/64", "dev", "eth0")
    wait_on_link(steady, "eth0", probe)


@pytest.mark.parametrize("command", [
    "route flush proto 201", "-6 route flush proto 201",
    "route del 10.10.2.0/24", "-6 route del fd00:10:2::/64",
    "addr flush dev gw0",
    "route replace 10.10.2.0/24 via 192.0.2.8 proto 201 metric 4096",
    "route replace 10.10.2.0/24 dev gw0 proto 201 metric 4096",
    "-6 route replace fd00:10:2::/64 via 2001:db8::8 proto 201 metric 4096",
    "route replace 10.10.2.0/24 via 192.0.2.9 dev gw0 onlink proto 201 metric "
    "4096",
    "route replace 10.10.2.0/24 via 192.0.2.9 dev eth0 onlink proto 201 "
    "metric 4096",
    "link set gw0 down"])
def test_c16_underlay_routes_that_are_flushed_come_back(steady, start,
                                                        command):
    """Like the others."""
    probe = start(*ALL)
    want = everything(steady)
    steady.ip(*command.split())
    took = wait_everything(steady, want, probe)
    print("%s: %.0f ms" % (command, took * 1000))


def test_c16_flush_of_the_uplink_costs_no_more_than_its_own_routes(steady,
                                                                   start):
    """It takes the uplink's network away too; ours come when that does."""
    probe = start(*ALL)
    want = everything(steady)
    steady.ip("route", "flush", "dev", "eth0")
    probe.wait_log("can't be added, and perhaps others")
    steady.ip("route", "add", "192.0.2.0/24", "dev", "eth0", "proto",
              "kernel", "scope", "link", "src", "192.0.2.5")
    steady.ip("route", "add", "default", "via", "192.0.2.1", "dev", "eth0")
    wait_everything(steady, want, probe)


@pytest.mark.parametrize("keeps", [False, True])
def test_routes_follow_addresses_to_another_link(steady, start, keeps):
    """As when the uplink becomes the port of a bridge.  The kernel leaves
    routes where they are if the old link has another address."""
    probe = start(*ALL)
    add_link(steady, "br0")
    if keeps:
        steady.batch("addr add 198.51.100.5/24 dev eth0",
                     "addr add 2001:db8:9::5/64 dev eth0 nodad")
    steady.batch("addr del 192.0.2.5/24 dev eth0",
                 "addr del 2001:db8::5/64 dev eth0",
                 "addr add 192.0.2.5/24 dev br0",
                 "addr add 2001:db8::5/64 dev br0 nodad")
    took = wait_on_link(steady, "br0", probe)
    print("on the other link after %.0f ms" % (took * 1000))
    probe.set()
    assert not [r for r in routes(steady) if "eth0 proto 201" in r]


def test_link_that_is_renamed_or_made_anew_keeps_its_routes(steady, start):
    """By its index; with another one they are made again."""
    probe = start(*ALL)
    steady.batch("link set eth0 down", "link set eth0 name en0",
                 "link set en0 up")
    wait_on_link(steady, "en0", probe)
    steady.ip("link", "del", "en0")
    add_link(steady, "eth0")
    steady.batch("addr add 192.0.2.5/24 dev eth0",
                 "addr add 2001:db8::5/64 dev eth0 nodad")
    wait_on_link(steady, "eth0", probe)


def test_two_links_in_one_network_cause_no_unrest(steady, start, tmp_path):
    """Either will do."""
    add_link(steady, "eth1")
    steady.batch("addr add 192.0.2.6/24 dev eth1",
                 "addr add 2001:db8::6/64 dev eth1 nodad")
    probe = start(*ALL)
    monitor = Monitor(steady, tmp_path / "monitor", "route")
    for n in range(5):
        steady.ip("link", "set", "eth1", "mtu", str(1400 + n))
        probe.set("addr 10.10.9.%d/24" % (n + 1))
    assert not [l for l in monitor.lines() if "proto 201" in l]


def test_links_that_carry_nothing_cost_nothing(steady, start):
    """Pods come and go."""
    probe = start(*ALL)
    for n in range(100):
        steady.batch("link add v%d type veth peer name v%dp" % (n, n),
                     "link set v%d up" % n, "link del v%d" % n)
    probe.stop()
    print("%.0f ms of CPU time" % probe.last("cpu"))
    assert WRAPPER or probe.last("cpu") < 300


# A change of the way.

def test_route_moves_between_gateway_and_underlay_in_place(steady, start,
                                                           tmp_path):
    """Hybrid mode, when an address changes: one replacement each."""
    tunnelled = ["route 10.10.2.0/24 %s ::" % VIA,
                 "route fd00:10:2::/64 %s ::" % VIA6]
    probe = start(*BASIC, *tunnelled)
    monitor = Monitor(steady, tmp_path / "monitor", "route")
    for _ in range(3):
        probe.set("clear", *BASIC[3:], *PEERS)
        assert on_link(steady, "eth0")
        probe.set("clear", *BASIC[3:], *tunnelled)
        assert not [r for r in routes(steady) if "192.0.2.9" in r]
        assert len(ours(steady)) == 5
    lines = monitor.lines()
    assert not [l for l in lines if "Deleted" in l]
    assert len([l for l in lines if l.startswith("10.10.2.0/24")]) == 6
    assert len([l for l in lines if l.startswith("fd00:10:2::/64")]) == 6


def test_next_hop_of_a_peer_changes_in_place(steady, start, tmp_path):
    """A node with a new address."""
    probe = start(*ALL)
    monitor = Monitor(steady, tmp_path / "monitor", "route")
    probe.set("clear", *BASIC[3:], "peer 10.10.2.0/24 192.0.2.10",
              "peer fd00:10:2::/64 2001:db8::10")
    lines = monitor.lines()
    assert not [l for l in lines if "Deleted" in l]
    assert len([l for l in lines if "proto 201" in l]) == 2


# Scale and chance.

def test_a_thousand_nodes(steady, start):
    """Both families; the figures are printed."""
    probe = start(*BASIC)
    steady.ip("addr", "add", "192.0.2.5/16", "dev", "eth0")
    steady.ip("addr", "add", "198.18.0.5/16", "dev", "eth0")
    times = {}
    for n in (100, 1000):
        peers = ["peers %d 10.128.0.0/24 198.18.1.0" % n]
        times["%d added" % n] = probe.set(*peers)
        assert len(ours(steady)) == 3 + n
        times["%d the same again" % n] = probe.set()
        times["one more than %d" % n] = probe.set(PEERS[0])
        probe.set("clear", *BASIC[3:], *peers)
        steady.ip("link", "set", "eth0", "down")
        wait_for(lambda n=n: "%d failed" % n in probe.state(), 5 * SOON,
                 "the loss", probe)
        begin = time.monotonic()
        steady.ip("link", "set", "eth0", "up")
        wait_for(lambda n=n: len(ours(steady)) == 3 + n, 5 * SOON,
                 "the routes", probe)
        times["%d after the link came up" % n] = \
            (time.monotonic() - begin) * 1000
        begin = time.monotonic()
        steady.ip("route", "flush", "proto", "201")
        wait_for(lambda n=n: len(ours(steady)) == 3 + n, 5 * SOON,
                 "the routes", probe)
        times["%d after a flush" % n] = (time.monotonic() - begin) * 1000
        times["%d removed" % n] = probe.set("clear", *BASIC[3:])
        assert len(ours(steady)) == 3
    probe.stop()
    for what, took in times.items():
        print("%s: %.1f ms" % (what, took))
    print("%.0f ms of CPU time" % probe.last("cpu"))
    assert WRAPPER or (times["1000 after the link came up"]
                       < 1000 * slowness())


def foreign_hand(rng, host):
    """One random thing that somebody else does to the uplink."""
    link = rng.choice(["eth0", "eth1"])
    commands = [
        "link set %s down" % link, "link set %s up" % link,
        "addr del 192.0.2.5/24 dev %s" % link,
        "addr add 192.0.2.5/24 dev %s" % link,
        "addr del 2001:db8::5/64 dev %s" % link,
        "addr add 2001:db8::5/64 dev %s nodad" % link,
        "route flush proto 201", "-6 route flush proto 201",
        "route flush dev %s" % link, "addr flush dev gw0",
        "route replace 10.10.2.0/24 dev gw0 proto 201 metric 4096",
        "route add 10.10.2.0/24 via 192.0.2.9 dev %s onlink proto 201 metric "
        "%d" % (link, rng.choice([1, 4096])),
        "route add 10.10.2.0/24 via 192.0.2.8 dev %s onlink" % link,
        "route del 10.10.2.0/24 via 192.0.2.8 dev %s" % link,
        "link set gw0 down"]
    host.run("ip", *rng.choice(commands).split(), check=False)


def settle(host):
    """Brings the uplink back to what it was."""
    for command in ("link set eth1 down", "addr flush dev eth1",
                    "route del 10.10.2.0/24 via 192.0.2.8",
                    "link set eth0 up", "addr flush dev eth0",
                    "addr add 192.0.2.5/24 dev eth0",
                    "addr add 2001:db8::5/64 dev eth0 nodad",
                    "route replace default via 192.0.2.1 dev eth0",
                    "-6 route replace default via 2001:db8::1 dev eth0"):
        host.run("ip", *command.split(), check=False)


def test_after_any_trouble_with_links_all_equals_a_cold_start(steady, start):
    """Links, addresses and routes at random."""
    seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
    print("SEED=%d" % seed)
    rng = random.Random(seed)
    add_link(steady, "eth1")
    settle(steady)
    probe = start(*ALL)
    want = everything(steady)
    for n in range(120):
        foreign_hand(rng, steady)
        if n % 20 == 19:
            settle(steady)
            probe.set("clear", *ALL[3:], sync=False)
            wait_everything(steady, want, probe, 5 * SOON + 5)


# Kernel settings.

def test_settings_of_the_uplink_are_named_and_stay(steady, start):
    """Once, and only what is in the way."""
    steady.sysctl(net__ipv4__conf__all__rp_filter=0,
                  net__ipv4__conf__eth0__rp_filter=1)
    probe = start(*ALL, "forwarding 1", "uplink eth0")
    assert "2 is safe" in probe.wait_log("net.ipv4.conf.eth0.rp_filter is 1")
    steady.sysctl(net__ipv4__conf__eth0__forwarding=0)
    probe.set("addr 10.10.9.1/24")
    probe.wait_log("net.ipv4.conf.eth0.forwarding is 0")
    probe.set("addr 10.10.9.2/24")
    assert sysctl(steady, "net.ipv4.conf.eth0.rp_filter") == "1"
    assert sysctl(steady, "net.ipv4.conf.eth0.forwarding") == "0"
    assert len(probe.log_lines("net.ipv4.conf.eth0")) == 2
    assert {"10.10.9.1/24", "10.10.9.2/24"} < set(addresses(steady))


def test_gateway_made_under_a_node_that_forwards_does_so(steady, start):
    """The default for new links may be otherwise."""
    steady.sysctl(net__ipv4__ip_forward=1)
    steady.sysctl(net__ipv4__conf__gw0__forwarding=0)
    start(*ALL, "forwarding 1", "uplink eth0")
    assert sysctl(steady, "net.ipv4.conf.gw0.forwarding") == "1"


@pytest.mark.parametrize("everywhere,link,loose", [
    (0, 0, True), (0, 2, True), (2, 1, True), (1, 2, True), (1, 0, False)])
def test_loose_reverse_path_check_is_no_news(steady, start, everywhere, link,
                                             loose):
    """The kernel takes the larger of two settings."""
    steady.sysctl(net__ipv4__conf__all__rp_filter=everywhere,
                  net__ipv4__conf__eth0__rp_filter=link)
    probe = start(*ALL, "forwarding 1", "uplink eth0")
    assert bool(probe.log_lines("eth0.rp_filter")) == (not loose)


# Cleaning up.

def clean(probe):
    """The lines that host_cleanup() prints."""
    return [l for l in probe.other("cleanup") if not re.match("uplink", l)]


def test_d34_cleanup_removes_ours_and_says_so(steady, start):
    """And nothing else; twice is fine."""
    steady.batch("route add 10.99.0.0/16 dev eth0 proto static",
                 "addr add 198.51.100.77/24 dev gw0",
                 "neigh add 192.0.2.77 lladdr 02:00:00:00:00:77 dev eth0")
    probe = start(*ALL)
    probe.stop()
    probe = start()
    probe.send("gateway gw0")
    lines = clean(probe)
    assert sorted(lines[:-1]) == sorted([
        "removed address 10.10.0.1/24 of link gw0",
        "left address 198.51.100.77/24 of link gw0: nothing tells whether "
        "it is ours",
        "removed address fd00:10::1/64 of link gw0",
        "removed neighbour 169.254.0.253 of link gw0",
        "removed neighbour fc01::aabb:ccdd:eeff of link gw0",
        "removed route to 10.10.2.0/24", "removed route to 10.96.0.0/12",
        "removed route to 203.0.113.10/32",
        "removed route to fd00:10:2::/64", "removed route to fd96::/108"])
    assert lines[-1] == "ok"
    assert ours(steady) == []
    assert addresses(steady) == ["198.51.100.77/24"]
    assert "10.99.0.0/16" in "\n".join(routes(steady))
    assert "192.0.2.77" in steady.ip("neigh", "show", "nud", "permanent")
    assert clean(probe)[1:] == ["ok"]


def test_cleanup_is_content_with_nothing(steady, start):
    """No link, no routes."""
    steady.ip("link", "del", "gw0")
    probe = start()
    probe.send("gateway gw0")
    assert clean(probe) == ["ok"]
    add_link(steady, "gw0")
    assert clean(probe) == ["ok"]


def test_cleanup_takes_any_route_of_ours(steady, start):
    """Whatever its kind and link."""
    steady.batch("route add blackhole 10.93.0.0/16 proto 201",
                 "route add 10.94.0.0/16 proto 201 nexthop via 192.0.2.7 dev "
                 "eth0 nexthop via 192.0.2.8 dev eth0",
                 "route add 10.97.0.0/16 dev eth0 proto 201 metric 9",
                 "route add 10.97.0.0/16 dev eth0 proto 201 tos 0x10",
                 "route add fd78::/64 dev eth0 proto 201")
    probe = start()
    probe.send("gateway gw0")
    assert len(clean(probe)) == 6
    assert ours(steady) == []
