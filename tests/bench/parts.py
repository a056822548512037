# SPDX-License-Identifier: Apache-2.0
"""The cost of single layers, measured by programs of their own."""
from support import daemon, proc

PROGRAMS = ("bench-decode", "bench-flowtab", "bench-mc")


def run(table, _options):
    """The sub-benchmark."""
    for program in PROGRAMS:
        table.title("parts: " + program)
        path = daemon.binary().parent / "tests" / program
        table.text(proc.output(path, timeout=120))
