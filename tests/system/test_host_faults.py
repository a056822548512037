# SPDX-License-Identifier: Apache-2.0
"""One talk with the kernel fails, each in its turn: the host layer tries
again and ends with the same as without a failure."""
import errno
import os
import pathlib
import time

import pytest

from support.hostprobe import (BASIC, MARKED, SOON, TABLE, VIA, WRAPPER, Probe,
                               everything, make_host)
from support.wait import wait_for

NETFAULT = pathlib.Path(os.environ.get("O", "build")).resolve() \
    / "tests/netfault.so"
PEERS = ["peer 10.10.2.0/24 192.0.2.9", "peer fd00:10:2::/64 2001:db8::9",
         "peer 10.10.3.0/24 192.0.2.10"]
FIND = ["find ip 192.0.2.5", "find ip 2001:db8::5", "find set"]
AT_ONCE = 25
PATIENCE = 10 * SOON + 30           # Seconds; waits grow from 1 s.


class Run:
    """A namespace and a probe that fails at one place."""

    def __init__(self, netns, directory, at, count=1, **how):
        directory.mkdir()
        self.at, self.log = at, directory / "fault"
        self.ns = make_host(netns)
        settings = {"NETFAULT_AT": at, "NETFAULT_COUNT": count,
                    "NETFAULT_LOG": self.log, "LD_PRELOAD": NETFAULT, **how}
        self.probe = Probe(self.ns, directory, before=[
            "env", *("%s=%s" % pair for pair in settings.items())])

    def failed(self):
        """What has failed."""
        return self.log.read_text() if self.log.exists() else ""

    def what(self):
        """For messages."""
        return "failing at %d: %s\n%s\n%s" % (
            self.at, self.failed(), everything(self.ns), self.probe.dump())

    def uplink(self):
        """The last state of the uplink."""
        found = [l.split()[1:5] for l in self.probe.lines
                 if l.startswith("uplink ")]
        return found[-1] if found else None


def do_together(runs, action, want):
    """Does something to all of them, then waits for what is wanted of each:
    the dictionary of everything."""
    for run in runs:
        action(run)
    for run in runs:
        wait_for(lambda run=run: everything(run.ns) == want["host"]
                 and run.uplink() == want["uplink"], PATIENCE,
                 "the same as without a failure", run.what)
        wait_for(lambda run=run: run.probe.state().startswith("in sync"),
                 PATIENCE, "in sync", run.what)


def set_all(run):
    """The first wish."""
    run.probe.send(*BASIC, *PEERS, *FIND, *MARKED, "set")


def change(run):
    """Another one: something goes, comes and moves."""
    run.probe.send("clear", *BASIC[3:5], BASIC[6], *BASIC[8:], PEERS[1],
                   "peer 10.10.2.0/24 192.0.2.11",
                   "route 10.10.3.0/24 %s ::" % VIA, MARKED[0], "set")


def flush(run):
    """A foreign hand."""
    run.ns.batch("addr flush dev gw0", "route flush proto 201",
                 "neigh flush dev gw0 nud permanent",
                 "rule flush table " + TABLE, "route flush table " + TABLE,
                 "link set eth0 mtu 1400")


STEPS = [set_all, change, flush]


@pytest.fixture
def wanted(netns, tmp_path):
    """What there is after each step without a failure."""
    run = Run(netns, tmp_path / "clean", 0)
    result = []
    for step in STEPS:
        step(run)
        run.probe.send("set")
        wait_for(lambda: run.uplink()
                 and run.uplink()[1] == ("1400" if step is flush else "1500"),
                 PATIENCE, "the uplink", run.what)
        wait_for(lambda: run.probe.state().startswith("in sync"), PATIENCE,
                 "in sync", run.what)
        result.append({"host": everything(run.ns), "uplink": run.uplink()})
    run.probe.stop()
    run.ns.close()
    assert not run.failed()
    assert len(result[0]["host"]["routes"]) \
        > len(result[1]["host"]["routes"]) > 8
    return result


@pytest.mark.parametrize("how,number,count", [
    ("send", errno.ENOBUFS, 1), ("refuse", 0, 1),
    ("receive", errno.ENOBUFS, 1), ("receive", errno.EINTR, 2),
    ("send", errno.EPERM, 2)])
def test_failure_at_any_step_is_retried_and_ends_equal(
        netns, tmp_path, wanted, how, number, count):
    """Until a run has nothing left that could fail."""
    begin, at, done = time.monotonic(), 1, False
    while not done:
        runs = []
        try:
            for _ in range(AT_ONCE):
                runs.append(Run(netns, tmp_path / str(at), at, count,
                                NETFAULT_HOW=how, NETFAULT_ERRNO=number))
                at += 1
            for step, want in zip(STEPS, wanted):
                do_together(runs, step, want)
            done = not all(run.failed() for run in runs)
        finally:
            for run in runs:
                if run.probe.process.poll() is None:
                    run.probe.stop()
                run.ns.close()
    n = at - 1 - sum(not run.failed() for run in runs)
    print("%s: %d places, %.1f s" % (how, n, time.monotonic() - begin))
    assert n > 40


@pytest.mark.skipif(bool(WRAPPER), reason="takes too long")
def test_kernel_that_refuses_for_long_is_asked_less_and_less(netns, tmp_path,
                                                             wanted):
    """And all is well when it has come to its senses."""
    run = Run(netns, tmp_path / "long", 20, 24, NETFAULT_HOW="refuse")
    try:
        set_all(run)
        wait_for(lambda: run.failed().count("refuse") == 24
                 and everything(run.ns) == wanted[0]["host"], 120,
                 "the end of the failures", run.what)
        run.probe.stop()
        assert run.probe.last("cpu") < 300
        assert len(run.probe.log_lines("WARN")) < 30
    finally:
        if run.probe.process.poll() is None:
            run.probe.stop()
        run.ns.close()


def cleanup_failing_at(ns, directory, at, how):
    """The lines of a clean-up, and whether something failed in it."""
    log = directory / ("fault%d" % at)
    probe = Probe(ns, directory, before=[
        "env", "LD_PRELOAD=%s" % NETFAULT, "NETFAULT_AT=%d" % at,
        "NETFAULT_HOW=" + how, "NETFAULT_LOG=%s" % log])
    probe.send("gateway gw0")
    lines = probe.other("cleanup")
    probe.stop()
    return lines, log.exists()


@pytest.mark.parametrize("how", ["send", "refuse", "receive"])
def test_cleanup_that_fails_says_so_and_ends_at_the_second_try(netns,
                                                               tmp_path, how):
    """What can't be removed stops nothing else."""
    ns = make_host(netns)
    before = everything(ns)
    maker = Probe(ns, tmp_path)
    at, failed = 0, True
    while failed:
        at += 1
        maker.set("clear", *BASIC, *PEERS, *MARKED)
        with maker.paused():
            lines, failed = cleanup_failing_at(ns, tmp_path, at, how)
            assert (lines[-1] == "ok") != failed, lines
            if failed:
                assert lines[-1].startswith("error ")
                assert len(lines) > 4
                lines, _ = cleanup_failing_at(ns, tmp_path, 0, how)
                assert lines[-1] == "ok"
            after = everything(ns)
            assert after["addresses"] == after["neighbours"] == []
            assert after["rules"] == after["marked"] == []
            assert not [r for r in after["routes"] if "proto 201" in r]
    print("%s: %d places" % (how, at - 1))
    assert at > 15
    maker.stop()
    assert cleanup_failing_at(ns, tmp_path, 0, how)[0][-1] == "ok"
    assert everything(ns)["routes"] == before["routes"]
