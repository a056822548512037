# SPDX-License-Identifier: Apache-2.0
"""Trouble with dual stack, SCTP, configuration and the API server, as far as
the daemon as a whole shows it.

See docs/trouble-cases.md for the cases.
"""
import random
import subprocess
import time

import pytest

from support import apistore, objects
from support.daemon import binary
from support.objects import slice_
from support.rig import POD_CIDRS, PROXY_NAME, own_node

VIP, VIP6 = "10.96.0.10", "2001:db8:96::10"
SEED = 3
POD, POD6, POD_MAC = "10.10.1.2", "2001:db8:10:1::2", "0a:58:0a:0a:01:02"


def dual(name="svc-a", **more):
    """A dual-stack Service."""
    return objects.service("ns1", name, cluster_ips=(VIP, VIP6), **more)


# I: dual stack.

def test_i1_both_families_take_their_group_ids_from_one_space(rig):
    """With policy Cluster and Local, and more endpoints than one group
    holds."""
    rig.api.apply(dual())
    rig.api.apply(slice_("ns1", "svc-a",
                         ["10.20.%d.%d" % (i // 200, i % 200 + 1)
                          for i in range(600)], suffix="v4"))
    rig.api.apply(slice_("ns1", "svc-a", ["2001:db8:20::%x" % (i + 1)
                                          for i in range(600)], suffix="v6"))
    rig.start_daemon()
    rig.wait_lookup(VIP6, sorted("[2001:db8:20::%x]:80" % (i + 1)
                                 for i in range(600)))
    state = rig.check_cold_start()
    groups = [line for line in state.lines if line.startswith("group_id")]
    assert len(groups) == len({g.split(",")[0] for g in groups}) == 6
    assert not [g for g in groups if "dst=10." in g and "dst=[2001" in g]


def test_i2_a_node_of_one_family_serves_that_one(rig):
    """And the other one as far as it goes; it gets the other later."""
    rig.api.apply(own_node(["10.10.1.0/24"]))
    rig.api.apply(dual())
    rig.api.apply(slice_("ns1", "svc-a", [POD], suffix="v4"))
    rig.api.apply(slice_("ns1", "svc-a", [POD6], suffix="v6"))
    rig.start_daemon()
    rig.wait_lookup(VIP, [POD + ":80"])
    rig.check_cold_start()
    rig.api.apply(own_node())
    rig.daemon.wait_flow("2001:db8:10:1::1")
    rig.check_cold_start()


def test_i2_routes_follow_the_families_of_the_node(rig):
    """Never with a source address that the gateway has lost."""
    rng = random.Random(SEED)
    rig.config["antreaProxy"] = {"proxyAll": True}
    rig.daemon.write_config(**rig.config)
    for i in range(10):
        rig.api.apply(objects.service("ns1", "svc-%d" % i, cluster_ips=(
            "10.96.0.%d" % (i + 1), "2001:db8:96::%x" % (i + 1))))
    rig.start_daemon()
    for _ in range(20):
        rig.api.apply(own_node(rng.choice((
            POD_CIDRS, POD_CIDRS[:1], POD_CIDRS[1:]))))
        time.sleep(rng.random() * .2)
    rig.api.apply(own_node())
    rig.wait_settled()
    rig.wait_routes()
    assert len(rig.routes()) == 20


def test_i4_odd_pod_networks_stop_nothing(rig):
    """The same one twice; and a Node with one that cannot be read, of which
    what was known stays."""
    rig.daemon.allow("nodes: an object is left out: Node n1: ")
    rig.api.apply(own_node(["10.10.1.0/24", "10.10.1.0/24",
                            "2001:db8:10:1::/64"]))
    rig.api.apply(dual())
    rig.start_daemon()
    before = rig.check_cold_start()
    rig.api.apply(own_node(["10.10.1.0/33"]))
    rig.daemon.wait_log('Node n1: spec.podCIDR: found "10.10.1.0/33"')
    rig.api.apply(dual("svc-b", created="2026-01-01T00:00:00Z"))
    rig.api.apply(own_node())
    rig.api.delete("services", "ns1", "svc-b")
    rig.wait_settled()
    assert rig.check_cold_start().differences(before) == ""


# J: SCTP.

def test_j2_sctp_that_conntrack_calls_invalid_reaches_the_services(rig):
    """Its first packet; one of TCP that is called invalid does not."""
    rig.api.apply(objects.service("ns1", "svc-a", [
        objects.port(80, "s", "SCTP"), objects.port(80, "t", "TCP")]))
    rig.api.apply(slice_("ns1", "svc-a", ["10.10.1.3"],
                         [(80, "s", "SCTP"), (80, "t", "TCP")]))
    rig.start_daemon()
    rig.add_pod("p1", [POD, POD6], 1)
    rig.daemon.wait_flow("table=SpoofGuard", "in_port=p1")
    rig.wait_lookup(VIP, ["10.10.1.3:80"], proto="sctp")
    for proto, found in ("sctp", True), ("tcp", False):
        text = rig.switch.appctl(
            "ofproto/trace", rig.switch.bridge,
            "%s,in_port=1,dl_src=%s,dl_dst=%s,nw_src=%s,nw_dst=%s,nw_ttl=64,"
            "%s_src=5000,%s_dst=80" % (proto, POD_MAC, rig.gateway_mac(),
                                       POD, VIP, proto, proto),
            "--ct-next", "trk,inv", "--ct-next", "trk,new")
        assert ("group:" in text) == found, text


# N: configuration.

def check_config(tmp_path, text):
    """`--check-config` of a file: exit status and what it says."""
    path = tmp_path / "antrea-agent.conf"
    path.write_text(text)
    done = subprocess.run([binary(), "--check-config", path], text=True,
                          capture_output=True, check=False, timeout=20)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("text, key, found", [
    ('nodePortAddresses: "192.0.2.0/24"', "nodePortAddresses",
     "192.0.2.0/24"),
    ('antreaProxy:\n  skipServices: "ns1/svc-a"', "antreaProxy.skipServices",
     "ns1/svc-a")])
def test_n1_a_scalar_instead_of_a_list_is_named(tmp_path, text, key, found):
    """With file, line, column, and what is allowed."""
    if "nodePort" in key:
        text, key = "antreaProxy:\n  " + text, "antreaProxy." + key
    status, said = check_config(tmp_path, text + "\n")
    assert status == 1
    assert "antrea-agent.conf:2:" in said and key in said
    assert found in said and "allowed" in said


@pytest.mark.parametrize("text", [
    "serviceCIDR: 10.96.0.0/33", "serviceCIDR: 10.96.0/16",
    "serviceCIDRv6: 10.96.0.0/16", "serviceCIDRv6: 2001:db8::/129",
    "antreaProxy:\n  nodePortAddresses: [192.0.2.0/24, 192.0.2.0/40]"])
def test_n2_an_impossible_cidr_is_refused_at_the_start(tmp_path, text):
    """Not used as nothing."""
    status, said = check_config(tmp_path, text + "\n")
    assert status == 1 and "antrea-agent.conf:" in said
    assert text.rsplit(" ", 1)[1].strip("]") in said


def test_n4_a_service_that_is_handed_to_another_proxy_is_gone_at_once(rig):
    """The label is set, changed and taken away, with the slices there all
    the time."""
    rig.api.apply(slice_("ns1", "svc-a", [POD]))
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.start_daemon()
    rig.wait_lookup(VIP, [POD + ":80"])
    for value in ("other", ""):
        rig.api.apply(objects.service("ns1", "svc-a",
                                      labels={PROXY_NAME: value}))
        rig.wait_lookup(VIP, None)
        rig.check_cold_start()
        rig.api.apply(objects.service("ns1", "svc-a"))
        rig.wait_lookup(VIP, [POD + ":80"])


def test_n5_skipped_services_get_no_flows_whenever_they_are_made(rig):
    """By name, and by address."""
    rig.config["antreaProxy"] = {"skipServices": ["ns1/svc-a",
                                                  "10.96.0.12"]}
    rig.daemon.write_config(**rig.config)
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.start_daemon()
    rig.api.apply(objects.service("ns1", "svc-b",
                                  cluster_ips=["10.96.0.12"]))
    rig.api.apply(objects.service("ns2", "svc-a",
                                  cluster_ips=["10.96.0.11"]))
    rig.wait_lookup("10.96.0.11", "reject")
    rig.wait_settled()
    assert rig.lookup(VIP) is None and rig.lookup("10.96.0.12") is None
    rig.api.apply(objects.service("ns1", "svc-b",
                                  cluster_ips=["10.96.0.13"]))
    rig.wait_lookup("10.96.0.13", "reject")
    rig.check_cold_start()


# O: the API server.

def test_o11_without_endpointslices_it_says_so_and_asks_on(rig):
    """No other API is taken instead, and nothing is rejected."""
    rig.api.remove_resource("endpointslices")
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.daemon.allow(r"endpointslices: .*404")
    rig.daemon.start()
    line = rig.daemon.wait_log("404")
    assert "endpointslices" in line
    rig.daemon.wait_log("services: listed")
    rig.daemon.wait_log("connected, the bridge holds")
    assert rig.lookup(VIP) is None
    assert not rig.api.requests_for("endpoints")
    rig.api.add_resource(apistore.ENDPOINTSLICES)
    rig.api.apply(slice_("ns1", "svc-a", [POD]))
    rig.daemon.restart(hard=True)       # It asks again, but slowly.
    rig.wait_lookup(VIP, [POD + ":80"])
    rig.check_cold_start()


def test_o12_a_refused_kind_leaves_flows_alone_and_others_going(rig):
    """Nodes, which the daemon knew."""
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.start_daemon()
    before = rig.check_cold_start()
    rig.daemon.allow(r"\|kube\|WARN\|nodes: ")
    refusal = rig.api.forbid("nodes")
    rig.api.cut_connections("rst", "nodes")
    line = rig.daemon.wait_log("HTTP 403")
    assert "nodes" in line
    assert rig.state().differences(before) == ""
    rig.api.apply(slice_("ns1", "svc-a", [POD]))
    rig.wait_lookup(VIP, [POD + ":80"])
    assert len([line for line in rig.daemon.log_lines()
                if "HTTP 403" in line]) == 1
    refusal.remove()


# Q: rejects, as far as flows show them.

def test_q1_a_service_without_endpoints_is_marked_for_a_reject(rig):
    """Every protocol, both families: the daemon gets the packet, limited by
    a meter: the one of the end of the port's number, for a pod's packet and
    the host's."""
    protocols = ("TCP", "UDP", "SCTP")
    rig.api.apply(dual(ports=[objects.port(80, p.lower(), p)
                              for p in protocols]))
    rig.start_daemon()
    rig.add_pod("p1", [POD, POD6], 21)
    rig.daemon.wait_flow("table=SpoofGuard", "in_port=p1")
    for proto in protocols:
        for vip in (VIP, VIP6):
            rig.wait_lookup(vip, "reject", proto=proto.lower())
    for port, meter, mac, source in (
            (21, 3841 + 5, POD_MAC, POD),
            (32769, 3841 + 1, rig.gateway_mac(), "10.10.1.1")):
        text = rig.switch.appctl(
            "ofproto/trace", rig.switch.bridge,
            "tcp,in_port=%d,dl_src=%s,dl_dst=%s,nw_src=%s,nw_dst=%s,nw_ttl=64"
            ",tp_src=5000,tp_dst=80" % (port, mac, rig.gateway_mac(), source,
                                        VIP), "--ct-next", "trk,new")
        assert "controller(max_len=1500,userdata=04,meter_id=%d)" % meter \
            in text, text
        assert "meter=%d " % meter in rig.switch.ofctl("dump-meters")
