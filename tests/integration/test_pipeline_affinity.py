# SPDX-License-Identifier: Apache-2.0
"""Session affinity in a real switch: what it learns, and when it forgets.

No daemon takes part; the flows are those that src/pipeline renders.  The
switch's clock is stopped, and moved by hand."""
import re

import pytest

from support import packets
from support.packets import ACK, SCTP, SYN, TCP, UDP
from support.pipenode import VIRTUAL_MAC, PipeNode, Service
from support.wait import wait_for

FAMILIES = pytest.mark.parametrize("family", [4, 6])
CLUSTER_IP = {4: "10.96.0.10", 6: "2001:db8:96::10"}
EXTERNAL_IP = {4: "203.0.113.80", 6: "2001:db8:f::80"}
NODE_IP = {4: "203.0.113.1", 6: "2001:db8:f::1"}
PROTO = {"tcp": TCP, "udp": UDP, "sctp": SCTP}
TABLE = 11
SPORT = iter(range(20000, 60000))


def endpoints(family, n):
    """Addresses outside, which are reached by the gateway."""
    return [("198.18.%d.%d" % (i // 250, i % 250 + 1)) if family == 4 else
            "2001:db8:18::%x" % (i + 1) for i in range(n)]


@pytest.fixture(name="node")
def node_(tmp_path):
    """A node with two pods."""
    with PipeNode(tmp_path / "1", 1, "noEncap") as made:
        made.node_ports(*NODE_IP.values())
        yield made
        assert not made.switch.unexpected_warnings()


def service(family=4, proto="udp", affinity=100, n=3):
    """One at the cluster IP, a NodePort and an external address."""
    svc = Service(7, proto, family, affinity)
    svc.at("cluster-ip", CLUSTER_IP[family], 80)
    svc.at("node-port", "-", 30080)
    svc.at("external", EXTERNAL_IP[family], 80)
    svc.endpoints["cluster"] = endpoints(family, n)
    return svc


class Client:
    """Someone who opens connections."""

    def __init__(self, node, port, address, proto="udp"):
        self.node, self.port, self.address = node, port, address
        self.proto = proto

    def send(self, dst, dport, *sports):
        """The first packets of connections, all at once."""
        l4 = {"tcp": lambda sport: packets.tcp(sport, dport, SYN),
              "udp": lambda sport: packets.udp(sport, dport, b"data"),
              "sctp": lambda sport: packets.sctp_init(sport, dport)}
        self.node.send_all(self.port, [packets.ip(
            self.address, dst, PROTO[self.proto], l4[self.proto](sport))
            for sport in sports],
            dst_mac=VIRTUAL_MAC if self.port == "gw" else None)

    def open(self, dst, dport=80):
        """The endpoint that a new connection gets."""
        sport = next(SPORT)
        self.send(dst, dport, sport)
        return self.node.got("gw", lambda f: f.proto == PROTO[self.proto]
                             and f.ports[0] == sport).dst


def pod(node, family=4, proto="udp", number=0):
    """A pod as a client."""
    return Client(node, node.pods[number].name, node.pods[number].of[family],
                  proto)


def outside(node, number, family=4):
    """Clients outside, who come by the gateway."""
    return Client(node, "gw", ("198.51.%d.%d" % (100 + number // 250,
                                                 number % 250 + 1))
                  if family == 4 else "2001:db8:9::%x" % (number + 1))


def learned(node):
    """The learned flows, as ovs-ofctl prints them."""
    return [line.strip() for line in node.switch.ofctl(
        "dump-flows", "table=%d" % TABLE).splitlines() if "priority=200" in
        line]


def stop_clock(node):
    """The switch's time stands still from now on."""
    node.switch.appctl("time/stop")


def pass_seconds(node, seconds):
    """Moves the switch's time."""
    node.switch.appctl("time/warp", str(int(seconds * 1000)), "1000")


@FAMILIES
@pytest.mark.parametrize("proto", ["tcp", "udp", "sctp"])
def test_a_client_keeps_its_endpoint_by_all_addresses(node, family, proto):
    """Whatever address and port of the Service port it uses; others are
    spread."""
    node.serve(service(family, proto, n=30))
    node.load()
    client, other = [pod(node, family, proto, i) for i in (0, 1)]
    first = client.open(CLUSTER_IP[family])
    for dst, dport in [(CLUSTER_IP[family], 80), (EXTERNAL_IP[family], 80),
                       (NODE_IP[family], 30080)] * 3:
        if proto == "sctp":     # This datapath tracks it without ports.
            node.flush_conntrack()
        assert client.open(dst, dport) == first
    other.open(CLUSTER_IP[family])
    flow, _ = learned(node)
    assert "idle_timeout=100" in flow and "hard_timeout" not in flow


@FAMILIES
@pytest.mark.parametrize("n", [3, 100, 600])
def test_clients_are_spread_and_a_first_burst_is_not(node, family, n):
    """A client's first connections, made at once, find one endpoint; also
    where groups are of two levels."""
    node.serve(service(family, n=n))
    node.load()
    first = []
    for i in range(15):
        ports = [next(SPORT) for _ in range(10)]
        outside(node, i, family).send(CLUSTER_IP[family], 80, *ports)
        got = {node.got("gw", lambda f, want=sport: f.proto == UDP
                        and f.ports[0] == want).dst for sport in ports}
        assert len(got) == 1
        first += got
    assert len(set(first)) >= min(n, 10)


@FAMILIES
def test_a_client_that_was_forgotten_begins_anew(node, family):
    """It isn't sent to the same endpoint again and again."""
    node.serve(service(family, affinity=1))
    node.load()
    client, found = pod(node, family), set()
    for _ in range(30):
        found.add(client.open(CLUSTER_IP[family]))
        if len(found) > 1:
            return
        node.switch.ofctl("del-flows", "table=%d,priority=200" % TABLE,
                          options=("--strict",))
        wait_for(lambda: not learned(node), 10, "nothing", node.dump)
    pytest.fail("always the same endpoint")


@FAMILIES
def test_the_time_runs_from_the_last_new_connection(node, family):
    """Neither from the first, nor from the last packet."""
    svc = service(family, "tcp", 50, n=200)
    node.serve(svc)
    node.load()
    client, svc_ip = pod(node, family, "tcp"), CLUSTER_IP[family]
    stop_clock(node)
    first = client.open(svc_ip)
    for _ in range(3):
        pass_seconds(node, 40)
        assert client.open(svc_ip) == first
    # A connection that goes on.
    sport = next(SPORT)
    client.send(svc_ip, 80, sport)
    out = node.got("gw", lambda f: f.proto == TCP and f.ports[0] == sport)
    reply = packets.ip(out.dst, client.address, TCP,
                       packets.tcp(8080, sport, SYN | ACK))
    node.send("gw", reply, dst_mac=VIRTUAL_MAC)
    for _ in range(7):
        pass_seconds(node, 6)
        node.send(client.port, packets.ip(client.address, svc_ip, TCP,
                                          packets.tcp(sport, 80, ACK)))
        node.got("gw", lambda f: f.proto == TCP and f.ports[0] == sport
                 and f.flags == ACK)
    assert learned(node)
    pass_seconds(node, 12)
    wait_for(lambda: not learned(node), 10, "the client to be forgotten",
             node.dump)


@pytest.mark.parametrize("seconds,hard", [
    (1, 0), (65535, 0), (65536, 61936), (69135, 65535), (86400, 65535)])
def test_the_timeout_is_exact(node, seconds, hard):
    """As long as a flow can have it; above, the daemon makes it longer."""
    node.serve(service(affinity=seconds))
    node.load()
    stop_clock(node)
    pod(node).open(CLUSTER_IP[4])
    flow, = learned(node)
    assert ("hard_timeout=%d," % hard if hard
            else " idle_timeout=%d," % seconds) in flow
    assert flow.count("timeout=") == 1


@FAMILIES
def test_an_endpoint_that_goes_is_forgotten_with_its_clients(node, family):
    """Theirs, and nobody else's."""
    svc = service(family, n=4)
    node.serve(svc)
    node.load()
    clients = [outside(node, i, family) for i in range(24)]
    where = [client.open(CLUSTER_IP[family]) for client in clients]
    gone = where[0]
    assert len(learned(node)) == len(clients)
    svc.endpoints["cluster"].remove(gone)
    node.update()
    wait_for(lambda: len(learned(node)) == len(clients) - where.count(gone),
             10, "exactly these clients to be forgotten", node.dump)
    for client, was in zip(clients, where):
        now = client.open(CLUSTER_IP[family])
        assert now != gone and (was == gone or now == was)
    # And one that comes takes nobody's client.
    wait_for(lambda: len(learned(node)) == len(clients), 10,
             "all clients to be remembered", node.dump)
    where = [client.open(CLUSTER_IP[family]) for client in clients]
    svc.endpoints["cluster"].insert(0, gone)
    node.update()
    assert [client.open(CLUSTER_IP[family]) for client in clients] == where


def test_other_services_and_scopes_have_memories_of_their_own(node):
    """Of the same endpoints and clients."""
    first, second = service(n=50), service(n=50)
    second.number, second.frontends = 8, []
    second.at("cluster-ip", "10.96.0.11", 80)
    second.at("external", "203.0.113.81", 80, "local")
    second.endpoints["local"] = second.endpoints["cluster"][:25]
    for svc in (first, second):
        node.serve(svc)
    node.load()
    client, far = pod(node), outside(node, 1)
    client.open(CLUSTER_IP[4])
    client.open("10.96.0.11")
    local = far.open("203.0.113.81")
    assert local in second.endpoints["local"]
    far.open("10.96.0.11")
    assert len(learned(node)) == 4
    node.withdraw(second)
    node.update()
    wait_for(lambda: len(learned(node)) == 1, 10,
             "the second Service to be forgotten", node.dump)


def test_switched_off_all_is_forgotten_and_on_again_begins_anew(node):
    """In place, the Service going on meanwhile."""
    svc = service(n=3)
    node.serve(svc)
    node.load()
    client = pod(node)
    client.open(CLUSTER_IP[4])
    assert learned(node)
    svc.affinity = 0
    node.update()
    wait_for(lambda: not learned(node), 10, "all to be forgotten", node.dump)
    client.open(CLUSTER_IP[4])
    assert not learned(node)
    svc.affinity = 100
    node.update()
    first = client.open(CLUSTER_IP[4])
    assert client.open(CLUSTER_IP[4]) == first


@pytest.mark.parametrize("before,after", [(1000, 10), (10, 1000),
                                          (86400, 10), (10, 86400)])
def test_another_timeout_leaves_the_memory_as_it_is(node, before, after):
    """Who comes has the new one; the daemon gives it to the others."""
    svc = service(affinity=before, n=30)
    node.serve(svc)
    node.load()
    client = pod(node)
    first = client.open(CLUSTER_IP[4])
    old, = learned(node)
    svc.affinity = after
    node.update()
    assert client.open(CLUSTER_IP[4]) == first
    outside(node, 1).open(CLUSTER_IP[4])
    kept, new = sorted(learned(node), key=lambda flow:
                       flow.split("priority")[1] != old.split("priority")[1])
    assert kept.split("priority")[1] == old.split("priority")[1]
    for flow, seconds in ((kept, before), (new, after)):
        assert (" idle_timeout=%d," % seconds in flow) == (seconds < 65536)


def test_an_endpoint_without_its_flow_is_selected_anew(node):
    """Somebody has deleted it: who was remembered there goes elsewhere, or is
    lost until it is repaired, and nobody goes in circles."""
    node.serve(service(n=2))
    node.load()
    client = pod(node)
    endpoint = client.open(CLUSTER_IP[4])
    flow, = learned(node)
    text = re.search(r"reg7=.*", flow).group(0)
    raw = "0x%02x%02x%02x%02x" % tuple(map(int, endpoint.split(".")))
    node.switch.ofctl("del-flows", "table=14,reg3=%s" % raw)
    wait_for(lambda: not learned(node), 10, "its clients to be forgotten",
             node.dump)
    # What is learned may come back late.
    node.switch.ofctl("add-flow", "table=%d,priority=200,ip,%s" % (
        TABLE, text.replace(" actions", ",actions")))
    trace = node.switch.trace(
        "in_port=%d,udp,dl_src=%s,nw_src=%s,nw_dst=%s,"
        "udp_dst=80,nw_ttl=64" % (node.pods[0].ofport, node.pods[0].mac, node.pods[0].of[4],
                                 CLUSTER_IP[4]))
    assert "resubmit" in trace and "over max" not in trace
    assert "nat(dst=%s" % endpoint not in trace
