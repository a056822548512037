# SPDX-License-Identifier: Apache-2.0
"""How the host leads packets to NodePorts and external addresses into the
bridge: packet rules, routing rule and routes of ours in a real kernel.

A node with its default route to a network where clients are, and with a
gateway link behind which a namespace stands for the bridge: what arrives there
has been led in, and is answered there."""
import contextlib
import re
import socket
import threading

import pytest

from support.hostprobe import Probe
from support.packets import (ICMP, ICMPV6, SCTP, TCP, UDP, Wire, icmp_error,
                             ip, mac_of, sctp_init, sock, tcp, udp)
from support.rulesprobe import BASIC, SLOWER, RulesProbe
from support.wait import slowness, wait_for

NODE = {4: "192.0.2.1", 6: "2001:db8::1"}
CLIENT = {4: "192.0.2.99", 6: "2001:db8::99"}
GATEWAY = {4: "10.10.1.1", 6: "2001:db8:10:1::1"}
BRIDGE = {4: "10.10.1.5", 6: "2001:db8:10:1::5"}
VIRTUAL = {4: "169.254.0.253", 6: "fc01::aabb:ccdd:eeff"}
NODE_PORT_IP = {4: "169.254.0.252", 6: "fc01::aabb:ccdd:eefe"}
EXTERNAL = {4: "203.0.113.10", 6: "2001:db8:ff::10"}
ANY = {4: "0.0.0.0", 6: "::"}
FULL = {4: 32, 6: 128}
PORT, OTHER_PORT = 30080, 30081
LOCAL_PORT = 443            # Of external addresses.
MARK = 0x20000000
TOO_BIG = {4: (3, 4), 6: (2, 0)}
SOON = 10 * SLOWER
FAMILIES = pytest.mark.parametrize("family", [4, 6])
PROTOS = pytest.mark.parametrize("proto", ["TCP", "UDP", "SCTP"])
KINDS = {"TCP": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
         "SCTP": (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
         "UDP": (socket.SOCK_DGRAM, socket.IPPROTO_UDP)}

PKTINFO = {4: ((socket.IPPROTO_IP, 8), (socket.IPPROTO_IP, 8)),
           6: ((socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO),
               (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO))}

RULES = BASIC + [
    "node-port-ip 169.254.0.252", "node-port-ip fc01::aabb:ccdd:eefe",
    "kept-mac aa:bb:cc:dd:ee:ff",
    "add addrs 192.0.2.1/32", "add addrs 127.0.0.1/32",
    "add addrs 2001:db8::1/128"]


class Echo:
    """Answers with its name and the client's address, at all of a
    namespace's addresses."""

    def __init__(self, namespace, name, family, proto, port):
        self.socket = make(namespace, family, proto)
        self.socket.bind(("", port))
        self.name, self.stream = name, proto != "UDP"
        if self.stream:
            self.socket.listen(8)
        else:
            self.socket.setsockopt(*PKTINFO[family][0], 1)
        self.family = family
        self.thread = threading.Thread(target=self._run)
        self.ended = False
        self.thread.start()

    def _run(self):
        while not self.ended:
            try:
                if self.stream:
                    peer, address = self.socket.accept()
                    with peer:
                        peer.sendall(self._text(address))
                else:
                    _, info, _, address = self.socket.recvmsg(100, 100)
                    self.socket.sendmsg(
                        [self._text(address)],
                        [(*PKTINFO[self.family][1], self._source(info))], 0,
                        address)
            except TimeoutError:
                pass

    def _source(self, info):
        """It answers from the address that it was asked at."""
        data = info[0][2]
        return b"\0" * 4 + data[8:12] * 2 if self.family == 4 \
            else data[:16] + b"\0" * 4

    def _text(self, address):
        return ("%s %s" % (self.name, address[0])).encode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended = True
        self.thread.join()
        self.socket.close()


def make(namespace, family, proto, timeout=0.2):
    """A socket inside a namespace."""
    kind, number = KINDS[proto]
    if proto != "SCTP":
        return sock(namespace, family, kind, timeout=timeout)
    try:
        socket.socket(socket.AF_INET, kind, number).close()
    except OSError:
        pytest.skip("this kernel has no SCTP")
    from support import setns

    def make_sctp():
        made = socket.socket(
            socket.AF_INET6 if family == 6 else socket.AF_INET, kind, number)
        made.settimeout(timeout)
        return made
    return setns.call(namespace.name, make_sctp)


def ask(namespace, family, proto, address, port, source=None):
    """Who answers, and the address that it saw; None if nobody does."""
    with make(namespace, family, proto, timeout=slowness()) as s:
        if source:
            s.bind((source, 0))
        try:
            s.connect((address, port))
            if proto == "UDP":
                s.send(b"x")
            return tuple(s.recv(100).decode().split()) or None
        except OSError:
            return None


class World:
    """Node, bridge, and a network with clients."""

    def __init__(self, netns):
        self.node = netns.namespace("node")
        self.bridge = netns.namespace("bridge")
        self.client = netns.namespace("client")
        for ns in self.node, self.bridge, self.client:
            ns.sysctl(net__ipv6__conf__default__accept_dad=0)
        self.node.sysctl(net__ipv4__ip_forward=1,
                         net__ipv6__conf__all__forwarding=1)
        self.node.batch(
            "link add gw0 type veth peer name eth0 netns " + self.bridge.name,
            "link add up0 type veth peer name eth0 netns " + self.client.name,
            "link set gw0 up", "link set up0 up", "link set lo up",
            *self.addresses("up0", NODE))
        self.bridge.batch("link set eth0 up", "link set lo up",
                          *self.addresses("eth0", BRIDGE),
                          *("addr add %s/%d dev lo" % (ip[f], FULL[f])
                            for f in (4, 6) for ip in (NODE_PORT_IP,
                                                       EXTERNAL)))
        self.client.batch("link set eth0 up", "link set lo up",
                          *self.addresses("eth0", CLIENT),
                          *("addr add %s/%d dev lo" % (EXTERNAL[f], FULL[f])
                            for f in (4, 6)))
        for f in (4, 6):
            self.node.ip("route", "add", "default", "via", CLIENT[f])
            self.client.ip("route", "add", "default", "via", NODE[f])
            self.bridge.ip("route", "add", "default", "via", GATEWAY[f],
                           "dev", "eth0", "onlink")
        self.mac = mac_of(self.bridge, "eth0")

    @staticmethod
    def addresses(link, ips):
        """Lines that give these to a link."""
        return ["addr add %s/%d dev %s" % (ips[f], {4: 24, 6: 64}[f], link)
                for f in (4, 6)]

    def host_commands(self):
        """What host-probe has to want."""
        return ["gateway gw0", "ready 1", "complete 1", "forwarding 1",
                "localhost 1"] + [
            line for f in (4, 6) for line in (
                "addr %s/%d" % (GATEWAY[f], {4: 24, 6: 64}[f]),
                "neigh %s %s" % (VIRTUAL[f], self.mac),
                "marked " + VIRTUAL[f],
                "route %s/%d %s %s" % (NODE_PORT_IP[f], FULL[f], VIRTUAL[f],
                                       GATEWAY[f]))]

    def client_routes(self, family, external=True):
        """A client that has the external address only by the node."""
        if external:
            self.client.ip("addr", "del", "%s/%d" % (EXTERNAL[family],
                                                     FULL[family]),
                           "dev", "lo")

    def entries(self, family, proto, port):
        """The node's conntrack entries to a port, as text."""
        reply = self.node.run("conntrack", "-L", "-f", "ipv%d" % family, "-p",
                              proto.lower(), "--orig-port-dst", str(port),
                              check=False)
        return [re.sub(r"^(\w+ +\d+) \d+", r"\1", line)
                for line in reply.stdout.splitlines()]


@pytest.fixture(name="world")
def _world(netns):
    return World(netns)


@pytest.fixture(name="host")
def _host(world, tmp_path):
    probe = Probe(world.node, tmp_path)
    probe.set(*world.host_commands())
    yield probe
    probe.stop()


@pytest.fixture(name="probe")
def _probe(world, tmp_path):
    with RulesProbe(world.node, tmp_path) as probe:
        yield probe


@pytest.fixture(name="served")
def _served(world, host, probe):
    assert host
    probe.set(*RULES)
    return world


def node_port(family, proto, port=PORT):
    """The command for a NodePort."""
    return "port ports %s %s %d" % (ANY[family], proto, port)


def external(family, proto, address=None, port=LOCAL_PORT):
    """The command for a port of an external address."""
    return "port external %s %s %d" % (address or EXTERNAL[family], proto,
                                       port)


@contextlib.contextmanager
def servers(world, family, proto, *ports):
    """The same ports on the bridge, the node and among the clients."""
    with contextlib.ExitStack() as stack:
        for ns, name in ((world.bridge, "bridge"), (world.node, "node"),
                         (world.client, "client")):
            for port in ports:
                stack.enter_context(Echo(ns, name, family, proto, port))
        yield


@FAMILIES
@PROTOS
def test_a_node_port_leads_into_the_bridge(served, probe, family, proto):
    with servers(served, family, proto, PORT, OTHER_PORT):
        assert ask(served.client, family, proto, NODE[family], PORT) \
            == ("node", CLIENT[family])
        # An entry of before would go on as it began.
        served.node.run("conntrack", "-F")
        probe.send(node_port(family, proto))
        probe.wait_sync()
        assert ask(served.client, family, proto, NODE[family], PORT) \
            == ("bridge", CLIENT[family])
        assert ask(served.node, family, proto, NODE[family], PORT) \
            == ("bridge", GATEWAY[family])
        assert ask(served.node, family, proto, NODE[family], OTHER_PORT) \
            == ("node", NODE[family])
        assert ask(served.client, family, proto, NODE[family], OTHER_PORT) \
            == ("node", CLIENT[family])


@pytest.mark.parametrize("proto", ["TCP", "UDP"])
def test_a_node_port_at_127_0_0_1_is_for_the_node_only(served, probe, proto):
    probe.send(node_port(4, proto))
    probe.wait_sync()
    for ns in served.client, served.bridge:
        ns.sysctl(net__ipv4__conf__all__route_localnet=1)
    with servers(served, 4, proto, PORT, OTHER_PORT):
        assert ask(served.node, 4, proto, "127.0.0.1", PORT) \
            == ("bridge", GATEWAY[4])
        assert ask(served.node, 4, proto, "127.0.0.1", OTHER_PORT) \
            == ("node", "127.0.0.1")
        # Packets to it can come by a network, from who wants to.
        for ns, via in (served.client, NODE), (served.bridge, GATEWAY):
            ns.ip("rule", "add", "pref", "1", "lookup", "100")
            ns.ip("rule", "del", "pref", "0")
            ns.ip("rule", "add", "pref", "2", "lookup", "local")
            ns.ip("route", "add", "127.0.0.1", "via", via[4], "dev", "eth0",
                  "onlink", "table", "100")
        for port in PORT, OTHER_PORT:
            assert ask(served.client, 4, proto, "127.0.0.1", port,
                       CLIENT[4]) is None
            assert ask(served.bridge, 4, proto, "127.0.0.1", port,
                       BRIDGE[4]) is None
        dropped = served.node.run("nft", "list", "chain", "inet", "ofproxyd",
                                  "prerouting_raw").stdout
        assert re.search(r"daddr 127.* packets [1-9]", dropped)


@FAMILIES
@PROTOS
def test_only_the_served_ports_of_an_external_address_lead_into_the_bridge(
        served, probe, family, proto):
    probe.send(external(family, proto))
    probe.wait_sync()
    with servers(served, family, proto, LOCAL_PORT, OTHER_PORT):
        assert ask(served.node, family, proto, EXTERNAL[family], LOCAL_PORT) \
            == ("bridge", GATEWAY[family])
        # Who the address is really of.
        assert ask(served.node, family, proto, EXTERNAL[family], OTHER_PORT) \
            == ("client", NODE[family])
        other = "TCP" if proto != "TCP" else "UDP"
        with servers(served, family, other, LOCAL_PORT):
            assert ask(served.node, family, other, EXTERNAL[family],
                       LOCAL_PORT) == ("client", NODE[family])
        served.client_routes(family)
        assert ask(served.client, family, proto, EXTERNAL[family],
                   LOCAL_PORT) == ("bridge", CLIENT[family])
        assert ask(served.client, family, proto, EXTERNAL[family],
                   OTHER_PORT) is None


@FAMILIES
@PROTOS
def test_e21_an_external_address_may_be_the_nodes_own(served, probe, family,
                                                      proto):
    probe.send(external(family, proto, NODE[family]))
    probe.wait_sync()
    with servers(served, family, proto, LOCAL_PORT, OTHER_PORT):
        assert ask(served.client, family, proto, NODE[family], LOCAL_PORT) \
            == ("bridge", CLIENT[family])
        assert ask(served.node, family, proto, NODE[family], LOCAL_PORT) \
            == ("bridge", GATEWAY[family])
        assert ask(served.client, family, proto, NODE[family], OTHER_PORT) \
            == ("node", CLIENT[family])
        assert ask(served.node, family, proto, NODE[family], OTHER_PORT) \
            == ("node", NODE[family])


@FAMILIES
def test_an_external_address_can_become_the_nodes_and_cease_to_be(
        served, probe, family):
    probe.send(external(family, "TCP"))
    probe.wait_sync()
    with servers(served, family, "TCP", LOCAL_PORT):
        for change in "add", "del":
            served.node.ip("addr", change, "%s/%d" % (
                EXTERNAL[family], FULL[family]), "dev", "up0")
            assert ask(served.node, family, "TCP", EXTERNAL[family],
                       LOCAL_PORT) == ("bridge", GATEWAY[family])


@FAMILIES
def test_the_mark_goes_no_further_than_the_gateway(served, probe, family):
    """The switch's tunnels would be routed by it, and what it sends back."""
    served.node.run(
        "nft", "add table inet x; "
        "add chain inet x out { type filter hook postrouting priority 400; }; "
        'add rule inet x out oifname "gw0" meta mark & %d != 0 counter'
        % MARK)
    probe.send(external(family, "TCP"))
    probe.wait_sync()
    with servers(served, family, "TCP", LOCAL_PORT):
        assert ask(served.node, family, "TCP", EXTERNAL[family],
                   LOCAL_PORT)[0] == "bridge"
        served.client_routes(family)
        assert ask(served.client, family, "TCP", EXTERNAL[family],
                   LOCAL_PORT)[0] == "bridge"
        # What comes from the bridge has been there.
        served.client.ip("addr", "add", "%s/%d" % (EXTERNAL[family],
                                                   FULL[family]), "dev", "lo")
        served.bridge.ip("addr", "del", "%s/%d" % (EXTERNAL[family],
                                                   FULL[family]), "dev", "lo")
        assert ask(served.bridge, family, "TCP", EXTERNAL[family],
                   LOCAL_PORT)[0] == "client"
    assert "counter packets 0 " in served.node.run("nft", "list", "table",
                                                   "inet", "x").stdout


@FAMILIES
def test_g10_kube_proxys_rules_do_not_come_first(served, probe, family):
    ip = {4: "ip", 6: "ip6"}[family]
    for hook in "prerouting", "output":
        served.node.run(
            "nft", "add table %s nat; add chain %s nat %s { type nat hook %s "
            "priority -100; }; add rule %s nat %s tcp dport { %d, %d } "
            "redirect to :%d" % (ip, ip, hook, hook, ip, hook, PORT,
                                 LOCAL_PORT, OTHER_PORT))
    probe.send(node_port(family, "TCP"),
               external(family, "TCP", NODE[family]))
    probe.wait_sync()
    with servers(served, family, "TCP", PORT, OTHER_PORT, LOCAL_PORT):
        for ns in served.client, served.node:
            for port in PORT, LOCAL_PORT:
                assert ask(ns, family, "TCP", NODE[family],
                           port)[0] == "bridge"


@FAMILIES
def test_g1_a_forward_policy_of_drop_does_not_stop_clients(served, probe,
                                                           family):
    tool = {4: "iptables-nft", 6: "ip6tables-nft"}[family]
    served.node.run(tool, "-P", "FORWARD", "DROP")
    probe.send(node_port(family, "TCP"), external(family, "TCP"))
    wait_for(lambda: "ofproxyd" in served.node.run(tool, "-S",
                                                   "FORWARD").stdout,
             2 * SLOWER, "our rules", probe)
    probe.wait_sync()
    served.client_routes(family)
    with servers(served, family, "TCP", PORT, LOCAL_PORT):
        assert ask(served.client, family, "TCP", NODE[family],
                   PORT)[0] == "bridge"
        assert ask(served.client, family, "TCP", EXTERNAL[family],
                   LOCAL_PORT)[0] == "bridge"


def test_strict_reverse_path_filters_do_not_stop_answers(served, probe):
    served.node.sysctl(net__ipv4__conf__all__rp_filter=1,
                       net__ipv4__conf__up0__rp_filter=1)
    probe.send(node_port(4, "TCP"), external(4, "TCP"))
    probe.wait_sync()
    served.client_routes(4)
    with servers(served, 4, "TCP", PORT, LOCAL_PORT):
        assert ask(served.client, 4, "TCP", NODE[4], PORT)[0] == "bridge"
        assert ask(served.client, 4, "TCP", EXTERNAL[4],
                   LOCAL_PORT)[0] == "bridge"
        assert ask(served.node, 4, "TCP", EXTERNAL[4],
                   LOCAL_PORT)[0] == "bridge"


@FAMILIES
def test_packets_of_sctp_are_led_in_where_no_socket_can_be_had(served, probe,
                                                               family):
    served.node.sysctl(net__netfilter__nf_conntrack_checksum=0)
    probe.send(node_port(family, "SCTP"), external(family, "SCTP"),
               external(family, "SCTP", NODE[family]),
               node_port(family, "TCP", OTHER_PORT))
    probe.wait_sync()
    there = mac_of(served.node, "up0")
    with Wire(served.bridge) as bridge, Wire(served.client) as client:
        for n, (address, port, arrives) in enumerate((
                (NODE, PORT, NODE_PORT_IP), (EXTERNAL, LOCAL_PORT, EXTERNAL),
                (NODE, LOCAL_PORT, NODE_PORT_IP), (NODE, OTHER_PORT, None))):
            client.send(there, ip(CLIENT[family], address[family], SCTP,
                                  sctp_init(20000 + n, port)))
            seen = bridge.wait(lambda f, n=n: f.proto == SCTP
                               and f.ports[0] == 20000 + n,
                               2.0 if arrives else 0.2)
            assert (seen and (seen.src, seen.dst, seen.ports[1])) == (
                arrives and (CLIENT[family], arrives[family], port))


@FAMILIES
@pytest.mark.parametrize("proto", ["TCP", "UDP"])
@pytest.mark.parametrize("kind", ["node port", "external", "own external"])
def test_icmp_errors_go_where_their_connection_does(served, probe, family,
                                                    proto, kind):
    """As from a router for which the answers were too big."""
    address = EXTERNAL[family] if kind == "external" else NODE[family]
    port = PORT if kind == "node port" else LOCAL_PORT
    probe.send(node_port(family, proto) if kind == "node port"
               else external(family, proto, address))
    probe.wait_sync()
    served.client_routes(family)
    with servers(served, family, proto, port), \
            make(served.client, family, proto, timeout=2.0) as client, \
            Wire(served.bridge) as bridge, Wire(served.client) as router:
        client.connect((address, port))
        if proto == "UDP":
            client.send(b"x")
        assert client.recv(100).startswith(b"bridge")
        there = client.getsockname()[1]
        quoted = tcp(port, there, 0x10) if proto == "TCP" \
            else udp(port, there, b"answer")
        router.send(mac_of(served.node, "up0"), ip(
            CLIENT[family], address, ICMP if family == 4 else ICMPV6,
            icmp_error(family, TOO_BIG[family], ip(
                address, CLIENT[family], TCP if proto == "TCP" else UDP,
                quoted), 1280)))
        assert bridge.wait(lambda f: f.proto in (ICMP, ICMPV6)
                           and f.dst in (address, NODE_PORT_IP[family]))


# Connections that began before.

class Sender:
    """One UDP socket that goes on asking."""

    def __init__(self, namespace, family, address, port):
        self.socket = make(namespace, family, "UDP",
                           timeout=0.3 * slowness())
        self.socket.connect((address, port))
        self.seen = None    # The address that the last answer was for.

    def ask(self):
        """Who answers one datagram, or None."""
        try:
            self.socket.send(b"x")
            name, self.seen = self.socket.recv(100).decode().split()
            return name
        except OSError:
            return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


WAYS = [("client", "node port"), ("node", "node port"),
        ("client", "own external"), ("node", "own external"),
        ("node", "external"), ("node", "localhost")]


@FAMILIES
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_e15_e4_a_stream_follows_what_is_served(served, probe, family, way):
    """As the other end it has who would answer without the Service."""
    if way[1] == "localhost" and family == 6:
        pytest.skip("none at ::1")
    address = {"external": EXTERNAL[family],
               "localhost": "127.0.0.1"}.get(way[1], NODE[family])
    port = LOCAL_PORT if "external" in way[1] else PORT
    command = external(family, "UDP", address) if "external" in way[1] \
        else node_port(family, "UDP")
    before = "client" if way[1] == "external" else "node"
    source = {"client": CLIENT, "node": GATEWAY}[way[0]][family]
    with servers(served, family, "UDP", port), \
            Sender(getattr(served, way[0]), family, address, port) as sender:
        assert sender.ask() == before
        probe.send(command)
        wait_for(lambda: sender.ask() == "bridge" and sender.seen == source,
                 SOON, "the bridge's answer", probe)
        probe.send("un" + command)
        wait_for(lambda: sender.ask() == before and sender.seen != GATEWAY[
                 family], SOON, "another's answer", probe)
    # A masqueraded one whose link changes the kernel removes by itself.
    assert probe.number(r"Services removed: (\d+)") \
        >= (1 if way == ("node", "external") else 2)


@FAMILIES
def test_e6_a_stream_follows_the_nodes_addresses(served, probe, family):
    member = "addrs %s/%d" % (NODE[family], FULL[family])
    probe.send(node_port(family, "UDP"), "del " + member)
    probe.wait_sync()
    with servers(served, family, "UDP", PORT), \
            Sender(served.client, family, NODE[family], PORT) as sender:
        assert sender.ask() == "node"
        for command, answer in ("add", "bridge"), ("del", "node"):
            probe.send(command + " " + member)
            wait_for(lambda: sender.ask() == answer, SOON, answer,
                     probe)


@FAMILIES
def test_streams_stay_as_they_are_whatever_else_changes(served, probe, family,
                                                        tmp_path):
    mine = [node_port(family, "UDP"), external(family, "UDP"),
            external(family, "UDP", NODE[family])]
    probe.send(*mine)
    probe.wait_sync()
    ways = [(served.client, NODE[family], PORT),
            (served.node, NODE[family], PORT),
            (served.node, EXTERNAL[family], LOCAL_PORT),
            (served.client, NODE[family], LOCAL_PORT)]
    with servers(served, family, "UDP", PORT, LOCAL_PORT, OTHER_PORT), \
            contextlib.ExitStack() as stack:
        senders = [stack.enter_context(Sender(ns, family, ip, port))
                   for ns, ip, port in ways]
        other = stack.enter_context(Sender(served.client, family,
                                           NODE[family], OTHER_PORT))

        def state():
            assert [s.ask() for s in senders] == ["bridge"] * len(ways)
            return [re.sub(r" (\[ASSURED\]|mark=).*", "", line)
                    for port in (PORT, LOCAL_PORT)
                    for line in served.entries(family, "UDP", port)]

        before = state()
        assert other.ask() == "node"
        probe.send(node_port(family, "UDP", OTHER_PORT),
                   node_port(family, "SCTP", PORT),
                   external(family, "UDP", "198.51.100.1"))
        wait_for(lambda: other.ask() == "bridge", SOON, "the change",
                 probe)
        assert state() == before
        # A restart: the table is written anew, but nothing in it is news.
        probe.stop()
        with RulesProbe(served.node, tmp_path) as again:
            again.set(*RULES, *mine, node_port(family, "UDP", OTHER_PORT))
            removed = again.ask("state")
            assert state() == before
            again.send("un" + node_port(family, "UDP", OTHER_PORT))
            wait_for(lambda: other.ask() == "node", SOON, "the change",
                     again)
            assert state() == before
            assert not [line for line in removed if "Services" in line]


@FAMILIES
def test_what_others_translate_is_left_alone(served, probe, family):
    """As a connection that kube-proxy has led to its endpoint."""
    ip = {4: "ip", 6: "ip6"}[family]
    served.node.run(
        "nft", "add table %s nat; add chain %s nat pre { type nat hook "
        "prerouting priority -100; }; add rule %s nat pre udp dport %d "
        "redirect to :%d" % (ip, ip, ip, PORT, OTHER_PORT))
    with servers(served, family, "UDP", OTHER_PORT), \
            Sender(served.client, family, NODE[family], PORT) as sender, \
            Sender(served.client, family, NODE[family], OTHER_PORT) as mine:
        assert sender.ask() == "node" and mine.ask() == "node"
        probe.send(node_port(family, "UDP"),
                   node_port(family, "UDP", OTHER_PORT))
        wait_for(lambda: mine.ask() == "bridge", SOON, "the other one",
                 probe)
        assert sender.ask() == "node"
