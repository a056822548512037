# SPDX-License-Identifier: Apache-2.0
"""What it costs to remember 100 000 clients: memory of switch and daemon, the
daemon's part in each that is learned, what the switch does to keep the order
of eviction, and a restart of the daemon.

What a new connection costs with affinity is in "lookup"."""
import re
import time

from bed import Bed, cluster, cpu_ns, switch_rss_mib, vswitchd_cpu
from figures import median, spread
from support import objects
from support.wait import wait_for

N_SERVICES = 1000
N_CLIENTS = 100000
N_LEARNED_SINGLY = 20000
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


def learn(bed, switch, group, first, n, *options):
    """Has the switch learn; with --bundle all at once, else one by one."""
    path = bed.dir / "learned"
    path.write_text(flows(group, first, n))
    switch.ofctl("add-flows", path, options=options)


def learn_singly(table, bed, switch, daemon, group):
    """Each is a notice to the daemon, which leaves it alone."""
    def cost(first):
        mine, its = cpu_ns(daemon.pid), vswitchd_cpu(switch)
        learn(bed, switch, group, first, N_LEARNED_SINGLY)
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
        learn(bed, switch, group, N_LEARNED_SINGLY,
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
