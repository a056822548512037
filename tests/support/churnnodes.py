# SPDX-License-Identifier: Apache-2.0
"""Random changes of Nodes and ServiceCIDRs, for support.churn.Churn."""
import copy

from support import objects
from support.rig import POD_CIDRS

NODES = ("n1", "n2", "n3", None)
ZONES = ("za", "zb", "zc")
# Of ServiceCIDRs: with all of those, with some, and one that can't be used.
SERVICE_CIDRS = (["10.96.0.0/24", "2001:db8:96::/112"], ["10.96.0.0/29"],
                 ["2001:db8:96::8/125"], ["10.96.0.8/29", "2001:db8:96::/125"],
                 ["10.96.0.0/16", "2001:db8:2::/64"], ["203.0.113.0/30"])

# Other Nodes: few networks and addresses, some of them bad.
PEERS = ["m%d" % i for i in range(1, 8)]
PEER_V4 = ["10.10.%d.0/24" % i for i in range(30, 36)]
PEER_V6 = ["2001:db8:10:%d::/64" % i for i in range(30, 36)]
BAD_CIDRS = ["10.10.1.0/24", "10.10.1.128/25", "2001:db8:10::/48",
             "0.0.0.0/0", "::/0", "192.0.2.0/24", "169.254.0.0/16",
             "127.0.0.0/8", "10.10.32.0/22", "10.10.33.128/25",
             "10.10.34.7/32", "fe80::/64", "240.0.0.0/4", "128.0.0.0/1"]
PEER_ADDRESSES = ["192.0.2.%d" % i for i in range(21, 26)] + [
    "198.51.100.%d" % i for i in range(21, 24)] + [
    "2001:db8:2::%d" % i for i in range(21, 24)] + ["2001:db8:5::21"]
BAD_ADDRESSES = ["192.0.2.11", "127.0.0.1", "fe80::1", "2001:db8:2::11",
                 "0.0.0.0"]
TRANSPORT = "node.antrea.io/transport-addresses"


class NodeChurn:
    """The part of Churn that changes Nodes; see there for its members."""

    # pylint: disable=no-member,attribute-defined-outside-init

    def _own_node(self):
        return objects.node("n1", POD_CIDRS, [self.own_address])

    def move_own_node(self, address):
        """Ours has another address now."""
        self.own_address = address
        node = copy.deepcopy(self.nodes["n1"])
        node["status"] = self._own_node()["status"]
        self._put_node(node)

    def _put_node(self, node):
        name = node["metadata"]["name"]
        self.nodes[name] = node
        self._hidden &= name != "n1"
        self.api.apply(node)

    def edit_zone(self):
        """Of our node, which decides about hints."""
        node = copy.deepcopy(self.nodes["n1"])
        labels = node["metadata"]["labels"]
        labels.pop(objects.ZONE_LABEL, None)
        if not self.chance(4):
            labels[objects.ZONE_LABEL] = self.rng.choice(ZONES)
        self._put_node(node)

    def edit_pod_cidrs(self):
        """One family or both."""
        node = copy.deepcopy(self.nodes["n1"])
        cidrs = self.rng.choice((POD_CIDRS, POD_CIDRS[:1], POD_CIDRS[1:],
                                 POD_CIDRS[::-1]))
        node["spec"].update(podCIDR=cidrs[0], podCIDRs=list(cidrs))
        self._put_node(node)

    def edit_service_cidr(self):
        """A network of Services comes, changes or goes."""
        name = self.rng.choice(("kubernetes", "more"))
        if self.chance(3):
            self.api.delete("servicecidrs", "", name)
        else:
            self.api.apply(objects.service_cidr(
                name, self.rng.choice(SERVICE_CIDRS)))

    def edit_other_node(self):
        """Nodes that are not ours."""
        name = self.rng.choice(NODES[1:3])
        if name in self.nodes and self.chance(2):
            del self.nodes[name]
            self.api.delete("nodes", "", name)
        else:
            self._put_node(objects.node(
                name, ["10.10.2%s.0/24" % name[1]],
                zone=self.rng.choice(ZONES)))

    def _peer_cidrs(self):
        cidrs = self.rng.choice((
            [self.rng.choice(PEER_V4)], [self.rng.choice(PEER_V6)],
            [self.rng.choice(PEER_V4), self.rng.choice(PEER_V6)], []))
        if self.chance(6):
            cidrs += self.some(BAD_CIDRS, 2)
        if self.chance(20):
            cidrs += ["10.11.%d.0/24" % i for i in range(11)]
        return cidrs

    def _peer_addresses(self):
        addresses = self.some(PEER_ADDRESSES, 3)
        if self.chance(5):
            addresses += self.some(BAD_ADDRESSES, 2)
        self.rng.shuffle(addresses)
        return addresses

    def _new_peer(self, name):
        node = objects.node(name, self._peer_cidrs(), self._peer_addresses())
        node["metadata"]["creationTimestamp"] = (
            "2026-01-01T00:00:0%dZ" % self.rng.randrange(4))
        return node

    def _peer(self):
        there = sorted(set(PEERS) & set(self.nodes))
        return copy.deepcopy(self.nodes[self.rng.choice(there)]) \
            if there else self._new_peer(self.rng.choice(PEERS))

    def put_peer(self):
        """Another Node comes, or is another one."""
        self._put_node(self._new_peer(self.rng.choice(PEERS)))

    def delete_peer(self):
        """It goes."""
        name = self._peer()["metadata"]["name"]
        if self.nodes.pop(name, None):
            self.api.delete("nodes", "", name)

    def edit_peer_addresses(self):
        """Its addresses change."""
        node, new = self._peer(), self._new_peer("")
        node["status"] = new["status"]
        self._put_node(node)

    def edit_peer_cidrs(self):
        """Its pod networks change, which the API forbids."""
        node, new = self._peer(), self._new_peer("")
        node["spec"] = new["spec"]
        self._put_node(node)

    def annotate_peer(self):
        """It says where it is reached."""
        node = self._peer()
        node["metadata"].pop("annotations", None)
        if not self.chance(3):
            node["metadata"]["annotations"] = {TRANSPORT: self.rng.choice((
                ",".join(self._peer_addresses()), "nonsense", "",
                self.rng.choice(PEER_ADDRESSES)))}
        self._put_node(node)

    def recreate_peer(self):
        """Deleted and created at once under the same name."""
        node = self._peer()
        name = node["metadata"]["name"]
        with self.api.batch():
            if name in self.nodes:
                self.api.delete("nodes", "", name)
            self._put_node(node if self.chance(3) else self._new_peer(name))

    def swap_peers(self):
        """Two exchange their pod networks."""
        one, other = self._peer(), self._peer()
        one["spec"], other["spec"] = other["spec"], one["spec"]
        self._put_node(one)
        if one["metadata"]["name"] != other["metadata"]["name"]:
            self._put_node(other)

    def hide_own_node(self):
        """Ours is gone until mend()."""
        if not self._hidden:
            self._hidden = True
            self.api.delete("nodes", "", "n1")

    def recreate_node(self):
        """Ours, deleted and created at once."""
        with self.api.batch():
            if not self._hidden:
                self.api.delete("nodes", "", "n1")
            self._hidden = False
            self._put_node(self._own_node())
