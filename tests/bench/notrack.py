# SPDX-License-Identifier: Apache-2.0
"""What it costs that tunnel packets are tracked: datagrams as of a tunnel
between two network namespaces whose kernels track connections, with and
without the NOTRACK rules at both ends; and the cost of the rules' table."""
import pathlib
import tempfile

from figures import median, spread
from support import daemon
from support.netns import Netns
from support.packets import sock
from support.rulesprobe import RulesProbe

RUNS = 7
# Flows, and seconds: few flows that last, and as many as there are ports, most
# of whose datagrams are the first ones.
FLOWS = ((1, 1), (256, 1), (60000, 0.3))
PORT = 6081
ADDRESSES = ("192.0.2.1", "192.0.2.2")
SETTINGS = ("gateway gw0", "gateway-ip 10.10.1.1",
            "virtual-ip 169.254.0.253", "pod-cidr 10.10.1.0/24",
            "masquerade 1", "complete 1", "add pods 10.10.1.0/24")
SIZES = (100, 1000, 5000)


def send(node, n_flows, length):
    """(nanoseconds of CPU a datagram, datagrams a second)."""
    text = node.run(daemon.binary().parent / "tests/bench-udp", *ADDRESSES,
                    str(PORT), str(n_flows), str(length)).stdout
    n, cpu, seconds = text.split()
    return 1e9 * float(cpu) / int(n), int(n) / float(seconds)


def compare(table, ends, probes, n_flows, length):
    """With and without in turn."""
    cost, rate = {}, {}
    for run in range(2 * RUNS):
        port = PORT * (run % 2)
        for probe in probes:
            probe.set("notrack %d" % port)
        for end in ends:
            end.run("conntrack", "-F")
        ns, per_s = send(ends[0], n_flows, length)
        cost.setdefault(bool(port), []).append(ns)
        rate.setdefault(bool(port), []).append(per_s)
    name = "%d flows: " % n_flows
    for tracked, bypass in (("tracked", False), ("not tracked", True)):
        table.figure(name + tracked, median(cost[bypass]), "ns CPU",
                     note=spread(cost[bypass], 0))
    table.figure(name + "CPU, not tracked / tracked",
                 median(cost[True]) / median(cost[False]), "", goal=1.05)
    table.figure(name + "rate, not tracked / tracked",
                 median(rate[True]) / median(rate[False]), "")


def run_tunnel(table, directory, netns):
    """Datagrams."""
    ends = [netns.namespace("one"), netns.namespace("other")]
    netns.connect(*ends, *(a + "/24" for a in ADDRESSES))
    probes = []
    try:
        for end, own, other in zip(ends, ADDRESSES, reversed(ADDRESSES)):
            probes.append(RulesProbe(end, directory))
            probes[-1].set(*SETTINGS, "transport " + own,
                           "add nodes %s/32" % other)
        with sock(ends[1], 4, address=ADDRESSES[1], port=PORT):
            for n_flows, length in FLOWS:
                compare(table, ends, probes, n_flows, length)
    finally:
        for probe in probes:
            probe.stop()


def run_table(table, directory, netns):
    """The table itself, by the number of nodes."""
    for size in SIZES:
        ns = netns.namespace("table")
        with RulesProbe(ns, directory) as probe:
            probe.send("many pods %d 10.64.0.0/24" % size,
                       "many nodes %d 198.18.0.1/32" % size)
            probe.set(*SETTINGS, "transport 192.0.2.1", "notrack 6081")
            whole = probe.took()
            one = []
            for n in range(20):
                probe.send("add nodes 203.0.113.%d/32" % n,
                           "add pods 172.16.%d.0/24" % n)
                probe.wait_sync()
                one.append(probe.took())
        table.figure("%d nodes: the whole table" % size, whole, "ms CPU")
        table.figure("%d nodes: one more" % size, median(one), "ms CPU",
                     note=spread(one))


def run(table, _options):
    """The sub-benchmark."""
    netns = Netns()
    try:
        with tempfile.TemporaryDirectory() as directory:
            table.title("notrack: tunnel packets and connection tracking")
            run_tunnel(table, pathlib.Path(directory), netns)
            run_table(table, pathlib.Path(directory), netns)
    finally:
        netns.close()
