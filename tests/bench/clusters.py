# SPDX-License-Identifier: Apache-2.0
"""Many member clusters, and Services whose endpoints are cluster IPs in all of
them: a cold start against ovs-ofctl with the same flows and groups, and changes
of each kind against one of an ordinary endpoint, on gateway and regular
node."""
import time

import cold
from bed import Bed, number_in
from changes import SETTLE, Cost
from figures import median, spread
from support import mcnode, objects
from support.clusterset import IMPORTED, ON, cluster_info
from support.wait import wait_for

RUNS = 5
N_SERVICES = 100
SIZES = (10, 100, 500)          # Member clusters.
LARGE = 100                     # With goals.
N_NODES = 1000
CHANGES = 100
COUNTED = 20
PAUSE = 0.03                    # Seconds between two changes.
OWN_CIDR = "10.96.0.0/16"
ROLES = ("gateway", "regular")

# Goals, at LARGE.
MAX_COLD_RATIO = 1.5
MAX_CHANGE_RATIO = 5


def member(number, moved=False, renumbered=False):
    """The ClusterInfoImport with this number; moved: its gateway has another
    address; renumbered: it has another network of Services."""
    gateway = objects.nth("198.18.0.0/15", 256 + 2 * number + moved)
    return cluster_info("member-%03d" % number, [gateway],
                        "10.%d.%d.0/24" % (
                            (110 if renumbered else 100) + number // 256,
                            number % 256))


def web(i, changed=False):
    """The endpoint of an ordinary Service."""
    return objects.slice_("ns", "web-%d" % i,
                          ["10.10.2.%d" % (i + (130 if changed else 10))],
                          [8080])


def imported(i, n_members, changed=False):
    """The endpoints of an imported one: one in each of up to 100 members, and
    the ordinary one of this cluster."""
    return objects.slice_(
        "ns", "mc-web-%d" % i, [objects.nth(OWN_CIDR, 1024 + i)] + [
            "10.%d.%d.%d" % (100 + m // 256, m % 256,
                             i + 10 + (100 if changed and not m else 0))
            for m in range(min(n_members, 100))], [80])


def services(n_members):
    """Both, N_SERVICES times."""
    for i in range(N_SERVICES):
        yield objects.service("ns", "web-%d" % i, cluster_ips=[
            objects.nth(OWN_CIDR, 1024 + i)])
        yield web(i)
        yield objects.service(
            "ns", "mc-web-%d" % i, annotations={IMPORTED: "true"},
            cluster_ips=[objects.nth(OWN_CIDR, 2048 + i)])
        yield imported(i, n_members)


def nodes():
    """Other Nodes of this cluster."""
    for i in range(N_NODES):
        yield objects.node("node-%04d" % i,
                           ["10.%d.%d.0/24" % (64 + i // 256, i % 256)],
                           [objects.nth("192.0.0.0/16", 1024 + i)])


def other_node(changed):
    """One of them; changed: it has another address."""
    return objects.node("node-0000", ["10.64.0.0/24"],
                        [objects.nth("192.0.0.0/16", 768 + changed)])


class ClusterBed(Bed):
    """This cluster, with so many members, as a gateway or not."""

    def __init__(self, role, n_members, n_nodes=0):
        self.n_members = n_members
        self._name = "n1" if role == "gateway" else "n2"
        super().__init__(0, given=[
            objects.node("n1", ["10.10.1.0/24"], ["192.0.2.11"]),
            objects.service_cidr("kubernetes", [OWN_CIDR]),
            self._gateway(False),
            *map(member, range(n_members)), *services(n_members),
            *(nodes() if n_nodes else ())])

    def _gateway(self, moved):
        return mcnode.gateway(self._name, "203.0.113.%d" % (1 + moved),
                              "192.0.2.%d" % (12 + moved))

    def kinds(self):
        """{what: (whose events, the i-th change)}; each second one takes back
        the first."""
        return {
            "an ordinary endpoint": (
                "EndpointSlices", lambda i: web(i // 2 % N_SERVICES,
                                                not i % 2)),
            "an imported Service's endpoint": (
                "EndpointSlices", lambda i: imported(
                    i // 2 % N_SERVICES, self.n_members, not i % 2)),
            "a member's network": (
                "ClusterInfoImports", lambda i: member(
                    i // 2 % self.n_members, renumbered=not i % 2)),
            "a member's gateway": (
                "ClusterInfoImports", lambda i: member(
                    i // 2 % self.n_members, moved=not i % 2)),
            "this cluster's gateway": (
                "Gateways", lambda i: self._gateway(not i % 2)),
            "a Node": ("Nodes", lambda i: other_node(not i % 2)),
        }

    def change(self, daemon, what, n):
        """'n' changes, one after the other."""
        whose, make = self.kinds()[what]

        def n_events():
            return number_in(daemon.sync(), whose + r": .*?(\d+) events")

        def is_there():
            return (n_events() >= before + n
                    and daemon.sync().startswith("in sync: yes"))
        before = n_events()
        for i in range(n):
            self.api.apply(make(i))
            time.sleep(PAUSE)
        wait_for(is_there, 60, "%d events of %s" % (n, whose), daemon)


def cold_start(table, bed, what):
    """A cold start, and ovs-ofctl with the same; the fastest in ms."""
    times, references = [], []
    for _ in range(RUNS):
        with bed.synced(**ON) as (switch, daemon):
            times.append(cold.first_ms(daemon.sync()))
            there = cold.count(switch)
            meters = cold.meters(switch)
            path = bed.dir / "bundle"
            path.write_text(cold.bundle_text(switch))
        seconds, loaded = cold.load(bed, meters, path)
        assert loaded == there, (loaded, there)
        references.append(seconds * 1e3)
    table.figure(what + ", cold", median(times), "ms", None,
                 "%s, %d flows, %d groups" % (spread(times, 0), *there))
    table.figure("ovs-ofctl bundle of the same", median(references), "ms",
                 None, spread(references, 0))
    table.figure("ratio", median(times) / median(references), "",
                 MAX_COLD_RATIO if bed.n_members == LARGE else None)
    return min(times)


def changes(table, bed, what):
    """Changes of each kind; {kind: us}."""
    found = {}
    for kind in bed.kinds():
        with bed.synced(**ON) as (switch, daemon):
            time.sleep(SETTLE)
            cost = Cost(daemon, switch).of(CHANGES, bed.change, daemon, kind,
                                           CHANGES)
            sent = daemon.sent()
            bed.change(daemon, kind, COUNTED)
            sent = (daemon.sent() - sent) / COUNTED
        found[kind] = cost.own
        table.figure("%s, %s" % (what, kind), cost.own, "us",
                     note="ovs-vswitchd %.0f us; flow modifications %.2f" % (
                         cost.switch, sent))
    reference = found["an ordinary endpoint"]
    for kind in found:
        # Another gateway here is another way to each of the members.
        many = "this" in kind or bed.n_members != LARGE
        table.figure("%s : an ordinary endpoint" % kind,
                     found[kind] / reference, "",
                     None if many else MAX_CHANGE_RATIO)
    return found


def measure(table, role, n_members):
    """{kind: its cost}."""
    what = "%s, %d members" % (role, n_members)
    with ClusterBed(role, n_members) as bed:
        return {"cold": cold_start(table, bed, what),
                **changes(table, bed, what)}


def node_cost(with_members):
    """Of a Node's change among N_NODES, in us."""
    with ClusterBed("gateway", max(SIZES) if with_members else 1,
                    N_NODES) as bed:
        with bed.synced(**ON) as (switch, daemon):
            time.sleep(SETTLE)
            return Cost(daemon, switch).of(
                CHANGES, bed.change, daemon, "a Node", CHANGES).own


def run(table, _options):
    """The sub-benchmark."""
    table.title("clusters: members of a cluster set, and %d Services with an "
                "endpoint in each" % N_SERVICES)
    for role in ROLES:
        found = {n: measure(table, role, n) for n in SIZES}
        first = min(SIZES)
        for n in SIZES[1:]:
            for kind in found[n]:
                table.figure("%s, %s, %d : %d" % (role, kind, n, first),
                             found[n][kind] / found[first][kind], "")
    one, many = node_cost(False), node_cost(True)
    table.figure("a Node's change, %d Nodes, 1 member" % N_NODES, one, "us")
    table.figure("the same, %d members" % max(SIZES), many, "us")
    table.figure("the two", many / one, "")
