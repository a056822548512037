# SPDX-License-Identifier: Apache-2.0
"""Drives tests/tools/kube-probe.c: the API client without a daemon."""
import os
import pathlib
import re
import shlex
import subprocess
import threading

from support import proc
from support.wait import tail, wait_for

WRAPPER = tuple(shlex.split(os.environ.get("TEST_WRAPPER", "")))
# Short, so that tests of failures are over soon.
QUICK = {"backoff_min_ms": 20, "backoff_max_ms": 200}
# Nothing listens there: it isn't to be used.
PROXY = {"http_proxy": "http://127.0.0.1:1", "all_proxy": "http://127.0.0.1:1",
         "https_proxy": "http://127.0.0.1:1"}
STATS = re.compile(r"stats (\S+) (.*?) error=(.*)$")


def program():
    """The probe's path."""
    return pathlib.Path(os.environ.get("O", "build")) / "tests" / "kube-probe"


class KubeProbe:
    """A running kube-probe; keeps what it has printed last.

    .services: {"ns/name": words}, .orphans: the same for slices without a
    Service; .nodes: {name: zone}, with "@" and each transport address behind
    the zone; .stats: {kind: {key: text}}; .published: {key: text}; .log is a
    file.  'options' are
    those of struct kube_cfg, 'wrapper' a command that runs it."""

    def __init__(self, directory, api=None, netns=None, wrapper=(),
                 **options):
        self.log = pathlib.Path(directory) / "kube-probe.log"
        self.services, self.orphans, self.nodes = {}, {}, {}
        self.stats, self.published = {}, {}
        self.synced = False
        self.counts, self.turn_us = None, None
        self._events = None
        if api is not None:
            options.setdefault("server", api.url)
            if api.ca and not {"ca_file", "ca_data"} & set(options):
                options["ca_file"] = api.ca.cert
            if api.tokens and "token_file" not in options:
                options.setdefault("token", next(iter(api.tokens)))
        options = {**QUICK, **options}
        with open(self.log, "ab") as stderr:
            self.process = proc.start(
                *wrapper, *WRAPPER, program(),
                *("%s=%s" % item for item in options.items()), netns=netns,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                text=True, env={**os.environ, **PROXY})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        status = self.close()
        if kind is None:
            assert status == 0, "exit status %s\n%s" % (status, self.dump())

    def close(self):
        """Ends it in good order; its exit status."""
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                proc.kill(self.process)
        self._reader.join()
        return self.process.returncode

    def _read(self):
        for line in self.process.stdout:
            self._line(line.rstrip("\n"))

    def _line(self, line):
        word, _, rest = line.partition(" ")
        if word == "service":
            name, *words = rest.split()
            self.services.pop(name, None)
            self.orphans.pop(name, None)
            if "absent" not in words:
                self.services[name] = words
            elif "slices=0" not in words:
                self.orphans[name] = words
        elif word == "nodes":
            self.nodes = dict(pair.split(":", 1) for pair in rest.split())
        elif word == "stats":
            kind, pairs, error = STATS.match(line).groups()
            stats = dict(pair.split("=", 1) for pair in pairs.split())
            self.stats[kind] = {**stats, "error": error}
        elif word == "published":
            pairs, _, error = rest.partition(" error=")
            self.published = {**dict(pair.split("=", 1)
                                     for pair in pairs.split()),
                              "error": error}
        elif word == "synced":
            self.synced = True
        elif word == "counts":
            self.counts = {key: int(value) for key, value in
                           (pair.split("=") for pair in rest.split())}
        elif word == "events":
            pairs, _, error = rest.partition(" error=")
            self._events = {"error": error, **{
                key: int(value) for key, value in
                (pair.split("=") for pair in pairs.split())}}
        elif word == "turn":
            self.turn_us = int(rest)

    def dump(self):
        """For the message of a failed wait."""
        return "services %s\nnodes %s\nstats %s\n%s" % (
            self.services, self.nodes, self.stats, tail(self.log))

    def wait(self, condition, what, timeout=10):
        """Waits until condition() is true; returns its value."""
        def check():
            assert self.process.poll() is None, self.dump()
            return condition()
        return wait_for(check, timeout, what, self)

    def wait_synced(self, timeout=10):
        """Until all kinds have been listed."""
        self.wait(lambda: self.synced, "all lists", timeout)
        return self

    def wait_services(self, *names, timeout=10):
        """Until exactly these Services are known, and no orphans."""
        self.wait(lambda: set(self.services) == set(names)
                  and not set(self.orphans) - set(names),
                  "the Services %s" % (names,), timeout)

    def wait_watching(self, kind="Service", timeout=10):
        """Until the kind is watched."""
        self.wait(lambda: self.stats.get(kind, {}).get("state") == "WATCH",
                  "a watch of " + kind, timeout)

    def wait_log(self, pattern, timeout=10):
        """Until the log holds the pattern; returns the match."""
        return self.wait(lambda: re.search(pattern, self.log_text()),
                         "the log line " + pattern, timeout)

    def log_text(self):
        """All of the log so far."""
        return self.log.read_text(errors="replace")

    def number(self, key, kind="Service"):
        """A counter of the latest statistics."""
        return int(self.stats.get(kind, {}).get(key, 0))

    def set_transport(self, *addresses):
        """Calls kube_set_transport()."""
        self.process.stdin.write("transport %s\n" % " ".join(addresses))
        self.process.stdin.flush()

    def emit(self, name, note, reason=0, times=1, kind="Service",
             uid="u-1"):
        """Calls events_emit() so often about the object ns/name."""
        self.process.stdin.write("emit %d %s %s %s %d %s\n" % (
            times, kind, name, uid, reason, note))
        self.process.stdin.flush()

    def event_stats(self):
        """How it went with Events: {key: number}, and "error"."""
        return self.ask("events", "_events")

    def ask(self, command, attribute):
        """Sends a command; returns the attribute that its answer sets."""
        setattr(self, attribute, None)
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.wait(lambda: getattr(self, attribute),
                         "an answer to " + command)
