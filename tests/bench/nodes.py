# SPDX-License-Identifier: Apache-2.0
"""Many Nodes: how long a cold start takes from all listed to in sync, and
what one Node's change costs, by the number of Nodes."""
import pathlib
import re
import subprocess
import time

from bed import Bed, Control, number_in
from cold import MAX_ANSWER_MS
from changes import SETTLE, Cost
from figures import median, spread
from support import objects, proc
from support.wait import wait_for

RUNS = 5
N_KINDS = 3                     # Of objects that are listed.
SIZES = (100, 1000, 5000)
COLD = 1000                     # Nodes of the cold start with a goal.
CHANGES = 150                   # Of each kind; a few where they are counted.
COUNTED = 20
PAUSE = 0.03                    # Seconds between two.
KINDS = ("add", "move", "remove")
IMAGES = 50                     # As many as a kubelet reports.
OWN = "198.18.0.1"
MODES = ("encap", "noEncap", "hybrid")

# Goals.
MAX_COLD_MS = 1000
MAX_GROWTH = 1.5


def make_node(number, moved=False):
    """The Node with this number, about as large as a real one; moved: with
    another address.  In hybrid mode every second one is on another
    subnet."""
    subnet = "198.19.0.0/16" if number % 2 else "198.18.0.0/16"
    made = objects.node(
        "node-%05d.example.com" % number,
        ["10.%d.%d.0/24" % (64 + number // 256, number % 256)],
        [objects.nth(subnet, 256 + 2 * number + moved)])
    made["status"]["images"] = [
        {"names": ["registry.example.com/team/image-%d@sha256:%064x"
                   % (i, number * IMAGES + i)], "sizeBytes": 123456789}
        for i in range(IMAGES)]
    return made


class NodeBed(Bed):
    """A cluster of many Nodes, this one among them."""

    address = OWN + "/16"

    def __init__(self, n_nodes):
        self.n_nodes = n_nodes
        own = objects.node("n1", ["10.32.0.0/24"], [OWN])
        super().__init__(0, given=[own] + [make_node(i)
                                           for i in range(n_nodes)])

    def add(self, i):
        """Adds a Node."""
        self.api.apply(make_node(self.n_nodes + i))

    def move(self, i):
        """Gives it another address."""
        self.api.apply(make_node(self.n_nodes + i, moved=True))

    def remove(self, i):
        """Takes it away."""
        self.api.delete(make_node(self.n_nodes + i))


def wait_changes(daemon, n):
    """Waits until the daemon has read so many events of Nodes, and all
    follows."""
    def read():
        text = daemon.sync()
        return (number_in(text, r"Nodes: .*?(\d+) events") >= n
                and text.startswith("in sync: yes"))
    wait_for(read, 60, "%d events of Nodes" % n, daemon)


class Changer:
    """Makes changes of Nodes, one after the other."""

    def __init__(self, bed, daemon):
        self._bed, self._daemon, self._n = bed, daemon, 0

    def make(self, kind, n=CHANGES):
        """'n' of a kind, until they are done."""
        for i in range(n):
            getattr(self._bed, kind)(i)
            time.sleep(PAUSE)
        self._n += n
        wait_changes(self._daemon, self._n)


def user_ticks(pid):
    """Of a process: the clock ticks that met it outside the kernel, and
    all."""
    text = pathlib.Path("/proc/%d/stat" % pid).read_text()
    user, system = map(int, text.rpartition(")")[2].split()[11:13])
    return user, user + system


# What is sent, by what those who watch are told of it.

class Observer:
    """A command that prints a line for each message."""

    def __init__(self, bed, pattern, *command):
        self._pattern = re.compile(pattern, re.M)
        self._path = bed.dir / command[0]
        self._stream = open(self._path, "w", encoding="utf-8")
        self._process = proc.start(*command, netns=bed.ns.name,
                                   stdin=subprocess.DEVNULL,
                                   stdout=self._stream)

    def stop(self):
        """Ends it; how many messages there were."""
        proc.stop(self._process)
        self._stream.close()
        return len(self._pattern.findall(self._path.read_text()))


class Messages:
    """How many messages changes cost."""

    def __init__(self, bed, daemon):
        self._daemon = daemon
        self._sent = daemon.sent()
        self._observers = {
            "routes": Observer(bed, r"^(Deleted )?\d", "ip", "monitor",
                               "route"),
            "nftables transactions": Observer(bed, r"^# new generation",
                                              "nft", "monitor")}
        time.sleep(1)           # They read all that is there first.

    def per_change(self):
        """{what: messages a change}."""
        time.sleep(0.5)         # Nobody knows when they have heard all.
        found = {"flow modifications": self._daemon.sent() - self._sent}
        for what, observer in self._observers.items():
            found[what] = observer.stop()
        return {what: n / COUNTED for what, n in found.items()}


# Benchmarks.

def watch_start(daemon):
    """(ms from all listed to in sync, host and rules included, as far as who
    asks all the time can tell; the longest that it had to wait)."""
    control = Control(daemon.ctl)
    listed, longest, now = None, 0, time.monotonic()
    text = ""
    while not text.startswith("in sync: yes"):
        time.sleep(0.001)
        start = time.monotonic()
        text, now = control("sync"), time.monotonic()
        longest = max(longest, now - start)
        if listed is None and text.count("1 lists") == N_KINDS:
            listed = now
    control.close()
    return 1000 * (now - listed), 1000 * longest


def cold_start(bed, mode):
    """One cold start: ms from all listed to the bridge in sync, to all in
    sync, and the longest wait; how much of ofproxyd's time it took; flows,
    routes."""
    with bed.switch() as switch, bed.daemon(
            switch, trafficEncapMode=mode) as daemon:
        everything, longest = watch_start(daemon)
        bridge = number_in(daemon.sync(), r"first in sync: ([\d.]+) ms")
        return (bridge, max(bridge, everything), longest,
                daemon.cpu_ns() / 1e6,
                len(switch.dump_flows(names=False)),
                len(bed.ns.ip("route", "show", "proto", "201").splitlines()))


def cold(table, bed):
    """Cold starts."""
    for mode in MODES:
        runs = [cold_start(bed, mode) for _ in range(RUNS)]
        bridge, everything, longest, cpu = (
            [r[i] for r in runs] for i in range(4))
        name = "%d Nodes, %s: " % (bed.n_nodes, mode)
        table.figure(name + "bridge in sync", median(bridge), "ms",
                     note="%s, %d flows" % (spread(bridge, 0), runs[0][4]))
        table.figure(name + "all in sync", median(everything), "ms",
                     MAX_COLD_MS if bed.n_nodes == COLD else None,
                     "%s, %d routes" % (spread(everything, 0), runs[0][5]))
        table.figure(name + "control socket, max", max(longest), "ms",
                     MAX_ANSWER_MS if bed.n_nodes <= COLD else None,
                     spread(longest, 0))
        table.figure(name + "CPU since the start", median(cpu), "ms")


def costs(bed, mode):
    """{kind of change: [us of ofproxyd, us of ovs-vswitchd, messages]}, and
    of ofproxyd outside the kernel, all kinds together."""
    found, total_us = {}, 0
    with bed.synced(trafficEncapMode=mode) as (switch, daemon):
        changer = Changer(bed, daemon)
        time.sleep(SETTLE)
        before = user_ticks(daemon.pid)
        for kind in KINDS:
            cost = Cost(daemon, switch).of(CHANGES, changer.make, kind)
            found[kind] = [cost.own, cost.switch]
            total_us += cost.own
        user, ticks = (a - b for a, b in zip(user_ticks(daemon.pid), before))
        for kind in KINDS:
            messages = Messages(bed, daemon)
            changer.make(kind, COUNTED)
            found[kind].append(messages.per_change())
    return found, total_us / len(KINDS) * user / ticks


def growth(table, name, by_size, goals):
    """The figures for each size against those of the first."""
    first = min(by_size)
    for size in sorted(by_size)[1:]:
        table.figure("%s, %d : %d" % (name, size, first),
                     by_size[size] / by_size[first], "", goals.get(size))


def changes(table, mode, by_size):
    """The figures of one mode."""
    for kind in KINDS:
        for size, (found, _) in by_size.items():
            own, switch, messages = found[kind]
            table.figure("%s, %d Nodes, %s" % (mode, size, kind), own, "us",
                         note="ovs-vswitchd %.0f us; %s" % (
                             switch, ", ".join("%s %.2f" % pair for pair
                                               in messages.items())))
        growth(table, "%s, %s" % (mode, kind),
               {size: found[kind][0] for size, (found, _)
                in by_size.items()}, {COLD: MAX_GROWTH})
    user = {size: us for size, (_, us) in by_size.items()}
    for size, us in user.items():
        table.figure("%s, %d Nodes, outside the kernel" % (mode, size), us,
                     "us", note="mean of all kinds")
    growth(table, mode + ", outside the kernel", user,
           dict.fromkeys(SIZES, MAX_GROWTH))


def run(table, _options):
    """The sub-benchmark."""
    table.title("nodes: cold start with many Nodes, and one Node's change")
    found = {mode: {} for mode in MODES}
    for size in SIZES:
        with NodeBed(size) as bed:
            cold(table, bed)
            for mode in MODES:
                found[mode][size] = costs(bed, mode)
    for mode, by_size in found.items():
        changes(table, mode, by_size)
