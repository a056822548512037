# SPDX-License-Identifier: Apache-2.0
"""What a node does between clusters: the objects of Antrea Multi-cluster for
a rig, and the flows that they make by the tables of Antrea's reference.

The flows stand here a second time, independent of the renderer: as
{(table, priority, match): actions} of IPv4."""
import re

from support.clusterset import API, NAMESPACE
from support.rig import CATEGORY_MULTICLUSTER, GATEWAY_OFPORT, cookie_of, is_ours

MC_MAC = "aa:bb:cc:dd:ee:f0"
VIRTUAL_MAC = "aa:bb:cc:dd:ee:ff"
TUNNEL = GATEWAY_OFPORT - 1
TUNNEL_HEX = hex(TUNNEL)
MAIN_ZONE, SNAT_ZONE = 65520, 65521
CLASSIFIER, UNSNAT, PRE_ROUTING = 3, 6, 9
L3, SNAT_MARK, SNAT, L2, COMMIT, OUTPUT = 20, 22, 23, 24, 30, 31
OUTSIDE = "203.0.113."          # Where gateways of all clusters are.
ARRIVAL = ("set_field:0x1/0xf->reg0,set_field:0x200/0x200->reg0,goto_table:%d"
           % UNSNAT)
# What the node's own pods have sent.
OWN_PODS = ("ip,%s,nw_src=10.10.1.0/24",
            "ipv6,%s,ipv6_src=2001:db8:10:1::/64")
FLOW = re.compile(r"table=(\d+), .*?priority=(\d+),?(\S*) actions=(.*)")


def gateway(name, gateway_ip, internal_ip, created=None):
    """The Gateway that the Node of this name is."""
    meta = {"name": name, "namespace": NAMESPACE}
    if created:
        meta["creationTimestamp"] = created
    return {"apiVersion": API, "kind": "Gateway", "metadata": meta,
            "gatewayIP": gateway_ip, "internalIP": internal_ip}


def flows(switch):
    """The bridge's flows between clusters, as the functions below have
    them."""
    made = {}
    for line in filter(is_ours, switch.dump_flows(names=False)):
        table, priority, match, actions = FLOW.search(line).groups()
        key = int(table), int(priority), match
        if (MC_MAC in line or OUTSIDE in match and key[0] == UNSNAT
                or key[:2] == (OUTPUT, 210) and "in_port" in match
                or cookie_of(line) >> 40 & 0xff == CATEGORY_MULTICLUSTER):
            made[key] = actions
    return made


def way_to(mac, tunnel_dst):
    """Into the tunnel as what goes between clusters."""
    return ("set_field:%s->eth_src,set_field:%s->eth_dst,"
            "set_field:%s->tun_dst,set_field:0x10/0xf0->reg0,goto_table:21"
            % (mac, MC_MAC, tunnel_dst))


def node_flows(role, mac=None, gateway_ip=None, internal_ip=None):
    """Those of the node itself in this role ("gateway", "regular" or
    None)."""
    if role is None:
        return {}
    made = {
        (CLASSIFIER, 210, "in_port=%d,dl_dst=%s" % (TUNNEL, MC_MAC)):
            ARRIVAL,
        (L2, 200, "reg0=0x10/0xf0,dl_dst=" + MC_MAC):
            "set_field:%s->reg1,set_field:0x200000/0x600000->reg0,"
            "goto_table:%d" % (TUNNEL_HEX, COMMIT),
        (OUTPUT, 210, "reg0=0x200000/0x600000,reg1=%s,in_port=%d"
         % (TUNNEL_HEX, TUNNEL)): "IN_PORT"}
    if role == "gateway":
        made[UNSNAT, 200, "ip,nw_dst=" + gateway_ip] = (
            "ct(table=7,zone=%d,nat)" % SNAT_ZONE)
        made[PRE_ROUTING, 210, "reg0=0x1/0xf,dl_dst=" + MC_MAC] = (
            "goto_table:10")
        for own in OWN_PODS:
            made[UNSNAT, 210, own % ("reg0=0x1/0xf,dl_dst=" + MC_MAC)] = "drop"
    elif internal_ip:
        made[CLASSIFIER, 210, "in_port=%d,dl_dst=%s" % (TUNNEL, MC_MAC)] = (
            way_to(mac, internal_ip))
    return made


def cluster_flows(role, mac, networks, gateways, tunnel_dst, gateway_ip=None):
    """Those to another cluster: its networks, the addresses of its gateways,
    and where packets to it go."""
    if role is None:
        return {}
    way = way_to(mac, tunnel_dst)
    made = {(L3, 200, "ip,nw_dst=" + net): way for net in networks}
    made.update({(L3, 200, "ct_state=+rpl+trk,ip,nw_dst=" + address): way
                 for address in gateways})
    if role == "gateway":
        made.update({
            (CLASSIFIER, 220, "tun_src=%s,in_port=%d,dl_dst=%s"
             % (address, TUNNEL, MC_MAC)): ARRIVAL for address in gateways})
        made.update({
            (COMMIT, 210, "ct_state=+new+trk,ct_mark=0/0x30,ip,nw_src="
             + address): "ct(commit,table=%d,zone=%d,nat(src=%s),"
            "exec(move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))"
            % (OUTPUT, MAIN_ZONE, address) for address in gateways})
    for net in networks if role == "gateway" else ():
        match = "ct_state=-rpl+trk,%sip,nw_dst=" + net
        made[SNAT_MARK, 210, match % "ct_mark=0/0x20,"] = (
            "ct(commit,table=%d,zone=%d,exec(set_field:0x20/0x20->ct_mark,"
            "move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))"
            % (SNAT, MAIN_ZONE))
        made[SNAT, 210, match % ""] = (
            "ct(commit,table=%d,zone=%d,nat(src=%s),"
            "exec(set_field:0x20/0x20->ct_mark))"
            % (L2, SNAT_ZONE, gateway_ip))
    if role == "regular":
        made.update({
            (L3, 210, "ct_state=+rpl+trk,ct_mark=0x10/0x10,ip,nw_dst="
             + address): way_to(mac, address) for address in gateways})
    for net in networks if role == "regular" else ():
        made[SNAT, 210, "ip,reg0=0x3/0xf,nw_dst=" + net] = "goto_table:24"
    return made
