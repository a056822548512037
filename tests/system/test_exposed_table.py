# SPDX-License-Identifier: Apache-2.0
"""Each line of the decision table (services.md 2.5) with packets: every kind
of address, policy, place of the endpoints and kind of client, from which
source the endpoint sees it, and that the answer takes the same way back.

The lines themselves are support.exposed.World.want().
"""
import collections
import contextlib
import errno
import itertools
import math
import socket

import pytest

from support import objects, packets
from support.asking import REFUSED, SILENCE, Answer, Question, check
from support.cluster import FAMILIES
from support.exposed import (HOST_PORT, NAMESPACE, Asker, Exposed,
                             Target, World)
from support.traffic import Server, converse
from support.wait import wait_for

MODES = {"encap": {"subnets": "ab"},
         "noEncap": {"mode": "noEncap", "subnets": "ab"},
         "hybrid": {"mode": "hybrid", "subnets": "aab"},
         "networkPolicyOnly": {"mode": "networkPolicyOnly", "subnets": "ab",
                               "outside_knows": True}}
POLICIES = ("Cluster", "Local")
SETS = ("spread", "far", "hosts", "mixed", "none")
PROTOS = ("tcp", "udp")
REPEATS = 3                     # Where one of several endpoints may answer,
MOST_ROUNDS = 10                # and of all questions, until all have.
SOURCE_PORT = 61500             # That a kernel gives nobody by itself.
BOTH = pytest.mark.parametrize("family", FAMILIES)


def endpoint_sets(world):
    """The endpoints of each of SETS."""
    each = range(len(world.nodes))
    return {"spread": [world.pod(n) for n in each],
            "far": [world.pod(-1)],
            "hosts": [world.host(n) for n in each],
            "mixed": [world.pod(0), world.host(0)], "none": []}


@pytest.fixture(scope="module", name="world", params=MODES)
def _world(request, tmp_path_factory):
    with World(tmp_path_factory.mktemp("world"),
               **MODES[request.param]) as made:
        made.strict_and_closed()
        yield made
    assert not made.unexpected_warnings()


@pytest.fixture(scope="module", name="table")
def _table(world):
    """{(policy, set): Service}; its external IP is led to the first node, its
    load-balancer address to the last one."""
    made, sets = {}, endpoint_sets(world)
    for policy, name in itertools.product(POLICIES, SETS):
        made[policy, name] = service = Exposed(
            world, sets[name], internalTrafficPolicy=policy,
            externalTrafficPolicy=policy)
        service.apply()
        for f in FAMILIES:
            world.lead(service.external_ip(f), world.nodes[0])
            world.lead(service.balanced_ip(f), world.nodes[-1])
    world.settle()
    return made


def questions(world, table, askers, address, family, entry=None,
              inside=False):
    """To an address of each Service: address(service) is (host, port).  The
    node that leads it in is 'entry', or else the client's own."""
    askers = list(askers)
    for (policy, name), service in table.items():
        host, port = address(service)
        for asker, proto in itertools.product(askers, PROTOS):
            want = world.want(asker, entry or asker.node, family,
                              service.endpoints, policy, inside)
            several = isinstance(want, Answer) and len(want.servers) > 1
            for _ in range(REPEATS if several else 1):
                yield Question(asker.who, host, port, want, proto,
                               asker.source, "policy %s, %s, entry %s" % (
                                   policy, name, entry and entry.label))


def check_all(some):
    """Each question is answered as it should, and each endpoint that may
    answer has, at last after some more questions."""
    left = list(some)
    seen, may = collections.defaultdict(set), collections.defaultdict(set)
    for _ in range(MOST_ROUNDS):
        check(left)
        for q in left:
            if isinstance(q.want, Answer):
                seen[q.host, q.port].add(q.got[0])
                may[q.host, q.port] |= set(q.want.servers)
        left = [q for q in left if seen[q.host, q.port] != may[q.host, q.port]]
        if not left:
            return
    assert seen == may


def at_home(world):
    """The clients that are on nodes."""
    return [a for a in world.askers() if a.node]


@BOTH
def test_cluster_ip(world, table, family):
    """From pods and hosts."""
    check_all(questions(
        world, table, at_home(world),
        lambda s: (s.cluster_ip(family), s.port), family, inside=True))


@BOTH
def test_cluster_ip_from_outside(world, table, family):
    """Through any node that somebody routes it to; the answers come back
    through that one (services.md 2.5, design.md 7).  From another address
    each time: connections may still be ending."""
    for entry, asker in zip((world.nodes[0], world.nodes[-1]),
                            world.outside_askers(family)):
        for service in table.values():
            world.lead(service.cluster_ip(family), entry)
        with world.capture() as capture:
            check_all(questions(
                world, table, [asker],
                lambda s: (s.cluster_ip(family), s.port), family, entry,
                inside=True))
        assert {s.link for s in capture.of(asker.source)} == {
            "to-" + entry.label}
    for service in table.values():
        world.router.route(service.cluster_ip(family), None)


@BOTH
def test_h2_node_port(world, table, family):
    """Of each node, from everybody; the client that is on another node is
    from outside."""
    for entry in world.nodes:
        check_all(questions(
            world, table, world.askers(),
            lambda s, e=entry: (e.of(family), s.node_port), family, entry))


def test_g7_node_port_on_loopback(world, table):
    """127.0.0.1 of each host, and nobody else's; IPv6 has no such thing."""
    hosts = [a for a in at_home(world) if not a.is_pod]
    check_all(questions(world, table, hosts,
                        lambda s: ("127.0.0.1", s.node_port), 4))


@BOTH
def test_h1_h2_d17_external_addresses(world, table, family):
    """External IPs and those of load balancers: on nodes each node leads in
    what its own clients send."""
    for address in Exposed.external_ip, Exposed.balanced_ip:
        check_all(questions(
            world, table, at_home(world),
            lambda s, a=address: (a(s, family), s.port), family))


@BOTH
def test_external_addresses_from_outside(world, table, family):
    """Through the node that the router sends it to, from two addresses; and
    the answers come back through that node only."""
    for address, entry in ((Exposed.external_ip, world.nodes[0]),
                           (Exposed.balanced_ip, world.nodes[-1])):
        outside = world.outside_askers(family)
        with world.capture() as capture:
            check_all(questions(
                world, table, outside,
                lambda s, a=address: (a(s, family), s.port), family, entry))
        for asker in outside:
            seen = capture.of(asker.source)
            assert {(s.link, s.kind) for s in seen} == {
                ("to-" + entry.label, "plain")}
            answering = {s.inner.src for s in seen
                         if s.inner.dst == asker.source}
            assert answering == {
                address(s, family) for s in table.values() if world.want(
                    asker, entry, family, s.endpoints,
                    s.spec["externalTrafficPolicy"]) != SILENCE}


@BOTH
def test_g9_a_pod_reaches_itself(world, family):
    """By each kind of address; it sees the gateway (services.md 1.2)."""
    service = Exposed(world, [world.pod(0)]).apply()
    itself = Asker(world.nodes[0].pods[0], world.nodes[0], True)
    local = Exposed(world, [world.pod(0)],
                    externalTrafficPolicy="Local").apply()
    world.settle()
    want = Answer({"n1-0:8080": world.gateway(world.nodes[0], family)})
    check(Question(itself.who, host, port, want, proto)
          for s in (service, local) for proto in PROTOS
          for host, port in ((s.cluster_ip(family), s.port),
                             (s.external_ip(family), s.port),
                             (s.balanced_ip(family), s.port),
                             (world.nodes[0].of(family), s.node_port)))
    for s in (service, local):
        s.delete()


@BOTH
def test_an_external_ip_that_is_a_nodes_address(world, family):
    """On that node it is told from the node's own ports, which go on."""
    first, *_ = world.nodes
    made = {}
    sets = endpoint_sets(world)
    for policy, name in itertools.product(POLICIES, SETS):
        made[policy, name] = service = Exposed(
            world, sets[name], externalTrafficPolicy=policy)
        service.external = [first.of(f) for f in FAMILIES]
        service.apply()
    world.settle()

    def address(service):
        return first.of(family), service.port

    check_all(questions(world, made, at_home(world), address, family))
    with world.capture() as capture:
        check_all(questions(world, made, world.outside_askers(family),
                            address, family, first))
    for asker in world.outside_askers(family):
        assert {s.link for s in capture.of(asker.source)} == {
            "to-" + first.label}
    own = Answer({"host-n1": None})
    check(Question(asker.who, first.of(family), 8090, own, proto)
          for asker in world.askers() for proto in PROTOS)
    for service in made.values():
        service.delete()
    world.settle()
    # What is no Service's is the host's; at last, since UDP may be late.
    check(Question(a.who, *address(s), REFUSED) for a in world.askers()
          for s in made.values())


def ways(world, service, asker, family):
    """(address, port) of all by which a client reaches a Service: at home
    all of them, from elsewhere what the first node leads in."""
    first = world.nodes[0]
    made = [((asker.node or first).of(family), service.node_port),
            (service.external_ip(family), service.port),
            (service.balanced_ip(family), service.port)]
    if asker.node:
        made.append((service.cluster_ip(family), service.port))
    return made


@pytest.fixture(name="service")
def _service(world):
    """One for a test to change, with an endpoint on each node; the first node
    leads it in."""
    made = Exposed(world, [world.pod(n) for n in range(len(world.nodes))])
    for f in FAMILIES:
        for ip in made.external_ip(f), made.balanced_ip(f):
            world.lead(ip, world.nodes[0])
    yield made
    made.delete()
    world.settle()


@BOTH
def test_h4_h8_a_balancers_address_is_left_alone_or_restricted(
        world, service, family):
    """ipMode Proxy: packets leave the node with destination and port
    untouched.  Source ranges: for who is in them only."""
    vip = service.balanced_ip(family)
    world.lead(vip)
    service.ingress = [{"ip": vip, "ipMode": "Proxy"}]
    service.apply()
    world.settle()
    with world.capture() as capture:
        check(Question(a.who, vip, service.port, Answer(
            {"balancer": world.arriving(a, family)}), proto)
              for a in at_home(world) for proto in PROTOS)
    assert {f.inner.ports[1] for f in capture.of(vip)
            if f.inner.dst == vip} == {service.port}

    world.lead(vip, world.nodes[0])
    near, far = world.outside_askers(family)[:2]
    pod = Asker(world.nodes[-1].pods[1], world.nodes[-1], True)
    service.ingress = [{"ip": vip}]
    service.apply(loadBalancerSourceRanges=[
        "%s/%d" % (ip, 32 if family == 4 else 128)
        for ip in (near.source, pod.who.of(family))])
    world.settle()
    check(Question(a.who, vip, service.port, world.want(
        a, a.node or world.nodes[0], family, service.endpoints, "Cluster")
        if a.label in (near.label, pod.label) and a.source != far.source
        else SILENCE, proto, a.source)
        for a in (near, far, *at_home(world)) for proto in PROTOS)


@BOTH
def test_d18_a_client_keeps_its_endpoint_by_each_way(world, service, family):
    """Wherever that is; pods and the outside, by new connections of either
    address; from any node."""
    service.apply(sessionAffinity="ClientIP")
    world.settle()
    pods = [a for a in at_home(world) if a.is_pod]
    for asker in (*pods, *world.outside_askers(family)):
        any_of = Answer({t.server: None for t in service.endpoints})
        some = [Question(asker.who, host, port, any_of, "tcp", asker.source)
                for host, port in ways(world, service, asker, family) * 4]
        check(some)
        assert len({q.got[0] for q in some}) == 1, [str(q) for q in some]


def server_of(sock):
    """Who answers to a datagram now: a name, or what went wrong."""
    try:
        sock.send(b"hello")
        return sock.recv(1000).decode().split()[0]
    except OSError as error:
        return errno.errorcode.get(error.errno, "nobody")


@BOTH
def test_e1_e3_streams_follow_the_endpoint_by_each_way(world, service,
                                                       family):
    """From one node to the other, and away: by sockets that are never
    closed, from everybody."""
    with contextlib.ExitStack() as stack:
        socks = []
        for asker in world.askers():
            for way in ways(world, service, asker, family):
                socks.append(stack.enter_context(packets.sock(
                    asker.who, family, timeout=0.3)))
                socks[-1].connect(way)
        for there in 0, -1, None:
            service.endpoints = ([] if there is None
                                 else [world.pod(there)])
            service.apply()
            world.settle()
            want = (service.endpoints[0].server if service.endpoints
                    else "ECONNREFUSED")
            left = list(socks)

            def are_there():
                left[:] = [s for s in left if server_of(s) != want]
                return not left
            wait_for(are_there, 15, "all at " + want, lambda: "%s\n%s" % (
                [s.getpeername() for s in left], world.dump()))


FIRST, N_PORTS = 10000, 600     # Of each pod: more than one group takes.


def test_d1_hundreds_of_endpoints_on_each_node(world):
    """In groups of groups, by each way and from everybody."""
    service, pods = Exposed(world), [n.pods[0] for n in world.nodes]
    with contextlib.ExitStack() as stack:
        for pod in pods:
            stack.enter_context(Server(pod, pod.label, "--by-port", tcp=[
                "%d-%d" % (FIRST, FIRST + N_PORTS - 1)]))
        for f in FAMILIES:
            for ip in service.external_ip(f), service.balanced_ip(f):
                world.lead(ip, world.nodes[0])
        with world.api.batch():
            for f, n in itertools.product(FAMILIES, range(N_PORTS)):
                world.api.apply(objects.slice_(
                    NAMESPACE, service.name, [objects.endpoint(
                        pod.of(f), node.node_name)
                        for pod, node in zip(pods, world.nodes)],
                    [(FIRST + n, "tcp")], name="%s-%d-%d" % (
                        service.name, f, n)))
        service.apply()
        world.settle(60)
        n = N_PORTS * len(pods)
        for f in FAMILIES:
            some = [Question(a.who, host, port, Anybody(), "tcp")
                    for a in world.askers()
                    for host, port in ways(world, service, a, f) * 15]
            check(some)
            found = {q.got[0] for q in some}
            assert {name.split(":")[0] for name in found} == {
                pod.label for pod in pods}
            # As many as chance lets be different.
            assert len(found) > 0.88 * n * (1 - math.exp(-len(some) / n))
    service.delete()
    with world.api.batch():
        for f, n in itertools.product(FAMILIES, range(N_PORTS)):
            world.api.delete("endpointslices", NAMESPACE, "%s-%d-%d" % (
                service.name, f, n))
    world.settle()


class Anybody(Answer):
    """Whoever answers."""

    def __init__(self):
        super().__init__({})

    def takes(self, server, source):
        """Yes."""
        return True


@BOTH
def test_two_services_and_one_source_port(world, table, family):
    """Connections of one client, from the same port, to several Services
    with the same endpoint at once; also of the host, whose address others
    get."""
    far = table["Cluster", "far"], table["Local", "far"]
    addresses = [(address(s, family), s.port) for s in far for address in (
        Exposed.external_ip, Exposed.balanced_ip)]
    addresses.insert(0, (far[0].cluster_ip(family), far[0].port))
    for asker in at_home(world):
        socks = []
        for address in addresses:
            socks.append(packets.sock(asker.who, family, socket.SOCK_STREAM,
                                      port=SOURCE_PORT))
            socks[-1].connect(address)
        for sock in socks:
            sock.sendall(b"hello\n")
            assert sock.recv(1000).split()[0] == (
                far[0].endpoints[0].server.encode())
        for sock in socks:
            sock.close()


@BOTH
def test_the_host_uses_another_of_its_addresses(world, table, family):
    """A program that binds itself to the node's address gets answers, too,
    from wherever the endpoint is."""
    hosts = [Asker(n, n, source=n.of(family)) for n in world.nodes]
    for address in Exposed.external_ip, Exposed.cluster_ip:
        check_all(questions(
            world, table, hosts,
            lambda s, a=address: (a(s, family), s.port), family,
            inside=address is Exposed.cluster_ip))


class Deaf(Target):
    """An endpoint of a host at a port that nobody serves."""
    port = 9


@BOTH
def test_a_host_without_server_refuses_under_policy_local(world, family):
    """The client gets the host's own RST or ICMP error, in the name of the
    address that it asked."""
    first = world.nodes[0]
    service = Exposed(world, [Deaf(first)],
                      externalTrafficPolicy="Local").apply()
    world.lead(service.external_ip(family), first)
    world.settle()
    check(Question(world.outside, *way, REFUSED, proto)
          for way in ((service.external_ip(family), service.port),
                      (first.of(family), service.node_port))
          for proto in PROTOS)
    service.delete()
    world.settle()


@BOTH
@pytest.mark.parametrize("affinity", ["None", "ClientIP"])
def test_the_host_sees_its_clients_under_policy_local(world, family,
                                                      affinity):
    """Also if the client has connections by several ways and to the host
    itself from one port at once, and where the Service's address and port
    are the very ones that the host listens at."""
    first, client = world.nodes[0], Asker(world.outside)
    service = Exposed(world, [world.host(0)], externalTrafficPolicy="Local",
                      sessionAffinity=affinity).apply()
    world.lead(service.external_ip(family), first)
    world.settle()
    ways = [(service.external_ip(family), service.port),
            (first.of(family), service.node_port),
            (first.of(family), HOST_PORT)]
    want = Answer({"host-n1": world.outside_address(family)})
    check(Question(client.who, *way, want, proto)
          for way in ways for proto in PROTOS)
    socks = []
    for way in ways:
        socks.append(packets.sock(client.who, family, socket.SOCK_STREAM,
                                  port=25000 + service.number))
        socks[-1].connect(way)
    for sock in socks:
        with sock:
            converse(sock, 100000)

    same = Exposed(world, [world.host(0)], externalTrafficPolicy="Local",
                   sessionAffinity=affinity)
    same.port, same.external = HOST_PORT, [first.of(f) for f in FAMILIES]
    same.apply()
    world.settle()
    check(Question(client.who, first.of(family), HOST_PORT, want, proto)
          for proto in PROTOS)
    for made in (service, same):
        made.delete()
    world.settle()


def echoed(sock, data):
    """What comes back for a datagram; over IPv6 the sender is told that it
    is too large for the way, and its kernel makes smaller fragments then."""
    for _ in range(2):
        try:
            sock.send(data)
            return sock.recv(65536).split()[-1]
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                raise
    return None


@BOTH
@pytest.mark.parametrize("policy", POLICIES)
def test_much_data_and_fragments(world, table, family, policy):
    """Whole windows of TCP, and datagrams of several fragments, by each way
    in and through each kind of underlay: nobody's MTU is forgotten."""
    near, far = world.nodes[0], world.nodes[-1]
    entry = {"Cluster": near, "Local": far}[policy]
    service = table[policy, "far"]
    address = {"Cluster": Exposed.external_ip, "Local": Exposed.balanced_ip}
    ways = [(entry.of(family), service.node_port),
            (address[policy](service, family), service.port)]
    for asker, (host, port) in itertools.product(world.askers(), ways):
        if policy == "Local" and asker.node not in (None, far):
            continue
        with packets.sock(asker.who, family, socket.SOCK_STREAM) as sock:
            sock.connect((host, port))
            converse(sock, 100000)
        with packets.sock(asker.who, family) as sock:
            sock.connect((host, port))
            for size in (10, 3000, 8000):
                assert echoed(sock, b"y" * size) == b"y" * size
