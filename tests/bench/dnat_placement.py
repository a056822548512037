#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Where an endpoint's translation stands: in the group's bucket, or in a flow
of EndpointDNAT to which the bucket leads by way of registers.

    tests/bench/dnat_placement.py [--rounds N] [--services N]

What both cost to program and to keep, and how many connections a second they
let through.  docs/decisions/0002 goes by it.  Needs root and, in $O, the
daemon and tests/bench-connect."""
import argparse
import ipaddress
import pathlib
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

# pylint: disable=wrong-import-position
from bed import switch_rss_mib, vswitchd_cpu    # noqa: E402
from connect import SECONDS, SERVICE_PORT, endpoints, rate, serve  # noqa: E402
from figures import Table, median, spread       # noqa: E402
from support import proc                        # noqa: E402
from support.cluster import PORT, Cluster       # noqa: E402
from support.ovs import PrivateSwitch           # noqa: E402

FORMS = ("bucket", "registers")
N_ENDPOINTS = 10                # Of each Service that is programmed.
N_CHANGES = 20
CT = ("ct(commit,table=20,zone=65520,nat(dst=%s:%d),"
      "exec(set_field:0x10/0x10->ct_mark))")
BUCKET = re.compile(r"actions=ct\([^)]*nat\(dst=([\d.]+):(\d+)\)"
                    r",exec\([^)]*\)\)")


def by_registers(address, port):
    """A bucket's actions, and the flow that they lead to."""
    value = int(ipaddress.ip_address(address))
    return ("actions=set_field:0x%x->reg3,set_field:0x%x/0xffff->reg4,"
            "resubmit(,14)" % (value, port),
            "table=14,priority=200,tcp,reg3=0x%x,reg4=0x%x/0x7ffff,actions=%s"
            % (value, 0x20000 | port, CT % (address, port)))


# Programming.

def make_service(form, number, n_endpoints, command="add"):
    """The lines of a bundle for one Service."""
    buckets, flows = [], []
    for i in range(n_endpoints):
        address = str(ipaddress.ip_address("10.128.0.0")
                      + number * N_ENDPOINTS + i)
        actions, flow = by_registers(address, 8080)
        if form == "bucket":
            actions = "actions=" + CT % (address, 8080)
        else:
            flows.append("flow add " + flow)
        buckets.append("bucket=bucket_id:%d,weight:25,%s" % (i, actions))
    lines = ["group %s group_id=%d,type=select,selection_method=dp_hash,%s"
             % (command, number + 1, ",".join(buckets))]
    if command == "add":
        lines += flows
        lines.append(
            "flow add table=12,priority=200,tcp,nw_dst=%s,tp_dst=80,"
            "reg4=0x10000/0x70000,actions=set_field:0x200/0x200->reg0,"
            "set_field:0x20000/0x70000->reg4,group:%d"
            % (ipaddress.ip_address("10.96.0.0") + number, number + 1))
    return lines


def bundle(switch, path, lines):
    """Sends lines as one bundle; the seconds that it took."""
    path.write_text("\n".join(lines) + "\n")
    began = time.monotonic()
    switch.ofctl("bundle", str(path))
    return time.monotonic() - began


def program_once(directory, form, n_services):
    """(seconds for all, MiB of ovs-vswitchd, seconds for one change)."""
    with PrivateSwitch(directory / "switch", dummy=True) as switch:
        switch.add_bridge()
        before = switch_rss_mib(switch)
        path = directory / "bundle"
        seconds = bundle(switch, path, [
            line for i in range(n_services)
            for line in make_service(form, i, N_ENDPOINTS)])
        grown = switch_rss_mib(switch) - before
        one = make_service(form, 0, N_ENDPOINTS - 1, "modify")
        changes = [bundle(switch, path, one) for _ in range(N_CHANGES)]
    return seconds, grown, median(changes)


def programming(table, options, directory):
    """Both forms in turn."""
    table.title("programming: %d Services of %d endpoints"
                % (options.services, N_ENDPOINTS))
    found = {form: [] for form in FORMS}
    for i in range(options.rounds):
        for form in FORMS:
            where = directory / ("%s-%d" % (form, i))
            where.mkdir()
            found[form].append(program_once(where, form, options.services))
    for form in FORMS:
        seconds, grown, change = zip(*found[form])
        table.figure(form + ": one bundle", median(seconds), "s",
                     note=spread(seconds))
        table.figure(form + ": memory of ovs-vswitchd", median(grown), "MiB",
                     note=spread(grown, 0))
        table.figure(form + ": one change, with ovs-ofctl's start",
                     1000 * median(change), "ms")


# Connections.

class Placement:
    """A Service's group as the daemon made it, and the other form of it."""

    def __init__(self, switch, address, directory):
        self._switch, self._path = switch, directory / "placement"
        flow, = [f for f in switch.dump_flows("table=12", names=False)
                 if "tcp,reg4" in f and "nw_dst=%s,tp_dst=%d " % (
                     address, PORT) in f]
        number = re.search(r"group:(\d+)", flow)[1]
        group, = [g for g in switch.dump_groups(names=False)
                  if g.startswith("group_id=%s," % number)]
        self._groups = {
            "bucket": group,
            "registers": BUCKET.sub(lambda m: by_registers(
                m[1], int(m[2]))[0], group)}
        assert self._groups["registers"].count("resubmit") == group.count(
            "bucket=")
        self._flows = ["flow add " + by_registers(address, int(port))[1]
                       for address, port in set(BUCKET.findall(group))]

    def use(self, form):
        """Puts the form in place."""
        flows = self._flows if form == "registers" else [
            "flow delete table=14,reg4=0x20000/0x70000"]
        bundle(self._switch, self._path, flows + [
            "group modify " + self._groups[form]])


def connections(table, options, directory, n_endpoints):
    """Both forms in turn, with a Service of n endpoints."""
    table.title("connections: a Service of %d endpoints" % n_endpoints)
    with Cluster(directory / ("cluster-%d" % n_endpoints), n_pods=2,
                 families=(4,)) as cluster:
        client, server = cluster.pods
        for pod in cluster.pods:
            pod.sysctl(net__ipv4__ip_local_port_range="10000 65000")
        running = serve(server, SERVICE_PORT, n_endpoints)
        service = cluster.service(endpoints(server, n_endpoints))
        cluster.daemon.wait_synced()
        cluster.daemon.kill()   # It would repair what is done now.
        placement = Placement(cluster.node.switch, service.of(4), directory)
        for concurrent in (1, 20):
            compare(table, options, cluster, (placement, service, concurrent))
        proc.stop(running)


def compare(table, options, cluster, what):
    """One concurrency: rates, and what ovs-vswitchd used for each."""
    placement, service, concurrent = what
    rates = {form: [] for form in FORMS}
    cost = {form: [] for form in FORMS}
    for i in range(2 * options.rounds):
        for form in FORMS if i % 2 else FORMS[::-1]:
            placement.use(form)
            before = vswitchd_cpu(cluster.node.switch)
            rates[form].append(rate(cluster.pods[0], service.of(4), PORT,
                                    concurrent))
            used = vswitchd_cpu(cluster.node.switch) - before
            cost[form].append(used / 1000 / rates[form][-1] / SECONDS)
    for form in FORMS:
        name = "%s, %d at a time" % (form, concurrent)
        table.figure(name, median(rates[form]), "1/s",
                     note=spread(rates[form], 0))
        table.figure(name + ": ovs-vswitchd", median(cost[form]),
                     "us each", note=spread(cost[form], 1))
    table.figure("bucket : registers, %d at a time" % concurrent,
                 median(rates["bucket"]) / median(rates["registers"]), "")


def main():
    """Measures all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--services", type=int, default=10000)
    options = parser.parse_args()
    table = Table()
    table.versions(0)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ofproxyd-bench-"))
    try:
        programming(table, options, directory)
        for n_endpoints in (3, 100):    # dp_hash, and hash: see group.c.
            connections(table, options, directory, n_endpoints)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
