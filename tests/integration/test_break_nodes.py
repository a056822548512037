# SPDX-License-Identifier: Apache-2.0
"""The network between nodes, when its sources fail or lie."""
import os
import random
import re

import pytest

from support import objects
from support.rig import NODE_IP, Rig, own_node
from support.wait import wait_for

PEER_CIDRS = ["10.10.2.0/24", "2001:db8:10:2::/64"]
PEER_IP = "192.0.2.12"


def peer(cidrs=PEER_CIDRS, name="n2", address=PEER_IP):
    """Another Node."""
    return objects.node(name, cidrs, [address])


def host_of(rig):
    """The host's routes, and the members of sets."""
    routes = "".join(rig.ns.ip(f, "route", "show", "proto", "201")
                     for f in ("-4", "-6"))
    rules = rig.ns.run("nft", "-s", "list", "table", "inet",
                       "ofproxyd").stdout
    return (sorted(line.strip() for line in routes.splitlines()),
            sorted(re.findall(r"[0-9a-f.:]+/\d+", rules)))


def has_peer(rig):
    """Whether all has been done for the peer."""
    routes, members = host_of(rig)
    return (PEER_CIDRS[0] in members
            and any(PEER_CIDRS[0] in r for r in routes)
            and any("nw_dst=" + PEER_CIDRS[0] in flow
                    for flow in rig.switch.dump_flows()))


def start_with_peer(rig):
    """The daemon, and a peer that is in use; flows, routes and members."""
    rig.api.apply_all([own_node(), peer()])
    rig.start_daemon()
    wait_for(lambda: has_peer(rig), 10, "the peer", rig)
    return rig.switch.state(), host_of(rig)


def has_done_all(rig):
    """Whether a daemon that started a second time waits for nothing but what
    is missing."""
    text = rig.daemon.appctl("sync")
    pictures = [line for line in rig.daemon.log_lines()
                if "first complete picture" in line]
    return (len(pictures) == 2 and "host: in sync" in text
            and "pending 0, in flight 0, set aside 0" in text)


def hide_node(rig):
    """The own Node object is gone: its kubelet will make it again."""
    rig.api.delete("nodes", "", "n1")


def bare_node(rig):
    """A kubelet has just made it, and no controller has seen it."""
    rig.api.apply(own_node([], addresses=[]))


def no_addresses(rig):
    """No kubelet has reported yet."""
    rig.api.apply(own_node(addresses=[]))


def no_link(rig):
    """The transport link has yet to come."""
    rig.ns.ip("link", "set", "eth0", "down", "name", "other0")
    rig.ns.ip("addr", "flush", "dev", "other0")


def bare_link(rig):
    """It is there, and has no address yet."""
    rig.ns.ip("addr", "flush", "dev", "eth0")


def mend(rig):
    """All is there again."""
    if "other0" in rig.ns.ip("-o", "link"):
        rig.ns.ip("link", "set", "other0", "name", "eth0", "up")
    if NODE_IP not in rig.ns.ip("addr", "show", "eth0"):
        rig.ns.ip("addr", "add", NODE_IP + "/24", "dev", "eth0")
    rig.api.apply(own_node())


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("what", [hide_node, bare_node, no_addresses, no_link,
                                  bare_link], ids=lambda f: f.__name__)
def test_a_restart_removes_nothing_while_a_source_is_missing(
        tmp_path, what, by_name):
    """Nobody can tell then what is wanted; and when it has come, what is
    unwanted goes."""
    config = {"transportInterface": "eth0"} if by_name else {}
    with Rig(tmp_path, **config) as rig:
        switch, (routes, members) = start_with_peer(rig)
        rig.daemon.allow(r"\|uplink\|WARN\|", r"\|agent\|WARN\|there is no Node",
                         r"\|net\|WARN\|Node ")
        what(rig)
        rig.daemon.restart(hard=True)
        wait_for(lambda: has_done_all(rig), 10, "all that is known to be done",
                 rig)
        assert set(switch[0]) <= set(rig.switch.dump_flows())
        now = host_of(rig)
        assert set(routes) <= set(now[0])
        assert set(members) <= set(now[1])

        rig.api.delete("nodes", "", "n2")
        mend(rig)
        rig.daemon.check_running()
        wait_for(lambda: not any(PEER_CIDRS[0] in text for part in host_of(rig)
                                 for text in part), 15, "no peer",
                 lambda: "%s\n%s" % (host_of(rig), rig.dump()))
        rig.check_cold_start()
        rig.check_quiet()


MODES = ("encap", "noEncap", "hybrid", "networkPolicyOnly")


@pytest.mark.parametrize("old", MODES)
def test_another_mode_leaves_nothing_of_the_one_before(tmp_path, old):
    """Nor another type of tunnels: what is there is what a cold start
    makes."""
    others = [peer(), peer(["10.10.3.0/24"], "n3", "198.51.100.13"),
              peer(["10.10.4.0/24", "2001:db8:10:4::/64"], "n4",
                   "2001:db8:2::14")]
    for number, new in enumerate(MODES):
        with Rig(tmp_path / str(number), trafficEncapMode=old,
                 antreaProxy={"proxyAll": True}) as rig:
            rig.ns.ip("addr", "add", "2001:db8:2::11/64", "dev", "eth0",
                      "nodad")
            rig.api.apply_all([own_node(), *others])
            rig.api.apply(objects.service("ns1", "s", [80], ["10.96.0.9"]))
            rig.start_daemon()
            rig.daemon.allow(r"\|net\|WARN\|Node ")
            rig.config.update(trafficEncapMode=new, tunnelType="vxlan")
            rig.daemon.write_config(**rig.config)
            rig.restart_daemon()
            # The port goes when the flows that need none are there.
            wait_for(lambda: ("antrea-tun0" in rig.switch.vsctl(
                "list-ports", rig.switch.bridge)) == (
                    new in ("encap", "hybrid")), 5, "the ports", rig)
            rig.check_cold_host()
            rig.check_cold_start()
            rig.check_quiet()


def test_a_restart_does_not_change_the_mtu_for_a_moment(tmp_path):
    """By the link's name alone, before the Nodes are listed."""
    with Rig(tmp_path, transportInterface="eth0") as rig:
        rig.ns.ip("addr", "add", "2001:db8:2::11/64", "dev", "eth0", "nodad")
        rig.api.apply(own_node())
        rig.start_daemon()
        rig.daemon.wait_log("set the MTU of port antrea-gw0 to 1430")
        rig.daemon.restart(hard=True)
        rig.daemon.wait_log("traffic between nodes goes by")
        rig.wait_settled()
        assert len([line for line in rig.daemon.log_lines()
                    if "the MTU of port" in line]) == 1


@pytest.mark.parametrize("cidr", [
    "192.0.2.0/24", "192.0.0.0/16", "192.0.2.8/29", "128.0.0.0/1",
    "198.51.100.0/24", "169.254.0.0/16", "fe80::/64", "127.0.0.0/8"])
def test_no_network_of_pods_cuts_the_node_off(rig, cidr):
    """Of this node, or of another one: not the one that its own address is
    in (198.51.100.9 is another one of its addresses)."""
    addresses = [NODE_IP, "198.51.100.9"]
    rig.api.apply_all([own_node(addresses=addresses), peer()])
    rig.start_daemon()
    wait_for(lambda: has_peer(rig), 10, "the peer", rig)
    rig.daemon.allow(r"\|(local|net)\|WARN\|Node ")
    before = rig.switch.state(), host_of(rig), rig.ns.ip("route"), rig.ns.ip(
        "addr", "show", "scope", "global")
    rig.api.apply(own_node([cidr], addresses=addresses))
    rig.daemon.wait_log("podCIDR %s can't be" % cidr)
    if not cidr.startswith("198"):
        rig.api.apply(peer([cidr], "n3", "192.0.2.13"))
        rig.daemon.wait_log("pod network %s is left out" % cidr)
    rig.wait_settled()
    assert before == (
        rig.switch.state(), host_of(rig), rig.ns.ip("route"),
        rig.ns.ip("addr", "show", "scope", "global"))
    rig.daemon.restart(hard=True)
    wait_for(lambda: has_done_all(rig), 10, "all that is known to be done",
             rig)
    assert before[2:] == (
        rig.ns.ip("route"), rig.ns.ip("addr", "show", "scope", "global"))
    rig.check_quiet()


N_NODES = 1000


def nth_peer(number, moved=False):
    """One of many Nodes; or the same with another address."""
    high, low = divmod(number, 250)
    return peer(["10.%d.%d.0/24" % (128 + high, low),
                 "2001:db8:%x::/64" % (0x8000 + number)], "p%d" % number,
                "192.0.%d.%d" % (100 + high + 20 * moved, low + 1))


@pytest.mark.parametrize("mode", ["encap", "noEncap"])
def test_a_thousand_nodes_in_any_order_end_like_a_cold_start(tmp_path, mode):
    """Flows, routes, neighbours, addresses and sets (B10, D34)."""
    seed = int(os.environ.get("SEED", "1"))
    print("seed", seed)
    rng = random.Random(seed)
    numbers = list(range(N_NODES))
    rng.shuffle(numbers)
    left = set()

    with Rig(tmp_path / "rig", trafficEncapMode=mode) as rig:
        rig.ns.ip("addr", "add", "192.0.99.1/16", "dev", "eth0")
        rig.api.apply(own_node(addresses=["192.0.99.1"]))
        rig.start_daemon()
        # The underlay is of IPv4, and routes are of the pods' own family.
        rig.daemon.allow("no transport address of that family")
        for i, number in enumerate(numbers):
            rig.api.apply(nth_peer(number))
            left.add(number)
            other = rng.choice(numbers[:i + 1])
            if rng.random() < .3:
                rig.api.apply(nth_peer(other, moved=True))
                left.add(other)
            elif other in left and rng.random() < .7:
                rig.api.delete("nodes", "", "p%d" % other)
                left.remove(other)
        assert N_NODES / 3 < len(left) < N_NODES
        names = {"p%d" % number for number in left}
        wait_for(lambda: {line.split()[0] for line in rig.daemon.appctl(
            "nodes").splitlines()[1:]} == names, 30, "the Nodes", rig)
        rig.check_cold_start()
        rig.check_cold_host()
        rig.check_quiet()
