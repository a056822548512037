# SPDX-License-Identifier: Apache-2.0
"""What an operator is told of a Service: `services`, `endpoints`,
`explain`."""
import json
import random
import re
import socket
import time

import pytest

from support import objects, proc
from support.objects import endpoint, slice_
from support.rig import NODE_IP, Rig, own_node
from support.wait import slowness, wait_for

ON = {"antreaProxy": {"proxyAll": True}}


def explain(rig, name="ns1/svc-a"):
    """The explanation of a Service."""
    return rig.daemon.appctl("explain", name)


def has(text, *lines):
    """Fails unless each is a line of 'text', blanks aside."""
    found = [line.strip() for line in text.splitlines()]
    for line in lines:
        assert line in found, "%r is not in\n%s" % (line, text)


def start(rig, *objs, **config):
    """Starts the daemon with these objects and configuration."""
    rig.api.apply_all(objs)
    if config:
        rig.daemon.write_config(**config)
    rig.start_daemon()
    return explain(rig)


# Endpoints.


def test_each_endpoint_has_a_reason(rig):
    """Used or not, where it is and of which slice."""
    text = start(
        rig, objects.service("ns1", "svc-a"),
        slice_("ns1", "svc-a", [
            endpoint("10.10.1.5", "n1"), endpoint("10.10.2.5", "n2"),
            endpoint("10.10.2.6", "n2", ready=False),
            endpoint("10.10.2.7", "n2", ready=False, serving=True,
                     terminating=True)], suffix="x"),
        slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2", ready=False)],
               suffix="y"))
    has(text, "cluster IP 10.96.0.10:80: policy Cluster: one of 2 endpoints",
        "endpoints for policy Cluster: 2 of 5 used",
        "10.10.1.5:80 on n1 (here): used [svc-a-x]",
        "10.10.2.5:80 on n2: used [svc-a-x]",
        "10.10.2.5:80 on n2: not used: the same address and port stands "
        "elsewhere, in a better state or a newer slice (svc-a-x) [svc-a-y]",
        "10.10.2.6:80 on n2: not used: not ready [svc-a-x]",
        "10.10.2.7:80 on n2: not used: it terminates, and there are ready "
        "ones [svc-a-x]")


def test_hints_are_told(rig):
    """With the zone of the own Node."""
    rig.api.apply(own_node(zone="za"))
    text = start(rig, objects.service("ns1", "svc-a"),
                 slice_("ns1", "svc-a", [
                     endpoint("10.10.2.5", "n2", hints=["za"]),
                     endpoint("10.10.2.6", "n2", hints=["zb"])]))
    has(text, "endpoints for policy Cluster: 1 of 2 used",
        "10.10.2.6:80 on n2: not used: hints give this zone others: every "
        "ready one has zone hints [svc-a-abcde]")


def test_policy_local_drops_and_rejects(rig):
    """Because others have endpoints, or because nobody has."""
    text = start(rig, objects.service("ns1", "svc-a",
                                      internalTrafficPolicy="Local"),
                 slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2")]))
    has(text, "cluster IP 10.96.0.10:80: policy Local: dropped: only other "
        "nodes have endpoints",
        "10.10.2.5:80 on n2: not used: it is on another node, and policy "
        "Local wants this one [svc-a-abcde]")
    rig.api.apply(slice_("ns1", "svc-a", []))
    rig.wait_lookup("10.96.0.10", "reject")
    has(explain(rig), "cluster IP 10.96.0.10:80: policy Local: rejected: no "
        "usable endpoint anywhere")


def test_a_port_that_does_not_match_is_told(rig):
    """The commonest mistake of hand-made slices."""
    text = start(rig, objects.service("ns1", "svc-a",
                                      [objects.port(80, "http")]),
                 slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2")],
                        [(8080, "web")]))
    has(text, "10.10.2.5 on n2: not used: its slice has no port of this name "
        "[svc-a-abcde]")


def test_very_many_endpoints_are_bounded(rig):
    """A thousand are named."""
    slices = [slice_("ns1", "svc-a", [
        endpoint("10.11.%d.%d" % (i, n), "n2") for n in range(100)],
        suffix="s%d" % i) for i in range(15)]
    text = start(rig, objects.service("ns1", "svc-a"), *slices)
    has(text, "endpoints for policy Cluster: 1500 of 1500 used",
        "and 500 more")
    assert len(text.splitlines()) < 1010


def test_a_service_of_very_many_of_all_is_answered_soon(rig):
    """Ports, addresses and endpoints: the answer is bounded, and so is the
    time in which the daemon does nothing else."""
    ports = [objects.port(n, "p%d" % n) for n in range(1, 601)]
    ips = ["198.51.%d.%d" % (n // 250, n % 250 + 1) for n in range(1000)]
    slices = [slice_("ns1", "svc-a", [
        endpoint("10.11.%d.%d" % (i, n), "n2") for n in range(100)],
        [(8080, "p%d" % n) for n in range(1, 601)], suffix="s%d" % i)
        for i in range(20)]
    text = start(rig, objects.service("ns1", "svc-a", ports), *slices)
    assert text.endswith("  and 500 more ports\n")
    assert len(text.splitlines()) < 2800
    rig.api.apply(objects.service("ns1", "svc-a", ports, externalIPs=ips))
    rig.wait_settled()
    before = time.monotonic()
    text = rig.daemon.appctl("services", "ns1/svc-a")
    assert time.monotonic() - before < 2 * slowness()
    assert len(text.splitlines()) < 2400
    assert "    and perhaps more addresses\n" in text


# Addresses.


def load_balancer(ingress, **spec):
    """A Service with all kinds of addresses."""
    service = objects.service(
        "ns1", "svc-a", [objects.port(80, nodePort=30080)],
        type="LoadBalancer", externalIPs=["198.51.100.7"], **spec)
    service["status"] = {"loadBalancer": {"ingress": ingress}}
    return service


INGRESS = [{"ip": "203.0.113.1", "ipMode": "VIP"},
           {"ip": "203.0.113.2", "ipMode": "Proxy"}, {"hostname": "lb.test"}]


def test_without_proxy_all_most_addresses_are_off(rig):
    """And the one of the load balancer is for pods."""
    text = start(rig, load_balancer(INGRESS),
                 slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2")]))
    off = "not served: antreaProxy.proxyAll is false"
    has(text, "NodePort *:30080: " + off,
        "external IP 198.51.100.7:80: " + off,
        "load-balancer IP 203.0.113.1:80: policy Cluster: one of 1 endpoint",
        "load-balancer IP 203.0.113.2:80: not served: its ipMode is Proxy: "
        "it is left to the external load balancer")


def test_with_proxy_all_they_are_served(rig):
    """Each says what a new connection gets."""
    text = start(rig, load_balancer(INGRESS, externalTrafficPolicy="Local",
                                    loadBalancerSourceRanges=["10.0.0.0/8"]),
                 slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2")]), **ON)
    local = ("policy Local: dropped: only other nodes have endpoints; from "
             "pods of this node and the node itself, as with policy Cluster: "
             "one of 1 endpoint")
    has(text, "NodePort *:30080: " + local,
        "external IP 198.51.100.7:80: " + local,
        "load-balancer IP 203.0.113.1:80: " + local,
        "cluster IP 10.96.0.10:80: policy Cluster: one of 1 endpoint",
        "load-balancer IPs only from 1 source range: 10.0.0.0/8 (a family "
        "without any lets all in)")


def test_proxy_load_balancer_ips_off(rig):
    """Whatever the ipMode."""
    text = start(rig, load_balancer(INGRESS), antreaProxy={
        "proxyLoadBalancerIPs": False})
    off = "not served: antreaProxy.proxyLoadBalancerIPs is false"
    has(text, "load-balancer IP 203.0.113.1:80: " + off,
        "load-balancer IP 203.0.113.2:80: " + off)


def two_claims():
    """Two Services with one external IP; the older one is ns1/svc-b."""
    new = objects.service("ns1", "svc-a", externalIPs=["198.51.100.7"])
    old = objects.service("ns1", "svc-b", externalIPs=["198.51.100.7"],
                          cluster_ips=["10.96.0.11"])
    new["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return new, old


def test_a_conflict_names_the_other(rig):
    """And ends when that one goes."""
    new, old = two_claims()
    rig.daemon.allow("belongs to")
    text = start(rig, new, old, **ON)
    has(text, "external IP 198.51.100.7:80: not served: conflict with "
        "ns1/svc-b:/TCP (IPv4), which is older or comes first by name")
    assert re.search(r"external IP .* 0/0 +conflict$",
                     rig.daemon.appctl("services", "ns1/svc-a"), re.M)
    assert "conflict" not in explain(rig, "ns1/svc-b")
    rig.api.delete(old)
    rig.wait_settled()
    assert "conflict" not in explain(rig)


def test_a_conflict_is_an_event_of_the_loser(rig):
    """And of nobody else; once, however often it is noticed."""
    new, old = two_claims()
    rig.daemon.allow("belongs to")
    start(rig, new, old, **ON)
    wait_for(lambda: rig.api.objects("events"), 10, "an Event", rig)
    for label in "xyz":
        old["metadata"]["labels"] = {"x": label}
        rig.api.apply(old)
        rig.api.delete("services", "ns1", "svc-b")
        rig.wait_settled()
    rig.api.apply(old)
    rig.wait_settled()
    [event] = rig.api.objects("events")
    assert event["reason"] == "AddressConflict"
    assert event["regarding"]["name"] == "svc-a"
    assert event["regarding"]["uid"] == rig.api.get(
        "services", "ns1", "svc-a").obj["metadata"]["uid"]
    assert event["note"].startswith(
        "ns1/svc-a:/TCP (IPv4): address 198.51.100.7, port 80 belongs to "
        "ns1/svc-b:/TCP (IPv4), which comes first")
    assert "Events: 1 sent" in rig.daemon.appctl("sync")


def test_two_addresses_of_the_node_are_one_from_outside(rig):
    """The Event says so in words that are in no object."""
    new, old = two_claims()
    rig.daemon.allow("belongs to")
    rig.ns.ip("addr", "add", "198.51.100.7/24", "dev", "eth0")
    new["spec"]["externalIPs"] = [NODE_IP]
    start(rig, new, old, **ON)
    wait_for(lambda: rig.api.objects("events"), 10, "an Event", rig)
    [event] = rig.api.objects("events")
    assert event["reason"] == "AddressConflict"
    assert event["regarding"]["name"] == "svc-a"
    assert event["note"].startswith(
        "ns1/svc-a:/TCP (IPv4): what reaches port 80 at an address of this "
        "node from outside or from the node belongs to ns1/svc-b:/TCP (IPv4)")


def test_an_address_that_is_left_out_is_an_event(rig):
    """Also one that the API lets nobody have, and a load balancer may write
    nevertheless."""
    rig.daemon.allow("addresses or source ranges are left out")
    text = start(rig, load_balancer([{"ip": "169.254.0.253"}]), **ON)
    has(text, "load-balancer IP 169.254.0.253:80: not served: bridge and host "
        "use it between them")
    wait_for(lambda: rig.api.objects("events"), 10, "an Event", rig)
    [event] = rig.api.objects("events")
    assert event["reason"] == "InvalidPartLeftOut"
    assert event["note"] == ("Service ns1/svc-a: 1 external IPv4 addresses or "
                             "source ranges are left out")


def test_no_right_to_send_events_changes_nothing(rig):
    """The daemon goes on, in sync and without a warning of its own."""
    rig.api.forbid("events")
    rig.daemon.allow("belongs to")
    start(rig, *two_claims(), **ON)
    rig.daemon.wait_log("an Event couldn't be sent, which harms nothing else")
    text = rig.daemon.appctl("sync")
    assert text.startswith("in sync: yes")
    assert "Events: 0 sent, 0 counts sent, 1 waiting" in text


def random_service(rng, name, n):
    """One with addresses that others may claim, too."""
    def some(values):
        return rng.sample(values, rng.randint(0, len(values)))

    ips = ["198.51.100.%d" % i for i in range(1, 4)]
    return objects.service(
        "ns1", name, [objects.port(80, "http")], ["10.96.0.%d" % n],
        type="LoadBalancer", externalIPs=some(ips),
        internalTrafficPolicy=rng.choice(("Cluster", "Local")),
        externalTrafficPolicy=rng.choice(("Cluster", "Local")),
        created="2026-01-%02dT00:00:00Z" % rng.randint(1, 28),
        status={"loadBalancer": {"ingress": [
            {"ip": "203.0.113.%d" % i, "ipMode": rng.choice(("VIP", "Proxy"))}
            for i in some(range(1, 4))]}})


def random_slice(rng, name):
    """Of up to three endpoints in any state."""
    return slice_("ns1", name, [
        endpoint("10.10.%d.%d" % (rng.randint(1, 2), rng.randint(5, 9)),
                 rng.choice(("n1", "n2")), ready=rng.random() < 0.7,
                 serving=rng.random() < 0.8, terminating=rng.random() < 0.3)
        for _ in range(rng.randint(0, 3))], [(8080, "http")])


def told(rig, name):
    """What `services` says of the addresses: (address, used, state)."""
    for line in rig.daemon.appctl("services", name).splitlines()[1:]:
        words = line.split()
        address, used, state = words[-4], words[-2], words[-1]
        yield address.rsplit(":", 1)[0], int(used.split("/")[0]), state


@pytest.mark.parametrize("seed", range(3))
def test_what_is_told_is_what_the_bridge_does(rig, seed):
    """Of each address of Services that share some of them."""
    print("seed", seed)
    rng = random.Random(seed)
    names = ["svc-%d" % n for n in range(8)]
    rig.daemon.allow("belongs to")
    start(rig, objects.service("ns1", "svc-a"),
          *(random_service(rng, name, 20 + n)
            for n, name in enumerate(names)),
          *(random_slice(rng, name) for name in names), **ON)
    served, others = {}, set()
    for name in names:
        for address, used, state in told(rig, "ns1/" + name):
            if state in ("off", "conflict"):
                others.add(address)
                continue
            found = rig.lookup(address)
            assert found is not None, (name, address, state)
            kind = found if isinstance(found, str) else "select"
            assert kind == state, (name, address)
            assert state != "select" or len(found) == used
            # One and the same Service may name an address twice.
            assert served.setdefault(address, name) == name
    assert served and others
    for address in others - set(served):
        assert rig.lookup(address) is None, address


def test_affinity_and_health_port_are_told(rig):
    """What applies to all ports stands at the top."""
    service = load_balancer(
        INGRESS, externalTrafficPolicy="Local", healthCheckNodePort=31000,
        sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 77}})
    text = start(rig, service)
    has(text, "health-check node port: 31000",
        "session affinity: a client keeps its endpoint for 77 s after its "
        "last new connection")
    assert text.startswith("Service ns1/svc-a: type LoadBalancer, "
                           "internalTrafficPolicy Cluster, "
                           "externalTrafficPolicy Local\n")


# Services that are not served.


@pytest.mark.parametrize("change, config, why", [
    ({"type": "ExternalName", "clusterIP": None, "clusterIPs": None}, {},
     "it is of type ExternalName"),
    ({"clusterIP": "", "clusterIPs": None}, {}, "it has no cluster IP yet"),
    ({}, {"skipServices": ["ns1/svc-a"]},
     "antreaProxy.skipServices has its name or its cluster IP"),
    ({}, {"skipServices": ["10.96.0.10"]},
     "antreaProxy.skipServices has its name or its cluster IP"),
    ({}, {"enable": False}, "antreaProxy.enable is false")],
    ids=["external name", "pending", "name", "address", "off"])
def test_a_service_that_is_not_served_says_why(rig, change, config, why):
    """As a whole."""
    service = objects.service("ns1", "svc-a")
    service["spec"].update(change)
    rig.daemon.allow("antreaProxy")
    text = start(rig, service, antreaProxy=config)
    assert "  not served: " + why in text, text


def test_slices_without_a_service_are_told(rig):
    """The Service has another proxy, perhaps."""
    text = start(rig, slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2")]))
    assert "there are 1 EndpointSlices that name it" in text
    assert "service-proxy-name" in text


def test_dual_stack_tells_each_family(rig):
    """And does not count the other one's endpoints."""
    text = start(rig, objects.service("ns1", "svc-a", (80,), [
        "10.96.0.10", "2001:db8:96::10"]),
                 slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2")]),
                 slice_("ns1", "svc-a", [endpoint("2001:db8:10:2::5", "n2")],
                        suffix="v6"))
    has(text, "port 80/TCP, IPv4:", "port 80/TCP, IPv6:",
        "cluster IP [2001:db8:96::10]:80: policy Cluster: one of 1 endpoint",
        "[2001:db8:10:2::5]:80 on n2: used [svc-a-v6]")
    assert text.count("1 of 1 used") == 2


def test_the_other_family_alone_is_told(rig):
    """A slice of a family in which the Service has no address."""
    text = start(rig, objects.service("ns1", "svc-a"),
                 slice_("ns1", "svc-a", [endpoint("2001:db8:10:2::5", "n2")]))
    has(text, "[2001:db8:10:2::5] on n2: not used: its slice is of the other "
        "family [svc-a-abcde]")


# Bad input.


@pytest.mark.parametrize("command", ["explain", "endpoints", "flows",
                                     "services"])
@pytest.mark.parametrize("name", [
    "svc-a", "/", "ns1/", "/svc-a", "ns1/none", "ns1/svc-a/x",
    "x" * 100000, "ns1/" + "y" * 100000, "%s%n/%s%n", "\u00fc/\u00fc",
    "ns1/svc-a\n", ""], ids=lambda name: ascii(name)[:20])
def test_a_wrong_name_is_refused(ops_rig, command, name):
    """By each command, and the daemon goes on."""
    done = proc.run("ovs-appctl", "-t", ops_rig.daemon.ctl, command, name,
                    check=False)
    assert done.returncode == 2
    assert "NAMESPACE/NAME" in done.stderr or "no Service" in done.stderr
    assert "svc-a" in ops_rig.daemon.appctl("services")


@pytest.fixture(name="ops_rig", scope="module")
def fixture_ops_rig(tmp_path_factory):
    """A daemon with one Service, for many questions."""
    with Rig(tmp_path_factory.mktemp("ops") / "rig") as rig:
        rig.api.apply(own_node())
        rig.api.apply(objects.service("ns1", "svc-a"))
        rig.start_daemon()
        yield rig
    assert not rig.daemon.unexpected_warnings()


@pytest.mark.parametrize("args", [
    ("explain",), ("explain", "a/b", "c/d"), ("services", "a/b", "c/d"),
    ("endpoints",), ("nodes", "x"), ("sync", "x"), ("no-such-command",)])
def test_a_wrong_number_of_arguments_is_refused(ops_rig, args):
    """With the usage."""
    done = proc.run("ovs-appctl", "-t", ops_rig.daemon.ctl, *args,
                    check=False)
    assert done.returncode == 2
    assert ops_rig.daemon.running


def speak(rig, data):
    """Writes bytes to the control socket, and ends; what comes back."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(str(rig.daemon.ctl))
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: sock.recv(65536), b""))
        except ConnectionError:
            return b""


def call(method, *params):
    """A request as JSON."""
    return json.dumps({"id": 0, "method": method,
                       "params": params}).encode()


@pytest.mark.parametrize("data", [
    b"junk", b"\0" * 1000, b"}", b"[" * 5000, b"{}", b"[]", b"null", b'"x',
    b'{"id":0,"method":"explain","params":[1]}',
    b'{"id":0,"method":"explain","params":[null,{}]}',
    b'{"id":0,"method":"explain","params":{"a":"b"}}',
    b'{"id":0,"method":5,"params":["a/b"]}',
    b'{"id":0,"method":"explain"}',
    b'{"id":{},"method":"explain","params":["a/b"]}',
    b'{"id":0,"result":"x","error":null}',
    b'{"id":0,"method":"explain","params":["a/\xff\xfe"]}',
    call("explain", "\0/\0"), call("names", *["port:1"] * 1001),
    call("explain", *["a/b"] * 10000), call("x" * 100000),
    call("names", "port:" + "9" * 100000)], ids=lambda data: ascii(data)[:40])
def test_junk_on_the_control_socket_stops_nobody(ops_rig, data):
    """An error, or the end of that connection; others are answered."""
    ops_rig.daemon.allow(r"\|(jsonrpc|unixctl)\|WARN\|")
    assert b'"result":"' not in speak(ops_rig, data)
    assert "svc-a" in ops_rig.daemon.appctl("services")


def test_most_names_at_once_are_answered(ops_rig):
    """As many as are allowed."""
    text = ops_rig.daemon.appctl("names", *["port:1"] * 1000)
    assert text.splitlines() == ["port:1: pod on port 1"] * 1000


def test_many_silent_callers_stop_nobody(ops_rig):
    """They may hold their connections for as long as they like."""
    callers = []
    try:
        for _ in range(100):
            sock = socket.socket(socket.AF_UNIX)
            callers.append(sock)
            sock.connect(str(ops_rig.daemon.ctl))
            sock.sendall(b'{"id":0,')
        assert "svc-a" in ops_rig.daemon.appctl("services")
    finally:
        for sock in callers:
            sock.close()
    assert "svc-a" in ops_rig.daemon.appctl("services")
