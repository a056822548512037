# SPDX-License-Identifier: Apache-2.0
"""Gateway and ClusterInfoImport objects: the flows of each role, and every
change of them.  The new way is there before the old one goes, what is there
in the end is what a cold start makes."""
import os
import re
import subprocess

import pytest

from support import mcnode, objects, proc
from support.attach import pod_mac
from support.clusterset import NAMESPACE, ON, POD_TO_POD, cluster_info
from support.mcnode import MC_MAC, cluster_flows, gateway, node_flows
from support.rig import Rig, own_node
from support.wait import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

ME = ("n1", "203.0.113.1", "192.0.2.11")        # A Gateway of this node.
OTHER = ("n2", "203.0.113.2", "192.0.2.12")     # And of another one.
PEER_CIDR = "10.10.2.0/24"
WEST = ("west", ["203.0.113.21"], "10.97.0.0/16")
NORTH = ("north", ["203.0.113.31", "203.0.113.32"], "10.98.0.0/16")
OVERLAP = r"\|multicluster\|WARN\|"


def make_rig(directory, mode="encap", relay=False, config=None, objs=()):
    """A rig with this node, another one, and what else is given."""
    rig = Rig(directory, relay, trafficEncapMode=mode, **(config or ON))
    rig.objs = [own_node(), objects.node("n2", [PEER_CIDR], ["192.0.2.12"]),
                *objs]
    return rig


@pytest.fixture(name="mc")
def _mc(tmp_path):
    """A daemon that is the gateway to WEST."""
    with make_rig(tmp_path / "rig", relay=True, objs=[
            gateway(*ME), cluster_info(*WEST)]) as rig:
        rig.api.apply_all(rig.objs)
        yield rig.start_daemon()
        rig.check_quiet()


def wanted(rig, gw, clusters, routed=False):
    """The flows between clusters of this node: gw is who the gateway is,
    'clusters' (networks, gateways' addresses) of the other ones."""
    role = gw and ("gateway" if gw is ME or gw[0] == "n1" else "regular")
    mac = rig.gateway_mac()
    made = node_flows(role, mac, gw and gw[1], gw and gw[2])
    for networks, gateways in clusters:
        made.update(cluster_flows(
            role, mac, networks, gateways,
            gateways[0] if role == "gateway" else gw and gw[2], gw and gw[1]))
    if routed and role == "gateway":
        made[mcnode.L3, 210, "ip,dl_dst=%s,nw_dst=%s" % (
            MC_MAC, PEER_CIDR)] = (
                "set_field:%s->eth_src,set_field:%s->eth_dst,"
                "set_field:192.0.2.12->tun_dst,set_field:0x10/0xf0->reg0,"
                "goto_table:21" % (mac, mcnode.VIRTUAL_MAC))
    return made


def of(cluster):
    """(networks, gateways' addresses) of a cluster."""
    return [cluster[2]], cluster[1]


def check(rig, gw, *clusters, routed=False):
    """Waits until the flows are those, and fails unless a cold start makes
    the same."""
    def right():
        rig.daemon.check_running()
        seen.append((mcnode.flows(rig.switch),
                     wanted(rig, gw, clusters, routed)))
        return seen[-1][0] == seen[-1][1]

    def explain():
        there, want = seen[-1]
        return "there: %s\nwanted: %s\n%s" % (
            sorted(there.items() - want.items()),
            sorted(want.items() - there.items()), rig.dump())
    seen = []
    wait_for(right, 10, "the flows of %s, %s" % (gw, clusters), explain)
    rig.wait_settled()
    rig.check_cold_start()


class Monitor:
    """What comes and goes in a bridge's tables, in order."""

    EVENT = re.compile(r"event=(\w+)(?: reason=\w+)? table=(\d+) "
                       r"cookie=0xf9\w+ ?(\S*)")

    def __init__(self, rig):
        self._switch, self._n = rig.switch, 0
        self._lines = open(rig.dir / "monitor", "w+", encoding="utf-8")
        self._process = proc.start(
            "ovs-ofctl", "-O", "OpenFlow15", "--no-names",
            "--unixctl=%s" % (rig.switch.dir / "monitor.ctl"), "monitor",
            str(rig.switch.dir / (rig.switch.bridge + ".mgmt")),
            "watch:!initial", stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self._lines)
        self.events()

    def _text(self):
        self._lines.seek(0)
        return self._lines.read()

    def _mark(self):
        self._n += 1
        mark = "ip,nw_dst=198.51.100.%d" % self._n
        self._switch.ofctl("add-flow", "table=200,%s,actions=drop" % mark)
        return mark + "\n" in self._text()

    def events(self):
        """[(event, table, match)] until now."""
        wait_for(self._mark, 10, "the monitor", self._text)
        return self.EVENT.findall(self._text())

    def stop(self):
        """Ends it."""
        proc.stop(self._process)
        self._lines.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def deleted(events, table=mcnode.L3):
    """The matches of a table that were deleted at some time."""
    return [match for event, number, match in events
            if event == "DELETED" and int(number) == table]


def check_order(events):
    """All that came was there before anything went."""
    kinds = [event for event, _, _ in events]
    if "DELETED" in kinds:
        rest = kinds[kinds.index("DELETED"):]
        assert set(rest) == {"DELETED"}, events


@pytest.mark.parametrize("mode", ["encap", "noEncap", "hybrid"])
@pytest.mark.parametrize("gw", [ME, OTHER, None],
                         ids=["gateway", "regular", "none"])
def test_flows_of_each_role(tmp_path, mode, gw):
    """To two clusters, in each mode."""
    with make_rig(tmp_path, mode, objs=[cluster_info(*WEST),
                                        cluster_info(*NORTH)]) as rig:
        rig.api.apply_all(rig.objs + ([gateway(*gw)] if gw else []))
        rig.start_daemon()
        check(rig, gw, of(WEST), of(NORTH), routed=mode != "encap")
        rig.check_quiet()


def test_pod_networks_if_switched_on(tmp_path):
    """They go the same way."""
    with make_rig(tmp_path, config=POD_TO_POD) as rig:
        rig.api.apply_all(rig.objs + [
            gateway(*ME), cluster_info(*WEST, ["10.20.0.0/16"])])
        rig.start_daemon()
        check(rig, ME, (["10.97.0.0/16", "10.20.0.0/16"], WEST[1]))
        rig.api.apply(cluster_info(*WEST, ["10.21.0.0/16"]))
        check(rig, ME, (["10.97.0.0/16", "10.21.0.0/16"], WEST[1]))
        rig.check_quiet()


@pytest.mark.parametrize("gw", [ME, OTHER], ids=["gateway", "regular"])
def test_what_is_for_no_known_cluster_goes_no_further(mc, gw):
    """Where one has left, others send to it for a while; back in the tunnel
    by which it came it would come to this node, for ever.  A regular node
    leaves it to its gateway.  Nor may a pod send into the tunnel by the MAC
    address alone."""
    if gw is not ME:
        mc.api.delete("gateways", NAMESPACE, ME[0])
        mc.api.apply(gateway(*gw))
    check(mc, gw, of(WEST))
    mc.add_pod("p0", ["10.10.1.5"], 5)
    mc.daemon.wait_flow("table=SpoofGuard", "in_port=p0")
    mc.wait_settled()
    known, unknown = "10.97.0.9", "10.99.0.9"
    for start, dropped in (
            ("in_port=%d,tcp,tun_src=203.0.113.21,tun_dst=192.0.2.11,"
             "nw_src=203.0.113.21" % mcnode.TUNNEL,
             [unknown] if gw is ME else []),
            ("in_port=5,tcp,dl_src=%s,nw_src=10.10.1.5"
             % pod_mac("10.10.1.5"), [unknown])):
        for address in known, unknown:
            text = mc.switch.trace(
                "%s,dl_dst=%s,nw_dst=%s,nw_ttl=64,tp_src=1024,tp_dst=80"
                % (start, MC_MAC, address))
            found = re.findall(r"Datapath actions: (?:\S+,)?(\S+)", text)
            if address in dropped:
                assert found[-1] == "drop", text
            else:
                assert found[-1] == "1", text
                assert "set_field:%s->tun_dst" % (
                    WEST[1][0] if gw is ME else gw[2]) in text, text


# Changes.

def test_the_gateway_moves_and_comes_back(mc):
    """The way to the other cluster is changed where it is, never away."""
    check(mc, ME, of(WEST))
    with Monitor(mc) as monitor:
        for gw, old in ((OTHER, ME), (ME, OTHER)):
            with mc.api.batch():
                mc.api.apply(gateway(*gw))
                mc.api.delete("gateways", NAMESPACE, old[0])
            check(mc, gw, of(WEST))
        # But for what a regular node answers of its time as the gateway.
        assert not [m for m in deleted(monitor.events())
                    if "ct_mark=0x10/0x10" not in m]
        # What nodes send that don't know yet is passed on all the time.
        assert not [m for m in deleted(monitor.events(), mcnode.CLASSIFIER)
                    if "tun_src" not in m]
        assert not deleted(monitor.events(), mcnode.OUTPUT)


def test_the_new_gateway_comes_before_the_old_one_goes(mc):
    """The oldest stays the active one, until it is gone."""
    check(mc, ME, of(WEST))
    mc.daemon.allow(r"of 2 Gateways only the oldest, n1")
    mc.api.apply(gateway(*OTHER, created="2098-01-01T00:00:00Z"))
    mc.daemon.wait_log("only the oldest, n1, is used")
    check(mc, ME, of(WEST))
    with Monitor(mc) as monitor:
        mc.api.delete("gateways", NAMESPACE, "n1")
        check(mc, OTHER, of(WEST))
        assert not deleted(monitor.events())


def test_the_last_gateway_goes(mc):
    """With it all flows between clusters, and they come with the next."""
    mc.api.delete("gateways", NAMESPACE, "n1")
    check(mc, None, of(WEST))
    mc.api.apply(gateway(*OTHER))
    check(mc, OTHER, of(WEST))


def test_this_clusters_gateway_gets_other_addresses(mc):
    """On the gateway the source, on others the tunnel's end."""
    with Monitor(mc) as monitor:
        moved = ("n1", "203.0.113.7", "192.0.2.17")
        mc.api.apply(gateway(*moved))
        check(mc, moved, of(WEST))
        events = monitor.events()
        assert not deleted(events)
        assert not deleted(events, mcnode.SNAT)
        assert deleted(events, mcnode.UNSNAT) == [
            "ip,nw_dst=203.0.113.1"], events
    mc.api.delete("gateways", NAMESPACE, "n1")
    mc.api.apply(gateway(*OTHER))
    check(mc, OTHER, of(WEST))
    with Monitor(mc) as monitor:
        moved = ("n2", "203.0.113.8", "192.0.2.18")
        mc.api.apply(gateway(*moved))
        check(mc, moved, of(WEST))
        assert not deleted(monitor.events())


def test_m3_the_other_clusters_gateway_moves(mc):
    """Nothing keeps the old address."""
    check(mc, ME, of(WEST))
    with Monitor(mc) as monitor:
        mc.api.apply(cluster_info("west", ["203.0.113.29"], WEST[2]))
        check(mc, ME, ([WEST[2]], ["203.0.113.29"]))
        assert WEST[1][0] not in "".join(mc.switch.dump_flows())
        events = monitor.events()
        assert deleted(events) == ["ct_state=+rpl+trk,ip,nw_dst="
                                   + WEST[1][0]]
        check_order(events)


def test_clusters_come_and_go(mc):
    """The others stay as they are; of one that is gone nothing stays."""
    check(mc, ME, of(WEST))
    with Monitor(mc) as monitor:
        mc.api.apply(cluster_info(*NORTH))
        check(mc, ME, of(WEST), of(NORTH))
        mc.api.delete("clusterinfoimports", NAMESPACE, "north")
        check(mc, ME, of(WEST))
        assert not [e for e in monitor.events()
                    if WEST[1][0] in e[2] or WEST[2] in e[2]]
    text = "".join(mc.switch.dump_flows())
    assert not [a for a in NORTH[1] if a in text] and NORTH[2] not in text
    mc.api.delete("clusterinfoimports", NAMESPACE, "west")
    check(mc, ME)


def test_another_network_of_a_cluster(mc):
    """The new one is there before the old one goes."""
    check(mc, ME, of(WEST))
    with Monitor(mc) as monitor:
        mc.api.apply(cluster_info("west", WEST[1], "10.99.0.0/16"))
        check(mc, ME, (["10.99.0.0/16"], WEST[1]))
        events = monitor.events()
        assert deleted(events) == ["ip,nw_dst=" + WEST[2]]
        check_order(events)


def test_the_first_of_two_that_overlap_keeps_working(mc):
    """The second is named, and takes over when the first goes, without a
    gap."""
    mc.daemon.allow(OVERLAP)
    second = cluster_info("zeta", ["203.0.113.41"], WEST[2])
    with Monitor(mc) as monitor:
        mc.api.apply(second)
        mc.daemon.wait_log("ClusterInfoImport zeta: 10.97.0.0/16 is not "
                           "used: it overlaps 10.97.0.0/16 of west")
        check(mc, ME, of(WEST), ([], ["203.0.113.41"]))
        mc.api.delete("clusterinfoimports", NAMESPACE, "west")
        check(mc, ME, ([WEST[2]], ["203.0.113.41"]))
        assert "ip,nw_dst=" + WEST[2] not in deleted(monitor.events())
        assert not deleted(monitor.events(), mcnode.SNAT)
    assert "not used" not in mc.daemon.appctl("sync")


def test_a_part_of_what_has_gone_is_there_before(mc):
    """Two that overlap need not be equal."""
    mc.daemon.allow(OVERLAP)
    mc.api.apply(cluster_info("zeta", ["203.0.113.41"], "10.97.128.0/17"))
    mc.daemon.wait_log("ClusterInfoImport zeta: 10.97.128.0/17 is not used: "
                       "it overlaps 10.97.0.0/16 of west")
    with Monitor(mc) as monitor:
        mc.api.delete("clusterinfoimports", NAMESPACE, "west")
        check(mc, ME, (["10.97.128.0/17"], ["203.0.113.41"]))
        check_order(monitor.events())


@pytest.mark.parametrize("hard", [True, False], ids=["kill", "terminate"])
def test_who_is_first_outlives_a_restart(mc, hard):
    """The oldest, of equally old ones the first by name, in whatever order
    they came."""
    mc.daemon.allow(OVERLAP)
    mc.api.delete("clusterinfoimports", NAMESPACE, "west")
    made = {}
    for name, created in ("b", 3), ("c", 2), ("a", 2), ("d", 1):
        obj = cluster_info(name, ["203.0.113.4%d" % created],
                           "10.97.%d.0/24" % created)
        obj["metadata"]["creationTimestamp"] = (
            "2026-01-01T00:00:0%dZ" % created)
        made[name] = obj
        mc.api.apply(obj)
    check(mc, ME, (["10.97.1.0/24"], ["203.0.113.41"]),
          (["10.97.2.0/24"], ["203.0.113.42"]),
          (["10.97.3.0/24"], ["203.0.113.43"]))
    made["b"]["spec"]["serviceCIDR"] = "10.97.0.0/16"
    mc.api.apply(made["b"])
    check(mc, ME, (["10.97.1.0/24"], ["203.0.113.41"]),
          (["10.97.2.0/24"], ["203.0.113.42"]), ([], ["203.0.113.43"]))
    before = mc.daemon.appctl("sync")
    mc.shim.clear()
    mc.restart_daemon(hard=hard)
    assert mc.shim.mods() == []
    for line in before.splitlines():
        if "ClusterInfoImport " in line or "(%s):" % line[2:3] in line:
            assert line in mc.daemon.appctl("sync")
    assert "10.97.2.0/24 of a" in mc.daemon.appctl("sync")


@pytest.mark.parametrize("obj", [
    objects.node("n3", ["10.97.5.0/24"], ["192.0.2.13"]),
    objects.node("n3", ["10.10.3.0/24"], ["10.97.5.13"]),
    objects.service_cidr("kubernetes", ["10.97.4.0/22"])],
    ids=["pods", "address", "Services"])
def test_what_this_cluster_gets_later_is_its_own(mc, obj):
    """The other cluster loses the network with the change that brings it
    here, and gets it back."""
    mc.daemon.allow(OVERLAP)
    check(mc, ME, of(WEST))
    mc.shim.clear()
    mc.api.apply(obj)
    check(mc, ME, ([], WEST[1]))
    assert [m.what for m in mc.shim.to_switch()].count("commit") == 1
    mc.api.delete(obj)
    check(mc, ME, of(WEST))


def test_a_gateway_with_an_address_of_this_cluster(mc):
    """Answers for that address are not for another cluster."""
    mc.daemon.allow(OVERLAP)
    own = "203.0.113.21"
    check(mc, ME, of(WEST))
    mc.api.apply(objects.node("n3", ["10.10.3.0/24"], [own]))
    mc.daemon.wait_log("ClusterInfoImport west: gateway %s/32 is not used: "
                       "an address of Node n3 is in it" % own)
    check(mc, ME)
    mc.api.apply(cluster_info("west", [own, "203.0.113.22", "203.0.113.22"],
                              WEST[2]))
    check(mc, ME, ([WEST[2]], ["203.0.113.22"]))


@pytest.mark.parametrize("network", [PEER_CIDR, "10.10.1.128/25",
                                     "10.96.0.0/20", "192.0.2.0/24"])
def test_networks_of_this_cluster_are_not_given_away(mc, network):
    """Pods of this node and others, Services, and nodes."""
    mc.daemon.allow(OVERLAP)
    mc.api.apply(objects.service_cidr("kubernetes", ["10.96.0.0/16"]))
    mc.api.apply(cluster_info("bad", ["203.0.113.41"], network))
    mc.daemon.wait_log("ClusterInfoImport bad: %s is not used" % network)
    check(mc, ME, of(WEST), ([], ["203.0.113.41"]))


# Objects that are not as they should be.

def test_a_server_without_the_kinds(tmp_path):
    """It is said once, and the rest works; they are asked for again after
    30 to 60 s, and used when they are there."""
    with make_rig(tmp_path) as rig:
        kinds = [rig.api.store.resource(k)
                 for k in ("gateways", "clusterinfoimports")]
        for kind in kinds:
            rig.api.store.remove_resource(kind)
        rig.n_watches -= len(kinds)
        rig.api.apply_all(rig.objs + [objects.service("ns1", "web")])
        rig.daemon.allow("list: HTTP 404")
        rig.start_daemon()
        rig.wait_lookup("10.96.0.10", "reject")
        for kind in kinds:
            assert len([line for line in rig.daemon.log_lines()
                        if "|%s: " % kind.plural in line
                        and "need not have them" in line]) == 1
        check(rig, None)
        for kind in kinds:
            rig.api.add_resource(kind)
        rig.n_watches += len(kinds)
        rig.api.apply_all([gateway(*ME), cluster_info(*WEST)])
        for kind in kinds:
            rig.daemon.wait_log(kind.plural + ": listed", 70)
        check(rig, ME, of(WEST))


def bad(what):
    """A ClusterInfoImport that can't be used."""
    obj = cluster_info("bad", ["203.0.113.41"], "10.99.0.0/16")
    what(obj["spec"])
    return obj


@pytest.mark.parametrize("what", [
    lambda s: s.update(serviceCIDR="10.99.0.0"),
    lambda s: s.update(serviceCIDR="10.99.0.0/33"),
    lambda s: s.pop("serviceCIDR"), lambda s: s.update(gatewayInfos=[]),
    lambda s: s.update(gatewayInfos=[{"gatewayIP": "gw.example.com"}]),
    lambda s: s.update(gatewayInfos=7)],
    ids=["no length", "length", "no network", "no gateway", "a name",
         "a number"])
def test_a_bad_cluster_is_named_and_the_others_go_on(mc, what):
    """And when it is mended it is used."""
    mc.daemon.allow(r"\|kube\|WARN\|clusterinfoimports:")
    mc.api.apply(bad(what))
    mc.daemon.wait_log("ClusterInfoImport multicluster/bad: ")
    mc.api.apply(cluster_info(*NORTH))
    check(mc, ME, of(WEST), of(NORTH))
    mc.api.apply(cluster_info("bad", ["203.0.113.41"], "10.99.0.0/16"))
    check(mc, ME, of(WEST), of(NORTH), (["10.99.0.0/16"], ["203.0.113.41"]))


def test_a_bad_gateway_is_named(mc):
    """The one that it was stays in use."""
    mc.daemon.allow(r"\|kube\|WARN\|gateways:")
    made = gateway(*ME)
    made["gatewayIP"] = "203.0.113.300"
    mc.api.apply(made)
    mc.daemon.wait_log("Gateway multicluster/n1: ")
    mc.api.apply(cluster_info(*NORTH))
    wait_for(lambda: mcnode.flows(mc.switch) == wanted(
        mc, ME, [of(WEST), of(NORTH)]), 10, "the other objects", mc)


# Daemon and switch.

@pytest.mark.parametrize("hard", [True, False], ids=["kill", "terminate"])
def test_a_restart_sends_nothing(mc, hard):
    """All that is there is right."""
    check(mc, ME, of(WEST))
    before = mc.state().lines
    mc.restart_daemon(hard)
    assert mc.state().lines == before
    assert "sent: 0 flow puts, 0 flow deletes" in mc.daemon.appctl("sync")


FAULTS = {"forbidden": {"status": 403}, "error": {"status": 500},
          "silence": {"stall_after": 40}, "drops": {"drip": (1, 1)}}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("gw", [ME, OTHER], ids=["gateway", "regular"])
def test_a_restart_while_the_kinds_cant_be_listed(tmp_path, fault, gw):
    """What is between clusters stays as it is, while Services go on; when
    the kinds have been listed, what is not wanted goes."""
    with make_rig(tmp_path / "rig", "noEncap", objs=[
            gateway(*gw), cluster_info(*WEST), cluster_info(*NORTH)]) as rig:
        rig.api.apply_all(rig.objs)
        rig.start_daemon()
        check(rig, gw, of(WEST), of(NORTH), routed=True)
        before = mcnode.flows(rig.switch)
        rig.daemon.allow(r"\|kube\|WARN\|(gateways|clusterinfoimports): list")
        rig.daemon.kill()
        rig.api.delete("clusterinfoimports", NAMESPACE, "north")
        rig.api.apply(objects.service("ns1", "web"))
        for kind in ("gateways", "clusterinfoimports"):
            rig.api.fault(resource=kind, verb="list", count=1000,
                          **FAULTS[fault])
        rig.daemon.start()
        rig.wait_lookup("10.96.0.10", "reject")
        wait_for(lambda: "flows that were there stay" in
                 rig.daemon.appctl("sync") and rig.daemon.in_sync(), 10,
                 "all else", rig)
        assert mcnode.flows(rig.switch) == before
        if fault == "error":    # Asked for again soon.
            rig.api.clear_faults()
            check(rig, gw, of(WEST), routed=True)
            assert "flows that were there" not in rig.daemon.appctl("sync")
        rig.check_quiet()


@pytest.mark.parametrize("was", [ME, OTHER], ids=["gateway", "regular"])
def test_the_gateway_restarts_while_clusters_cant_be_listed(tmp_path, was):
    """What it had for them stays, unless it is of the time when another node
    was the gateway: that would send all back, until its TTL ends."""
    with make_rig(tmp_path / "rig", objs=[
            gateway(*was), cluster_info(*WEST)]) as rig:
        rig.api.apply_all(rig.objs)
        rig.start_daemon()
        check(rig, was, of(WEST))
        rig.daemon.allow(r"\|kube\|WARN\|clusterinfoimports: list")
        rig.daemon.kill()
        with rig.api.batch():
            rig.api.delete("gateways", NAMESPACE, was[0])
            rig.api.apply(gateway(*ME))
        rig.api.forbid("clusterinfoimports", "list")
        rig.daemon.start()
        want = wanted(rig, ME, [of(WEST)] if was is ME else [])
        wait_for(lambda: mcnode.flows(rig.switch) == want and (
            "flows that were there stay" in rig.daemon.appctl("sync")) == (
                was is ME) and rig.daemon.in_sync(), 10,
                 "the flows of the gateway", rig)
        rig.check_quiet()


def test_without_the_feature_all_goes(tmp_path):
    """It is switched off, and ofproxyd started again."""
    with make_rig(tmp_path / "rig", objs=[
            gateway(*ME), cluster_info(*WEST)]) as rig:
        rig.api.apply_all(rig.objs)
        rig.start_daemon()
        check(rig, ME, of(WEST))
        rig.daemon.terminate()
        rig.config = {k: v for k, v in rig.config.items() if k not in ON}
        rig.n_watches = 4
        rig.daemon.write_config(**rig.config)
        rig.start_daemon()
        check(rig, None)
        rig.check_quiet()


@pytest.mark.parametrize("own", ["antrea", None])
def test_the_namespace_is_the_agents_unless_it_is_named(
        tmp_path, monkeypatch, own):
    """And kube-system if that isn't known; objects of other namespaces are
    not looked at."""
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    if own:
        monkeypatch.setenv("POD_NAMESPACE", own)
    config = {**ON, "multicluster": {"enableGateway": True}}
    with make_rig(tmp_path / "rig", config=config) as rig:
        rig.api.apply_all(rig.objs)
        for obj in (gateway(*ME), cluster_info(*WEST)):
            rig.api.apply({**obj, "metadata": {
                **obj["metadata"], "namespace": own or "kube-system"}})
        rig.api.apply_all([gateway(*OTHER, created="2001-01-01T00:00:00Z"),
                           cluster_info(*NORTH)])
        rig.start_daemon()
        check(rig, ME, of(WEST))
        rig.check_quiet()


def test_a_switch_that_has_lost_all_gets_all_again(mc):
    """In Antrea flows to pods of the gateway are missing then (M1)."""
    check(mc, ME, of(WEST))
    mc.daemon.allow(r"\|ofconn\|WARN\|.*: (connection given up|can't connect)")
    mc.switch.restart()
    check(mc, ME, of(WEST))
    mc.shim.cut()
    mc.switch.ofctl("del-flows")
    check(mc, ME, of(WEST))


def test_what_is_meddled_with_comes_back(mc):
    """Deleted, changed and added flows of a cluster."""
    check(mc, ME, of(WEST))
    mc.switch.ofctl("del-flows", "table=20,ip,nw_dst=" + WEST[2])
    mc.switch.ofctl("mod-flows", "table=23,ip,nw_dst=%s actions=drop"
                    % WEST[2])
    check(mc, ME, of(WEST))


def test_cluster_ips_as_endpoints(mc):
    """Of this cluster: chosen from in turn; of another one: as they are; of
    itself: a reject."""
    mc.daemon.allow("ns1/loop:.* is its own cluster IP")
    mc.api.apply(objects.service_cidr("kubernetes", ["10.96.0.0/16"]))
    mc.api.apply_all([
        objects.service("ns1", "web", cluster_ips=["10.96.0.10"]),
        objects.slice_("ns1", "web", ["10.10.2.5"], [(8080, "")]),
        objects.service("ns1", "mc-web", cluster_ips=["10.96.0.11"]),
        objects.slice_("ns1", "mc-web", ["10.96.0.10", "10.97.0.10"],
                       [(80, "")]),
        objects.service("ns1", "loop", cluster_ips=["10.96.0.12"]),
        objects.slice_("ns1", "loop", ["10.96.0.12"], [(80, "")])])
    mc.wait_lookup("10.96.0.10", ["10.10.2.5:8080"])
    mc.wait_settled()
    mc.check_cold_start()
    group, = [g for g in mc.switch.dump_groups(names=False)
              if "nat(dst=10.97.0.10:80)" in g]
    # 10.96.0.10 in the registers of endpoints, and its Service's flow.
    assert group.count("bucket_id:") == 2 and "0xa60000a->reg3" in group
    flow, = [f for f in mc.switch.dump_flows("table=14", names=False)
             if "reg3=0xa60000a," in f]
    web, = re.findall(r"group:(\d+)", flow)
    assert [g for g in mc.switch.dump_groups(names=False)
            if g.startswith("group_id=%s," % web)
            and "nat(dst=10.10.2.5:8080)" in g]
    # One that is its own endpoint: one step deep nothing is looked up again.
    mc.add_pod("p0", ["10.10.1.5"], 5)
    mc.wait_settled()

    def is_rejected():
        return "controller(" in mc.switch.trace(
            "in_port=5,tcp,dl_src=%s,dl_dst=%s,nw_src=10.10.1.5,"
            "nw_dst=10.96.0.12,nw_ttl=64,tp_src=1024,tp_dst=80" % (
                pod_mac("10.10.1.5"), mc.gateway_mac()))
    wait_for(is_rejected, 10, "a reject", mc)
