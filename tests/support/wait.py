# SPDX-License-Identifier: Apache-2.0
"""Waiting for conditions, with a telling failure."""
import os
import pathlib
import time

FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1     # Seconds.
MOST_SLOWNESS = 20


class WaitTimeout(AssertionError):
    """The condition did not come true in time."""


def slowness():
    """How many times as long things may take as on a machine that does
    nothing else: how many want each processor, in the mean of a minute, or
    now if these are more: the mean knows of others only after a minute.

    For the most that something may take, which on an idle machine is not
    relaxed."""
    mean, _, _, now, _ = pathlib.Path("/proc/loadavg").read_text().split()
    wanted = max(float(mean), int(now.split("/")[0])) / (os.cpu_count() or 1)
    return min(max(1, wanted), MOST_SLOWNESS)


def wait_for(condition, timeout, what, dump=None):
    """Calls 'condition' until it is true; returns its value.

    After 'timeout' seconds (of an idle machine, see slowness()) raises
    WaitTimeout that names 'what', the last value, and what 'dump' (a
    function, or an object with a dump() method, such as a daemon or a
    switch) has to say."""
    begin = time.monotonic()
    pause = FIRST_PAUSE
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begin
        if waited >= timeout * slowness():
            break
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    message = "waited %.2f s for %s; last: %.2000r" % (waited, what, value)
    if dump:
        message += "\n" + (dump.dump() if hasattr(dump, "dump") else dump())
    raise WaitTimeout(message)


def tail(path, n_lines=40):
    """The end of a log file, with its name; for dump()."""
    try:
        lines = path.read_text(errors="replace").splitlines()[-n_lines:]
    except OSError as error:
        lines = [str(error)]
    return "--- %s\n%s\n" % (path, "\n".join(lines))
