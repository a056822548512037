# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster of processes and network namespaces.

    kl-net    the underlay's switch, a Linux bridge, 172.31.0.0/24
    kl-infra  .10: etcd, the control plane, DNS
    kl-n1...  .11...: nodes, each with an Open vSwitch of its own and a
              stand-in for the kubelet, which makes pods

The control plane and the stand-in are programs of lab/, built by ./build.  A
node's address is that of a bridge br-phy, of which the link to the underlay is
a port: tunnels of a userspace datapath leave by such a bridge.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

PREFIX = "kl-"
STATE = "/run/kubelab"          # Short, for sockets; in memory, for etcd.
UNDERLAY = "172.31.0.", "fd00:31::"
INFRA = 10                      # Host part; the nodes' begin with 11.
CLUSTER_CIDRS = "10.244.0.0/16", "fd00:10:244::/48"
SERVICE_CIDRS = "10.96.0.0/16", "fd00:10:96::/112"
API_VIP, DNS_VIP = "10.96.0.1", "10.96.0.10"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
# What ofproxyd's package has at /etc/ofproxyd.
CONF = pathlib.Path(__file__).resolve().parents[2] / "conf/antrea-agent.conf"
UP = 120                        # Seconds for a part to come up.
END = 10                        # Seconds for a process to end.


def sh(*argv, **options):
    """A command's output; RuntimeError if it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, **options)
    if done.returncode:
        raise RuntimeError("%s: %s" % (" ".join(argv), done.stderr.strip()))
    return done.stdout


def isolate():
    """Starts this program anew as the first process of namespaces of its own;
    the kernel ends what is in them when it ends."""
    if os.getpid() != 1:
        os.execvp("unshare", ["unshare", "--mount", "--net", "--pid", "--fork",
                              "--kill-child", "--mount-proc", sys.executable,
                              *sys.argv])
    sh("mount", "-t", "tmpfs", "tmpfs", "/run")
    os.mkdir(STATE)


def build():
    """The directory of the programs; this one ends if they can't be built."""
    built = subprocess.run([pathlib.Path(__file__).parent / "build"],
                           check=False, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    return built.stdout.strip()


def listens(path):
    """Whether something listens on a Unix socket; its file is there before."""
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(str(path)) == 0


def in_ns(name, *argv):
    """The command that runs another in a network namespace."""
    return ["nsenter", "--net=/run/netns/" + PREFIX + name, *argv]


def bits(address):
    """A prefix of the underlay has this length."""
    return "64" if ":" in address else "24"


class Node:
    """A node: its name, addresses, directories."""

    def __init__(self, number, families, state):
        self.name = "n%d" % number
        self.number = number
        self.ips = [UNDERLAY[0] + str(INFRA + number),
                    UNDERLAY[1] + "%x" % (INFRA + number)][:families]
        self.pod_cidrs = ["10.244.%d.0/24" % number,
                          "fd00:10:244:%x::/64" % number][:families]
        self.dir = state / self.name
        # What pods find on the node: the part of it that it has of its own.
        self.files = self.dir / "hostfs"
        self.ovs = self.files / "run" / "openvswitch"


class Cluster:
    """'programs' is what build() has returned; 'logs' keeps what each process
    says; 'proxy' is the program run on each node, see README.md for its
    environment; none if it is None."""

    def __init__(self, programs, logs, proxy):
        self.programs, self.proxy = pathlib.Path(programs), proxy
        self.state, self.logs = pathlib.Path(STATE), pathlib.Path(logs)
        self.kubeconfig = self.state / "pki" / "kubeconfig"
        self.processes = {}
        self.nodes, self.infra, self.families = [], [], 1

    # Processes.

    def spawn(self, name, where, argv, **env):
        """Starts a process of the cluster."""
        with open(self.logs / (name + ".log"), "ab") as log:
            self.processes[name] = subprocess.Popen(
                in_ns(where, *map(str, argv)), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self.state,
                start_new_session=True, env=dict(os.environ, **env))

    def end(self, name):
        """Ends a process of the cluster, if it runs; its exit status."""
        process = self.processes.pop(name, None)
        if not process:
            return 0
        for number in signal.SIGTERM, signal.SIGKILL:
            if process.poll() is None:
                os.killpg(process.pid, number)
            try:
                return process.wait(END)
            except subprocess.TimeoutExpired:
                continue
        return process.wait()

    def wait(self, what, condition):
        """Waits for a condition; fails if a process has ended."""
        limit = time.monotonic() + UP
        while not condition():
            if self.ended():
                raise RuntimeError("%s ended, see %s" % (
                    ", ".join(self.ended()), self.logs))
            if time.monotonic() > limit:
                raise RuntimeError("%s: not there after %d s, see %s"
                                   % (what, UP, self.logs))
            time.sleep(0.1)

    def environment(self):
        """The variables of a program that uses the cluster."""
        path = "%s:%s" % (self.programs, os.environ.get("PATH", ""))
        return dict(os.environ, PATH=path, PROGRAMS=str(self.programs),
                    KUBECONFIG=str(self.kubeconfig))

    def kubectl(self, *argv, text=None):
        """What kubectl prints."""
        return sh(*in_ns("infra", "kubectl", *argv), input=text,
                  env=self.environment())

    def answers(self, wanted, *argv):
        """Whether kubectl prints 'wanted'; not while it fails."""
        try:
            return wanted in self.kubectl(*argv)
        except RuntimeError:
            return False

    # The cluster.

    def start(self, nodes=3, zones=0, dual=False):
        """Brings everything up.  'zones': one for each node if 0."""
        self.families = 2 if dual else 1
        self.infra = [UNDERLAY[0] + str(INFRA), UNDERLAY[1] + "%x" % INFRA][
            :self.families]
        self.nodes = [Node(i + 1, self.families, self.state)
                      for i in range(nodes)]
        self.logs.mkdir(parents=True, exist_ok=True)
        for old in self.logs.glob("*.log"):
            old.unlink()
        self.make_underlay()
        self.start_control_plane()
        for node in self.nodes:
            self.start_switch(node)
            self.bridge_underlay(node)
            self.start_node(node, node.number % (zones or nodes))
        self.kubectl("apply", "-f", "-", text=self.dns_objects())
        self.wait("nodes", lambda: all(
            self.answers("True", "get", "node", node.name, "-o", "jsonpath="
                         "{.status.conditions[?(@.type=='Ready')].status}")
            for node in self.nodes))
        for node in self.nodes if self.proxy else ():
            self.start_proxy(node, self.proxy)
        self.wait("service account", lambda: self.answers(
            "default", "get", "serviceaccount", "-o", "name"))

    def ended(self):
        """The processes that have ended, though nobody ended them."""
        return [name for name, process in self.processes.items()
                if process.poll() is not None]

    def stop(self):
        """Ends the proxies in order; the kernel ends the rest."""
        for node in self.nodes:
            self.end_proxy(node, self.proxy)

    def make_underlay(self):
        """All network namespaces, and the addresses in them."""
        sh("ip", "netns", "add", PREFIX + "net")
        sh("ip", "-n", PREFIX + "net", "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", PREFIX + "net", "link", "set", "br0", "up")
        self.add_member("infra", self.infra)
        for node in self.nodes:
            self.add_member(node.name, node.ips)
            for address, cidr, via in zip(node.ips, node.pod_cidrs,
                                          self.infra):
                sh("ip", "-n", PREFIX + node.name, "route", "add", "default",
                   "via", via)
                sh("ip", "-n", PREFIX + "infra", "route", "add", cidr, "via",
                   address)

    def add_member(self, name, addresses):
        """A network namespace on the underlay."""
        full, net = PREFIX + name, PREFIX + "net"
        sh("ip", "netns", "add", full)
        sh("ip", "link", "add", "eth0", "netns", full, "type", "veth", "peer",
           "name", name, "netns", net)
        sh("ip", "-n", net, "link", "set", name, "master", "br0", "up")
        sh("ip", "-n", full, "link", "set", "lo", "up")
        sh(*in_ns(name, "sysctl", "-qw", "net.ipv4.ip_forward=1",
                  "net.ipv6.conf.all.accept_dad=0",
                  "net.ipv6.conf.eth0.accept_dad=0"))
        # A switch in userspace wants whole checksums.
        sh(*in_ns(name, "ethtool", "-K", "eth0", "tx", "off"))
        self.add_addresses(full, "eth0", addresses)

    @staticmethod
    def add_addresses(namespace, link, addresses):
        """Gives a link its addresses on the underlay, and takes it up."""
        for address in addresses:
            sh("ip", "-n", namespace, "addr", "add", "%s/%s" % (
                address, bits(address)), "dev", link,
               *(["nodad"] if ":" in address else []))
        sh("ip", "-n", namespace, "link", "set", link, "up")

    def start_control_plane(self):
        """etcd, API server, controllers, scheduler and DNS."""
        lab, pki = self.programs / "kubelab", self.state / "pki"
        cidrs = "--service-cluster-ip-range=" + ",".join(
            SERVICE_CIDRS[:self.families])
        certs = "--cert-dir=%s/tmp" % pki
        sh(str(lab), "pki", "--dir", str(pki), "--server",
           "https://%s:6443" % self.infra[0], "--sans",
           ",".join(self.infra + ["127.0.0.1", API_VIP]))
        self.spawn("etcd", "infra", [lab, "etcd", "--data-dir",
                                     self.state / "etcd"])
        self.spawn("apiserver", "infra", [
            lab, "apiserver", "--etcd-servers=http://127.0.0.1:2379", cidrs,
            "--secure-port=6443", "--bind-address=0.0.0.0", certs,
            "--advertise-address=" + self.infra[0],
            "--tls-cert-file=%s/apiserver.crt" % pki,
            "--tls-private-key-file=%s/apiserver.key" % pki,
            "--client-ca-file=%s/ca.crt" % pki,
            "--requestheader-client-ca-file=%s/ca.crt" % pki,
            "--requestheader-allowed-names=front-proxy",
            "--service-account-issuer="
            "https://kubernetes.default.svc.cluster.local",
            "--service-account-key-file=%s/sa.key" % pki,
            "--service-account-signing-key-file=%s/sa.key" % pki,
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP"])
        self.wait("API server", lambda: self.answers(
            "ok", "get", "--raw", "/readyz"))
        client = ["--%skubeconfig=%s" % (of, self.kubeconfig)
                  for of in ("", "authentication-", "authorization-")]
        client += [certs, "--bind-address=127.0.0.1", "--leader-elect=false",
                   "--kube-api-qps=200", "--kube-api-burst=400"]
        self.spawn("controller-manager", "infra", [
            lab, "controller-manager", *client, cidrs,
            "--service-account-private-key-file=%s/sa.key" % pki,
            "--root-ca-file=%s/ca.crt" % pki,
            "--cluster-signing-cert-file=%s/ca.crt" % pki,
            "--cluster-signing-key-file=%s/ca.key" % pki,
            "--allocate-node-cidrs=false"])
        self.spawn("scheduler", "infra", [lab, "scheduler", *client])
        self.spawn("dns", "infra", [
            lab, "dns", "--kubeconfig=%s" % self.kubeconfig,
            "--listen=%s:53" % self.infra[0]])

    def start_switch(self, node):
        """A node's Open vSwitch."""
        node.ovs.mkdir(parents=True)
        sock = node.ovs / "db.sock"
        sh("ovsdb-tool", "create", str(node.ovs / "conf.db"), SCHEMA)
        env = {"OVS_%sDIR" % of: str(node.ovs) for of in ("RUN", "LOG", "DB")}
        self.spawn("ovsdb-" + node.name, node.name, [
            "ovsdb-server", node.ovs / "conf.db", "--remote=punix:%s" % sock,
            "--unixctl=%s/ovsdb.ctl" % node.ovs,
            "--pidfile=%s/ovsdb.pid" % node.ovs], **env)
        self.wait("ovsdb-server", lambda: listens(sock))
        sh("ovs-vsctl", "--db=unix:%s" % sock, "--no-wait", "init")
        self.spawn("vswitchd-" + node.name, node.name, [
            "ovs-vswitchd", "unix:%s" % sock,
            "--unixctl=%s/vswitchd.ctl" % node.ovs,
            "--pidfile=%s/ovs-vswitchd.pid" % node.ovs], **env)
        self.wait("ovs-vswitchd", (node.ovs / "vswitchd.ctl").exists)

    def bridge_underlay(self, node):
        """Moves a node's addresses from eth0 to br-phy."""
        full = PREFIX + node.name
        mac = json.loads(sh("ip", "-n", full, "-j", "link", "show",
                            "eth0"))[0]["address"]
        sh("ovs-vsctl", "--db=unix:%s/db.sock" % node.ovs, "--timeout=60",
           "add-br", "br-phy", "--", "set", "bridge", "br-phy",
           "datapath_type=netdev", 'other_config:hwaddr="%s"' % mac, "--",
           "add-port", "br-phy", "eth0")
        for family in "-4", "-6":
            sh("ip", "-n", full, family, "addr", "flush", "dev", "eth0",
               "scope", "global")
        # What the switch reads from eth0 the kernel sees, too, and must not
        # answer.
        sh(*in_ns(node.name, "nft", "add table netdev kubelab;"
                  "add chain netdev kubelab eth0 { type filter hook ingress "
                  "device eth0 priority 0; policy drop; }"))
        self.add_addresses(full, "br-phy", node.ips)
        for via in self.infra:
            sh("ip", "-n", full, "route", "replace", "default", "via", via)

    def start_node(self, node, zone):
        """A node's stand-in for the kubelet, and what pods find there."""
        settings = node.files / "proc" / "sys" / "net"
        settings.mkdir(parents=True)
        sh(*in_ns(node.name, "mount", "--bind", "/proc/sys/net",
                  str(settings)))
        (node.files / "var").mkdir()
        (node.files / "var" / "run").symlink_to("../run")
        self.spawn("node-" + node.name, node.name, [
            self.programs / "kubelab", "node", "--name=" + node.name,
            "--kubeconfig=%s" % self.kubeconfig, "--ips=" + ",".join(node.ips),
            "--pod-cidrs=" + ",".join(node.pod_cidrs),
            "--zone=zone-%d" % zone, "--dir=%s" % node.dir,
            "--bin-dir=%s" % self.programs, "--ovs-run-dir=%s" % node.ovs,
            "--cluster-dns=" + DNS_VIP], OFPROXYD_CONF=str(CONF))

    def variables(self, node):
        """Those of a program that serves Services on a node."""
        return {"KUBECONFIG": str(self.kubeconfig), "NODE_NAME": node.name,
                "NODE_IP": node.ips[0], "POD_CIDR": node.pod_cidrs[0],
                "NODES": str(len(self.nodes)), "NODE_DIR": str(node.dir),
                "OVS_RUNDIR": str(node.ovs), "PROGRAMS": str(self.programs),
                "CLUSTER_CIDR": ",".join(CLUSTER_CIDRS[:self.families]),
                "SERVICE_CIDR": ",".join(SERVICE_CIDRS[:self.families])}

    def start_proxy(self, node, proxy):
        """A program that serves Services, on one node."""
        self.spawn("%s-%s" % (proxy.name, node.name), node.name, [proxy],
                   **self.variables(node))

    def end_proxy(self, node, proxy):
        """Ends it; its exit status."""
        return self.end("%s-%s" % (proxy.name, node.name))

    def dns_objects(self):
        """The Service of the cluster's DNS."""
        ports = [{"name": "dns" + of, "port": 53, "protocol": protocol}
                 for of, protocol in (("", "UDP"), ("-tcp", "TCP"))]
        service = {"apiVersion": "v1", "kind": "Service",
                   "metadata": {"name": "kube-dns",
                                "namespace": "kube-system"},
                   "spec": {"clusterIP": DNS_VIP, "ports": ports}}
        endpoints = {"apiVersion": "discovery.k8s.io/v1",
                     "kind": "EndpointSlice", "addressType": "IPv4",
                     "metadata": {"name": "kube-dns-infra",
                                  "namespace": "kube-system",
                                  "labels": {"kubernetes.io/service-name":
                                             "kube-dns"}},
                     "ports": ports,
                     "endpoints": [{"addresses": self.infra[:1]}]}
        return json.dumps({"apiVersion": "v1", "kind": "List",
                           "items": [service, endpoints]})
