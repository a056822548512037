# SPDX-License-Identifier: Apache-2.0
"""Many member clusters, and Services whose endpoints are cluster IPs in all of
them: a cold start, and one change, on gateway and regular node."""
import re
import time

from bed import Bed, number_in
from changes import SETTLE, Cost
from figures import median, spread
from support import mcnode, objects
from support.clusterset import IMPORTED, ON, cluster_info
from support.wait import wait_for

RUNS = 5
N_SERVICES = 100
SIZES = (10, 100, 500)          # Member clusters.
LARGE = 100                     # Of the cold start with a goal.
N_NODES = 1000
CHANGES = 100
COUNTED = 20
PAUSE = 0.03                    # Seconds between two changes.
OWN_CIDR = "10.96.0.0/16"
ROLES = ("gateway", "regular")

# Goal.
MAX_COLD_MS = 1000


def member(number, moved=False):
    """The ClusterInfoImport with this number; moved: its gateway has another
    address."""
    gateway = objects.nth("198.18.0.0/15", 256 + 2 * number + moved)
    return cluster_info("member-%03d" % number, [gateway],
                        "10.%d.%d.0/24" % (100 + number // 256,
                                           number % 256))


def services(n_members):
    """Imported Services: an endpoint in each of up to 100 members, and one
    in this cluster, which is a Service itself."""
    for i in range(N_SERVICES):
        home = objects.nth(OWN_CIDR, 1024 + i)
        yield objects.service("ns", "web-%d" % i, cluster_ips=[home])
        yield objects.slice_("ns", "web-%d" % i,
                             ["10.10.2.%d" % (i + 10)], [8080])
        yield objects.service(
            "ns", "mc-web-%d" % i, annotations={IMPORTED: "true"},
            cluster_ips=[objects.nth(OWN_CIDR, 2048 + i)])
        yield objects.slice_("ns", "mc-web-%d" % i, [home] + [
            "10.%d.%d.%d" % (100 + m // 256, m % 256, i + 10)
            for m in range(min(n_members, 100))], [80])


def nodes():
    """Other Nodes of this cluster."""
    for i in range(N_NODES):
        yield objects.node("node-%04d" % i,
                           ["10.%d.%d.0/24" % (64 + i // 256, i % 256)],
                           [objects.nth("192.0.0.0/16", 1024 + i)])


class ClusterBed(Bed):
    """This cluster, with so many members, as a gateway or not."""

    def __init__(self, role, n_members, n_nodes=0):
        self.n_members = n_members
        name = "n1" if role == "gateway" else "n2"
        super().__init__(0, given=[
            objects.node("n1", ["10.10.1.0/24"], ["192.0.2.11"]),
            objects.service_cidr("kubernetes", [OWN_CIDR]),
            mcnode.gateway(name, "203.0.113.1", "192.0.2.12"),
            *map(member, range(n_members)), *services(n_members),
            *(nodes() if n_nodes else ())])

    def change(self, daemon, n):
        """'n' members' gateways get another address, one after the other,
        and then their first one again."""
        def flows_are_there():
            return daemon.sync().startswith("in sync: yes") and (
                number_in(daemon.sync(), pattern) >= before + n)
        pattern = r"ClusterInfoImports: .*?(\d+) events"
        before = number_in(daemon.sync(), pattern)
        for i in range(n):
            self.api.apply(member(i // 2 % self.n_members, not i % 2))
            time.sleep(PAUSE)
        wait_for(flows_are_there, 60, "%d events" % n, daemon)

    def node_change(self, daemon, n):
        """'n' changes of one Node's address."""
        def read():
            return daemon.sync().startswith("in sync: yes") and (
                number_in(daemon.sync(), r"Nodes: .*?(\d+) events")
                >= before + n)
        before = number_in(daemon.sync(), r"Nodes: .*?(\d+) events")
        for i in range(n):
            self.api.apply(objects.node(
                "node-0000", ["10.64.0.0/24"],
                [objects.nth("192.0.0.0/16", 512 + i % 2)]))
            time.sleep(PAUSE)
        wait_for(read, 60, "%d events of Nodes" % n, daemon)


def first_ms(daemon):
    """From all listed to in sync."""
    return float(re.search(r"first in sync: ([\d.]+) ms", daemon.sync())[1])


def cold(table, role, n_members):
    """(ms of the fastest cold start, us of a change)."""
    with ClusterBed(role, n_members) as bed:
        times = []
        for _ in range(RUNS):
            with bed.synced(**ON) as (switch, daemon):
                times.append(first_ms(daemon))
                n_flows = len(switch.dump_flows(names=False))
        table.figure(
            "%s, %d members x %d Services, cold" % (role, n_members,
                                                    N_SERVICES),
            median(times), "ms", MAX_COLD_MS if n_members == LARGE else None,
            "%s, %d flows" % (spread(times, 0), n_flows))
        with bed.synced(**ON) as (switch, daemon):
            time.sleep(SETTLE)
            cost = Cost(daemon, switch).of(CHANGES, bed.change, daemon,
                                           CHANGES)
            sent = daemon.sent()
            bed.change(daemon, COUNTED)
            sent = (daemon.sent() - sent) / COUNTED
        table.figure("%s, %d members, one's gateway moves" % (
            role, n_members), cost.own, "us",
            note="ovs-vswitchd %.0f us; flow modifications %.2f" % (
                cost.switch, sent))
    return min(times), cost.own


def node_cost(with_members):
    """Of a Node's change among N_NODES, in us."""
    with ClusterBed("gateway", max(SIZES) if with_members else 1,
                    N_NODES) as bed:
        with bed.synced(**ON) as (switch, daemon):
            time.sleep(SETTLE)
            return Cost(daemon, switch).of(
                CHANGES, bed.node_change, daemon, CHANGES).own


def run(table, _options):
    """The sub-benchmark."""
    table.title("clusters: members of a cluster set, and Services with an "
                "endpoint in each")
    for role in ROLES:
        found = {n: cold(table, role, n) for n in SIZES}
        first = min(SIZES)
        for n in SIZES[1:]:
            for i, what in enumerate(("cold", "one's gateway moves")):
                table.figure("%s, %s, %d : %d" % (role, what, n, first),
                             found[n][i] / found[first][i], "")
    one, many = node_cost(False), node_cost(True)
    table.figure("a Node's change, %d Nodes, 1 member" % N_NODES, one, "us")
    table.figure("the same, %d members" % max(SIZES), many, "us")
    table.figure("the two", many / one, "")
