# SPDX-License-Identifier: Apache-2.0
"""The table that a benchmark prints, and the numbers in it."""
import os
import pathlib
import platform
import statistics
import sys

from support import daemon, proc


def median(values):
    """The median of a list."""
    return statistics.median(values)


def quantile(values, q):
    """The smallest value that the share q of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def spread(values, digits=2):
    """How far the runs of a measurement are apart, as a note."""
    return "%d runs, %.*f to %.*f" % (len(values), digits, min(values),
                                      digits, max(values))


class Table:
    """Prints each figure as soon as it is known."""

    def __init__(self, stream=sys.stdout):
        self._stream = stream
        self.n_goals = 0
        self.missed = []

    def _print(self, line=""):
        print(line.rstrip(), file=self._stream, flush=True)

    def versions(self, seed):
        """What the figures depend on."""
        model = [line.split(":", 1)[1].strip()
                 for line in pathlib.Path("/proc/cpuinfo").read_text()
                 .splitlines() if line.startswith("model name")]
        vswitchd = proc.output("ovs-vswitchd", "--version").splitlines()[0]
        self._print("%s, %s" % (
            proc.output(daemon.binary(), "--version").strip(), vswitchd))
        self._print("Linux %s, %d cores (%s), load %.1f, seed %d" % (
            platform.release(), os.cpu_count(),
            model[0] if model else platform.machine(), os.getloadavg()[0],
            seed))

    def title(self, text):
        """The heading of a sub-benchmark."""
        self._print()
        self._print(text)

    def text(self, text):
        """What another program has printed."""
        for line in text.splitlines():
            self._print("  " + line)

    def figure(self, name, value, unit, goal=None, note=""):
        """A figure; with a goal, whether it is at most that."""
        verdict = ""
        if goal is not None:
            self.n_goals += 1
            met = value <= goal
            verdict = "%s %g, %s" % ("<=" if goal else "=", goal,
                                     "ok" if met else "MISSED")
            if not met:
                self.missed.append(name)
        self._print("  %-46s %9.2f %-9s %-16s %s" % (name, value, unit,
                                                     verdict, note))

    def summary(self):
        """The last lines."""
        self._print()
        self._print("%d of %d goals met, load %.1f" % (
            self.n_goals - len(self.missed), self.n_goals,
            os.getloadavg()[0]))
        for name in self.missed:
            self._print("missed: " + name)
