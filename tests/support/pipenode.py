# SPDX-License-Identifier: Apache-2.0
"""Nodes whose bridge is the pipeline's, without a daemon: a switch with dummy
ports, flows as pipe-probe renders them, frames put in and taken out by hand.

    with PipeNode(directory, 1, "encap") as node, PipeNode(...) as peer:
        node.connect(peer)
        node.tunnel(peer)
        node.load()
        node.send("pod1", eth, frame)
        assert node.got("gw", lambda f: f.ttl == 64)

Node N has the pod networks 10.10.N.0/24 and 2001:db8:10:N::/64, the transport
addresses 203.0.113.N and 2001:db8:f::N, and the pods pod1 and pod2.
"""
import os
import pathlib
import re
import struct

from support import ovs, packets, proc
from support.wait import wait_for

GATEWAY_OFPORT, TUNNEL_OFPORT = 32769, 32768
UNDERLAY = "br-phy"
UNDERLAY_NETWORKS = {4: "203.0.113.0/24", 6: "2001:db8:f::/64"}
VIRTUAL_MAC = "aa:bb:cc:dd:ee:ff"
VIRTUAL_IP = {4: "169.254.0.253", 6: "fc01::aabb:ccdd:eeff"}


def program():
    """pipe-probe of the build directory $O."""
    return pathlib.Path(os.environ.get("O", "build")) / "tests" / "pipe-probe"


def read_pcap(path):
    """The frames of a capture file, as far as it is written."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    frames, at = [], 24
    while at + 16 <= len(data):
        length, = struct.unpack_from("=I", data, at + 8)
        if at + 16 + length > len(data):
            break
        frames.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return frames


def _key(line):
    """What identifies a flow or a group of pipe-probe's output."""
    if line.startswith("group"):
        return line.split(",")[0]
    return re.sub(r" cookie=[^,]*,", "", line.split(" actions=")[0])


def _deletion(line):
    if line.startswith("group"):
        return "group delete " + line.split(" ")[2].split(",")[0]
    return _key(line).replace("flow add", "flow delete_strict")


class Service:
    """A Service port in one family, for PipeNode.serve()."""

    def __init__(self, number, proto="udp", family=4, affinity=0):
        self.number, self.proto, self.family = number, proto, family
        self.affinity = affinity
        self.frontends, self.ranges = [], []
        self.endpoints = {"cluster": [], "local": []}
        self.node_in_ranges = False

    def at(self, kind, address, port, scope="cluster", restricted=False):
        """Has a frontend: "cluster-ip", "node-port" ("-" for the address) or
        "external"."""
        self.frontends.append(
            "%s %s %d %s" % ("restricted" if restricted else
                             "frontend " + kind, address, port, scope))
        return self

    def lines(self):
        """For pipe-probe."""
        lines = ["begin %d %s %d %d" % (self.number, self.proto.upper(),
                                        self.family, self.affinity)]
        lines += self.frontends
        lines += ["endpoints %s 8080 %s" % (scope, address)
                  for scope, addresses in self.endpoints.items()
                  for address in addresses]
        lines += ["ranges " + cidr for cidr in self.ranges]
        lines += ["node-in-ranges"] if self.node_in_ranges else []
        return lines + ["render"]


class Pod:
    """A pod's port."""

    def __init__(self, node, number):
        self.name, self.ofport = "pod%d" % number, number
        self.of = {4: "10.10.%d.%d" % (node, number + 4),
                   6: "2001:db8:10:%d::%d" % (node, number + 4)}
        self.mac = ovs.pod_mac(self.of[4])


class PipeNode:
    """See the module."""

    def __init__(self, directory, number, mode, tunnel_type="geneve"):
        self.dir, self.number, self.mode = directory, number, mode
        self.tunnel_type = tunnel_type
        self.switch = ovs.PrivateSwitch(directory, dummy="tunnels")
        self.gateway = {4: "10.10.%d.1" % number,
                        6: "2001:db8:10:%d::1" % number}
        self.transport = {4: "203.0.113.%d" % number,
                          6: "2001:db8:f::%d" % number}
        if mode == "networkPolicyOnly":
            self.gateway = self.transport
        self.cidrs = ["10.10.%d.0/24" % number,
                      "2001:db8:10:%d::/64" % number]
        self.mac = "0a:00:00:00:00:0%d" % number
        self.pods = [Pod(number, i) for i in (1, 2)]
        self._lines, self._seen = [], {}
        self._services, self._loaded = {}, []
        self.with_tunnel = mode in ("encap", "hybrid")

    def __enter__(self):
        self.switch.start()
        self.switch.add_bridge()
        self._add_port("gw", GATEWAY_OFPORT, "type=dummy",
                       'mac="%s"' % self.mac)
        for pod in self.pods:
            self._add_port(pod.name, pod.ofport, "type=dummy")
        return self

    def __exit__(self, *_):
        self.switch.stop()

    def _add_port(self, name, ofport, *columns):
        self.switch.vsctl(
            "add-port", self.switch.bridge, name, "--", "set", "Interface",
            name, "ofport_request=%d" % ofport,
            "options:tx_pcap=%s" % self._pcap(name), *columns)

    def _pcap(self, port):
        return self.dir / (port + ".pcap")

    # The underlay.

    def add_underlay(self, *options):
        """A bridge with the transport addresses, and a link of it."""
        self.switch.vsctl(
            "add-br", UNDERLAY, "--", "set", "bridge", UNDERLAY,
            "datapath_type=dummy", "other_config:hwaddr=\"0a:00:00:00:01:0%d\""
            % self.number, "--", "add-port", UNDERLAY, "p0", "--", "set",
            "Interface", "p0", "type=dummy",
            "options:tx_pcap=%s" % self._pcap("p0"), *options)
        for family, command in ((4, "ip4addr"), (6, "ip6addr")):
            self.switch.appctl("netdev-dummy/" + command, UNDERLAY,
                               self.transport[family] + "/" +
                               UNDERLAY_NETWORKS[family].split("/")[1])
            self.switch.appctl("ovs/route/add", UNDERLAY_NETWORKS[family],
                               UNDERLAY)
        self.switch.vsctl(
            "add-port", self.switch.bridge, "tun", "--", "set", "Interface",
            "tun", "type=" + self.tunnel_type, "options:remote_ip=flow",
            "options:key=flow", "ofport_request=%d" % TUNNEL_OFPORT)

    def connect(self, peer):
        """A link between two nodes, which know each other's addresses."""
        socket = self.dir / "underlay.sock"
        self.add_underlay("options:pstream=punix:%s" % socket)
        peer.add_underlay("options:stream=unix:%s" % socket)
        for one, other in ((self, peer), (peer, self)):
            for family in (4, 6):
                one.switch.appctl(
                    "tnl/neigh/set", UNDERLAY, other.transport[family],
                    "0a:00:00:00:01:0%d" % other.number)
        wait_for(lambda: "connected" in peer.switch.appctl(
            "netdev-dummy/conn-state", "p0"), 10, "the link", self.switch)

    # What it knows.

    def tunnel(self, peer, family=4):
        """The other node is reached by its transport address."""
        self._lines.append("tunnel %d %s %s" % (
            peer.number, peer.transport[family], " ".join(peer.cidrs)))

    def routed(self, peer):
        """The host knows the way to the other node."""
        self._lines.append("routed %d %s" % (peer.number,
                                             " ".join(peer.cidrs)))

    def service(self, number, proto, address, *endpoints):
        """A Service at port 80, its endpoints at 8080."""
        self._lines.append("service %d %s 80 8080 %s %s" % (
            number, proto.upper(), address, " ".join(endpoints)))

    def node_ports(self, *addresses):
        """NodePorts are served, on these addresses among others."""
        self._lines.append("node-ports " + " ".join(addresses))

    def serve(self, svc):
        """A Service (class Service), now or in place of the one with the same
        number."""
        self._services[svc.number] = svc

    def withdraw(self, svc):
        """A Service is gone."""
        del self._services[svc.number]

    def update(self):
        """Makes the flows those of what is known now, and touches only what
        differs; as the daemon does."""
        before, now = self._loaded, self._render()
        self._bundle(
            [line for line in now if line not in before]
            + [_deletion(line) for line in before
               if _key(line) not in {_key(other) for other in now}])
        self._loaded = now

    def load(self):
        """Puts the flows of all that on the bridge, and no others."""
        self._loaded = self._render()
        self._bundle(["flow delete", "group delete group_id=all"]
                     + self._loaded)

    def _bundle(self, lines):
        bundle = self.dir / "bundle"
        bundle.write_text("\n".join(lines).replace("group add ",
                                                   "group add_or_mod ") + "\n")
        self.switch.ofctl("bundle", bundle)
        self.switch.wait_revalidated()

    def _render(self):
        lines = ["node %s %d %s %d" % (self.mode, GATEWAY_OFPORT, self.mac,
                                       TUNNEL_OFPORT if self.with_tunnel
                                       else 0),
                 "gateway " + " ".join(self.gateway.values())]
        if self.mode != "networkPolicyOnly":
            lines.append("cidrs " + " ".join(self.cidrs))
        for pod in self.pods:
            lines.append("pod %d %s %s" % (pod.ofport, pod.mac,
                                           " ".join(pod.of.values())))
        for number in sorted(self._services):
            lines += self._services[number].lines()
        return proc.output(program(), input="\n".join(
            lines + self._lines)).splitlines()

    # Frames.

    def send(self, port, kind_and_packet, src_mac=None, dst_mac=None):
        """Puts a frame in that came by a port: of what packets.ip() made.
        The MAC addresses are the port's and its gateway's."""
        self.send_all(port, [kind_and_packet], src_mac, dst_mac)

    def send_all(self, port, packets_, src_mac=None, dst_mac=None):
        """Several at once."""
        src = src_mac or next((pod.mac for pod in self.pods
                               if pod.name == port), self.mac)
        self.switch.appctl("netdev-dummy/receive", port, *[
            packets.eth(src, dst_mac or self.mac, *packet).hex()
            for packet in packets_])

    def frames(self, port):
        """All that has left by a port."""
        return [packets.parse(data) for data in read_pcap(self._pcap(port))]

    def got(self, port, condition=lambda f: True):
        """The next frame that leaves by a port for which condition(frame) is
        true; waits for it."""
        def find():
            found = self.frames(port)
            for at in range(self._seen.get(port, 0), len(found)):
                if condition(found[at]):
                    self._seen[port] = at + 1
                    return found[at]
            return None
        return wait_for(find, 10, "a frame at %s of node %d" % (
            port, self.number), self.dump)

    def flush_conntrack(self):
        """All connections are forgotten."""
        self.switch.ofctl("ct-flush")

    def dump(self):
        """For failure messages."""
        text = ["%s: %s" % (port.name, frame)
                for port in sorted(self.dir.glob("*.pcap"))
                for frame in map(packets.parse, read_pcap(port))]
        flows = [line for line in self.switch.ofctl(
            "dump-flows").splitlines() if "n_packets=0" not in line]
        return "\n".join(text + flows + self.switch.conntrack())
