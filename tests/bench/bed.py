# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks measure on: a large cluster's objects in an API server
that is a process of its own, a private switch with dummy ports, and the
daemon, all in a network namespace.

Nothing here polls fast while something is measured: the machine is small, and
whoever looks takes part.
"""
import contextlib
import json
import pathlib
import re
import shutil
import socket
import tempfile
import time

from support import objects, ovs, proc
from support.apiserver import RemoteApiServer
from support.daemon import Ofproxyd
from support.netns import Namespace
from support.wait import wait_for

GATEWAY = "antrea-gw0"
N_ENDPOINTS = 10                # Of each Service.

# What a node that serves all of a mix of Services is told.
MIX_CONFIG = {"antreaProxy": {"proxyAll": True},
              "serviceCIDR": "10.96.0.0/11",
              "serviceCIDRv6": "fd00:10:96::/108"}
POLL = 0.05                     # Seconds between two looks at the daemon.


# Objects.

def _uid(number):
    return "80c9be92-347f-498e-9708-%012d" % number


def realistic(obj, number):
    """'obj' with what controllers add to it, which makes up a third of what
    an API server sends."""
    if obj["kind"] != "EndpointSlice":
        return obj
    meta = obj["metadata"]
    owner = meta["labels"][objects.SERVICE_LABEL]
    meta["generateName"] = owner + "-"
    meta["annotations"] = {"endpoints.kubernetes.io/last-change-trigger-time":
                           "2026-01-01T00:00:00Z"}
    meta["ownerReferences"] = [{
        "apiVersion": "v1", "kind": "Service", "name": owner,
        "uid": _uid(number), "controller": True, "blockOwnerDeletion": True}]
    for n, endpoint in enumerate(obj["endpoints"] or ()):
        endpoint["targetRef"]["name"] += "-7c5ddbdf54-%05d" % n
        endpoint["targetRef"]["uid"] = _uid(number * 1000 + n)
        endpoint["nodeName"] += ".example.com"
        endpoint["zone"] = "zone-%d" % (n % 3)
    return obj


def cluster(n_services, seed, n_endpoints=N_ENDPOINTS, **more):
    """All objects of a cluster; 'more' as for objects.cluster()."""
    return [realistic(obj, number) for number, obj in enumerate(
        objects.cluster_objects(n_services, n_endpoints, seed=seed, **more))]


class Api(RemoteApiServer):
    """The API server, as support.daemon wants to see it."""

    ca = tokens = client_certs = None


# The control socket.

class Control:
    """A connection to the daemon's control socket: a look costs no process.
    As long as it is open the daemon looks for requests in every turn of its
    loop, so it is to be closed before costs are measured."""

    def __init__(self, path):
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(60)
        self._sock.connect(str(path))
        self._decoder = json.JSONDecoder()
        self._number = 0

    def __call__(self, command, *args):
        self._number += 1
        self._sock.sendall(json.dumps({
            "method": command, "params": args,
            "id": self._number}).encode())
        text = ""
        while True:
            data = self._sock.recv(65536)
            if not data:
                raise ConnectionError("the daemon has closed its socket")
            text += data.decode()
            try:
                answer, _ = self._decoder.raw_decode(text)
            except ValueError:
                continue        # There is more to come.
            if answer["error"] is not None:
                raise RuntimeError(answer["error"])
            return answer["result"]

    def close(self):
        """Closes it."""
        self._sock.close()


def number_in(text, pattern):
    """The number that a pattern finds."""
    return float(re.search(pattern, text)[1])


class Daemon(Ofproxyd):
    """ofproxyd, asked without a process for each question."""

    def sync(self):
        """What it says of its state."""
        control = Control(self.ctl)
        try:
            return control("sync")
        finally:
            control.close()

    def anonymous_kib(self):
        """Its resident memory but for what belongs to a file."""
        return self._status("RssAnon")

    def wait_ready(self, timeout=120):
        """Waits until the bridge is as wanted, looking rarely."""
        end = time.monotonic() + timeout
        while not self.sync().startswith("in sync: yes"):
            if time.monotonic() > end:
                raise AssertionError("not in sync\n" + self.sync()
                                     + self.dump())
            time.sleep(POLL)
        return self

    def n_connects(self):
        """How often it has found its switch."""
        return int(number_in(self.sync(), r"(\d+) connects"))

    def wait_connected(self, n):
        """Waits until it is in sync after its n-th connection."""
        end = time.monotonic() + 30
        while self.n_connects() < n:
            assert time.monotonic() < end, self.dump()
            time.sleep(POLL)
        self.wait_ready()

    def cpu_ns(self):
        """The processor time that it has used, exactly."""
        return cpu_ns(self.pid)

    def latency(self):
        """{quantile: ms} of its last rounds, and how many there are."""
        line = re.search(r"latency of the last (\d+) rounds, ms: (.*)",
                         self.sync())
        return {"n": int(line[1]), **{
            name: float(ms) for name, ms in
            re.findall(r"(\w+) ([\d.]+)", line[2])}}

    def sent(self):
        """The number of modifications that it has sent."""
        line = re.search(r"^sent: (.*), \d+ refused$", self.sync(), re.M)[1]
        return sum(map(int, re.findall(r"\d+", line)))


def cpu_ns(pid):
    """The processor time of a process' threads, in ns."""
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in pathlib.Path("/proc/%d/task" % pid).iterdir())


def switch_rss_mib(switch):
    """The resident memory of an ovs-vswitchd."""
    text = pathlib.Path("/proc/%d/status" % switch.pid).read_text()
    return number_in(text, r"VmRSS:\s+(\d+)") / 1024


# All together.

class Bed:
    """An API server with the objects of a cluster; switches and daemons are
    made on it.  given: the objects, if they aren't those of cluster(); mix:
    they are all kinds of Services, and the node serves them."""

    address = "192.0.2.11/24"   # Of this node.
    address6 = "2001:db8::11/64"

    def __init__(self, n_services, seed=1, n_endpoints=N_ENDPOINTS,
                 given=None, mix=False):
        self.n_services, self.mix = n_services, mix
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="ofproxyd-bench-"))
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self.dir, ignore_errors=True)
        self._number = 0
        self.objects = given or cluster(n_services, seed, n_endpoints,
                                        mix=mix)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self):
        self.ns = Namespace("bench")
        self._stack.callback(self.ns.close)
        # A dummy switch makes no link; the daemon gives addresses to one.
        self.ns.ip("link", "add", GATEWAY, "type", "veth", "peer", "name",
                   "gw-peer")
        self.ns.batch(
            "link add uplink type veth peer name wire",
            "addr add %s dev uplink" % self.address,
            "link set uplink up", "link set wire up")
        if self.mix:
            self.ns.ip("addr", "add", self.address6, "dev", "uplink",
                       "nodad")
        path = self.dir / "objects"
        path.write_text("\n".join(map(json.dumps, self.objects)))
        self.api = Api(self.dir / "api", "--netns", self.ns.name,
                       "--objects", str(path))
        self._stack.callback(self.api.close)

    def close(self):
        """Takes all away."""
        self._stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _subdir(self, what):
        self._number += 1
        return self.dir / ("%s-%d" % (what, self._number))

    @contextlib.contextmanager
    def switch(self):
        """A fresh switch, without a bridge."""
        directory = self._subdir("switch")
        with ovs.PrivateSwitch(directory, dummy=True,
                               netns=self.ns.name) as switch:
            yield switch

    @contextlib.contextmanager
    def daemon(self, switch, **config):
        """A daemon, started."""
        config = {**(MIX_CONFIG if self.mix else {}), **config}
        with Daemon(self._subdir("daemon"), self.api, switch,
                    **config) as made:
            yield made

    @contextlib.contextmanager
    def synced(self, **config):
        """(switch, daemon), in sync."""
        with self.switch() as switch:
            with self.daemon(switch, **config) as made:
                yield switch, made.wait_ready()

    # Changes.

    def slices(self, wanted=None):
        """The EndpointSlices among the objects; 'wanted' says of which
        Services."""
        names = {obj["metadata"]["name"] for obj in self.objects
                 if obj["kind"] == "Service" and (not wanted or wanted(obj))}
        return [obj for obj in self.objects if obj["kind"] == "EndpointSlice"
                and obj["metadata"]["labels"][objects.SERVICE_LABEL] in names]

    def wait_read(self, daemon, n_events, timeout=60):
        """Waits until the daemon has read so many events of EndpointSlices,
        and the bridge follows."""
        def read():
            return (self.n_events(daemon) >= n_events
                    and daemon.sync().startswith("in sync: yes"))
        wait_for(read, timeout, "%d events" % n_events, daemon)

    @staticmethod
    def n_events(daemon):
        """How many events of EndpointSlices the daemon has read."""
        return int(number_in(daemon.sync(),
                             r"EndpointSlices: .*?(\d+) events"))


class Churn:
    """Changes one random endpoint's address again and again, and knows what
    the Services' endpoints are in the end."""

    def __init__(self, bed, rng, wanted=None):
        self._api, self._rng = bed.api, rng
        self._slices = bed.slices(wanted)
        self._next = 0
        self.n = 0

    def change(self):
        """The next change, to be applied."""
        chosen = self._rng.choice(self._slices)
        endpoint = self._rng.choice(chosen["endpoints"])
        self._next += 1
        endpoint["addresses"] = [
            "fd00:10:64::%x" % self._next if chosen["addressType"] == "IPv6"
            else "10.%d.%d.%d" % (64 + self._next // 62500,
                                  self._next // 250 % 250,
                                  self._next % 250 + 1)]
        self.n += 1
        return json.loads(json.dumps(chosen))

    def apply(self, n=1):
        """Applies 'n' changes, in one call."""
        changes = [["apply", self.change()] for _ in range(n)]
        self._api.changes(changes)

    def wrong(self, switch):
        """How many Services' groups on the switch are not as they should
        be."""
        wanted = {}
        for obj in self._slices:
            key = obj["metadata"]["labels"][objects.SERVICE_LABEL]
            wanted.setdefault(key, set()).update(
                e["addresses"][0] for e in obj["endpoints"])
        there = {}
        for group in switch.dump_groups(names=False):
            found = frozenset(re.findall(r"nat\(dst=([\d.]+):", group))
            there[found] = there.get(found, 0) + 1
        return sum(not there.get(frozenset(addresses))
                   for addresses in wanted.values())


def sleep_until(when):
    """Sleeps until a time of time.monotonic()."""
    pause = when - time.monotonic()
    if pause > 0:
        time.sleep(pause)


def vswitchd_cpu(switch):
    """The processor time of an ovs-vswitchd, in ns."""
    return cpu_ns(switch.pid)


def ofctl_seconds(switch, *args):
    """How long an ovs-ofctl command on the bridge takes."""
    start = time.monotonic()
    proc.run("ovs-ofctl", "-O", "OpenFlow15", args[0],
             str(switch.dir / (switch.bridge + ".mgmt")), *args[1:],
             timeout=120)
    return time.monotonic() - start
