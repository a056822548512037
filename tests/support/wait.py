# SPDX-License-Identifier: Apache-2.0
"""Waiting for conditions, with a telling failure."""
import time

FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1     # Seconds.


class WaitTimeout(AssertionError):
    """The condition did not come true in time."""


def wait_for(condition, timeout, what, dump=None):
    """Calls 'condition' until it is true; returns its value.

    After 'timeout' seconds raises WaitTimeout that names 'what', the last
    value, and what 'dump' (a function, or an object with a dump() method,
    such as a daemon or a switch) has to say."""
    end = time.monotonic() + timeout
    pause = FIRST_PAUSE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            break
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    message = "waited %g s for %s; last: %.2000r" % (timeout, what, value)
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
