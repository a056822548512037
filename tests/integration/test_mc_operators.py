# SPDX-License-Identifier: Apache-2.0
"""What an operator is told of other clusters: `sync`, `explain`, `trace`,
Events and metrics."""
import pathlib

import pytest

from support import clusterset, ctl, httpclient, objects, packets
from support.objects import endpoint, slice_
from support.ovs import pod_mac
from support.rig import NODE_IP, Rig, own_node
from support.wait import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEST = "10.97.0.0/16"


def gateway():
    """This node is its cluster's gateway."""
    return {"apiVersion": clusterset.API, "kind": "Gateway",
            "metadata": {"name": "n1", "namespace": clusterset.NAMESPACE},
            "gatewayIP": NODE_IP, "internalIP": NODE_IP}


@pytest.fixture(name="rig")
def _rig(tmp_path):
    """A gateway that knows another cluster, and whose Service svc-web has
    the cluster IPs of svc-a, of this cluster, and of one of the other's as
    endpoints."""
    with Rig(tmp_path / "rig", **clusterset.ON,
             serviceCIDR="10.96.0.0/16",
             enablePrometheusMetrics=True) as rig:
        rig.api.apply_all([
            own_node(), gateway(),
            clusterset.cluster_info("west", ["198.51.100.1"], WEST),
            objects.service("ns1", "svc-web"),
            slice_("ns1", "svc-web", [endpoint("10.96.0.11"),
                                      endpoint("10.97.0.10")]),
            objects.service("ns1", "svc-a", cluster_ips=["10.96.0.11"]),
            slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1")])])
        rig.start_daemon()
        rig.switch.add_dummy_pod("pod-a", ("10.10.1.5",), ofport=1)
        rig.switch.add_dummy_pod("pod-b", ("10.10.1.6",), ofport=2)
        rig.daemon.wait_flow("SpoofGuard", "nw_src=10.10.1.6")
        rig.daemon.wait_flow("Classifier", "aa:bb:cc:dd:ee:f0")
        rig.wait_settled()
        yield rig
    rig.check_quiet()


def test_sync_tells_the_role_and_other_clusters(rig):
    """And what is left out, which is in the log as well."""
    text = rig.daemon.appctl("sync")
    assert ("multicluster: gateway; Gateway n1, for other clusters %s"
            % NODE_IP in text)
    assert "  west (west): 10.97.0.0/16 by 198.51.100.1, id " in text


def test_explain_names_what_cluster_ips_lead_to(rig):
    """The Service, or the other cluster."""
    text = rig.daemon.appctl("explain", "ns1/svc-web")
    assert ("10.96.0.11:80: used; the cluster IP of ns1/svc-a:/TCP (IPv4), "
            "whose endpoints are chosen from in turn [" in text), text
    assert "10.97.0.10:80: used; in cluster west [" in text, text
    rig.api.delete("services", "ns1", "svc-a")
    rig.wait_settled()
    text = rig.daemon.appctl("explain", "ns1/svc-web")
    assert ("10.96.0.11:80: used; a cluster IP and port that no Service has: "
            "rejected [" in text), text


def test_what_leads_round_is_told(rig):
    """By explain, an Event and the log, to both; not when it has ended."""
    rig.daemon.allow("connections that get it are rejected")
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.96.0.10")]))
    rig.wait_settled()
    for one, other in (("svc-web", "svc-a"), ("svc-a", "svc-web")):
        assert ("the cluster IP of ns1/%s:/TCP (IPv4), which has cluster IPs "
                "as endpoints itself: rejected" % other
                in rig.daemon.appctl("explain", "ns1/" + one))
    wait_for(lambda: len(rig.api.objects("events")) >= 2, 10, "two Events",
             rig)
    events = rig.api.objects("events")
    assert {e["regarding"]["name"] for e in events} == {"svc-a", "svc-web"}
    assert {e["reason"] for e in events} == {"EndpointLeadsRound"}

    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.96.0.11")]))
    rig.wait_settled()
    assert ("; its own cluster IP: rejected"
            in rig.daemon.appctl("explain", "ns1/svc-a"))
    text = ctl.output(rig, "trace", "ns1/pod-b", "10.96.0.11:80")
    assert text.endswith("Result: rejected by ofproxyd (TCP RST, or port "
                         "unreachable)\n"), text


def test_m2_a_trace_goes_on_through_this_clusters_cluster_ip(rig):
    """To the pod that it leads to, where no other cluster has the Service."""
    rig.api.apply(slice_("ns1", "svc-web", [endpoint("10.96.0.11")]))
    rig.wait_settled()
    text = ctl.output(rig, "trace", "ns1/pod-b", "10.96.0.10:80")
    assert "EndpointDNAT: Service ns1/svc-a:/TCP (IPv4)" in text, text
    assert text.endswith("Result: leaves by pod on port 1 (ns1/pod-a)\n"), text


def test_a_trace_names_the_other_cluster(rig):
    """And that it leaves by the tunnel."""
    rig.api.apply(slice_("ns1", "svc-web", [endpoint("10.97.0.10")]))
    rig.wait_settled()
    text = ctl.output(rig, "trace", "ns1/pod-b", "10.96.0.10:80")
    assert "  10.97.0.10:80: in cluster west\n" in text, text
    assert "L3Forwarding: ClusterInfoImport west" in text, text
    assert text.endswith("Result: leaves by the tunnel port, to another node "
                         "or cluster\n"), text


def _value(rig, name, **labels):
    page = httpclient.parse_metrics(httpclient.get(
        rig.ns.name, "127.0.0.1", 10249, "/metrics").body)
    return page["ofproxyd_multicluster_" + name].value(**labels)


def test_metrics_count_clusters_and_packets(rig):
    """Those that the bridge has sent to each."""
    assert _value(rig, "gateway") == 1
    assert _value(rig, "clusters") == 1
    assert _value(rig, "networks_left_out") == 0
    assert _value(rig, "packets_total", cluster="west") == 0
    frame = packets.eth(pod_mac("10.10.1.6"), rig.gateway_mac(), *packets.ip(
        "10.10.1.6", "10.97.0.10", 17, packets.udp(40000, 53)))
    for _ in range(3):
        rig.switch.appctl("netdev-dummy/receive", "pod-b", frame.hex())
    wait_for(lambda: _value(rig, "packets_total", cluster="west") == 3, 15,
             "three packets", rig)
    assert _value(rig, "bytes_total", cluster="west") >= 3 * 42


def test_metrics_are_documented(rig):
    """docs/multicluster.md has a row for each."""
    page = httpclient.parse_metrics(httpclient.get(
        rig.ns.name, "127.0.0.1", 10249, "/metrics").body)
    text = (ROOT / "docs" / "multicluster.md").read_text()
    for name, family in page.items():
        if name.startswith("ofproxyd_multicluster_"):
            assert "| `%s` | %s | %s |" % (name, family.type,
                                           family.help) in text, name
