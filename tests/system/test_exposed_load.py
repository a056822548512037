# SPDX-License-Identifier: Apache-2.0
"""Scans of thousands of empty Services, and Services with ten thousand
endpoints, by each way in."""
import math
import os
import pathlib
import random
import re
import socket
import threading
import time

import pytest

from support import objects, packets, setns
from support.asking import REFUSED, Answer, Question, ask, check
from support.cluster import FAMILIES, SERVICE_CIDRS, Member
from support.daemon import Ofproxyd
from support.exposed import EXTERNAL, NAMESPACE, Exposed, World
from support.ofshim import OfShim
from support.wait import slowness, wait_for

BOTH = pytest.mark.parametrize("family", FAMILIES)
N_SERVICES = 10000
FIRST = 10000                   # Their ports, from this one on.
SCANNED = {f: objects.nth(EXTERNAL[f], 1) for f in FAMILIES}
OVER, UNDER = 20000, 200        # SYNs a second.
LIMIT = 313                     # What the meter lets pass: 5000 / 16...
BURST = 2 * LIMIT               # ...and at once.
AT_ONCE = 0.9                   # Seconds.  After one a SYN is sent again.
SECONDS = 2


# Scans.

def processor_seconds(pid):
    """That a process has used."""
    text = pathlib.Path("/proc/%d/stat" % pid).read_text()
    fields = text.rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def raw_socket(namespace, family):
    """Sends whole packets, routed by the namespace's kernel."""
    domain = socket.AF_INET if family == 4 else socket.AF_INET6
    return setns.call(namespace.name, lambda: socket.socket(
        domain, socket.SOCK_RAW, socket.IPPROTO_RAW))


class Scan:
    """SYNs to all ports of the empty Services, on a thread, at a rate; from
    a namespace, as an address of it."""

    def __init__(self, namespace, source, family, rate):
        self.n_sent, self.seconds, self.rate = 0, 0, rate
        self._sock = raw_socket(namespace, family)
        self._target = SCANNED[family], 0
        seed = random.Random(7)
        self._packets = [packets.ip(
            source, SCANNED[family], packets.TCP,
            packets.tcp(seed.randrange(1024, 65536), port, packets.SYN))[1]
            for port in range(FIRST, FIRST + N_SERVICES)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        began, due = time.monotonic(), 0
        while not self._stop.is_set():
            last, self.seconds = self.seconds, time.monotonic() - began
            # After a pause of ours there is no burst.
            due += min(self.seconds - last, 0.02) * self.rate
            for _ in range(int(due) - self.n_sent):
                self._sock.sendto(self._packets[self.n_sent % N_SERVICES],
                                  self._target)
                self.n_sent += 1
            time.sleep(0.002)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self._sock.close()


@pytest.fixture(scope="module", name="scanned")
def _scanned(tmp_path_factory):
    """A node with all the empty Services, and one that is not."""
    with World(tmp_path_factory.mktemp("world"), "a", n_pods=3) as world:
        for f in FAMILIES:
            world.lead(SCANNED[f], world.nodes[0])
        good = Exposed(world, [world.pod(0, 1)], number=2).apply()
        world.api.apply_all([objects.service(
            NAMESPACE, "empty-%d" % n, [FIRST + n],
            [objects.nth(SERVICE_CIDRS[f], 1000 + n) for f in FAMILIES],
            externalIPs=list(SCANNED.values())) for n in range(N_SERVICES)])
        world.settle(60)
        yield world, good
    assert not world.unexpected_warnings()


def n_rejects(daemon):
    """How many it has sent."""
    return int(re.search(r"rejects: (\d+)", daemon.appctl("sync"))[1])


def spent_on(scan, member, look):
    """Processor time of daemon and switch during the scan, as a part of a
    core; look() is called again and again."""
    pids = member.daemon.pid, member.switch.pid
    used = [processor_seconds(pid) for pid in pids]
    with scan:
        began = time.monotonic()
        while time.monotonic() < began + SECONDS:
            look()
            time.sleep(0.05)
    used = [(processor_seconds(pid) - before) / scan.seconds
            for pid, before in zip(pids, used)]
    print("%.0f/s: daemon %.1f %%, switch %.1f %%" % (
        scan.n_sent / scan.seconds, 100 * used[0], 100 * used[1]))
    assert scan.n_sent > 0.1 * scan.rate * scan.seconds / slowness()
    return sum(used)


def drop_at_the_door(switch, family):
    """What would be scanned; returns how to end that."""
    match = "table=0,%s=%s" % (
        {4: "ip,nw_dst", 6: "ipv6,ipv6_dst"}[family], SCANNED[family])
    switch.ofctl("add-flow", match + ",priority=999,actions=drop")
    return lambda: switch.ofctl("del-flows", match)


@BOTH
@pytest.mark.parametrize("who", ["pod", "host", "outside"])
def test_a_scan_of_empty_services_costs_little(scanned, family, who):
    """Below the limit each is answered.  Above it who comes by another port
    is still served, and refused at once, and the scan costs not much more
    than if it were dropped at the bridge's door."""
    world, good = scanned
    node, member = world.nodes[0], world.members[0]
    scanner = {"pod": node.pods[0], "host": node,
               "outside": world.outside}[who]
    source = (world.outside_address(family) if who == "outside"
              else scanner.of(family))
    client = node.pods[2]
    served = Question(client, good.cluster_ip(family), good.port,
                      Answer({"n1-1:8080": None}))
    refused = Question(client, SCANNED[family], FIRST + 5, REFUSED)
    late = []

    def look():
        check([served])
        late.append(bool(ask([refused], AT_ONCE)))

    print("%s, IPv%d" % (who, family))
    for rate in UNDER, OVER, OVER:  # In the first of OVER flows are set up.
        late.clear()
        scan = Scan(scanner, source, family, rate)
        rejects = n_rejects(member.daemon)
        used = spent_on(scan, member, look) / scan.n_sent
        n_answered = n_rejects(member.daemon) - rejects - len(late)
        if rate == UNDER:
            # A switch that gets no processor for a while loses packets.
            wait_for(lambda: n_rejects(member.daemon) - rejects
                     > 0.8 * scan.n_sent / slowness(), 5, "the rejects",
                     member.daemon)
        else:
            assert 0.8 * LIMIT * scan.seconds / slowness() < n_answered
            assert n_answered < 1.2 * (LIMIT * scan.seconds + BURST)
        assert sum(late) < 0.2 * len(late) * slowness()

    end = drop_at_the_door(node.switch, family)
    scan = Scan(scanner, source, family, scan.n_sent / scan.seconds)
    dropped = spent_on(scan, member, lambda: check([served])) / scan.n_sent
    end()
    print("%.2f times as much as dropped" % (used / dropped))
    assert used < 3 * dropped


# Ten thousand endpoints.

N_ENDPOINTS, N_PORTS = 10000, 40
LARGEST = 60200                 # Bytes of a group's message (design.md 5),
LARGEST_PART = 40000            # and of that of one part here.
METER_MOD = 12                  # Error: the meter was not there before.
N_CLIENTS = 6000
CLIENTS = {4: "198.18.0.0/15", 6: "2001:db8:c::/64"}


class Crowd:
    """A Service with 10 000 endpoints on a node, N_PORTS on each address,
    and some elsewhere, of UDP; the daemon's messages are watched."""

    def __init__(self, directory, **spec):
        self.world = world = World(directory, "a", daemons=False, n_pods=0)
        self.node = world.nodes[0]
        run = directory / "run"
        run.mkdir()
        switch = self.node.switch
        (run / "db.sock").symlink_to(switch.dir / "db.sock")
        mgmt = switch.bridge + ".mgmt"
        self.shim = OfShim(run / mgmt, switch.dir / mgmt).start()
        self.daemon = Ofproxyd(directory / "ofproxyd", world.api, switch,
                               **{**world.config, "ovsRunDir": str(run)})
        world.members.append(Member(self.node, self.daemon))
        self.daemon.start()
        self.daemon.wait_synced()
        self.service = Exposed(world, number=3, **spec)
        for f in FAMILIES:
            world.lead(self.service.balanced_ip(f), self.node)

    def close(self):
        """Takes it away."""
        self.world.close()
        self.shim.stop()

    def slice(self, family, n, absent=()):
        """The n-th slice: one port on each address, without these."""
        networks = {4: "10.10.1.0/24", 6: "2001:db8:10:1::/64"}
        return objects.slice_(
            NAMESPACE, self.service.name,
            [objects.endpoint(objects.nth(networks[family], 5 + i), "n1")
             for i in range(N_ENDPOINTS // N_PORTS) if i not in absent],
            [(20000 + n, "udp", "UDP")],
            name="%s-%d-%d" % (self.service.name, family, n))

    def fill(self):
        """Gives it all of them."""
        api = self.world.api
        self.service.apply()
        with api.batch():
            for f in FAMILIES:
                for n in range(N_PORTS):
                    api.apply(self.slice(f, n))
        self.world.settle(60)

    def flood(self, family, first_port=20000):
        """A datagram from each of N_CLIENTS from outside."""
        vip = self.service.balanced_ip(family)
        sock = raw_socket(self.world.outside, family)
        for n in range(N_CLIENTS):
            source = objects.nth(CLIENTS[family], 10 + n)
            sock.sendto(packets.ip(source, vip, packets.UDP, packets.udp(
                first_port + n, self.service.port, b"x"))[1], (vip, 0))
            if n % 50 == 0:
                time.sleep(0.01 * slowness())
        sock.close()

    def buckets(self):
        """Packets of each bucket of each group that has had any, by group
        id."""
        text = self.node.switch.ofctl("dump-group-stats")
        found = {}
        for line in text.splitlines():
            group = re.search(r"group_id=(\d+)", line)
            counts = [int(c) for c in re.findall(
                r"bucket\d+:packet_count=(\d+)", line)]
            if group and any(counts):
                found[int(group[1])] = counts
        return found

    def wait_quiet(self, before, seconds=1):
        """What groups have counted since, when for so long no more came."""
        seen, since = [None], [0]

        def is_quiet():         # Counters are up to date after each round.
            self.node.switch.wait_revalidated()
            seen.append(self.buckets())
            if seen[-1] != seen[-2]:
                since[0] = time.monotonic()
            return time.monotonic() > since[0] + seconds

        wait_for(is_quiet, 30, "quiet")
        return {g: [b - a for a, b in zip(before.get(g, [0] * len(c)), c)]
                for g, c in seen[-1].items() if c != before.get(g)}

    def learned(self):
        """How many clients the switch remembers."""
        return self.node.switch.ofctl("dump-flows", "table=11").count("reg7=")


@pytest.fixture(scope="module", name="crowd", params=[
    {"externalTrafficPolicy": "Local"},
    {"externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"}],
    ids=["local", "local-affinity"])
def _crowd(request, tmp_path_factory):
    crowd = Crowd(tmp_path_factory.mktemp("crowd"), **request.param)
    try:
        crowd.fill()
        yield crowd
        assert not crowd.world.unexpected_warnings()
    finally:
        crowd.close()


def test_d1_d2_no_message_is_too_large(crowd):
    """And the switch has refused none."""
    mods = crowd.shim.mods()
    groups = [m for m in mods if m.what.startswith("group")]
    assert groups
    assert max(len(m.inner) for m in mods) <= LARGEST
    assert [e for e in crowd.shim.errors() if e[0] != METER_MOD] == []
    flows = crowd.daemon.appctl("flows", "%s/%s" % (
        NAMESPACE, crowd.service.name))
    for f in FAMILIES:
        form = "[%s]:%d" if f == 6 else "%s:%d"
        missing = [n for n in range(N_PORTS) if form % (objects.nth(
            {4: "10.10.1.0/24", 6: "2001:db8:10:1::/64"}[f], 200), 20000 + n)
            not in flows]
        assert not missing


@BOTH
def test_d1_all_parts_are_used(crowd, family):
    """By clients from outside: no part of the group is left out, and of the
    endpoints as many as chance leaves out.  (The sender is faster than the
    switch, so that some datagrams are lost before it.)"""
    before = crowd.buckets()
    crowd.flood(family)
    counts = crowd.wait_quiet(before)
    parts = [c for g, c in counts.items() if g & 0xff]
    tops = [c for g, c in counts.items() if not g & 0xff]
    n = sum(map(sum, parts))
    assert n > 0.3 * N_CLIENTS
    assert len(tops) == 1 and min(tops[0]) > 0
    used = sum(c > 0 for part in parts for c in part)
    chance = N_ENDPOINTS * (1 - math.exp(-n / N_ENDPOINTS))
    assert used > 0.93 * chance
    assert max(map(max, parts)) < 15


def test_d4_one_endpoint_less_is_one_small_message(crowd):
    """For each group that has it: policies Cluster and Local, two
    families."""
    crowd.shim.clear()
    with crowd.world.api.batch():
        for f in FAMILIES:
            crowd.world.api.apply(crowd.slice(f, 7, absent=[100]))
    crowd.world.settle()
    mods = crowd.shim.mods()
    groups = [m for m in mods if m.what.startswith("group")]
    ours = [m for m in groups if len(m.inner) > 1000]
    assert len(ours) == 2 * len(FAMILIES), groups
    assert max(len(m.inner) for m in ours) < LARGEST_PART
    assert sum(len(m.inner) for m in mods if m not in ours) < 3000


@BOTH
def test_a_client_keeps_its_endpoint(crowd, family):
    """With affinity one is selected once for each of thousands of clients,
    whatever port it comes from; without, for each connection."""
    crowd.flood(family)
    before, known = crowd.wait_quiet({}) and crowd.buckets(), crowd.learned()
    crowd.flood(family, 40000)
    counts = crowd.wait_quiet(before, 2)
    n = sum(sum(c) for g, c in counts.items() if g & 0xff)
    if crowd.service.spec.get("sessionAffinity") == "ClientIP":
        assert known > 0.3 * N_CLIENTS
        assert n == crowd.learned() - known
    else:
        assert n > 0.3 * N_CLIENTS
