# SPDX-License-Identifier: Apache-2.0
"""The OpenFlow connection and the flow table against a real ovs-vswitchd,
through a relay that counts, delays, refuses and cuts."""
import random
import re
import struct
import time

import pytest

from support.ofshim import HEADER, OfShim
from support.ovs import PrivateSwitch
from support.probe import (GROUP, MAGIC, Probe, cookie, endpoint, group_id,
                           service, vip)
from support.wait import slowness, wait_for

# Errors for the relay to inject: (type, code).
BAD_OUT_GROUP = (2, 9)
INVALID_GROUP = (6, 1)
INVALID_METER = (12, 2)
BAD_MULTIPART = (1, 2)
MSG_FAILED = (17, 13)
NO_BUNDLE = (17, 2)
DEADLINE_MS = 1500              # For replies, where a test lets it pass.


@pytest.fixture
def switch(tmp_path):
    """A private switch; its log must be clean at the end."""
    with PrivateSwitch(tmp_path / "ovs", dummy=True) as sw:
        sw.add_bridge()
        yield sw
        assert sw.unexpected_warnings() == []


@pytest.fixture
def shim(tmp_path, switch):
    """The relay to its bridge."""
    with OfShim(tmp_path / "shim.sock", mgmt(switch)) as relay:
        yield relay


@pytest.fixture
def probe(tmp_path, shim):
    """A probe on the relay."""
    with Probe(shim.target, tmp_path / "probe.log", DEADLINE_MS) as p:
        yield p
        assert p.quit() == 0, p.dump()


def mgmt(switch):
    """The bridge's socket."""
    return switch.dir / (switch.bridge + ".mgmt")


def want_services(probe, owners, n_endpoints=3):
    """Each owner wants its service; everything is known."""
    for owner in owners:
        probe.want(owner, *service(owner, n_endpoints))
    probe.send("complete")


def flows_of(switch, mask=0xff << 56):
    """The flows of ours, as text."""
    return switch.dump_flows("cookie=0x%x/0x%x" % (MAGIC & mask, mask))


def whats(messages):
    """The names of messages, repeated ones once."""
    names = [m.what for m in messages]
    return [n for i, n in enumerate(names) if i == 0 or names[i - 1] != n]


def fresh_probe_changes(tmp_path, shim, owners, n_endpoints=3):
    """How many changes a daemon that starts now has to make."""
    shim.clear()
    with Probe(shim.target, tmp_path / "fresh.log") as fresh:
        want_services(fresh, owners, n_endpoints)
        fresh.sync()
    return shim.mods()


# Order and transactions.

def test_cold_sync_installs_groups_before_flows_in_few_bundles(
        switch, shim, probe):
    """C2."""
    probe.wait_up()
    want_services(probe, range(1, 701))
    probe.sync()

    assert len(switch.dump_flows()) == 700
    assert len(switch.dump_groups()) == 700
    assert shim.errors() == []
    mods = [m.what for m in shim.mods() if m.what != "meter-mod"]
    assert mods == ["group put"] * 700 + ["flow add"] * 700
    names = whats(shim.to_switch())
    assert names[names.index("open"):] == [
        "open", "group put", "flow add", "barrier-request", "commit",
        "open", "flow add", "barrier-request", "commit"]
    bundles = [m for m in shim.to_switch() if m.type == "bundle-control"
               or m.type == "bundle-add"]
    flags = {struct.unpack_from("!H", m.data, 14)[0] for m in bundles}
    assert flags == {3}, "atomic and ordered, everywhere"


def test_c26_a_restart_with_unchanged_objects_sends_no_modification(
        tmp_path, switch, shim, probe):
    """C26; also D7, for the dump comes in many parts."""
    owners = range(1, 2001)
    want_services(probe, owners)
    probe.sync()
    before = switch.state()
    assert probe.quit() == 0

    assert fresh_probe_changes(tmp_path, shim, owners) == []
    parts = [m.what for m in shim.from_switch()]
    assert parts.count("flow reply") > 3
    assert parts.count("group-desc reply") > 3
    assert switch.state() == before


def test_d7_groups_of_600_buckets_are_read_back_equal(
        tmp_path, switch, shim, probe):
    """D7."""
    want_services(probe, range(1, 21), n_endpoints=600)
    probe.sync()
    assert [g.count("bucket=") for g in switch.dump_groups()] == [600] * 20
    assert probe.quit() == 0

    assert fresh_probe_changes(tmp_path, shim, range(1, 21), 600) == []
    parts = [m for m in shim.from_switch() if m.what == "group-desc reply"]
    assert len(parts) >= 20, "one such group fills most of a part"


def test_b1_d03_a_flow_moves_to_a_new_group_and_back_without_an_error(
        switch, shim, probe):
    """B1, D03: policy edits."""
    want_services(probe, [1, 2])
    probe.sync()
    old = service(1)[1][0]
    new = old.replace("group_id=%d" % group_id(1),
                      "group_id=%d" % (group_id(1) | 1 << 8))
    flow = service(1)[0][0]
    moved = flow.replace("group:%d" % group_id(1),
                         "group:%d" % (group_id(1) | 1 << 8))
    shim.clear()

    for _ in range(20):
        for f, g in (moved, new), (flow, old):
            probe.want(1, [f], [g])
            probe.sync()

    assert shim.errors() == []
    present = {group_id(1), group_id(2)}
    for m in shim.mods():
        if m.what == "group put":
            present.add(m.group_id)
        elif m.what == "group delete":
            present.remove(m.group_id)
        else:
            assert m.what == "flow add" and m.groups_used <= present, m
    assert present == {group_id(1), group_id(2)}
    assert len(switch.dump_groups()) == 2


def test_b8_deletes_are_strict_and_restricted_to_the_cookie(
        switch, shim, probe):
    """B8: somebody else's flow with the same match survives our delete,
    even if the news of it is late."""
    want_services(probe, [1, 2])
    probe.sync()
    late = shim.delay(lambda m: m.what == "flow-monitor reply", 1)
    switch.ofctl("add-flow", "table=12,priority=200,cookie=0x77,tcp,"
                 "nw_dst=%s,tp_dst=80,actions=drop" % vip(1))
    wait_for(lambda: late.hits, 5, "the notice")
    probe.want(1)
    probe.sync()

    deletes = [m for m in shim.mods() if m.what.startswith("flow delete")]
    assert [(m.what, m.cookie, m.cookie_mask) for m in deletes] == [
        ("flow delete-strict", cookie(1), 2 ** 64 - 1)]
    assert [f for f in switch.dump_flows() if "cookie=0x77" in f]
    assert len(flows_of(switch)) == 1


def test_only_what_is_missing_is_added_while_the_picture_is_partial(
        switch, probe):
    """Nothing is changed or removed before all is known."""
    probe.wait_up()
    switch.ofctl("add-flow", "table=12,priority=7,cookie=0x%x,udp,"
                 "actions=drop" % cookie(99))
    flow, group = service(1)
    switch.ofctl("add-group", group[0])
    switch.ofctl("add-flow", flow[0].replace("0x1->reg5", "0x9->reg5"))
    wait_for(lambda: probe.state()["n_foreign"] == 3, 5, "all three", probe)

    probe.want(1, flow, group)
    probe.want(2, *service(2))
    probe.send("flush")
    wait_for(lambda: len(flows_of(switch)) == 3, 5, "the new flow", probe)
    assert any("set_field:0x9->reg5" in f for f in switch.dump_flows())
    assert not probe.is_in_sync()

    probe.send("complete")
    probe.sync()
    assert len(flows_of(switch)) == 2
    assert not any("set_field:0x9->reg5" in f for f in switch.dump_flows())


# Refusals.

def test_b17_a_refused_first_bundle_is_retried_without_an_event(
        switch, shim, probe):
    """B17: what is believed to be installed is only what was confirmed."""
    refusal = shim.refuse(lambda m: m.what == "flow add", *INVALID_GROUP)
    want_services(probe, [1])
    probe.send("flush")
    wait_for(lambda: refusal.hits, 5, "the refusal", probe)
    aside = wait_for(probe.set_aside, 5, "setting aside", probe)
    assert aside == [{"owner": 1, "tries": 1,
                      "reason": "OFPGMFC_INVALID_GROUP"}]
    assert not flows_of(switch)

    assert probe.is_in_sync(10000), probe.dump()
    assert len(flows_of(switch)) == 1
    assert probe.state()["n_bundles_refused"] == 1


def test_b17_a_commit_that_fails_once_is_retried(switch, shim, probe):
    """B17, with the failure at the commit."""
    shim.refuse(lambda m: m.what == "commit", *MSG_FAILED)
    want_services(probe, range(1, 6))
    probe.sync()
    assert len(flows_of(switch)) == 5


def test_d39_one_refused_object_never_blocks_the_others(
        switch, shim, probe):
    """D39 (d): every message with one address is refused."""
    address = bytes(int(part) for part in vip(7).split("."))
    refusal = shim.refuse(
        lambda m: m.what == "flow add" and address in m.inner,
        *BAD_OUT_GROUP, count=None)
    want_services(probe, range(1, 51))
    probe.send("flush")
    wait_for(lambda: len(flows_of(switch)) == 49, 10, "the others", probe)
    probe.want(60, *service(60))
    probe.send("flush")
    wait_for(lambda: len(flows_of(switch)) == 50, 5, "a later one", probe)
    assert [s["owner"] for s in probe.set_aside()] == [7]
    assert vip(7) in probe.dump() and "OFPBAC_BAD_OUT_GROUP" in probe.dump()

    wait_for(lambda: refusal.hits > 1, 20, "a retry", probe)
    shim.clear_rules()
    assert probe.is_in_sync(20000), (probe.state(), probe.dump())
    assert len(flows_of(switch)) == 51


def test_d39_the_switch_itself_refuses_a_flow_at_the_commit(switch, probe):
    """D39: the guilty one of a batch is found by its xid."""
    for owner in range(1, 11):
        flow, group = service(owner)
        probe.want(owner, flow, [] if owner == 4 else group)
    probe.send("complete", "flush")
    wait_for(lambda: len(flows_of(switch)) == 9, 5, "the others", probe)
    (aside,) = probe.set_aside()
    assert (aside["owner"], aside["reason"]) == (4, "OFPBAC_BAD_OUT_GROUP")

    probe.want(4, *service(4))
    probe.sync()
    assert len(flows_of(switch)) == 10 and not probe.set_aside()


def test_d39_the_guilty_one_is_found_when_the_switch_names_none(
        switch, shim, probe):
    """D39: a commit fails without telling because of what."""
    address = bytes(int(part) for part in vip(3).split("."))
    guilty = set()

    def fails(m):
        if m.what == "open":
            guilty.clear()
        elif m.what == "flow add" and address in m.inner:
            guilty.add(m.xid)
        return m.what == "commit" and guilty
    shim.refuse(fails, *MSG_FAILED, count=None)
    want_services(probe, range(1, 9))
    probe.send("flush")
    wait_for(lambda: len(flows_of(switch)) == 7, 10, "the others", probe)
    assert [s["owner"] for s in probe.set_aside()] == [3]
    shim.clear_rules()
    assert probe.is_in_sync(20000), (probe.state(), probe.dump())


def test_d39_thousands_of_refused_objects_do_not_stop_the_rest(
        switch, shim, probe):
    """D39: a kind of flow that the switch refuses, in every Service."""
    probe.wait_up()
    shim.refuse(lambda m: m.what == "flow add" and m.priority == 200,
                *BAD_OUT_GROUP, count=None)
    for owner in range(1, 3001):
        if owner % 100:
            probe.want(owner, *service(owner))
        else:
            flow, group = service(owner)
            probe.want(owner, [flow[0].replace("=200", "=201")], group)
    probe.send("complete", "flush")
    start = time.monotonic()
    wait_for(lambda: len(flows_of(switch)) == 30, 20, "the others", probe)
    wait_for(lambda: not probe.state()["n_dirty"], 20, "an end", probe)
    print("%.1f s" % (time.monotonic() - start))
    assert probe.state()["n_set_aside"] > 2900


@pytest.mark.parametrize("request_, error", [
    ("flow-monitor request", BAD_MULTIPART), ("meter-mod", INVALID_METER),
    ("set-async", BAD_MULTIPART), ("experimenter", BAD_MULTIPART),
    ("set-config", BAD_MULTIPART)])
def test_d39_a_switch_without_a_feature_is_used_without_it(
        switch, shim, probe, request_, error):
    """D39: said once, not at every connection."""
    shim.refuse(lambda m: m.what == request_, *error, count=None)
    want_services(probe, range(1, 4))
    probe.sync()
    for n_dumps in 2, 3:
        shim.cut()
        wait_for(lambda n=n_dumps: probe.state()["n_dumps"] == n, 5,
                 "another dump", probe)
    assert probe.is_in_sync(5000) and len(flows_of(switch)) == 3
    assert probe.dump().count("refuses a request") == 1


# Broken connections.

def test_c1_everything_is_back_after_a_restart_of_the_switch(
        switch, shim, probe):
    """C1, C2."""
    want_services(probe, range(1, 301))
    probe.sync()
    before = switch.state()

    for hard in False, True:
        shim.clear()
        switch.restart(hard=hard)
        assert switch.dump_flows() in ([], before[0])
        wait_for(lambda: switch.state() == before, 10, "replay", probe)
        assert probe.is_in_sync(5000)
        assert shim.errors() == []
    assert probe.state()["n_connects"] == 3


def test_c4_two_cuts_during_the_replay_end_in_sync(
        tmp_path, switch, shim, probe):
    """C4, D06 (d)."""
    owners = range(1, 1201)
    shim.cut_on(lambda m: m.what == "commit")
    want_services(probe, owners)
    probe.send("flush")
    wait_for(lambda: probe.state()["n_connects"] >= 2, 10, "first", probe)
    shim.cut_on(lambda m: m.what == "group-desc request")
    shim.cut()
    shim.cut_on(lambda m: m.what == "flow reply")
    assert probe.is_in_sync(20000), (probe.state(), probe.dump())
    assert len(flows_of(switch)) == 1200
    assert probe.state()["n_connects"] >= 4
    assert probe.quit() == 0
    assert fresh_probe_changes(tmp_path, shim, owners) == []


def test_c4_cuts_at_random_moments_end_in_sync(
        tmp_path, switch, shim, probe):
    """C4, at every place where it can happen."""
    seed = random.randrange(2 ** 32)
    print("seed", seed)
    rng = random.Random(seed)
    for turn in range(8):
        owners = rng.sample(range(1, 400), 150)
        for owner in range(1, 400):
            if owner in owners:
                probe.want(owner, *service(owner, 1 + turn % 5))
            else:
                probe.want(owner)
        countdown = [rng.randrange(1, 400)]

        def now(_, countdown=countdown):
            countdown[0] -= 1
            return countdown[0] == 0
        shim.cut_on(now)
        probe.send("complete", "flush")
        if rng.random() < .5:
            switch.restart(hard=True)
        assert probe.is_in_sync(20000), (probe.state(), probe.dump())
        assert len(flows_of(switch)) == 150, "seed %d" % seed
        assert len(switch.dump_groups()) == 150, "seed %d" % seed
        shim.clear_rules()


def test_c5_a_switch_that_stays_away_is_waited_for(switch, shim, probe):
    """C5: endless, capped, quiet."""
    want_services(probe, range(1, 11))
    probe.sync()
    shim.close()
    shim.cut()
    time.sleep(5)       # Long against the backoff, whose cap is 2 s.
    state = probe.state()
    assert state["state"] in ("BACKOFF", "CONNECT") and not state["in_sync"]
    assert "No such file" in state["last_error"]
    probe.want(11, *service(11))
    probe.send("flush")
    assert len(re.findall("can't connect", probe.dump())) <= 2

    back = time.monotonic()
    shim.listen()
    assert probe.is_in_sync(10000), probe.dump()
    assert time.monotonic() - back < 3 * slowness()
    assert len(flows_of(switch)) == 11


def test_a_kick_connects_at_once(shim, probe):
    """When OVSDB says that the bridge is there."""
    probe.wait_up()
    shim.close()
    shim.cut()
    time.sleep(2)       # The backoff has reached its cap.
    shim.listen()
    start = time.monotonic()
    probe.send("kick")
    probe.wait_up(5000)
    assert time.monotonic() - start < 0.3 * slowness()


def test_c7_a_swallowed_commit_reply_costs_one_dump(switch, shim, probe):
    """C7."""
    want_services(probe, range(1, 6))
    probe.sync()
    shim.drop(lambda m: m.what == "commit-reply")
    shim.clear()
    probe.want(6, *service(6))
    probe.want(1)
    probe.send("flush")
    assert probe.is_in_sync(10000), (probe.state(), probe.dump())

    assert [m.what for m in shim.mods()] == [
        "group put", "flow add", "flow delete-strict", "group delete"] \
        or [m.what for m in shim.mods()].count("flow add") == 1
    assert shim.errors() == []
    assert len(flows_of(switch)) == 5
    assert probe.state()["n_dumps"] == 2
    assert "no reply within %d ms" % DEADLINE_MS in probe.dump()


@pytest.mark.parametrize("reply", [
    "barrier-reply", "flow reply", "group-desc reply"])
def test_c7_any_swallowed_reply_is_noticed(switch, shim, probe, reply):
    """Writes and dumps have a deadline."""
    probe.wait_up()
    shim.drop(lambda m: m.what == reply)
    shim.cut()
    want_services(probe, range(1, 6))
    probe.sync()
    assert shim.n_connections == 3
    assert len(flows_of(switch)) == 5


def test_c8_a_bundle_that_the_switch_gave_up_is_sent_again(
        switch, shim, probe):
    """C8: a stall between open and commit."""
    switch.vsctl("set", "Open_vSwitch", ".",
                 "other_config:bundle-idle-timeout=1")
    want_services(probe, range(1, 4))
    probe.sync()
    shim.clear()
    # Each below our own deadline, so that the switch's answer is what counts;
    # both together are longer than the two seconds in which the switch, which
    # looks once in one, gives the bundle up.
    stalled, late = [shim.delay(lambda m, what=what: m.what == what,
                                DEADLINE_MS / 1000 - 0.3)
                     for what in ("barrier-reply", "commit")]
    probe.want(4, *service(4))
    probe.send("flush")
    # Each look wakes the switch up, which then sees the bundle's age.
    wait_for(lambda: flows_of(switch) and late.hits, 5, "the commit", probe)
    for _ in range(5):
        time.sleep(0.2)
        flows_of(switch)
    assert probe.is_in_sync(15000), (probe.state(), probe.dump())
    assert stalled.hits == 1
    assert len(flows_of(switch)) == 4
    assert "bundle given up: OFPBFC_" in probe.dump()


def test_an_error_that_stays_is_not_answered_by_dump_after_dump(
        switch, shim, probe):
    """The backoff grows although each connection gets as far as the dump."""
    probe.wait_up()
    shim.refuse(lambda m: m.what == "commit", *NO_BUNDLE, count=None)
    want_services(probe, [1])
    probe.send("flush")
    time.sleep(5)
    assert 4 <= probe.state()["n_dumps"] <= 12
    shim.clear_rules()
    assert probe.is_in_sync(10000)
    assert len(flows_of(switch)) == 1


def test_a_bridge_without_openflow_15_is_named_and_waited_for(
        tmp_path, switch):
    """The operator's mistake is told, and its correction is noticed."""
    switch.allow(r"\|vconn\|WARN\|.*version negotiation failed",
                 r"\|rconn\|WARN\|.*(Protocol error|dropped)")
    switch.vsctl("set", "bridge", switch.bridge, "protocols=OpenFlow13")
    with Probe("unix:%s" % mgmt(switch), tmp_path / "log") as probe:
        wait_for(lambda: "OpenFlow15" in probe.dump(), 5, "the hint", probe)
        time.sleep(3)
        assert probe.dump().count("ofconn|WARN") <= 2, "not at every attempt"
        assert "rconn" not in probe.dump()
        switch.vsctl("set", "bridge", switch.bridge,
                     "protocols=OpenFlow13,OpenFlow15")
        probe.wait_up(5000)


def test_a_switch_that_asks_but_does_not_read_fills_no_memory(
        switch, shim, probe):
    """The queue of what is sent is bounded."""
    want_services(probe, [1])
    probe.sync()
    before = probe.state()["max_rss_kb"]
    shim.deaf(True)
    shim.inject((HEADER.pack(6, 2, 1024, 1) + bytes(1016)) * 20000)
    time.sleep(2)       # It would take all of it in much less.
    assert probe.state()["max_rss_kb"] < before + 10000
    assert shim.pending() > 10 << 20
    shim.deaf(False)
    wait_for(lambda: not shim.pending(), 10, "an end", probe)
    probe.want(2, *service(2))
    probe.sync()


def test_garbage_from_the_switch_does_no_harm(switch, shim, probe):
    """Messages that can't be, and an echo request between them."""
    want_services(probe, range(1, 4))
    probe.sync()
    shim.clear()
    for number in range(256):
        shim.inject(HEADER.pack(6, number, 16, 0) + bytes(8))
    shim.inject(HEADER.pack(6, 2, 12, 0xabcd) + b"ping")
    echo = wait_for(lambda: [m for m in shim.to_switch()
                             if m.type == "echo-reply" and m.xid == 0xabcd],
                    5, "an answer to the echo request", probe)
    assert echo[0].data[8:] == b"ping"
    probe.want(4, *service(4))
    probe.sync()
    assert len(flows_of(switch)) == 4 and shim.n_connections == 1


# What others do.

def repaired(switch, probe, before, what):
    """Waits for the state from before, for at most a second."""
    wait_for(lambda: switch.state() == before, 1, what, probe)
    assert probe.is_in_sync(5000), what


def test_c13_d35_what_others_do_to_ours_is_repaired_within_a_second(
        switch, probe):
    """C13, D35, promise 4."""
    switch.ofctl("add-group", "group_id=5,type=all,bucket=actions=drop")
    switch.ofctl("add-flow",
                 "table=12,priority=9,cookie=0x77,tcp,actions=group:5")
    want_services(probe, range(1, 101))
    probe.sync()
    before = switch.state()
    key = "table=12,priority=200,tcp,nw_dst=%s,tp_dst=80" % vip(3)
    group = group_id(4)

    for command, arguments in [
            ("del-flows", ("cookie=0x%x/-1" % cookie(2),)),
            ("del-flows", ("cookie=0xf900000000000000/0xff00000000000000",)),
            ("del-flows", ("table=12,tcp,nw_dst=%s" % vip(9),)),
            ("mod-flows", ("table=12,tcp,nw_dst=%s,actions=drop" % vip(9),)),
            ("add-flow", (key + ",cookie=0x%x,actions=drop" % cookie(3),)),
            ("add-flow", (key + ",cookie=0x77,actions=drop",)),
            ("add-flow", ("table=3,cookie=0x%x,actions=drop" % cookie(3),)),
            ("add-flow", ("cookie=0xf902000000000001,actions=drop",)),
            ("del-groups", ("group_id=%d" % group,)),
            ("mod-group", ("group_id=%d,type=select,bucket=actions=drop"
                           % group,)),
            ("add-group", ("group_id=%d,type=all,bucket=actions=drop"
                           % group_id(999),)),
            ("insert-buckets", ("group_id=%d,command_bucket_id=last,"
                                "bucket=bucket_id:77,actions=drop" % group,)),
            ("remove-buckets", ("group_id=%d,command_bucket_id=0" % group,)),
    ]:
        switch.ofctl(command, *arguments)
        repaired(switch, probe, before, command + " ".join(arguments))
    assert probe.state()["n_foreign"] > 100


def test_d35_all_groups_deleted_at_once_come_back_with_their_flows(
        switch, probe):
    """D35: OFPG_ALL, which takes the flows along."""
    want_services(probe, range(1, 101))
    probe.sync()
    before = switch.state()
    switch.ofctl("del-groups")
    repaired(switch, probe, before, "del-groups")


def test_d35_thousands_of_foreign_changes_are_followed(switch, probe):
    """D35: the switch pauses its notices and resumes them."""
    want_services(probe, range(1, 4001))
    probe.sync()
    before = switch.state()
    for _ in range(3):
        switch.ofctl("del-flows", "table=12")
        wait_for(lambda: switch.state() == before, 5, "repair", probe)
    assert probe.is_in_sync(5000)


def test_d35_foreign_changes_between_dump_and_follow_are_seen(
        switch, shim, probe):
    """D35: no gap between what is dumped and what is told later."""
    want_services(probe, range(1, 11))
    probe.sync()
    before = switch.state()
    for place in "flow reply", "group-desc reply", "barrier-reply":
        held = shim.delay(lambda m, place=place: m.what == place, 0.4)
        shim.cut()
        wait_for(lambda held=held: held.hits, 5, place, probe)
        switch.ofctl("del-flows", "cookie=0x%x/-1" % cookie(1))
        switch.ofctl("del-groups", "group_id=%d" % group_id(2))
        wait_for(lambda: switch.state() == before, 3, place, probe)
        assert probe.is_in_sync(5000)


def test_a_fight_over_one_flow_costs_little(switch, shim, probe):
    """Somebody deletes our flow as often as it can."""
    want_services(probe, [1])
    probe.sync()
    shim.clear()
    start = time.monotonic()
    n_deletes = 0
    while time.monotonic() - start < 2 or n_deletes < 100:
        switch.ofctl("del-flows", "table=12")
        n_deletes += 1
    took = time.monotonic() - start
    n_repairs = [m.what for m in shim.mods()].count("flow add")
    assert 0 < n_repairs <= 10 * took + 1, (n_repairs, n_deletes, took)
    assert probe.is_in_sync(2000)


# The meter.

def test_the_meters_are_set_once_and_kept(tmp_path, switch, shim, probe):
    """They limit packets to the daemon; others' changes of them are undone,
    and other meters are left alone."""
    probe.wait_up()

    def meters():
        text = " ".join(switch.ofctl("dump-meters").split())
        return all("meter=%d pktps burst bands= type=drop rate=500 "
                   "burst_size=1000" % n in text for n in (100, 101))
    wait_for(meters, 5, "the meters", probe)
    bands = ",".join(["type=drop,rate=7"] * 8)
    for n in range(200, 700):   # The list takes more than one message.
        switch.ofctl("add-meter", "meter=%d,pktps,bands=%s" % (n, bands))
    switch.ofctl("del-meter", "meter=100")
    wait_for(meters, 1, "the first after its deletion", probe)
    shim.clear()
    switch.ofctl("mod-meter", "meter=101,kbps,band=type=drop,rate=7")
    wait_for(meters, 1, "the second after its change", probe)
    assert [m.what for m in shim.mods()] == ["meter-mod"]
    assert len([m for m in shim.from_switch()
                if m.what == "meter-config reply"]) > 1
    assert switch.ofctl("dump-meters").count("rate=7") == 8 * 500
    switch.ofctl("del-meters")
    wait_for(meters, 1, "the meters after the deletion of all", probe)
    assert probe.quit() == 0
    assert fresh_probe_changes(tmp_path, shim, []) == []


# Packets.

def controller_flow(value):
    """Sends what comes in at p1 to controllers."""
    return "table=0,priority=5,cookie=0x%x,in_port=1," \
        "actions=controller(max_len=65535)" % value


FRAME = "50540000000a50540000000908004500001c000000004011f96cc0a80001" \
    "c0a800020035003500080000"


def test_packets_of_our_flows_come_in_and_answers_go_out(switch, probe):
    """The reject path's transport."""
    switch.add_dummy_pod("p1", ["192.0.2.1"], ofport=1)
    switch.add_dummy_pod("p2", ["192.0.2.2"], ofport=2)
    probe.want(1, [controller_flow(cookie(1))])
    probe.send("complete")
    probe.sync()

    switch.appctl("netdev-dummy/receive", "p1", FRAME)
    pins = wait_for(probe.packets, 5, "a packet", probe)
    assert [(p["cookie"], p["in_port"]) for p in pins] == [
        ("%#x" % cookie(1), 1)]
    assert pins[0]["packet"].startswith(FRAME)

    for port in 1, 2:
        before = sent(switch, port)
        probe.send("packet-out %d %s" % (port, FRAME))
        wait_for(lambda p=port, b=before: sent(switch, p) == b + 1, 5,
                 "the packet at port %d" % port, probe)


def sent(switch, port):
    """How many packets left through a port."""
    text = switch.ofctl("dump-ports", str(port))
    return int(re.search(r"tx pkts=(\d+)", text).group(1))


def test_packets_of_other_controllers_flows_are_not_taken(switch, probe):
    """Every controller action reaches every connection."""
    switch.add_dummy_pod("p1", ["192.0.2.1"], ofport=1)
    switch.ofctl("add-flow", controller_flow(0x77))
    probe.wait_up()
    switch.appctl("netdev-dummy/receive", "p1", FRAME)
    wait_for(lambda: "n_packets=1" in switch.ofctl("dump-flows"), 5,
             "the packet", probe)
    assert probe.packets() == []
    assert probe.state()["n_packet_ins"] == 0


def test_packets_that_nobody_takes_are_bounded(switch, probe):
    """256 are kept."""
    switch.add_dummy_pod("p1", ["192.0.2.1"], ofport=1)
    probe.want(1, [controller_flow(cookie(1))])
    probe.send("complete")
    probe.sync()
    for _ in range(10):
        switch.appctl("netdev-dummy/receive", "p1", *[FRAME] * 50)
    wait_for(lambda: probe.state()["n_packet_ins_dropped"] > 100, 10,
             "drops", probe)
    state = probe.state()
    assert len(probe.packets()) == 256
    assert state["n_packet_ins"] - state["n_packet_ins_dropped"] == 256
