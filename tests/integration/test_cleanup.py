# SPDX-License-Identifier: Apache-2.0
"""ofproxyd --cleanup: removes exactly what is ours, says what, and can be run
again."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from support import objects, proc
from support.daemon import binary
from support.rig import Rig, own_node
from support.wait import slowness, wait_for

GATEWAY, TUNNEL = "antrea-gw0", "antrea-tun0"
MADE = "external_ids:ofproxyd-made=true"
NOTHING = "nothing to remove\n"
POD = "10.10.1.9"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(name="rig")
def fixture_rig(tmp_path):
    """Without a relay: it would answer for a switch that is gone."""
    with Rig(tmp_path / "rig") as made:
        made.api.apply(own_node())
        yield made
    made.check_quiet()


def command(rig, ctl=True):
    """The clean-up's command line."""
    return [binary(), "--cleanup", "--config", rig.daemon.config,
            *(["--unixctl", rig.daemon.ctl] if ctl else [])]


def clean(rig, *more, env=None, ctl=True):
    """The finished clean-up."""
    return proc.run(*command(rig, ctl), *more, netns=rig.switch.netns,
                    check=False, env={**os.environ, **(env or {})})


# What is said of the host.
HOST = re.compile(r"removed (address|neighbour|route|nftables|\d+ rules) ")


def of_switch(lines):
    """Those lines of a clean-up that are not about the host."""
    return [line for line in lines if not HOST.match(line)]


def all_cleaned(rig, *more, **options):
    """The lines that a clean-up without failure has printed."""
    done = clean(rig, *more, **options)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def cleaned(rig, *more, **options):
    """Those of them that are not about the host."""
    return of_switch(all_cleaned(rig, *more, **options))


def services(rig, n):
    """Services with an endpoint each."""
    rig.api.apply_all(
        [obj for i in range(n) for obj in (
            objects.service("ns1", "s%d" % i, [80], ["10.96.1.%d" % i]),
            objects.slice_("ns1", "s%d" % i, ["10.10.1.%d" % (i + 2)],
                           [80]))])


def run_once(rig, n=3):
    """A daemon was here, and has ended."""
    services(rig, n)
    rig.start_daemon()
    rig.daemon.terminate()


def ids(rig, table, name):
    """external_ids of a row."""
    return rig.switch.vsctl("get", table, name, "external_ids").strip()


def bridges(rig):
    """Their names."""
    return rig.switch.vsctl("list-br").split()


def test_all_that_the_daemon_made_goes_and_is_told(rig):
    """The bridge, too; and a second run has nothing to do."""
    run_once(rig)
    n_flows = len(rig.switch.dump_flows())
    n_groups = len(rig.switch.dump_groups())
    assert n_flows > 20 and n_groups == 3
    all_lines = all_cleaned(rig)
    lines = of_switch(all_lines)
    assert [line for line in all_lines if HOST.match(line)] == [
        "removed nftables table inet ofproxyd",
        "removed route to 169.254.0.253/32",
        "removed route to fc01::aabb:ccdd:eeff/128",
        "removed neighbour 169.254.0.253 of link antrea-gw0",
        "removed neighbour fc01::aabb:ccdd:eeff of link antrea-gw0",
        "removed address 10.10.1.1/24 of link antrea-gw0",
        "removed address 2001:db8:10:1::1/64 of link antrea-gw0"]
    assert lines[:3] == ["removed %d flows from bridge br-int" % n_flows,
                         "removed 3 groups from bridge br-int",
                         "removed 16 meters from bridge br-int"]
    assert sorted(lines[3:5]) == ["removed port %s from bridge br-int" % p
                                  for p in (GATEWAY, TUNNEL)]
    assert lines[5:] == ["removed bridge br-int"]
    assert bridges(rig) == []
    for table in ("Port", "Interface", "Flow_Table"):
        assert rig.switch.vsctl("--bare", "--columns=_uuid", "list",
                                table) == ""
    assert cleaned(rig) == [NOTHING.strip()]


def test_what_the_daemon_found_stays_as_it_was(rig):
    """A bridge, a gateway and pods of others, with all that is theirs."""
    switch = rig.switch
    switch.add_bridge("external_ids:theirs=1", "--", "--id=@t", "create",
                      "Flow_Table", "name=Theirs", "--", "--id=@u", "create",
                      "Flow_Table", "flow_limit=100000", "--", "set",
                      "bridge", "br-int", "flow_tables:77=@t",
                      "flow_tables:12=@u")
    switch.vsctl("add-port", "br-int", GATEWAY, "--", "set", "Interface",
                 GATEWAY, "type=internal", "ofport_request=9",
                 'mac="02:00:00:00:00:09"', "--", "set", "Port", GATEWAY,
                 "external_ids:antrea-type=gateway")
    switch.add_dummy_pod("v9", [POD], 19)
    switch.vsctl("add-port", "br-int", TUNNEL, "--", "set", "Port", TUNNEL,
                 "external_ids:theirs=1")
    switch.ofctl("add-flow", "table=77,cookie=0x7,priority=5,ip,actions=drop")
    switch.ofctl("add-flow", "table=3,cookie=0xf8,priority=5,actions=drop")
    switch.ofctl("add-group", "group_id=7,type=all,bucket=drop")
    switch.ofctl("add-meter", "meter=7,pktps,bands=type=drop,rate=7")

    def theirs():
        return (switch.state(), switch.ofctl("dump-meters"),
                sorted(switch.vsctl("list-ports", "br-int").split()),
                ids(rig, "Bridge", "br-int"), ids(rig, "Port", GATEWAY),
                switch.vsctl("--columns=name,flow_limit", "list",
                             "Flow_Table").split("\n\n"),
                switch.vsctl("get", "Bridge", "br-int", "flow_tables"))

    before = theirs()
    run_once(rig)
    rig.daemon.allow('"antrea-tun0" of bridge .* is left as it is')
    assert theirs() != before
    n_names = len(theirs()[5]) - 1
    assert n_names > 20
    lines = cleaned(rig)
    after = theirs()
    assert after == before, "\n".join(lines)
    assert lines[-2:] == [
        "removed %d table names from bridge br-int" % n_names,
        "removed external_ids:ofproxyd-layout from bridge br-int"]
    assert not [line for line in lines if "port" in line]
    assert cleaned(rig) == [NOTHING.strip()]


def test_what_the_switch_has_learned_goes(rig):
    """Whoever's endpoint it leads to."""
    rig.switch.add_bridge()
    run_once(rig)
    for i in range(5):
        rig.switch.ofctl("add-flow", "table=11,cookie=0xf90107000000000%d,"
                         "priority=200,idle_timeout=100,ip,reg7=0x40000200,"
                         "nw_src=198.51.100.%d,actions=drop" % (i, i))
    n_flows = len(rig.switch.dump_flows())
    assert cleaned(rig)[0] == "removed %d flows from bridge br-int" % n_flows
    assert rig.switch.dump_flows() == []


def test_bridge_of_ours_stays_while_pods_hang_on_it(rig):
    """It is told, also in the next run; then it goes."""
    run_once(rig)
    for i in range(7):
        rig.switch.add_dummy_pod("v%d" % i, ["10.10.1.%d" % (100 + i)])
    lines = cleaned(rig)
    left = [line for line in lines if line.startswith("left ")]
    assert left == [lines[-1]]
    assert left[0].startswith("left bridge br-int, which ofproxyd made: "
                              "ports of others hang on it: v")
    assert left[0].count(", v") == 4 and left[0].endswith(" and 2 more")
    assert "removed port %s from bridge br-int" % GATEWAY in lines
    assert bridges(rig) == ["br-int"]
    assert rig.switch.state() == ([], [])
    assert ids(rig, "Bridge", "br-int") == '{ofproxyd-made="true"}'
    assert cleaned(rig) == [left[0], NOTHING.strip()]
    for i in range(1, 7):
        rig.switch.del_port("v%d" % i)
    assert cleaned(rig)[0] == ("left bridge br-int, which ofproxyd made: a "
                               "port of others hangs on it: v0")
    rig.switch.del_port("v0")
    assert cleaned(rig) == ["removed bridge br-int"]


def test_another_bridge_is_another_daemons(rig):
    """Marked or not."""
    rig.switch.vsctl("add-br", "br-other", "--", "set", "Bridge", "br-other",
                     MADE, "external_ids:ofproxyd-layout=1", "--",
                     "add-port", "br-other", "gw7", "--", "set", "Port",
                     "gw7", MADE, "--", "set", "Interface", "gw7",
                     "type=dummy")
    run_once(rig)
    cleaned(rig)
    assert bridges(rig) == ["br-other"]
    assert "ofproxyd-made" in ids(rig, "Port", "gw7")
    assert "ofproxyd-layout" in ids(rig, "Bridge", "br-other")


def test_meter_is_left_without_any_trace_of_ours(rig):
    """Another program's meter may have its number."""
    rig.switch.add_bridge()
    rig.switch.ofctl("add-meter",
                     "meter=3841,pktps,bands=type=drop,rate=7")
    assert cleaned(rig) == [NOTHING.strip()]
    assert "meter=3841" in rig.switch.ofctl("dump-meters")


def test_hundreds_of_groups_go(rig):
    """More than one message can say."""
    run_once(rig, 250)
    assert len(rig.switch.dump_groups()) == 250
    assert "removed 250 groups from bridge br-int" in cleaned(rig)
    assert bridges(rig) == []


# What is missing.

def test_without_ovs_vswitchd_the_database_is_cleaned(rig):
    """Its flows went with it."""
    run_once(rig)
    rig.switch.stop_vswitchd()
    started = time.monotonic()
    lines = cleaned(rig)
    assert time.monotonic() - started < 4 * slowness()
    assert sorted(lines[:2]) == ["removed port %s from bridge br-int" % p
                                 for p in (GATEWAY, TUNNEL)]
    assert lines[2:] == ["removed bridge br-int"]
    rig.switch.start_vswitchd()
    assert bridges(rig) == []
    assert cleaned(rig) == [NOTHING.strip()]


def test_without_a_bridge_there_is_nothing_to_remove(rig):
    """Nothing is made either."""
    assert cleaned(rig) == [NOTHING.strip()]
    assert bridges(rig) == []


def test_without_a_database_nothing_is_removed_and_that_is_told(rig):
    """At once: ovs-vswitchd answers nobody without it.  The next run does
    it."""
    run_once(rig)
    rig.switch.stop_ovsdb()
    started = time.monotonic()
    done = clean(rig)
    assert time.monotonic() - started < 4 * slowness()
    assert (done.returncode, of_switch(done.stdout.splitlines())) == (1, [])
    assert done.stderr.startswith("the switch's database at unix:")
    assert done.stderr.rstrip().rsplit(": ", 1)[1] in (
        "Connection refused", "No such file or directory")
    rig.switch.start_ovsdb()
    rig.switch.allow("connection|ovsdb")
    wait_for(lambda: rig.switch.dump_flows(), 20, "the switch to answer")
    assert cleaned(rig)[-1] == "removed bridge br-int"


def test_switch_that_does_not_answer_is_not_waited_for_without_end(rig):
    """Its process is stopped; the database is cleaned all the same."""
    run_once(rig)
    os.kill(rig.switch.pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        done = clean(rig)
        took = time.monotonic() - started
    finally:
        os.kill(rig.switch.pid, signal.SIGCONT)
    assert 8 < took < 15 * slowness()
    assert done.returncode == 1
    assert done.stderr.endswith("br-int.mgmt: Connection timed out\n")
    assert "removed bridge br-int\n" in done.stdout
    wait_for(lambda: bridges(rig) == [], 10, "the bridge to go")
    assert cleaned(rig) == [NOTHING.strip()]


def test_no_api_server_and_no_kubeconfig_are_needed(rig):
    """Nor a node's name."""
    run_once(rig)
    rig.api.stop()
    text = rig.daemon.config.read_text().replace("kubeconfig\"", "nowhere\"")
    assert "nowhere" in text
    rig.daemon.config.write_text(text)
    assert cleaned(rig)[-1] == "removed bridge br-int"


def test_broken_configuration_removes_nothing(rig):
    """Nobody knows whose bridge it would be."""
    run_once(rig)
    rig.daemon.config.write_text("ovsBridge: a/b\n")
    done = clean(rig)
    assert done.returncode == 1 and "ovsBridge: found" in done.stderr
    assert bridges(rig) == ["br-int"]


# Daemons.

def assert_refused(done, *texts):
    """Nothing was done, and why."""
    assert done.returncode == 1 and done.stdout == "", done
    assert all(text in done.stderr for text in texts), done


def test_refuses_while_the_daemon_runs(rig):
    """By --unixctl, by the run directory, by --pidfile."""
    services(rig, 3)
    rig.start_daemon()
    before = rig.switch.state()
    assert_refused(clean(rig), "a daemon is running", str(rig.daemon.ctl))
    pidfile = "--pidfile=%s" % (rig.daemon.dir / "ofproxyd.pid")
    assert_refused(clean(rig, pidfile, ctl=False), "already running")
    rundir = rig.dir / "rundir"
    rundir.mkdir()
    (rundir / "ofproxyd.1.ctl").write_text("")
    (rundir / "ofproxyd.2x.ctl").symlink_to(rig.daemon.ctl)
    (rundir / ("ofproxyd.%d.ctl" % rig.daemon.pid)).symlink_to(
        rig.daemon.ctl)
    assert_refused(clean(rig, ctl=False, env={"OVS_RUNDIR": str(rundir)}),
                   "ofproxyd.%d.ctl" % rig.daemon.pid)
    assert rig.switch.state() == before
    assert rig.daemon.in_sync()

    rig.daemon.kill()       # Leaves its socket and its pidfile.
    lines = cleaned(rig, pidfile, ctl=False,
                    env={"OVS_RUNDIR": str(rundir)})
    assert lines[-1] == "removed bridge br-int"


def test_daemon_comes_back_after_a_clean_up(rig):
    """As on a fresh node."""
    run_once(rig)
    first = sorted(line for line in cleaned(rig) if "flows" not in line)
    rig.start_daemon()
    rig.wait_lookup("10.96.1.1", ["10.10.1.3:80"])
    rig.daemon.terminate()
    assert sorted(line for line in cleaned(rig)
                  if "flows" not in line) == first


def n_sockets(pid):
    """How many sockets the process has open; files may close meanwhile."""
    n = 0
    for fd in pathlib.Path("/proc/%d/fd" % pid).iterdir():
        with contextlib.suppress(FileNotFoundError):
            n += "socket:" in os.readlink(fd)
    return n


def test_pod_that_is_plugged_in_meanwhile_keeps_its_bridge(rig):
    """The clean-up has read the database, and talks to the switch, which is
    stopped, while the port is added."""
    run_once(rig)
    os.kill(rig.switch.pid, signal.SIGSTOP)
    try:
        process = proc.start(*command(rig), netns=rig.switch.netns,
                             stdout=subprocess.PIPE, text=True)
        wait_for(lambda: n_sockets(process.pid) == 2, 5, "both connections")
        rig.switch.vsctl("--no-wait", "add-port", "br-int", "v1", "--", "set",
                         "Interface", "v1", "type=dummy")
    finally:
        os.kill(rig.switch.pid, signal.SIGCONT)
    out = process.communicate(timeout=20)[0]
    assert process.returncode == 0, out
    assert out.splitlines()[-1].endswith("a port of others hangs on it: v1")
    assert rig.switch.vsctl("list-ports", "br-int").split() == ["v1"]
