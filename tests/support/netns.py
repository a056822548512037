# SPDX-License-Identifier: Apache-2.0
"""Network namespaces as nodes, pods and outside clients.

A node is a namespace too, so that neither routes nor addresses nor settings
of the machine that runs the tests are touched.
"""
import ipaddress
import itertools
import os
import re

from support import attach, ovs, proc

_numbers = itertools.count(1)


def _unique(label):
    """A name that no other test run on this machine uses."""
    return "ofp%d-%d-%s" % (os.getpid(), next(_numbers), label)


def sweep():
    """Removes namespaces of test runs that were killed."""
    for line in proc.output("ip", "netns", "list").splitlines():
        match = re.match(r"ofp(\d+)-", line)
        if match and not os.path.exists("/proc/" + match[1]):
            proc.run("ip", "netns", "del", line.split()[0], check=False)


class Namespace:
    """A network namespace, with the processes that were started in it."""

    def __init__(self, label):
        self.label = label
        self.name = _unique(label)
        self._processes = []
        proc.run("ip", "netns", "add", self.name)
        self.ip("link", "set", "lo", "up")

    def run(self, *argv, **more):
        """A finished command (see proc.run)."""
        return proc.run(*argv, netns=self.name, **more)

    def start(self, *argv, **more):
        """A running process that ends with the namespace at the latest."""
        process = proc.start(*argv, netns=self.name, **more)
        self._processes.append(process)
        return process

    def ip(self, *args):
        """ip(8); its output."""
        return self.run("ip", *args).stdout

    def batch(self, *lines):
        """Several ip(8) commands in one go."""
        self.run("ip", "-batch", "-", input="\n".join(lines) + "\n")

    def sysctl(self, **settings):
        """Settings, with "__" for the dots: net__ipv4__ip_forward=1."""
        self.run("sysctl", "-qw", *(
            "%s=%s" % (key.replace("__", "."), value)
            for key, value in settings.items()))

    def close(self):
        """Ends its processes and removes it; never fails."""
        for process in self._processes:
            proc.kill(process)
        proc.run("ip", "netns", "del", self.name, check=False)


class Pod(Namespace):
    """A pod: a namespace with eth0 on a switch's bridge."""

    def __init__(self, node, name, addresses, namespace):
        super().__init__(name)
        self.node = node
        self.pod_name, self.namespace = name, namespace
        self.addresses = list(addresses)
        self.address = self.addresses[0]
        self.iface = "p%d-%d" % (os.getpid(), next(_numbers))
        self._port = attach.Attachment(
            self.name, self.iface, name, namespace=namespace, node=node.name,
            addresses=["%s/%d" % (a, node.prefix_of(a)) for a in addresses],
            gateways=[node.gateway_of(a) for a in addresses],
            bridge=node.switch.bridge, db=node.switch.db, mtu=node.pod_mtu)
        self.mac = self._port.mac

    def attach(self):
        """Connects it to the bridge, as a CNI plugin would."""
        self._port.attach()

    def detach(self):
        """Takes it off the bridge, as a CNI plugin would."""
        self._port.detach()

    def of(self, family):
        """Its address of family 4 or 6."""
        return next(a for a in self.addresses
                    if (":" in a) == (family == 6))

    def close(self):
        """Takes it off the bridge and removes it; never fails."""
        try:
            self.detach()
        except (AssertionError, OSError):
            pass                # The switch may be gone already.
        super().close()


class Node(Namespace):
    """A node: a namespace with a private switch and pods."""

    pod_mtu = attach.MTU        # Of the pods to come.

    def __init__(self, name, directory, cidrs=("10.10.1.0/24",
                                               "2001:db8:10:1::/64")):
        super().__init__(name)
        self.node_name = name
        self.cidrs = [ipaddress.ip_network(c) for c in cidrs]
        self.switch = ovs.PrivateSwitch(directory, netns=self.name)
        self.pods = []
        self.sysctl(
            net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1,
            net__ipv4__conf__all__rp_filter=0,
            net__ipv4__conf__default__rp_filter=0,
            net__ipv6__conf__default__accept_dad=0,
            # The kernel sees the pods' ARP requests on their veths and would
            # answer for the gateway's address with a veth's own MAC.
            net__ipv4__conf__all__arp_ignore=1)

    def start_switch(self):
        """Starts its switch; the bridge is left to the daemon under test,
        or to add_bridge()."""
        self.switch.start()
        return self

    def cidr_of(self, address):
        """The pod network of an address."""
        address = ipaddress.ip_address(address)
        return next(c for c in self.cidrs if address in c)

    def prefix_of(self, address):
        """The prefix length that a pod's address has in the pod."""
        return self.cidr_of(address).prefixlen

    def gateway_of(self, address):
        """The default gateway of a pod with this address."""
        return str(self.cidr_of(address)[1])

    def add_pod(self, name, n=None, namespace="ns1", families=(4, 6)):
        """A pod with the n-th address of each of the node's networks."""
        n = n or len(self.pods) + 2
        addresses = [str(c[n]) for c in self.cidrs if c.version in families]
        pod = Pod(self, name, addresses, namespace)
        self.pods.append(pod)
        pod.attach()
        return pod

    def close(self):
        """Takes its pods and its switch away too; never fails."""
        for pod in self.pods:
            pod.close()
        self.switch.stop()
        super().close()


class Netns:
    """Makes namespaces and takes them all away again."""

    def __init__(self):
        sweep()
        self._all = []

    def namespace(self, label):
        """A plain namespace, e.g. an outside client."""
        self._all.append(Namespace(label))
        return self._all[-1]

    def node(self, name, directory, **more):
        """A node with its switch running."""
        self._all.append(Node(name, directory, **more))
        return self._all[-1].start_switch()

    def connect(self, one, other, one_address, other_address):
        """A wire between two namespaces, with addresses with prefix."""
        names = ["w%d" % next(_numbers) for _ in range(2)]
        one.batch("link add %s type veth peer name %s netns %s"
                  % (*names, other.name), "link set %s up" % names[0],
                  "addr add %s dev %s%s" % (
                      one_address, names[0],
                      " nodad" if ":" in one_address else ""))
        other.batch("link set %s up" % names[1],
                    "addr add %s dev %s%s" % (
                        other_address, names[1],
                        " nodad" if ":" in other_address else ""))
        return names

    def close(self):
        """Takes all away, the last first."""
        while self._all:
            self._all.pop().close()
