# SPDX-License-Identifier: Apache-2.0
"""Addresses of Services besides the cluster IP, on the bridge: which are
served, and what becomes of each change while the daemon runs."""
import os
import re

import pytest

from support import objects
from support.objects import endpoint, slice_
from support.rig import NODE_IP, Rig, own_node

VIP, VIP2 = "203.0.113.10", "203.0.113.11"
VIP6 = "2001:db8:3::10"
EXTERNAL = "203.0.113.20"
CLUSTER = "10.96.0.10"
EPS = ["10.10.2.5:8080", "10.10.3.5:8080"]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
CONFLICT = r"\|notice\|WARN\|Service .* belongs to "


@pytest.fixture
def served(tmp_path):
    """A rig with a Node and a slice for Service ns1/web; its daemon's
    configuration is given by a call."""
    rigs = []

    def start(*services, **proxy):
        proxy.setdefault("proxyAll", True)
        rig = Rig(tmp_path, antreaProxy=proxy)
        rigs.append(rig)
        rig.__enter__()
        rig.api.apply_all([own_node(), *services, slice_(
            "ns1", "web", [endpoint("10.10.2.5", "n2"),
                           endpoint("10.10.3.5", "n3")],
            [objects.slice_port(8080, None)])])
        return rig.start_daemon()

    yield start
    for rig in rigs:
        rig.__exit__()


def lb(name="web", cluster_ip=CLUSTER, ingress=(), **spec):
    """A Service of type LoadBalancer; `ingress` are (address, mode), or a
    host name alone."""
    entries = []
    for entry in ingress:
        if isinstance(entry, str):
            entries.append({"hostname": entry})
        else:
            address, mode = entry
            entries.append({"ip": address, **(
                {"ipMode": mode} if mode else {})})
    spec.setdefault("type", "LoadBalancer")
    return objects.service("ns1", name, [80], [cluster_ip],
                           status={"loadBalancer": {"ingress": entries}},
                           **spec)


def node_port(rig, port):
    """What the bridge does for a NodePort: the actions, by priority."""
    flows = rig.switch.dump_flows("table=12", names=False)
    return {int(re.search(r"priority=(\d+)", flow)[1]):
            flow.split("actions=")[1] for flow in flows
            if "tp_dst=%d " % port in flow and "nw_dst" not in flow
            and ",tcp," in flow}


@pytest.mark.parametrize("proxy_all", [True, False])
def test_h4_h5_mode_of_a_balancers_address_is_followed(served, proxy_all):
    """VIP, Proxy and nothing, each changed while it runs, several entries,
    and host names."""
    rig = served(lb(ingress=[(VIP, "Proxy")]), proxyAll=proxy_all)
    rig.wait_lookup(CLUSTER, EPS)
    assert rig.lookup(VIP) is None
    for mode, served_there in (("VIP", True), ("Proxy", False), (None, True),
                               ("Proxy", False), ("Later", False)):
        rig.api.apply(lb(ingress=[(VIP, mode)]))
        rig.wait_lookup(VIP, EPS if served_there else None)
    for ingress, first, second in (
            ([(VIP, None), (VIP2, "Proxy"), "lb.example.com"], EPS, None),
            ([(VIP, "Proxy"), (VIP2, "VIP"), "lb.example.com"], None, EPS),
            ([(VIP, "VIP"), (VIP2, "VIP"), (VIP, "Proxy")], EPS, EPS),
            (["lb.example.com"], None, None),
            ([(VIP6, None)], None, None)):
        rig.api.apply(lb(ingress=ingress))
        rig.wait_lookup(VIP, first).wait_lookup(VIP2, second)
        assert rig.lookup(VIP6) is None
        assert rig.lookup(CLUSTER) == EPS
    rig.check_cold_start()
    rig.check_quiet()


def test_h4_no_balancers_address_without_the_option(served):
    """Whatever its mode; an external IP is none of them."""
    rig = served(lb(ingress=[(VIP, "VIP"), (VIP2, None)],
                    externalIPs=[EXTERNAL]), proxyLoadBalancerIPs=False)
    rig.wait_lookup(EXTERNAL, EPS)
    assert rig.lookup(VIP) is None and rig.lookup(VIP2) is None
    rig.check_cold_start()


def test_without_proxy_all_only_pods_reach_a_balancers_address(served):
    """No NodePort and no external IP."""
    svc = lb(ingress=[(VIP, None)], externalIPs=[EXTERNAL])
    svc["spec"]["ports"][0]["nodePort"] = 30080
    rig = served(svc, proxyAll=False)
    rig.wait_lookup(VIP, EPS)
    assert rig.lookup(EXTERNAL) is None
    assert node_port(rig, 30080) == {}
    rig.check_cold_start()


def test_type_and_ports_change_in_place(served):
    """All that a type had goes with it, and NodePorts are followed."""
    svc = lb(ingress=[(VIP, None)], externalIPs=[EXTERNAL])
    svc["spec"]["ports"][0]["nodePort"] = 30080
    rig = served(svc)
    rig.wait_lookup(VIP, EPS).wait_lookup(EXTERNAL, EPS)
    assert len(node_port(rig, 30080)) == 1

    svc["spec"]["ports"][0]["nodePort"] = 30081
    svc["spec"]["externalTrafficPolicy"] = "Local"
    rig.api.apply(svc)
    rig.wait_lookup(VIP, "drop")
    assert node_port(rig, 30080) == {}
    actions = node_port(rig, 30081)
    assert len(actions) == 2 and actions[min(actions)] == "drop"
    assert "group:" in actions[max(actions)]
    assert rig.lookup(CLUSTER) == EPS
    rig.check_cold_start()

    plain = objects.service("ns1", "web", [80], [CLUSTER])
    rig.api.apply(plain)
    rig.wait_lookup(VIP, None).wait_lookup(EXTERNAL, None)
    assert node_port(rig, 30081) == {}
    plain["spec"].update(type="ExternalName", clusterIP="", clusterIPs=None)
    rig.api.apply(plain)
    rig.wait_lookup(CLUSTER, None)
    rig.check_cold_start()
    rig.check_quiet()


def test_two_services_share_an_address_port_by_port(served):
    """Of one port that both claim the older has it, and the other the rest
    of its addresses; it gets that, too, when the older one goes."""
    rig = served(lb(ingress=[(VIP, None)], externalIPs=[EXTERNAL],
                    created="2026-01-01T00:00:01Z"))
    rig.daemon.allow(CONFLICT)
    other = lb("other", "10.96.0.11", [(VIP, None), (VIP2, None)],
               created="2026-01-01T00:00:02Z")
    rig.api.apply(other)
    rig.wait_lookup(VIP2, "reject")
    assert rig.lookup(VIP) == EPS
    line = rig.daemon.wait_log("belongs to ns1/web")
    assert "ns1/other" in line and VIP in line and VIP2 not in line

    # Another port is another address.
    other["spec"]["ports"][0]["port"] = 81
    rig.api.apply(other)
    rig.wait_lookup(VIP, "reject", 81)
    assert rig.lookup(VIP) == EPS
    other["spec"]["ports"][0]["port"] = 80
    rig.api.apply(other)
    rig.wait_lookup(VIP, None, 81)

    # The first one leaves this address alone, comes back, and goes.
    rig.api.apply(lb(externalIPs=[EXTERNAL], created="2026-01-01T00:00:01Z"))
    rig.wait_lookup(VIP, "reject").wait_lookup(EXTERNAL, EPS)
    rig.api.apply(lb(ingress=[(VIP, None)], created="2026-01-01T00:00:01Z"))
    rig.wait_lookup(VIP, EPS)
    rig.check_cold_start()
    rig.api.delete("services", "ns1", "web")
    rig.wait_lookup(VIP, "reject")
    rig.check_cold_start()


def test_values_that_make_no_sense_are_left_out(served):
    """Named, and the rest of the Service is served."""
    svc = lb(ingress=[("203.0.113", None), (VIP, None)],
             externalIPs=["x", "203.0.113.020", EXTERNAL, "2001:db8:3::9"])
    svc["spec"]["ports"] += [{"name": "zero", "port": 0, "protocol": "TCP"},
                             {"name": "far", "port": 70000}]
    svc["spec"]["ports"][0]["nodePort"] = 70000
    rig = served()
    rig.daemon.allow(r"\|kube\|WARN\|services: a value is left out: "
                     r"Service ns1/web: spec\.")
    rig.api.apply(svc)
    rig.wait_lookup(VIP, EPS).wait_lookup(EXTERNAL, EPS)
    assert rig.lookup("203.0.113.20") == EPS
    rig.daemon.wait_log("a value is left out: Service ns1/web: spec.")
    rig.check_cold_start()
    rig.check_quiet()


def test_external_ip_that_becomes_an_address_of_the_node(served):
    """The bridge also serves what the host makes of it, and not for longer
    than the node has the address."""
    made = "169.254.0.252"
    rig = served(lb(externalIPs=["192.0.2.77"]))
    rig.wait_lookup("192.0.2.77", EPS)
    assert rig.lookup(made) is None
    rig.ns.ip("addr", "add", "192.0.2.77/24", "dev", "eth0")
    rig.wait_lookup(made, EPS)
    assert rig.lookup("192.0.2.77") == EPS
    rig.check_cold_start()
    rig.ns.ip("addr", "del", "192.0.2.77/24", "dev", "eth0")
    rig.wait_lookup(made, None)
    assert rig.lookup("192.0.2.77") == EPS
    rig.check_cold_start()
    rig.check_quiet()


def test_no_service_gets_the_api_servers_address(tmp_path):
    """The daemon would cut itself off.  Another port of it may be had."""
    rig = Rig(tmp_path, antreaProxy={"proxyAll": True})
    rig.api.address = host = NODE_IP
    with rig:
        rig.daemon.allow("external IPv4 addresses or source ranges are left")
        port = rig.api.port
        rig.api.apply_all([own_node(), *(objects.service(
            "ns1", name, [number], ["10.96.0.%d" % (10 + number - port)],
            externalIPs=[host, EXTERNAL])
            for name, number in (("web", port), ("other", port + 1)))])
        rig.start_daemon()
        rig.wait_lookup(EXTERNAL, "reject", port)
        rig.wait_lookup(host, "reject", port + 1)
        assert rig.lookup(host, port) is None
        rig.daemon.wait_log("Service ns1/web: 1 external IPv4 addresses")
        rig.check_cold_start()
