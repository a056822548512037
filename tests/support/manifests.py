# SPDX-License-Identifier: Apache-2.0
"""conf/kubernetes as objects: as files, and as kustomize builds them."""
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "conf/kubernetes"
OVERLAYS = ("encap", "noEncap", "hybrid", "multicluster")
TRANSPORT = "components/transport-interface"


def load(name):
    """The objects of a file in conf/kubernetes."""
    return list(yaml.safe_load_all((KUBERNETES / name).read_text()))


def cache():
    """Where what takes long to make is kept (scripts/build-ovs)."""
    return pathlib.Path(
        os.environ.get("OFPROXYD_CACHE")
        or (os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        / pathlib.Path("ofproxyd"))


def cluster_program(name):
    """A program that tests/conformance/build has made, or None."""
    found = [path for path in cache().glob("kubelab-*/" + name)
             if (path.parent / "complete").exists()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def kubectl():
    """The program, built or on the PATH; skips without it."""
    path = cluster_program("kubectl") or shutil.which("kubectl")
    if not path:
        pytest.skip("no kubectl: `make conformance-build`")
    return path


def build(folder):
    """The text that kustomize makes of a folder."""
    done = subprocess.run([kubectl(), "kustomize", folder],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr     # Deprecated fields.
    return done.stdout


def built(name):
    """The objects of an overlay by kind; a list, if there are several."""
    result = {}
    for obj in yaml.safe_load_all(build(KUBERNETES / "overlays" / name)):
        result.setdefault(obj["kind"], []).append(obj)
    return result


def daemonset():
    """The DaemonSet of the base."""
    [obj] = load("base/daemonset.yaml")
    return obj


def container():
    """Its only container."""
    [result] = daemonset()["spec"]["template"]["spec"]["containers"]
    return result


def rights(*names):
    """(group, resource, verb) of all that the files' roles allow."""
    return {(group, resource, verb)
            for name in names for obj in load(name)
            if obj["kind"] in ("Role", "ClusterRole")
            for rule in obj["rules"] for group in rule["apiGroups"]
            for resource in rule["resources"] for verb in rule["verbs"]}
