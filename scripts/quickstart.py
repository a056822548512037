#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/quickstart shows; see there."""
import argparse
import collections
import contextlib
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

# pylint: disable=wrong-import-position
from support import ctl, objects                       # noqa: E402
from support.apiserver import ApiServer                # noqa: E402
from support.cluster import at                         # noqa: E402
from support.clusterset import ClusterSet              # noqa: E402
from support.daemon import Ofproxyd                    # noqa: E402
from support.multinode import SUBNETS, MultiCluster    # noqa: E402
from support.netns import Netns                        # noqa: E402
from support.ovs import PrivateSwitch                  # noqa: E402
from support.traffic import Client, Server, ask_once   # noqa: E402
from support.wait import wait_for                      # noqa: E402

WEB, WEB6, DNS, EMPTY = "10.96.0.10", "2001:db8:96::10", "10.96.0.53", \
    "10.96.0.99"
STYLE = {"bold": "1", "dim": "2", "green": "32", "blue": "36", "yellow": "33",
         "red": "31"}


def paint(text, *styles):
    """The text in a style, on a terminal that has them."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    codes = ";".join(STYLE[style] for style in styles)
    return "\033[%sm%s\033[0m" % (codes, text)


def say(text=""):
    """A line, at once."""
    print(text, flush=True)


def title(text):
    """The beginning of a scene."""
    say()
    say(paint("▌ " + text, "bold", "blue"))


def done(text):
    """A step that succeeded."""
    say("  %s %s" % (paint("✓", "green"), text))


def command(text):
    """A command that the reader could type."""
    say("  %s %s" % (paint("$", "dim"), paint(text, "bold")))


def bars(answers):
    """How often each endpoint answered, as bars."""
    total = sum(answers.values()) or 1
    for name, n in sorted(answers.items()):
        bar = "█" * max(1, round(24 * n / total))
        say("    %-7s %s %d" % (name, paint("%-24s" % bar, "green"), n))


def answer_line(result):
    """What became of one call, in words."""
    if result["n_failures"]:
        kind, = result["kinds"]
        words = {"ECONNREFUSED": "Connection refused",
                 "TimeoutError": "no answer"}.get(kind, kind)
        return "%s, after %.1f ms" % (
            paint(words, "yellow"), result["failures"][0]["after"] * 1000)
    name, = result["answers"]
    return "answered by %s, in %.1f ms" % (paint(name, "green"),
                                           result["max"] * 1000)


class Cluster:
    """A node with its switch, the API server, pods and the daemon."""

    def __init__(self, stack, directory):
        self.stack, self.dir = stack, directory
        maker = Netns()
        stack.callback(maker.close)
        self.node = maker.node("node", directory / "switch")
        # The link that would lead to other nodes, with the Node's address.
        self.node.batch("link add eth0 type veth peer name wire",
                        "link set eth0 up", "link set wire up",
                        "addr add 192.0.2.11/24 dev eth0")
        done("a private Open vSwitch with the userspace datapath")
        self.api = self.daemon = None
        self.pods = {}

    def start_api(self):
        """The scripted API server, over TLS, with a token."""
        self.api = self.stack.enter_context(ApiServer(
            self.dir / "apiserver", netns=self.node.name, tls=True,
            tokens={"quickstart-token": "system:node:n1"}))
        self.api.apply_all([
            objects.node("n1", [str(c) for c in self.node.cidrs]),
            objects.service("shop", "web", [80], [WEB, WEB6]),
            objects.service("shop", "dns", [objects.port(53, protocol="UDP")],
                            [DNS]),
            objects.service("shop", "empty", [80], [EMPTY]),
        ])
        done("an API server with a Node and three Services, at %s"
             % self.api.url)

    def start_pods(self):
        """Namespaces that run real servers, and a client."""
        for name in ("client", "web-1", "web-2", "web-3", "web-4", "dns-1"):
            self.pods[name] = self.node.add_pod(name, namespace="shop")
        for name, pod in self.pods.items():
            if name != "client":
                self.stack.enter_context(
                    Server(pod, name, tcp=[80], udp=[53]))
        done("six pods: network namespaces with a port on the bridge, %s "
             "to %s" % (self.pods["client"].address,
                        self.pods["dns-1"].address))

    def scale(self, *names):
        """Makes these pods all endpoints of the Service web."""
        with self.api.batch():
            for family in (4, 6):
                self.api.apply(objects.slice_(
                    "shop", "web",
                    [objects.endpoint(self.pods[n].of(family), "n1")
                     for n in names], [80],
                    suffix="v%d" % family,
                    family="IPv%d" % family))

    def start_daemon(self):
        """ofproxyd, with a real configuration file."""
        began = time.monotonic()
        self.daemon = Ofproxyd(
            self.dir / "ofproxyd", self.api, self.node.switch,
            antreaProxy={"proxyAll": True})
        self.stack.callback(self.daemon.stop)
        self.daemon.start()
        self.daemon.wait_synced()
        done("ofproxyd: made bridge and gateway; in sync after %.0f ms"
             % ((time.monotonic() - began) * 1000))

    def settle(self):
        """Waits until what was changed is on the bridge."""
        self.daemon.wait_synced()

    def counters(self):
        """What was sent to the switch since the daemon began."""
        line, = re.findall(r"^sent: (.*)$", self.daemon.appctl("sync"),
                           re.M)
        return line


def show_flows(cluster):
    """The bridge, as an operator sees it."""
    title("What is on the bridge")
    command("ovs-ofctl --names -O OpenFlow15 dump-flows br-int "
            "table=ServiceLB")
    for line in cluster.node.switch.dump_flows("table=12"):
        line = re.sub(r"^ *", "", line)
        say("    " + paint(line[:150], "dim"))
    command("ovs-ofctl --names -O OpenFlow15 dump-groups br-int")
    for line in cluster.node.switch.dump_groups():
        say("    " + paint(line.strip()[:150] + " …", "dim"))
    command("ovs-appctl -t ofproxyd services")
    for line in cluster.daemon.appctl("services").splitlines():
        say("    " + re.sub(" {3,}", "  ", line))


def show_calls(cluster):
    """Connections, one kind after the other."""
    client = cluster.pods["client"]
    title("Calls from the pod client to Services")
    say("  60 connections to shop/web, http://%s/" % WEB)
    bars(Client(client, "connect", WEB, 80, count=60).wait()["answers"])
    say("  60 connections to shop/web, http://[%s]/" % WEB6)
    bars(Client(client, "connect", WEB6, 80, count=60).wait()["answers"])
    for text, where, host, port, more in (
            ("a datagram to shop/dns", client, DNS, 53, {"proto": "udp"}),
            ("shop/web from the node itself", cluster.node, WEB, 80, {}),
            ("shop/empty, which has no pods", client, EMPTY, 80, {})):
        say("  %-32s %s" % (text, answer_line(
            ask_once(where, host, port, **more))))
    cluster.scale("web-1")
    cluster.settle()
    say("  %-32s %s" % ("web-1 calls shop/web: itself", answer_line(
        ask_once(cluster.pods["web-1"], WEB, 80))))


def show_scaling(cluster):
    """Endpoints come and go while connections are made."""
    title("Scaling shop/web while a client connects without pause")
    client = cluster.pods["client"]
    n_failures = n = 0
    for names in (["web-1", "web-2"], ["web-1", "web-2", "web-3", "web-4"],
                  ["web-3", "web-4"], ["web-4"], ["web-2", "web-4"]):
        before = Client(client, "connect", WEB, 80, timeout=5)
        with before:
            cluster.scale(*names)
            cluster.settle()
            time.sleep(0.4)     # A moment of traffic to look at.
        after = Client(client, "connect", WEB, 80, count=200).wait()
        n += before.result["n"] + after["n"]
        n_failures += before.result["n_failures"] + after["n_failures"]
        say("    %-24s %s" % (" ".join(names), "  ".join(
            "%s:%-3d" % item for item in sorted(after["answers"].items()))))
    done("%d connections, %s failed" % (n, n_failures))


def show_crash(cluster):
    """kill -9 costs nothing."""
    title("kill -9 of ofproxyd in the middle of it")
    traffic = Client(cluster.pods["client"], "connect", WEB, 80)
    with traffic:
        cluster.daemon.kill()
        done("killed; the bridge goes on by itself")
        time.sleep(0.5)         # A moment of traffic to look at.
        cluster.daemon.start()
        cluster.settle()
        done("started again; sent to the switch: %s" % cluster.counters())
    done("%d connections meanwhile, %d failed"
         % (traffic.result["n"], traffic.result["n_failures"]))


def linger(cluster):
    """Leaves everything to the reader until Enter."""
    title("All of it is running; look around in another terminal")
    switch = cluster.node.switch
    command("ovs-ofctl --names -O OpenFlow15 dump-flows unix:%s/br-int.mgmt"
            % switch.dir)
    command("ovs-appctl -t %s sync" % cluster.daemon.ctl)
    command("ovs-appctl -t %s endpoints shop/web" % cluster.daemon.ctl)
    command("ip netns exec %s curl http://%s/"
            % (cluster.pods["client"].name, WEB))
    command("less %s" % cluster.daemon.log)
    say()
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        input("  Enter ends it. ")


# More than one node.

def tunnel_or_route(seen):
    """How a packet between two nodes went, in words."""
    ends = "%s → %s" % (seen.inner.src, seen.inner.dst)
    if seen.kind == "plain":
        return "%s, routed as it is" % ends
    return "%s, in %s %s → %s" % (ends, paint(seen.kind, "yellow"),
                                  seen.outer.src, seen.outer.dst)


def show_way(capture, *sources):
    """What a capture on the wire between the nodes has seen from some
    addresses."""
    ways = collections.Counter(
        tunnel_or_route(seen) for source in sources
        for seen in capture.of(source)
        if not seen.sent and seen.inner.src == source)
    say("  on the wire between the nodes")
    for text, n in sorted(ways.items()):
        say("    %4d packets  %s" % (n, text))


def show_spread(cluster, service):
    """One Service, endpoints on all nodes."""
    client = cluster.nodes[0].pods[0]
    title("Calls from the pod %s to a Service with pods on every node"
          % client.label)
    for family in (4, 6):
        with cluster.capture() as capture:
            result = service.ask(client, family, 60)
        say("  60 connections to %s" % service.of(family))
        bars(result["answers"])
        if family == 4:
            show_way(capture, *(pod.address for node in cluster.nodes
                                for pod in node.pods))
    say("  %-32s %s" % ("from node n1 itself", answer_line(
        service.ask(cluster.nodes[0]))))
    with Server(cluster.outside, "outside", tcp=[80]):
        result = ask_once(client, cluster.outside_address(4), 80)
        say("  %-32s %s, which sees %s" % (
            "to something outside", answer_line(result),
            result["sources"][0]))


def show_node(cluster):
    """What ofproxyd has made on the first node."""
    node, other = cluster.nodes[0], cluster.nodes[1]
    title("What ofproxyd has made for it on node n1")
    if cluster.tunnels:
        command("ovs-vsctl --columns=name,type,options list Interface "
                "antrea-tun0")
        for line in node.switch.vsctl(
                "--columns=name,type,options", "list", "Interface",
                "antrea-tun0").splitlines():
            say("    " + paint(line, "dim"))
    command("ovs-ofctl --names -O OpenFlow15 dump-flows br-int "
            "table=L3Forwarding | grep %s" % other.cidrs[0])
    for line in node.switch.dump_flows("table=20"):
        if str(other.cidrs[0]) in line:
            say("    " + paint(line.strip(), "dim"))
    command("ip route")
    for line in node.ip("-4", "route").splitlines():
        say("    " + paint(line, "dim"))
    command("nft list table inet ofproxyd")
    for line in node.run("nft", "-s", "list", "table", "inet",
                         "ofproxyd").stdout.splitlines():
        say("    " + paint(line.replace("\t", "  "), "dim"))


def show_nodes_crash(cluster, service):
    """kill -9 of every daemon costs nothing."""
    title("kill -9 of ofproxyd on every node in the middle of it")
    traffic = service.client(cluster.nodes[0].pods[0], "connect", 4)
    with traffic:
        for member in cluster.members:
            member.daemon.restart(hard=True)
        for member in cluster.members:
            member.daemon.wait_synced()
        time.sleep(0.5)         # A moment of traffic to look at.
    done("%d connections meanwhile, %d failed"
         % (traffic.result["n"], traffic.result["n_failures"]))


def linger_nodes(cluster, service):
    """Leaves everything to the reader until Enter."""
    title("All of it is running; look around in another terminal")
    for member in cluster.members:
        command("ip netns exec %s ip route        # node %s"
                % (member.node.name, member.name))
        command("ovs-ofctl --names -O OpenFlow15 dump-flows "
                "unix:%s/br-int.mgmt" % member.switch.dir)
        command("ovs-appctl -t %s sync" % member.daemon.ctl)
    command("ip netns exec %s curl http://%s/"
            % (cluster.nodes[0].pods[0].name, service.of(4)))
    say()
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        input("  Enter ends it. ")


def show_nodes(stack, directory, options):
    """A Service spread over several nodes."""
    title("A cluster of %d nodes on this machine, mode %s"
          % (options.nodes, options.mode))
    # The last node is in the other subnet, so that hybrid has to choose.
    subnets = "a" * (options.nodes - 1) + (
        "b" if options.mode == "hybrid" else "a")
    cluster = stack.enter_context(MultiCluster(
        directory, subnets, mode=options.mode))
    for node in cluster.nodes:
        done("node %s at %s, in the subnet %s: a private Open vSwitch, "
             "ofproxyd, pods in %s" % (node.label, node.of(4),
                                       SUBNETS[node.subnet][4],
                                       node.cidrs[0]))
    service = cluster.service([at(pod) for node in cluster.nodes
                               for pod in node.pods[-1:]])
    done("a Service %s with one pod of each node" % service.of(4))
    show_node(cluster)
    show_spread(cluster, service)
    show_nodes_crash(cluster, service)
    if not options.once:
        linger_nodes(cluster, service)


# More than one cluster.

def show_gateway(clusters):
    """What ofproxyd has made between clusters on east's nodes."""
    gateway, regular = clusters.east.members
    title("What ofproxyd has made for it in the cluster east")
    for member, what in (gateway, "the gateway"), (regular, "regular node"):
        command("ovs-ofctl --names -O OpenFlow15 dump-flows br-int | grep %s"
                "   # node %s, %s" % (clusters.west.service_cidrs[4],
                                      member.name, what))
        for line in member.switch.dump_flows():
            if clusters.west.service_cidrs[4] in line:
                say("    " + paint(line.strip(), "dim"))


def ofproxyctl(member, *args):
    """A command for ofproxyctl on a node, as it can be typed from here."""
    return " ".join(["%s --target %s --vswitchd %s/ovs-vswitchd.ctl"
                     % (ctl.program(), member.daemon.ctl, member.switch.dir),
                     *args])


def show_trace(clusters, service):
    """The way to the other cluster, as traces tell it, and what was
    counted."""
    client = clusters.east.nodes[1].pods[1]
    title("Following a packet from the pod %s to the cluster IP %s of west"
          % (client.label, service.of(4)))
    for member, args, text in clusters.follow(
            clusters.east.nodes[1], client.address, service.of(4) + ":80"):
        command("ofproxyctl trace %s   # node %s"
                % (" ".join(args), member.name))
        for line in text.splitlines():
            if re.match("Result|To|Next", line):
                say("    " + line)
    for cluster in clusters.clusters.values():
        wait_for(lambda m=cluster.members[0]: " 0 packets" not in ctl.output(
            m, "clusters"), 20, "counters")
        command("ofproxyctl clusters   # node %s" % cluster.members[0].name)
        for line in ctl.output(cluster.members[0], "clusters").splitlines():
            say("    " + paint(line, "dim"))


def linger_clusters(clusters, service):
    """Leaves everything to the reader until Enter."""
    title("All of it is running; look around in another terminal")
    for cluster in clusters.clusters.values():
        for member in cluster.members:
            say("  node %s" % member.name)
            command(ofproxyctl(member, "clusters"))
    member = clusters.east.members[1]
    pod = clusters.east.nodes[1].pods[1]
    command(ofproxyctl(member, "trace", pod.address, service.of(4) + ":80"))
    command("ip netns exec %s curl http://%s/" % (pod.name, service.of(4)))
    say()
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        input("  Enter ends it. ")


def show_clusters(stack, directory, options):
    """A Service whose pods are in two clusters."""
    title("Two clusters on this machine, mode %s" % options.mode)
    clusters = stack.enter_context(ClusterSet(directory, options.mode))
    clusters.wait()
    for name, cluster in clusters.clusters.items():
        gateway, regular = cluster.nodes
        done("cluster %s: gateway node %s at %s, regular node %s, Services "
             "in %s" % (name, gateway.label, gateway.of(4), regular.label,
                        cluster.service_cidrs[4]))
    web, made = clusters.export({
        name: [at(node.pods[0]) for node in cluster.nodes]
        for name, cluster in clusters.clusters.items()})
    done("a Service %s of east with the endpoints %s" % (
        web.of(4), " and ".join("%s of %s" % (service.of(4), name)
                                for name, service in made.items())))
    show_gateway(clusters)
    client = clusters.east.nodes[1].pods[1]
    # A switch drops what it has no neighbour for until it knows it.
    wait_for(lambda: not web.ask(client, 4, 20)["n_failures"], 10,
             "answers of all")
    title("Calls from the pod %s, of a regular node, to it" % client.label)
    with clusters.east.capture(*clusters.east.nodes,
                               *clusters.west.nodes) as capture:
        bars(web.ask(client, 4, 80)["answers"])
    # From the pod to its gateway, and under the gateway's address from there.
    show_way(capture, client.address, clusters.gateways["east"].of(4))
    show_trace(clusters, made["west"])
    title("kill -9 of ofproxyd on every node in the middle of it")
    traffic = web.client(client, "connect", 4)
    members = clusters.east.members + clusters.west.members
    with traffic:
        for member in members:
            member.daemon.restart(hard=True)
        for member in members:
            member.daemon.wait_synced()
        time.sleep(0.5)         # A moment of traffic to look at.
    done("%d connections meanwhile, %d failed"
         % (traffic.result["n"], traffic.result["n_failures"]))
    if not options.once:
        linger_clusters(clusters, web)


# The daemon has to be in this machine's network to reach the API server; with
# these it can't change anything in it: settings are read-only, and there is no
# link of the gateway's name.
READ_ONLY = ("unshare", "--mount", "sh", "-c",
             "mount --bind /proc/sys /proc/sys && "
             "mount -o remount,ro,bind /proc/sys && exec \"$@\"", "-")
NO_LINK = "ofp-quickstart"


def show_real_cluster(stack, directory, options):
    """The same daemon and a private bridge without packets, with a real API
    server."""
    title("ofproxyd with the API server of %s" % options.kubeconfig)
    switch = stack.enter_context(
        PrivateSwitch(directory / "switch", dummy=True))
    daemon = Ofproxyd(directory / "ofproxyd", options.kubeconfig, switch,
                      node=options.node, wrapper=READ_ONLY,
                      hostGateway=NO_LINK)
    stack.callback(daemon.stop)
    daemon.start()
    daemon.wait_log("first complete picture", 60)
    wait_for(lambda: "pending 0, in flight 0" in daemon.appctl("sync"), 60,
             "the bridge to be programmed", daemon)
    done("all Services are on a private bridge; nothing else was touched")
    for line in daemon.appctl("sync").splitlines():
        if re.match(r"Services|EndpointSlices|Nodes|objects|switch|wanted",
                    line):
            say("    " + line)
    command("ovs-appctl -t %s services" % daemon.ctl)
    for line in daemon.appctl("services").splitlines():
        say("    " + re.sub(" {3,}", "  ", line))
    if not options.once:
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            input("  Enter ends it. ")


def show(stack, directory, options):
    """All scenes."""
    title("A cluster on this machine")
    cluster = Cluster(stack, directory)
    cluster.start_api()
    cluster.start_daemon()
    cluster.start_pods()
    cluster.scale("web-1", "web-2", "web-3")
    cluster.api.apply(objects.slice_(
        "shop", "dns", [objects.endpoint(
            cluster.pods["dns-1"].of(4), "n1")],
        [objects.slice_port(53, protocol="UDP")]))
    cluster.settle()
    show_flows(cluster)
    show_calls(cluster)
    show_scaling(cluster)
    show_crash(cluster)
    if not options.once:
        linger(cluster)


def main():
    """Parses arguments; takes all away at the end, however it ends."""
    parser = argparse.ArgumentParser(
        prog="scripts/quickstart", description="Shows what ofproxyd does.")
    parser.add_argument("--once", action="store_true",
                        help="end by itself instead of waiting for Enter")
    parser.add_argument("--kubeconfig", metavar="FILE",
                        help="use a real cluster's API server")
    parser.add_argument("--node", default="quickstart",
                        help="with --kubeconfig: the node to be")
    parser.add_argument("--nodes", type=int, choices=(1, 2, 3), default=1,
                        help="how many; default: one")
    parser.add_argument("--mode", choices=("encap", "noEncap", "hybrid"),
                        default="encap",
                        help="with --nodes or --multicluster: "
                        "trafficEncapMode; default: encap")
    parser.add_argument("--multicluster", action="store_true",
                        help="a Service over two clusters")
    options = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ofproxyd-"))
    try:
        with contextlib.ExitStack() as stack:
            if options.kubeconfig:
                show_real_cluster(stack, directory, options)
            elif options.multicluster:
                show_clusters(stack, directory, options)
            elif options.nodes > 1:
                show_nodes(stack, directory, options)
            else:
                show(stack, directory, options)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    say()
    done("everything is taken away again")
    return 0


if __name__ == "__main__":
    sys.exit(main())
