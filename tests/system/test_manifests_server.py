# SPDX-License-Identifier: Apache-2.0
"""conf/kubernetes and a real kube-apiserver: it takes all of it, strictly, and
gives the daemon the rights that it needs.

Skipped where `make conformance-build` has made no kube-apiserver."""
import json
import os
import pathlib
import shutil
import time

import pytest
import yaml

from support import manifests, objects, proc
from support.daemon import Ofproxyd, kubeconfig
from support.netns import Namespace
from support.ovs import PrivateSwitch
from support.wait import tail, wait_for

SERVER = "https://127.0.0.1:6443"
CONNECT_S = 10                  # HTTP_CONNECT_MS
ACCOUNT = "system:serviceaccount:kube-system:ofproxyd"


class RealServer:
    """etcd and kube-apiserver in a network namespace of their own."""

    def __init__(self, directory, program):
        self.dir, self.program = directory, program
        self.ns = Namespace("server")
        self.pki = directory / "pki"
        self.logs = []

    def _start(self, name, *args):
        self.logs.append(self.dir / (name + ".log"))
        with open(self.logs[-1], "ab") as log:
            self.ns.start(self.program, name, *args, cwd=self.dir,
                          stdout=log, stderr=log)

    def __enter__(self):
        proc.run(self.program, "pki", "--dir", self.pki, "--server", SERVER,
                 "--sans", "127.0.0.1")
        self._start("etcd", "--data-dir", self.dir / "etcd")
        self._start(
            "apiserver", "--etcd-servers=http://127.0.0.1:2379",
            "--secure-port=6443", "--bind-address=127.0.0.1",
            "--advertise-address=192.0.2.1",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--tls-cert-file=%s/apiserver.crt" % self.pki,
            "--tls-private-key-file=%s/apiserver.key" % self.pki,
            "--client-ca-file=%s/ca.crt" % self.pki,
            "--cert-dir=%s/tmp" % self.pki,
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=%s/sa.key" % self.pki,
            "--service-account-signing-key-file=%s/sa.key" % self.pki,
            "--authorization-mode=Node,RBAC")
        wait_for(lambda: self.kubectl("get", "--raw", "/readyz", check=False)
                 == "ok", 90, "kube-apiserver", self)
        wait_for(lambda: self.kubectl("get", "namespace", "kube-system",
                                      check=False), 30, "kube-system", self)
        return self

    def __exit__(self, *_):
        self.ns.close()

    def kubectl(self, *args, **more):
        """A command of kubectl; its output."""
        return proc.output(manifests.kubectl(), "--kubeconfig",
                           self.pki / "kubeconfig", *args,
                           netns=self.ns.name, **more)

    def apply(self, text, *options):
        """Server-side, with every field checked."""
        return self.kubectl("apply", "--server-side", "--validate=strict",
                            *options, "-f", "-", input=text)

    def dump(self):
        """For failure messages."""
        return "".join(tail(log) for log in self.logs)


@pytest.fixture(scope="module", name="server")
def _server(tmp_path_factory):
    """A kube-apiserver to which the base has been applied."""
    program = manifests.cluster_program("kubelab")
    if not program or os.geteuid():
        pytest.skip("no kube-apiserver: `make conformance-build`, as root")
    manifests.kubectl()
    with RealServer(tmp_path_factory.mktemp("server"), program) as made:
        made.apply(manifests.build(manifests.KUBERNETES / "base"))
        yield made


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_every_overlay_is_taken(server, name):
    """And a second time nothing is to be changed."""
    text = manifests.build(manifests.KUBERNETES / "overlays" / name)
    said = server.apply(text).splitlines()
    assert all(line.endswith("serverside-applied") for line in said)
    assert len(said) == len(list(yaml.safe_load_all(text)))


def test_a_field_that_does_not_exist_is_refused(server):
    """So that what is taken says something."""
    obj = manifests.daemonset()
    obj["spec"]["template"]["spec"]["hostNetworks"] = True
    with pytest.raises(proc.CommandFailed, match="hostNetworks"):
        server.apply(json.dumps(obj), "--dry-run=server", "-n",
                     "kube-system")


def test_the_component_is_taken(server, tmp_path):
    """By the side of an overlay."""
    folder = pathlib.Path(shutil.copytree(manifests.KUBERNETES,
                                          tmp_path / "kubernetes"))
    with open(folder / "overlays/hybrid/kustomization.yaml", "a",
              encoding="ascii") as text:
        text.write("components:\n  - ../../%s\n" % manifests.TRANSPORT)
    assert ("clusterrole.rbac.authorization.k8s.io/"
            "ofproxyd-transport-interface serverside-applied"
            in server.apply(manifests.build(folder / "overlays/hybrid"),
                            "--dry-run=server"))


def test_a_pod_of_the_daemonset_is_admitted(server):
    """Its priority, account, volumes and security context are."""
    template = manifests.built("encap")["DaemonSet"][0]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
           "metadata": {"name": "ofproxyd", "namespace": "kube-system"}}
    wait_for(lambda: server.kubectl(
        "get", "priorityclass", "system-node-critical", check=False), 30,
             "the priority class", server)
    made = json.loads(server.kubectl(
        "create", "--validate=strict", "--dry-run=server", "-o", "json",
        "-f", "-", input=json.dumps(pod)))
    assert made["spec"]["priority"] == 2000001000
    assert made["spec"]["containers"][0]["volumeMounts"][:3] == (
        manifests.container()["volumeMounts"])


def write_kubeconfig(server, folder):
    """With a token of the daemon's account."""
    token = folder / "token"
    token.write_text(server.kubectl("create", "token", "ofproxyd", "-n",
                                    "kube-system"))
    (folder / "kubeconfig").write_text(kubeconfig(
        SERVER, ca=server.pki / "ca.crt", token_file=token))


def test_the_daemon_works_with_the_rights_of_its_account(server, tmp_path):
    """With the token of its ServiceAccount it is in sync, and nothing was
    forbidden; others' objects it can't see."""
    node = objects.node("n1", ("10.10.1.0/24",))
    server.kubectl("create", "-f", "-", input=json.dumps(node))
    server.ns.batch("link add uplink type veth peer name uplink-peer",
                    "link set uplink-peer up", "link set uplink up",
                    "addr add 192.0.2.11/24 dev uplink")
    write_kubeconfig(server, tmp_path)
    with PrivateSwitch(tmp_path / "switch", netns=server.ns.name) as switch:
        with Ofproxyd(tmp_path / "daemon", tmp_path / "kubeconfig", switch,
                      antreaProxy={"proxyAll": True}) as daemon:
            daemon.wait_synced()
            daemon.wait_log("servicecidrs: listed")
            assert not [line for line in daemon.log_lines()
                        if "HTTP 403" in line]
    for verb, resource in (("get", "secrets"), ("list", "pods"),
                           ("patch", "nodes"), ("update", "services")):
        done = server.kubectl("auth", "can-i", verb, resource, "--as",
                              ACCOUNT, check=False)
        assert done.strip() == "no", (verb, resource)


@pytest.mark.parametrize("n_more", [0, 1000], ids=["plain", "packed"])
def test_lists_come_at_once(server, tmp_path, n_more):
    """Whatever their size: what libcurl has read of a list in HTTP/2, and not
    passed on yet, does not wait until a timer wakes it, that of connecting, or
    for ever.  Of what is packed it may pass on nothing for a while."""
    write_kubeconfig(server, tmp_path)
    if n_more:
        server.kubectl("create", "-f", "-", input=json.dumps({
            "apiVersion": "v1", "kind": "List", "items": [
                objects.slice_("default", "more", ["10.10.1.3"],
                               suffix=str(number))
                for number in range(n_more)]}))
    with PrivateSwitch(tmp_path / "switch", netns=server.ns.name) as switch:
        for number in range(1, 9):
            server.kubectl("create", "-f", "-", input=json.dumps(
                objects.slice_("default", "web%d" % n_more, ["10.10.1.3"],
                               suffix=str(number))))
            with Ofproxyd(tmp_path / str(number), tmp_path / "kubeconfig",
                          switch) as daemon:
                began = time.monotonic()
                daemon.wait_log("endpointslices: listed")
                assert time.monotonic() - began < CONNECT_S - 1, number
