# SPDX-License-Identifier: Apache-2.0
"""The rig itself, without ofproxyd: what it measures is what is there.

Pods hang on a bridge that only learns and floods.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from support import netns as namespaces
from support import attach, packets, proc
from support.traffic import Client, Server, ask_once
from support.wait import WaitTimeout, slowness, wait_for

TESTS = pathlib.Path(__file__).resolve().parents[1]
BOTH = pytest.mark.parametrize("family", [4, 6])


@pytest.fixture(name="pods")
def _pods(node):
    """Two pods on a plain bridge."""
    node.switch.add_bridge()
    node.switch.ofctl("add-flow", "actions=NORMAL")
    return node.add_pod("one"), node.add_pod("two")


@BOTH
def test_servers_answer_with_their_name_and_the_client(pods, family):
    """TCP, UDP and a web page."""
    one, two = pods
    address = two.of(family)
    with Server(two, "two", tcp=[80], udp=[53]):
        for proto, port in (("tcp", 80), ("udp", 53)):
            result = Client(one, "connect", address, port, proto=proto,
                            count=50, concurrency=5).wait()
            assert result["answers"] == {"two": 50}
            assert result["sources"] == [one.of(family)]
            assert result["p99"] < 1
        host = "[%s]" % address if family == 6 else address
        page = one.run("curl", "-gs", "http://%s/" % host).stdout
        assert page.split()[:2] == ["two", one.of(family)]


@BOTH
def test_failures_are_told_apart(pods, family):
    """Refused, and silent."""
    one, two = pods
    assert ask_once(one, two.of(family), 81)["kinds"] == {"ECONNREFUSED": 1}
    assert ask_once(one, two.of(family), 81, proto="udp")["kinds"] == {
        "ECONNREFUSED": 1}
    tcp = "tcp6" if family == 6 else "tcp"
    one.node.switch.ofctl(
        "add-flow", "priority=40000,%s,tp_dst=81,actions=drop" % tcp)
    result = ask_once(one, two.of(family), 81, timeout=0.3)
    assert result["kinds"] == {"TimeoutError": 1}
    assert 0.2 < result["failures"][0]["after"] < 5


def test_a_held_connection_notices_its_end(pods):
    """And says whose it was; a new one is another matter."""
    one, two = pods
    with Server(two, "two", tcp=[80]) as server:
        held = Client(one, "hold", two.address, 80, interval=0.01)
        server.stop()
        result = held.wait()
    assert [f["of"] for f in result["failures"]] == ["two"]
    assert result["n"] >= 1


def test_lost_datagrams_are_counted(pods):
    """Those of a stream that are never answered."""
    one, two = pods
    with Server(two, "two", udp=[53]):
        with Client(one, "stream", two.address, 53,
                    interval=0.01) as traffic:
            one.node.switch.ofctl("add-flow",
                                  "priority=40000,udp,actions=drop")
            time.sleep(0.3)     # Thirty of them.
            one.node.switch.ofctl("del-flows", "udp")
    assert traffic.result["n"] >= 1
    assert 10 <= traffic.result["n_failures"] <= 40 * slowness()
    assert set(traffic.result["kinds"]) == {"TimeoutError"}


def test_namespaces_and_links_are_gone_afterwards(tmp_path):
    """Also if a process inside will not end by itself."""
    maker = namespaces.Netns()
    node = maker.node("n1", tmp_path / "node")
    node.switch.add_bridge()
    pod = node.add_pod("one")
    stubborn = pod.start("sh", "-c", "trap '' TERM; while :; do sleep 1; "
                                     "done")
    pid = node.switch.pid
    maker.close()
    left = proc.output("ip", "netns", "list")
    assert "ofp%d-" % os.getpid() not in left
    assert stubborn.poll() is not None
    assert not os.path.exists("/proc/%d" % pid)


def test_namespaces_are_attached_by_a_program(node, netns):
    """As a CNI plugin would, and detached."""
    node.switch.add_bridge()
    node.switch.ofctl("add-flow", "actions=NORMAL")
    one = node.add_pod("one")
    two = netns.namespace("two")
    command = [sys.executable, attach.__file__, "--db", node.switch.db,
               two.name]
    node.run(*command, "10.10.1.7/24", "2001:db8:10:1::7/64",
             "--namespace", "ns2")
    port, = [p for p in node.switch.vsctl("list-ports", "br-int").split()
             if p != one.iface]
    ids = node.switch.vsctl("get", "Interface", port, "external_ids")
    for text in ('attached-mac="0a:58:0a:0a:01:07"', "pod-namespace=ns2",
                 'ip-address="10.10.1.7,2001:db8:10:1::7"'):
        assert text in ids
    for address in ("10.10.1.7", "2001:db8:10:1::7"):
        assert packets.ping(one, 6 if ":" in address else 4, address)
    assert "default via 10.10.1.1 " in two.ip("route")
    node.run(*command, "--detach")
    assert node.switch.vsctl("list-ports", "br-int").split() == [one.iface]
    assert "eth0" not in two.ip("link")


def test_namespaces_of_killed_runs_are_swept():
    """Those of process ids that are no more."""
    gone = proc.start("true")
    gone.wait()
    name = "ofp%d-1-left" % gone.pid
    proc.run("ip", "netns", "add", name)
    namespaces.sweep()
    assert name not in proc.output("ip", "netns", "list")


LASTING = """
import pathlib, time

def test_that_lasts(netns):
    pathlib.Path(%r).write_text(netns.namespace("x").name)
    time.sleep(100)
"""


@pytest.mark.parametrize("how", ["^C", "kill"])
def test_an_interrupted_run_takes_its_namespaces_away(tmp_path, how):
    """^C ends workers, too; if the run alone is ended, they notice.

    (Whoever is started in the background of a script ignores ^C, and so do
    all whom it starts, unless env(1) changes that.)"""
    told = tmp_path / "told"
    (tmp_path / "test_it.py").write_text(LASTING % str(told))
    shutil.copy(TESTS / "conftest.py", tmp_path)
    env = {key: value for key, value in os.environ.items()
           if not key.startswith("PYTEST_")}
    run = proc.start("env", "--default-signal=INT", sys.executable, "-m",
                     "pytest", "-p", "no:cacheprovider", "-n", "1", tmp_path,
                     start_new_session=True, stdout=subprocess.DEVNULL,
                     env={**env, "PYTHONPATH": str(TESTS)})
    try:
        name = wait_for(lambda: told.exists() and told.read_text(), 30,
                        "the test")
        if how == "^C":
            os.killpg(run.pid, signal.SIGINT)
            assert run.wait(60) == pytest.ExitCode.INTERRUPTED
        else:
            run.kill()
        wait_for(lambda: name not in proc.output("ip", "netns", "list"), 60,
                 "the end of its namespace")
    finally:
        proc.kill(run)


def test_waiting_in_vain_says_for_what():
    """With the last value and what the dump has to say."""
    with pytest.raises(WaitTimeout, match=r"waited [\d.]+ s for a wonder; last: 0\n"
                                          r"a dump"):
        wait_for(lambda: 0, 0.05, "a wonder", lambda: "a dump")
