# SPDX-License-Identifier: Apache-2.0
"""ServiceCIDR objects: one route for each, and a flow that drops what no
Service has; servers that don't have them, and clients that may not read
them."""
import re

import pytest

from support import httpclient, objects
from support.rig import Rig, own_node
from support.wait import wait_for

PROXY_ALL = {"proxyAll": True}
CIDRS = ("10.96.0.0/24", "2001:db8:96::/112")
VIPS = ("10.96.0.10", "2001:db8:96::10")
OUTSIDE = "10.96.1.10"


@pytest.fixture(name="rig")
def _rig(tmp_path):
    with Rig(tmp_path / "rig", antreaProxy=PROXY_ALL,
             enablePrometheusMetrics=True) as rig:
        rig.api.apply(own_node())
        rig.api.apply(objects.service("ns1", "svc-a", cluster_ips=VIPS))
        rig.api.apply(objects.service("ns1", "svc-b", cluster_ips=[OUTSIDE]))
        yield rig


def dropped(rig):
    """The networks whose rest is dropped, when it comes by the gateway."""
    return sorted(
        re.search(r"(?:nw|ipv6)_dst=(\S+)", line)[1]
        for line in rig.switch.dump_flows(names=False)
        if "table=12," in line and "priority=170," in line
        and "reg0=0x2/0xf" in line
        and line.endswith("actions=drop"))


def routed(rig):
    """What the host sends to Services."""
    return sorted(dst for dst, _ in rig.routes())


def wait_networks(rig, networks, alone):
    """Waits until exactly these are dropped, and they and the addresses
    'alone' have routes."""
    def state():
        return dropped(rig), routed(rig)
    expected = sorted(networks), sorted([*networks, *alone])
    wait_for(lambda: state() == expected, 10, "networks %s" % (expected,),
             lambda: "%s\n%s" % (state(), rig.dump()))


def test_networks_come_change_and_go(rig):
    """An address in none of them keeps its own route."""
    rig.start_daemon()
    wait_networks(rig, [], [*VIPS, OUTSIDE])
    rig.api.apply(objects.service_cidr("kubernetes", CIDRS))
    wait_networks(rig, CIDRS, [OUTSIDE])
    rig.api.apply(objects.service_cidr("more", ["10.96.1.0/24"], False))
    wait_networks(rig, [*CIDRS, "10.96.1.0/24"], [])
    rig.check_cold_start()
    rig.api.delete("servicecidrs", "", "kubernetes")
    wait_networks(rig, ["10.96.1.0/24"], VIPS)
    assert "Service networks: 10.96.1.0/24" in rig.daemon.appctl("sync")
    rig.check_cold_start()


def test_one_that_is_being_deleted_counts_until_it_is_gone(rig):
    """Its Services are still there."""
    cidr = objects.service_cidr("kubernetes", CIDRS)
    rig.api.apply(cidr)
    rig.start_daemon()
    wait_networks(rig, CIDRS, [OUTSIDE])
    cidr["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    cidr["status"]["conditions"][0].update(status="False",
                                           reason="Terminating")
    rig.api.apply(cidr)
    rig.api.delivered("servicecidrs")
    rig.wait_settled()
    wait_networks(rig, CIDRS, [OUTSIDE])


def test_a_restart_sends_nothing(rig):
    """Flows and routes wait for the list."""
    rig.api.apply(objects.service_cidr("kubernetes", CIDRS))
    rig.start_daemon()
    wait_networks(rig, CIDRS, [OUTSIDE])
    rig.wait_settled()
    before = rig.state().lines
    rig.restart_daemon()
    rig.wait_settled()
    wait_networks(rig, CIDRS, [OUTSIDE])
    assert sorted(rig.state().lines) == sorted(before)
    assert "sent: 0 flow puts, 0 flow deletes" in rig.daemon.appctl("sync")


def test_an_older_server_has_none(rig):
    """It is said once, and nobody waits for it."""
    rig.api.store.remove_resource("servicecidrs")
    rig.daemon.allow("servicecidrs: list: HTTP 404")
    rig.n_watches = 3
    rig.start_daemon()
    rig.wait_settled()
    wait_networks(rig, [], [*VIPS, OUTSIDE])
    assert len(rig.api.requests_for("servicecidrs")) == 1
    rig.daemon.wait_log("they come with Kubernetes 1.33")
    page = httpclient.get(rig.ns.name, "127.0.0.1", 10249, "/metrics").body
    assert 'ofproxyd_api_up{kind="Node"} 1' in page
    assert 'ofproxyd_api_up{kind="ServiceCIDR"}' not in page


def test_who_may_not_read_them_serves_the_rest(rig):
    """It is named, and asked for again."""
    forbidden = rig.api.forbid("servicecidrs")
    rig.api.apply(objects.service_cidr("kubernetes", CIDRS))
    rig.daemon.allow("servicecidrs: list: HTTP 403")
    rig.n_watches = 3
    rig.start_daemon()
    rig.wait_settled()
    wait_networks(rig, [], [*VIPS, OUTSIDE])
    rig.daemon.wait_log("servicecidrs: list: HTTP 403")
    forbidden.remove()


def test_a_network_with_the_nodes_address_is_named_and_not_used(rig):
    """And the other one of the same object is."""
    rig.daemon.allow("networks of Services are left out")
    rig.api.apply(objects.service_cidr(
        "kubernetes", ["192.0.2.0/24", CIDRS[1]]))
    rig.start_daemon()
    wait_networks(rig, CIDRS[1:], [VIPS[0], OUTSIDE])
    assert "ServiceCIDR kubernetes: 192.0.2.0/24 is not used" \
        in rig.daemon.appctl("sync")


def test_without_proxy_all_nothing_is_dropped(tmp_path):
    """Nor is there a route: another proxy serves the host."""
    with Rig(tmp_path / "rig") as rig:
        rig.api.apply(own_node())
        rig.api.apply(objects.service("ns1", "svc-a", cluster_ips=VIPS))
        rig.api.apply(objects.service_cidr("kubernetes", CIDRS))
        rig.start_daemon()
        wait_for(lambda: "Service networks: 10.96" in
                 rig.daemon.appctl("sync"), 10, "the networks", rig)
        rig.wait_settled()
        assert dropped(rig) == [] and not set(CIDRS) & set(routed(rig))


def test_a_list_that_fails_keeps_nobody_waiting(rig):
    """The others have been listed: the server is there."""
    rig.api.apply(objects.service_cidr("kubernetes", CIDRS))
    fault = rig.api.fault(resource="servicecidrs", verb="list", status=500,
                          count=None)
    rig.daemon.allow("servicecidrs: list: HTTP 500")
    rig.n_watches = 3
    rig.start_daemon()
    wait_networks(rig, [], [*VIPS, OUTSIDE])
    fault.remove()
    rig.n_watches = 4
    wait_networks(rig, CIDRS, [OUTSIDE])


def test_an_outage_at_the_start_costs_nothing(rig):
    """The list is waited for as long as the server is away for all."""
    rig.api.apply(objects.service_cidr("kubernetes", CIDRS))
    rig.start_daemon()
    wait_networks(rig, CIDRS, [OUTSIDE])
    rig.wait_settled()
    fault = rig.api.fault(status=503, count=None)
    rig.daemon.allow("list: HTTP 503")
    rig.daemon.terminate()
    rig.daemon.start()
    rig.daemon.wait_log("servicecidrs: list: HTTP 503")
    fault.remove()
    rig.wait_settled()
    wait_networks(rig, CIDRS, [OUTSIDE])
    assert "sent: 0 flow puts, 0 flow deletes" in rig.daemon.appctl("sync")
