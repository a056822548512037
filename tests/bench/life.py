# SPDX-License-Identifier: Apache-2.0
"""What the daemon needs over its life: memory, and what a restart costs."""
import random
import time

from bed import N_ENDPOINTS, Bed, Churn, switch_rss_mib
from changes import LARGE, check
from figures import median, spread
from support.wait import wait_for

MIB = 1024                      # KiB.
SETTLED = 10                    # Seconds.
STEADY = 3                      # Seconds after which a broken connection is
                                # no reason to wait before the next.
MAX_EMPTY_MB = 10
MAX_LARGE_MB = 60


def _memory(table, daemon, what, goal=None):
    """Prints resident memory."""
    table.figure(what, daemon.rss_kib() / MIB, "MiB", goal,
                 "%.1f MiB without the program and its libraries"
                 % (daemon.anonymous_kib() / MIB))


def _empty(table, options):
    """Without any Service."""
    with Bed(1, options.seed, mix=options.mix) as bed:
        _delete(bed, 1)
        with bed.synced() as (_, daemon):
            time.sleep(1)
            _memory(table, daemon, "no Service", MAX_EMPTY_MB)


def run_memory(table, options):
    """The sub-benchmark."""
    table.title("memory: resident, %d Services of %d endpoints"
                % (LARGE, N_ENDPOINTS))
    _empty(table, options)
    with Bed(LARGE, options.seed, mix=options.mix) as bed, \
            bed.synced() as (switch, daemon):
        _memory(table, daemon, "after a cold start", MAX_LARGE_MB)
        time.sleep(SETTLED)
        _memory(table, daemon, "%d s later" % SETTLED, MAX_LARGE_MB)
        table.figure("ovs-vswitchd", switch_rss_mib(switch), "MiB")
        churn = Churn(bed, random.Random(options.seed))
        before = bed.n_events(daemon)
        for _ in range(1000):
            churn.apply(10)
        bed.wait_read(daemon, before + churn.n)
        _memory(table, daemon, "after %d changes" % churn.n, MAX_LARGE_MB)
        table.figure("at most, so far", daemon.peak_kib() / MIB, "MiB",
                     MAX_LARGE_MB)
        check(bed, churn, switch, daemon)
        _delete(bed, 100)
        wait_for(lambda: "objects: 0 Services, 0 EndpointSlices"
                 in daemon.sync(), 60, "the end of all objects", daemon)
        daemon.wait_ready()
        time.sleep(1)
        _memory(table, daemon, "after the end of all Services")


def _delete(bed, at_once):
    """Deletes all objects but the Node."""
    gone = [["delete", obj["kind"], obj["metadata"]["namespace"],
             obj["metadata"]["name"]] for obj in bed.objects[1:]]
    for at in range(0, len(gone), at_once):
        bed.api.changes(gone[at:at + at_once])


def run_restart(table, options):
    """The sub-benchmark."""
    runs = 5
    table.title("restart: kill -9 and start, nothing has changed, %d Services "
                "of %d endpoints" % (LARGE, N_ENDPOINTS))
    with Bed(LARGE, options.seed, mix=options.mix) as bed, \
            bed.synced() as (switch, daemon):
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
            time.sleep(STEADY)
            n = daemon.n_connects()
            switch.kill_vswitchd()
            start = time.monotonic()
            switch.start_vswitchd()
            daemon.wait_connected(n + 1)
            seconds.append(time.monotonic() - start)
        assert switch.state() == before
        table.figure("start of ovs-vswitchd to in sync", median(seconds), "s",
                     note=spread(seconds))
