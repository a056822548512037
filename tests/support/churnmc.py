# SPDX-License-Identifier: Apache-2.0
"""Random changes of Gateways and ClusterInfoImports, and cluster IPs as
endpoints, for support.churn.Churn."""
import copy

from support import mcnode, objects
from support.clusterset import NAMESPACE, cluster_info

MEMBERS = ("n1", "n1", "n2", "n3")      # Ours is a gateway often.
CLUSTERS = ["c%d" % i for i in range(1, 7)]
GATEWAY_IPS = ["203.0.113.%d" % i for i in range(41, 47)]
INTERNAL_IPS = ["192.0.2.%d" % i for i in range(21, 26)]
# Few, so that they meet: each other, pods, Services, and nodes.
NETWORKS = ["10.97.0.0/16", "10.97.0.0/17", "10.98.0.0/16", "10.99.3.0/24",
            "10.99.3.128/25", "10.99.0.0/16", "2001:db8:97::/112"]
TAKEN = ["10.10.30.0/24", "10.10.1.0/24", "10.96.0.0/24", "192.0.2.0/24",
         "10.96.0.8/29", "0.0.0.0/0", "169.254.0.0/24", "2001:db8:10:30::/60",
         "198.51.100.22/32", "203.0.113.0/24"]
# What is no network, or address, at all.
BAD_NETWORKS = ["10.97.0.0", "10.97.0.0/33", "", "x", 7, None, "fe80::/64",
                "224.0.0.0/4", "::ffff:10.97.0.0/112"]
BAD_IPS = ["", "x", "127.0.0.1", "0.0.0.0", "224.0.0.1", "fe80::1", 7, None]
# Addresses of this cluster: nodes', a cluster IP, pods'.
OWN_IPS = ["192.0.2.11", "192.0.2.21", "198.51.100.21", "10.96.0.3",
           "10.10.1.1", "10.10.30.7", "2001:db8:2::11"]
MANY, TOO_MANY = 40, 300        # Gateways of one cluster.

# Names of methods, and how often each is to come.
STEPS = {"put_gateway": 8, "delete_gateway": 3, "move_gateway": 4,
         "put_cluster": 12, "delete_cluster": 5, "recreate_cluster": 3,
         "break_cluster": 4, "large_cluster": 1, "age_cluster": 2,
         "nest_endpoints": 12}
EXPECTED = (r"\|multicluster\|WARN\|", r"ClusterInfoImport .* is not used: ",
            r"of \d+ Gateways only the oldest", r"and \d+ more$",
            r"\|notice\|WARN\|Service .*: endpoint .* are rejected$")


class McChurn:
    """The part of Churn that is about other clusters; see there for its
    members."""

    # pylint: disable=no-member

    def _created(self):
        return "2026-01-01T00:00:0%dZ" % self.rng.randrange(4)

    def _gateway(self, name):
        return mcnode.gateway(name, self.rng.choice(GATEWAY_IPS),
                              self.rng.choice(INTERNAL_IPS),
                              self._created())

    def _some_of(self, kind):
        """The names of those that there are."""
        return sorted(o["metadata"]["name"] for o in self.api.objects(kind))

    def put_gateway(self):
        """One comes, or has other addresses."""
        self.api.apply(self._gateway(self.rng.choice(MEMBERS)))

    def delete_gateway(self):
        """It goes."""
        there = self._some_of("gateways")
        if there:
            self.api.delete("gateways", NAMESPACE, self.rng.choice(there))

    def move_gateway(self):
        """Another node is the gateway, at once."""
        with self.api.batch():
            for name in self._some_of("gateways"):
                self.api.delete("gateways", NAMESPACE, name)
            self.put_gateway()

    def _cluster(self, name):
        """One that counts, be some of it bad, or named twice."""
        networks = TAKEN if self.chance(5) else NETWORKS
        service_cidr = self.rng.choice(networks)
        pod_cidrs = self.some(NETWORKS + TAKEN + [service_cidr], 3)
        gateways = self.some(GATEWAY_IPS, 2) or GATEWAY_IPS[:1]
        if self.chance(4):
            gateways = self.some(OWN_IPS, 2) + gateways * self.rng.randrange(3)
        if self.chance(4):
            pod_cidrs += self.some(BAD_NETWORKS, 2) + pod_cidrs
            gateways += self.some(BAD_IPS, 2) + GATEWAY_IPS[:1]
            self.rng.shuffle(pod_cidrs)
            self.rng.shuffle(gateways)
        made = cluster_info(name, gateways or GATEWAY_IPS[:1], service_cidr,
                            pod_cidrs)
        made["metadata"]["creationTimestamp"] = self._created()
        return made

    def _put_cluster(self, obj, broken=False):
        name = obj["metadata"]["name"]
        key = "clusterinfoimports", NAMESPACE, name
        self.broken.discard(key)
        if broken:
            self.broken.add(key)
        self.api.apply(obj)

    def put_cluster(self):
        """One comes, or is another one."""
        self._put_cluster(self._cluster(self.rng.choice(CLUSTERS)))

    def break_cluster(self):
        """One can't be used at all, new or instead of a good one."""
        made = self._cluster(self.rng.choice(CLUSTERS))
        spec = made["spec"]
        key, value = self.rng.choice((
            ("serviceCIDR", self.rng.choice(BAD_NETWORKS)),
            ("serviceCIDR", [spec["serviceCIDR"]]),
            ("gatewayInfos", self.rng.choice(([], None, 7))),
            ("gatewayInfos", [{"gatewayIP": ip}
                              for ip in self.some(BAD_IPS, 2)]),
            ("gatewayInfos", spec["gatewayInfos"] * TOO_MANY),
            ("podCIDRs", "10.99.0.0/16")))
        spec[key] = value
        if self.chance(4):
            del spec[key if key != "podCIDRs" else "serviceCIDR"]
        self._put_cluster(made, broken=True)

    def large_cluster(self):
        """Of many networks, which begin in those of others, and many
        gateways."""
        made = self._cluster(self.rng.choice(CLUSTERS))
        first = self.rng.randrange(16)
        made["spec"]["podCIDRs"] = [
            "10.%d.%d.0/24" % (97 + i % 3, first + i // 3) for i in range(600)]
        made["spec"]["gatewayInfos"] += [
            {"gatewayIP": "198.51.101.%d" % (i // 2)} for i in range(MANY)]
        self._put_cluster(made)

    def age_cluster(self):
        """It is made again with its networks, older or younger than it
        was."""
        there = self.api.objects("clusterinfoimports")
        if there:
            made = copy.deepcopy(self.rng.choice(there))
            made["metadata"] = {"name": made["metadata"]["name"],
                                "namespace": NAMESPACE,
                                "creationTimestamp": self._created()}
            with self.api.batch():
                self.api.delete("clusterinfoimports", NAMESPACE,
                                made["metadata"]["name"])
                self.api.apply(made)

    def delete_cluster(self):
        """It goes."""
        there = self._some_of("clusterinfoimports")
        if there:
            self.api.delete("clusterinfoimports", NAMESPACE,
                            self.rng.choice(there))

    def recreate_cluster(self):
        """Deleted and created at once under the same name."""
        there = self._some_of("clusterinfoimports")
        if there:
            name = self.rng.choice(there)
            with self.api.batch():
                self.api.delete("clusterinfoimports", NAMESPACE, name)
                self._put_cluster(self._cluster(name))

    def nest_endpoints(self):
        """Cluster IPs among the endpoints: of Services that are there or
        not, of the own one, and of other clusters."""
        sl = self._slice()
        if not sl or sl["addressType"] == "FQDN":
            return
        v6 = sl["addressType"] == "IPv6"
        addresses = self.some(
            [a for svc in self.services.values()
             for a in svc["spec"].get("clusterIPs") or []
             if (":" in a) == v6 and a != "None"]
            + ["2001:db8:96::7" if v6 else "10.96.0.7"]
            + (["2001:db8:97::7"] if v6 else ["10.97.0.7", "10.99.3.7"]), 4)
        kept = self.some(sl["endpoints"] or [], 3)
        sl["endpoints"] = [objects.endpoint(a) for a in
                           dict.fromkeys(addresses)] + kept or None
        sl["ports"] = [objects.slice_port(
            self.rng.choice((53, 80, 80, 443)), port["name"],
            port["protocol"]) for port in sl["ports"] or []] or None
        self._put(sl)
