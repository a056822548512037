# SPDX-License-Identifier: Apache-2.0
"""Trouble with the choice of endpoints, as the bridge shows it.

See docs/trouble-cases.md for the cases; most of this group are unit tests of
the choice itself.
"""
import itertools

import pytest

from support import objects
from support.objects import endpoint, slice_
from support.rig import own_node

VIP, BALANCED = "10.96.0.10", "203.0.113.10"


def test_a1_a_ready_pod_is_used_though_a_terminating_one_had_its_address(rig):
    """In either order, in one slice or in two."""
    old = endpoint("10.10.1.5", "n1", ready=False, serving=True,
                   terminating=True, pod=("ns1", "pod-old"))
    new = endpoint("10.10.1.5", "n1", pod=("ns1", "pod-new"))
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.start_daemon()
    for endpoints in ([old, new], [new, old]):
        rig.api.apply(slice_("ns1", "svc-a", endpoints))
        rig.wait_lookup(VIP, ["10.10.1.5:80"])
        for order in itertools.permutations(zip(endpoints, "xy")):
            rig.api.delete("endpointslices", "ns1", "svc-a-abcde")
            rig.wait_lookup(VIP, "reject")
            for one, suffix in order:
                rig.api.apply(slice_("ns1", "svc-a", [one], suffix=suffix))
            rig.wait_lookup(VIP, ["10.10.1.5:80"])
            rig.check_cold_start()
            for _, suffix in order:
                rig.api.delete("endpointslices", "ns1", "svc-a-" + suffix)
            rig.wait_lookup(VIP, "reject")
            rig.api.apply(slice_("ns1", "svc-a", endpoints))


def test_a2_d20_two_ports_of_one_address_are_two_endpoints(rig):
    """Two pods in the host's network; one of them goes."""
    rig.api.apply(objects.service("ns1", "svc-a", [objects.port(80, "http")]))
    for number in (8080, 8081):
        rig.api.apply(slice_("ns1", "svc-a", [endpoint("192.0.2.11", "n1")],
                             [(number, "http")], suffix="s%d" % number))
    rig.start_daemon()
    rig.wait_lookup(VIP, ["192.0.2.11:8080", "192.0.2.11:8081"])
    rig.api.delete("endpointslices", "ns1", "svc-a-s8080")
    rig.wait_lookup(VIP, ["192.0.2.11:8081"])


def test_a4_internal_and_external_policy_do_not_leak_into_each_other(rig):
    """All endpoints are elsewhere: each policy decides about its own
    addresses only."""
    def svc(internal, external):
        return objects.service(
            "ns1", "svc-a", type="LoadBalancer",
            status={"loadBalancer": {"ingress": [{"ip": BALANCED}]}},
            internalTrafficPolicy=internal, externalTrafficPolicy=external)

    rig.config["antreaProxy"] = {"proxyAll": True}
    rig.daemon.write_config(**rig.config)
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2")]))
    rig.api.apply(svc("Local", "Cluster"))
    rig.start_daemon()
    rig.wait_lookup(VIP, "drop").wait_lookup(BALANCED, ["10.10.2.5:80"])
    rig.api.apply(svc("Cluster", "Local"))
    rig.wait_lookup(VIP, ["10.10.2.5:80"]).wait_lookup(BALANCED, "drop")
    rig.check_cold_start()


def test_a7_a_zone_that_the_node_gets_later_makes_hints_count(rig):
    """And one that it loses makes them count no more."""
    hinted = [endpoint("10.10.2.%d" % n, "n2", hints=[zone])
              for n, zone in ((5, "za"), (6, "zb"))]
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.api.apply(slice_("ns1", "svc-a", hinted))
    rig.start_daemon()
    rig.wait_lookup(VIP, ["10.10.2.5:80", "10.10.2.6:80"])
    rig.api.apply(own_node(zone="zb"))
    rig.wait_lookup(VIP, ["10.10.2.6:80"])
    rig.api.apply(own_node(zone="zc"))
    rig.wait_lookup(VIP, ["10.10.2.5:80", "10.10.2.6:80"])
    rig.api.apply(own_node(zone="za"))
    rig.wait_lookup(VIP, ["10.10.2.5:80"])
    rig.api.apply(own_node())
    rig.wait_lookup(VIP, ["10.10.2.5:80", "10.10.2.6:80"])


def rolling(n, step):
    """A slice of n pods in the middle of an update: of each pair one is
    there, the other not yet or not any more."""
    endpoints = []
    for i in range(n):
        endpoints += [
            endpoint("10.10.1.%d" % (10 + i), "n1", ready=i >= step,
                     serving=True, terminating=i < step),
            endpoint("10.10.1.%d" % (110 + i), "n1", ready=i < step)]
    return slice_("ns1", "svc-a", endpoints)


def test_a11_a13_only_ready_pods_are_used_during_a_rolling_update(rig):
    """Neither those that have not started nor those that are leaving."""
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.start_daemon()
    for step in range(6):
        rig.api.apply(rolling(5, step))
        rig.wait_lookup(VIP, sorted(
            "10.10.1.%d:80" % (10 + i + 100 * (i < step)) for i in range(5)))
    rig.check_cold_start()


def test_a16_nothing_is_left_of_an_endpoint_that_is_filtered_out(rig):
    """The endpoint stays in its slice, but is not to be used."""
    there = endpoint("10.10.1.6", "n1")
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.api.apply(slice_("ns1", "svc-a",
                         [endpoint("10.10.1.5", "n1"), there]))
    rig.start_daemon()
    rig.wait_lookup(VIP, ["10.10.1.5:80", "10.10.1.6:80"])
    rig.api.apply(slice_("ns1", "svc-a", [
        endpoint("10.10.1.5", "n1", ready=False, terminating=True), there]))
    rig.wait_lookup(VIP, ["10.10.1.6:80"])
    state = rig.check_cold_start()
    assert not [line for line in state.lines if "10.10.1.5" in line]


@pytest.mark.parametrize("port, slice_port, found", [
    (("http", 8080), ("http", 8080), True),
    (("http", 8080), ("web", 8080), False),
    (("http", 8080), ("", 8080), False),
    ((None, 8080), ("", 9090), True),
    ((None, 8080), ("http", 8080), False)])
def test_a17_ports_are_matched_by_name_only(rig, port, slice_port, found):
    """Not by number, and no name is a name, too."""
    name, target = port
    rig.api.apply(objects.service("ns1", "svc-a",
                                  [objects.port(80, name, target=target)]))
    rig.api.apply(slice_("ns1", "svc-a", ["10.10.1.5"],
                         [(slice_port[1], slice_port[0])]))
    rig.start_daemon()
    rig.wait_lookup(VIP, ["10.10.1.5:%d" % slice_port[1]] if found
                    else "reject")


def test_a20_a_slice_of_names_leaves_the_others_alone(rig):
    """It comes before them, and next to them."""
    names = slice_("ns1", "svc-a", [endpoint("db.example.com")],
                   family="FQDN", suffix="names")
    rig.start_daemon()
    rig.api.apply_all([names, objects.service("ns1", "svc-a")])
    rig.wait_lookup(VIP, "reject")
    rig.api.apply(slice_("ns1", "svc-a", ["10.10.1.5"]))
    rig.wait_lookup(VIP, ["10.10.1.5:80"])
    names["endpoints"] = None
    rig.api.apply(names)
    rig.api.apply(slice_("ns1", "svc-a", ["10.10.1.6"], suffix="more"))
    rig.wait_lookup(VIP, ["10.10.1.5:80", "10.10.1.6:80"])
    rig.check_cold_start()


def test_a23_d16_each_family_gets_its_own_endpoints(rig):
    """Of 30 dual-stack Services; then the IPv6 slices go."""
    for i in range(30):
        name = "svc-%d" % i
        rig.api.apply(objects.service(
            "ns1", name, cluster_ips=("10.96.1.%d" % i,
                                      "2001:db8:96::%x" % (i + 1))))
        rig.api.apply(slice_("ns1", name, ["10.10.1.5"], suffix="v4"))
        rig.api.apply(slice_("ns1", name, ["2001:db8:10:1::5"],
                             suffix="v6"))
    rig.start_daemon()
    for i in (0, 13, 29):
        rig.wait_lookup("10.96.1.%d" % i, ["10.10.1.5:80"])
        rig.wait_lookup("2001:db8:96::%x" % (i + 1),
                        ["[2001:db8:10:1::5]:80"])
    state = rig.check_cold_start()
    assert len(set(state.ids.values())) == 60
    with rig.api.batch():
        for i in range(30):
            rig.api.delete("endpointslices", "ns1", "svc-%d-v6" % i)
    for i in (0, 13, 29):
        rig.wait_lookup("2001:db8:96::%x" % (i + 1), "reject")
        rig.wait_lookup("10.96.1.%d" % i, ["10.10.1.5:80"])


def test_a26_services_that_are_made_at_once_all_get_their_endpoints(rig):
    """20 of them, slices before, after and among them."""
    rig.start_daemon()
    for i in range(20):
        svc = objects.service("ns1", "svc-%d" % i,
                              cluster_ips=["10.96.1.%d" % i])
        endpoints = slice_("ns1", "svc-%d" % i, ["10.10.1.%d" % (i + 2)])
        for obj in (svc, endpoints) if i % 2 else (endpoints, svc):
            rig.api.apply(obj)
    for i in range(20):
        rig.wait_lookup("10.96.1.%d" % i, ["10.10.1.%d:80" % (i + 2)])
    rig.check_cold_start()
