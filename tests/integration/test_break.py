# SPDX-License-Identifier: Apache-2.0
"""What attackers and unlucky operators do, and what once broke by it."""
import os
import socket
import subprocess
import time

from support import objects
from support.daemon import Ofproxyd
from support.rig import Rig, own_node
from support.wait import wait_for

BAD_OUT_GROUP = 2, 9            # OpenFlow's error type and code.


def fill(rig, n):
    """Services s0, s1 and so on, each with two endpoints."""
    rig.api.apply_all(
        [objects.service("ns1", "s%d" % i, [80], ["10.96.0.%d" % (i + 1)])
         for i in range(n)]
        + [objects.slice_("ns1", "s%d" % i, ["10.10.1.5", "10.10.1.6"])
           for i in range(n)])


def gateway_flows(rig):
    """The flows that lead to the gateway port."""
    mac = rig.gateway_mac().strip('"')
    return [flow for flow in rig.switch.dump_flows()
            if "L2ForwardingCalc" in flow and "dl_dst=" + mac in flow]


# The API server.

def test_an_object_over_the_limit_blocks_no_other(rig):
    """Promise 12: neither in a list nor in a watch; it keeps its place."""
    fill(rig, 3)
    rig.start_daemon()
    before = rig.switch.state()
    rig.daemon.allow(r"\|kube\|WARN\|")
    fat = rig.api.get("services", "ns1", "s1").obj
    fat["metadata"]["annotations"] = {"a": "x" * (9 << 20)}
    rig.api.apply(fat)
    rig.daemon.wait_log("services: watch: broken watch event: more than")

    # Meanwhile another one changes, which only the list can tell.
    rig.api.apply(objects.service("ns1", "late", [80], ["10.96.0.99"]))
    rig.daemon.wait_flow("nw_dst=10.96.0.99", timeout=40)
    rig.daemon.wait_log("Service ns1/s1: has more than 8388608 bytes")
    assert set(before[0]) < set(rig.switch.dump_flows())

    rig.daemon.restart(hard=True)
    rig.daemon.wait_synced()
    rig.daemon.wait_flow("nw_dst=10.96.0.99")
    rig.daemon.wait_flow("nw_dst=10.96.0.2,", present=False)


def test_what_can_be_no_network_of_pods_is_not_used(rig):
    """Least of all 0.0.0.0/0, whose route would be the node's default."""
    rig.start_daemon()
    before, routes = rig.switch.state(), rig.ns.ip("route")
    rig.daemon.allow(r"podCIDR .* can't be a network of pods")
    for cidr in "0.0.0.0/0", "::/0", "224.0.0.0/24", "10.10.1.8/32":
        rig.api.apply(own_node([cidr]))
        rig.daemon.wait_log("podCIDR %s can't be" % cidr)
        rig.daemon.wait_synced()
        assert rig.switch.state() == before, cidr
        assert rig.ns.ip("route") == routes, cidr
    rig.api.apply(own_node(["10.10.1.8/32", "10.10.2.0/24"]))
    rig.daemon.wait_flow("nw_dst=10.10.2.1 ")
    wait_for(lambda: "10.10.2.0/24" in rig.ns.ip("route"), 5, "the route")


def test_a_restart_while_the_node_object_is_missing_keeps_the_gateway(
        tmp_path):
    """Promises 2 and 3: as it does while running."""
    with Rig(tmp_path / "rig", antreaProxy={"proxyAll": True}) as rig:
        rig.api.apply(own_node())
        fill(rig, 1)
        rig.start_daemon()
        wait_for(lambda: "10.96.0.1 " in rig.ns.ip("route"), 5, "the route")
        before, routes = rig.switch.state(), rig.ns.ip("route")
        rig.daemon.allow('there is no Node "n1"')
        for change in (lambda: rig.api.delete("nodes", "", "n1"),
                       lambda: rig.api.apply(own_node(()))):
            change()
            rig.restart_daemon()
            rig.api.apply(objects.service("ns1", "s9", [80], ["10.96.0.9"]))
            rig.daemon.wait_flow("nw_dst=10.96.0.9,")
            rig.api.delete("services", "ns1", "s9")
            rig.daemon.wait_flow("nw_dst=10.96.0.9,", present=False)
            wait_for(lambda: (rig.switch.state(), rig.ns.ip("route")) == (
                before, routes), 5, "the rest", rig)

        # Once there is a Node, it alone says what is wanted.
        rig.api.apply(own_node(["10.10.2.0/24"]))
        rig.daemon.wait_flow("10.10.1.1", present=False)
        rig.daemon.wait_flow("nw_dst=10.10.2.1 ")
        rig.check_cold_start()
        rig.check_quiet()


# The switch.

def test_a_bridge_that_is_flushed_without_a_word_is_filled_again(rig):
    """Open vSwitch drops flows, groups and meters when a bridge gets its
    first controller or loses its last, and tells of the flows only."""
    fill(rig, 20)
    rig.start_daemon()
    before = rig.switch.state()
    rig.daemon.allow("the switch has lost groups")
    rig.switch.allow(r"\|(in_band|rconn|stream_tcp)\|WARN\|")

    def repaired():
        return (rig.switch.state() == before and rig.daemon.in_sync()
                and "rate=313 " in rig.switch.ofctl("dump-meters"))

    for command in (("set-controller", "tcp:127.0.0.1:1"),
                    ("del-controller",), ("set-fail-mode", "standalone")):
        rig.switch.vsctl(command[0], rig.switch.bridge, *command[1:])
        wait_for(repaired, 5, command[0], rig)
    for i in range(20):         # Without groups there is no such sign.
        rig.api.delete("services", "ns1", "s%d" % i)
    rig.wait_settled()
    rig.switch.vsctl("set-controller", rig.switch.bridge, "tcp:127.0.0.1:1")
    wait_for(lambda: "rate=313 " in rig.switch.ofctl("dump-meters"), 5,
             "the meter", rig)


def test_a_switch_that_waits_for_its_flows_is_told_when_they_are_there(rig):
    """Antrea's start script makes it wait."""
    fill(rig, 3)
    rig.start_daemon()
    before = rig.switch.state()
    rig.daemon.allow(r"services: list: ")

    def waits():
        return "flow-restore-wait" in rig.switch.vsctl(
            "get", "Open_vSwitch", ".", "other_config")

    rig.daemon.kill()
    rig.switch.kill_vswitchd()
    rig.switch.vsctl("--no-wait", "set", "Open_vSwitch", ".",
                     "other_config:flow-restore-wait=true")
    rig.switch.start_vswitchd()
    fault = rig.api.fault(resource="services", verb="list", stall=True)
    rig.daemon.start()
    wait_for(lambda: fault.hits, 10, "the list", rig)
    rig.daemon.wait_flow("table=L3Forwarding")
    assert waits()
    rig.api.clear_faults()
    wait_for(lambda: not waits(), 20, "the end of the wait", rig)
    assert rig.switch.state() == before


def test_a_port_with_the_gateways_addresses_does_not_get_its_packets(rig):
    """Whatever external_ids say."""
    fill(rig, 1)
    rig.start_daemon()
    before = gateway_flows(rig)
    assert len(before) == 1
    rig.switch.add_dummy_pod("evil", ["10.10.1.1"], 9,
                             mac=rig.gateway_mac().strip('"'))
    rig.daemon.wait_flow('in_port=evil,', "10.10.1.1")
    rig.daemon.wait_synced()
    assert gateway_flows(rig) == before


def test_each_object_that_the_switch_refuses_is_named_once(rig):
    fill(rig, 8)
    rig.shim.refuse(lambda m: m.what == "flow add" and b"\x0a\x60\x00"
                    in m.inner, *BAD_OUT_GROUP, count=None)
    rig.daemon.allow("the switch refuse")
    rig.daemon.start()
    wait_for(lambda: "set aside 16" in rig.daemon.appctl("sync"), 10,
             "the refusals", rig)
    named = [line.split("Service ")[1].split(" (IPv4)")[0]
             for line in rig.daemon.log_lines()
             if "the switch refused it" in line]
    assert sorted(named) == sorted(
        "ns1/s%d%s" % (i, what) for i in range(8)
        for what in (":/TCP", ", other ports"))


def test_two_daemons_that_disagree_on_the_meters_cost_little(rig):
    """Each undoes what the other did, but not at once."""
    fill(rig, 3)
    rig.start_daemon()
    with Ofproxyd(rig.dir / "other", rig.api, rig.switch,
                  packetInRate=77) as other:
        other.wait_synced()
        begin, start = time.monotonic(), len(rig.shim.mods())
        spent = rig.daemon.cpu_seconds() + other.cpu_seconds()
        time.sleep(2)           # Of fighting.
        n_mods = len(rig.shim.mods()) - start
        spent = rig.daemon.cpu_seconds() + other.cpu_seconds() - spent
        took = time.monotonic() - begin
    assert 0 < n_mods <= (10 * took + 1) * 16, (n_mods, took)
    assert spent < 0.15 * took


# The process.

def test_without_descriptors_it_waits_instead_of_spinning(rig):
    """Nothing can be opened: neither a connection of the control socket nor
    rtnetlink.  When there are descriptors again, all goes on."""
    fill(rig, 3)
    daemon = rig.daemon
    daemon.allow("Too many open files", r"\|kube\|WARN\|",
                 r"can't connect", "excessive rate")
    daemon.wrapper = ("prlimit", "--nofile=16:")
    daemon.start()
    callers = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for caller in callers:
        caller.connect(str(daemon.ctl))
    daemon.wait_log("accept failed: Too many open files")
    daemon.wait_log("rtnetlink can't be opened: Too many open files")
    before = daemon.cpu_seconds()
    time.sleep(3)               # More than the first wait before a new try.
    assert daemon.cpu_seconds() - before < 0.2

    subprocess.run(["prlimit", "--nofile=1024:", "--pid", str(daemon.pid)],
                   check=True)
    for caller in callers:
        caller.close()
    rig.wait_settled(60)


def test_an_empty_node_name_stands_for_the_hosts(rig):
    """--node "$NODE_NAME" without the variable."""
    rig.api.delete("nodes", "", "n1")
    rig.api.apply(objects.node(os.uname().nodename, ["10.10.1.0/24"]))
    rig.daemon.node = ""
    rig.start_daemon()
    rig.daemon.wait_log("on node %s, bridge" % os.uname().nodename)


def test_a_node_name_that_nobody_has_is_named(rig):
    rig.daemon.allow('there is no Node "typo"')
    rig.daemon.node = "typo"
    rig.daemon.start()
    rig.daemon.wait_log('there is no Node "typo"')
