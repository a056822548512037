# SPDX-License-Identifier: Apache-2.0
"""Services without endpoints: clients are told at once."""
import re
import threading
import time

import pytest

from support import packets
from support.cluster import PORT, at
from support.packets import ACK, RST, SYN, TCP, Wire
from support.traffic import Client
from support.wait import slowness, wait_for

BOTH = pytest.mark.parametrize("family", [4, 6])
PROTOS = pytest.mark.parametrize("proto", ["tcp", "udp"])
CLUSTER = {"antreaProxy": {"proxyAll": True}}
AT_ONCE = 2                     # Seconds.
LIMIT = 313                     # Rejects a second by one port of the bridge.


def assert_refused(result, n):
    """All of n tries were refused, each in no time."""
    assert result["kinds"] == {"ECONNREFUSED": n}
    assert max(f["after"] for f in result["failures"]) < AT_ONCE


@BOTH
@PROTOS
@pytest.mark.parametrize("who", ["pod", "host"])
def test_q1_without_endpoints_a_connection_is_refused(cluster, family, proto,
                                                      who):
    """Q1: by a TCP RST, or by a port unreachable."""
    client = cluster.pods[0] if who == "pod" else cluster.host
    assert_refused(cluster.service().ask(client, family, 20, proto=proto), 20)


@BOTH
@PROTOS
def test_q1_unready_endpoints_are_as_good_as_none(cluster, family, proto):
    """Q1, services.md 2."""
    service = cluster.service([at(cluster.pods[1], ready=False)])
    assert_refused(service.ask(cluster.pods[0], family, 5, proto=proto), 5)


@BOTH
@PROTOS
@pytest.mark.parametrize("who", ["pod", "host"])
def test_a_port_that_no_service_has_is_refused(cluster, family, proto, who):
    """Services.md 2.5: at a cluster IP, while the Service's port is served."""
    client, web = cluster.pods[0], cluster.pods[1]
    asker = client if who == "pod" else cluster.host
    service = cluster.service([at(web)])
    other = Client(asker, "connect", service.of(family), PORT + 1, count=5,
                   proto=proto)
    assert_refused(other.wait(), 5)
    assert service.ask(asker, family, proto=proto)["n"] == 1


@BOTH
@pytest.mark.parametrize("who", ["pod", "host"])
def test_a_ping_of_a_cluster_ip_gets_port_unreachable(cluster, family, who):
    """As kube-proxy's nftables rules answer it."""
    asker = cluster.pods[0] if who == "pod" else cluster.host
    vip = cluster.service([at(cluster.pods[1])]).of(family)
    with Wire(asker, "eth0" if who == "pod" else "antrea-gw0") as wire:
        assert not packets.ping(asker, family, vip, 0.1)
        error = wire.wait(lambda f: f.src == vip)
    assert error.icmp == packets.UNREACHABLE[family]
    assert error.quoted.dst == vip
    assert error.quoted.icmp[0] == packets.ECHO[family]


@BOTH
@pytest.mark.parametrize("who", ["pod", "host"])
def test_q2_the_answer_comes_from_the_service(cluster, family, who):
    """Q2: from its address and port, and reset and error are well formed: the
    client's kernel took them, above."""
    service = cluster.service()
    vip = service.of(family)
    client = cluster.pods[0] if who == "pod" else cluster.host
    with Wire(client, "eth0" if who == "pod" else "antrea-gw0") as wire:
        service.ask(client, family)
        reset = wire.wait(lambda f: f.proto == TCP and f.src == vip)
        service.ask(client, family, proto="udp")
        error = wire.wait(lambda f: f.proto in (packets.ICMP, packets.ICMPV6)
                          and f.src == vip)
    assert reset.flags == RST | ACK and reset.ports[0] == PORT
    assert error.icmp == packets.UNREACHABLE[family]
    assert error.quoted.dst == vip and error.quoted.ports[1] == PORT


@BOTH
@PROTOS
def test_q2_a_reject_leaves_nothing_behind(cluster, family, proto):
    """Q2: no entry of the connection tracker that would catch the client's
    next try, from the same port, when there is an endpoint."""
    client, web = cluster.pods[:2]
    service = cluster.service()
    port = 20000 + service.number
    assert_refused(service.ask(client, family, proto=proto,
                               source_port=port), 1)
    service.set([at(web)])
    cluster.node.switch.wait_revalidated()
    assert service.ask(client, family, proto=proto, source_port=port)["n"] == 1


class Flood:
    """SYNs to an address without endpoint, at a rate, and the resets."""

    def __init__(self, pod, gateway_mac, family, vip, rate):
        self.n_sent = self.n_resets = 0
        self._stop = threading.Event()
        self._wire = Wire(pod)
        self._frames = [
            packets.eth(self._wire.mac, gateway_mac, *packets.ip(
                pod.of(family), vip, TCP, packets.tcp(port, PORT, SYN)))
            for port in range(10000, 10500)]
        self._vip, self._rate = vip, rate
        self._threads = [threading.Thread(target=self._send),
                         threading.Thread(target=self._count)]

    def _send(self):
        began = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - began) * self._rate) - self.n_sent
            for _ in range(min(due, 500)):
                self._wire.sock.send(
                    self._frames[self.n_sent % len(self._frames)])
                self.n_sent += 1
            self._stop.wait(0.005)

    def _count(self):
        while not self._stop.is_set():
            self._wire.frames.clear()
            if self._wire.wait(lambda f: f.proto == TCP and f.flags & RST
                               and f.src == self._vip, 0.1):
                self.n_resets += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._wire.sock.close()


def n_rejects(cluster):
    """How many the daemon has sent."""
    return int(re.search(r"rejects: (\d+)",
                         cluster.daemon.appctl("sync"))[1])


@BOTH
@pytest.mark.parametrize("rate", [LIMIT - 60, 20000])
def test_a_scan_of_an_empty_service_starves_nobody(cluster, family, rate):
    """Connections of others work, changes are made, and other clients are
    refused as ever, and so is the scanner what the meter lets through."""
    client, web, scanner = cluster.pods
    empty, good = cluster.service(), cluster.service([at(web)])
    rejects = n_rejects(cluster)
    with Flood(scanner, cluster.gateway_mac(), family, empty.of(family),
               rate) as flood:
        wait_for(lambda: flood.n_resets > 100, 5, "resets", cluster.daemon)
        before = cluster.daemon.cpu_seconds()
        began = time.monotonic()
        result = good.ask(client, family, 300, interval=0.003)
        assert result["n_failures"] == 0
        assert result["p99"] < AT_ONCE
        assert_refused(empty.ask(client, family, 20), 20)
        good.set([at(cluster.pods[0])])
        assert good.ask(client, family)["answers"] == {"p0:8080": 1}
        seconds = time.monotonic() - began
        assert cluster.daemon.cpu_seconds() - before < 0.7 * seconds
        assert flood.n_sent > 0.5 * rate * seconds / slowness()
    if rate < LIMIT:
        wait_for(lambda: n_rejects(cluster) - rejects >= 0.9 * flood.n_sent, 5,
                 "a reject for each", cluster.daemon)
    assert_refused(empty.ask(client, family, 3), 3)
