# SPDX-License-Identifier: Apache-2.0
"""What scripts/quickstart shows (without its installing and building)."""
import os
import re
import subprocess
import sys

import pytest

from support import objects
from support.daemon import ROOT, api_kubeconfig
from support.wait import slowness


def quickstart(*args):
    """What it prints."""
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "quickstart.py", "--once", *args],
        env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"), check=True,
        stdout=subprocess.PIPE, text=True, timeout=120 * slowness()).stdout


def test_all_scenes_play_without_a_failed_connection():
    """To the end, and everything is taken away."""
    text = quickstart()
    failed = re.findall(r"(\d+) connections.*, (\d+) failed", text)
    assert len(failed) == 2
    assert all(int(n) > 100 and not int(bad) for n, bad in failed)
    assert "Connection refused" in text
    assert "0 flow puts, 0 flow deletes, 0 group puts" in text
    assert "taken away" in text.splitlines()[-1]


@pytest.mark.parametrize("mode,ways", [
    ("encap", {"geneve"}), ("noEncap", {"routed"}),
    ("hybrid", {"geneve", "routed"})], ids=["encap", "noEncap", "hybrid"])
def test_a_service_is_spread_over_nodes(mode, ways):
    """Every endpoint answers; the way between the nodes is shown."""
    text = quickstart("--nodes", "3" if mode == "hybrid" else "2", "--mode",
                      mode)
    assert re.search(r"n1-1:8080 .* \d+\n.*n2-1:8080 .* \d+", text)
    lines = re.findall(r" \d+ packets  (.*)", text)
    assert {way for way in ("geneve", "routed")
            for line in lines if way in line} == ways
    (n, bad), = re.findall(r"(\d+) connections.*, (\d+) failed", text)
    assert int(n) > 50 and not int(bad)
    assert "taken away" in text.splitlines()[-1]


def test_a_service_is_spread_over_clusters():
    """Pods of both answer; the way leads from gateway to gateway."""
    text = quickstart("--multicluster")
    for pod in ("n1-0", "n2-0", "n3-0", "n4-0"):
        assert re.search(pod + r":8080 .* \d+\n", text), text
    assert re.search(r"packets  192.0.2.11 → 10.97.0.1, in geneve "
                     r"192.0.2.11 → 198.51.100.13", text), text
    assert len(re.findall("ofproxyctl trace .* # node n[123]", text)) == 3
    assert re.search(r"Result: leaves by pod on port \d+ \(ns1/n3-0\)", text)
    (n, bad), = re.findall(r"(\d+) connections.*, (\d+) failed", text)
    assert int(n) > 50 and not int(bad)
    assert "taken away" in text.splitlines()[-1]


def test_a_real_cluster_is_only_read(tls_apiserver, tmp_path):
    """Its Services are on a private bridge; this machine stays as it is."""
    tls_apiserver.apply_all([
        objects.node("quickstart", ["10.10.1.0/24"]),
        objects.service("shop", "web"),
        objects.slice_("shop", "web", ["10.10.1.5"])])
    text = quickstart("--kubeconfig",
                      str(api_kubeconfig(tls_apiserver, tmp_path)))
    assert re.search(r"shop/web.* 10\.96\.0\.10 .*select", text)
    assert not os.path.exists("/sys/class/net/ofp-quickstart")
