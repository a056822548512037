# SPDX-License-Identifier: Apache-2.0
"""What moving a cluster to ofproxyd by docs/deployment.md has in common,
wherever it comes from: clients of all kinds that make connections to a Service
all the time, what they saw, commands and manifests read out of the document.
"""
import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import traceback
import types

import cluster

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support import proc                                # noqa: E402
from support.traffic import Client, Server, ask_once   # noqa: E402
from support.wait import slowness, tail, wait_for       # noqa: E402

KUBE_PROXY = HERE / "proxies" / "kube-proxy.yaml"
DOC = ROOT / "docs" / "deployment.md"
VIP, PORT, NODE_PORT, POD_PORT = "10.96.0.80", 80, 30080, 8080
# Each client asks so many questions at a time, waits so many seconds before
# the next one, and for an answer: one that is lost is no gap yet.
ASKING = {"concurrency": 8, "interval": 0.1, "timeout": 0.5}
HELD, OWN_PORT = 3, 61100       # Connections of a kind that must go on.
SOME = 5                        # Losses that are told one by one.
QUIET = 300                     # Questions while nothing happens.
LASTING = re.compile("held, .*TCP")
EPHEMERAL = 32768               # Ports from here on ofproxyd gives to nobody.
UP = 60                         # Seconds for a part to come up.
OURS = "0xf900000000000000/0xff00000000000000"  # The cookies of ofproxyd.
# Per cent of questions by UDP that are lost while nothing is done: those
# whose port meets one of kube-proxy's, which the kernel knows for minutes.
AT_ANY_TIME = 0.03
# How the document says how long clients are without an answer at most, and how
# many per cent of new connections are lost.
LONGEST = r"answer for more than ([\d.]+) s\b"
LOST = r"more than ([\d.]+) % of new conn"


def place(namespace):
    """Where a client or server runs, as support.traffic wants it."""
    return types.SimpleNamespace(name=namespace)


def told(pattern):
    """What the document says; a blank stands for any white space."""
    found = re.search(pattern.replace(" ", r"\s+"),
                      DOC.read_text(encoding="utf-8"), re.DOTALL)
    assert found, "%s does not say: %s" % (DOC, pattern)
    return found[1]


def promised(pattern):
    """A number that the document tells users."""
    return float(told(pattern))


def script(text):
    """What the document gives after a text, for a shell."""
    return textwrap.dedent(told(re.escape(text).replace(r"\ ", " ")
                                + r"\n\n((?:\x20{4}[^\n]+\n)+)"))


def commands(text):
    """The commands of it, each without a line break in it."""
    return script(text).replace("\\\n", " ").splitlines()


def objects(node):
    """A client and a server on a node; and the Service of all servers."""
    for kind in "client", "web":
        yield {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": "%s-%s" % (kind, node.name),
                            "labels": {"app": kind}},
               "spec": {"nodeName": node.name, "containers": [
                   {"name": "pause", "image": "pause"}]}}
    yield {"apiVersion": "v1", "kind": "Service",
           "metadata": {"name": "web"},
           "spec": {"type": "NodePort", "clusterIP": VIP,
                    "selector": {"app": "web"}, "ports": [
                        {"name": protocol.lower(), "protocol": protocol,
                         "port": PORT, "targetPort": POD_PORT,
                         "nodePort": NODE_PORT}
                        for protocol in ("TCP", "UDP")]}}


def ready_since(pod):
    """When a pod has become ready; None if it is not."""
    return next((c["lastTransitionTime"]
                 for c in pod["status"].get("conditions", ())
                 if c["type"] == "Ready" and c["status"] == "True"), None)


class Moving:
    """The cluster, and what is measured.  'mode' is kube-proxy's, one of
    'modes'; what serves pods, and the way to the other nodes, is for a
    subclass."""
    overlay = "encap"
    modes = "nftables", "iptables"
    daemon_sets = {"kube-proxy": "k8s-app=kube-proxy",
                   "ofproxyd": "app.kubernetes.io/name=ofproxyd"}
    lasting = ()                # The ways whose connections must go on.

    def __init__(self, lab, mode, stack):
        self.lab = lab
        self.folder = lab.state / "deploy" / "folder"
        self.gaps = collections.defaultdict(dict)
        self.ports = itertools.count(OWN_PORT)
        for node in lab.nodes:
            # The kernel sees pods' ARP requests on their links and would
            # answer with these links' addresses; ofproxyd forbids it as well.
            cluster.sh(*cluster.in_ns(node.name, "sysctl", "-qw",
                                      "net.ipv4.conf.all.arp_ignore=1"))
            for obj in objects(node):
                lab.kubectl("apply", "-f", "-", text=json.dumps(obj))
        lab.wait("pods", lambda: lab.kubectl(
            "get", "pods", "-o", "jsonpath={.items[*].status.conditions"
            "[?(@.type=='Ready')].status}").split() == ["True"] * 4)
        self.prepare(mode)
        for node in lab.nodes:
            stack.enter_context(Server(
                self.pod("web", node), "web-" + node.name,
                tcp=[POD_PORT], udp=[POD_PORT]))

    def prepare(self, mode):
        """What a cluster has: by default kube-proxy."""
        self.lab.kubectl("apply", "-f", "-", text=KUBE_PROXY.read_text(
            encoding="utf-8").replace("SERVER", self.server()).replace(
                "MODE", mode))
        self.run("kubectl -n kube-system rollout status daemonset/kube-proxy")

    def server(self):
        """The API server, by an address that is no Service's."""
        return "https://%s:6443" % self.lab.infra[0]

    def run(self, command, node=None, pod=None):
        """What a command of the document prints, in the user's folder."""
        if node:
            command = re.sub(r"\bNODE\b", node.name, command)
        if pod:
            command = command.replace("daemonset/ofproxyd", pod)
        return cluster.sh(*cluster.in_ns("infra", "sh", "-c", command),
                          cwd=self.folder if self.folder.exists() else None,
                          env=self.lab.environment(), timeout=10 * UP)

    def write_folder(self, text, tag="", more="", **settings):
        """The user's folder: the document's kustomization for the mode of
        this cluster, with 'more' of the document; and the configuration file
        'text' with some settings."""
        source = self.folder.parent / "ofproxyd" / "conf"
        if not source.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.copytree(ROOT / "conf", source)
        made = told(r"```\n(# kustomization.yaml\n.*?)```")
        assert "overlays/encap" in made, made
        made = made.replace("overlays/encap", "overlays/" + self.overlay)
        name = "newName: images.example.org/ofproxyd\n"
        assert name in made, made
        (self.folder / "kustomization.yaml").write_text(more + made.replace(
            name, name + ("    newTag: %s\n" % tag if tag else "")))
        for key, value in dict(settings, kubeAPIServerOverride=self.server(),
                               ovsDatapathType="netdev").items():
            text, n = re.subn("^#?( *)%s: .*$" % key,
                              r"\g<1>%s: %s" % (key, value), text,
                              flags=re.MULTILINE)
            assert n == 1, key
        (self.folder / "antrea-agent.conf").write_text(text)
        return self.run(os.environ["OFPROXYD"]
                        + " --check-config antrea-agent.conf 2>&1")

    def pod(self, kind, node):
        """A pod's place; its link is named as its namespace is."""
        name = cluster.sh(
            "ovs-vsctl", "--db=unix:%s/db.sock" % node.ovs, "--bare",
            "--columns=name", "find", "Interface",
            "external_ids:pod-name=%s-%s" % (kind, node.name)).strip()
        return place("%s%s-%s" % (cluster.PREFIX, node.name, name[1:]))

    def ways(self, node):
        """All kinds of clients that use a node: (place, address, port)."""
        host = place(cluster.PREFIX + node.name)
        outside = place(cluster.PREFIX + "infra")
        return {"pod": (self.pod("client", node), VIP, PORT),
                "node": (host, VIP, PORT),
                "node, NodePort": (host, node.ips[0], NODE_PORT),
                "outside, NodePort": (outside, node.ips[0], NODE_PORT)}

    def clients(self, node, **more):
        """(kind, client) of all, each asking from now on."""
        for kind, way in self.ways(node).items():
            for proto in "tcp", "udp":
                yield "%s, %s" % (kind, proto.upper()), Client(
                    way[0], "connect", *way[1:], proto=proto,
                    **dict(ASKING, **more), **self.asking(kind))

    def asking(self, _kind):
        """More options of such clients."""
        return {}

    def held(self, node, kinds=None, timeouts=(("tcp", 10),)):
        """(kind, client) of connections that must go on, from ports that no
        other client has."""
        for kind in self.lasting if kinds is None else kinds:
            way = self.ways(node)[kind]
            for proto, timeout in timeouts * HELD:
                yield "held, %s, %s" % (kind, proto.upper()), self.hold(
                    node, way, proto=proto, timeout=timeout, interval=0.1)

    def hold(self, node, way, **more):
        """One of them."""
        while True:
            port = next(self.ports)
            client = Client(way[0], "hold", *way[1:], source_port=port, **more)
            if self.may_last(node, port):
                return client
            client.stop()

    @staticmethod
    def may_last(node, port):
        """Whether it is no matter of chance that one with this port goes on:
        the document says which ports of kube-proxy's may be given to another
        connection by ofproxyd."""
        answers = re.findall(r" dport=(\d+) ", cluster.sh(*cluster.in_ns(
            node.name, "conntrack", "-L", "-p", "tcp", "--orig-port-src",
            str(port))))[1::2]
        return all(int(to) >= EPHEMERAL for to in answers)

    @contextlib.contextmanager
    def traffic(self, step, *makers):
        """Clients of all nodes while the block runs; notes what they saw."""
        with contextlib.ExitStack() as stack:
            running = [(kind, stack.enter_context(client))
                       for node in self.lab.nodes for make in makers
                       for kind, client in make(node)]
            try:
                yield
            finally:            # Each client tells at its end.
                stack.close()
                self.note(step, running)

    def quiet(self):
        """What the clients see while nothing happens, to compare with."""
        running = [one for node in self.lab.nodes
                   for one in self.clients(node, count=QUIET)]
        for _, client in running:
            client.wait()
        self.note("nothing", running)

    def note(self, step, running):
        """Of each kind of client the worst of a step."""
        for kind, client in running:
            result = client.result
            if LASTING.match(kind):
                assert not result["n_failures"], (kind, result)
                continue
            if result["failures"]:
                print("  %-12s %-22s lost: %s" % (step, kind, ", ".join(
                    "%s after %.3f s at %.2f s" % (f["kind"], f["after"],
                                                 f["at"])
                    for f in result["failures"][:SOME])))
            gap, lost, asked = self.gaps[kind].get(step, (0, 0, 0))
            self.gaps[kind][step] = (
                max(gap, result["gap"]), lost + result["n_failures"],
                asked + result["n_failures"] + result["n"])

    def settle(self):
        """Waits until all kinds of clients get answers of all servers."""
        servers = {"web-" + node.name for node in self.lab.nodes}
        for node in self.lab.nodes:
            for kind, way in self.ways(node).items():
                wait_for(lambda way=way: set(Client(
                    way[0], "connect", *way[1:], count=20,
                    timeout=1).wait()["answers"]) == servers, UP,
                         "%s of %s" % (kind, node.name), self.dump)

    def dump(self):
        """For failure messages."""
        return "".join(tail(path) for path in self.keep_logs())

    def keep_logs(self):
        """Writes down what the proxies' pods say; the files."""
        for name in self.daemon_sets:
            for pod in self.pods(name).values():
                path = self.lab.logs / (pod["metadata"]["name"] + ".log")
                path.write_text(self.lab.kubectl(
                    "-n", "kube-system", "logs", pod["metadata"]["name"]),
                                encoding="utf-8")
                yield path

    def pods(self, name="ofproxyd"):
        """The pods of a DaemonSet, by node."""
        found = json.loads(self.lab.kubectl(
            "-n", "kube-system", "get", "pods", "-o", "json", "-l",
            self.daemon_sets[name]))["items"]
        return {pod["spec"].get("nodeName"): pod for pod in found}

    def wait_synced(self, node):
        """Looks at a node as the document says."""
        [*_, sync] = commands("says what is wrong with it. Then")

        def is_synced():
            pod = self.pods().get(node.name)
            try:
                return pod and self.run(sync, pod=pod["metadata"]["name"]
                                        ).startswith("in sync: yes")
            except RuntimeError:
                return False

        self.lab.wait("ofproxyd in sync", is_synced)

    def off_kube_proxy(self, node):
        """Steps 4 and 5 of the way from kube-proxy, on one node."""
        assert self.of_kube_proxy(node)
        list(self.keep_logs())
        began = time.monotonic()
        for command in commands("Step 4:"):
            self.run(command, node)
        took = time.monotonic() - began
        limit = promised(r"pod is ready within ([\d.]+) s\b") * slowness()
        print("%s: ready after %.1f s, of %.1f s" % (node.name, took, limit))
        assert took < limit
        self.debug("VERSION being that of the DaemonSet's image:", node)
        left = self.of_kube_proxy(node)
        assert not left, left

    def on_kube_proxy(self, node):
        """And back: kube-proxy's rules are there again."""
        self.run(commands("put kube-proxy's on one node again:")[-1], node)
        self.lab.wait("kube-proxy", lambda: VIP in self.rules(node))

    def clean_up(self, node):
        """Takes away what ofproxyd has put on a node, where it runs no
        more."""
        return self.debug("(`--config`, with a copy of your file, if bridge "
                          "or gateway have other names; the pod goes as "
                          "above.)", node)

    def debug(self, text, node):
        """Runs a command of the document in a pod of its own; what it
        says."""
        [command] = commands(text)
        succeeded, logs, delete = commands("has succeeded, its pod goes:")
        self.run(command, node)
        self.run(succeeded)
        said = self.run(logs)
        self.run(delete)
        return said

    def rules(self, node):
        """The packet rules of a node."""
        return cluster.sh(*cluster.in_ns(node.name, "nft", "list", "ruleset"))

    def of_kube_proxy(self, node):
        """Those of kube-proxy, in whatever mode; one chain is the kubelet's,
        too."""
        return [line for line in self.rules(node).splitlines()
                if re.search(r"kube-proxy|KUBE-(?!FIREWALL\b)", line)]

    def flows(self, node, match=""):
        """Those of a node's bridge."""
        return [line for line in cluster.sh(
            "ovs-ofctl", "-O", "OpenFlow15", "dump-flows",
            "unix:%s/br-int.mgmt" % node.ovs, match).splitlines()
                if "cookie=" in line]

    def n_served(self, node, whose):
        """Packets that a bridge has led to the Service, by flows with such a
        cookie."""
        return sum(int(n) for flow in self.flows(node, "cookie=" + whose)
                   for n in re.findall(r"n_packets=(\d+),.*nw_dst=%s[ ,]"
                                       % re.escape(VIP), flow))

    def check_all(self, node):
        """All Services have answers, from all of their endpoints."""
        for kind, way in self.ways(node).items():
            result = Client(way[0], "connect", *way[1:], count=40).wait()
            assert set(result["answers"]) == {
                "web-" + n.name for n in self.lab.nodes}, (kind, result)
            if kind.startswith("outside"):
                continue
            for address, port in (cluster.API_VIP, 443), (cluster.DNS_VIP, 53):
                proc.run("timeout", "5", "bash", "-c", ": </dev/tcp/%s/%d"
                         % (address, port), netns=way[0].name)

    def check_bridge(self, node, whose=OURS, kinds=("pod", "node")):
        """It is the bridge that serves pods and the node, by flows with such
        a cookie."""
        ways = self.ways(node)
        for kind in kinds:
            before = self.n_served(node, whose)
            ask_once(ways[kind][0], *ways[kind][1:])
            wait_for(lambda before=before: self.n_served(node, whose)
                     > before, 5, "packets from the " + kind)


def check(migration):
    """All is served, by the bridges."""
    for node in migration.lab.nodes:
        migration.check_all(node)
        migration.check_bridge(node)


def judge(migration, step, longest, lost=None):
    """Tells what the clients saw in a step, and fails if it was too much:
    'longest' is how the document says how long there was no answer, 'lost'
    how many per cent of new connections were lost, or a number: none of TCP
    then."""
    worst = all_lost = all_asked = tcp_lost = 0
    for kind, steps in migration.gaps.items():
        for name in sorted({"nothing", step} & set(steps)):
            print("  %-12s %-22s %5.0f ms without an answer, %d of %d lost"
                  % (name, kind, 1000 * steps[name][0], *steps[name][1:]))
        if step not in steps:
            continue
        gap, n_lost, n_asked = steps[step]
        assert n_lost < n_asked, kind
        worst, all_lost, all_asked = (max(worst, gap), all_lost + n_lost,
                                      all_asked + n_asked)
        tcp_lost += n_lost if kind.endswith("TCP") else 0
    limit = promised(longest) * slowness()
    share = 100 * all_lost / all_asked
    print("%s: %.3f s without an answer, of %.3f s; %.2f %% lost"
          % (step, worst, limit, share))
    assert worst < limit
    if lost:
        allowed = promised(lost) if isinstance(lost, str) else lost
        assert share <= allowed * slowness()
    assert isinstance(lost, (str, type(None))) or not tcp_lost


def run(lab, kind, mode, steps):
    """All of it; how many steps passed, and failed."""
    passed = 0
    try:
        lab.start(2)
        with contextlib.ExitStack() as stack:
            migration = kind(lab, mode, stack)
            for step, (move, *most) in steps.items():
                began = time.monotonic()
                move(migration)
                list(migration.keep_logs())
                judge(migration, step, *most)
                print("%s: %.0f s" % (step, time.monotonic() - began))
                assert not lab.ended(), lab.ended()
                passed += 1
    except (AssertionError, RuntimeError, subprocess.TimeoutExpired):
        traceback.print_exc(file=sys.stdout)
    return passed, len(steps) - passed


def main(text, kind, steps):
    """The program: 'kind' of Moving, 'steps' as names and what is done, and
    how the document says what that costs (judge())."""
    build = ROOT / os.environ.get("O", "build")
    name = pathlib.Path(sys.argv[0]).name
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mode", choices=kind.modes, default=kind.modes[0],
                        help="kube-proxy's")
    parser.add_argument("--logs", type=pathlib.Path,
                        default=build / "conformance" / name / "logs")
    options = parser.parse_args()
    os.environ.setdefault("OFPROXYD", str(build / "ofproxyd"))
    programs = cluster.build()
    cluster.isolate()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    passed, failed = run(cluster.Cluster(programs, options.logs.resolve(),
                                         None), kind, options.mode, steps)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0
