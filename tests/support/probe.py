# SPDX-License-Identifier: Apache-2.0
"""Drives tests/tools/of-probe.c: the flow table and the OpenFlow connection
without a cluster."""
import json
import os
import pathlib
import select
import subprocess

from support import proc

MAGIC = 0xf9 << 56 | 1 << 48    # Of our cookies, with the layout version.
GROUP = 0x40000000              # Of our group ids.


def program():
    """The probe's path."""
    return pathlib.Path(os.environ.get("O", "build")) / "tests" / "of-probe"


class Probe:
    """A running probe.  Its log goes to 'log'."""

    def __init__(self, target, log, deadline_ms=10000, wrapper=()):
        self.log = pathlib.Path(log)
        with open(self.log, "ab") as stderr:
            self.process = proc.start(
                *wrapper, program(), target, deadline_ms,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.quit()

    def quit(self):
        """Ends it in good order; its exit status."""
        if self.process.poll() is None:
            try:
                self.send("quit")
                self.process.stdin.close()
                self.process.wait(60)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                proc.kill(self.process)
        return self.process.returncode

    def kill(self):
        """kill -9."""
        proc.kill(self.process)

    def send(self, *lines):
        """Commands that answer nothing."""
        text = "".join(line + "\n" for line in lines)
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def ask(self, command, timeout=120):
        """A command that answers; the answer."""
        self.send(command)
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise AssertionError("of-probe did not answer %s\n%s"
                                 % (command, self.dump()))
        return json.loads(line)

    def dump(self):
        """For failure messages."""
        return self.log.read_text(errors="replace")[-4000:]

    # What it can be told.

    def want(self, owner, flows=(), groups=(), rank=0):
        """All that an owner wants, as ovs-ofctl's text."""
        self.send("want %d %d" % (owner, rank),
                  *("group " + g for g in groups),
                  *("flow " + f for f in flows), "end")

    def sync(self, timeout_ms=20000):
        """Sends what is dirty and waits until nothing is; how long it took,
        in ms."""
        self.send("flush")
        answer = self.ask("wait-sync %d" % timeout_ms)
        assert answer["done"], (self.state(), self.set_aside(), self.dump())
        return answer["ms"]

    def is_in_sync(self, timeout_ms=0):
        """Whether nothing is to be done, after at most this wait."""
        return self.ask("wait-sync %d" % timeout_ms)["done"]

    def wait_up(self, timeout_ms=20000):
        """Waits until the switch has been dumped."""
        answer = self.ask("wait-up %d" % timeout_ms)
        assert answer["done"], (self.state(), self.dump())

    def state(self):
        """Counters."""
        return self.ask("state")

    def set_aside(self):
        """The owners that are set aside."""
        return self.ask("set-aside")

    def packets(self):
        """The packets that came in."""
        return self.ask("pop")


def cookie(owner):
    """The cookie of an owner's flows."""
    return MAGIC | 3 << 40 | owner


def group_id(owner, leaf=0):
    """An owner's group."""
    return GROUP | owner << 9 | leaf


def service(owner, n_endpoints=3, name_group=True):
    """(flows, groups) of something like a Service: one flow, one group."""
    buckets = ",".join(
        "bucket=bucket_id:%d,weight:100,actions=ct(commit,table=20,zone=65520,"
        "nat(dst=%s:8080),exec(set_field:0x10/0x10->ct_mark))"
        % (i, endpoint(owner, i)) for i in range(n_endpoints))
    group = "group_id=%d,type=select,selection_method=hash," \
        "fields(ip_src,ip_dst,tcp_src,tcp_dst),%s" % (group_id(owner), buckets)
    flow = "table=12,priority=200,cookie=0x%x,tcp,nw_dst=%s,tp_dst=80," \
        "actions=set_field:0x%x->reg5,%s" % (
            cookie(owner), vip(owner), owner,
            "group:%d" % group_id(owner) if name_group else "drop")
    return [flow], [group]


def vip(owner):
    """The address of service(owner)."""
    return "10.96.%d.%d" % (owner >> 8 & 255, owner & 255)


def endpoint(owner, index):
    """The address of an endpoint of service(owner)."""
    number = owner * 16 + index
    return "10.%d.%d.%d" % (128 + (number >> 16 & 63), number >> 8 & 255,
                            number & 255)
