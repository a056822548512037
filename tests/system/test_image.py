# SPDX-License-Identifier: Apache-2.0
"""The container image: the daemon runs from its root file system as the
DaemonSet says, with nothing more than that, and needs all of it."""
import os
import pathlib
import signal
import subprocess

import pytest

from support import image, manifests, objects, proc
from support.apiserver import ApiServer
from support.httpclient import get
from support.traffic import Client, Server, ask_once
from support.wait import tail, wait_for

VIP = "10.96.0.10"
PORT = 10256
ACCOUNT = "/" + image.ACCOUNT
NET = "/host/proc/sys/net"
RUN = "/var/run/openvswitch"


@pytest.fixture(scope="module", name="built")
def _built(tmp_path_factory):
    """The image."""
    image.need_tools()
    return image.Image(tmp_path_factory.mktemp("image")).build()


@pytest.fixture(scope="module", name="root")
def _root(built):
    """The root of a container of it."""
    return built.root()


class Container:
    """The DaemonSet's container on a node, with the token of its account for
    an API server that has TLS."""

    def __init__(self, directory, root, node, api):
        self.dir, self.root, self.node = directory, root, node
        self.log = directory / "log"
        self._process = None
        self.options = {}       # Of image.contained().
        for name, files in (
                ("account", {"token": next(iter(api.tokens)),
                             "ca.crt": api.ca.cert.read_text()}),
                ("config", {"antrea-agent.conf": (
                    manifests.KUBERNETES / "base/antrea-agent.conf"
                ).read_text().replace("\n#ovsDatapathType: system\n",
                                      "\novsDatapathType: netdev\n")})):
            (directory / name).mkdir()
            for file_name, text in files.items():
                (directory / name / file_name).write_text(text)
        self.mounts = {ACCOUNT: directory / "account",
                       "/etc/ofproxyd": directory / "config",
                       RUN: node.switch.dir, NET: "/proc/sys/net"}
        assert set(self.mounts) - {ACCOUNT} == {
            m["mountPath"] for m in manifests.container()["volumeMounts"]}
        self.env = {"NODE_NAME": "n1", "PATH": "/usr/sbin:/usr/bin",
                    "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                    "KUBERNETES_SERVICE_PORT": str(api.port)}

    def command(self, *args):
        """A command inside."""
        return image.contained(self.root, self.mounts, *args, env=self.env,
                               **self.options)

    def start(self):
        """Starts the daemon."""
        with open(self.log, "ab") as log:
            self._process = proc.start(*self.command(
                "/usr/sbin/ofproxyd", *manifests.container()["args"]),
                netns=self.node.name, stderr=log)
        return self

    def stop(self):
        """As the kubelet does: SIGTERM for process 1; its exit status."""
        if self._process and self._process.poll() is None:
            children = pathlib.Path("/proc/%d/task/%d/children" % (
                (self._process.pid,) * 2)).read_text().split()
            for pid in children:
                os.kill(int(pid), signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                proc.kill(self._process)
        return self._process and self._process.returncode

    def page(self, path):
        """The status of a page that the kubelet asks for; None: no answer."""
        try:
            return get(self.node.name, "127.0.0.1", PORT, path).status
        except OSError:
            return None

    def wait_ready(self):
        """Waits until the kubelet would say that it is."""
        def ready():
            assert self._process.poll() is None, self.dump()
            return self.page("/readyz") == 200

        wait_for(ready, 20, "readiness", self)
        return self

    def wait_said(self, text):
        """Waits until its log has a line with this."""
        def said():
            ended = self._process.poll() is not None
            found = text in self.log.read_text()
            assert found or not ended, self.dump()
            return found

        wait_for(said, 20, text, self)

    def dump(self):
        """For failure messages."""
        return tail(self.log)


@pytest.fixture(name="container")
def _container(root, node, tmp_path):
    """The container, not started, of a node with two pods and a Service."""
    with ApiServer(tmp_path / "api", tls=True, netns=node.name, tokens={
            "good": "system:serviceaccount:kube-system:ofproxyd"}) as api:
        api.apply_all([objects.node("n1", [str(c) for c in node.cidrs]),
                       objects.service("ns1", "web", [80], [VIP]),
                       objects.slice_("ns1", "web", ["10.10.1.3"], [80])])
        made = Container(tmp_path, root, node, api)
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture(name="pods")
def _pods(container, node):
    """A client and a server, on the bridge that the daemon has made."""
    container.start().wait_ready()
    client, web = node.add_pod("client"), node.add_pod("web")
    with Server(web, "web", tcp=[80]):
        wait_for(lambda: ask_once(client, VIP, 80)["answers"], 20,
                 "an answer", container)
        yield client, web


def test_the_image_says_what_it_is(built):
    """Labels for those who list what there is."""
    config = built.config()
    assert config["Entrypoint"] == ["/usr/sbin/ofproxyd"]
    labels = {key.rpartition(".")[2]: value
              for key, value in config["Labels"].items()
              if key.startswith("org.opencontainers.image.")}
    assert labels["title"] == "ofproxyd"
    assert labels["licenses"] == "Apache-2.0"
    assert "ofproxyd " + labels["version"] == proc.output(
        image.binary(), "--version").strip()


def test_the_daemon_serves_from_the_image(container, node, pods):
    """Pods and the node itself, and nothing is missing."""
    assert container.page("/livez") == 200
    for client in pods[0], node:
        assert ask_once(client, VIP, 80)["answers"] == {"web": 1}
    assert node.run("sysctl", "-n",
                    "net.ipv4.conf.antrea-gw0.rp_filter").stdout == "2\n"
    wait_for(lambda: proc.output(
        *container.command("ofproxyctl", "sync"), netns=node.name
    ).startswith("in sync: yes"), 10, "ofproxyd in sync", container)
    warnings = [line for line in container.log.read_text().splitlines()
                if "|WARN|" in line or "|ERR|" in line]
    assert not warnings
    assert container.stop() == 0


def test_an_update_loses_nothing(container, node, pods):
    """One container ends and the next one begins, as with a rolling
    update."""
    with Client(pods[0], "connect", VIP, 80, interval=0.002, least=11) as new, \
            Client(pods[0], "hold", VIP, 80, interval=0.005, least=11) as held, \
            Client(node, "connect", VIP, 80, interval=0.005, least=11) as host:
        for _ in range(2):
            container.stop()
            assert container.page("/livez") is None
            container.start().wait_ready()
    for client in new, held, host:
        assert client.result["n"] > 10
        assert not client.result["n_failures"], client.result["failures"]


@pytest.mark.parametrize("mount,said", [
    (NET, "rp_filter can't be set to 2: Read-only file system"),
    (RUN, "could not initialize control socket"),
    (ACCOUNT, "serviceaccount")])
def test_each_mount_is_needed(container, mount, said):
    """Without it the daemon says what is missing.  (Without /etc/ofproxyd it
    has the package's file, with all defaults.)"""
    del container.mounts[mount]
    container.start()
    container.wait_said(said)


def test_the_capability_is_needed(container):
    """Without it there are no routes, rules and settings."""
    container.options["capabilities"] = []
    container.start()
    container.wait_said("CAP_NET_ADMIN is missing")


def files(root):
    """All files, without what dpkg notes about packages."""
    found = proc.output("find", root, "-not", "-type", "d", "-printf", "%P\n")
    return {name for name in found.splitlines()
            if not name.startswith(("var/lib/dpkg/", "var/log/"))}


def test_the_package_is_removed_without_a_trace(built):
    """Removed, it leaves its configuration; purged, nothing."""
    root = built.root()

    def dpkg(*args):
        return proc.output("chroot", root, "dpkg", *args)

    mine = {name.lstrip("/") for name in dpkg("-L", "ofproxyd").split("\n")
            if name and not (root / name.lstrip("/")).is_dir()}
    conf = {"etc/ofproxyd/antrea-agent.conf", "etc/default/ofproxyd"}
    assert {"usr/sbin/ofproxyd", "usr/sbin/ofproxyctl",
            "usr/lib/systemd/system/ofproxyd.service", *conf} <= mine
    before = files(root)
    dpkg("--remove", "ofproxyd")
    assert files(root) == before - mine | conf
    dpkg("--purge", "ofproxyd")
    assert files(root) == before - mine
    assert not (root / "etc/ofproxyd").exists()


def test_an_upgrade_keeps_the_configuration(built):
    """A file that was changed stays as it is, without a question."""
    root = built.root()
    conf = root / "etc/ofproxyd/antrea-agent.conf"
    conf.write_text("trafficEncapMode: noEncap\n")
    (root / "tmp/new.deb").write_bytes(built.deb.read_bytes())
    proc.run("chroot", root, "dpkg", "--install", "/tmp/new.deb",
             stdin=subprocess.DEVNULL)
    assert conf.read_text() == "trafficEncapMode: noEncap\n"
    done = proc.output("chroot", root, "ofproxyd", "--check-config",
                       "/etc/ofproxyd/antrea-agent.conf")
    assert done.endswith(": ok\n")
