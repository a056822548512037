#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attaches a network namespace to a switch as Antrea's CNI plugin attaches a
pod: eth0 with addresses and a default route, a port on the bridge, and that
port's external_ids, by which ofproxyd knows the pod.

As a program, on a node:

    ip netns add web-1
    tests/support/attach.py web-1 10.10.1.5/24 2001:db8:10:1::5/64
    tests/support/attach.py --detach web-1

The gateway is the first address of the network unless --gateway says
otherwise.
"""
import argparse
import dataclasses
import ipaddress
import os
import pathlib
import sys

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from support import proc                        # noqa: E402

MTU = 1450                      # Ethernet's, less a tunnel over IPv4.


def pod_mac(address):
    """The MAC address that a CNI gives to a pod with this first address."""
    octets = ipaddress.ip_address(address).packed[-4:]
    return "0a:58:" + ":".join("%02x" % o for o in octets)


def pod_external_ids(name, namespace, mac, addresses, container=None):
    """The Interface external_ids that Antrea's CNI writes, as arguments."""
    ids = {"attached-mac": mac, "ip-address": ",".join(addresses),
           "pod-name": name, "pod-namespace": namespace,
           "container-id": container or "c0ffee-" + name}
    return ['external_ids:%s="%s"' % item for item in ids.items()]


@dataclasses.dataclass
class Attachment:
    """A pod's place on a switch.

    netns: the pod's namespace.  iface: the name of its port.  addresses:
    "10.10.1.5/24" and so on.  gateways: one of each family, or none for the
    first address of each network.  node: the namespace of the switch (None:
    this one).  db: the switch's database ("": the usual one)."""
    netns: str
    iface: str
    name: str
    addresses: list
    namespace: str = "default"
    gateways: list = ()
    bridge: str = "br-int"
    node: str = None
    db: str = ""
    mtu: int = MTU

    @property
    def hosts(self):
        """The addresses without prefix."""
        return [a.split("/")[0] for a in self.addresses]

    @property
    def mac(self):
        """The pod's."""
        return pod_mac(self.hosts[0])

    def _vsctl(self, *args):
        db = ["--db=" + self.db] if self.db else []
        return proc.output("ovs-vsctl", *db, "--timeout=20", *args)

    def _gateways(self):
        return self.gateways or [
            ipaddress.ip_interface(a).network[1] for a in self.addresses]

    def attach(self):
        """Makes the link and the port."""
        batch = ("link add %s mtu %d type veth peer name eth0 address %s "
                 "mtu %d netns %s\n" % (self.iface, self.mtu, self.mac,
                                        self.mtu, self.netns))
        proc.run("ip", "-batch", "-", netns=self.node, input=batch)
        # The node's kernel is no party to what passes here.
        proc.run("sysctl", "-qw",
                 "net.ipv6.conf.%s.disable_ipv6=1" % self.iface,
                 netns=self.node)
        proc.run("ip", "link", "set", self.iface, "up", netns=self.node)
        self._configure()
        self._vsctl("--may-exist", "add-port", self.bridge, self.iface,
                    "--", "set", "Interface", self.iface,
                    *pod_external_ids(self.name, self.namespace, self.mac,
                                      self.hosts))

    def _configure(self):
        """The pod's side."""
        proc.run("sysctl", "-qw", "net.ipv6.conf.all.accept_ra=0",
                 "net.ipv6.conf.eth0.accept_dad=0", netns=self.netns)
        # A switch in userspace does not fill in checksums that veth left
        # out.
        proc.run("ethtool", "-K", "eth0", "tx", "off", netns=self.netns)
        lines = ["link set eth0 up"]
        for address in self.addresses:
            lines.append("addr add %s dev eth0%s" % (
                address, " nodad" if ":" in address else ""))
        for gateway in self._gateways():
            lines.append("route add default via %s dev eth0 onlink" % gateway)
        proc.run("ip", "-batch", "-", netns=self.netns,
                 input="\n".join(lines) + "\n")

    def detach(self):
        """Takes the port away, and the link."""
        self._vsctl("--if-exists", "del-port", self.bridge, self.iface)
        proc.run("ip", "link", "del", self.iface, netns=self.node,
                 check=False)


def main():
    """The program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("netns", help="the namespace; also the pod's name")
    parser.add_argument("address", nargs="*", help="with prefix length")
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--namespace", default="default",
                        help="of Kubernetes")
    parser.add_argument("--gateway", action="append", default=[])
    parser.add_argument("--bridge", default="br-int")
    parser.add_argument("--db", default=os.environ.get("OVS_DB", ""),
                        help="e.g. unix:/run/openvswitch/db.sock")
    parser.add_argument("--mtu", type=int, default=MTU)
    options = parser.parse_args()
    if not options.address and not options.detach:
        parser.error("no address")
    # A link's name has at most 15 bytes.
    pod = Attachment(options.netns, "pod-" + options.netns[:11],
                     options.netns, options.address, options.namespace,
                     options.gateway, options.bridge, None, options.db,
                     options.mtu)
    if options.detach:
        pod.detach()
    else:
        pod.attach()


if __name__ == "__main__":
    main()
