# SPDX-License-Identifier: Apache-2.0
"""What stands in conf/kubernetes is what the daemon has, needs and reads."""
import re
import subprocess

import pytest
import yaml

from support import manifests
from support.daemon import binary
from support.manifests import ROOT, container, daemonset

POD = daemonset()["spec"]["template"]["spec"]
MOUNTS = {m["mountPath"]: m for m in container()["volumeMounts"]}
HOST = {v["name"]: v["hostPath"]["path"] for v in POD["volumes"]
        if "hostPath" in v}


def said(*arguments):
    """What the program prints."""
    return subprocess.run([binary(), *arguments], capture_output=True,
                          text=True, check=True).stdout


def default(key):
    """The default of a key of antrea-agent.conf."""
    line = next(line for line in (ROOT / "docs/configuration.md")
                .read_text().splitlines() if line.startswith("| `%s`" % key))
    return line.split("|")[2].strip().strip("`")


def source(name):
    """A file of the program."""
    return (ROOT / name).read_text()


def without_nulls(value):
    """A mapping without what is null or empty in it."""
    if not isinstance(value, dict):
        return value
    return {key: kept for key, kept in (
        (key, without_nulls(one)) for key, one in value.items())
            if kept not in (None, {})}


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_overlays_build(name):
    """Each has all objects, and a file that the program takes."""
    built = manifests.built(name)
    assert all(obj["metadata"]["namespace"] == "kube-system"
               for kind in built for obj in built[kind]
               if not kind.startswith("Cluster"))
    assert ("Role" in built) == (name == "multicluster")
    [config], [daemons] = built["ConfigMap"], built["DaemonSet"]
    volumes = daemons["spec"]["template"]["spec"]["volumes"]
    assert config["metadata"]["name"] in {
        v["configMap"]["name"] for v in volumes if "configMap" in v}
    assert list(config["data"]) == ["antrea-agent.conf"]


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_overlays_differ_in_what_they_are_for(name):
    """The file is the whole commented one, with a few keys set."""
    folder = "base" if name == "encap" else "overlays/" + name
    path = manifests.KUBERNETES / folder / "antrea-agent.conf"
    assert said("--check-config", path) == "%s: ok\n" % path
    wanted = {"antreaProxy": {"proxyAll": True}}
    if name == "multicluster":
        wanted.update(multicluster={"enableGateway": True},
                      featureGates={"Multicluster": True})
    elif name != "encap":
        wanted["trafficEncapMode"] = name
    assert without_nulls(yaml.safe_load(path.read_text())) == wanted
    assert (len(path.read_text().splitlines())
            == len(said("--print-config").splitlines()))


def test_bindings_bind_what_is_there():
    """Each role to the ServiceAccount that the pods have."""
    [account] = manifests.load("base/serviceaccount.yaml")
    assert POD["serviceAccountName"] == account["metadata"]["name"]
    for name in ("base/rbac.yaml", "overlays/multicluster/rbac.yaml",
                 manifests.TRANSPORT + "/rbac.yaml"):
        role, binding = manifests.load(name)
        assert binding["kind"] == role["kind"] + "Binding"
        assert binding["roleRef"]["kind"] == role["kind"]
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert [(s["kind"], s["name"]) for s in binding["subjects"]] == [
            ("ServiceAccount", account["metadata"]["name"])]


def test_paths_are_those_of_the_program():
    """Every mount is needed, and every path of the program is mounted."""
    assert set(MOUNTS) == {"/etc/ofproxyd", default("ovsRunDir"),
                           "/host/proc/sys/net"}
    assert ('#define DEFAULT_CONFIG "/etc/ofproxyd/antrea-agent.conf"'
            in source("src/main.c"))
    assert '#define HOST "/host"' in source("src/host/procsys.c")
    for path, mount in MOUNTS.items():
        assert HOST.get(mount["name"], path) == path.replace("/host", "")
        assert mount.get("readOnly", False) == (path == "/etc/ofproxyd")
    assert container()["args"] == ["--config=/etc/ofproxyd/antrea-agent.conf"]
    [env] = container()["env"]
    assert 'getenv("%s")' % env["name"] in source("src/main.c")


def test_ports_and_pages_are_those_of_the_program():
    """The kubelet asks where the program answers."""
    address = default("antreaProxy.serviceHealthCheckServerBindAddress")
    [port] = container()["ports"]
    assert address == "0.0.0.0:%d" % port["containerPort"]
    assert port["hostPort"] == port["containerPort"]
    for kind, page in ("livenessProbe", "/livez"), ("readinessProbe",
                                                    "/readyz"):
        probe = container()[kind]
        assert probe["httpGet"] == {"path": page, "port": port["name"]}
        assert '"%s"' % page in source("src/serve/web.c")


def test_no_right_is_given_that_is_not_needed():
    """Capabilities, file system, privileges."""
    context = container()["securityContext"]
    needed = re.findall(r"CAP\((\w+), true,",
                        source("include/ofproxyd/base/confine.h"))
    assert context == {
        "runAsUser": 0, "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": needed},
        "seccompProfile": {"type": "RuntimeDefault"}}
    assert POD["hostNetwork"] is True
    assert not {"hostPID", "hostIPC", "initContainers"} & set(POD)


def test_the_image_is_of_this_version():
    """A release does not deploy another."""
    version = re.search(r"^VERSION\s*:= (\S+)", source("Makefile"), re.M)[1]
    assert said("--version") == "ofproxyd %s\n" % version
    [image] = yaml.safe_load((manifests.KUBERNETES / "base/kustomization.yaml")
                             .read_text())["images"]
    assert image == {"name": container()["image"], "newTag": version}


def test_memory_covers_what_was_measured():
    """docs/performance.md, at 10 000 Services of all kinds."""
    most = float(re.search(r"resident at most \| \*\*([\d.]+) MiB\*\*",
                           source("docs/performance.md"))[1])
    resources = container()["resources"]
    asked, limit = (int(resources[kind]["memory"].removesuffix("Mi"))
                    for kind in ("requests", "limits"))
    assert most < asked < limit and limit > 3 * most
