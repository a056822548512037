# SPDX-License-Identifier: Apache-2.0
"""ofproxyctl: commands, traces and counters."""
import re
import socket
import threading

import pytest

from support import ctl, objects, proc
from support.objects import endpoint, slice_
from support.ovs import pod_mac
from support.rig import Rig, own_node
from support.wait import wait_for

A, B = ("10.10.1.5", "2001:db8:10:1::5"), ("10.10.1.6", "2001:db8:10:1::6")
VIPS = {"v4": "10.96.0.10", "v6": "[2001:db8:96::10]"}


def service(name, n, ports=(objects.port(80),), **spec):
    """A Service of both families."""
    return objects.service("ns1", name, list(ports),
                           ["10.96.0.%d" % n, "2001:db8:96::%d" % n], **spec)


def slices(name, *ends, **more):
    """Its slices: of pairs of addresses."""
    for family in (0, 1):
        yield slice_("ns1", name, [endpoint(e[family], "n1") for e in ends],
                     suffix="v%d" % family, **more)


PORTS = [(8080, "http", "TCP"), (8053, "dns", "UDP"), (8036, "sip", "SCTP")]


@pytest.fixture(name="rig", scope="module")
def fixture_rig(tmp_path_factory):
    """A daemon with some Services and two pods, for many questions."""
    with Rig(tmp_path_factory.mktemp("ctl") / "rig") as rig:
        rig.api.apply(own_node())
        rig.api.apply_all([
            service("svc-a", 10, [objects.port(80, "http"),
                                  objects.port(53, "dns", "UDP"),
                                  objects.port(36, "sip", "SCTP")]),
            *slices("svc-a", A, B, ports=[
                objects.slice_port(*port) for port in PORTS]),
            service("svc-sticky", 11, sessionAffinity="ClientIP"),
            *slices("svc-sticky", A, B),
            service("svc-empty", 12),
            service("svc-local", 13, internalTrafficPolicy="Local"),
            slice_("ns1", "svc-local", [endpoint("10.10.2.5", "n2")]),
            service("svc-lb", 14, type="LoadBalancer", status={
                "loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}),
            *slices("svc-lb", A),
            service("svc-big", 15),
            slice_("ns1", "svc-big", [
                endpoint("10.11.%d.%d" % (n // 250, n % 250 + 1), "n2")
                for n in range(990)]),
            service("svc-some", 16),
            slice_("ns1", "svc-some", ["10.12.0.%d" % n
                                       for n in range(1, 41)])])
        rig.start_daemon()
        rig.switch.add_dummy_pod("pod-a", A, ofport=1)
        rig.switch.add_dummy_pod("pod-b", B, ofport=2)
        rig.daemon.wait_flow("SpoofGuard", "nw_src=%s" % B[0])
        rig.wait_settled()
        yield rig
    rig.check_quiet()


def words(text):
    """The words behind the lines of a trace."""
    return re.findall(r"    <- (.*)", text)


# Traces.


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("port, name", [
    ("80", "http/TCP"), ("80/tcp", "http/TCP"), ("53/UDP", "dns/UDP"),
    ("36/SCTP", "sip/SCTP")])
def test_a_trace_names_what_it_passes(rig, family, port, name):
    """From a pod to a group, and out of the port of an endpoint."""
    text = ctl.output(rig, "trace", "ns1/pod-b", "%s:%s" % (VIPS[family],
                                                             port))
    unit = "Service ns1/svc-a:%s (IP%s)" % (name, family)
    assert text.startswith("From pod ns1/pod-b, %s, on port 2, to "
                           % B[family == "v6"])
    for word in ("Classifier: pod on port 2 (ns1/pod-b)",
                 "PktSource=POD", "FromLocal=YES", "ServiceLB: " + unit,
                 unit + ", policy Cluster",
                 "L3Forwarding: pod on port 1 (ns1/pod-a)"):
        assert word in words(text), text
    number = dict((n, p) for p, n, _ in PORTS)[name.split("/")[0]]
    members = [("[%s]:%d" if family == "v6" else "%s:%d")
               % (pod[family == "v6"], number) for pod in (A, B)]
    assert ("The group has 2 endpoints:\n  %s\n  %s\n" % tuple(members)
            in text)
    assert text.endswith("Result: leaves by pod on port 1 (ns1/pod-a)\n")


@pytest.mark.parametrize("client", ["10.10.1.6", "ns1/pod-b"])
def test_a_pod_is_found_by_name_and_address(rig, client):
    """The packet is one that SpoofGuard lets pass."""
    text = ctl.output(rig, "trace", client, "10.96.0.10:80")
    assert "dl_src=%s," % pod_mac(B[0]) in text
    assert "nw_src=10.10.1.6," in text
    assert "Result: leaves by pod" in text


def test_the_host_comes_by_the_gateway(rig):
    """With the gateway's addresses."""
    text = ctl.output(rig, "trace", "host", "10.96.0.10:80")
    assert text.startswith("From this node, 10.10.1.1, by the gateway port ")
    assert "PktSource=GATEWAY" in words(text)
    assert "FromLocal=YES" in words(text)


def test_the_world_comes_by_the_gateway(rig):
    """And needs a source of this node, at a load balancer's address."""
    text = ctl.output(rig, "trace", "198.51.100.9", "203.0.113.1:80")
    assert text.startswith("From outside, 198.51.100.9, by the gateway port ")
    assert "FromExternal=YES" in words(text)
    assert any("ToExternalAddress=YES" in line for line in words(text)), text
    assert "ct_mark=0x30" in text       # Of the later packet.
    assert "Result: leaves by" in text


def test_the_host_translates_its_own_addresses_first(tmp_path):
    """A NodePort's, from outside and from the host itself; not for pods."""
    with Rig(tmp_path / "rig", antreaProxy={"proxyAll": True}) as rig:
        rig.api.apply(own_node())
        rig.api.apply_all([
            service("svc-a", 10, [objects.port(80, nodePort=30080)],
                    type="NodePort"),
            *slices("svc-a", A)])
        rig.start_daemon()
        rig.switch.add_dummy_pod("pod-b", B, ofport=2)
        rig.daemon.wait_flow("SpoofGuard", "nw_src=%s" % B[0])
        rig.wait_settled()
        said = ("The host translates the address, its own, to 169.254.0.252 "
                "before the packet comes to the bridge\n")
        unit = "ServiceLB: Service ns1/svc-a:/TCP (IPv4)"
        for client in "198.51.100.9", "host":
            text = ctl.output(rig, "trace", client, "192.0.2.11:30080")
            assert said in text and unit in words(text), text
        text = ctl.output(rig, "trace", "ns1/pod-b", "192.0.2.11:30080")
        assert said not in text and unit in words(text), text
        text = ctl.output(rig, "trace", "host", "192.0.2.11:30081")
        assert said not in text and unit not in words(text), text
    rig.check_quiet()


def test_affinity_is_followed(rig):
    """The switch itself foresees that group's choice."""
    text = ctl.output(rig, "trace", "ns1/pod-b", "10.96.0.11:80")
    assert ("EndpointDNAT: Service ns1/svc-sticky:/TCP (IPv4)"
            in words(text)), text
    assert re.search(r"EndpointIP=10\.10\.1\.[56]", text)
    assert "Result: leaves by pod" in text


def test_no_endpoint_is_a_reject(rig):
    """To ofproxyd, and back."""
    text = ctl.output(rig, "trace", "ns1/pod-b", "10.96.0.12:80")
    assert "SvcNoEp=YES" in " ".join(words(text)), text
    assert "Result: rejected by ofproxyd" in text


def test_policy_local_without_endpoint_is_a_drop(rig):
    """Other nodes have one."""
    text = ctl.output(rig, "trace", "ns1/pod-b", "10.96.0.13:80")
    assert text.endswith("Result: dropped\n")


def test_what_is_no_service_can_be_traced_too(rig):
    """From pod to pod."""
    text = ctl.output(rig, "trace", "ns1/pod-b", "10.10.1.5:1234")
    assert text.endswith("Result: leaves by pod on port 1 (ns1/pod-a)\n")


def test_some_endpoints_of_a_group_are_told(rig):
    """Where only the datapath selects: with the rest as a number."""
    text = ctl.output(rig, "trace", "ns1/pod-b", "10.96.0.16:80")
    assert "The group has 40 endpoints:\n  10.12.0.1:80\n" in text
    assert "  and 20 more\n" in text
    assert "Result: leaves by" in text


def test_a_group_of_groups_is_followed(rig):
    """By the switch itself."""
    text = ctl.output(rig, "trace", "ns1/pod-b", "10.96.0.15:80")
    unit = "Service ns1/svc-big:/TCP (IPv4), policy Cluster"
    assert words(text).index(unit) < words(text).index(unit
                                                       + ", a part of it")
    assert "The group has" not in text and "Result: leaves by" in text


@pytest.mark.parametrize("args, message", [
    (("ns1/none", "10.96.0.10:80"), "is neither NAMESPACE/POD"),
    (("none", "10.96.0.10:80"), "is neither NAMESPACE/POD"),
    (("/", "10.96.0.10:80"), "is neither NAMESPACE/POD"),
    (("", "10.96.0.10:80"), "is neither NAMESPACE/POD"),
    (("x" * 10000, "10.96.0.10:80"), "is neither NAMESPACE/POD"),
    (("2001:db8::1", "10.96.0.10:80"), "of different families"),
    (("10.10.1.6", "[2001:db8:96::10]:80"), "of different families"),
    (("host", "10.96.0.10"), "is no ADDRESS:PORT"),
    (("host", "10.96.0.10:"), "is no ADDRESS:PORT"),
    (("host", "10.96.0.10:0"), "is no ADDRESS:PORT"),
    (("host", "10.96.0.10:65536"), "is no ADDRESS:PORT"),
    (("host", "10.96.0.10:99999999999999999999"), "is no ADDRESS:PORT"),
    (("host", "10.96.0.10:-1"), "is no ADDRESS:PORT"),
    (("host", "10.96.0.10: 80"), "is no ADDRESS:PORT"),
    (("host", "10.96.0.300:80"), "is no ADDRESS:PORT"),
    (("host", "10.96.0.10:80/ICMP"), "is no ADDRESS:PORT"),
    (("host", "10.96.0.10:80/"), "is no ADDRESS:PORT"),
    (("host", "[2001:db8::1:80"), "is no ADDRESS:PORT"),
    (("host", ":80"), "is no ADDRESS:PORT"),
    (("host", "[]:80"), "is no ADDRESS:PORT"),
    (("host", ""), "is no ADDRESS:PORT"),
    (("host", "x" * 10000), "is no ADDRESS:PORT"),
    (("host",), "usage: ofproxyctl trace CLIENT ADDRESS:PORT[/PROTOCOL]"),
    (("host", "10.96.0.10:80", "192.0.2.12"), "comes by the tunnel"),
    (("10.10.2.5", "10.96.0.10:80", "x" * 10000), "comes by the tunnel"),
    (("10.10.2.5", "10.96.0.10:80", "x", "x"), "usage: ofproxyctl trace")],
    ids=lambda value: ascii(value)[:50])
def test_a_trace_of_nonsense_is_refused(rig, args, message):
    """With a message that says what is wanted."""
    done = ctl.run(rig, "trace", *args)
    assert done.returncode == 1
    assert done.stdout == ""
    assert message in done.stderr and done.stderr.startswith("ofproxyctl: ")


@pytest.mark.parametrize("word", [
    "cookie:", "cookie:x", "group:4294967296", "port:65536", "x:1", "1", "",
    "cookie:0x1ffffffffffffffff", "group:-1", "group:1x"])
def test_names_of_nonsense_are_refused(rig, word):
    """On the control socket, where anybody may write anything."""
    done = ctl.run(rig, "names", "port:1", word)
    assert done.returncode == 1
    assert "is no cookie:NUMBER" in done.stderr


def test_names_of_anything_are_told(rig):
    """Of numbers that are nobody's, too."""
    text = ctl.output(
        rig, "names", "port:1", "port:77", "port:0", "port:32769",
        "cookie:0x0", "cookie:0xf901000000000000", "cookie:0xf901030000000001",
        "cookie:0xf901071234567890", "cookie:0xf9010500000fffff",
        "group:0x40000000", "group:5")
    assert text.splitlines() == [
        "port:1: pod on port 1 (ns1/pod-a)", "port:77: pod on port 77",
        "port:0: pod on port 0", "port:32769: the gateway port, to the host",
        "cookie:0x0: not ours", "cookie:0xf901000000000000: pipeline",
        "cookie:0xf901030000000001: pipeline",
        "cookie:0xf901071234567890: a client that is remembered (session "
        "affinity)", "cookie:0xf9010500000fffff: pipeline",
        "group:0x40000000: of no Service any more", "group:5: not ours"]


# Counters.


def test_counters_count_connections(rig):
    """Of each endpoint, and all together."""
    before = counters(rig, "ns1/svc-a")
    assert sorted(before) == [
        "ns1/svc-a:%s (IP%s), policy Cluster" % (port, family)
        for port in ("dns/UDP", "http/TCP", "sip/SCTP")
        for family in ("v4", "v6")]
    # One packet of a new connection, as if pod-b had sent it.
    rig.switch.appctl(
        "netdev-dummy/receive", "pod-b",
        "in_port(2),eth(src=%s,dst=%s),eth_type(0x0800),ipv4(src=10.10.1.6,"
        "dst=10.96.0.10,proto=17,tos=0,ttl=64,frag=no),udp(src=1234,dst=53)"
        % (pod_mac(B[0]), gateway_mac(rig)))
    name = "ns1/svc-a:dns/UDP (IPv4), policy Cluster"

    def counted():
        total, members = counters(rig, "ns1/svc-a")[name]
        assert sum(members.values()) == total
        return total == before[name][0] + 1

    wait_for(counted, 10, "a count", rig)
    assert sorted(counters(rig, "ns1/svc-a")[name][1]) == [
        "10.10.1.5:8053", "10.10.1.6:8053"]


def gateway_mac(rig):
    """The gateway port's."""
    return re.search(r"gateway: \S+ port \d+ (\S+)",
                     rig.daemon.appctl("sync"))[1]


def counters(rig, name):
    """{group: (total, {endpoint: number})}."""
    result = {}
    for line in ctl.output(rig, "counters", name).splitlines():
        if line.startswith("  "):
            where, number = line.split()
            members[where] = int(number)
        else:
            title, number = re.match(r"(.*): (\d+) connections$",
                                     line).groups()
            members = {}
            result[title] = (int(number), members)
    return result


def test_counters_of_many_endpoints(rig):
    """In groups of groups, each endpoint once."""
    [(total, members)] = [
        value for key, value in counters(rig, "ns1/svc-big").items()
        if "IPv4" in key]
    assert total == 0
    assert len(members) == 990


@pytest.mark.parametrize("name", ["svc-a", "ns1/none", "/", "x" * 10000],
                         ids=lambda value: value[:20])
def test_counters_of_nothing_are_refused(rig, name):
    """As all commands refuse it."""
    done = ctl.run(rig, "counters", name)
    assert done.returncode == 1
    assert done.stderr.startswith("ofproxyctl: ")


# The program.


def test_commands_are_passed_on(rig):
    """What ofproxyd prints, unchanged."""
    for args in (("services",), ("services", "ns1/svc-a"),
                 ("explain", "ns1/svc-a"), ("endpoints", "ns1/svc-a"),
                 ("flows", "ns1/svc-a"), ("nodes",), ("vlog/list",)):
        assert ctl.output(rig, *args) == rig.daemon.appctl(*args)


@pytest.mark.parametrize("args, message", [
    ((), "usage: ofproxyctl"), (("no-such-command",), "not a valid command"),
    (("explain",), "usage: ofproxyctl explain NAMESPACE/NAME"),
    (("nodes", "x"), "usage: ofproxyctl nodes"),
    (("--no-such-option",), "usage: ofproxyctl"),
    (("-T", "x", "sync"), "no number of seconds")])
def test_wrong_calls_say_how(rig, args, message):
    """On standard error, with exit status 1."""
    done = ctl.run(rig, *args)
    assert done.returncode == 1
    assert message in done.stderr


def test_help_and_version(rig):
    """On standard output."""
    assert "trace CLIENT ADDRESS:PORT" in ctl.output(rig, "--help")
    assert ctl.output(rig, "-V").startswith("ofproxyctl ")


def test_no_daemon_is_said(tmp_path):
    """And not waited for."""
    done = proc.run(ctl.program(), "-t", tmp_path / "no.ctl", "sync",
                    check=False)
    assert done.returncode == 1
    assert "no ofproxyd listens on" in done.stderr


def test_a_switch_that_is_not_there_is_said(rig, tmp_path):
    """With the path where it should be."""
    done = proc.run(ctl.program(), "-t", rig.daemon.ctl, "--vswitchd",
                    tmp_path / "no.ctl", "trace", "host", "10.96.0.10:80",
                    check=False)
    assert done.returncode == 1
    assert "can't connect to %s" % (tmp_path / "no.ctl") in done.stderr


@pytest.mark.parametrize("answer", [
    b"", b"junk", b"\0" * 100, b'{"id":0,"result":5,"error":null}',
    b'{"id":99,"result":"x","error":null}', b"[" * 100000,
    b'{"id":0,"result":"bridge: x\\nrun-dir: y\\n","error":null}'],
    ids=lambda value: ascii(value)[:20])
def test_a_daemon_that_talks_nonsense_is_survived(tmp_path, answer):
    """Whatever listens there."""
    path = tmp_path / "x.ctl"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(5)

        def serve():
            while True:
                try:
                    conn, _ = listener.accept()
                except OSError:
                    return
                try:
                    if conn.recv(65536):
                        conn.sendall(answer)
                except OSError:
                    pass
                conn.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        done = proc.run(ctl.program(), "-T", "20", "-t", path, "trace",
                        "host", "10.96.0.10:80", check=False)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    assert done.returncode == 1, done
    assert done.stderr.startswith("ofproxyctl: ")


def test_a_daemon_that_is_silent_is_given_up(tmp_path):
    """After the time that was given."""
    path = tmp_path / "x.ctl"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(5)
        done = proc.run(ctl.program(), "-T", "1", "-t", path, "sync",
                        check=False)
    assert done.returncode != 0
