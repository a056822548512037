# SPDX-License-Identifier: Apache-2.0
"""ofproxyd itself, with a configuration for a switch and an API server."""
import functools
import json
import os
import pathlib
import signal
import subprocess

from support import ovs, proc
from support.wait import tail, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
VALGRIND = ("valgrind", "-q", "--error-exitcode=9", "--leak-check=full",
            "--errors-for-leak-kinds=definite")
SLOW_FACTOR = 10                # How much valgrind slows down, at most.


def binary():
    """The program of the build directory $O (default: build)."""
    return ROOT / os.environ.get("O", "build") / "ofproxyd"


@functools.lru_cache
def can_be_confined(path):
    """Whether a daemon of this program can be confined: by root, and if it has
    no sanitizers, which need more than it does."""
    return os.geteuid() == 0 and b"__asan_init" not in path.read_bytes()


def strict_env():
    """An environment in which a daemon that makes a system call which its
    filter refuses ends at once, and says so on standard error."""
    library = binary().parent / "tests/strictcalls.so"
    return {**os.environ, "LD_PRELOAD": str(library)}


def yaml(value, indent=0):
    """Nested dicts, lists and scalars as YAML."""
    lines = []
    for key, item in value.items():
        space = " " * indent
        if isinstance(item, dict):
            lines += [space + key + ":", yaml(item, indent + 2)]
        elif isinstance(item, (list, tuple)) and item:
            lines.append(space + key + ":")
            lines += [space + "  - " + json.dumps(entry) for entry in item]
        else:
            lines.append("%s%s: %s" % (space, key, json.dumps(item)))
    return "\n".join(line for line in lines if line)


def kubeconfig(url, ca=None, token_file=None, client_cert=None,
               client_key=None, **more):
    """The text of a kubeconfig; 'more' goes into its cluster."""
    cluster = {"server": url, **more}
    user = {}
    if ca:
        cluster["certificate-authority"] = str(ca)
    if token_file:
        user["tokenFile"] = str(token_file)
    if client_cert:
        user["client-certificate"] = str(client_cert)
        user["client-key"] = str(client_key)
    return "\n".join((
        "apiVersion: v1", "kind: Config", "current-context: test",
        "clusters:", "- name: test", "  cluster:", yaml(cluster, 4),
        "contexts:", "- name: test", "  context:",
        "    cluster: test", "    user: test",
        "users:", "- name: test", "  user:" + ("" if user else " {}"),
        yaml(user, 4), ""))


def api_kubeconfig(api, directory):
    """Writes the files with which `api` is reached; the kubeconfig's path."""
    more = {}
    if api.ca:
        more["ca"] = api.ca.cert
    if api.tokens:
        more["token_file"] = directory / "token"
        more["token_file"].write_text(next(iter(api.tokens)) + "\n")
    elif api.client_certs:
        more["client_cert"] = api.client_cert
        more["client_key"] = api.client_key
    path = directory / "kubeconfig"
    path.write_text(kubeconfig(api.url, **more))
    return path


class Ofproxyd:
    """A daemon for `switch` (ovs.PrivateSwitch) and `api` (ApiServer, or the
    path of a kubeconfig).

    It runs in the switch's network namespace.  'config' are further keys of
    antrea-agent.conf, nested as there; 'wrapper' a command that runs it, such
    as VALGRIND."""

    def __init__(self, directory, api, switch, node="n1", wrapper=(),
                 **config):
        self.dir = pathlib.Path(directory).resolve()
        self.dir.mkdir(parents=True, exist_ok=True)
        self.switch, self.node, self.wrapper = switch, node, wrapper
        self.confined = can_be_confined(binary()) and wrapper != VALGRIND
        self.config = self.dir / "antrea-agent.conf"
        self.log = self.dir / "ofproxyd.log"
        self.ctl = self.dir / "ofproxyd.ctl"
        self.kubeconfig = (pathlib.Path(api).resolve()
                           if isinstance(api, (str, os.PathLike))
                           else api_kubeconfig(api, self.dir))
        self.allowed = list(ovs.HARMLESS)
        self._process = None
        self.write_config(**config)

    def write_config(self, **config):
        """Writes the configuration file, for the next start."""
        values = {
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "ovsBridge": self.switch.bridge,
            "ovsDatapathType": "netdev",
            "ovsRunDir": str(self.switch.dir),
            "hostGateway": "antrea-gw0",
            # Several daemons of a test may share a network namespace.
            "enablePrometheusMetrics": False, **config}
        self.config.write_text(yaml(values) + "\n")

    # Life.

    def start(self):
        """Starts it and waits for its control socket."""
        for path in (self.ctl, self.dir / "ofproxyd.pid"):
            path.unlink(missing_ok=True)
        with open(self.dir / "stderr", "ab") as stderr:
            self._process = proc.start(
                *self.wrapper, binary(), "--config", self.config, "--node",
                self.node, "--unixctl", self.ctl,
                "--pidfile=%s" % (self.dir / "ofproxyd.pid"),
                "-vconsole:off", "--log-file=%s" % self.log,
                *([] if self.confined else ["--no-self-confinement"]),
                netns=self.switch.netns, stdin=subprocess.DEVNULL,
                stderr=stderr, env=strict_env() if self.confined else None)
        wait_for(lambda: proc.accepts(self.ctl) or not self.running,
                 self._time(10), "ofproxyd's control socket", self)
        self.check_running()
        return self

    def _time(self, seconds):
        return seconds * (SLOW_FACTOR if self.wrapper else 1)

    @property
    def pid(self):
        """Its process id."""
        return self._process.pid

    @property
    def running(self):
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def check_running(self):
        """Fails, with its log, if it has ended by itself."""
        if not self.running:
            status = self._process.returncode if self._process else None
            raise AssertionError("ofproxyd has ended: %s\n%s"
                                 % (status, self.dump()))

    def terminate(self):
        """SIGTERM; its exit status."""
        return proc.stop(self._process, signal.SIGTERM, self._time(10))

    def kill(self):
        """kill -9."""
        proc.kill(self._process)

    def restart(self, hard=False):
        """Ends it, by kill -9 if 'hard', and starts it again."""
        if hard:
            self.kill()
        else:
            self.terminate()
        return self.start()

    def stop(self):
        """Ends it; never fails."""
        proc.stop(self._process, signal.SIGTERM, self._time(10))

    __enter__ = start

    def __exit__(self, *_):
        self.stop()

    # What it says.

    def appctl(self, *args, **more):
        """A command on its control socket; the output."""
        return proc.output("ovs-appctl", "-t", self.ctl, *args, **more)

    def in_sync(self):
        """Whether the bridge is as it wants it to be."""
        self.check_running()
        done = proc.run("ovs-appctl", "-t", self.ctl, "sync", check=False)
        return done.stdout.startswith("in sync: yes")

    def wait_synced(self, timeout=20):
        """Waits until it says so.

        That is about what it knows: a change at the API server that it has
        not read yet is not covered, so wait for what the change does."""
        wait_for(self.in_sync, self._time(timeout), "ofproxyd in sync", self)
        return self

    def wait_flow(self, *parts, present=True, timeout=10):
        """Waits until a flow of the bridge has all 'parts' in its text, or
        until none has; the flows found."""
        def look():
            self.check_running()
            found = [flow for flow in self.switch.dump_flows()
                     if all(part in flow for part in parts)]
            return found if present else not found
        what = "%s flow with %s" % ("a" if present else "no", parts)
        return wait_for(look, self._time(timeout), what, self)

    def wait_log(self, text, timeout=10):
        """Waits until its log has a line with 'text'; the line."""
        def look():
            return [line for line in self.log_lines() if text in line]
        return wait_for(look, self._time(timeout), "the log line %r" % text,
                        self)[-1]

    def log_lines(self):
        """All of its log."""
        try:
            return self.log.read_text(errors="replace").splitlines()
        except OSError:
            return []

    def rss_kib(self):
        """Its resident memory."""
        return self._status("VmRSS")

    def peak_kib(self):
        """The most that its resident memory has been."""
        return self._status("VmHWM")

    def _status(self, key):
        text = pathlib.Path("/proc/%d/status" % self.pid).read_text()
        return int(text.split(key + ":")[1].split()[0])

    def cpu_seconds(self):
        """The processor time that it has used."""
        text = pathlib.Path("/proc/%d/stat" % self.pid).read_text()
        fields = text.rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def allow(self, *patterns):
        """Warnings that match are expected from now on."""
        self.allowed.extend(patterns)

    def unexpected_warnings(self):
        """Log lines at WARN or worse that nobody has allowed, and all that
        it has said on standard error (a sanitizer, valgrind, an abort).  A
        thread that blocks signals can't say which call was not allowed."""
        try:
            said = (self.dir / "stderr").read_text(errors="replace")
        except OSError:
            said = ""
        if self._process and self._process.poll() == -signal.SIGSYS:
            said += "ended by SIGSYS"
        return (ovs.warnings_in(self.log, self.allowed)
                + said.splitlines())

    def dump(self):
        """For failure messages."""
        return (tail(self.dir / "stderr") + tail(self.log)
                + self.switch.dump())
