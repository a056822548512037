# SPDX-License-Identifier: Apache-2.0
"""What an operator is told of other clusters: `sync`, `explain`, `trace`,
Events and metrics."""
import pathlib
import re

import pytest

from support import apistore, clusterset, ctl, httpclient, objects, packets
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


def clusters(rig):
    """The lines of `clusters`."""
    return ctl.output(rig, "clusters").splitlines()


def await_flaw(rig, *lines):
    """Waits until `clusters` and `sync` both tell of these."""
    wait_for(lambda: all(set(lines) <= set(text.splitlines()) for text in (
        ctl.output(rig, "clusters"), rig.daemon.appctl("sync"))), 10,
        "the lines %s" % (lines,), lambda: ctl.output(rig, "clusters"))


def test_clusters_tells_the_role_and_other_clusters(rig):
    """The role in `sync`, too; nothing is wrong."""
    role = ("multicluster: gateway; Gateway n1, for other clusters %s, for "
            "nodes %s, other clusters: 1" % (NODE_IP, NODE_IP))
    first, cluster, counts, _ = clusters(rig)
    assert first == role
    assert cluster.startswith(
        "  west (west): 10.97.0.0/16 by 198.51.100.1, id ")
    assert counts == ("    sent: 0 packets, 0 bytes; received: 0 packets, "
                      "0 bytes")
    lines = rig.daemon.appctl("sync").splitlines()
    after = lines[lines.index(role) + 1]
    assert not after.startswith("  "), after


def test_what_is_wrong_with_the_gateway_is_told(rig):
    """No Gateway; of a Node that isn't there; of another one; addresses that
    are not its own."""
    rig.api.delete("gateways", clusterset.NAMESPACE, "n1")
    await_flaw(rig, "multicluster: no gateway, other clusters: 1",
               "  no Gateway in namespace multicluster: nothing is exchanged "
               "with other clusters")
    assert ("10.97.0.10:80: used; in cluster west, to which there is no "
            "gateway [" in rig.daemon.appctl("explain", "ns1/svc-web"))
    other = {**gateway(), "metadata": {**gateway()["metadata"],
                                       "name": "n2"},
             "gatewayIP": "192.0.2.98", "internalIP": "192.0.2.99"}
    rig.api.apply(other)
    await_flaw(rig, "  there is no Node n2, that the Gateway names")
    rig.api.apply(objects.node("n2", ["10.10.2.0/24"], ["192.0.2.12"]))
    await_flaw(rig, "  gatewayIP 192.0.2.98 is no address of Node n2",
               "  internalIP 192.0.2.99 is no address of Node n2")
    rig.api.apply({**other, "gatewayIP": "192.0.2.12",
                   "internalIP": "192.0.2.12"})
    wait_for(lambda: clusters(rig)[0].startswith(
        "multicluster: regular node; Gateway n2, for other clusters "
        "192.0.2.12"), 10, "the address", rig)
    lines = clusters(rig)
    assert lines[1].startswith("  west (west): "), lines
    # The other one has addresses of both families.
    rig.daemon.allow("its internalIP is this node's own")
    rig.api.apply(objects.node("n2", ["10.10.2.0/24"],
                               ["192.0.2.12", "2001:db8::12"]))
    rig.api.apply({**other, "gatewayIP": "192.0.2.12",
                   "internalIP": NODE_IP})
    await_flaw(rig, "  Gateway n2: its internalIP is this node's own")
    assert "is no address of Node" not in "\n".join(clusters(rig))
    rig.api.apply({**other, "gatewayIP": "192.0.2.12",
                   "internalIP": "192.0.2.12"})
    wait_for(lambda: len(clusters(rig)) == len(lines), 10, "the address",
             rig)
    lines = clusters(rig)
    assert lines[2].endswith("; received: counted by the gateway only")


def test_objects_that_make_no_sense_are_told(rig):
    """A Gateway without an address; a cluster without a gateway; no
    cluster."""
    rig.daemon.allow("multicluster|MC_GATEWAY|Gateway|ClusterInfoImport")
    rig.api.apply({**gateway(), "internalIP": None})
    rig.api.apply(clusterset.cluster_info("north", [], "10.98.0.0/16"))
    await_flaw(
        rig, "  of Gateways 1 made no sense since the start: the log names "
        "them", "  of ClusterInfoImports 1 made no sense since the start: "
        "the log names them")
    rig.api.delete("clusterinfoimports", clusterset.NAMESPACE, "west")
    await_flaw(rig, "  no ClusterInfoImport in namespace multicluster: no "
                    "other cluster is known")


def test_networks_that_overlap_are_told(rig):
    """The cluster, and what it overlaps."""
    rig.daemon.allow("is not used")
    rig.api.apply(clusterset.cluster_info("zoo", ["198.51.100.9"],
                                          "10.97.128.0/17"))
    await_flaw(rig, "  ClusterInfoImport zoo: 10.97.128.0/17 is not used: it "
                    "overlaps 10.97.0.0/16 of west")


@pytest.mark.parametrize("there", [True, False], ids=["403", "absent"])
def test_objects_that_cannot_be_read_are_told(tmp_path, there):
    """For want of the right to, or of the kinds."""
    with Rig(tmp_path / "rig", **clusterset.ON) as rig:
        for resource in apistore.MULTICLUSTER:
            if not there:
                rig.api.remove_resource(resource)
            else:
                rig.api.forbid(resource.plural)
        rig.api.apply(own_node())
        rig.daemon.allow("clusterinfoimports", "gateways", "ClusterInfo",
                         "Gateway")
        rig.daemon.start()
        wait_for(lambda: len([line for line in clusters(rig) if
                              "s can't be read: " in line]) == 2, 20,
                 "both kinds", rig)
        text = "\n".join(clusters(rig))
        assert ("cannot list" if there else "404") in text, text
        for kind in ("Gateway", "ClusterInfoImport"):
            assert ("  no %s in namespace multicluster: " % kind
                    in text) != there, text


def test_without_multicluster_that_is_told(tmp_path):
    """By the command, and `sync` says nothing."""
    with Rig(tmp_path / "rig") as rig:
        rig.api.apply(own_node())
        rig.start_daemon()
        assert clusters(rig) == [
            "multicluster: off (multicluster.enableGateway)"]
        assert "multicluster" not in rig.daemon.appctl("sync")


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
    assert text.endswith(
        "Result: leaves by the tunnel port, to another node or cluster\n"
        "To: 198.51.100.1, a gateway of cluster west\n"
        "Next, on the gateway 198.51.100.1: ofproxyctl trace %s "
        "10.97.0.10:80/TCP %s\n" % (NODE_IP, NODE_IP)), text


def traced(rig, *args):
    """(the first line and the packet's MAC address, the last lines from
    "Result" on) of a trace."""
    text = ctl.output(rig, "trace", *args)
    return text.splitlines()[0] + re.search(
        " dl_dst=aa:bb:cc:dd:ee:..", text.replace(",", " ")).group(), text[text.index("Result: "):].splitlines()


def test_a_trace_begins_in_the_tunnel(rig):
    """Of a packet of another cluster's, of a node's that is for another
    cluster, of one that isn't, and of one of nobody's that is known."""
    rig.api.apply(objects.node("n2", ["10.10.2.0/24"], ["192.0.2.12"]))
    rig.wait_settled()
    said, end = traced(rig, "198.51.100.1", "10.96.0.11:80", "198.51.100.1")
    assert said.endswith(" from 198.51.100.1, a gateway of cluster west, to "
                         "10.96.0.11:80 dl_dst=aa:bb:cc:dd:ee:f0"), said
    assert end == ["Result: leaves by pod on port 1 (ns1/pod-a)"]
    said, end = traced(rig, "10.10.2.5", "10.97.0.10:80/udp", "192.0.2.12")
    assert said.endswith(" from 192.0.2.12, Node n2, to 10.97.0.10:80/udp "
                         "dl_dst=aa:bb:cc:dd:ee:f0"), said
    assert end[1:] == [
        "To: 198.51.100.1, a gateway of cluster west",
        "Next, on the gateway 198.51.100.1: ofproxyctl trace %s "
        "10.97.0.10:80/UDP %s" % (NODE_IP, NODE_IP)]
    said, end = traced(rig, "10.10.2.5", "10.10.1.5:8080", "192.0.2.12")
    assert said.endswith(" dl_dst=aa:bb:cc:dd:ee:ff"), said
    assert end == ["Result: leaves by pod on port 1 (ns1/pod-a)"]
    said, end = traced(rig, "198.51.100.7", "10.96.0.11:80", "198.51.100.7")
    assert " from 198.51.100.7, no node or gateway that is known" in said
    assert end == ["Result: leaves by pod on port 1 (ns1/pod-a)"]


def test_a_trace_by_the_tunnel_tells_of_rejects(rig):
    """Of a Service of this cluster that has no endpoints."""
    rig.api.apply(slice_("ns1", "svc-a", []))
    rig.wait_settled()
    _, end = traced(rig, "198.51.100.1", "10.96.0.11:80", "198.51.100.1")
    assert end == ["Result: rejected by ofproxyd (TCP RST, or port "
                   "unreachable)"]


def test_a_trace_begins_in_a_tunnel_of_ipv6(rig):
    """Either within the other."""
    for client, target in (("2001:db8:10:2::5", "[2001:db8:10:1::9]:80"),
                           ("198.51.100.7", "10.96.0.11:80")):
        said, end = traced(rig, client, target, "2001:db8::12")
        assert said == ("From %s, by the tunnel port 32768 from "
                        "2001:db8::12, no node or gateway that is known, to "
                        "%s dl_dst=aa:bb:cc:dd:ee:f0" % (client, target)), said
    assert end == ["Result: leaves by pod on port 1 (ns1/pod-a)"]


@pytest.mark.parametrize("port, peer, src, target", [
    ("70000", "192.0.2.12", "10.10.1.5", "10.97.0.10:80/TCP"),
    ("", "192.0.2.12", "10.10.1.5", "10.97.0.10:80/TCP"),
    ("1", "x" * 10000, "10.10.1.5", "10.97.0.10:80/TCP"),
    ("1", "192.0.2.12", "10.10.1", "10.97.0.10:80/TCP"),
    ("1", "192.0.2.12", "10.10.1.5", "10.97.0.10/TCP")])
def test_what_is_next_is_asked_with_addresses(rig, port, peer, src, target):
    """Anything else is refused, and asked of a pod's port it is nothing."""
    done = ctl.run(rig, "trace-next", port, peer, src, target)
    assert done.returncode and "no port, or no addresses" in done.stderr
    assert ctl.output(rig, "trace-next", "1", "192.0.2.12", "10.10.1.5",
                      "10.97.0.10:80/TCP") == ""


@pytest.mark.parametrize("client, target, peer", [
    ("ns1/pod-a", "10.96.0.11:80", "192.0.2.12"),
    ("10.10.2.5", "10.96.0.11:80", "n2"),
    ("2001:db8::5", "10.96.0.11:80", "192.0.2.12")])
def test_a_trace_by_the_tunnel_needs_addresses(rig, client, target, peer):
    """And of one family."""
    done = ctl.run(rig, "trace", client, target, peer)
    assert done.returncode and "comes by the tunnel" in done.stderr, done


def _value(rig, name, **labels):
    page = httpclient.parse_metrics(httpclient.get(
        rig.ns.name, "127.0.0.1", 10249, "/metrics").body)
    return page["ofproxyd_multicluster_" + name].value(**labels)


def _sent(rig):
    return _value(rig, "packets_total", cluster="west", direction="sent")


def test_metrics_tell_clusters_of_one_id_apart(rig):
    """A series must not be there twice."""
    twin = clusterset.cluster_info("twin", ["198.51.100.3"], "10.98.0.0/16")
    twin["spec"]["clusterID"] = "west"
    rig.api.apply(twin)
    wait_for(lambda: _value(rig, "clusters") == 2, 10, "the other one", rig)
    for name in "west", "twin":
        assert _value(rig, "packets_total", cluster=name,
                      direction="sent") == 0


def test_metrics_count_clusters_and_packets(rig):
    """Those that the bridge has sent to each."""
    assert _value(rig, "gateway") == 1
    assert _value(rig, "clusters") == 1
    assert _value(rig, "networks_left_out") == 0
    assert _sent(rig) == 0
    assert _value(rig, "packets_total", cluster="west",
                  direction="received") == 0
    frame = packets.eth(pod_mac("10.10.1.6"), rig.gateway_mac(), *packets.ip(
        "10.10.1.6", "10.97.0.10", 17, packets.udp(40000, 53)))
    for _ in range(3):
        rig.switch.appctl("netdev-dummy/receive", "pod-b", frame.hex())
    wait_for(lambda: _sent(rig) == 3, 25, "three packets", rig)
    assert _value(rig, "bytes_total", cluster="west",
                  direction="sent") >= 3 * 42
    # Flows that are written anew begin at 0; the counter doesn't.
    rig.api.apply(clusterset.cluster_info("west", ["198.51.100.2"], WEST))
    wait_for(lambda: "set_field:198.51.100.2->tun_dst"
             in "".join(rig.switch.dump_flows()), 10, "the new flows", rig)
    rig.switch.appctl("netdev-dummy/receive", "pod-b", frame.hex())
    wait_for(lambda: _sent(rig) == 4, 25, "the fourth", rig)
    assert "    sent: 4 packets, " in ctl.output(rig, "clusters")


def test_metrics_are_documented(rig):
    """docs/multicluster.md has a row for each."""
    page = httpclient.parse_metrics(httpclient.get(
        rig.ns.name, "127.0.0.1", 10249, "/metrics").body)
    text = (ROOT / "docs" / "multicluster.md").read_text()
    for name, family in page.items():
        if name.startswith("ofproxyd_multicluster_"):
            assert "| `%s` | %s | %s |" % (name, family.type,
                                           family.help) in text, name
