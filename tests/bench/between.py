# SPDX-License-Identifier: Apache-2.0
"""What a Service costs whose endpoint is on another node: TCP connections a
second and the throughput of one, from a pod to the cluster IP, against the
same path to the endpoint's own address, in each mode.  Real packets through
the switches of two nodes and the router's link between them."""
import pathlib
import shutil
import subprocess
import tempfile

from connect import DIRECT_PORT, SERVICE_PORT, program, serve
from figures import median, spread
from support import proc
from support.cluster import at
from support.multinode import MultiCluster

SECONDS = 1
RUNS = 7
CONCURRENT = (1, 20)
SINK_PORTS = (9100, 9101)       # Direct, and the Service's.
MIN_RATIO = 0.9

# {what: (mode, subnets of the nodes)}
PATHS = {"encap geneve": ("encap", "aa"), "noEncap": ("noEncap", "aa"),
         "hybrid, one subnet": ("hybrid", "aa"),
         "hybrid, two subnets": ("hybrid", "ab")}


class Path:
    """From a pod of one node to one of the other."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.client, self.server = (n.pods[0] for n in cluster.nodes)
        self._servers = [serve(self.server, DIRECT_PORT, 1),
                         serve(self.server, SERVICE_PORT, 1)]
        for port in SINK_PORTS:
            self._servers.append(self._sink(port))
        self.client.sysctl(net__ipv4__ip_local_port_range="10000 65000")
        self._web, self._files = (
            cluster.service([at({4: self.server.of(4)}, port, "n2")])
            for port in (SERVICE_PORT, SINK_PORTS[1]))

    def _sink(self, port):
        made = self.server.start(program(), "sink", str(port),
                                 stdout=subprocess.PIPE, text=True)
        assert made.stdout.readline().strip() == "ready"
        return made

    def _forget(self):
        """No run is to find what another one left (see connect.rate)."""
        for node in self._cluster.nodes:
            node.switch.appctl("dpctl/flush-conntrack")

    def rate(self, through, concurrent):
        """Connections a second."""
        self._forget()
        where = ((self._web.of(4), 80) if through
                 else (self.server.of(4), DIRECT_PORT))
        text = self.client.run(program(), "ask", where[0], str(where[1]),
                               str(concurrent), str(SECONDS)).stdout
        n_done, n_failed, seconds = text.split()
        assert int(n_failed) == 0, text
        return int(n_done) / float(seconds)

    def throughput(self, through):
        """Mbit/s of one connection."""
        self._forget()
        where = ((self._files.of(4), 80) if through
                 else (self.server.of(4), SINK_PORTS[0]))
        text = self.client.run(program(), "pour", where[0], str(where[1]),
                               str(SECONDS)).stdout
        n_bytes, seconds = text.split()
        return int(n_bytes) * 8 / 1e6 / float(seconds)

    def close(self):
        """Ends the servers."""
        for server in self._servers:
            proc.stop(server)


def compare(table, name, unit, measure):
    """The direct path and the Service's in turn, each first as often as the
    other; the ratio is that of runs next to each other."""
    direct, through = [], []
    for run_ in range(RUNS):
        for service in (False, True) if run_ % 2 else (True, False):
            (through if service else direct).append(measure(service))
    ratios = [t / d for t, d in zip(through, direct)]
    table.figure(name + ", direct", median(direct), unit,
                 note=spread(direct, 0))
    table.figure(name + ", Service", median(through), unit,
                 note=spread(through, 0))
    table.figure(name + ", direct : Service", 1 / median(ratios), "",
                 round(1 / MIN_RATIO, 2), "ratios " + spread(ratios))


def run_path(table, what, mode, subnets):
    """The figures of one mode."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ofproxyd-bench-"))
    try:
        with MultiCluster(directory, subnets, mode=mode, families=(4,),
                          underlay=(4,), n_pods=1) as cluster:
            path = Path(cluster)
            for n in CONCURRENT:
                compare(table, "%s: %d at a time" % (what, n), "1/s",
                        lambda service, n=n: path.rate(service, n))
            compare(table, what + ": throughput", "Mbit/s", path.throughput)
            path.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run(table, _options):
    """The sub-benchmark."""
    table.title("between: from a pod to an endpoint on another node, with "
                "and without a Service, userspace datapath")
    for what, (mode, subnets) in PATHS.items():
        run_path(table, what, mode, subnets)
