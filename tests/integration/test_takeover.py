# SPDX-License-Identifier: Apache-2.0
"""A bridge that another master programmed: Antrea's agent, an older layout of
ours, a switch that forwards by itself.  Nothing is sent before all is known,
then everything changes at once, and nothing of the other is left."""
import re
import threading
import time

import pytest

from support import objects, proc
from support.antrea import Antrea, Port, Svc
from support.daemon import binary
from support.ovs import pod_mac
from support.rig import GATEWAY, GATEWAY_OFPORT, Rig, is_ours, own_node
from support.wait import slowness, wait_for

GATEWAY_MAC = "0a:00:00:00:00:01"
PODS = {"pod-1": (["10.10.1.2", "2001:db8:10:1::2"], 5),
        "pod-2": (["10.10.1.3", "2001:db8:10:1::3"], 6)}
RUNS = r"\|takeover\|WARN\|bridge br-int: .*Antrea's agent"
ENDS = r"\|takeover\|WARN\|.*will end with the takeover: 3 of NetworkPolicy$"
WAS = "ofproxyd-replaced-antrea-round"


def vip(number):
    """The cluster IP of a Service."""
    return "10.96.%d.%d" % (number // 250, number % 250 + 1)


def apply(rig, n_services):
    """Services with an endpoint each, at the API server."""
    made = []
    for i in range(n_services):
        name = "svc-%d" % i
        made.append(objects.service("ns1", name, cluster_ips=[vip(i)]))
        made.append(objects.slice_("ns1", name, ["10.10.1.2"], [8080]))
    rig.api.apply_all(made)


def ports(rig, *more):
    """The bridge with its gateway and pods, as the CNI made them."""
    rig.switch.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int",
                     "datapath_type=netdev",
                     "protocols=OpenFlow10,OpenFlow15", *more)
    rig.switch.vsctl("add-port", "br-int", GATEWAY, "--", "set", "Interface",
                     GATEWAY, "type=internal", 'mac="%s"' % GATEWAY_MAC,
                     "ofport_request=%d" % GATEWAY_OFPORT)
    for name, (addresses, ofport) in PODS.items():
        rig.add_pod(name, addresses, ofport)


def antrea(rig, n_services=2, round_=5, *more, **kind):
    """Antrea's bridge, and the same objects at the API server."""
    ports(rig, *more)
    apply(rig, n_services)
    rig.daemon.allow(ENDS)
    return Antrea(
        rig.switch, Port(GATEWAY_OFPORT, GATEWAY_MAC,
                         ["10.10.1.1", "2001:db8:10:1::1"]),
        [Port(ofport, pod_mac(addresses[0]), addresses)
         for addresses, ofport in PODS.values()],
        [Svc(vip(i), 80, ["10.10.1.2:8080"], affinity=i % 2 * 600)
         for i in range(n_services)],
        ["10.10.1.0/24", "2001:db8:10:1::/64"], round_).program(**kind)


def changes(rig):
    """What was sent to change flows and groups."""
    return [m for m in rig.shim.to_switch()
            if m.what.split()[0] in ("flow", "group")
            and not m.type.startswith("multipart")]


def bundles(rig):
    """The changes of each bundle that was committed."""
    found, current = [], []
    for m in rig.shim.to_switch():
        if m.what == "open":
            current = []
        elif m.what == "commit":
            found.append(current)
        elif m in changes_set(m):
            current.append(m)
    return found


def changes_set(message):
    """(message,) if it changes a flow or a group, in a bundle."""
    return (message,) if message.type == "bundle-add" else ()


def assert_taken_over(rig, other):
    """Nothing of it is left, and all of ours is there."""
    assert not other.flows_left()
    assert not other.groups_left()
    assert not other.meters_left()
    wait_for(lambda: other.mark_left() is None, 5, "roundNum to go", rig)
    ids = rig.switch.vsctl("get", "bridge", "br-int", "external_ids")
    assert '%s="%d"' % (WAS, other.round) in ids
    rig.check_cold_start()


def assert_whole(bundle, rig):
    """A bundle has all of ours, and takes all of theirs away."""
    whats = {m.what for m in bundle}
    assert "flow delete" in whats and "flow add" in whats, whats
    assert not any(m.what == "group delete" for m in bundle)
    stats = re.search(r"wanted: (\d+) flows, (\d+) groups",
                      rig.daemon.appctl("sync"))
    for what, n in (("flow add", stats[1]), ("group put", stats[2])):
        assert sum(m.what == what for m in bundle) == int(n), what


# The way that it should go.

def test_c10_antreas_bridge_is_taken_over_in_one_bundle(rig):
    """Not before the last list, and with nothing left behind."""
    other = antrea(rig)
    before = rig.switch.state()
    assert other.flows_left() and other.groups_left() and other.meters_left()
    rig.api.hold("nodes")
    rig.api.fault(resource="nodes", verb="list", count=3, delay=.5,
                  status=503)
    rig.daemon.allow(r"\|kube\|WARN\|nodes: ")
    rig.daemon.start()
    rig.daemon.wait_log("was programmed by Antrea's agent (roundNum 5), %d "
                        "flows, %d groups" % (len(before[0]),
                                              len(before[1])))
    rig.daemon.wait_log("endpointslices: listed")
    assert "predecessor: the bridge was programmed by Antrea's agent" in rig.daemon.appctl("sync")
    assert rig.switch.state() == before
    assert not changes(rig)
    assert other.mark_left() == 5
    rig.api.release("nodes")
    rig.wait_settled()
    first, *later = bundles(rig)
    assert_whole(first, rig)
    assert all(m.what == "group delete" for b in later for m in b)
    assert_taken_over(rig, other)
    assert rig.lookup(vip(0)) == ["10.10.1.2:8080"]
    assert "predecessor" not in rig.daemon.appctl("sync")
    rig.daemon.wait_log("taken over in one transaction")


@pytest.mark.parametrize("ofport, source, mac, reg0", [
    (5, "10.10.1.3", pod_mac("10.10.1.3"), 0x203),
    (GATEWAY_OFPORT, "10.10.1.1", GATEWAY_MAC, 0x202)], ids=["pod", "host"])
def test_c10_what_waited_in_a_group_goes_on(tmp_path, ofport, source, mac,
                                            reg0):
    """A packet whose group of Antrea's chooses after the takeover goes on in
    what is that agent's EndpointDNAT and another table of ours: it comes to
    our group, neither rejected as a port that the Service has not nor dropped
    as an address that no Service has."""
    with Rig(tmp_path / "rig", antreaProxy={"proxyAll": True},
             serviceCIDR="10.96.0.0/16") as rig:
        rig.api.apply(own_node())
        other = antrea(rig, 1)
        rig.start_daemon()
        rig.daemon.wait_flow("table=ServiceLB", "priority=170",
                             "nw_dst=10.96.0.0/16")
        text = rig.switch.appctl(
            "ofproto/trace-packet-out", "br-int",
            "in_port=%d,tcp,dl_src=%s,dl_dst=0a:00:00:00:00:99,nw_src=%s,"
            "nw_dst=%s,nw_ttl=64,tp_src=40000,tp_dst=80"
            % (ofport, mac, source, vip(0)),
            other.numbered("set_field:0x%x->reg0,set_field:0x0a0a0102->reg3,"
                           "set_field:0x21f90->reg4,resubmit(,<EndpointDNAT>)"
                           % reg0))
        assert re.search(r"^ *group:", text, re.M), text
        assert "controller" not in text, text


def test_c10_after_a_takeover_a_restart_sends_nothing(rig):
    """Nothing at all, and the bridge is as it was."""
    antrea(rig)
    rig.start_daemon()
    before = rig.switch.state()
    for hard in (True, False):
        rig.shim.clear()
        rig.restart_daemon(hard)
        assert not rig.shim.mods()
        assert rig.switch.state() == before


def test_c10_what_others_have_on_antreas_bridge_stays(rig):
    """Flows with other cookies, and the groups and meters they need."""
    other = antrea(rig)
    ofctl = rig.switch.ofctl
    ofctl("add-group", "group_id=900,type=select,bucket=actions=drop")
    ofctl("add-group", "group_id=901,type=all,bucket=actions=group:900")
    ofctl("add-group", "group_id=899,type=all,bucket=actions=drop")
    flows = ["cookie=0x%x,table=40,priority=%d,udp,actions=%s"
             % (cookie, 20 + i, actions) for i, (cookie, actions) in enumerate((
                 (0, "drop"), (0x77, "group:901"), (9 << 48, "drop"),
                 (5 << 48 | 9 << 40, "drop"), (5 << 48 | 1 << 32, "drop"),
                 (0x78, "meter:257,output:1")))]
    for flow in flows:
        ofctl("add-flow", flow)
    rig.start_daemon()
    assert len(rig.switch.dump_flows("table=40")) == len(flows)
    assert [g.split(",")[0] for g in other.groups_left()] == [
        "group_id=900", "group_id=901"]
    assert other.meters_left() == [257]
    rig.shim.clear()
    rig.restart_daemon()
    assert not rig.shim.mods()


@pytest.mark.parametrize("round_,begun", [
    (1, 2), (65534, 65535), (65535, None), (0, 1)])
def test_both_rounds_that_may_be_there_go(rig, round_, begun):
    """Also one that an agent began and did not finish; but its successor of
    65535, whose cookies may be anybody's, is nobody's."""
    other = antrea(rig, 1, round_)
    next_one = Antrea(other.switch, other.gateway, other.pods, (), other.cidrs,
                      begun or 0).render()
    if begun:
        next_one.put(next_one.flows[:20])
    else:
        rig.switch.ofctl("add-flow", "cookie=0,table=50,actions=drop")
    rig.start_daemon()
    wait_for(lambda: not other.flows_left(), 5, "flows to go", rig)
    assert not begun or not next_one.flows_left()
    assert bool(rig.switch.dump_flows("table=50")) == (not begun)


def test_a_bridge_whose_flows_are_gone_loses_only_the_mark(rig):
    """After a reboot the database still knows the round."""
    other = antrea(rig)
    rig.switch.restart()
    rig.start_daemon()
    assert_taken_over(rig, other)


def test_without_the_mark_flows_that_look_like_antreas_stay(rig):
    """Who knows whose they are."""
    other = antrea(rig, finished=False)
    n = len([f for f in other.flows_left() if "table=0," not in f])
    rig.start_daemon()
    assert len(other.groups_left()) == 2
    assert n / 2 < len(other.flows_left()) <= n


def test_large_bridges_go_in_one_bundle_too(rig):
    """Which is encoded bit by bit, so that questions are answered."""
    other = antrea(rig, 3000)
    slow = []

    def ask():
        while not stop.wait(.01):
            start = time.monotonic()
            rig.daemon.appctl("version", check=False)
            slow.append(time.monotonic() - start)

    stop, thread = threading.Event(), threading.Thread(target=ask)
    rig.daemon.start()
    thread.start()
    rig.wait_settled()
    stop.set()
    thread.join()
    first, *later = bundles(rig)
    assert_whole(first, rig)
    assert len(first) > 6000
    assert all(m.what == "group delete" for b in later for m in b)
    assert_taken_over(rig, other)
    assert max(slow) < slowness()


def test_table_names_of_antreas_do_not_get_into_the_way_of_ours(rig):
    """A name that two tables have is printed for neither."""
    antrea(rig).name_tables()
    assert any("table=L3Forwarding," in f for f in rig.switch.dump_flows())
    assert "EgressMetric" in rig.switch.ofctl("dump-table-features")
    rig.start_daemon()

    def names():
        return {re.search(r"table=(\w+)", f)[1]
                for f in rig.switch.dump_flows()}

    wait_for(lambda: not any(n.isdigit() for n in names()), 5,
             "all tables to have names", rig)
    assert {"L3Forwarding", "ServiceLB", "Output"} <= names()
    assert "EgressMetric" not in rig.switch.ofctl("dump-table-features")


def test_the_way_back_and_forth_again(rig):
    """Nothing is left that Antrea's agent, which begins anew with round 1,
    would find in its way; and it is taken over once more."""
    other = antrea(rig)
    rig.start_daemon()
    assert_taken_over(rig, other)
    rig.daemon.terminate()
    proc.run(binary(), "--cleanup", "--config", rig.daemon.config, "--unixctl",
             rig.daemon.ctl, netns=rig.switch.netns)
    assert not any(is_ours(f) for f in rig.switch.dump_flows(names=False))
    ids = rig.switch.vsctl("get", "bridge", "br-int", "external_ids")
    assert "ofproxyd" not in ids
    rig.switch.ofctl("del-groups")
    again = Antrea(rig.switch, other.gateway, other.pods, other.services,
                   other.cidrs, 1).program().name_tables()
    assert "EgressMetric" in rig.switch.ofctl("dump-table-features")
    rig.start_daemon()
    assert_taken_over(rig, again)


# What has to be there first.

def test_without_a_node_object_antreas_flows_stay(rig):
    """A wrong --node must not take a node off the network."""
    antrea(rig)
    rig.api.delete("nodes", "", "n1")
    rig.daemon.allow(r"there is no Node")
    before = rig.switch.state()
    rig.daemon.start()
    rig.daemon.wait_log("first complete picture")
    rig.api.apply(objects.service("ns1", "more", cluster_ips=[vip(99)]))
    wait_for(lambda: "more" in rig.daemon.appctl("services"), 5, "it", rig)
    assert not changes(rig)
    assert rig.switch.state() == before
    rig.api.apply(objects.node("n1", ["10.10.1.0/24"]))
    rig.wait_settled()
    assert_whole(bundles(rig)[0], rig)
    rig.check_cold_start()


def test_an_api_server_that_is_away_changes_nothing(rig):
    """For as long as it takes."""
    other = antrea(rig)
    rig.daemon.allow(r"\|kube\|WARN\|")
    before = rig.switch.state()
    rig.api.stop("rst")
    rig.daemon.start()
    rig.daemon.wait_log("was programmed by Antrea's agent")
    wait_for(lambda: re.search(r"Services: .* [3-9] failures",
                               rig.daemon.appctl("sync")), 20, "three tries",
             rig)
    assert rig.switch.state() == before and not changes(rig)
    assert not rig.switch.vsctl("get", "bridge", "br-int",
                                "flow_tables").strip(" {}\n")
    rig.api.start()
    rig.wait_settled()
    assert_taken_over(rig, other)


# Faults.

@pytest.mark.parametrize("what,direction", [
    ("open", "to"), ("flow add", "to"), ("barrier-reply", "from"),
    ("commit", "to"), ("commit-reply", "from")])
def test_killed_in_the_middle_all_or_nothing_has_happened(rig, what,
                                                          direction):
    """And the next start does the rest."""
    other = antrea(rig)
    before = rig.switch.state()
    rule = rig.shim.cut_on(
        lambda m: m.direction == direction and m.what == what)
    rig.api.fault(resource="nodes", verb="list", stall=True)
    rig.daemon.allow(r"\|kube\|WARN\|nodes: list")
    rig.daemon.start()
    rig.daemon.wait_log("was programmed by Antrea's agent")
    rig.shim.close()            # It can't come back.
    rig.api.clear_faults()
    wait_for(lambda: rule.hits, 10, what, rig)
    rig.daemon.kill()
    rig.daemon.allow(r"\|ofconn\|WARN\|")
    rig.shim.listen()
    done = what == "commit-reply"
    if done:
        wait_for(lambda: not other.flows_left(), 5, "the commit", rig)
        assert other.groups_left() and other.mark_left() == 5
    else:
        assert rig.switch.state() == before
    rig.shim.clear()
    rig.daemon.start()
    rig.wait_settled()
    if done:
        assert {m.what for m in changes(rig)} == {"group delete"}
    assert_taken_over(rig, other)


@pytest.mark.parametrize("what", ["open", "flow add", "commit",
                                  "commit-reply", "flow reply",
                                  "group-desc reply"])
def test_a_connection_that_breaks_in_the_middle_is_made_up_for(rig, what):
    """From the dump on."""
    other = antrea(rig)
    rig.daemon.allow(r"\|ofconn\|WARN\|.*connection given up")
    rule = rig.shim.cut_on(lambda m: m.what == what)
    rig.start_daemon()
    assert rule.hits == 1
    assert_taken_over(rig, other)


def test_a_refused_service_does_not_keep_the_others(rig):
    """It is left out; the bundle goes as a whole without it."""
    other = antrea(rig, 5)
    refused = rig.shim.refuse(
        lambda m: m.what == "group put" and m.type == "bundle-add"
        and m.group_id >> 9 & 1, 6, 1)
    rig.daemon.allow(r"\|ofconn_bundle\|WARN\|.*the switch refuses to take",
                     r"\|report\|WARN\|.*the switch refused it")
    rig.start_daemon()
    assert refused.hits == 1
    assert_whole_but = bundles(rig)
    assert len({m.what for m in assert_whole_but[0]}) >= 3
    assert_taken_over(rig, other)


def test_antrea_stays_while_the_switch_refuses_our_pipeline(rig):
    """Without its fixed flows the rest would be worth nothing."""
    other = antrea(rig)
    before = rig.switch.state()
    refused = rig.shim.refuse(
        lambda m: m.what == "flow add" and m.type == "bundle-add"
        and m.cookie == 0xf901 << 48, 2, 9, count=3)
    rig.daemon.allow(r"\|ofconn_bundle\|WARN\|.*the switch refuses to take",
                     r"\|report\|WARN\|.*the switch refused it")
    rig.daemon.start()
    wait_for(lambda: refused.hits, 10, "the refusal", rig)
    assert rig.switch.state() == before
    rig.wait_settled(60)
    assert refused.hits == 3
    assert_taken_over(rig, other)


def test_a_bundle_that_is_refused_without_a_reason_is_not_cut_up(rig):
    """It is tried again, whole, with growing pauses."""
    other = antrea(rig)
    rig.shim.refuse(lambda m: m.what == "commit", 17, 13, count=3)
    rig.daemon.allow(r"\|ofconn_bundle\|WARN\|.*the switch refuses a bundle")
    rig.start_daemon()
    commits = bundles(rig)
    for bundle in commits[:4]:
        assert_whole(bundle, rig)
    assert_taken_over(rig, other)


# An agent that goes on.

def test_flows_that_a_running_agent_adds_go_and_it_is_named(rig):
    """There is no mark any more; what it puts among ours goes all the same,
    also after a restart of ours."""
    other = antrea(rig)
    rig.start_daemon()
    before = rig.switch.state()
    rig.daemon.allow(RUNS)
    late = [f for f in other.flows if "table=12,priority=200,tcp" in f]
    assert late
    other.put(late)
    rig.daemon.wait_log("flows of Antrea's agent have appeared among ours")
    wait_for(lambda: rig.switch.state() == before, 5, "them to go", rig)
    rig.daemon.kill()
    other.put(late)
    rig.daemon.start()
    rig.wait_settled()
    assert rig.switch.state() == before


def test_an_agent_that_puts_its_flows_back_at_once_is_not_fought(rig):
    """Removing them takes longer and longer."""
    other = antrea(rig)
    rig.start_daemon()
    rig.daemon.allow(RUNS)
    rig.shim.clear()
    late = other.flows[-1:]
    end = time.monotonic() + 5
    n = 0
    while time.monotonic() < end:
        if not other.flows_left():
            other.put(late)
            n += 1
    assert 2 <= n <= 8, n
    # What we want is done all the while.
    rig.api.apply(objects.service("ns1", "late", cluster_ips=[vip(77)]))
    rig.api.apply(objects.slice_("ns1", "late", ["10.10.1.3"], [80]))
    rig.wait_lookup(vip(77), ["10.10.1.3:80"])


def test_an_agent_that_starts_anew_is_taken_over_from_again(rig):
    """It clears groups and meters, and begins with round 1."""
    other = antrea(rig)
    rig.start_daemon()
    rig.daemon.allow(RUNS, r"\|ofconn\|WARN\|.*the switch has lost groups")
    rig.switch.ofctl("del-groups")
    fresh = Antrea(other.switch, other.gateway, other.pods, other.services,
                   other.cidrs, 1).program()
    wait_for(lambda: fresh.mark_left() is None, 10, "roundNum to go", rig)
    rig.wait_settled()
    assert_taken_over(rig, fresh)
    rig.daemon.wait_log("Antrea's agent programs it (roundNum 1) while")


def test_a_flow_in_table_0_of_an_agent_that_starts_is_replaced(rig):
    """It stands where one of ours stood."""
    other = antrea(rig)
    rig.start_daemon()
    before = rig.switch.state()
    rig.daemon.allow(RUNS)
    other.put(other.flows[:1])
    wait_for(lambda: rig.switch.state() == before, 2, "ours to be back", rig)


# Other masters.

def test_an_older_layout_of_ours_goes_in_one_bundle(rig):
    """If its pipeline is in force."""
    ports(rig, "fail_mode=secure", "external_ids:ofproxyd-layout=0")
    apply(rig, 2)
    for flow in ("table=0,priority=0,actions=goto_table:7",
                 "table=7,priority=5,actions=NORMAL"):
        rig.switch.ofctl("add-flow", "cookie=0xf900000000000000," + flow)
    before = rig.switch.state()
    rig.api.fault(resource="services", verb="list", stall=True)
    rig.daemon.allow(r"\|kube\|WARN\|services: list")
    rig.daemon.start()
    rig.daemon.wait_log("an ofproxyd with another layout of tables (0), 2 "
                        "flows")
    assert rig.switch.state() == before
    rig.api.clear_faults()
    rig.wait_settled()
    first, *later = bundles(rig)
    assert not later
    assert {m.what for m in first} == {"flow add", "flow delete-strict",
                                       "group put"}
    rig.check_cold_start()


def test_a_switch_that_forwards_by_itself_does_so_until_ours_is_there(rig):
    """In fail_mode standalone; which stays until it costs nothing to change
    it, at the switch's next start."""
    ports(rig)
    apply(rig, 2)
    before = rig.switch.state()
    assert before[0] == ["cookie=0x0, table=0, priority=0 actions=NORMAL"]
    rig.api.fault(resource="services", verb="list", stall=True)
    rig.daemon.allow(r"\|kube\|WARN\|services: list")
    rig.daemon.start()
    rig.daemon.wait_log("bridge br-int forwards by itself")
    assert rig.switch.state() == before
    rig.api.clear_faults()
    rig.wait_settled()
    assert len(bundles(rig)) == 1
    state = rig.check_cold_start()
    assert len(rig.switch.dump_flows() + rig.switch.dump_groups()) \
        == len(state.lines)
    assert rig.switch.vsctl("get", "bridge", "br-int",
                            "fail_mode").strip() == "[]"
    rig.shim.clear()
    rig.restart_daemon()
    assert not rig.shim.mods()
    rig.daemon.allow(r"\|ofconn\|WARN\|", r"\|ovsdb\|WARN\|",
                     r"\|reconnect\|WARN\|")
    rig.switch.restart()
    wait_for(lambda: rig.switch.vsctl(
        "get", "bridge", "br-int", "fail_mode").strip() == "secure", 10,
             "fail_mode secure", rig)
    rig.check_cold_start()


def test_normal_of_a_foreign_hand_on_a_bridge_of_ours_stays(rig):
    """It is no predecessor there."""
    rig.switch.add_bridge()
    rig.start_daemon()
    rig.switch.ofctl("add-flow", "table=60,priority=0,actions=NORMAL")
    rig.restart_daemon()
    assert len([f for f in rig.switch.dump_flows() if not is_ours(f)]) == 1
