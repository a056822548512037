# SPDX-License-Identifier: Apache-2.0
"""What it costs to remember 100 000 clients: memory of switch and daemon, the
daemon's part in each that is learned, what the switch does to keep the order
of eviction, and a restart of the daemon.

What a new connection costs with affinity is in "lookup"; here is what it
costs when there are as many clients already as may be."""
import pathlib
import re
import shutil
import tempfile
import time

import lookup

from bed import Bed, cluster, cpu_ns, switch_rss_mib, vswitchd_cpu
from figures import median, spread
from support import objects, packets
from support.packets import SYN, TCP
from support.pipenode import PipeNode
from support.wait import wait_for

N_SERVICES = 1000
N_CLIENTS = 100000
N_LEARNED_SINGLY = 20000
N_NEW, AT_ONCE = 2000, 8        # More at once than the switch can take would
                                # be lost.
IDLE = 5                        # Seconds.
RUNS = 5
TABLE, LEARNED = 11, 0xf901070000000000
TIMEOUT = 10800


def given(seed):
    """A cluster, and a Service that remembers."""
    return cluster(N_SERVICES, seed) + [
        objects.service("ns1", "affine", cluster_ips=["10.112.0.10"],
                        sessionAffinity="ClientIP"),
        objects.slice_("ns1", "affine",
                       ["10.113.0.%d" % (i + 1) for i in range(10)])]


def group_of(daemon):
    """The id of its group."""
    unit = next(line.split() for line in
                daemon.appctl("services").splitlines()
                if line.startswith("ns1/affine"))
    return 0x40000000 | int(unit[6]) << 9


def flows(group, first, n):
    """Learned flows, as text."""
    return "".join(
        "table=%d,cookie=%#x,priority=200,idle_timeout=%d,ip,reg7=%#x,"
        "nw_src=198.%d.%d.%d,actions=set_field:0x0a7100%02x->reg3,"
        "set_field:80/0xffff->reg4,set_field:0x20000/0x70000->reg4\n"
        % (TABLE, LEARNED | i % 10, TIMEOUT, group, 18 + (i >> 16),
           i >> 8 & 255, i & 255, i % 10 + 1)
        for i in range(first, first + n))


def learn(directory, switch, group, first, n, *options):
    """Has the switch learn; with --bundle all at once, else one by one."""
    path = directory / "learned"
    path.write_text(flows(group, first, n))
    switch.ofctl("add-flows", path, options=options)


def learn_singly(table, bed, switch, daemon, group):
    """Each is a notice to the daemon, which leaves it alone."""
    def cost(first):
        mine, its = cpu_ns(daemon.pid), vswitchd_cpu(switch)
        learn(bed.dir, switch, group, first, N_LEARNED_SINGLY)
        time.sleep(1)
        return (cpu_ns(daemon.pid) - mine) / 1e3 / N_LEARNED_SINGLY, \
            (vswitchd_cpu(switch) - its) / 1e3 / N_LEARNED_SINGLY

    mine, its = cost(0)
    table.figure("ofproxyd's time for each that is learned", mine, "us")
    table.figure("ovs-vswitchd's", its, "us",
                 note="as flows put one by one, no packet looked up")
    table.figure("ratio", mine / its, "")


def idle(table, switch, daemon, what):
    """What both do of themselves."""
    mine, its = cpu_ns(daemon.pid), vswitchd_cpu(switch)
    time.sleep(IDLE)
    table.figure("ovs-vswitchd, idle, %s" % what,
                 (vswitchd_cpu(switch) - its) / 1e6 / IDLE, "ms/s")
    table.figure("ofproxyd, idle, %s" % what,
                 (cpu_ns(daemon.pid) - mine) / 1e6 / IDLE, "ms/s")


def restart(daemon, switch):
    """(Seconds to in sync, ms of the daemon's and the switch's time until all
    that was learned has been looked at.)"""
    daemon.kill()
    before = vswitchd_cpu(switch)
    start = time.monotonic()
    daemon.start().wait_ready()
    seconds = time.monotonic() - start
    wait_for(lambda: re.search(r"learned: .* 1 reviews", daemon.sync()), 30,
             "the review", daemon)
    assert daemon.sent() == 0
    return (seconds, cpu_ns(daemon.pid) / 1e6,
            (vswitchd_cpu(switch) - before) / 1e6)


def restarts(table, daemon, switch, what):
    """The median of some, and their seconds."""
    found = [restart(daemon, switch) for _ in range(RUNS)]
    for column, name, unit in ((0, "restart to in sync", "s"),
                               (1, "ofproxyd's time, review included", "ms"),
                               (2, "ovs-vswitchd's", "ms")):
        values = [values[column] for values in found]
        table.figure("%s, %s" % (name, what), median(values), unit,
                     note=spread(values))
    return [median([values[k] for values in found]) for k in range(3)]


def put_in(node, dst):
    """Microseconds of ovs-vswitchd's for a packet of each new client."""
    node.flush_conntrack()
    before = vswitchd_cpu(node.switch)
    frames = [packets.ip("10.%d.%d.1" % (i // 250, i % 250), dst, TCP,
                         packets.tcp(10000, 80, SYN)) for i in range(N_NEW)]
    for at in range(0, N_NEW, AT_ONCE):
        node.send_all("gw", frames[at:at + AT_ONCE])
    return (vswitchd_cpu(node.switch) - before) / 1e3


def new_clients(directory, n_before):
    """Microseconds of ovs-vswitchd's for each new client, with so many
    before."""
    with PipeNode(directory, 1, "noEncap") as node:
        node.serve(lookup.service("affinity"))
        node.load()
        node.switch.vsctl(
            "--", "--id=@t", "create", "Flow_Table",
            "flow_limit=%d" % N_CLIENTS, "overflow_policy=evict", "--", "set",
            "bridge", node.switch.bridge, "flow_tables:%d=@t" % TABLE)
        learn(directory, node.switch, 0x7fffff00, 0, n_before, "--bundle")
        time.sleep(IDLE)        # The switch revalidates and counts.
        nothing = put_in(node, "224.0.0.1")
        taken = put_in(node, lookup.ADDRESS)
        seen = lookup.arrivals(node)
    assert seen >= N_NEW / 2, seen
    return (taken - nothing) / seen


def run_new(table):
    """Clients that come as fast as may be: each makes the switch revalidate,
    and then look at all that may be over.  A full table makes room."""
    found = {0: [], N_CLIENTS // 2: [], N_CLIENTS - 1: []}
    for _ in range(RUNS):
        for n_before, costs in found.items():
            directory = pathlib.Path(tempfile.mkdtemp(
                prefix="ofproxyd-bench-"))
            try:
                costs.append(new_clients(directory / "1", n_before))
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    first = median(found[0])
    for n_before, costs in found.items():
        table.figure("a new client, %d before" % n_before, median(costs),
                     "us", note=spread(costs, 0))
        if n_before:
            table.figure("ratio", median(costs) / first, "")


def run(table, options):
    """The sub-benchmark."""
    table.title("affinity: %d clients remembered, %d Services"
                % (N_CLIENTS, N_SERVICES))
    with Bed(N_SERVICES, options.seed, given=given(options.seed)) as bed, \
            bed.synced() as (switch, daemon):
        group = group_of(daemon)
        without = restarts(table, daemon, switch, "nobody")
        idle(table, switch, daemon, "nobody")
        rss, own = switch_rss_mib(switch), daemon.anonymous_kib()
        learn_singly(table, bed, switch, daemon, group)
        learn(bed.dir, switch, group, N_LEARNED_SINGLY,
              N_CLIENTS - N_LEARNED_SINGLY - 1, "--bundle")
        idle(table, switch, daemon, "all remembered")
        table.figure("ovs-vswitchd's memory for each client",
                     (switch_rss_mib(switch) - rss) * 1024 / N_CLIENTS, "KiB")
        table.figure("ofproxyd's memory for all",
                     (daemon.anonymous_kib() - own) / 1024, "MiB")
        with_all = restarts(table, daemon, switch, "all remembered")
        for k, name in enumerate(("restart to in sync", "ofproxyd's time",
                                  "ovs-vswitchd's time")):
            table.figure(name + ": ratio", with_all[k] / without[k], "")
        text = switch.ofctl("dump-aggregate", "table=%d" % TABLE)
        assert "flow_count=%d" % N_CLIENTS in text, text
    run_new(table)
