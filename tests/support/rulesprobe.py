# SPDX-License-Identifier: Apache-2.0
"""rules-probe, the host's packet rules without the rest of the daemon."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import threading
import time

from support import proc
from support.wait import tail, wait_for

O = pathlib.Path(os.environ.get("O", "build")).resolve()
PROBE = O / "tests/rules-probe"
NETFAULT = O / "tests/netfault.so"
WRAPPER = shlex.split(os.environ.get("TEST_WRAPPER", ""))
SLOWER = 10 if WRAPPER else 1
HEALED = 1 * SLOWER             # Seconds in which a repair is done.
TABLE = "ofproxyd"
BASIC = ["gateway gw0", "gateway-ip 10.10.1.1",
         "gateway-ip 2001:db8:10:1::1", "virtual-ip 169.254.0.253",
         "virtual-ip fc01::aabb:ccdd:eeff", "transport 192.0.2.1",
         "transport 2001:db8::1", "pod-cidr 10.10.1.0/24",
         "pod-cidr 2001:db8:10:1::/64", "masquerade 1", "complete 1",
         "notrack 6081", "add pods 10.10.1.0/24", "add pods 10.10.2.0/24",
         "add pods 2001:db8:10:1::/64", "add pods 2001:db8:10:2::/64",
         "add nodes 192.0.2.2/32", "add nodes 2001:db8::2/128"]


class RulesProbe:
    """A running rules-probe."""

    def __init__(self, ns, directory, before=(), **environment):
        self.ns = ns
        self.log = directory / "rules-probe.log"
        self.lines = []
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = proc.start(
                *before, *WRAPPER, PROBE, netns=ns.name, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=dict(os.environ, **environment))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def send(self, *lines):
        """Sends commands."""
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def ask(self, command):
        """What a command prints."""
        n = len(self.lines)
        self.send(command)
        wait_for(lambda: "." in self.lines[n:], 10 * SLOWER, command,
                 lambda: tail(self.log))
        return [l for l in self.lines[n:self.lines.index(".", n)]
                if not re.match("in-sync|out-of-sync", l)]

    def set(self, *lines, sync=True):
        """Sends commands and "set"; waits until all is there."""
        self.send(*lines, "set")
        if sync:
            self.wait_sync()

    def in_sync(self):
        """Whether all is there."""
        return self.ask("state")[0] == "in sync"

    def wait_sync(self, timeout=10 * SLOWER):
        """Waits until all is there."""
        wait_for(self.in_sync, timeout, "in sync", self)

    def number(self, pattern):
        """The number in the state that a pattern has as its group."""
        return int(re.search(pattern, "\n".join(self.ask("state")))[1])

    def took(self):
        """Milliseconds of CPU that it took since it was asked last."""
        return float(self.ask("took")[0].split()[1])

    def memory(self):
        """Its anonymous memory in KiB."""
        return int(self.ask("memory")[0].split()[1])

    def log_lines(self, text):
        """The log lines with a text."""
        return [line for line in self.log.read_text().splitlines()
                if text in line]

    def wait_log(self, text):
        """Waits for a log line; returns it."""
        return wait_for(lambda: self.log_lines(text), 10 * SLOWER, text,
                        self)[0]

    def dump(self):
        """For failure messages."""
        return tail(self.log)

    def stop(self):
        """Ends it; a sanitizer's or valgrind's complaint is a failure."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
            status = self.process.wait(30)
            self._reader.join()
            self.process.stdout.close()
            assert status == 0, tail(self.log)


def listing(ns, *what):
    """The rules as nft prints them, without handles and counters' values."""
    text = ns.run("nft", "list", *(what or ("table", "inet", TABLE)),
                  check=False).stdout
    return re.sub(r"packets \d+ bytes \d+", "", text)


def members(ns, name):
    """The members of one of our sets, as text, sorted."""
    reply = ns.run("nft", "-j", "list", "set", "inet", TABLE, name,
                   check=False)
    if reply.returncode:
        return None
    one = next(x["set"] for x in json.loads(reply.stdout)["nftables"]
               if "set" in x)
    return sorted(e if isinstance(e, str) else
                  "%s/%s" % (e["prefix"]["addr"], e["prefix"]["len"])
                  if "prefix" in e else " . ".join(map(str, e["concat"]))
                  for e in one.get("elem", []))


def wait_healed(probe, ns, wanted, what=()):
    """Waits until the listing is as wanted; the seconds that it took."""
    start = time.monotonic()
    wait_for(lambda: listing(ns, *what) == wanted, HEALED, "the repair",
             lambda: listing(ns, "ruleset") + probe.dump())
    return time.monotonic() - start
