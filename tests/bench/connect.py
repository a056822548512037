# SPDX-License-Identifier: Apache-2.0
"""How many TCP connections a second a pod opens to a ClusterIP, against the
same pod's address without a Service, and how evenly the endpoints are used:
real packets between network namespaces through the userspace datapath."""
import collections
import math
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from bed import vswitchd_cpu
from figures import median, spread
from support import daemon, proc
from support.cluster import Cluster, at

# Of the servers.  Two, since a translated connection may not have the same
# ends as one that went there directly and is remembered still.
DIRECT_PORT, SERVICE_PORT = 9000, 9001
SECONDS = 2
RUNS = 5
CONCURRENT = (1, 20)
REVALIDATION = 2                # Seconds until the datapath's flows follow a
                                # change, and until they have been counted.
ENDPOINTS = (1, 3, 10, 50, 64, 65, 100)


def program():
    """The client and server."""
    return daemon.binary().parent / "tests" / "bench-connect"


def serve(pod, port, n_ports):
    """A server in a pod."""
    server = pod.start(program(), "serve", str(port), str(n_ports), "32",
                       stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline().strip() == "ready"
    return server


def rate(pod, address, port, concurrent):
    """Connections a second.

    Without memory of earlier ones: a client has only so many ports, and the
    userspace datapath, which remembers a connection for half a minute, gives
    a translated one that comes again from the same port another port, as
    long as it finds one."""
    pod.node.switch.appctl("dpctl/flush-conntrack")
    text = pod.run(program(), "ask", address, str(port), str(concurrent),
                   str(SECONDS)).stdout
    n_done, n_failed, seconds = text.split()
    assert int(n_failed) == 0, text
    return int(n_done) / float(seconds)


def endpoints(pod, n):
    """The first 'n' ports of the Service's server."""
    return [at({4: pod.of(4)}, SERVICE_PORT + i, "n1") for i in range(n)]


def compare(table, cluster, service, concurrent):
    """Service and pod in turn."""
    client, server = cluster.pods[:2]
    direct, through, share = [], [], []
    for _ in range(RUNS):
        direct.append(rate(client, server.of(4), DIRECT_PORT, concurrent))
        before = vswitchd_cpu(cluster.node.switch)
        through.append(rate(client, service.of(4), 80, concurrent))
        share.append((vswitchd_cpu(cluster.node.switch) - before) / 1e9
                     / SECONDS)
    name = "%d at a time: " % concurrent
    table.figure(name + "to the pod", median(direct), "1/s",
                 note=spread(direct, 0))
    table.figure(name + "to the cluster IP", median(through), "1/s",
                 note=spread(through, 0))
    table.figure(name + "ratio", median(through) / median(direct), "")
    table.figure(name + "ovs-vswitchd", median(share), "cores")


def packets_by_endpoint(switch):
    """How many packets the groups have sent to each endpoint.  An endpoint
    may have two buckets, and has a group for each protocol."""
    found = collections.Counter()
    stats = {line.split(",")[0].strip(): line for line in
             switch.ofctl("dump-group-stats").splitlines()
             if "group_id=" in line}
    for group in switch.dump_groups(names=False):
        endpoints = re.findall(r"nat\(dst=([\d.:]+)\)", group)
        packets = re.findall(r"bucket\d+:packet_count=(\d+)",
                             stats[group.split(",")[0]])
        assert len(endpoints) == len(packets), group
        for endpoint, n in zip(endpoints, packets):
            found[endpoint] += int(n)
    return list(found.values())


def evenness(table, cluster, service, n):
    """Rate and spread with 'n' endpoints."""
    client, server = cluster.pods[:2]
    service.set(endpoints(server, n))
    time.sleep(REVALIDATION)
    rates = [rate(client, service.of(4), 80, 20) for _ in range(3)]
    time.sleep(REVALIDATION)
    counts = packets_by_endpoint(cluster.node.switch)
    mean = sum(counts) / n
    table.figure("%d endpoints, 20 at a time" % n, median(rates), "1/s")
    if n > 1:
        table.figure("%d endpoints, deviation : mean" % n,
                     statistics.pstdev(counts) / mean, "",
                     note="%.2f to %.2f of the mean; chance alone %.3f" % (
                         min(counts) / mean, max(counts) / mean,
                         math.sqrt((n - 1) / sum(counts))))


def run(table, _options):
    """The sub-benchmark."""
    table.title("connect: TCP connections from pod to pod, userspace "
                "datapath")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ofproxyd-bench-"))
    try:
        with Cluster(directory, n_pods=2, families=(4,)) as cluster:
            for pod in cluster.pods:
                pod.sysctl(net__ipv4__ip_local_port_range="10000 65000")
            servers = [serve(cluster.pods[1], DIRECT_PORT, 1),
                       serve(cluster.pods[1], SERVICE_PORT, max(ENDPOINTS))]
            service = cluster.service(endpoints(cluster.pods[1], 1))
            for concurrent in CONCURRENT:
                compare(table, cluster, service, concurrent)
            for n in ENDPOINTS:
                evenness(table, cluster, service, n)
            for server in servers:
                proc.stop(server)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
