# SPDX-License-Identifier: Apache-2.0
"""Trouble with the order of updates: races, edits in place, deletes that come
together with creates.

See docs/trouble-cases.md for the cases.
"""
import itertools
import random
import time

import pytest

from support import objects
from support.objects import endpoint, slice_
from support.rig import is_ours, object_id_of, own_node

VIP = "10.96.0.10"
VIP6, BALANCED = "2001:db8:96::10", "203.0.113.10"
INVALID_GROUP = (6, 1)          # (type, code) of OFPT_ERROR.
SEED = 7


def mod_lines(shim):
    """What the daemon changed: (what, groups that are used or concerned)."""
    return [(m.what, m.groups_used if m.what.startswith("flow")
             else {m.group_id}) for m in shim.mods()
            if m.what != "meter-mod"]


def check_order(shim, present):
    """No flow named a missing group, none was left behind when a group was
    deleted, and the switch had nothing to complain of."""
    users = {}                  # Priority and match: groups.
    for message in shim.mods():
        if message.what == "group put":
            present.add(message.group_id)
        elif message.what == "group delete":
            used = set().union(*users.values()) if users else set()
            assert message.group_id not in used, message
            present.discard(message.group_id)
        elif message.what == "flow add":
            assert message.groups_used <= present, message
            users[key_of(message)] = message.groups_used
        elif message.what == "flow delete-strict":
            users.pop(key_of(message), None)
    assert shim.errors() == []


def key_of(message):
    """The bytes of a flow-mod that tell which flow it is about."""
    length = int.from_bytes(message.inner[50:52], "big")
    return (message.inner[24], message.priority,
            message.inner[48:48 + length])


def group_ids(rig):
    """Of the groups on the bridge."""
    return {int(g.split(",")[0].split("=")[1])
            for g in rig.switch.dump_groups()}


@pytest.mark.parametrize("policy, address", [
    ("internalTrafficPolicy", VIP), ("externalTrafficPolicy", BALANCED)])
def test_b1_d03_policy_edits_never_name_a_missing_group(rig, policy, address):
    """100 of them, 0 to 5 ms apart, with an endpoint for each policy."""
    def svc(value):
        return objects.service(
            "ns1", "svc-a", type="LoadBalancer",
            status={"loadBalancer": {"ingress": [{"ip": BALANCED}]}},
            **{policy: value})

    rng = random.Random(SEED)
    rig.config["antreaProxy"] = {"proxyAll": True}
    rig.daemon.write_config(**rig.config)
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1"),
                                          endpoint("10.10.2.5", "n2")]))
    rig.api.apply(svc("Cluster"))
    rig.start_daemon()
    rig.wait_lookup(address, ["10.10.1.5:80", "10.10.2.5:80"])
    present = group_ids(rig)
    rig.shim.clear()
    for i in range(100):
        rig.api.apply(svc(("Local", "Cluster")[i % 2]))
        time.sleep(rng.random() * .005)
    rig.api.apply(svc("Local"))
    rig.wait_lookup(address, ["10.10.1.5:80"])
    rig.check_cold_start()
    check_order(rig.shim, present)
    assert len(rig.switch.dump_groups()) == 2


class Recreation:
    """A Service and its slices that are deleted and created, in steps whose
    order across the two watches a test can choose."""

    def __init__(self, rig):
        self.rig, self.api = rig, rig.api

    def begin(self):
        """The state from which all orders start."""
        self.api.delete("endpointslices", "ns1", "svc-a-new")
        self.api.apply_all([self._svc("old"), self._slice("old",
                                                          "10.10.1.5")])
        self.rig.wait_lookup(VIP, ["10.10.1.5:80"])

    @staticmethod
    def _svc(uid):
        return objects.service("ns1", "svc-a", uid=uid, created=(
            "2026-01-01T00:00:0%dZ" % (uid == "new")))

    @staticmethod
    def _slice(name, address):
        return slice_("ns1", "svc-a", [address], suffix=name)

    def delete_svc(self):
        """DELETED svc-a."""
        self.api.delete("services", "ns1", "svc-a")

    def add_svc(self):
        """ADDED svc-a, of the same address."""
        self.api.apply(self._svc("new"))

    def delete_slice(self):
        """DELETED its slice."""
        self.api.delete("endpointslices", "ns1", "svc-a-old")

    def add_slice(self):
        """ADDED another slice."""
        self.api.apply(self._slice("new", "10.10.1.6"))


ORDERS = [order for order in itertools.permutations(
    ("delete_svc", "add_svc", "delete_slice", "add_slice"))
          if order.index("delete_svc") < order.index("add_svc")]


@pytest.mark.parametrize("step_by_step", [False, True])
def test_b2_d04_delete_and_recreate_in_any_order_is_a_cold_start(
        rig, step_by_step):
    """Or all at once."""
    again = Recreation(rig)
    rig.start_daemon()
    cold = None
    for order in ORDERS:
        again.begin()
        if step_by_step:
            for step in order:
                getattr(again, step)()
                rig.wait_settled()
        else:
            with rig.api.batch():
                for step in order:
                    getattr(again, step)()
        rig.wait_lookup(VIP, ["10.10.1.6:80"])
        rig.wait_settled()      # The Service may come after its slices.
        if cold is None:
            cold = rig.check_cold_start()
        assert rig.state().differences(cold) == "", order
    assert rig.shim.errors() == []


@pytest.mark.parametrize("late", ["services", "endpointslices", None])
def test_b2_d04_slices_that_stay_belong_to_the_new_service(rig, late):
    """They are untouched, or come a second later; the Service is deleted and
    created in one chunk."""
    again = Recreation(rig)
    rig.start_daemon()
    again.begin()
    before = rig.check_cold_start()
    if late:
        rig.api.hold(late)
    with rig.api.batch():
        again.delete_svc()
        again.add_svc()
        if late == "endpointslices":
            again.delete_slice()
            again.add_slice()
    if late:
        time.sleep(1)
        rig.api.release(late)
    if late == "endpointslices":
        rig.wait_lookup(VIP, ["10.10.1.6:80"])
        rig.check_cold_start()
    else:
        rig.wait_settled()
        assert rig.check_cold_start().differences(before) == ""


def test_b4_an_edited_policy_leaves_no_stale_flow(rig):
    """Of internalTrafficPolicy."""
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2")]))
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.start_daemon()
    rig.wait_lookup(VIP, ["10.10.2.5:80"])
    rig.api.apply(objects.service("ns1", "svc-a",
                                  internalTrafficPolicy="Local"))
    rig.wait_lookup(VIP, "drop")
    state = rig.check_cold_start()
    assert not [line for line in state.lines if line.startswith("group_id")]


def test_b5_d12_a_service_that_goes_takes_nothing_of_another_on_its_pod(rig):
    """Also if its removal is refused first."""
    for name, number in (("svc-a", 10), ("svc-b", 11)):
        rig.api.apply(objects.service(
            "ns1", name, cluster_ips=["10.96.0.%d" % number]))
        rig.api.apply(slice_("ns1", name, ["10.10.1.5"]))
    rig.api.apply(objects.service(
        "ns1", "svc-c", [objects.port(80, "dns", "UDP")], ["10.96.0.12"]))
    rig.api.apply(slice_("ns1", "svc-c", ["10.10.1.5"],
                         [(80, "dns", "UDP")]))
    rig.start_daemon()
    others = [("10.96.0.11", "tcp"), ("10.96.0.12", "udp")]
    for vip, proto in others:
        rig.wait_lookup(vip, ["10.10.1.5:80"], proto=proto)

    refusal = rig.shim.refuse(lambda m: m.what == "flow delete-strict",
                              *INVALID_GROUP, count=2)
    rig.daemon.allow(r"the switch refuses to delete",
                     r"the switch refused it")
    rig.api.delete("services", "ns1", "svc-a")
    rig.wait_lookup("10.96.0.10", None)
    assert refusal.hits == 2
    for vip, proto in others:
        assert rig.lookup(vip, proto=proto) == ["10.10.1.5:80"]
    rig.check_cold_start()


def test_b7_a_thousand_cycles_leave_nothing_behind(rig):
    """Neither ids nor groups nor memory."""
    rig.start_daemon()
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.api.apply(slice_("ns1", "svc-a", ["10.10.1.5"]))
    before = rig.check_cold_start()
    rss = None
    for i in range(1000):
        rig.api.delete("services", "ns1", "svc-a")
        if i % 50 == 0:
            rig.wait_lookup(VIP, None)
        rig.api.apply(objects.service("ns1", "svc-a"))
        if i % 50 == 25:
            rig.wait_lookup(VIP, ["10.10.1.5:80"])
            rss = rss or rig.daemon.rss_kib()
    rig.wait_lookup(VIP, ["10.10.1.5:80"])
    rig.wait_settled()
    assert rig.check_cold_start().differences(before) == ""
    assert rig.daemon.rss_kib() < rss + 1024


def test_b11_our_own_node_recreated_with_other_networks_leaves_none(rig):
    """DELETE and ADD come as one."""
    rig.start_daemon()
    with rig.api.batch():
        rig.api.delete("nodes", "", "n1")
        rig.api.apply(own_node(["10.10.9.0/24", "2001:db8:10:9::/64"]))
    rig.daemon.wait_flow("10.10.9.1")
    state = rig.check_cold_start()
    assert not [line for line in state.lines if "10.10.1." in line]
    addresses = rig.ns.ip("-o", "addr", "show", "antrea-gw0")
    assert "10.10.9.1/24" in addresses and "10.10.1.1" not in addresses


def test_b13_an_endpoint_that_moves_between_slices_stays(rig):
    """ADD slice-2, then DELETE slice-1; no moment without it."""
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.api.apply(slice_("ns1", "svc-a", ["10.10.1.5"], suffix="1"))
    rig.start_daemon()
    rig.wait_lookup(VIP, ["10.10.1.5:80"])
    rig.shim.clear()
    rig.api.apply(slice_("ns1", "svc-a", ["10.10.1.5"], suffix="2"))
    rig.wait_settled()
    rig.api.delete("endpointslices", "ns1", "svc-a-1")
    rig.wait_settled()
    rig.check_cold_start()
    assert mod_lines(rig.shim) == []


def test_b16_d08_what_changed_in_an_outage_is_done_after_it(rig):
    """The watch's version is too old then, so that only comparing with the
    new lists can tell."""
    for number, name in enumerate(("svc-a", "svc-b", "svc-c"), 10):
        rig.api.apply(objects.service("ns1", name, cluster_ips=[
            "10.96.0.%d" % number]))
        for suffix, address in ("x", "10.10.1.5"), ("y", "10.10.1.6"):
            rig.api.apply(slice_("ns1", name, [address], suffix=suffix))
    rig.start_daemon()
    rig.daemon.allow(r"\|kube\|WARN\|.*")
    rig.wait_lookup("10.96.0.12", ["10.10.1.5:80", "10.10.1.6:80"])
    rig.api.stop()
    rig.daemon.wait_log("next try in")
    rig.api.delete("services", "ns1", "svc-a")
    rig.api.delete("endpointslices", "ns1", "svc-b-x")
    rig.api.apply(objects.service("ns1", "svc-c", [8080],
                                  cluster_ips=["10.96.0.12"]))
    rig.api.compact()
    assert rig.lookup("10.96.0.10") == ["10.10.1.5:80", "10.10.1.6:80"]
    rig.api.start()
    rig.wait_lookup("10.96.0.10", None)
    rig.wait_lookup("10.96.0.11", ["10.10.1.6:80"])
    rig.wait_lookup("10.96.0.12", None)
    rig.wait_lookup("10.96.0.12", ["10.10.1.5:80", "10.10.1.6:80"],
                    port=8080)
    rig.check_cold_start()


def test_b19_an_added_family_leaves_the_other_alone(rig):
    """Its flow and its group are neither changed nor sent again."""
    def svc(*addresses):
        return objects.service("ns1", "svc-a", cluster_ips=addresses)

    rig.api.apply(slice_("ns1", "svc-a", ["10.10.1.5"], suffix="v4"))
    rig.api.apply(slice_("ns1", "svc-a", ["2001:db8:10:1::5"], suffix="v6"))
    rig.api.apply(svc(VIP))
    rig.start_daemon()
    rig.wait_lookup(VIP, ["10.10.1.5:80"])
    before = set(filter(is_ours, rig.switch.dump_flows("table=12",
                                                       names=False)
                        + rig.switch.dump_groups(names=False)))
    rig.shim.clear()
    rig.api.apply(svc(VIP, VIP6))
    rig.wait_lookup(VIP6, ["[2001:db8:10:1::5]:80"])
    state = rig.check_cold_start()
    assert before <= set(state.lines)
    (number,) = (n for unit, n in state.ids.items() if "IPv6" in unit)
    added = [line for line in state.lines if object_id_of(line) == number]
    # One flow is for other ports of the new cluster IP.
    assert [what for what, _ in mod_lines(rig.shim)] == [
        "group put", "flow add", "flow add"]
    assert len(added) == 2

    rig.shim.clear()
    rig.api.apply(svc(VIP))
    rig.wait_lookup(VIP6, None)
    assert before <= set(rig.check_cold_start().lines)
    assert [what for what, _ in mod_lines(rig.shim)] == [
        "flow delete-strict", "flow delete-strict", "group delete"]
