# SPDX-License-Identifier: Apache-2.0
"""A bridge as Antrea's agent leaves it: a pipeline in the shape of that
agent's, with its tables, registers, zones, marks and cookies, as far as pods,
tunnels to other nodes (IPv4) and ClusterIP Services need it, and NodePorts and
the node itself with proxyAll (IPv4).  Packets really pass it.

    antrea = Antrea(switch, gateway=Port(...), pods=[Port(...)],
                    services=[Svc("10.96.0.10", 80, ["10.10.1.3:8080"])])
    antrea.program()
"""
import dataclasses
import ipaddress
import itertools

# The tables that exist with IPv4 and IPv6, Service proxy and policies, without
# multicast and proxyAll; numbered densely.
TABLES = (
    "PipelineRootClassifier", "ARPSpoofGuard", "ARPResponder", "Classifier",
    "SpoofGuard", "IPv6", "UnSNAT", "ConntrackZone", "ConntrackState",
    "PreRoutingClassifier", "SessionAffinity", "ServiceLB", "EndpointDNAT",
    "AntreaPolicyEgressRule", "EgressRule", "EgressDefaultRule",
    "EgressMetric", "L3Forwarding", "EgressMark", "L3DecTTL", "SNATMark",
    "SNAT", "L2ForwardingCalc", "IngressSecurityClassifier",
    "AntreaPolicyIngressRule", "IngressRule", "IngressDefaultRule",
    "IngressMetric", "ConntrackCommit", "Output")
DROPS = ("PipelineRootClassifier", "ARPSpoofGuard", "ARPResponder",
         "Classifier", "SpoofGuard", "Output")
NO_MISS = ("ConntrackState", "SessionAffinity", "L3Forwarding")
DEFAULT, PODS, POLICY, SERVICE = range(4)       # Cookie categories.
METERS = (256, 257, 258)
ROUND_KEY = "roundNum"
VIRTUAL = {4: "169.254.0.253", 6: "fc01::aabb:ccdd:eeff"}
NODE_PORT_IP = "169.254.0.252"                  # What a node's is turned into.
ZONES = {4: (65520, 65521), 6: (65510, 65511)}  # Main and SNAT.
VIRTUAL_MAC = "aa:bb:cc:dd:ee:ff"               # Of what is behind tunnels.


@dataclasses.dataclass
class Port:
    """A pod, or the gateway."""
    ofport: int
    mac: str
    addresses: list


@dataclasses.dataclass
class Peer:
    """Another node, reached by the tunnel."""
    address: str
    pod_cidr: str
    gateway: str


@dataclasses.dataclass
class Svc:
    """A Service port; endpoints as "ADDRESS:PORT", "[ADDRESS]:PORT"."""
    address: str
    port: int
    endpoints: list
    proto: str = "tcp"
    affinity: int = 0
    node_port: int = 0


def family_of(address):
    """4 or 6."""
    return ipaddress.ip_address(address).version


def split(endpoint):
    """(address, port) of "ADDRESS:PORT"."""
    address, port = endpoint.rsplit(":", 1)
    return address.strip("[]"), int(port)


def dst(address):
    """A match for packets to an address or a network."""
    if ":" in address:
        return "ipv6,ipv6_dst=" + address
    return "ip,nw_dst=" + address


def src(address):
    """A match for packets from an address."""
    if ":" in address:
        return "ipv6,ipv6_src=" + address
    return "ip,nw_src=" + address


def with_more(tables=TABLES):
    """The tables with some that options of that agent bring, so that all
    numbers after the fifth are others."""
    made = list(tables)
    for new, before in (("PipelineIPClassifier", "UnSNAT"),
                        ("NodePortMark", "SessionAffinity"),
                        ("DSRServiceMark", "EndpointDNAT"),
                        ("EgressQoS", "L3DecTTL"),
                        ("TrafficControl", "IngressSecurityClassifier")):
        made.insert(made.index(before), new)
    return tuple(made)


class Antrea:
    """See the module.  'tunnel' is the port of that; 'node_ips' are those with
    NodePorts: with any, proxyAll is on."""

    def __init__(self, switch, gateway, pods=(), services=(), cidrs=(),
                 round_=1, tables=TABLES, tunnel=0, peers=(), node_ips=()):
        self.tables = tables
        self.node_ips = list(node_ips)
        if self.node_ips and "NodePortMark" not in tables:
            at = tables.index("SessionAffinity")
            self.tables = (*tables[:at], "NodePortMark", *tables[at:])
        self.tunnel, self.peers = tunnel, list(peers)
        self.switch, self.gateway = switch, gateway
        self.pods, self.services = list(pods), list(services)
        self.cidrs = [str(c) for c in cidrs]
        self.round = round_
        self.flows, self.groups = [], []
        self._group_ids = itertools.count(1)

    # Making flows.

    def cookie(self, category, object_id=0):
        """A cookie of this round."""
        return self.round << 48 | category << 40 | object_id

    def numbered(self, text):
        """Text with table names in <> replaced by numbers."""
        for number, name in enumerate(self.tables):
            text = text.replace("<%s>" % name, str(number))
        return text

    def flow(self, where, priority, match, actions, category=PODS,
             object_id=0):
        """One more flow; "NEXT" and table names in <> become numbers."""
        number = self.tables.index(where)
        following = self.tables[(number + 1) % len(self.tables)]
        actions = self.numbered(
            actions.replace("NEXT", "goto_table:<%s>" % following))
        self.flows.append("cookie=0x%x,table=%d,priority=%d%s,actions=%s" % (
            self.cookie(category, object_id), number, priority,
            match and "," + match, actions))

    def render(self):
        """Makes all flows and groups."""
        self.flows, self.groups = [], []
        self._group_ids = itertools.count(1)
        for name in self.tables:
            if name in DROPS:
                self.flow(name, 0, "", "drop", DEFAULT)
            elif name not in NO_MISS:
                self.flow(name, 0, "", "NEXT", DEFAULT)
        self._fixed()
        for family in (4, 6):
            self._family(family)
        self._port(self.gateway)
        for pod in self.pods:
            self._port(pod)
            self._pod(pod)
        if self.tunnel:
            self._tunnel()
        if self.node_ips:
            self._proxy_all()
        for service in self.services:
            self.add_service(service)
        return self

    def _fixed(self):
        flow = self.flow
        flow("PipelineRootClassifier", 200, "arp",
             "goto_table:<ARPSpoofGuard>")
        flow("ARPResponder", 190, "arp", "NORMAL")
        flow("IPv6", 200, "icmp6,icmp_type=135,icmp_code=0", "NORMAL")
        flow("IPv6", 200, "icmp6,icmp_type=136,icmp_code=0", "NORMAL")
        flow("IPv6", 200, "ipv6,ipv6_dst=ff00::/8", "NORMAL")
        flow("Classifier", 200, "in_port=%d" % self.gateway.ofport,
             "set_field:0x2/0xf->reg0,set_field:0x8000000/0x8000000->reg4,"
             "goto_table:<SpoofGuard>")
        flow("ConntrackState", 0, "", "goto_table:<PreRoutingClassifier>",
             DEFAULT)
        flow("SessionAffinity", 0, "", "set_field:0x10000/0x70000->reg4",
             SERVICE)
        flow("L3Forwarding", 0, "", "set_field:0x20/0xf0->reg0,"
             "goto_table:<L2ForwardingCalc>", DEFAULT)
        flow("EndpointDNAT", 190, "reg4=0x20000/0x70000",
             "set_field:0x10000/0x70000->reg4,resubmit(,<ServiceLB>)",
             SERVICE)
        flow("EndpointDNAT", 200, "reg0=0x4000/0x4000",
             "controller(reason=no_match,id=32776,userdata=04)", SERVICE)
        flow("L3DecTTL", 210, "ip,reg0=0x2/0xf", "NEXT")
        flow("L3DecTTL", 210, "ipv6,reg0=0x2/0xf", "NEXT")
        flow("Output", 200, "reg0=0x200000/0x600000", "output:NXM_NX_REG1[]")
        flow("EgressRule", 200, "conj_id=7,ip", "set_field:0x7->reg5,"
             "goto_table:<EgressMetric>", POLICY)
        flow("EgressRule", 200, "ip,nw_src=10.10.1.250",
             "conjunction(7,1/2)", POLICY)
        flow("EgressRule", 200, "ip,nw_dst=10.10.1.251",
             "conjunction(7,2/2)", POLICY)

    def _family(self, family):
        flow, ip = self.flow, {4: "ip", 6: "ipv6"}[family]
        main, snat = ZONES[family]
        flow("PipelineRootClassifier", 200, ip, "goto_table:<Classifier>")
        flow("UnSNAT", 200, dst(VIRTUAL[family]),
             "ct(table=<ConntrackZone>,zone=%d,nat)" % snat, SERVICE)
        flow("ConntrackZone", 200, ip,
             "ct(table=<ConntrackState>,zone=%d,nat)" % main)
        flow("ConntrackState", 200, ip + ",ct_state=+inv+trk", "drop")
        flow("ConntrackState", 190, ip + ",ct_state=-new+trk,ct_mark=0/0x10",
             "goto_table:<AntreaPolicyEgressRule>")
        flow("ConntrackState", 190,
             ip + ",ct_state=-new+trk,ct_mark=0x10/0x10",
             "set_field:0x200/0x200->reg0,"
             "goto_table:<AntreaPolicyEgressRule>", SERVICE)
        flow("PreRoutingClassifier", 200, ip,
             ("resubmit(,<NodePortMark>)," if self.node_ips else "")
             + "resubmit(,<SessionAffinity>),resubmit(,<ServiceLB>)", SERVICE)
        flow("L3Forwarding", 210,
             ip + ",ct_state=+rpl+trk,ct_mark=0x2/0xf", self._to_gateway())
        flow("L3DecTTL", 200, ip, "dec_ttl,NEXT")
        flow("SNAT", 200, ip + ",ct_state=-new-rpl+trk,ct_mark=0x20/0x20",
             "ct(table=<L2ForwardingCalc>,zone=%d,nat)" % snat, SERVICE)
        flow("ConntrackCommit", 200,
             ip + ",ct_state=+new+trk,ct_mark=0/0x20",
             "ct(commit,table=<Output>,zone=%d,"
             "exec(move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))" % main)
        for cidr in self.cidrs:
            if ipaddress.ip_network(cidr).version == family:
                flow("L3Forwarding", 200, dst(cidr) + ",reg0=0/0x200",
                     "goto_table:<L2ForwardingCalc>")

    def _to_gateway(self):
        return ("set_field:%s->eth_dst,set_field:0x20/0xf0->reg0,"
                "goto_table:<L3DecTTL>" % self.gateway.mac)

    def _port(self, port):
        flow, number = self.flow, port.ofport
        for address in port.addresses:
            if family_of(address) == 4:
                flow("ARPSpoofGuard", 200,
                     "arp,in_port=%d,arp_spa=%s,arp_sha=%s"
                     % (number, address, port.mac), "NEXT")
        flow("L2ForwardingCalc", 200, "dl_dst=" + port.mac,
             "set_field:%d->reg1,set_field:0x200000/0x600000->reg0,NEXT"
             % number)
        if port is not self.gateway:
            return
        flow("SpoofGuard", 200, "ip,in_port=%d" % number,
             "goto_table:<UnSNAT>")
        flow("SpoofGuard", 200, "ipv6,in_port=%d" % number, "NEXT")
        for address in port.addresses:
            flow("Classifier", 210, src(address) + ",in_port=%d" % number,
                 "set_field:0x2/0xf->reg0,"
                 "set_field:0x10000000/0x10000000->reg4,"
                 "goto_table:<SpoofGuard>")
            flow("UnSNAT", 200, dst(address),
                 "ct(table=<ConntrackZone>,zone=%d,nat)"
                 % ZONES[family_of(address)][1], SERVICE)
            flow("L3Forwarding", 210, dst(address), self._to_gateway())

    def _pod(self, pod):
        flow = self.flow
        flow("Classifier", 190, "in_port=%d" % pod.ofport,
             "set_field:0x3/0xf->reg0,"
             "set_field:0x10000000/0x10000000->reg4,goto_table:<SpoofGuard>")
        if any(family_of(a) == 6 for a in pod.addresses):
            flow("SpoofGuard", 200, "ipv6,in_port=%d,dl_src=%s,"
                 "ipv6_src=fe80::/10" % (pod.ofport, pod.mac), "NEXT")
        for address in pod.addresses:
            flow("SpoofGuard", 200, "in_port=%d,dl_src=%s,%s" % (
                pod.ofport, pod.mac, src(address)),
                 "goto_table:<UnSNAT>" if family_of(address) == 4 else "NEXT")
            flow("L3Forwarding", 200, dst(address) + ",reg0=0x200/0x200",
                 "set_field:%s->eth_src,set_field:%s->eth_dst,"
                 "goto_table:<L3DecTTL>" % (self.gateway.mac, pod.mac))
            self._hairpin(address)

    def _tunnel(self):
        flow = self.flow
        flow("Classifier", 200, "in_port=%d" % self.tunnel,
             "set_field:0x1/0xf->reg0,set_field:0x200/0x200->reg0,"
             "goto_table:<UnSNAT>")
        flow("L2ForwardingCalc", 200, "dl_dst=" + VIRTUAL_MAC,
             "set_field:%d->reg1,set_field:0x200000/0x600000->reg0,NEXT"
             % self.tunnel)
        for peer in self.peers:
            flow("ARPResponder", 200, "arp,arp_op=1,arp_tpa=" + peer.gateway,
                 "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],"
                 "set_field:%s->eth_src,set_field:2->arp_op,"
                 "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],"
                 "set_field:%s->arp_sha,"
                 "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],"
                 "set_field:%s->arp_spa,IN_PORT"
                 % (VIRTUAL_MAC, VIRTUAL_MAC, peer.gateway))
            flow("L3Forwarding", 200, dst(peer.pod_cidr),
                 "set_field:%s->eth_src,set_field:%s->eth_dst,"
                 "set_field:%s->tun_dst,set_field:0x10/0xf0->reg0,"
                 "goto_table:<L3DecTTL>"
                 % (self.gateway.mac, VIRTUAL_MAC, peer.address))

    def _proxy_all(self):
        main, snat = ZONES[4]
        gateway = self.gateway.addresses[0]

        def flow(*args):
            self.flow(*args, SERVICE)

        def commit(zone, table, *exec_, nat=""):
            return "ct(commit,table=<%s>,zone=%d%s,exec(%s))" % (
                table, zone, nat and ",nat(src=%s)" % nat, ",".join(exec_))

        source = "move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]"
        for address in (*self.node_ips, NODE_PORT_IP):
            flow("NodePortMark", 200, dst(address),
                 "set_field:0x80000/0x80000->reg4")
        flow("L3Forwarding", 190, "ip,ct_mark=0x10/0x10,reg0=0x202/0x20f",
             self._to_gateway())
        flow("SNATMark", 200, "ip,ct_state=+new+trk,reg0=0x22/0xff",
             commit(main, "SNAT", "set_field:0x20/0x20->ct_mark",
                    "set_field:0x40/0x40->ct_mark", source))
        flow("SNATMark", 200, "ip,ct_state=+new+trk,reg0=0x12/0xff,"
             "reg4=0x200000/0x2200000",
             commit(main, "SNAT", "set_field:0x20/0x20->ct_mark", source))
        flow("SNAT", 200, "ip,ct_state=+new+trk,ct_mark=0x40/0x40,"
             "reg0=0x2/0xf", commit(snat, "L2ForwardingCalc",
                                    "set_field:0x70/0x70->ct_mark",
                                    nat=VIRTUAL[4]))
        flow("SNAT", 190, "ip,ct_state=+new+trk,ct_mark=0x20/0x20,"
             "reg0=0x2/0xf", commit(snat, "L2ForwardingCalc",
                                    "set_field:0x30/0x30->ct_mark",
                                    nat=gateway))
        flow("Output", 210, "ip,ct_mark=0x40/0x40,reg0=0x200000/0x600000",
             "IN_PORT")

    def _hairpin(self, address):
        main, snat = ZONES[family_of(address)]
        gateway = next((a for a in self.gateway.addresses
                        if family_of(a) == family_of(address)), None)
        if gateway is None:
            return
        self.flow("SNATMark", 190, "%s,%s,ct_state=+new+trk" % (
            dst(address), src(address).split(",")[1]),
                  "ct(commit,table=<SNAT>,zone=%d,exec("
                  "set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark,"
                  "move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))" % main,
                  SERVICE)
        self.flow("SNAT", 200, "%s,ct_state=+new+trk,ct_mark=0x40/0x40,"
                  "reg0=0x3/0xf" % dst(address),
                  "ct(commit,table=<L2ForwardingCalc>,zone=%d,nat(src=%s),"
                  "exec(set_field:0x70/0x70->ct_mark))"
                  % (snat, "[%s]" % gateway if ":" in gateway else gateway),
                  SERVICE)

    def add_service(self, service):
        """The flows and the group of one Service port; its group id."""
        group_id = next(self._group_ids)
        v6 = ":" in service.address
        proto = service.proto + ("6" if v6 else "")
        field = "xxreg3" if v6 else "reg3"
        after = "<ServiceLB>" if service.affinity else "<EndpointDNAT>"
        buckets = ""
        for number, endpoint in enumerate(service.endpoints):
            address, port = split(endpoint)
            value = "0x%x" % int(ipaddress.ip_address(address))
            buckets += (",bucket=bucket_id:%d,weight:100,actions="
                        "set_field:%s->%s,set_field:0x%x/0xffff->reg4,"
                        "resubmit(,%s)" % (number, value, field, port, after))
            self.flow("EndpointDNAT", 200, "%s,%s=%s,reg4=0x%x/0x7ffff" % (
                proto, field, value, 0x20000 | port),
                      "ct(commit,table=<AntreaPolicyEgressRule>,zone=%d,"
                      "nat(dst=%s),exec(set_field:0x10/0x10->ct_mark))"
                      % (ZONES[6 if v6 else 4][0], endpoint), SERVICE)
        self.groups.append("group_id=%d,type=select%s"
                           % (group_id, self.numbered(buckets)))
        match = "%s,%s=%s,tp_dst=%d" % (
            proto, "ipv6_dst" if v6 else "nw_dst", service.address,
            service.port)
        state = 0x30000 if service.affinity else 0x20000
        self.flow("ServiceLB", 200, match + ",reg4=0x10000/0x70000",
                  "set_field:0x200/0x200->reg0,set_field:0x%x/0x70000->reg4,"
                  "group:%d" % (state, group_id), SERVICE)
        if service.node_port:
            self.flow("ServiceLB", 200, "%s,tp_dst=%d,reg4=0x90000/0xf0000"
                      % (proto, service.node_port),
                      "set_field:0x200/0x200->reg0,"
                      "set_field:0x%x/0x270000->reg4,group:%d"
                      % (0x200000 | state, group_id), SERVICE)
        if service.affinity:
            self._learn(service, match, group_id)
        return group_id

    def _learn(self, service, match, group_id):
        v6, proto = ":" in service.address, service.proto.upper()
        fields = ("eth_type=0x86dd,nw_proto=%d,NXM_NX_IPV6_SRC[],"
                  "NXM_NX_IPV6_DST[]" if v6 else
                  "eth_type=0x800,nw_proto=%d,NXM_OF_IP_SRC[],"
                  "NXM_OF_IP_DST[]") % (6 if proto == "TCP" else 17)
        field = "NXM_NX_XXREG3[]" if v6 else "NXM_NX_REG3[]"
        self.flow("ServiceLB", 190, match + ",reg4=0x30000/0x70000",
                  "learn(table=<SessionAffinity>,hard_timeout=%d,"
                  "delete_learned,priority=200,cookie=0x%x,%s,OXM_OF_%s_DST[],"
                  "load:%s->%s,load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],"
                  "load:0x2->NXM_NX_REG4[16..18],load:0x1->NXM_NX_REG0[9]),"
                  "set_field:0x20000/0x70000->reg4,resubmit(,<EndpointDNAT>)"
                  % (service.affinity, self.cookie(SERVICE, group_id), fields,
                     proto, field, field), SERVICE, group_id)

    # Onto the bridge.

    def program(self, finished=True):
        """Puts all of it on the bridge; 'finished': and writes the number of
        the round, which that agent does last."""
        self.render()
        for meter in METERS:
            self.switch.ofctl("add-meter",
                              "meter=%d,pktps,burst,band=type=drop rate=100 "
                              "burst_size=200" % meter)
        self.switch.ofctl("add-groups", "-", input="\n".join(self.groups))
        self.put()
        if finished:
            self.finish()
        return self

    def name_tables(self):
        """Gives the tables their names, as a controller does."""
        for number, name in enumerate(self.tables):
            self.switch.ofctl("mod-table", str(number), "name:" + name)
        return self

    def put(self, flows=None):
        """Puts flows, all at once."""
        self.switch.ofctl("add-flows", "-", options=("--bundle",),
                          input="\n".join(self.flows if flows is None
                                          else flows) + "\n")

    def finish(self):
        """The round is over."""
        self.switch.vsctl("set", "bridge", self.switch.bridge,
                          "external_ids:%s=%d" % (ROUND_KEY, self.round))

    # What is left of it.

    def flows_left(self):
        """Flows on the bridge with cookies of this round."""
        return [f for f in self.switch.dump_flows(names=False)
                if is_antrea(f, self.round)]

    def groups_left(self):
        """Groups on the bridge that aren't of ofproxyd."""
        return [g for g in self.switch.dump_groups(names=False)
                if int(g.split(",")[0].split("=")[1]) < 0x40000000]

    def meters_left(self):
        """Those of its meters that are on the bridge."""
        text = self.switch.ofctl("dump-meters")
        return [m for m in METERS if "meter=%d " % m in text + " "]

    def mark_left(self):
        """The number of the round, or None."""
        ids = self.switch.vsctl("get", "bridge", self.switch.bridge,
                                "external_ids")
        for part in ids.strip(" {}\n").split(", "):
            key, _, value = part.partition("=")
            if key == ROUND_KEY:
                return int(value.strip('"'))
        return None


def is_antrea(flow, round_):
    """Whether a dumped flow is that agent's."""
    for part in flow.replace(",", " ").split():
        if part.startswith("cookie="):
            value = int(part[7:], 16)
            return (value >> 48 == round_ and value >> 40 & 0xff <= 8
                    and not value >> 32 & 0xff)
    return round_ == 0
