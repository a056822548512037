# SPDX-License-Identifier: Apache-2.0
"""Clusters that know each other by Antrea Multi-cluster's objects.

    with ClusterSet(directory) as clusters:
        east, west = clusters.east, clusters.west
        web = clusters.export([at(east.nodes[1].pods[0])],
                              [at(west.nodes[1].pods[0])])
        result = web.ask(east.nodes[1].pods[1])

Each has two nodes or more on an underlay of its own subnet, its own API
server, and a gateway, which is its first node at first.
"""
import contextlib
import re

from support import apistore, ctl
from support.cluster import PORT, Endpoint
from support.multinode import MultiCluster
from support.rig import has_all
from support.wait import slowness, wait_for

NAMESPACE = "multicluster"      # Of Gateway and ClusterInfoImport.
API = "multicluster.crd.antrea.io/v1alpha1"
IMPORTED = "multicluster.antrea.io/imported-service"
INTERVAL = 0.002                # Seconds from question to question.
WEST_CIDRS = {4: "10.97.0.0/16", 6: "2001:db8:97::/112"}
NEXT = re.compile(r"^To: ([0-9.]+).*\nNext, on [^:]*: ofproxyctl trace (.*)$",
                  re.M)         # In the output of a trace.
ON = {"featureGates": {"Multicluster": True},
      "multicluster": {"enableGateway": True, "namespace": NAMESPACE}}
POD_TO_POD = {**ON, "multicluster": {**ON["multicluster"],
                                     "enablePodToPodConnectivity": True}}


def gateway(node, family=4, **fields):
    """The Gateway that this node is."""
    return {"apiVersion": API, "kind": "Gateway",
            "metadata": {"name": node.node_name, "namespace": NAMESPACE},
            "gatewayIP": node.of(family), "internalIP": node.of(family),
            **fields}


def cluster_info(name, gateways, service_cidr, pod_cidrs=()):
    """The ClusterInfoImport of a cluster with these gateways' addresses."""
    return {"apiVersion": API, "kind": "ClusterInfoImport",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"clusterID": name, "serviceCIDR": service_cidr,
                     "podCIDRs": list(pod_cidrs),
                     "gatewayInfos": [{"gatewayIP": g} for g in gateways]}}


class ClusterSet:
    """See the top of the file.

    mode: of both clusters.  resources: what the API servers have of the
    objects' kinds; unless they have all, introduce() makes the objects.
    families: of pods and nodes.  The objects carry the addresses of Services
    and gateways in the first one; the networks of pods, in all; and that of
    the second family's Services as if it were one of pods.
    config: more keys of antrea-agent.conf, and of MultiCluster."""

    def __init__(self, directory, mode="encap",
                 resources=apistore.MULTICLUSTER, families=(4,), **config):
        config = {"resources": resources, "families": families,
                  "underlay": families, **ON, **config}
        self.families, self.family = families, families[0]
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            self.east = stack.enter_context(self._make(
                directory / "east", "aa", mode, **config))
            self.west = stack.enter_context(self._make(
                directory / "west", "bb", mode, beside=self.east, first=3,
                service_cidrs=WEST_CIDRS, **config))
            self._stack = stack.pop_all()
        self.clusters = {"east": self.east, "west": self.west}
        self.gateways, self.addresses = {}, {}
        if resources == apistore.MULTICLUSTER:
            self.introduce()

    def introduce(self):
        """Makes the first nodes gateways, and lets the clusters know each
        other."""
        for name, cluster in self.clusters.items():
            self.set_gateway(name, cluster.nodes[0])

    @staticmethod
    def _make(directory, subnets, mode, **more):
        directory.mkdir()
        return MultiCluster(directory, subnets, mode=mode, **more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def others(self, name):
        """The clusters but this one, by name."""
        return {n: c for n, c in self.clusters.items() if n != name}

    def set_gateway(self, name, node, tell=True, address=None):
        """Makes a node its cluster's gateway, with this address or the
        node's own; tell: the others learn it."""
        cluster = self.clusters[name]
        old = self.gateways.get(name)
        self.gateways[name] = node
        self.addresses[name] = address = address or node.of(self.family)
        with cluster.api.batch():
            cluster.api.apply(gateway(node, self.family, gatewayIP=address,
                                      internalIP=address))
            if old and old is not node:
                cluster.api.delete("gateways", NAMESPACE, old.node_name)
        if tell:
            self.tell(name)

    def tell(self, name, *more):
        """The others learn the gateway of this one, and 'more' addresses
        of gateways."""
        for other in self.others(name).values():
            other.api.apply(self.info(name, *more))

    def info(self, name, *more):
        """What other clusters are told of this one, with 'more' addresses
        of gateways."""
        cluster = self.clusters[name]
        services = [cluster.service_cidrs[f] for f in self.families]
        return cluster_info(
            name, [self.addresses[name], *more], services[0],
            [str(c) for node in cluster.nodes for c in node.cidrs]
            + services[1:])

    def wait(self, timeout=20):
        """Waits until every node knows what its API server has, has the
        flows of its role and no more to do."""
        for name, cluster in self.clusters.items():
            for member in cluster.members:
                wait_for(lambda n=name, m=member: self._is_settled(n, m),
                         timeout, "all to be done", member.daemon)
        return self

    def _is_settled(self, name, member):
        """By two answers: its turn may have begun before the last event
        came."""
        api, gateway = self.clusters[name].api, self.gateways[name]
        words = ["multicluster: %s; Gateway %s, for other clusters %s" % (
            "gateway" if member.node is gateway else "regular node",
            gateway.node_name, self.addresses[name]),
                 "other clusters: %d\n" % len(api.store.records(
                     "clusterinfoimports"))]
        return api.delivered() and all(
            has_all(api, text) and all(word in text for word in words)
            for text in (member.daemon.appctl("sync") for _ in range(2)))

    def follow(self, node, client, target):
        """The way of a packet that `ofproxyctl trace` tells: what is typed
        on 'node', and then as each trace says: [(member, arguments,
        output)]."""
        way, args = [], [client, target]
        while args and len(way) < 5:
            member = next(m for c in self.clusters.values()
                          for m in c.members if m.node is node)
            way.append((member, args, ctl.output(member, "trace", *args)))
            found = NEXT.search(way[-1][2])
            args = found and found.group(2).split()
            node = found and next(
                n for c in self.clusters.values() for n in c.nodes
                if n.of(4) == found.group(1))
        return way

    def export(self, endpoints, importer="east", **spec):
        """A Service of every cluster with the endpoints that 'endpoints'
        has under its name, and this spec; and in 'importer' one whose
        endpoints are their cluster IPs: (that one, the others by name)."""
        made = {name: self.clusters[name].service(found, **spec)
                for name, found in endpoints.items()}
        home = self.clusters[importer]
        imported = home.service(
            [Endpoint(service.addresses, PORT, None)
             for service in made.values()], wait=False)
        home.api.apply({**imported.object(), "metadata": {
            **imported.object()["metadata"],
            "annotations": {IMPORTED: "true"}}})
        self.wait()
        return imported, made

    def dump(self):
        """For failure messages."""
        return self.east.dump() + self.west.dump()

    def settle(self, service, client, timeout=10):
        """Waits until all of 20 questions are answered."""
        wait_for(lambda: service.ask(client, 4, 20, timeout=0.5)["n"] == 20,
                 timeout, "answers", self.dump)

    def allow(self, *patterns):
        """Warnings of the daemons that match are expected."""
        for cluster in self.clusters.values():
            for member in cluster.members:
                member.daemon.allow(*patterns)

    def unexpected_warnings(self):
        """Of all."""
        return (self.east.unexpected_warnings()
                + self.west.unexpected_warnings())


@contextlib.contextmanager
def traffic(service, client, concurrency=1, timeout=2):
    """Questions by TCP and UDP from here to the end of the block."""
    with contextlib.ExitStack() as stack:
        yield {proto: stack.enter_context(service.client(
            client, "connect", 4, proto=proto, interval=INTERVAL, least=20,
            concurrency=concurrency, timeout=timeout))
               for proto in ("tcp", "udp")}


@contextlib.contextmanager
def several(service, pods, kind, **more):
    """A client in each of some pods, to the end of the block."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(service.client(
            pod, kind, 4, interval=INTERVAL, **more)) for pod in pods]


def outage(result):
    """Seconds from the first failed question to the last one, as they were
    asked."""
    times = [f["at"] - f["after"] for f in result["failures"]] or [0]
    return max(times) - min(times)


def assert_short_outage(what, clients):
    """Also prints what the traffic has lost."""
    for proto, client in clients.items():
        result = client.result
        print("%s: %s: %d answers, %d failures %s in %.3f s, slowest %.3f s"
              % (what, proto, result["n"], result["n_failures"],
                 result["kinds"], outage(result), result["max"]))
        assert result["n"] > 10, (proto, result)
        assert outage(result) < 3 * slowness(), (proto, result["failures"])


def assert_no_failures(clients):
    """None of the questions has none; a change may take few of them."""
    for name, client in clients.items():
        result = client.result
        assert not result["n_failures"], (name, result["failures"])
        assert result["n"] > 2, (name, result)


def late_failures(client, when):
    """Of questions that were asked after a time."""
    return [f for f in client.result["failures"]
            if client.result["began"] + f["at"] - f["after"] > when]
