# SPDX-License-Identifier: Apache-2.0
"""What the daemon needs over its life: memory, and what a restart costs."""
import random
import time

from bed import N_ENDPOINTS, POLL, Bed, Churn, number_in, switch_rss_mib
from changes import LARGE, check
from figures import median, spread

MIB = 1024                      # KiB.
SETTLED = 10                    # Seconds.
MAX_EMPTY_MB = 10
MAX_LARGE_MB = 60


def _memory(table, daemon, what, goals=(None, None)):
    """Prints resident memory, now and at most so far."""
    table.figure(what, daemon.rss_kib() / MIB, "MiB", goals[0],
                 "%.1f MiB without the program and its libraries"
                 % (daemon.anonymous_kib() / MIB))
    table.figure(what + ", peak so far", daemon.peak_kib() / MIB, "MiB",
                 goals[1])


def run_memory(table, options):
    """The sub-benchmark."""
    table.title("memory: resident, %d Services of %d endpoints"
                % (LARGE, N_ENDPOINTS))
    with Bed(1, options.seed) as bed:
        for obj in bed.objects[1:]:
            bed.api.delete(obj["kind"], obj["metadata"]["namespace"],
                           obj["metadata"]["name"])
        with bed.synced() as (_, daemon):
            time.sleep(1)
            _memory(table, daemon, "no Service", (MAX_EMPTY_MB,
                                                  MAX_EMPTY_MB))
    with Bed(LARGE, options.seed) as bed, bed.synced() as (switch, daemon):
        _memory(table, daemon, "cold start", (MAX_LARGE_MB, MAX_LARGE_MB))
        time.sleep(SETTLED)
        _memory(table, daemon, "%d s later" % SETTLED, (MAX_LARGE_MB,
                                                        MAX_LARGE_MB))
        table.figure("ovs-vswitchd", switch_rss_mib(switch), "MiB")
        churn = Churn(bed, random.Random(options.seed))
        before = bed.n_events(daemon)
        for _ in range(1000):
            churn.apply(10)
        bed.wait_read(daemon, before + churn.n)
        check(churn, switch)
        _memory(table, daemon, "after %d changes" % churn.n,
                (MAX_LARGE_MB, MAX_LARGE_MB))
        _delete_all(bed, daemon)
        time.sleep(1)
        _memory(table, daemon, "after the end of all Services")


def _delete_all(bed, daemon):
    """Deletes all but the Node; waits until nothing is left of it."""
    gone = [["delete", obj["kind"], obj["metadata"]["namespace"],
             obj["metadata"]["name"]] for obj in bed.objects[1:]]
    for at in range(0, len(gone), 100):
        bed.api.changes(gone[at:at + 100])
    end = time.monotonic() + 60
    while "objects: 0 Services, 0 EndpointSlices" not in daemon.sync():
        assert time.monotonic() < end, daemon.dump()
        time.sleep(0.1)
    daemon.wait_ready()


def run_restart(table, options):
    """The sub-benchmark."""
    runs = 5
    table.title("restart: kill -9 and start, nothing has changed, %d Services "
                "of %d endpoints" % (LARGE, N_ENDPOINTS))
    with Bed(LARGE, options.seed) as bed, bed.synced() as (switch, daemon):
        before = switch.state()
        seconds, sent = [], []
        for _ in range(runs):
            daemon.kill()
            start = time.monotonic()
            daemon.start().wait_ready()
            seconds.append(time.monotonic() - start)
            sent.append(daemon.sent())
        assert switch.state() == before
        table.figure("modifications sent", max(sent), "", 0)
        table.figure("start to in sync, lists included", median(seconds), "s",
                     note=spread(seconds))
        seconds = []
        for _ in range(runs):
            n = n_connects(daemon)
            switch.kill_vswitchd()
            start = time.monotonic()
            switch.start_vswitchd()
            while n_connects(daemon) == n:
                time.sleep(POLL)
            daemon.wait_ready()
            seconds.append(time.monotonic() - start)
        assert switch.state() == before
        table.figure("start of ovs-vswitchd to in sync", median(seconds), "s",
                     note=spread(seconds))


def n_connects(daemon):
    """How often it has found its switch."""
    return int(number_in(daemon.sync(), r"(\d+) connects"))
