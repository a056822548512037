# SPDX-License-Identifier: Apache-2.0
"""ofproxyd as a service of systemd: the unit, and what the daemon tells."""
import re
import shutil
import socket

import pytest

from support import objects, proc
from support.daemon import Ofproxyd, binary
from support.manifests import ROOT

UNIT = ROOT / "conf/ofproxyd.service"


@pytest.fixture(name="analyze")
def _analyze():
    """A function that runs systemd-analyze."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    return lambda *args: proc.run("systemd-analyze", *args, check=False)


def test_systemd_takes_every_line_of_the_unit(analyze, tmp_path):
    """With the program where it is."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/sbin/ofproxyd",
                                             str(binary().resolve())))
    done = analyze("verify", "--man=no", unit)
    ours = [line for line in (done.stdout + done.stderr).splitlines()
            if "ofproxyd" in line]
    assert not ours
    with open(unit, "a", encoding="ascii") as text:
        text.write("[Service]\nProtectEverything=yes\n")
    assert "ProtectEverything" in analyze("verify", "--man=no", unit).stderr


def test_the_unit_is_hardened(analyze):
    """As systemd counts it, from 0 to 10: what is left is the network."""
    done = analyze("security", "--offline=true", "--threshold=26", UNIT)
    assert done.returncode == 0, done.stdout


def test_the_unit_gives_no_more_than_the_manifests_could():
    """The capabilities that the daemon keeps, and where it writes."""
    text = UNIT.read_text()
    kept = re.findall(r"CAP\((\w+), (?:true|false),", (
        ROOT / "include/ofproxyd/base/confine.h").read_text())
    assert (re.search(r"^CapabilityBoundingSet=(.*)", text, re.M)[1].split()
            == ["CAP_" + name for name in kept])
    assert re.search(r"^ReadWritePaths=(.*)", text,
                     re.M)[1] == "-/run/openvswitch"


def test_systemd_is_told_of_start_life_and_end(switch, apiserver, tmp_path):
    """Also while there is no API server."""
    apiserver.apply(objects.node("n1", ("10.10.1.0/24",)))
    apiserver.stop()
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.settimeout(20)
        daemon = Ofproxyd(tmp_path / "daemon", apiserver, switch, wrapper=(
            "env", "NOTIFY_SOCKET=%s" % path, "WATCHDOG_USEC=400000"))
        with daemon:
            assert sock.recv(99) == b"READY=1"
            for _ in range(3):
                assert sock.recv(99) == b"WATCHDOG=1"
            assert daemon.terminate() == 0
        seen = [sock.recv(99)]
        while seen[-1] != b"STOPPING=1":
            seen.append(sock.recv(99))
        assert set(seen[:-1]) <= {b"WATCHDOG=1"}


