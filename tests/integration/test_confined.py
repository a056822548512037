# SPDX-License-Identifier: Apache-2.0
"""What the daemon gives up at its start (docs/security.md), and that it works
without."""
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading

import pytest

from support import httpclient, objects, proc, secrets, setns
from support.daemon import ROOT, binary, can_be_confined
from support.rig import Rig, own_node
from support.wait import wait_for

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(os.geteuid() == 0 and not can_be_confined(binary()),
                       reason="sanitizers need more than it keeps")]

NET_BIND_SERVICE, NET_ADMIN, ALL_SETS = 10, 12, (
    "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
LOW_PORT = 81
USER = 65534
BREAKOUTS = {"fork", "execve", "mount", "unshare", "ptrace", "packet socket",
             "kill"}


def a_service(name="web", address="10.96.0.10", check=LOW_PORT):
    """A Service whose health check is on a port below 1024."""
    return objects.service("ns1", name, [80], [address], type="LoadBalancer",
                           externalTrafficPolicy="Local",
                           healthCheckNodePort=check)


@pytest.fixture(name="rig")
def fixture_rig(tmp_path):
    """With all of the host's part."""
    with Rig(tmp_path / "rig", antreaProxy={"proxyAll": True}) as made:
        made.api.apply_all([own_node(), a_service()])
        yield made


def status_of(pid):
    """/proc/PID/status of each thread."""
    for task in pathlib.Path("/proc/%d/task" % pid).iterdir():
        text = (task / "status").read_text()
        yield dict(re.findall(r"^(\w+):\s*(.*)$", text, re.M))


def sets_of(pid):
    """The capability sets of all threads, which have to be the same."""
    found = {tuple(int(status[name], 16) for name in ALL_SETS)
             for status in status_of(pid)}
    assert len(found) == 1, found
    return dict(zip(ALL_SETS, found.pop()))


def bits(*numbers):
    """A set of capabilities."""
    return sum(1 << number for number in numbers)


def is_healthy(rig):
    """Whether the health check on the low port is answered."""
    try:
        return httpclient.get(rig.ns.name, "127.0.0.1", LOW_PORT).status == 503
    except OSError:
        return False


def wait_healthy(rig):
    """Waits for that."""
    wait_for(lambda: is_healthy(rig), 10, "the health check", rig)


def test_privileges_are_dropped_for_good_and_it_works(rig):
    rig.start_daemon()
    wait_healthy(rig)
    keep = bits(NET_ADMIN, NET_BIND_SERVICE)
    assert sets_of(rig.daemon.pid) == {
        "CapInh": 0, "CapPrm": keep, "CapEff": keep, "CapBnd": 0, "CapAmb": 0}
    for status in status_of(rig.daemon.pid):
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    rig.check_quiet()


def test_the_page_on_security_lists_what_is_kept():
    """What manifests are written after."""
    code = re.findall(r"\bCAP\((\w+), (?:true|false)", (
        ROOT / "include/ofproxyd/base/confine.h").read_text())
    page = re.findall(r"^\| `CAP_(\w+)` \|", (
        ROOT / "docs/security.md").read_text(), re.M)
    assert code == page and len(code) == 2


def run_without(rig, *dropped, capabilities=None):
    """The finished start of a daemon that has all capabilities but some."""
    dropped = ",".join(dropped)
    return proc.run(
        "setpriv", "--bounding-set", dropped, "--inh-caps", dropped,
        binary(), "--config", rig.daemon.config, netns=rig.ns.name,
        check=False)


def test_a_capability_that_is_missing_is_named(rig):
    done = run_without(rig, "-net_admin")
    assert done.returncode == 1
    assert "capability CAP_NET_ADMIN is missing" in done.stderr, done


def test_without_bind_service_only_low_ports_are_missing(rig):
    rig.daemon.wrapper = ("setpriv", "--bounding-set", "-net_bind_service")
    rig.daemon.allow(r"127\.0\.0\.1:81.*Permission denied",
                     r":%d\b.*Permission denied" % LOW_PORT)
    rig.start_daemon()
    rig.daemon.wait_log("Permission denied")
    rig.api.apply(a_service(check=LOW_PORT + 32000))
    wait_for(lambda: "LISTEN" in rig.ns.run(
        "ss", "-Hltn", "sport = :%d" % (LOW_PORT + 32000)).stdout, 10,
             "the health check", rig)
    assert sets_of(rig.daemon.pid)["CapEff"] == bits(NET_ADMIN)
    rig.check_quiet()


@pytest.fixture(name="open_rig")
def fixture_open_rig():
    """A rig that another user can use: he is in root's group, for which the
    switch's sockets are open."""
    old = os.umask(0)
    try:
        with tempfile.TemporaryDirectory(prefix="ofproxyd-") as name:
            path = pathlib.Path(name)
            path.chmod(0o755)
            for source in (binary(), binary().parent / "tests/strictcalls.so"):
                shutil.copy(source, path)
            with Rig(path / "rig", antreaProxy={"proxyAll": True}) as made:
                made.api.apply_all([own_node(), a_service()])
                yield made
    finally:
        os.umask(old)


def as_user(rig, *names):
    """A wrapper with which the daemon is another user's, with some ambient
    capabilities and none to gain."""
    here = rig.dir.parent
    caps = ",".join(["-all", *("+" + name for name in names)])
    return ("sh", "-c", "shift; export LD_PRELOAD=%s/strictcalls.so; "
            "exec setpriv --reuid %d --regid 0 --clear-groups --inh-caps %s "
            "--ambient-caps %s --bounding-set %s %s/ofproxyd \"$@\""
            % (here, USER, caps, caps, caps, here), "sh")


def test_another_user_with_ambient_capabilities_can_run_it(open_rig):
    rig = open_rig
    rig.daemon.wrapper = as_user(rig, "net_admin", "net_bind_service")
    rig.start_daemon()
    wait_healthy(rig)
    keep = bits(NET_ADMIN, NET_BIND_SERVICE)
    assert sets_of(rig.daemon.pid) == {
        "CapInh": 0, "CapPrm": keep, "CapEff": keep, "CapBnd": keep,
        "CapAmb": 0}
    assert {status["Uid"].split()[0] for status in status_of(
        rig.daemon.pid)} == {str(USER)}
    assert "table inet ofproxyd" in rig.ns.run("nft", "list", "tables").stdout
    assert "proto 201" in rig.ns.run("ip", "-4", "rule", "show").stdout
    rig.check_quiet()


@pytest.mark.parametrize("confined", [True, False])
def test_a_break_out_is_refused(rig, confined):
    """And does more than nothing if the daemon is not confined."""
    library = binary().parent / "tests/breakout.so"
    rig.daemon.wrapper = ("env", "LD_PRELOAD=%s" % library)
    rig.daemon.confined = confined
    rig.start_daemon()
    said = dict(line.rsplit(": ", 1) for line in (
        rig.daemon.dir / "stderr").read_text().splitlines())
    assert set(said) == BREAKOUTS
    if confined:
        assert set(said.values()) == {"refused"}
    else:
        assert "refused" not in said.values()
        assert said["fork"] == said["unshare"] == said["kill"] == "0"


def test_logs_and_commands_have_no_secrets(tls_apiserver, switch, daemon):
    """At every log level, in trouble, too."""
    api = tls_apiserver
    api.apply_all([own_node(), objects.service("ns1", "s", [80],
                                               ["10.96.0.1"])])
    proxy = daemon(api, switch)
    proxy.appctl("vlog/set", "file:dbg")
    proxy.allow(r"\|kube\|WARN", "No such device", "no link for traffic")
    fault = api.fault(resource="services", status=401)
    api.cut_connections("rst")
    wait_for(lambda: fault.hits, 20, "a request that is refused", proxy)
    wait_for(lambda: "ns1/s" in proxy.appctl("services"), 20, "the Service",
             proxy)
    for command in ("sync", "services", "nodes", "explain ns1/s",
                    "flows ns1/s", "coverage/show", "vlog/list"):
        (proxy.dir / "said").write_text(proxy.appctl(*command.split()))
        assert not list(secrets.leaks(proxy.dir))
    assert any("|DBG|" in line for line in proxy.log_lines())
    token = (proxy.dir / "token").read_text().strip()
    assert token in {r.headers["authorization"].split()[1]
                     for r in api.requests}


def test_a_secret_is_found_in_a_log(tmp_path):
    """By the search that the whole run ends with."""
    lines = ["-----BEGIN EC PRIVATE KEY-----", "MHcCAQEEI" + "x" * 55,
             "-----END EC PRIVATE KEY-----"]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "client.key").write_text("\n".join(lines))
    (tmp_path / "token").write_text(secrets.token("good"))
    (tmp_path / "log").write_text("all is well")
    assert not list(secrets.leaks(tmp_path))
    for text in lines[1], "Bearer " + secrets.token("good"):
        (tmp_path / "log").write_text("sent: %s\n" % text)
        assert list(secrets.leaks(tmp_path)) == [tmp_path / "log"]
    (tmp_path / "log").unlink()


@pytest.mark.parametrize("confined", [True, False])
def test_an_abort_leaves_no_core_dump(rig, confined):
    """It would have the token.  One that is not confined leaves one."""
    rig.daemon.wrapper = ("sh", "-c", 'cd %s && ulimit -c unlimited && '
                          'exec "$@"' % rig.dir, "sh")
    rig.daemon.confined = confined
    rig.start_daemon()
    os.kill(rig.daemon.pid, signal.SIGABRT)
    how = os.waitid(os.P_PID, rig.daemon.pid, os.WEXITED | os.WNOWAIT)
    assert how.si_status == signal.SIGABRT
    assert how.si_code == (os.CLD_KILLED if confined else os.CLD_DUMPED)


def test_files_are_not_for_all(rig):
    rig.start_daemon()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode)
             for path in rig.daemon.dir.glob("ofproxyd.*")}
    assert modes == {"ofproxyd.log": 0o640, "ofproxyd.pid": 0o640,
                     "ofproxyd.ctl": 0o750}


def test_inherited_descriptors_are_closed(rig, tmp_path):
    mark = tmp_path / "mark"
    rig.daemon.wrapper = ("sh", "-c", 'exec 7>%s; exec "$@"' % mark, "sh")
    rig.start_daemon()
    fds = pathlib.Path("/proc/%d/fd" % rig.daemon.pid)
    assert str(mark) not in {os.readlink(fd) for fd in fds.iterdir()}


def writable(rig):
    """The folders that it writes to."""
    return [str(rig.switch.dir), str(rig.daemon.dir), "/proc/sys/net"]


def run_read_only(rig, folders):
    """Starts the daemon with all else read-only."""
    rig.daemon.wrapper = (sys.executable, ROOT / "tests/support/readonly.py",
                          *folders, "--")
    rig.start_daemon()


def test_a_read_only_root_is_enough(rig):
    run_read_only(rig, writable(rig))
    wait_healthy(rig)
    rig.check_cold_start()
    rig.check_quiet()


def test_settings_of_the_network_that_cannot_be_written_are_named(rig):
    """/proc/sys is read-only in most containers."""
    rig.daemon.allow(r"/proc/sys/net/\S+ can't be set to \d+: Read-only")
    run_read_only(rig, writable(rig)[:2])
    rig.daemon.wait_log("can't be set")
    wait_healthy(rig)
    rig.check_quiet()


def serve_dns(sock):
    """Answers questions for IPv4 addresses with 127.0.0.1, others with
    nothing, until an empty one comes."""
    while True:
        query, client = sock.recvfrom(512)
        if not query:
            return
        end = query.index(b"\0", 12) + 5
        asked_v4 = query[end - 4:end - 2] == b"\0\1"
        answer = (b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1"
                  if asked_v4 else b"")
        sock.sendto(query[:2] + b"\x81\x80\0\1\0" + bytes([asked_v4])
                    + bytes(4) + query[12:end] + answer, client)


def test_the_api_servers_name_is_looked_up(rig, tmp_path):
    """By a thread, and with all that the C library does for it."""
    text = rig.daemon.kubeconfig.read_text()
    assert "127.0.0.1" in text
    rig.daemon.kubeconfig.write_text(
        text.replace("127.0.0.1", "api.example.com"))
    resolv = tmp_path / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\n")
    rig.daemon.wrapper = ("unshare", "-m", "sh", "-c", "mount --bind %s "
                          "/etc/resolv.conf && exec \"$@\"" % resolv, "sh")
    with setns.call(rig.ns.name, socket.socket, socket.AF_INET,
                    socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 53))
        thread = threading.Thread(target=serve_dns, args=(sock,))
        thread.start()
        try:
            rig.start_daemon()
        finally:
            with setns.call(rig.ns.name, socket.socket, socket.AF_INET,
                            socket.SOCK_DGRAM) as end:
                end.sendto(b"", sock.getsockname())
            thread.join()
    rig.check_quiet()
