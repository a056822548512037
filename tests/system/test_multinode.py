# SPDX-License-Identifier: Apache-2.0
"""The rig of several nodes itself, without ofproxyd: flows by hand carry
packets through real tunnels, and the capture tells what they were."""
import pytest

from support import packets
from support.multinode import GATEWAY, MultiCluster, host_state
from support.traffic import Client
from support.wait import wait_for

BOTH = pytest.mark.parametrize("family", [4, 6])
TUNNEL = "tun0"
IP = {4: "ip,nw_dst=", 6: "ipv6,ipv6_dst="}
TUN_DST = {4: "tun_dst", 6: "tun_ipv6_dst"}


def program(cluster, node):
    """A bridge with a tunnel port and the flows of a node."""
    switch = node.switch
    switch.add_bridge()
    switch.vsctl("add-port", switch.bridge, GATEWAY, "--", "set",
                 "Interface", GATEWAY, "type=internal", "--", "add-port",
                 switch.bridge, TUNNEL, "--", "set", "Interface", TUNNEL,
                 "type=" + cluster.tunnel, "options:remote_ip=flow",
                 "options:key=flow", "options:tos=inherit")
    node.ip("link", "set", GATEWAY, "up")
    for cidr in node.cidrs:
        more = ["nodad"] if cidr.version == 6 else []
        node.ip("addr", "add", "%s/%d" % (cidr[1], cidr.prefixlen), "dev",
                GATEWAY, *more)


def add_flows(cluster, node, outer):
    """To its own pods, to those of the others, and to the host."""
    flows = ["priority=0,actions=NORMAL",
             "priority=30,icmp6,icmp_type=135,actions=NORMAL",
             "priority=30,icmp6,icmp_type=136,actions=NORMAL"]
    for pod in node.pods:
        for f in cluster.families:
            flows.append("priority=20,%s%s,actions=dec_ttl,mod_dl_dst:%s,"
                         "output:%s" % (IP[f], pod.of(f), pod.mac, pod.iface))
    for other in cluster.nodes:
        if other is not node:
            for cidr in other.cidrs:
                flows.append(
                    "priority=10,%s%s,actions=set_field:%s->%s,dec_ttl,"
                    "output:%s" % (IP[cidr.version], cidr, other.of(outer),
                                   TUN_DST[outer], TUNNEL))
    for flow in flows:
        node.switch.ofctl("add-flow", flow, options=("--names",))


@pytest.fixture(name="tunnelled", scope="module", params=[
    ("geneve", 4), ("vxlan", 4), ("gre", 4), ("geneve", 6), ("vxlan", 6),
    ("gre", 6)], ids=lambda p: "%s-over-IPv%d" % p)
def _tunnelled(request, tmp_path_factory):
    """Two nodes with a tunnel, the outer family at the end of the tuple."""
    tunnel, outer = request.param
    with MultiCluster(tmp_path_factory.mktemp("rig"), tunnel=tunnel,
                      daemons=False, n_pods=0) as cluster:
        for node in cluster.nodes:
            program(cluster, node)
            node.add_pod(node.label + "-0")
        for node in cluster.nodes:
            add_flows(cluster, node, outer)
        cluster.serve([node.pods[0] for node in cluster.nodes], "8080")
        cluster.wait_connected()
        yield cluster, outer


@BOTH
def test_pods_of_two_nodes_meet_through_the_tunnel(tunnelled, family):
    """And only there; the capture shows both headers."""
    cluster, outer = tunnelled
    one, two = (node.pods[0] for node in cluster.nodes)
    with cluster.capture() as capture:
        result = Client(one, "connect", two.of(family), 8080,
                        count=5).wait()
        assert result["answers"] == {"n2-0:8080": 5}
        assert result["sources"] == [one.of(family)]
    assert capture.between(one.of(family), two.of(family)) == {cluster.tunnel}
    assert not capture.plain_of(cluster.nodes[0].cidrs)
    first = capture.of(one.of(family), two.of(family))[0]
    assert (first.outer.src, first.outer.dst) == tuple(
        node.of(outer) for node in cluster.nodes)


def test_the_host_answers_once(tunnelled):
    """Though its kernel sees what the switch reads, too."""
    cluster, _ = tunnelled
    one, two = cluster.nodes
    for family in (4, 6):
        with cluster.capture(two) as capture:
            assert packets.ping(cluster.router, family, two.of(family))
            assert packets.ping(one, family, two.of(family))
        assert [s.inner.icmp[0] for s in capture.of(two.of(family))
                if not s.sent and s.inner.icmp[0] < 133] == [
                    packets.ECHO_REPLY[family]] * 2


@BOTH
def test_the_outside_and_the_other_subnet_are_there(tmp_path, family):
    """Routed by the router; what comes back finds its way."""
    with MultiCluster(tmp_path, "ab", mode="noEncap", daemons=False,
                      n_pods=0) as cluster:
        one, two = cluster.nodes
        assert packets.ping(one, family, two.of(family))
        assert packets.ping(one, family, cluster.outside_address(family))
        assert packets.ping(cluster.outside, family, two.of(family))
        before = host_state(one)
        one.ip("route", "add", "198.51.100.128/25", "dev", "lo")
        assert wait_for(lambda: host_state(one) != before, 1, "a route")
