#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Traffic for the tests: servers that say who they are, and clients that
keep count of who answered.

As a program it is a server or a client, to be run inside a namespace (see
--help).  A server answers each line that it gets on a TCP or SCTP connection
by a line, and each UDP datagram by a datagram: "NAME CLIENT-ADDRESS
CLIENT-PORT WHAT-CAME".  A TCP connection that begins with "GET " gets a web
page that says the same.  With --by-port the name is NAME:PORT.

In a test:

    with Server(pod, "web-1", tcp=[80], udp=[53]):
        with Client(client, "connect", "10.96.0.10", 80) as traffic:
            ...
        assert not traffic.result["failures"]
"""
import argparse
import collections
import errno
import json
import pathlib
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from support import proc                        # noqa: E402
from support.wait import slowness, wait_for     # noqa: E402

IPPROTO_SCTP, IP_LOCAL_PORT_RANGE = 132, 51
BUFFER = 65536
LAST_ANSWER = 1.0               # Seconds to wait for it after a stream,
TIMEOUT = 2.0                   # and for any other, on an idle machine.
LEAST_WAIT = 10.0               # Seconds for the last ones that are wanted.
MAX_FAILURES = 100              # Told one by one; all are counted.


# Servers.

def _client_text(peer):
    """Address and port of a client, without the mapping of dual stack."""
    address = peer[0]
    return "%s %d" % (address.removeprefix("::ffff:"), peer[1])


def _page(text):
    """A web page."""
    body = (text + "\n").encode()
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n%s"
            % (len(body), body))


def _serve_stream(name, sock, peer):
    """Answers the lines of one connection."""
    try:
        stream = sock.makefile("rb")
        for line in stream:
            text = "%s %s" % (name, _client_text(peer))
            if line.startswith(b"GET "):
                while stream.readline().strip():
                    pass
                sock.sendall(_page(text))
                break
            line = line.decode(errors="replace").strip()
            sock.sendall(("%s %s\n" % (text, line)).encode())
    except OSError:
        pass
    finally:
        sock.close()


def _accept(name, listener):
    """Takes one connection, on a thread of its own."""
    try:
        sock, peer = listener.accept()
    except OSError:
        return                  # It has gone already.
    sock.setblocking(True)
    threading.Thread(target=_serve_stream, args=(name, sock, peer),
                     daemon=True).start()


def _answer_datagram(name, sock):
    """From the address that was asked."""
    try:
        data, about, _, peer = sock.recvmsg(BUFFER, 256)
        text = "%s %s " % (name, _client_text(peer))
        sock.sendmsg([text.encode() + data], about, 0, peer)
    except OSError:
        pass                    # A bad checksum, or the client is gone.


def _bound(kind, proto, address, port):
    """A socket on one address, or (None) on all of both families."""
    if address is None:
        address = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, kind, proto)
    if address == "::":
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    sock.setblocking(False)
    return sock


def _ports(text):
    """The ports of "80" or "8000-8099"."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def serve(options):
    """Serves until it is ended; says "ready" first."""
    selector = selectors.DefaultSelector()
    for ports, kind, proto, function in (
            (options.tcp, socket.SOCK_STREAM, socket.IPPROTO_TCP, _accept),
            (options.sctp, socket.SOCK_STREAM, IPPROTO_SCTP, _accept),
            (options.udp, socket.SOCK_DGRAM, 0, _answer_datagram)):
        for port in [port for some in ports for port in some]:
            sock = _bound(kind, proto, options.address, port)
            if kind == socket.SOCK_STREAM:
                sock.listen(1024)
            name = options.name + (":%d" % port if options.by_port else "")
            selector.register(sock, selectors.EVENT_READ, (function, name))
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            function, name = key.data
            function(name, key.fileobj)


# Clients.

class Count:
    """What a client has seen; safe for threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._began = self._last = time.monotonic()
        self._gap = 0
        self.answers = collections.Counter()
        self.failures = []
        self.n_failures = 0
        self.kinds = collections.Counter()
        self.latencies = []
        self.sources = set()

    def answer(self, text, seconds):
        """Counts an answer: "NAME ADDRESS PORT ..."."""
        words = text.split()
        with self._lock:
            now = time.monotonic()
            self._gap, self._last = max(self._gap, now - self._last), now
            self.answers[words[0]] += 1
            self.sources.add(words[1])
            self.latencies.append(seconds)
        return words[0]

    def failure(self, error, seconds, who=None):
        """Counts a failed try; 'who' would have answered."""
        number = getattr(error, "errno", None)
        kind = errno.errorcode.get(number, type(error).__name__)
        with self._lock:
            self.n_failures += 1
            self.kinds[kind] += 1
            if len(self.failures) < MAX_FAILURES:
                self.failures.append({
                    "kind": kind, "after": round(seconds, 4), "of": who,
                    "at": round(time.monotonic() - self._began, 3)})

    def result(self, ended):
        """All of it, for JSON; times in seconds.  'gap' is the longest one
        without an answer, until asking ended: what is waited for then, if
        it has been lost, is no gap."""
        with self._lock:
            now = time.monotonic()
            times = sorted(self.latencies)

            def quantile(q):
                return times[int(q * (len(times) - 1))] if times else None

            return {"answers": dict(self.answers), "n": len(times),
                    "n_failures": self.n_failures,
                    "failures": self.failures, "kinds": dict(self.kinds),
                    "sources": sorted(self.sources),
                    "p50": quantile(0.5), "p99": quantile(0.99),
                    "max": quantile(1),
                    "gap": max(self._gap, ended - self._last),
                    "began": self._began, "seconds": now - self._began}


def _socket(options):
    """An unconnected socket of the protocol asked for."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    if options.proto == "udp":
        sock = socket.socket(family, socket.SOCK_DGRAM)
    else:
        proto = IPPROTO_SCTP if options.proto == "sctp" else 0
        sock = socket.socket(family, socket.SOCK_STREAM, proto)
    sock.settimeout(options.timeout)
    if options.ports:
        first, last = map(int, options.ports.split("-"))
        sock.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE,
                        struct.pack("=I", last << 16 | first))
    if options.source_port:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", options.source_port))
    return sock


def _ask(sock, text):
    """The answer to one line or datagram."""
    sock.sendall(text.encode() + b"\n")
    data = sock.recv(BUFFER)
    if not data:
        raise ConnectionResetError(errno.ECONNRESET, "closed")
    return data.decode(errors="replace")


class _Pace:
    """Shares the tries among threads, and ends them."""

    def __init__(self, options, count):
        self._lock = threading.Lock()
        self._left = options.count
        self._interval = options.interval
        self._least, self._answers = options.least, count.latencies
        self._goal = self._until = self.ended = None
        self.stop = threading.Event()

    def end(self, *_):
        """Ends them, once there are as many more answers as are asked for,
        or none can be expected."""
        self.ended = time.monotonic()
        self._until = self.ended + LEAST_WAIT * slowness()
        self._goal = len(self._answers) + self._least
        if not self._least:
            self.stop.set()

    def next(self):
        """Whether to try once more."""
        with self._lock:
            if self._left is not None:
                if self._left == 0:
                    self.ended = self.ended or time.monotonic()
                    return False
                self._left -= 1
        if self._goal is not None and (len(self._answers) >= self._goal
                                       or time.monotonic() > self._until):
            self.stop.set()
        return not self.stop.is_set()

    def rest(self):
        """Waits between two tries."""
        if self._interval:
            self.stop.wait(self._interval)


def _connect_loop(options, count, pace):
    """A new connection, or socket, for each try."""
    while pace.next():
        began = time.monotonic()
        try:
            with _socket(options) as sock:
                sock.connect((options.host, options.port))
                answer = _ask(sock, "hello")
            count.answer(answer, time.monotonic() - began)
        except OSError as error:
            count.failure(error, time.monotonic() - began)
        pace.rest()


def _hold_loop(options, count, pace):
    """One connection or socket for all tries; a dead one ends the loop."""
    who, number = None, 0
    began = time.monotonic()
    try:
        with _socket(options) as sock:
            sock.connect((options.host, options.port))
            while pace.next():
                began = time.monotonic()
                number += 1
                try:
                    who = _exchange(sock, number, options, count, began)
                except TimeoutError as error:
                    count.failure(error, time.monotonic() - began, who)
                    if options.proto != "udp":
                        return
                pace.rest()
    except OSError as error:
        count.failure(error, time.monotonic() - began, who)


def _exchange(sock, number, options, count, began):
    """One numbered question; late answers of UDP are passed over."""
    text = "q%d" % number
    answer = _ask(sock, text)
    while options.proto == "udp" and answer.split()[-1] != text:
        answer = sock.recv(BUFFER).decode(errors="replace")
    return count.answer(answer, time.monotonic() - began)


def _receive(sock, sent, count, pace):
    """Takes answers until all are there, or none can be expected."""
    end = None
    while not pace.stop.is_set() or sent:
        if pace.stop.is_set():
            end = end or time.monotonic() + LAST_ANSWER * slowness()
            if time.monotonic() > end:
                return
        try:
            answer = sock.recv(BUFFER).decode(errors="replace")
        except TimeoutError:
            continue
        except OSError as error:
            count.failure(error, 0)
            continue
        at = sent.pop(answer.split()[-1], None)
        if at is not None:
            count.answer(answer, time.monotonic() - at)


def _stream_loop(options, count, pace):
    """Datagrams from one socket at a steady pace, answers as they come.

    Each datagram that has no answer in the end is a failure."""
    with _socket(options) as sock:
        sock.connect((options.host, options.port))
        sock.settimeout(0.05)
        sent, number = {}, 0
        receiver = threading.Thread(target=_receive,
                                    args=(sock, sent, count, pace))
        receiver.start()
        while pace.next():
            number += 1
            text = "s%d" % number
            sent[text] = time.monotonic()
            try:
                sock.send(text.encode())
            except OSError as error:
                sent.pop(text, None)
                count.failure(error, 0)
            pace.rest()
        pace.stop.set()
        receiver.join()
        for _ in sent:
            count.failure(TimeoutError("no answer"), 0)


LOOPS = {"connect": _connect_loop, "hold": _hold_loop,
         "stream": _stream_loop}


def ask(options):
    """Runs a client until its count is reached or SIGTERM; prints JSON.

    The first answer is told on a line of its own, so that a test can wait
    until traffic flows."""
    count = Count()
    pace = _Pace(options, count)
    signal.signal(signal.SIGTERM, pace.end)
    threads = [threading.Thread(target=LOOPS[options.command],
                                args=(options, count, pace))
               for _ in range(options.concurrency)]
    for thread in threads:      # Not all in step.
        thread.start()
        pace.stop.wait(options.interval / options.concurrency)
    while (any(t.is_alive() for t in threads) and not count.latencies
           and not count.n_failures):
        time.sleep(0.001)
    print("first", flush=True)
    for thread in threads:
        while thread.is_alive():
            thread.join(0.05)   # So that signals are heard.
    print(json.dumps(count.result(pace.ended or time.monotonic())), flush=True)


def main():
    """The program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    server = commands.add_parser("serve")
    server.add_argument("name")
    for proto in ("tcp", "udp", "sctp"):
        server.add_argument("--" + proto, type=_ports, action="append",
                            default=[], metavar="PORT[-PORT]")
    server.add_argument("--by-port", action="store_true")
    server.add_argument("--address", help="listen on this one only")
    for name, text in (
            ("connect", "a new connection for each question"),
            ("hold", "connections that ask again and again"),
            ("stream", "UDP datagrams from one socket, not waiting")):
        client = commands.add_parser(name, help=text)
        client.add_argument("host")
        client.add_argument("port", type=int)
        client.add_argument("--proto", choices=("tcp", "udp", "sctp"),
                            default="udp" if name == "stream" else "tcp")
        client.add_argument("--count", type=int, help="questions in all")
        client.add_argument("--least", type=int, default=0, help="answers "
                            "to wait for after SIGTERM")
        client.add_argument("--interval", type=float, default=0)
        client.add_argument("--concurrency", type=int, default=1)
        client.add_argument("--timeout", type=float,
                            default=TIMEOUT * slowness())
        client.add_argument("--source-port", type=int)
        client.add_argument("--ports", metavar="PORT-PORT", help="to choose "
                            "the source port from (Linux 6.3)")
    options = parser.parse_args()
    if options.command == "serve":
        serve(options)
    else:
        ask(options)


# For the tests.

class _Running:
    """A copy of this program in a namespace (proc.inside; None: here)."""

    def __init__(self, namespace, *args):
        self._process = proc.start(
            sys.executable, __file__, *args, stdout=subprocess.PIPE, text=True,
            netns=namespace.name if namespace else None)
        line = self._process.stdout.readline().strip()
        if line not in ("ready", "first"):
            proc.kill(self._process)
            raise AssertionError("traffic.py %s did not start" % (args,))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends it."""
        proc.stop(self._process)
        self._process.stdout.close()


class Server(_Running):
    """A running server; ports are numbers or "8000-8099"."""

    def __init__(self, namespace, name, *options, tcp=(), udp=(), sctp=()):
        ports = []
        for option, numbers in (("--tcp", tcp), ("--udp", udp),
                                ("--sctp", sctp)):
            for number in numbers:
                ports += [option, str(number)]
        super().__init__(namespace, "serve", name, *options, *ports)


class Client(_Running):
    """A running client; .result is there once it has ended.

    'more' are the program's options: count=, interval=, proto=...  With
    least= it goes on at its end until it has had so many more answers: a test
    that counts some has them, however short it was, and an outage an end."""

    def __init__(self, namespace, kind, host, port, **more):
        options = []
        for key, value in more.items():
            options += ["--" + key.replace("_", "-"), str(value)]
        self.result = None
        super().__init__(namespace, kind, host, str(port), *options)

    def wait(self, timeout=60):
        """Waits for the end of a client with a count; its result."""
        wait_for(lambda: self._process.poll() is not None, timeout,
                 "the traffic's end")
        self.stop()
        return self.result

    def stop(self):
        """Ends it and reads its result."""
        if self.result is None:
            if self._process.poll() is None:
                self._process.terminate()
            text = self._process.stdout.read()
            self._process.wait()
            self._process.stdout.close()
            self.result = json.loads(text)
        return self.result


def ask_once(namespace, host, port, **more):
    """The result of one question."""
    return Client(namespace, "connect", host, port, count=1, **more).wait()


def converse(sock, size):
    """A line of many bytes on a TCP connection to a server, and its answer."""
    line = b"x" * size
    sock.settimeout(10)
    sock.sendall(line + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        data = sock.recv(65536)
        assert data, "the server has closed"
        answer += data
    assert answer.split()[-1] == line


if __name__ == "__main__":
    main()
