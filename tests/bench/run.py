#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what ofproxyd costs, as goals and ratios.

    tests/bench/run.py [--strict] [--seed N] [--realtime] [NAME...]

Needs root (network namespaces) and a built daemon in $O.  docs/performance.md
says what the figures mean."""
import argparse
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

# pylint: disable=wrong-import-position
import affinity                 # noqa: E402
import between                  # noqa: E402
import changes                  # noqa: E402
import clusters                 # noqa: E402
import cold                     # noqa: E402
import connect                  # noqa: E402
import life                     # noqa: E402
import lookup                   # noqa: E402
import nodes                    # noqa: E402
import notrack                  # noqa: E402
import parts                    # noqa: E402
import takeover                 # noqa: E402
from figures import Table       # noqa: E402

BENCHMARKS = {
    "affinity": affinity.run,
    "cold": cold.run, "latency": changes.run_latency,
    "sustained": changes.run_sustained, "flat": changes.run_flat,
    "memory": life.run_memory, "restart": life.run_restart,
    "connect": connect.run, "takeover": takeover.run,
    "between": between.run, "nodes": nodes.run, "clusters": clusters.run,
    "notrack": notrack.run,
    "lookup": lookup.run, "parts": parts.run}

# Those of which Services matter.
MIXED = ("cold", "latency", "flat", "memory", "restart")


def run_mix(table, options):
    """All that MIXED names, with all kinds of Services."""
    options = argparse.Namespace(**{**vars(options), "mix": True})
    table.title("mix: dual stack, 10 % node ports, 10 % load balancers, 10 % "
                "affinity, 5 % policy Local; proxyAll")
    for name in MIXED:
        BENCHMARKS[name](table, options)


BENCHMARKS["mix"] = run_mix


def main():
    """Runs the benchmarks that were asked for; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="of " + ", ".join(BENCHMARKS) + "; all if none")
    parser.add_argument("--strict", action="store_true",
                        help="exit with 1 if a goal is missed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mix", action="store_true",
                        help="with all kinds of Services: "
                        + ", ".join(MIXED))
    parser.add_argument("--realtime", action="store_true",
                        help="go before all other processes: as if nobody "
                        "else used the machine")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error("no such benchmark: " + ", ".join(sorted(unknown)))

    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    table = Table()
    table.versions(options.seed)
    for name in options.names or BENCHMARKS:
        BENCHMARKS[name](table, options)
    table.summary()
    return 1 if options.strict and table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
