# SPDX-License-Identifier: Apache-2.0
"""ovsdb-probe, which runs the ovsdb module alone, and the fixtures of its
tests."""
import json
import os
import pathlib
import shlex
import subprocess
import threading

import pytest

from . import proc
from .ovs import PrivateSwitch
from .wait import tail, wait_for

PROBE = pathlib.Path(os.environ.get("O", "build")) / "tests/ovsdb-probe"
WRAPPER = shlex.split(os.environ.get("TEST_WRAPPER", ""))
TABLES = ["0:PipelineRootClassifier", "3:Classifier", "12:ServiceLB",
          "31:Output"]


class Probe:
    """A running ovsdb-probe; .state is its latest snapshot."""

    def __init__(self, switch, directory, gateway="gw0", ofport=32769,
                 datapath=None, tables=TABLES, tunnel=""):
        self.log = directory / "ovsdb-probe.log"
        self.states = []
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = proc.start(
                *WRAPPER, PROBE, switch.db, switch.bridge,
                datapath or switch.datapath, gateway,
                str(ofport), "1", tunnel, *tables, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.states.append(json.loads(line))

    @property
    def state(self):
        """The latest snapshot."""
        return self.states[-1] if self.states else {}

    @property
    def pods(self):
        """Interface name to (ofport, MAC, addresses)."""
        return {p["iface"]: (p["ofport"], p["mac"], p["ips"])
                for p in self.state.get("pods", [])}

    def tell(self, line):
        """A command of ovsdb-probe's."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def wait(self, condition, what, timeout=5):
        """Waits until condition(snapshot) is true; returns the snapshot."""
        wait_for(lambda: self.states and condition(self.state), timeout, what,
                 self)
        return self.state

    def ready(self):
        """Waits for the bridge and the gateway with their final values."""
        return self.wait(lambda s: s["bridge_ok"] and s["gateway_ofport"],
                         "bridge and gateway")

    def wait_pods(self, want):
        """Waits for {interface: [addresses]}."""
        self.wait(lambda s: {p["iface"]: p["ips"] for p in s["pods"]} == want,
                  "pods %s" % want)

    def log_lines(self, text):
        """The module's log lines with a text."""
        lines = self.log.read_text().splitlines()
        return [line for line in (line.partition("|ovsdb|")[2]
                                  for line in lines) if text in line]

    def wait_log(self, text):
        """Waits for a log line with a text; returns it."""
        return wait_for(lambda: self.log_lines(text), 5, text, self)[0]

    def dump(self):
        """For failure messages."""
        return "%s\n%s" % (self.state, tail(self.log))

    def stop(self):
        """Ends it; a sanitizer's or valgrind's complaint is a failure."""
        self.process.stdin.close()
        status = self.process.wait(30)
        self._reader.join()
        self.process.stdout.close()
        assert status == 0, self.dump()


@pytest.fixture(name="switch")
def fixture_switch(tmp_path):
    """A switch without bridges."""
    with PrivateSwitch(tmp_path / "ovs", dummy=True) as ovs:
        yield ovs


@pytest.fixture(name="start")
def fixture_start(switch, tmp_path):
    """Starts probes; keyword arguments as Probe's."""
    probes = []

    def start_one(**more):
        probes.append(Probe(switch, tmp_path, **more))
        return probes[-1]

    yield start_one
    for probe in probes:
        if probe.process.returncode is None:
            probe.stop()


def transact(switch, *operations):
    """The results of a raw transaction."""
    out = json.loads(proc.output(
        "ovsdb-client", "transact", switch.db,
        json.dumps(["Open_vSwitch", *operations])))
    assert not [r for r in out if "error" in r], out
    return out
