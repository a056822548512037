# SPDX-License-Identifier: Apache-2.0
"""Addresses that are to be left to others, source ranges, and changes of
all that while it runs.

The router sends every external address to the balancer here, who answers
itself; so who answers tells whether a packet has left the node."""
import contextlib
import itertools
import socket
import threading
import time

import pytest

from support import objects, packets
from support.asking import REFUSED, SILENCE, Answer, Question, ask, check
from support.capture import Capture
from support.cluster import FAMILIES
from support.exposed import EXTERNAL, Asker, Exposed, World
from support.multinode import host_of
from support.traffic import Client
from support.wait import wait_for

MODES = {"encap": {"subnets": "ab"},
         "noEncap": {"mode": "noEncap", "subnets": "aa"}}
PROTOS = ("tcp", "udp")
BOTH = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture(scope="module", name="world", params=MODES)
def _world(request, tmp_path_factory):
    with World(tmp_path_factory.mktemp("world"),
               **MODES[request.param]) as made:
        made.lead_all()
        yield made
    assert not made.unexpected_warnings()


@pytest.fixture(name="service")
def _service(world):
    """One that each test may change, with an endpoint on each node."""
    made = Exposed(world, [world.pod(0), world.pod(1)])
    yield made
    made.delete()


@pytest.fixture(name="askers")
def _askers(world):
    """A pod and the host of each node."""
    return [a for a in world.askers() if a.node]


def balanced(world, asker, family):
    """What the balancer answers: it sees the node that the packet left."""
    return Answer({"balancer": world.arriving(asker, family)})


def to(asker, host, port, want):
    """A question by each protocol."""
    return [Question(asker.who, host, port, want, proto, asker.source)
            for proto in PROTOS]


def served(world, service, asker, host, port=None):
    """Questions to an address that the asker's node serves, as policy
    Cluster has it."""
    family = 6 if ":" in host else 4
    return to(asker, host, port or service.port, world.want(
        asker, asker.node, family, service.endpoints, "Cluster"))


def left_alone(world, service, asker, host, port=None):
    """Questions to an address that it does not serve."""
    return to(asker, host, port or service.port,
              balanced(world, asker, 6 if ":" in host else 4))


# The load balancer's mode (KEP-1860, design.md 8).

def entry(ip, mode=None):
    """An ingress entry."""
    return {"ip": ip, **({"ipMode": mode} if mode else {})}


def ingress_kinds(service):
    """The entries of each kind of ingress, and which addresses are served."""
    ips = [service.balanced_ip(f) for f in FAMILIES]
    more = [objects.nth(EXTERNAL[f], 126) for f in FAMILIES]
    return [
        ([entry(ip, "Proxy") for ip in ips], []),
        ([entry(ip, "VIP") for ip in ips], ips),
        ([entry(ip, "Proxy") for ip in ips]
         + [entry(ip, "VIP") for ip in more], more),
        ([entry(ip) for ip in ips], ips),
        ([{"hostname": "lb.example.com"}]
         + [entry(ip, "Proxy") for ip in more], []),
        ([entry(ips[0]), entry(ips[1], "Proxy")], ips[:1]),
        ([{"hostname": "lb.example.com"}, entry(ips[1])], ips[1:]),
        ([], [])]


def check_mode(world, service, askers, addresses, here):
    """Those of 'here' are served; packets to the others leave the nodes with
    destination and port untouched.  (Of the askers' nodes: connections of
    others may still be ending.)"""
    with world.capture(*{a.node for a in askers}) as capture:
        check(q for asker, ip in itertools.product(askers, addresses)
              for q in (served if ip in here else left_alone)(
                  world, service, asker, ip))
    for ip in addresses:
        seen = [s.inner for s in capture.of(ip) if not s.sent
                and s.inner.dst == ip]
        assert bool(seen) == (ip not in here)
        assert {f.ports[1] for f in seen} <= {service.port}


def test_h4_h5_each_mode_and_each_change_between_them(world, service, askers):
    """VIP, Proxy, absent, mixed and host names, one after the other; by pods
    and hosts, and by programs that bind to the node's address."""
    addresses = sorted({e["ip"] for entries, _ in ingress_kinds(service)
                        for e in entries if "ip" in e})
    for entries, here in ingress_kinds(service):
        service.ingress = entries
        service.apply()
        world.settle()
        check_mode(world, service, askers, addresses, here)


def test_h4_load_balancer_addresses_left_alone(request, world, service,
                                               askers):
    """proxyLoadBalancerIPs: false, whatever the mode; external IPs are still
    served, and the other node serves all."""
    first, second = world.members
    world.restart(first, antreaProxy={"proxyAll": True,
                                      "proxyLoadBalancerIPs": False})
    request.addfinalizer(lambda: world.restart(first))
    ips = [service.balanced_ip(f) for f in FAMILIES]
    for mode in ("VIP", "Proxy", None):
        service.ingress = [entry(ip, mode) for ip in ips]
        service.apply()
        world.settle()
        for member in first, second:
            here = member is second and mode != "Proxy"
            its = [a for a in askers if a.node is member.node]
            check_mode(world, service, its, ips, ips if here else [])
            check(q for a in its for f in FAMILIES for q in served(
                world, service, a, service.external_ip(f)))


@BOTH
def test_a_connection_outlives_the_change_of_its_mode(world, service, askers,
                                                      family):
    """The balancer's connections stay the balancer's, and pods' stay
    pods'."""
    vip = service.balanced_ip(family)
    names = {"Proxy": "balancer", "VIP": "n"}
    for before, after in (("Proxy", "VIP"), ("VIP", "Proxy")):
        service.ingress = [entry(vip, before)]
        service.apply()
        world.settle()
        socks = {a.label: _connected(a, family, vip, service.port)
                 for a in askers}
        first = {label: _say(sock) for label, sock in socks.items()}
        assert {n.startswith(names[before]) for n in first.values()} == {True}
        service.ingress = [entry(vip, after)]
        service.apply()
        world.settle()
        assert {label: _say(s) for label, s in socks.items()} == first
        for sock in socks.values():
            sock.close()


def _connected(asker, family, host, port):
    sock = packets.sock(asker.who, family, socket.SOCK_STREAM)
    sock.connect((host, port))
    return sock


def _say(sock):
    """Who answers on a connection, or what has happened to it."""
    try:
        sock.sendall(b"hello\n")
        return sock.recv(1000).decode().split()[0]
    except (OSError, IndexError) as error:
        return repr(error)


class Stream:
    """Datagrams from one socket, a few hundred a second, on a thread; .last
    is (who answered last, when)."""

    def __init__(self, asker, family, address):
        self.label, self.last = asker.label, ("", 0)
        self._sock = packets.sock(asker.who, family, timeout=0.004)
        self._sock.connect(address)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.002):
            with contextlib.suppress(OSError):
                self._sock.send(b"hello")
                self.last = (self._sock.recv(1000).decode().split()[0],
                             time.monotonic())

    def stop(self):
        """Ends it."""
        self._stop.set()
        self._thread.join()
        self._sock.close()


@BOTH
def test_streams_of_udp_follow_the_change_of_its_mode(world, service, askers,
                                                      family):
    """They have no end of their own: the same socket gets to whoever has the
    address now; also if an answer of the other comes in between."""
    vip = service.balanced_ip(family)
    streams = [Stream(a, family, (vip, service.port)) for a in askers]
    try:
        for mode in ("Proxy", "VIP") * 3:
            service.ingress = [entry(vip, mode)]
            service.apply()
            world.settle()
            since = time.monotonic()
            name = {"Proxy": "balancer", "VIP": "n"}[mode]
            for s in streams:
                wait_for(lambda s=s, n=name, t=since: s.last[1] > t
                         and s.last[0].startswith(n), 5,
                         "%s to get to the %s" % (s.label, mode), world.dump)
    finally:
        for s in streams:
            s.stop()


def test_other_ports_of_external_addresses_are_left_alone(world, service,
                                                          askers):
    """By either protocol, and pings too: they leave the node untouched."""
    service.apply()
    world.settle()
    for f in FAMILIES:
        for ip in service.external_ip(f), service.balanced_ip(f):
            check(q for a in askers for q in left_alone(
                world, service, a, ip, 7991))
            check(q for a in askers for q in served(world, service, a, ip))
            for a in askers:
                assert packets.ping(a.who, f, ip)


def test_d11_an_address_may_be_shared(world, service, askers):
    """By several Services on different ports; and if one goes, the others
    stay."""
    other = Exposed(world, [world.pod(1)])
    for one in service, other:
        one.external = [service.external_ip(f) for f in FAMILIES]
        one.ingress = [entry(service.balanced_ip(f)) for f in FAMILIES]
        one.apply()
    world.settle()
    ips = [ip(f) for ip in (service.external_ip, service.balanced_ip)
           for f in FAMILIES]
    check(q for a in askers for ip in ips for one in (service, other)
          for q in served(world, one, a, ip))
    other.delete()
    world.settle()
    check(q for a in askers for ip in ips
          for q in served(world, service, a, ip)
          + left_alone(world, other, a, ip))


def test_an_address_and_port_of_two_services_is_the_older_ones(
        world, service, askers):
    """design.md 1.11: and the other's when that goes."""
    other = Exposed(world, [world.pod(1)], number=service.number + 1)
    service.endpoints = [world.pod(0)]
    other.port = service.port
    for one, year in ((service, 2021), (other, 2020)):
        one.created = "%d-01-01T00:00:00Z" % year
        one.external = [service.external_ip(f) for f in FAMILIES]
        one.apply()
    for member in world.members:
        member.daemon.allow("belongs to .* which comes first")
    world.settle()
    ips = [service.external_ip(f) for f in FAMILIES]
    check(q for a in askers for ip in ips
          for q in served(world, other, a, ip))
    other.delete()
    world.settle()
    check(q for a in askers for ip in ips
          for q in served(world, service, a, ip))


# loadBalancerSourceRanges.

def ranges_of(world, family):
    """Ranges, and who is in them: labels of clients."""
    far = host_of("outside", family, 20)[1]
    near = host_of("outside", family, 2)[1]
    length = 32 if family == 4 else 128
    pod = world.nodes[0].pods[1].of(family)
    first = world.nodes[0]
    everybody = {"n1", "n2", "n1-1", "n2-1", near, far}
    other = "2001:db8:99::/48" if family == 4 else "198.51.100.0/24"
    return [
        (["%s/%d" % (near, length)], {near}),
        ([" %s/%d  " % (far, length), "%s/%d" % (pod, length)],
         {far, "n1-1"}),
        (["%s/%d" % (first.of(family), length)], {"n1"}),
        (["%s/%d" % (near, length), "0.0.0.0/0", "::/0"], everybody),
        ([other], everybody),
        ([other, "%s/%d" % (near, length)], {near}),
        (None, everybody)]


def outside_and(world, askers, family):
    """Clients by label, and how each of them comes to the Service."""
    made = {a.label: a for a in askers}
    for a in world.outside_askers(family)[:2]:
        made[a.source] = a
    return made


@BOTH
def test_h8_source_ranges(world, service, askers, family):
    """They guard load-balancer addresses, against everybody, and nothing
    else."""
    vip, external = (service.balanced_ip(family),
                     service.external_ip(family))
    for ip in vip, external:
        world.lead(ip, world.nodes[0])
    who = outside_and(world, askers, family)
    for ranges, inside in ranges_of(world, family):
        service.apply(loadBalancerSourceRanges=ranges)
        world.settle()
        some = []
        for label, a in who.items():
            want = world.want(a, a.node or world.nodes[0], family,
                              service.endpoints, "Cluster")
            some += to(a, vip, service.port,
                       want if label in inside else SILENCE)
            some += to(a, external, service.port, want)
            some += to(a, world.nodes[0].of(family), service.node_port,
                       world.want(a, world.nodes[0], family,
                                  service.endpoints, "Cluster"))
        for q in some:
            q.about = str(ranges)
        check(some)
    for ip in vip, external:
        world.lead(ip)


@BOTH
def test_h8_source_ranges_come_before_all_else(world, service, askers, family):
    """Before policies and rejects: who is not in them is told nothing."""
    vip = service.balanced_ip(family)
    world.lead(vip, world.nodes[0])
    near, far = world.outside_askers(family)[:2]
    ranges = [near.source + "/%d" % (32 if family == 4 else 128)]
    for endpoints in ([world.pod(0)], [world.pod(1)], []):
        service.endpoints = endpoints
        service.apply(loadBalancerSourceRanges=ranges,
                      externalTrafficPolicy="Local")
        world.settle()
        check(to(near, vip, service.port, world.want(
            near, world.nodes[0], family, endpoints, "Local"))
            + [q for a in (far, *askers)
               for q in to(a, vip, service.port, SILENCE)])
    world.lead(vip)


def test_thousands_of_source_ranges(world, service):
    """Are that many flows, for the Service and not for each of its
    addresses; and they work."""
    near, far = world.outside_askers(4)[:2]
    vip = service.balanced_ip(4)
    world.lead(vip, world.nodes[0])
    service.apply()
    world.settle()
    before = len(world.nodes[0].switch.dump_flows())
    many = [objects.nth("198.18.0.0/15", 2 * n) + "/32" for n in range(3000)]
    service.apply(loadBalancerSourceRanges=[*many, near.source + "/32"])
    world.settle(60)
    extra = len(world.nodes[0].switch.dump_flows()) - before
    assert 2 * 3001 <= extra < 2 * 3001 + 20
    check(to(near, vip, service.port, world.want(
        near, world.nodes[0], 4, service.endpoints, "Cluster"))
        + to(far, vip, service.port, SILENCE))
    world.lead(vip)


# Changes.

@BOTH
def test_the_policy_changes(world, service, family):
    """Cluster, Local, and back; the source follows, and no connection is
    lost on the way."""
    vip, entry_node = service.balanced_ip(family), world.nodes[0]
    world.lead(vip, entry_node)
    service.apply()
    world.settle()
    with Client(world.outside, "connect", vip, service.port,
                interval=0.005) as traffic:
        for policy in ("Local", "Cluster") * 3:
            service.apply(externalTrafficPolicy=policy)
            world.settle()
    assert traffic.result["n_failures"] == 0, traffic.result["failures"]
    for policy in ("Cluster", "Local", "Cluster"):
        service.apply(externalTrafficPolicy=policy)
        world.settle()
        check(q for a in world.askers() for q in to(
            a, vip, service.port, world.want(
                a, a.node or entry_node, family, service.endpoints, policy)))
        check(q for a in world.askers() for q in to(
            a, entry_node.of(family), service.node_port, world.want(
                a, entry_node, family, service.endpoints, policy)))
    world.lead(vip)


@BOTH
def test_g12_node_addresses_come_and_go(world, service, family):
    """NodePorts follow what the node has, whatever its Node object says."""
    first = world.nodes[0]
    service.apply()
    world.settle()
    added = {4: "192.0.2.77", 6: "2001:db8:2::77"}[family]
    text = added + ("/24" if family == 4 else "/64")

    def asked():
        return [q for a in world.askers() for q in to(
            a, added, service.node_port, world.want(
                a, first, family, service.endpoints, "Cluster"))]

    first.ip("addr", "add", text, "dev", first.link, "preferred_lft", "0",
             *(["nodad"] if family == 6 else []))
    if added not in world.nodes[1].ip("-%d" % family, "neigh"):
        packets.ping(world.router, family, added)
    wait_for(lambda: not ask(asked()[:2], 0.3), 10,
             "the new address is served", world.dump)
    check(asked())
    first.ip("addr", "del", text, "dev", first.link)
    wait_for(lambda: not any(isinstance(q.got, tuple) for q in _answers(
        asked())), 10, "the address's end", world.dump)


def _answers(some):
    ask(some, 0.5)
    return some


@BOTH
def test_an_external_ip_may_be_the_gateways_address(world, service, family):
    """An address of the host, though none by which the node is known: it is
    served to pods, to the host and to the outside."""
    node = world.nodes[0]
    gateway = world.gateway(node, family)
    service.external = [gateway]
    service.apply()
    world.settle()
    world.router.route(gateway, node.of(family))
    try:
        for asker in world.askers():
            if asker.node in (node, None):
                check(to(asker, gateway, service.port, world.want(
                    asker, node, family, service.endpoints, "Cluster")))
        service.external = []
        service.apply()
        world.settle()
        check(to(Asker(node, node), gateway, service.port, REFUSED))
    finally:
        world.router.route(gateway, None)


@BOTH
def test_ports_are_renumbered(world, service, askers, family):
    """What was served is left alone, and what is new is served."""
    service.apply()
    world.settle()
    node, old = world.nodes[0], (service.port, service.node_port)
    service.port, service.node_port = 8129, 31111
    service.apply()
    world.settle()
    for a in world.askers():
        want = world.want(a, node, family, service.endpoints, "Cluster")
        check(to(a, node.of(family), 31111, want)
              + to(a, node.of(family), old[1], REFUSED))
    for a in askers:
        for ip in service.external_ip(family), service.balanced_ip(family):
            check(served(world, service, a, ip)
                  + left_alone(world, service, a, ip, old[0]))


@BOTH
def test_the_type_changes(world, service, askers, family):
    """LoadBalancer, NodePort, ClusterIP and back, in place."""
    node = world.nodes[0]
    for kind in ("LoadBalancer", "NodePort", "ClusterIP", "LoadBalancer"):
        service.ingress = [entry(service.balanced_ip(f)) for f in FAMILIES
                           if kind == "LoadBalancer"]
        service.apply(type=kind)
        world.settle()
        for a in askers:
            want = world.want(a, node, family, service.endpoints, "Cluster")
            check(to(a, node.of(family), service.node_port,
                     REFUSED if kind == "ClusterIP" else want)
                  + (served if kind == "LoadBalancer" else left_alone)(
                      world, service, a, service.balanced_ip(family))
                  + served(world, service, a, service.external_ip(family)))


# What a node serves at all.

def test_without_proxy_all_pods_have_the_balancers_addresses(
        request, world, service, askers):
    """And nothing else is led in: not for the host, no NodePort, no external
    IP; and what was there goes."""
    first = world.members[0]
    service.endpoints = [world.pod(1)]
    service.apply()
    world.settle()
    request.addfinalizer(lambda: world.restart(first))
    world.restart(first, antreaProxy={"proxyAll": False})
    node = first.node
    for f, a in itertools.product(FAMILIES, askers):
        if a.node is not node:
            continue
        check((served if a.is_pod else left_alone)(
            world, service, a, service.balanced_ip(f))
            + left_alone(world, service, a, service.external_ip(f))
            + to(a, node.of(f), service.node_port, REFUSED))
    assert "dnat" not in node.run("nft", "list", "ruleset").stdout


@BOTH
def test_node_port_addresses(request, world, service, family):
    """Of those that are configured only; loopback is one as others are."""
    first = world.members[0]
    node, added = first.node, {4: "192.0.2.78", 6: "2001:db8:2::78"}[family]
    length = {4: 24, 6: 64}[family]
    request.addfinalizer(lambda: world.restart(first))
    service.apply()
    node.ip("addr", "add", "%s/%d" % (added, length), "dev", node.link,
            "preferred_lft", "0", *(["nodad"] if family == 6 else []))
    cidr = "%s/%d" % (added, {4: 32, 6: 128}[family])
    world.restart(first, antreaProxy={"proxyAll": True,
                                      "nodePortAddresses": [cidr]})
    world.settle()
    some = []
    for a in world.askers():
        want = world.want(a, node, family, service.endpoints, "Cluster")
        some += to(a, added, service.node_port, want)
        some += to(a, node.of(family), service.node_port, REFUSED)
        if a.who is node and family == 4:
            some += to(a, "127.0.0.1", service.node_port, REFUSED)
    check(some)
    node.ip("addr", "del", "%s/%d" % (added, length), "dev", node.link)


def test_all_is_led_in_again_after_the_switch_has_been_restarted(
        world, led):
    """The gateway's link is another one then, without its settings."""
    node = world.nodes[0]
    led.apply(externalTrafficPolicy="Cluster")
    world.settle()
    targets = {"Cluster": led.endpoints, "Local": led.endpoints}
    some = list(every_way(world, led, node, targets, "Cluster"))
    some += to(Asker(node, node), "127.0.0.1", led.node_port, world.want(
        Asker(node, node), node, 4, led.endpoints, "Cluster"))
    check(some)
    world.member(node).daemon.allow("br-int.mgmt: ", "db.sock: ")
    node.restart_switch(hard=True)
    wait_for(lambda: not ask(some, 1), 20, "all is served again", world.dump)
    check(some)


@BOTH
def test_nothing_goes_round_between_host_and_switch(world, service, family):
    """Packets to the addresses that stand for others between the two, to
    ports of nobody, come by the gateway twice at most."""
    node = world.nodes[0]
    addresses = {4: ("169.254.0.252", "169.254.0.253"),
                 6: ("fc01::aabb:ccdd:eefe", "fc01::aabb:ccdd:eeff")}[family]
    service.apply()
    world.settle()
    for who, address in itertools.product((node.pods[1], node), addresses):
        with Capture(node, "antrea-gw0") as capture, \
                packets.sock(who, family, timeout=0.3) as sock:
            sock.connect((address, 9))
            sock.send(b"x")
            with contextlib.suppress(OSError):
                sock.recv(10)
        assert len([s for s in capture.of(address)
                    if s.inner.proto == packets.UDP]) <= 2


# Who is an endpoint.

def every_way(world, service, entry, targets, policy):
    """Questions by all addresses of a Service that a node leads in, from its
    own clients and from outside, where these targets are to be used."""
    for family in FAMILIES:
        for a in world.askers():
            inside = [service.cluster_ip(family)] * (a.node is entry)
            outside = [(entry.of(family), service.node_port)]
            if a.node in (None, entry):
                outside.append((service.balanced_ip(family), service.port))
            if a.node is entry:
                outside.append((service.external_ip(family), service.port))
            for host in inside:
                yield from to(a, host, service.port, world.want(
                    a, entry, family, targets["Cluster"], "Cluster", True))
            for host, port in outside:
                own = "Cluster" if a.node is entry else policy
                yield from to(a, host, port, world.want(
                    a, entry, family, targets[own], policy))


@pytest.fixture(name="led")
def _led(world, service):
    """The Service, its load-balancer address being led to the first node."""
    for f in FAMILIES:
        world.lead(service.balanced_ip(f), world.nodes[0])
    yield service
    for f in FAMILIES:
        world.lead(service.balanced_ip(f))


def test_zone_hints_on_every_way(request, world, led):
    """They follow the Node's label; policy Local knows nothing of them."""
    first = world.nodes[0]
    request.addfinalizer(lambda: world.api.apply(first.object()))
    here, there = (world.pod(n, hints=[zone])
                   for n, zone in ((0, "zone-a"), (1, "zone-b")))
    led.endpoints = [here, there]
    for policy in "Cluster", "Local":
        led.apply(externalTrafficPolicy=policy)
        for zone, chosen in (("zone-a", [here]), ("zone-b", [there]),
                             (None, [here, there])):
            world.api.apply(first.object(zone=zone))
            world.settle()
            targets = {"Cluster": chosen, "Local": [here]}
            some = list(every_way(world, led, first, targets, policy))
            wait_for(lambda q=some: not ask(q, 0.5), 5,
                     "the zone to be followed", world.dump)
            check(some)


def test_terminating_endpoints_on_every_way(world, led):
    """They serve where nobody else does, of each policy by itself."""
    first = world.nodes[0]
    going = {"ready": False, "serving": True, "terminating": True}
    gone = {"ready": False, "serving": False, "terminating": True}
    here, there = world.pod(0), world.pod(1)
    for mine, its, chosen, local in (
            (going, {}, [there], [here]), (going, going, [here, there], [here]),
            (gone, going, [there], []), ({}, going, [here], [here]),
            (gone, gone, [], [])):
        led.endpoints = [world.pod(0, **mine), world.pod(1, **its)]
        for policy in "Cluster", "Local":
            led.apply(externalTrafficPolicy=policy)
            world.settle()
            some = every_way(world, led, first, {
                "Cluster": chosen, "Local": local or chosen}, policy)
            check(some)


# Source ports.

def ports_at(pod, entry, family, ask_it):
    """The source ports with which a node's gateway address comes to a pod
    while something is asked."""
    with Capture(pod, "eth0") as capture:
        ask_it()
        seen = capture.stop().of(pod.of(family), sent=False)
    return {s.inner.ports[0] for s in seen
            if s.inner.src == entry and s.inner.proto == packets.TCP}


@pytest.mark.parametrize("of_programs, expected, is_apart", [
    ("1024 40000", range(40001, 65536), True),
    ("20000 60000", range(1024, 20000), True),
    ("1024 60000", range(1024, 65536), False)])
def test_clients_outside_get_ports_that_the_node_gives_nobody(
        request, world, service, of_programs, expected, is_apart):
    """Whatever the setting is.  It is read anew when the bridge's ports
    change."""
    first, target = world.nodes[0], world.pod(0)
    member = world.member(first)

    def choose(text, ports):
        first.sysctl(net__ipv4__ip_local_port_range=text)
        first.pods[1].detach()
        first.pods[1].attach()
        member.daemon.wait_flow("table=SNAT", ":%d-%d)" % (
            ports[0], ports[-1]))
        world.settle()

    if not is_apart:
        member.daemon.allow("ip_local_port_range is 1024 to 60000, which")
    request.addfinalizer(
        lambda: choose("32768 60999", range(1024, 32768)))
    choose(of_programs, expected)
    service.endpoints = [target]
    service.apply()
    world.settle()
    for family in FAMILIES:
        found = ports_at(
            target.pod, world.gateway(first, family), family,
            lambda f=family: Client(world.outside, "connect", first.of(f),
                                    service.node_port, count=20).wait())
        assert found and found <= set(expected), found
    lines = [line for line in member.daemon.log_lines()
             if "ip_local_port_range is %s," % of_programs.replace(
                 " ", " to ") in line]
    assert bool(lines) != is_apart
