# SPDX-License-Identifier: Apache-2.0
"""How long a cold start takes, from the moment that all lists have been read,
against ovs-ofctl with the same flows and groups; and what reading costs."""
import contextlib
import re
import threading
import time

from bed import Bed, Control, ofctl_seconds
from figures import median, quantile, spread
from support.wait import wait_for

SIZES = (1000, 10000)
RUNS = 5
MAX_RATIO = 1.5
MAX_DECODE_S = 1.0              # For the list of 10 000 Services.
MAX_ANSWER_MS = 100
STATS = re.compile(r" (?:duration|n_packets|n_bytes)=[^,]*,")


def bundle_text(switch):
    """What is on the bridge, as a file for `ovs-ofctl bundle`."""
    groups = switch.ofctl("dump-groups", options=("--no-names",))
    flows = switch.ofctl("dump-flows", options=("--no-names",))
    lines = ["group add " + line.strip() for line in groups.splitlines()
             if "group_id=" in line]
    # Leaf groups come first: groups name them.
    lines.sort(key=lambda line: "group:" in line)
    lines += ["flow add " + STATS.sub("", line).strip()
              for line in flows.splitlines() if "actions=" in line]
    return "\n".join(lines) + "\n"


def meters(switch):
    """The meters, as arguments of add-meter."""
    text = switch.ofctl("dump-meters")
    found = []
    for meter in re.split(r"(?=\bmeter=)", text)[1:]:
        found.append(" ".join(meter.split()).replace("bands= ", "bands="))
    return found


def load(bed, given_meters, path):
    """Loads a fresh switch by ovs-ofctl; the seconds that it takes."""
    with bed.switch() as switch:
        switch.add_bridge()
        for meter in given_meters:
            switch.ofctl("add-meter", meter)
        seconds = ofctl_seconds(switch, "bundle", str(path))
        return seconds, count(switch)


def count(switch):
    """How many flows and groups a bridge has."""
    return len(switch.dump_flows(names=False)), len(switch.dump_groups())


def first_ms(text):
    """The daemon's own figure: from all listed to in sync."""
    return float(re.search(r"first in sync: ([\d.]+) ms", text)[1])


def decoding(text):
    """(objects, bytes, seconds) of the last lists, all kinds together."""
    found = re.findall(r"last list (\d+) objects, (\d+) bytes, decoded in "
                       r"(\d+) us", text)
    n, n_bytes, us = (sum(map(int, column)) for column in zip(*found))
    return n, n_bytes, us / 1e6


class Answers(threading.Thread):
    """Asks the control socket for its version all the time."""

    def __init__(self, daemon):
        super().__init__()
        self._control = Control(daemon.ctl)
        self._ended = threading.Event()
        self.ms = []

    def run(self):
        while not self._ended.is_set():
            start = time.monotonic()
            self._control("version")
            self.ms.append(1000 * (time.monotonic() - start))
            time.sleep(0.001)

    def stop(self):
        """Ends it."""
        self._ended.set()
        self.join()
        self._control.close()


def cold_start(bed):
    """One cold start: what `sync` says after it, bundle text, meters."""
    with bed.synced() as (switch, daemon):
        text = daemon.sync()
        return text, bundle_text(switch), meters(switch), count(switch)


def measure(table, bed, runs=RUNS):
    """Cold starts and bundles in turn."""
    path = bed.dir / "bundle"
    own, others, decodes = [], [], []
    for _ in range(runs):
        text, bundle, given_meters, n_own = cold_start(bed)
        own.append(first_ms(text))
        decodes.append(decoding(text))
        path.write_text(bundle)
        seconds, n_other = load(bed, given_meters, path)
        others.append(1000 * seconds)
        assert n_own == n_other, (n_own, n_other)
    name = "%d Services: " % bed.n_services
    table.figure(name + "lists read to in sync", median(own), "ms",
                 note=spread(own, 0))
    table.figure(name + "ovs-ofctl bundle, the same", median(others), "ms",
                 note="%d flows, %d groups, %s" % (*n_own, spread(others, 0)))
    table.figure(name + "ratio", median(own) / median(others), "",
                 MAX_RATIO)
    n, n_bytes, _ = decodes[0]
    seconds = median([d[2] for d in decodes])
    table.figure(name + "decoding the lists", seconds, "s",
                 MAX_DECODE_S if bed.n_services == SIZES[-1] else None,
                 "%.1f MB" % (n_bytes / 1e6))
    table.figure(name + "decoding, rate", n_bytes / 1e6 / seconds, "MB/s")
    table.figure(name + "decoding, per object", 1e6 * seconds / n, "us")


@contextlib.contextmanager
def asked(daemon, found, what):
    """Asks as long as the body runs; the times go to found[what]."""
    answers = Answers(daemon)
    answers.start()
    try:
        yield
        time.sleep(0.5)         # What is still to be sent.
    finally:
        answers.stop()
    found.setdefault(what, []).append(answers.ms)


def relist(bed, daemon):
    """Has all objects listed again."""
    n = daemon.sync().count("2 lists")
    bed.api.compact()
    for kind in ("services", "endpointslices"):
        bed.api.send_error(kind)
    wait_for(lambda: daemon.sync().count("2 lists") == n + 2, 30,
             "new lists", daemon)


def upheavals(bed, found):
    """All that makes much work at once, one after the other."""
    with bed.switch() as switch, bed.daemon(switch) as daemon:
        with asked(daemon, found, "cold start"):
            daemon.wait_log("first complete picture", 60)
            daemon.wait_ready()
        with asked(daemon, found, "all listed again"):
            relist(bed, daemon)
        with asked(daemon, found, "switch restarted"):
            switch.restart()
            daemon.wait_connected(2)
        daemon.restart(hard=True)
        with asked(daemon, found, "own restart"):
            daemon.wait_ready()


def responsiveness(table, bed, runs=3):
    """How long the control socket waits meanwhile."""
    found = {}
    for _ in range(runs):
        upheavals(bed, found)
    for what, all_ms in found.items():
        worst = [max(ms) for ms in all_ms]
        table.figure("control socket, %s: p99" % what,
                     median([quantile(ms, 0.99) for ms in all_ms]), "ms")
        table.figure("control socket, %s: max" % what, max(worst), "ms",
                     MAX_ANSWER_MS, spread(worst, 1))


def run(table, options):
    """The sub-benchmark."""
    table.title("cold: a cold start against ovs-ofctl bundle")
    for n_services in SIZES:
        with Bed(n_services, options.seed, mix=options.mix) as bed:
            measure(table, bed)
            if n_services == SIZES[-1]:
                responsiveness(table, bed)
