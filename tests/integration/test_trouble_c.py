# SPDX-License-Identifier: Apache-2.0
"""Trouble with restarts and reconnects of daemon, switch and API server.

See docs/trouble-cases.md for the cases.
"""
import threading
import time

import pytest

from support import objects
from support.objects import slice_
from support.rig import is_ours, own_node
from support.wait import slowness, wait_for

N_SERVICES = 30
RELOAD_SECONDS = 3              # For a switch that is back, with slack.


def vip(i):
    """The address of the i-th Service."""
    return "10.96.1.%d" % (i + 1)


def fill(rig, n=N_SERVICES):
    """Services, the last five without endpoints, and two pods."""
    for i in range(n):
        rig.api.apply(objects.service("ns1", "svc-%02d" % i,
                                      cluster_ips=[vip(i)]))
        if i < n - 5:
            rig.api.apply(slice_("ns1", "svc-%02d" % i,
                                 ["10.10.1.%d" % (i + 2), "10.10.2.2"]))
    rig.start_daemon()
    rig.add_pod("p1", ["10.10.1.2", "2001:db8:10:1::2"], 1)
    rig.add_pod("p2", ["10.10.1.3", "2001:db8:10:1::3"], 2)
    rig.wait_lookup(vip(n - 1), "reject")
    return rig.check_cold_start()


def mods(rig):
    """What the daemon asked the switch to change, in order."""
    return [m.what for m in rig.shim.mods()]


# The switch restarts.

@pytest.mark.parametrize("hard", [False, True])
def test_c1_c2_c11_d06_a_restarted_switch_gets_everything_in_order(rig, hard):
    """Groups before the flows that use them, nothing refused, no delete
    that would make the outage longer, and soon."""
    before = fill(rig)
    rig.daemon.allow("connection given up", "can't connect")
    rig.shim.clear()
    rig.switch.restart(hard)
    start = time.monotonic()
    wait_for(lambda: len(rig.state().lines) == len(before.lines), 20,
             "everything", rig)
    assert time.monotonic() - start < RELOAD_SECONDS * slowness()
    assert rig.check_cold_start().differences(before) == ""

    sent = mods(rig)
    assert set(sent) == {"meter-mod", "group put", "flow add"}
    assert "group put" not in sent[sent.index("flow add"):]
    assert rig.shim.errors() == []


def test_d06_both_restart_at_once(rig):
    """The daemon is away while the switch restarts."""
    before = fill(rig)
    rig.daemon.kill()
    rig.switch.restart(hard=True)
    rig.daemon.start()
    rig.wait_settled()
    assert rig.check_cold_start().differences(before) == ""


def test_d06_the_switch_restarts_during_the_replay_of_a_restart(rig):
    """A new daemon has just begun to send."""
    before = fill(rig)
    rig.daemon.allow("connection given up", "can't connect")
    rig.daemon.kill()
    rig.switch.restart()
    cut = rig.shim.cut_on(lambda m: m.what == "commit")
    rig.daemon.start()
    wait_for(lambda: cut.hits, 10, "the replay", rig)
    rig.switch.restart(hard=True)
    rig.wait_settled()
    assert rig.check_cold_start().differences(before) == ""


def test_c4_a_second_disconnect_while_the_first_is_handled(rig):
    """During the dump, the set-up and the replay."""
    before = fill(rig)
    rig.daemon.allow("connection given up", "can't connect")
    rig.shim.cut()
    for what in ("flow request", "group-desc request", "flow-monitor request",
                 "set-async"):
        rig.shim.cut_on(lambda m, what=what: m.what == what)
    rig.wait_settled()
    rig.switch.ofctl("del-flows")
    for what in ("open", "barrier-request", "commit"):
        rig.shim.cut_on(lambda m, what=what: m.what == what)
    rig.wait_settled(60)
    assert rig.check_cold_start().differences(before) == ""


def test_c7_a_lost_commit_reply_ends_in_sync(rig):
    """The bundle was applied, and the daemon can't know."""
    rig.start_daemon()
    rig.daemon.allow("connection given up")
    lost = rig.shim.drop(lambda m: m.what == "commit-reply")
    rig.api.apply(objects.service("ns1", "svc-a", cluster_ips=[vip(1)]))
    rig.wait_lookup(vip(1), "reject")
    assert lost.hits == 1
    rig.wait_settled()
    rig.check_cold_start()


# The daemon restarts.

@pytest.mark.parametrize("hard", [False, True])
def test_c26_d06_a_restart_with_unchanged_objects_changes_nothing(rig, hard):
    """Counted at the bridge's socket."""
    before = fill(rig)
    rig.shim.clear()
    rig.restart_daemon(hard)
    assert mods(rig) == []
    assert rig.state().differences(before) == ""


def test_c25_a_restart_sends_nothing_that_touches_connections(rig):
    """Only questions, and settings of the OpenFlow connection itself."""
    fill(rig)
    rig.shim.clear()
    rig.restart_daemon()
    sent = {m.what for m in rig.shim.to_switch()}
    assert sent <= {
        "hello", "features-request", "set-config", "set-async",
        "barrier-request", "echo-request", "echo-reply",
        "experimenter",         # Of controller id and packet-in format.
        "flow request", "group-desc request", "meter-config request",
        "flow-monitor request"}, sent
    assert len([m for m in rig.shim.to_switch()
                if m.what == "experimenter"]) <= 3


def watch_never_less(rig, before, stop, seen):
    """Looks again and again whether anything of `before` is missing."""
    while not stop.is_set():
        lines = (rig.switch.dump_flows(names=False)
                 + rig.switch.dump_groups(names=False))
        seen.append(set(before.lines) - set(lines))


def delay_lists(rig):
    """Services at once, slices in pieces over 3 s, Nodes after 5 s."""
    rig.api.fault(resource="endpointslices", verb="list",
                  drip=(100000, .6))
    rig.api.fault(resource="nodes", verb="list", delay=5)


def test_c23_c26_d09_nothing_is_less_before_the_lists_are_complete(rig):
    """The bridge is full, the lists come slowly and one after the other;
    meanwhile a Service is gone, one has lost an endpoint, one has lost all."""
    before = fill(rig)
    rig.daemon.terminate()
    rig.api.delete("services", "ns1", "svc-00")
    rig.api.apply(slice_("ns1", "svc-01", ["10.10.2.2"]))
    rig.api.delete("endpointslices", "ns1", "svc-02-abcde")
    # Enough for a list of several pieces.
    with rig.api.batch():
        for i in range(600):
            rig.api.apply(slice_("ns9", "none-%d" % i, []))
    delay_lists(rig)
    rig.shim.clear()

    stop, seen = threading.Event(), []
    watcher = threading.Thread(target=watch_never_less,
                               args=(rig, before, stop, seen))
    rig.daemon.start()
    watcher.start()
    try:
        rig.daemon.wait_log("endpointslices: listed, 62")
        assert not rig.daemon.in_sync()
        assert mods(rig) == []
        n_seen = len(seen)
        assert n_seen > 3 and not any(seen[:n_seen])
    finally:
        stop.set()
        watcher.join()
    rig.wait_settled()
    rig.wait_lookup(vip(0), None)
    rig.wait_lookup(vip(1), ["10.10.2.2:80"])
    rig.wait_lookup(vip(2), "reject")
    changed = mods(rig)
    # Of svc-00 two flows go: its port's, and that for its other ports.
    assert sorted(changed) == ["flow add", "flow delete-strict",
                               "flow delete-strict", "group delete",
                               "group delete", "group put"]
    rig.check_cold_start()


def test_c23_d09_a_lone_list_of_services_rejects_nothing(rig):
    """Slices are refused for a while: a Service of which no slice is known
    is not one without endpoints, also not on an empty bridge."""
    rig.api.apply(objects.service("ns1", "svc-a", cluster_ips=[vip(1)]))
    rig.api.apply(slice_("ns1", "svc-a", ["10.10.1.5"]))
    refused = rig.api.fault(resource="endpointslices", verb="list", count=2,
                            status=503)
    rig.daemon.allow(r"\|kube\|WARN\|endpointslices: .*503")
    rig.daemon.start()
    seen = []

    def look():
        if (rig.switch.dir / (rig.switch.bridge + ".mgmt")).exists():
            seen.append(rig.lookup(vip(1)))
        return seen and seen[-1]

    wait_for(look, 20, "the Service", rig)
    assert refused.hits == 2
    assert len(seen) > 3 and set(map(str, seen[:-1])) == {"None"}
    assert seen[-1] == ["10.10.1.5:80"]


# What is found on the bridge.

def test_c10_d35_flows_of_an_older_layout_go_and_foreign_ones_stay(rig):
    """Not before the lists are complete."""
    rig.switch.add_bridge()
    old = ["cookie=0xf9%02x030000000001,table=12,priority=200,tcp,"
           "nw_dst=%s,tp_dst=80,actions=drop" % (layout, vip(i))
           for i, layout in enumerate((0, 2, 1))]
    foreign = ["cookie=0x%x,table=12,priority=%d,udp,actions=drop"
               % (cookie, 20 + i)
               for i, cookie in enumerate((0, 0x77, 0xf801030000000001))]
    for flow in old + foreign:
        rig.switch.ofctl("add-flow", flow)
    rig.switch.ofctl("add-group", "group_id=5,type=select,"
                     "bucket=actions=drop")
    rig.switch.ofctl("add-group", "group_id=%d,type=select,"
                     "bucket=actions=drop" % 0x40000005)
    rig.api.fault(resource="nodes", verb="list", stall=True)
    rig.daemon.allow(r"\|kube\|WARN\|nodes: list")
    rig.daemon.start()
    rig.daemon.wait_log("services: listed")
    assert len([f for f in rig.switch.dump_flows("table=12")
                if is_ours(f)]) >= len(old)
    rig.api.clear_faults()
    rig.wait_settled()
    rig.check_cold_start()
    lines = rig.switch.dump_flows() + rig.switch.dump_groups()
    left = [line for line in lines if not is_ours(line)]
    assert len(left) == len(foreign) + 1, left


def test_c10_leftovers_go_also_when_there_is_no_service_at_all(rig):
    """And when the bridge is read late, long after the lists."""
    rig.switch.add_bridge()
    rig.switch.ofctl("add-flow", "cookie=0xf901030000000001,table=12,"
                     "priority=200,tcp,nw_dst=%s,tp_dst=80,actions=drop"
                     % vip(0))
    rig.shim.delay(lambda m: m.what == "flow reply", .5)
    rig.start_daemon()
    assert rig.lookup(vip(0)) is None
    rig.check_cold_start()


def test_c13_d35_an_essential_flow_that_is_deleted_is_back_at_once(rig):
    """All of them, too."""
    before = fill(rig)
    for which in (["table=20"], ["table=0"], []):
        rig.switch.ofctl("del-flows", *which)
        start = time.monotonic()
        wait_for(lambda: len(rig.state().lines) == len(before.lines), 10,
                 "all flows", rig)
        assert time.monotonic() - start < 2 * slowness()
    assert rig.check_cold_start().differences(before) == ""


def test_d35_a_gateway_that_is_made_anew_is_followed(rig):
    """With another number."""
    before = fill(rig)
    rig.switch.del_port("antrea-gw0")
    rig.wait_settled()
    assert rig.check_cold_start().differences(before) == ""


def test_c22_groups_that_are_there_already_are_never_shared(rig):
    """Foreign groups 1 to 40, and ours with the ids of other Services."""
    state = fill(rig)
    rig.daemon.kill()
    groups = rig.switch.dump_groups(names=False)
    bodies = [group.split(",", 1)[1] for group in groups]
    for i in range(40):
        rig.switch.ofctl("add-group", "group_id=%d,type=select,"
                         "bucket=actions=drop" % (i + 1))
    for group, body in zip(groups, bodies[1:] + bodies[:1]):
        rig.switch.ofctl("mod-group", "%s,%s" % (group.split(",")[0], body))
    rig.daemon.start()
    rig.wait_settled()
    again = rig.check_cold_start()
    assert again.differences(state) == ""
    assert len(set(again.ids.values())) == N_SERVICES
    assert len(rig.switch.dump_groups()) == N_SERVICES - 5 + 40


# The host's routes.

def test_c14_routes_of_services_that_are_gone_go_at_the_next_start(rig):
    """Also those of all, when the feature was turned off."""
    def served():
        return sorted(address for address, _ in rig.routes())

    rig.daemon.write_config(antreaProxy={"proxyAll": True}, **rig.config)
    for i in range(3):
        rig.api.apply(objects.service("ns1", "svc-%d" % i,
                                      cluster_ips=[vip(i)]))
    rig.daemon.start()
    wait_for(lambda: served() == [vip(i) for i in range(3)], 10,
             "three routes", rig)
    rig.wait_settled()
    rig.daemon.terminate()
    assert served() == [vip(i) for i in range(3)]
    rig.api.delete("services", "ns1", "svc-1")
    rig.daemon.start()
    wait_for(lambda: served() == [vip(0), vip(2)], 10, "two routes", rig)

    rig.daemon.terminate()
    rig.daemon.write_config(**rig.config)
    rig.daemon.start()
    wait_for(lambda: served() == [], 10, "no route", rig)
    rig.wait_settled()


def test_c16_addresses_that_are_flushed_come_back(rig):
    """By somebody's network restart."""
    rig.start_daemon()
    rig.ns.ip("addr", "flush", "dev", "antrea-gw0")
    wait_for(lambda: "10.10.1.1/24" in rig.ns.ip("addr", "show",
                                                 "antrea-gw0"), 3,
             "the gateway's address", rig)
    rig.wait_settled()


def test_a_node_that_is_gone_leaves_its_pods_alone(rig):
    """The own Node object disappears and comes back."""
    before = fill(rig)
    rig.shim.clear()
    rig.api.delete("nodes", "", "n1")
    rig.wait_settled()
    assert mods(rig) == []
    rig.api.apply(own_node())
    rig.wait_settled()
    assert mods(rig) == []
    assert rig.check_cold_start().differences(before) == ""
