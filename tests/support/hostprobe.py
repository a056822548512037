# SPDX-License-Identifier: Apache-2.0
"""host-probe, which runs the host layer alone, and what a namespace has of
what the layer keeps."""
import contextlib
import itertools
import os
import pathlib
import re
import shlex
import signal
import subprocess
import threading
import time

from support import proc
from support.wait import tail, wait_for

PROBE = pathlib.Path(os.environ.get("O", "build")).resolve() \
    / "tests/host-probe"
WRAPPER = shlex.split(os.environ.get("TEST_WRAPPER", ""))
SOON = 10 if WRAPPER else 1         # Seconds in which a repair is done.
VIA, VIA6 = "169.254.0.253", "fc01::aabb:ccdd:eeff"
MAC = "aa:bb:cc:dd:ee:ff"
BASIC = ["gateway gw0", "ready 1", "complete 1", "addr 10.10.0.1/24",
         "addr fd00:10::1/64", "route 10.96.0.0/12 %s 10.10.0.1" % VIA,
         "route fd96::/108 %s fd00:10::1" % VIA6, "route 203.0.113.10/32 %s ::"
         % VIA, "neigh %s %s" % (VIA, MAC), "neigh %s %s" % (VIA6, MAC)]
MARKED = ["marked " + VIA, "marked " + VIA6]
TABLE = "2010201"                   # Of marked packets.


class Probe:
    """A running host-probe."""

    def __init__(self, ns, directory, before=()):
        self.log = directory / "host-probe.log"
        self.lines = []
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = proc.start(
                *before, *WRAPPER, PROBE, netns=ns.name, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def send(self, *lines):
        """Sends commands."""
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def set(self, *lines, sync=True):
        """Sends commands and "set"; waits until all is there."""
        n = len(self.lines)
        self.send(*lines, "set")

        def answers():          # What came before it is of something else.
            return itertools.dropwhile(lambda l: not l.startswith("set"),
                                       self.lines[n:])
        wait_for(lambda: any(answers()), 5 * SOON, "the answer", self)
        if sync:
            wait_for(lambda: any(l.startswith("in-sync") for l in answers()),
                     5 * SOON, "in-sync", self)
            return self.last("in-sync")
        return None

    @contextlib.contextmanager
    def paused(self):
        """It does nothing meanwhile."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def last(self, word):
        """The number in the last line that begins with a word."""
        line = [l for l in self.lines if l.startswith(word + " ")][-1]
        return float(line.split()[1])

    def other(self, command):
        """What a command prints up to its "."."""
        n = len(self.lines)
        self.send(command)
        wait_for(lambda: "." in self.lines[n:], 5, "the answer",
                 lambda: tail(self.log))
        return self.lines[n:n + self.lines[n:].index(".")]

    def state(self):
        """host_format_state()."""
        return "\n".join(self.other("state"))

    def log_lines(self, text):
        """The log lines with a text."""
        return [line for line in self.log.read_text().splitlines()
                if text in line]

    def wait_log(self, text):
        """Waits for a log line; returns it."""
        return wait_for(lambda: self.log_lines(text), 5, text, self)[0]

    def dump(self):
        """For failure messages."""
        state = self.state() if self.process.poll() is None else "ended"
        return "%s\n%s" % (state, tail(self.log))

    def stop(self):
        """Ends it; a sanitizer's or valgrind's complaint is a failure."""
        self.process.stdin.close()
        status = self.process.wait(30)
        self._reader.join()
        self.process.stdout.close()
        assert status == 0, tail(self.log)


class Monitor:
    """ip-monitor(8) of a namespace."""

    MARK = "198.51.100.99"

    def __init__(self, ns, path, *objects):
        self.ns, self.path = ns, path
        with open(path, "wb") as stdout:
            self.process = ns.start("stdbuf", "-oL", "ip", "monitor",
                                    *objects, stdout=stdout)
        self.lines()

    def lines(self):
        """All lines up to now but the marks, with which it makes sure."""
        n = self.path.read_text().count(self.MARK)

        def marked():
            self.ns.run("ip", "route", "add", self.MARK, "dev", "lo")
            self.ns.run("ip", "route", "del", self.MARK, "dev", "lo")
            return self.path.read_text().count(self.MARK) > n

        wait_for(marked, 5, "the monitor")
        return [line for line in self.path.read_text().splitlines()
                if self.MARK not in line]


def add_gateway(ns):
    """A link that plays the gateway port."""
    ns.batch("link add gw0 type veth peer name gw0p")
    ns.sysctl(net__ipv6__conf__gw0p__accept_dad=0)
    ns.ip("link", "set", "gw0p", "up")


def make_host(netns):
    """A namespace with a gateway link and another one, eth0, that has the
    default routes."""
    ns = netns.namespace("host")
    ns.batch("link add eth0 type veth peer name eth0p")
    ns.sysctl(net__ipv6__conf__eth0__accept_dad=0,
              net__ipv6__conf__eth0p__accept_dad=0)
    ns.batch("link set eth0p up", "link set eth0 up",
             "addr add 192.0.2.5/24 dev eth0",
             "addr add 2001:db8::5/64 dev eth0 nodad",
             "route add default via 192.0.2.1 dev eth0",
             "route add default via 2001:db8::1 dev eth0")
    add_gateway(ns)
    return ns


def routes(ns, *args):
    """Sorted routes of the main table without what comes and goes."""
    lines = [line for family in ("-4", "-6")
             for line in ns.ip(family, "route", "show", "table", "main",
                               *args).splitlines()]
    return sorted(re.sub(r" (linkdown|dead)\b", "", l).strip()
                  for l in lines if not l.startswith("fe80::"))


def addresses(ns, link="gw0"):
    """Sorted addresses of a link but the link-local ones."""
    words = [line.split() for line in
             ns.ip("-o", "addr", "show", "dev", link).splitlines()]
    return sorted(w[3] for w in words if not w[3].startswith("fe80::"))


def neighbours(ns):
    """Sorted permanent neighbours."""
    return sorted(line.strip() for line in ns.ip(
        "neigh", "show", "nud", "permanent").splitlines())


def rules(ns):
    """All routing rules but the kernel's own."""
    return sorted(line for family in ("-4", "-6")
                  for line in ns.ip("-N", family, "rule",
                                    "show").splitlines()
                  if not re.match("(0|32766|32767):", line))


def marked(ns):
    """The routes of marked packets."""
    text = "".join(ns.run("ip", "-N", family, "route", "show", "table", TABLE,
                          check=False).stdout for family in ("-4", "-6"))
    return sorted(re.sub(r" (linkdown|dead)\b", "", line).strip()
                  for line in text.splitlines())


def everything(ns):
    """What the layer keeps, and what it must not touch."""
    return {"routes": routes(ns), "addresses": addresses(ns),
            "neighbours": neighbours(ns), "rules": rules(ns),
            "marked": marked(ns),
            "up": "UP" in re.search("<(.*)>", ns.ip("link", "show",
                                                    "gw0"))[1].split(",")}


def ours(ns):
    """The destinations of our routes."""
    return sorted(line.split()[0] for line in routes(ns)
                  if " proto 201 " in line)


def sysctl(ns, name):
    """A kernel setting."""
    return ns.run("sysctl", "-n", name).stdout.strip()


def wait_everything(ns, want, probe, timeout=SOON):
    """Waits until everything is as before."""
    begin = time.monotonic()
    wait_for(lambda: everything(ns) == want, timeout, "everything back",
             lambda: "%s\nwanted %s\n%s" % (everything(ns), want,
                                            probe.dump()))
    return time.monotonic() - begin
