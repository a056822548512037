# SPDX-License-Identifier: Apache-2.0
"""HTTP as bytes, from inside a network namespace, and the text format of
Prometheus' metrics.

    reply = httpclient.get(netns, "127.0.0.1", 10249, "/metrics")
    families = httpclient.parse_metrics(reply.body)
"""
import math
import re
import socket
from dataclasses import dataclass, field

from support import setns

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*$")
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
                   r"(?:,|$)")
TYPES = ("counter", "gauge", "histogram")


@dataclass
class Reply:
    """What came back."""
    status: int
    headers: list               # (name, value), in order.
    body: str

    def header(self, name):
        """The value of a header, or None."""
        return dict(self.headers).get(name)


def connect(netns, address, port, timeout=5):
    """A TCP connection from inside a namespace."""
    return setns.call(netns, socket.create_connection, (address, port),
                      timeout)


def listen(netns, address, port):
    """A listening socket inside a namespace."""
    return setns.call(netns, socket.create_server, (address, port))


def read_reply(sock, method="GET"):
    """The next answer on a connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            raise ConnectionError("closed after %r" % data)
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
    length = int(dict(headers).get("Content-Length", 0))
    while method != "HEAD" and len(body) < length:
        more = sock.recv(65536)
        if not more:
            raise ConnectionError("the body is short")
        body += more
    return Reply(int(lines[0].split()[1]), headers, body.decode())


def request(sock, path="/", method="GET", body=b""):
    """Asks on a connection that is open."""
    head = "%s %s HTTP/1.1\r\nHost: x\r\n" % (method, path)
    if body:
        head += "Content-Length: %d\r\n" % len(body)
    sock.sendall(head.encode() + b"\r\n" + body)
    return read_reply(sock, method)


def get(netns, address, port, path="/", **more):
    """One request on a connection of its own."""
    with connect(netns, address, port) as sock:
        return request(sock, path, **more)


# Metrics.

@dataclass
class Family:
    """A metric: its samples are (name, labels, value)."""
    type: str
    help: str
    samples: list = field(default_factory=list)

    def value(self, **labels):
        """The value of the only sample with these labels among its own."""
        found = [value for _, its, value in self.samples
                 if labels.items() <= its.items()]
        assert len(found) == 1, (labels, self.samples)
        return found[0]


def _labels(text, line):
    labels, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, line
        assert match[1] not in labels, line
        labels[match[1]] = re.sub(
            r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[2])
        at = match.end()
    return labels


def _family_of(name, families):
    for suffix in ("", "_bucket", "_sum", "_count"):
        base = name[:len(name) - len(suffix)]
        if name.endswith(suffix) and base in families and (
                not suffix or families[base].type == "histogram"):
            return base
    raise AssertionError("%s has no TYPE" % name)


def _check_histogram(name, family):
    series = {}
    for sample, labels, value in family.samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        one = series.setdefault(key, {"buckets": []})
        if sample == name + "_bucket":
            one["buckets"].append((float(labels["le"]), value))
        else:
            one[sample[len(name):]] = value
    for one in series.values():
        bounds = [bound for bound, _ in one["buckets"]]
        counts = [count for _, count in one["buckets"]]
        assert bounds == sorted(set(bounds)), name
        assert counts == sorted(counts), name
        assert bounds[-1] == math.inf and counts[-1] == one["_count"], name
        assert "_sum" in one, name


def parse_metrics(text):
    """{name: Family}; fails on what `promtool check metrics` complains of,
    and on more."""
    families, open_name = {}, None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, words = line.split(" ", 3)
            assert NAME.match(name) and name not in families, line
            assert words, line
            families[name] = Family("", words)
            open_name = name
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == open_name and not families[name].type, line
            assert kind in TYPES, line
            families[name].type = kind
        else:
            match = SAMPLE.match(line)
            assert match, line
            name = _family_of(match[1], families)
            assert name == open_name, "%s is not with its family" % line
            families[name].samples.append(
                (match[1], _labels(match[2] or "", line), float(match[3])))
    for name, family in families.items():
        seen = [(n, tuple(sorted(its.items())))
                for n, its, _ in family.samples]
        assert len(seen) == len(set(seen)), name
        assert family.type, name
        # kube-proxy and Antrea have names of their own taste.
        if name.startswith("ofproxyd_"):
            assert name.endswith("_total") == (family.type == "counter"), name
        if family.type == "histogram":
            _check_histogram(name, family)
    return families
