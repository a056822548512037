# SPDX-License-Identifier: Apache-2.0
"""tests/conformance/scale measures what it says, in a small cluster.

Skipped where `make conformance-build` has made no kube-apiserver."""
import os
import re

import pytest

from support import manifests, proc
from support.daemon import ROOT, binary
from support.wait import slowness


def test_both_proxies_program_all_services_and_every_figure_is_there():
    """The program ends badly if a Service is missing."""
    if not manifests.cluster_program("kubelab") or os.geteuid():
        pytest.skip("no kube-apiserver: `make conformance-build`, as root")
    text = proc.output(
        ROOT / "tests/conformance/scale", "--services=20", "--endpoints=3",
        "--nodes=5", "--rounds=1", "--changes=2", "--idle=2",
        timeout=120 * slowness(), env={**os.environ,
                                       "OFPROXYD": str(binary())})
    rows = re.findall(r"^\| (.*?) \| (\S+) \| (\S+) \| (\S+) \|$", text, re.M)
    figures = {row[0]: row[1:] for row in rows[1:]}
    assert len(figures) == 17, text
    for name, row in figures.items():
        if not re.search("CPU|grew|nothing", name):
            assert all(float(number) > 0 for number in row), text
