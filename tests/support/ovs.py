# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch: its own ovsdb-server and ovs-vswitchd.

Everything lives in one directory, so any number of them run side by side
and beside the machine's own.
"""
import os
import pathlib
import re

from support import proc
from support.attach import pod_external_ids, pod_mac
from support.wait import tail, wait_for

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
PROTOCOLS = "OpenFlow10,OpenFlow13,OpenFlow15"
STATS = re.compile(r"\b(duration|n_packets|n_bytes|idle_age|hard_age|"
                   r"packet_count|byte_count)=[^, ]*,? ?")
# Lines of an Open vSwitch log: time|number|module|level|text
WARNING = re.compile(r"^[^|]*\|\d+\|[^|]*\|(WARN|ERR|EMER)\|")

# Warnings that the tests themselves cause: by ending a process, and by the
# load of all that runs at the same time.
HARMLESS = (
    # More connections in a few seconds than a slow machine's datapath caches.
    r"\|ofproto_dpif_upcall(\([^)]*\))?\|WARN\|upcall: datapath reached "
    r"the dynamic limit",
    # Two packets of one flow at once: the second one finds it there.
    r"\|ofproto_dpif_upcall(\([^)]*\))?\|WARN\|upcall_cb failure: ukey",
    r"\|timeval(\([^)]*\))?\|WARN\|",
    r"\|ovs_rcu(\([^)]*\))?\|WARN\|blocked \d+ ms waiting for",
    # A bridge goes while a datapath flow of its last packets is still there,
    # or ofproto/trace has not given back what it allocates for a hash.
    r"\|ofproto_dpif_rid\|ERR\|recirc_id \d+ left allocated when ofproto",
    r"\|fatal_signal(\([^)]*\))?\|WARN\|terminating with signal",
    r"\|(jsonrpc|reconnect|rconn|vconn|unixctl)(\([^)]*\))?\|WARN\|.*"
    r"(Connection reset by peer|Broken pipe|Dropped \d+ log messages)",
)


def warnings_in(path, allowed=()):
    """The lines of a log at WARN or worse that no pattern allows."""
    allow = re.compile("|".join("(?:%s)" % a for a in allowed) or r"(?!)")
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines
            if WARNING.match(line) and not allow.search(line)]


class PrivateSwitch:
    """dummy=True: ports are dummies, for tests without packets; "system": but
    for tunnels, and the bridge's datapath type is system; "tunnels": ports of
    type dummy are, and tunnels work.  Otherwise the userspace datapath with
    real links, in 'netns' if given."""

    def __init__(self, directory, dummy=False, netns=None, bridge="br-int"):
        self.dir = pathlib.Path(directory).resolve()
        self.dir.mkdir(parents=True, exist_ok=True)
        assert len(str(self.dir)) < 85, "too long for sockets: %s" % self.dir
        self.dummy, self.netns, self.bridge = dummy, netns, bridge
        self.allowed = list(HARMLESS)
        self._vswitchd = self._ovsdb = None
        self._env = dict(os.environ, OVS_RUNDIR=str(self.dir),
                         OVS_DBDIR=str(self.dir), OVS_LOGDIR=str(self.dir),
                         OVS_SYSCONFDIR=str(self.dir))

    # Life.

    def start(self):
        """Starts both daemons; the database is made if it is not there."""
        if not (self.dir / "conf.db").exists():
            self.run("ovsdb-tool", "create", self.dir / "conf.db", SCHEMA)
        self.start_ovsdb()
        self.start_vswitchd()
        return self

    def start_ovsdb(self):
        """Starts ovsdb-server only."""
        self._unlink("db.sock", "ovsdb-server.ctl")
        self._ovsdb = self._start(
            "ovsdb-server", self.dir / "conf.db",
            "--remote=punix:" + str(self.dir / "db.sock"))
        wait_for(lambda: proc.accepts(self.dir / "db.sock"), 20,
                 "ovsdb-server", self)
        self.vsctl("--no-wait", "init", "--", "set", "Open_vSwitch", ".",
                   "external_ids:system-id=private")

    def start_vswitchd(self):
        """Starts ovs-vswitchd only, and waits until it is in service."""
        self._unlink("ovs-vswitchd.ctl", "ovs-vswitchd.pid")
        extra = {
            "system": ["--enable-dummy=system"],
            "tunnels": ["--enable-dummy", "--disable-system-route"],
            True: ["--enable-dummy=override"],
        }.get(self.dummy, [])
        self._vswitchd = self._start("ovs-vswitchd",
                                     "unix:" + str(self.dir / "db.sock"),
                                     *extra, netns=self.netns)
        wait_for(lambda: proc.accepts(self.dir / "ovs-vswitchd.ctl"), 20,
                 "ovs-vswitchd", self)
        # ovs-vsctl returns when ovs-vswitchd has taken in a change.
        self.vsctl("set", "Open_vSwitch", ".",
                   "external_ids:started=%d" % self.pid)

    def _start(self, name, *args, netns=None):
        files = ["--%s=%s/%s.%s" % (option, self.dir, name, suffix)
                 for option, suffix in (("pidfile", "pid"),
                                        ("unixctl", "ctl"),
                                        ("log-file", "log"))]
        return proc.start(name, *args, "-vconsole:off", *files, netns=netns,
                          env=self._env)

    def _unlink(self, *names):
        for name in names:
            (self.dir / name).unlink(missing_ok=True)

    @property
    def datapath(self):
        """What datapath_type the bridge has to have."""
        return {"system": "system", "tunnels": "dummy"}.get(self.dummy,
                                                            "netdev")

    @property
    def pid(self):
        """The process id of ovs-vswitchd."""
        return self._vswitchd.pid

    def stop_vswitchd(self):
        """Ends ovs-vswitchd as its service does; bridges' links go."""
        proc.stop(self._vswitchd)

    def kill_vswitchd(self):
        """kill -9."""
        proc.kill(self._vswitchd)

    def stop_ovsdb(self):
        """Ends ovsdb-server."""
        proc.stop(self._ovsdb)

    def restart(self, hard=False):
        """Restarts ovs-vswitchd: all flows and groups are lost."""
        if hard:
            self.kill_vswitchd()
        else:
            self.stop_vswitchd()
        self.start_vswitchd()

    def stop(self):
        """Ends all; never fails."""
        if self._vswitchd and self._vswitchd.poll() is None:
            try:                # So that no link of a bridge is left.
                self.appctl("exit", "--cleanup", timeout=10)
                self._vswitchd.wait(10)
            except Exception:   # pylint: disable=broad-except
                pass
        proc.stop(self._vswitchd)
        proc.stop(self._ovsdb)

    __enter__ = start

    def __exit__(self, *_):
        self.stop()

    # Commands.

    def run(self, *argv, **more):
        """A command that finds this switch by its environment; its output."""
        return proc.output(*argv, env=self._env, **more)

    @property
    def db(self):
        """The database's socket as an OVSDB remote."""
        return "unix:" + str(self.dir / "db.sock")

    def vsctl(self, *args, **more):
        """ovs-vsctl; its output."""
        return self.run("ovs-vsctl", "--db=" + self.db, "--timeout=20",
                         *args, **more)

    def ofctl(self, command, *args, options=(), **more):
        """ovs-ofctl COMMAND on the bridge, in OpenFlow 1.5."""
        return self.run("ovs-ofctl", "-O", "OpenFlow15", *options, command,
                         str(self.dir / (self.bridge + ".mgmt")), *args,
                         **more)

    def appctl(self, *args, **more):
        """ovs-appctl to ovs-vswitchd; its output."""
        return self.run("ovs-appctl", "-t",
                         str(self.dir / "ovs-vswitchd.ctl"), *args, **more)

    def wait_revalidated(self):
        """Waits until the datapath does what the flows say: for the end of a
        round that begins now.  (A pause begins when a round has ended, and
        ends with the next one.)"""
        for _ in range(2):
            self.appctl("revalidator/pause")
            self.appctl("revalidator/resume")

    def trace(self, flow):
        """ofproto/trace of a flow on the bridge."""
        return self.appctl("ofproto/trace", self.bridge, flow)

    def conntrack(self):
        """The entries of the userspace datapath's connection tracker."""
        return self.appctl("dpctl/dump-conntrack",
                           "%s@ovs-%s" % (self.datapath, self.datapath)
                           ).splitlines()

    # Bridge and ports.

    def add_bridge(self, *more):
        """Makes the bridge, as a daemon under test would find it."""
        self.vsctl("--may-exist", "add-br", self.bridge, "--", "set",
                   "bridge", self.bridge, "datapath_type=" + self.datapath,
                   "fail-mode=secure", "protocols=" + PROTOCOLS, *more)

    def has_bridge(self):
        """Whether somebody has made the bridge."""
        return self.bridge in self.vsctl("list-br").split()

    def add_dummy_pod(self, name, addresses, ofport=None, namespace="ns1",
                      mac=None):
        """A pod's port without a pod behind it (dummy=True)."""
        request = ["ofport_request=%d" % ofport] if ofport else []
        self.vsctl("add-port", self.bridge, name, "--", "set", "Interface",
                   name, "type=dummy", *request,
                   *pod_external_ids(name, namespace,
                                     mac or pod_mac(addresses[0]),
                                     addresses))
        return int(self.vsctl("get", "Interface", name, "ofport"))

    def del_port(self, name):
        """Takes a port off the bridge."""
        self.vsctl("--if-exists", "del-port", self.bridge, name)

    # What is on the bridge.

    def dump_flows(self, *match, names=True):
        """The flows as sorted lines, without statistics."""
        option = "--names" if names else "--no-names"
        text = self.ofctl("dump-flows", *match, options=(option,))
        return sorted(STATS.sub("", line).strip()
                      for line in text.splitlines() if "actions=" in line)

    def dump_groups(self, names=True):
        """The groups as sorted lines."""
        option = "--names" if names else "--no-names"
        text = self.ofctl("dump-groups", options=(option,))
        return sorted(line.strip() for line in text.splitlines()
                      if "group_id=" in line)

    def state(self):
        """Flows and groups together: equal states have equal behaviour."""
        return self.dump_flows(), self.dump_groups()

    # Logs.

    @property
    def logs(self):
        """The log files."""
        return [self.dir / "ovs-vswitchd.log", self.dir / "ovsdb-server.log"]

    def allow(self, *patterns):
        """Warnings that match are expected from now on."""
        self.allowed.extend(patterns)

    def unexpected_warnings(self):
        """Log lines at WARN or worse that nobody has allowed."""
        return [line for log in self.logs
                for line in warnings_in(log, self.allowed)]

    def dump(self):
        """For failure messages."""
        return "".join(tail(log) for log in self.logs)
