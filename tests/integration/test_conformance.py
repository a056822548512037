# SPDX-License-Identifier: Apache-2.0
"""How results of Kubernetes' own tests are judged and told, without a
cluster (tests/conformance, scripts/conformance)."""
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import subprocess
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(path):
    """A program of the project as a module."""
    loader = importlib.machinery.SourceFileLoader(
        path.replace("/", "_"), str(ROOT / path))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("state, name, verdict", [
    ("passed", "plain", "passed"),
    ("failed", "plain", "failed"),
    ("timedout", "plain", "failed"),
    ("interrupted", "plain", "failed"),
    ("skipped", "plain", "failed"),
    ("skipped", "wants a cloud", "skipped"),
    ("passed", "wants a cloud", "passed"),
    ("failed", "wants a cloud", "failed"),
    ("failed", "never works", "skipped"),
    ("passed", "never works", "failed"),
    ("skipped", "never works", "failed"),
])
def test_only_what_is_known_may_fail_or_skip_itself(state, name, verdict):
    """And what is known to fail must."""
    e2e = load("tests/conformance/e2e")
    known = [e2e.Known("skip", "", "wants a cloud"),
             e2e.Known("fail", "", "never works", "", "wh[y]$")]
    result = e2e.Result(state, 1, "[sig-network] it " + name, "why")
    assert e2e.judge(result, known)[0] == verdict
    result.why = "another reason"
    assert e2e.judge(result, known)[0] == (
        "failed" if state == "failed" else verdict)


def test_what_is_known_has_a_reason():
    """And a stanza with a tag is for clusters with it only."""
    e2e = load("tests/conformance/e2e")
    known = e2e.load_known()
    text = (ROOT / "tests/conformance/known").read_text()
    assert len(known) == text.count("\n\n")
    assert all(k.reason and bool(k.says) == (k.kind == "fail") for k in known)
    assert e2e.Known("fail", "encap", "x").applies(["encap", "3nodes"])
    assert not e2e.Known("fail", "encap", "x").applies(["hybrid", "3nodes"])


def test_what_wants_the_same_ports_is_not_run_at_once():
    """Each test is selected by one pass."""
    e2e = load("tests/conformance/e2e")
    options = types.SimpleNamespace(out=pathlib.Path("out"), quick=False,
                                    focus=None)
    first = "[sig-network] Networking Granular Checks: Services should " \
        "function for service endpoints using hostNetwork"
    second = "[sig-network] [Feature:IPv6DualStack] Granular Checks: " \
        "Services Secondary IP Family [LinuxOnly] should function for " \
        "service endpoints using hostNetwork"

    def selected(name, *tags):
        return [str(out) for out, focus, skip in e2e.passes(options, [], tags)
                if re.search(focus, name)
                and not any(re.search(s, name) for s in skip)]

    assert selected(first, "dual") == selected(first) == ["out"]
    assert selected(second, "dual") == ["out/alone"]
    assert selected(second) == []
    assert selected(second.replace("hostNetwork", "pods"), "dual") == ["out"]


@pytest.mark.parametrize("rounds, text", [
    ([], "–"),
    ([("passed", 3, ""), ("passed", 7, "")], "7"),
    ([("passed", 3, ""), ("failed", 7, "why")], "failed 1 of 2"),
    ([("skipped", 3, "no cloud"), ("passed", 7, "")], "skips"),
    ([("skipped", 3, "fails as known: why")], "fails"),
])
def test_a_cell_tells_the_worst_of_all_rounds(rounds, text):
    """For docs/conformance.md."""
    assert load("scripts/conformance").cell(rounds) == text


@pytest.mark.parametrize("version", ["go1.19.8", ""])
def test_without_a_toolchain_it_is_one_skipped_test(tmp_path, version):
    """One that is too old or refuses is none."""
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho %s\ntest '%s'\n" % (version, version))
    go.chmod(0o755)
    done = subprocess.run(
        [ROOT / "scripts/conformance", "--quick"], text=True, check=False,
        capture_output=True, env={
            **os.environ, "O": str(tmp_path),
            "PATH": "%s:%s" % (tmp_path, os.environ["PATH"])})
    lines = done.stdout.splitlines()
    assert lines[0].startswith("conformance: skipped: ")
    assert lines[1:] == ["0 passed, 0 failed, 1 skipped"]
    assert done.returncode == 0
