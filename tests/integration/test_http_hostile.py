# SPDX-License-Identifier: Apache-2.0
"""HTTP clients that are slow, many or hostile take nothing but their share:
others are answered, the bridge follows, descriptors and memory are bounded."""
import contextlib
import os
import resource
import socket
import subprocess
import sys
import time

import pytest

from support import httpclient, objects, setns
from support.objects import slice_
from support.rig import Rig, own_node
from support.wait import slowness, wait_for

HEALTH, METRICS = 10256, 10249
LOOPBACK = "127.0.0.1"
SITE_CONNS = 64                 # HTTPD_SITE_CONNS
REQUEST_S = 10                  # HTTPD_REQUEST_MS
VIP = "10.96.0.10"


@pytest.fixture
def rig(tmp_path):
    """With all that serves HTTP switched on, and room for many sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(16384, hard), hard))
    with Rig(tmp_path / "rig", antreaProxy={"proxyAll": True},
             enablePrometheusMetrics=True) as made:
        made.api.apply(own_node())
        made.start_daemon()
        yield made
    made.check_quiet()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def n_fds(rig):
    """Descriptors of the daemon."""
    return len(os.listdir("/proc/%d/fd" % rig.daemon.pid))


def n_connections(rig, port=HEALTH):
    """Connections that the daemon's side has, in whatever state with a
    process behind it."""
    return len(rig.ns.run("ss", "-Htn", "state", "established",
                          "sport = :%d" % port).stdout.splitlines())


@contextlib.contextmanager
def many(rig, n, port=HEALTH, first=b"", room=None):
    """Connections that are held; with `room` for so many bytes."""
    def open_all():
        for _ in range(n):
            sock = socket.socket()
            if room:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            sock.setblocking(False)
            sock.connect_ex((LOOPBACK, port))
            socks.append(sock)
            if len(socks) % 100 == 0:
                time.sleep(.01)

    socks = []
    try:
        setns.call(rig.ns.name, open_all)
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.send(first)
        yield socks
    finally:
        for sock in socks:
            sock.close()


def check_served(rig, number):
    """A change reaches the bridge, and health is answered, both at once."""
    name = "svc-%d" % number
    address = "10.96.0.%d" % (10 + number)
    begin = time.monotonic()
    rig.api.apply(objects.service("ns1", name, cluster_ips=(address,)))
    rig.api.apply(slice_("ns1", name, ["10.10.1.5"]))
    assert httpclient.get(rig.ns.name, LOOPBACK, HEALTH,
                          "/healthz").status == 200
    rig.wait_lookup(address, ["10.10.1.5:80"])
    assert time.monotonic() - begin < 5 * slowness()


def test_slow_clients_are_given_up_and_lock_nobody_out(rig):
    """Twice as many as there is room for send a byte now and then."""
    fds = n_fds(rig)
    with many(rig, 2 * SITE_CONNS, first=b"GET /healthz HTTP/1.1\r\nX: ") as s:
        begin = time.monotonic()
        check_served(rig, 0)
        assert n_connections(rig) <= SITE_CONNS + 1
        while n_connections(rig) and time.monotonic() - begin < 30:
            for sock in s:
                with contextlib.suppress(OSError):
                    sock.send(b"x")
            time.sleep(.5)
        assert not n_connections(rig)
        assert time.monotonic() - begin < (REQUEST_S + 5) * slowness()
        check_served(rig, 1)
    wait_for(lambda: n_fds(rig) <= fds, 10, "no descriptor left over", rig)


def test_ten_thousand_connections_change_nothing(rig):
    """They are opened as fast as can be, and held."""
    fds, memory = n_fds(rig), rig.daemon.rss_kib()
    with many(rig, 10000):
        assert n_fds(rig) <= fds + 3 * SITE_CONNS
        check_served(rig, 0)
        assert n_connections(rig) <= SITE_CONNS + 1
    check_served(rig, 1)
    wait_for(lambda: n_fds(rig) <= fds, 10, "no descriptor left over", rig)
    assert rig.daemon.rss_kib() < memory + 8192


REQUESTS = {
    "giant header": b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 20),
    "many headers": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100000,
    "giant line": b"GET /" + b"x" * (1 << 20),
    "not HTTP": os.urandom(100000),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
    "no end": b"GET /healthz HTTP/1.1\r\n",
    "nothing": b"",
    "null bytes": b"GET /he\0althz HTTP/1.1\r\nHost: x\0\r\n\r\n" * 3,
    "bad length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "huge length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "
                    b"99999999999999999999999\r\n\r\n"),
    "long body": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000"
                  b"\r\n\r\n" + b"x" * (1 << 22)),
    "bad chunks": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked"
                   b"\r\n\r\nffffffffffffffff\r\nx\r\n"),
    "pipelined": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 1000,
}


@pytest.mark.parametrize("what", REQUESTS)
def test_hostile_requests_are_survived(rig, what):
    """Each on several connections, some of which are then reset."""
    fds, memory = n_fds(rig), rig.daemon.rss_kib()
    for reset in (False, True) * 5:
        sock = httpclient.connect(rig.ns.name, LOOPBACK, HEALTH, timeout=.3)
        with sock, contextlib.suppress(OSError):
            sock.sendall(REQUESTS[what])
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                b"\1\0\0\0\0\0\0\0")
            else:
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
    check_served(rig, 0)
    wait_for(lambda: n_fds(rig) <= fds + 5, REQUEST_S + 5, "most are gone",
             rig)
    assert rig.daemon.rss_kib() < memory + 8192


def test_clients_that_ask_and_close_at_once_do_not_pile_up(rig):
    """The library overlooks that these have closed."""
    fds = n_fds(rig)
    for _ in range(5 * SITE_CONNS):
        with httpclient.connect(rig.ns.name, LOOPBACK, HEALTH) as sock:
            sock.sendall(REQUESTS["pipelined"][:3 * 35])
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536).count(b"HTTP/1.1 ") < 1:
                pass
    wait_for(lambda: n_fds(rig) <= fds + SITE_CONNS, 5, "room for others",
             lambda: "%d descriptors" % n_fds(rig))
    check_served(rig, 0)


def test_clients_that_do_not_read_share_one_page(rig):
    """A page of metrics of 1000 Services, asked for by as many as there is
    room for, who don't read it."""
    for i in range(1000):
        address = "10.96.%d.%d" % (1 + i // 200, 1 + i % 200)
        rig.api.apply(objects.service("ns1", "s%d" % i,
                                      cluster_ips=(address,)))
    rig.wait_settled()
    page = httpclient.get(rig.ns.name, LOOPBACK, METRICS, "/metrics").body
    assert len(page) > 150000
    memory = rig.daemon.rss_kib()
    with many(rig, SITE_CONNS, METRICS,
              b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", room=4096):
        check_served(rig, 0)
        assert rig.daemon.rss_kib() < memory + 8192
        wait_for(lambda: not n_connections(rig, METRICS), REQUEST_S + 5,
                 "all are given up", rig)


def test_without_descriptors_the_daemon_waits(rig):
    """No more than it has can be opened; it doesn't spin, and recovers."""
    limit = n_fds(rig) + 8
    resource.prlimit(rig.daemon.pid, resource.RLIMIT_NOFILE, (limit, limit))
    rig.daemon.allow("Too many open files")
    with many(rig, 200):
        wait_for(lambda: n_fds(rig) >= limit, 5, "no descriptor left", rig)
        cpu, begin = rig.daemon.cpu_seconds(), time.monotonic()
        time.sleep(3)           # Measures.
        used = rig.daemon.cpu_seconds() - cpu
        assert used < .3 * (time.monotonic() - begin)
    check_served(rig, 0)


FLOOD = """
import socket, time
end, n = time.monotonic() + 4, 0
while time.monotonic() < end:
    try:
        with socket.create_connection(("127.0.0.1", %d), 1) as s:
            s.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            n += s.recv(4096).startswith(b"HTTP/1.1 200")
    except OSError:
        pass
print(n)
"""


def test_a_flood_of_requests_leaves_time_for_the_bridge(rig):
    """Some thousand a second, from four processes, each on a connection of
    its own."""
    clients = [rig.ns.start(sys.executable, "-c", FLOOD % HEALTH,
                            stdout=subprocess.PIPE) for _ in range(4)]
    try:
        for number in range(5):
            check_served(rig, number)
    finally:
        answers = [int(client.communicate()[0]) for client in clients]
    assert min(answers) > 100, answers
    page = httpclient.parse_metrics(httpclient.get(
        rig.ns.name, LOOPBACK, METRICS, "/metrics").body)
    turns = {its.get("le"): value for name, its, value in page[
        "ofproxyd_turn_duration_seconds"].samples if name.endswith("_bucket")}
    # A machine that is busy with other things stops it now and then; turns
    # that took all requests would all be long.
    assert turns["+Inf"] - turns["0.1"] <= turns["+Inf"] / 20, turns
