# SPDX-License-Identifier: Apache-2.0
"""What session affinity and source ranges add to the cost of a new
connection: processor time of ovs-vswitchd, without and with, in turn."""
import ipaddress
import pathlib
import re
import shutil
import tempfile

from bed import vswitchd_cpu
from figures import median, spread
from support import packets
from support.packets import SYN, TCP
from support.pipenode import PipeNode, Service

N_CONNECTIONS = 3000            # A run.
AT_ONCE = 30                    # The switch takes 32 a turn.
RUNS = 5
N_ENDPOINTS = 10
N_RANGES = 2000
ADDRESS = "10.96.0.10"
CLIENTS = int(ipaddress.ip_address("198.18.0.0"))
MANY, ONE = "a client each", "one client"


def service(kind):
    """The Service, with one of "plain", "affinity" and "ranges"."""
    svc = Service(7, "tcp", 4, 10800 if kind == "affinity" else 0)
    if kind == "ranges":
        svc.at("external", ADDRESS, 80, "local", restricted=True)
        svc.ranges = ["198.18.0.0/15"] + ["10.%d.%d.0/24" % (
            i // 250, i % 250) for i in range(N_RANGES - 1)]
    else:
        svc.at("external", ADDRESS, 80, "local")
    svc.endpoints["cluster"] = svc.endpoints["local"] = [
        "203.0.113.%d" % (i + 10) for i in range(N_ENDPOINTS)]
    return svc


def frames(whose, first, dst):
    """First packets of AT_ONCE connections."""
    for i in range(first, first + AT_ONCE):
        src = ipaddress.ip_address(CLIENTS + (i if whose == MANY else 0))
        sport = 10000 + i if whose == ONE else 10000
        yield packets.ip(str(src), dst, TCP, packets.tcp(sport, 80, SYN))


def put_in(node, whose, dst=ADDRESS):
    """Microseconds of processor time for all connections."""
    node.flush_conntrack()
    before = vswitchd_cpu(node.switch)
    for first in range(0, N_CONNECTIONS, AT_ONCE):
        node.send_all("gw", list(frames(whose, first, dst)))
    return (vswitchd_cpu(node.switch) - before) / 1e3


def arrivals(node):
    """Connections that the Service's flows have seen; an address that is
    restricted is looked up twice."""
    node.switch.appctl("revalidator/purge")
    return max(int(n) for n in re.findall(
        r"n_packets=(\d+)[^\n]*tp_dst=80", node.switch.ofctl(
            "dump-flows", "table=12")))


def measure(directory, kind, whose):
    """Microseconds a connection, without what it costs to put packets in:
    that of packets from nowhere is subtracted.  The dummy device loses some
    when the switch is slow; those that arrived count."""
    with PipeNode(directory, 1, "noEncap") as node:
        node.serve(service(kind))
        node.load()
        nothing = put_in(node, ONE, "224.0.0.1")
        taken = put_in(node, whose)
        seen = arrivals(node)
    assert seen >= N_CONNECTIONS / 2, seen
    return (taken - nothing) / seen


def run(table, _options):
    """The sub-benchmark."""
    table.title("lookup: ovs-vswitchd's time a new connection, %d endpoints"
                % N_ENDPOINTS)
    for whose in (ONE, MANY):
        found = {"plain": [], "affinity": [], "ranges": []}
        for i in range(RUNS):
            for kind, costs in found.items():
                directory = pathlib.Path(tempfile.mkdtemp(
                    prefix="ofproxyd-bench-"))
                try:
                    costs.append(measure(directory / str(i), kind, whose))
                finally:
                    shutil.rmtree(directory, ignore_errors=True)
        for kind, costs in found.items():
            table.figure("%s, %s" % (whose, kind), median(costs), "us",
                         note=spread(costs, 1))
        for kind in ("affinity", "ranges"):
            table.figure("%s, %s: ratio" % (whose, kind), median(
                found[kind]) / median(found["plain"]), "")
