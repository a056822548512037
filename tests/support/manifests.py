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


def kubectl():
    """The program ($KUBECTL, or the one on the PATH); skips without it."""
    path = shutil.which(os.environ.get("KUBECTL", "kubectl"))
    if not path:
        pytest.skip("no kubectl: set KUBECTL")
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
