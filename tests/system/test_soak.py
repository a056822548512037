# SPDX-License-Identifier: Apache-2.0
"""A soak: real packets to Services that change all the time, on two nodes, of
which one loses its daemon by kill -9 at random moments and now and then its
switch.

Some Services, the steady ones, change in all ways that leave them an endpoint
that lives; clients in pods, on the host and outside use them without pause,
and no connection may fail.  Others change in all ways; when the changes have
been taken, random questions must have the answers that services.md 2.5 says.
A third kind (support.churn) is there to keep the daemons busy.  At the end
both nodes are what a cold start makes of them, and nothing has grown.

SOAK=seconds in the environment is the time that it takes, SEED=n its chances.
"""
import collections
import contextlib
import difflib
import os
import pathlib
import random
import re
import statistics
import time

import pytest

from support.asking import SILENCE, Answer, Question, ask
from support.churn import EXPECTED, OBJECT_STEPS, Churn
from support.cluster import FAMILIES, lost_syns
from support.exposed import MARKER, Exposed, World
from support.multinode import state, wipe
from support.traffic import Client
from support.wait import wait_for

SECONDS = float(os.environ.get("SOAK", "20"))
HANG = 75                       # Seconds; a list may hang for a minute, in
                                # which a new daemon has nothing to fill with.
SEED = int(os.environ.get("SEED", "1"))
N_STEADY, N_VOLATILE = 3, 8
FIRST = 30                      # Numbers of the Services: churn has lower
                                # addresses.
N_QUESTIONS = 60                # At the end of a round.
PACE = 0.05                     # Seconds between two changes, on average.
ONE_IN_SWITCH, ONE_IN_API = 12, 4
NOWHERE = ["198.18.0.0/15", "2001:db8:ffff::/48"]
EVERYWHERE = ["0.0.0.0/0", "::/0"]
LEARNED = 11                    # The table.
PASSING = re.compile(r"/%s:|=10\.96\.253\.232[, ]" % MARKER)

MIN_SAMPLES = 10
# How much is too much at the end, by what it was in the first third.
GROWTH = {"daemon KiB": (1.25, 4096), "daemon files": (1, 8),
          "learned": (1.5, 200), "conntrack": (1.5, 2000)}


class Soak:
    """The Services, their clients and what goes wrong."""

    def __init__(self, rng, world):
        self.rng, self.world, self.api = rng, world, world.api
        self.node, self.member = world.nodes[0], world.members[0]
        self.noise = Churn(rng, world)
        self.api.apply(self.node.object())
        self.pods = [world.pod(n, p) for n in (0, 1) for p in (0, 1)]
        self.anchors = self.pods[::2]
        self.steady, self.volatile = (
            [self._new_service() for _ in range(n)]
            for n in (N_STEADY, N_VOLATILE))
        self.count = collections.Counter()
        self.samples, self.failed = [], []
        self.done = collections.deque(maxlen=300)   # (when, what).

    def _fail(self, *texts):
        """Goes on all the same: half an hour is long."""
        print(*texts, sep="\n", flush=True)
        self.failed += texts

    def _did(self, what, *about):
        self.done.append((time.monotonic(), what, *map(str, about)))

    def _new_service(self):
        service = Exposed(self.world, self.anchors, number=FIRST + next(
            self.world.numbers))
        for f in FAMILIES:
            self.world.lead(service.external_ip(f), self.node)
        return service.apply()

    # Changes.

    def _some(self, values):
        return self.rng.sample(values, self.rng.randint(0, len(values)))

    def _change_policies(self, service):
        service.spec.update(**{
            kind + "TrafficPolicy": self.rng.choice(("Cluster", "Local"))
            for kind in ("internal", "external")})

    def _change_affinity(self, service):
        service.spec["sessionAffinity"] = self.rng.choice(
            ("None", "ClientIP"))
        service.spec["sessionAffinityConfig"] = (
            {"clientIP": {"timeoutSeconds": self.rng.choice((5, 60, 10800))}}
            if service.spec["sessionAffinity"] == "ClientIP" else None)

    def change_steady(self):
        """An endpoint of each node stays, and the ways in that clients
        use."""
        service = self.rng.choice(self.steady)
        self.rng.choice((
            lambda: self._change_policies(service),
            lambda: self._change_affinity(service),
            lambda: setattr(service, "endpoints", self.anchors + self._some(
                self.pods[1::2]))))()
        service.apply()
        self._did(service.name, service.spec, [
            t.server for t in service.endpoints])

    def _change_endpoints(self, service):
        service.endpoints = self._some(self.pods) + self._some(
            [self.world.host(0), self.world.host(1)])
        if self.rng.randrange(4) == 0:
            service.endpoints = [
                type(t)(t.node, t.pod, {"ready": self.rng.randrange(2) > 0})
                for t in service.endpoints]

    def _change_ways(self, service):
        service.spec["type"] = self.rng.choice(
            ("ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"))
        service.external = self._some([service.external_ip(f)
                                       for f in FAMILIES])
        service.ingress = [
            {"ip": service.balanced_ip(f),
             "ipMode": self.rng.choice(("VIP", "VIP", "Proxy"))}
            for f in FAMILIES]
        service.spec["loadBalancerSourceRanges"] = self.rng.choice(
            (None, None, EVERYWHERE, NOWHERE))

    def change_volatile(self):
        """Anything."""
        service = self.rng.choice(self.volatile)
        self.rng.choice((self._change_policies, self._change_affinity,
                         self._change_endpoints, self._change_endpoints,
                         self._change_ways))(service)
        if self.rng.randrange(8) == 0:
            service.delete()
        service.apply()

    def change(self):
        """Some of each."""
        self.count["changes"] += 1
        self.change_steady()
        self.change_volatile()
        for _ in range(self.rng.randint(0, 3)):
            self.noise.step(OBJECT_STEPS)

    def changes(self, most):
        """Up to so many, at their pace."""
        for _ in range(self.rng.randint(0, most)):
            self.change()
            time.sleep(self.rng.expovariate(1 / PACE))

    # Trouble.

    def kill_daemon(self):
        """kill -9, and changes before it is back or while it starts."""
        self.count["kills"] += 1
        self._did("kill -9")
        self.member.daemon.kill()
        self.changes(10)
        self._did("start")
        self.member.daemon.start()

    def trouble_api(self):
        """It goes away, breaks watches off, or loses its history."""
        self.count["API outages"] += 1
        kind = self.rng.randrange(3)
        if kind == 0:
            self.api.cut_connections(self.rng.choice(("rst", "fin")))
        elif kind == 1:
            self.api.end_watches()
        else:
            self.api.stop()
            self.changes(10)
            self.api.compact()
            self.api.start()

    def restart_switch(self, limit):
        """All its flows, groups and connections are gone."""
        self.count["switch restarts"] += 1
        began = time.monotonic()
        self.node.restart_switch(hard=self.rng.randrange(2) > 0)
        wait_for(lambda: not ask(self.questions_to_steady(), 1), limit,
                 "answers after a restart of the switch", self.member.daemon)
        return time.monotonic() - began

    # Traffic.

    def questions_to_steady(self):
        """What has to have an answer always."""
        pod = self.node.pods[1]
        any_pod = Answer({t.server: None for t in self.pods})
        return [Question(who, host(f), port, any_pod, proto)
                for s in self.steady for f in FAMILIES
                for proto in ("tcp", "udp")
                for who, host, port in (
                    (pod, s.cluster_ip, s.port),
                    (self.node, s.cluster_ip, s.port),
                    (self.world.outside, self.node.of, s.node_port),
                    (self.world.outside, s.external_ip, s.port))]

    def clients(self, stack):
        """Running clients of the steady Services, by what they are."""
        one, two, three = self.steady
        pod, host, outside = (self.node.pods[1], self.node,
                              self.world.outside)
        made = {}
        for who, kind, proto, address, port in (
                (pod, "connect", "tcp", one.cluster_ip(4), one.port),
                (pod, "connect", "tcp", two.cluster_ip(6), two.port),
                (pod, "connect", "udp", one.cluster_ip(4), one.port),
                (pod, "hold", "tcp", three.cluster_ip(6), three.port),
                (host, "connect", "tcp", "127.0.0.1", one.node_port),
                (host, "connect", "tcp", two.external_ip(6), two.port),
                (outside, "connect", "tcp", host.of(4), one.node_port),
                (outside, "connect", "tcp", two.external_ip(6), two.port),
                (outside, "stream", "udp", host.of(6), three.node_port),
                (self.world.nodes[1].pods[1], "connect", "tcp",
                 one.cluster_ip(4), one.port)):
            name = "%s: %s, %s to %s" % (who.label, kind, proto, address)
            made[name] = stack.enter_context(Client(
                who, kind, address, port, proto=proto, interval=0.03))
        return made

    def check_clients(self, clients, n_changes):
        """No connection has failed; a datagram may have been on its way when
        its Service's endpoints changed."""
        for name, client in clients.items():
            result = client.result
            self.count["answers"] += result["n"]
            self.count["lost datagrams"] += (
                result["n_failures"] if "udp" in name else 0)
            most = n_changes // 4 if "udp" in name else 0
            if not result["n"] or result["n_failures"] > most:
                self._fail(name, *self._around(result))

    def _around(self, result):
        """The failures of a client, and what was done at their time."""
        for failure in result["failures"][:5]:
            end = result["began"] + failure["at"]
            yield "%s at %.3f: %s" % (failure["kind"], end, failure)
            yield from ("%.3f %s" % (when, " ".join(about))
                        for when, *about in self.done
                        if end - failure["after"] - 1 < when < end)

    def round(self):
        """Changes with trouble and traffic; then all is as it should be."""
        calm = self.rng.randrange(ONE_IN_SWITCH) > 0
        with contextlib.ExitStack() as stack:
            clients = self.clients(stack) if calm else {}
            syns = self._lost_syns()
            before = self.count["changes"]
            self.changes(40)
            for _ in range(self.rng.randint(1, 3)):
                self.kill_daemon()
                self.changes(20)
            troubled = self.rng.randrange(ONE_IN_API) == 0
            if troubled:
                self.trouble_api()
            if not calm:
                print("switch: %.1f s until all is answered again"
                      % self.restart_switch(HANG if troubled else 15))
            self.changes(20)
            syns = self._lost_syns() - syns
        self.check_clients(clients, self.count["changes"] - before)
        for label, n in syns.items() if calm else ():
            self.count["SYNs sent again by " + label] += n
        self.world.settle(30)
        self.check_answers()
        self.sample()

    def _lost_syns(self):
        return collections.Counter({who.label: lost_syns(who) for who in (
            self.node.pods[1], self.node, self.world.outside)})

    # What should be.

    def _ways_in(self, service, asker, family):
        """(host, port, answer) of a Service by each of its addresses."""
        def want(entry, inside=False):
            kind = "internal" if inside else "external"
            return self.world.want(
                asker, entry, family, usable, service.spec.get(
                    kind + "TrafficPolicy", "Cluster"), inside)

        usable = [t for t in service.endpoints if t.more.get("ready", True)]
        here = asker.node or self.node
        if asker.node:
            yield service.cluster_ip(family), service.port, want(here, True)
        if service.external_ip(family) in service.external:
            yield service.external_ip(family), service.port, want(here)
        if service.spec["type"] != "ClusterIP":
            for entry in self.world.nodes:
                yield entry.of(family), service.node_port, want(entry)
        if asker.node and service.spec["type"] == "LoadBalancer":
            mode, = [e.get("ipMode") for e in service.ingress
                     if e["ip"] == service.balanced_ip(family)]
            ranges = service.spec.get("loadBalancerSourceRanges")
            yield service.balanced_ip(family), service.port, (
                Answer({"balancer": self.world.arriving(asker, family)})
                if mode == "Proxy" else
                SILENCE if ranges == NOWHERE else want(here))

    def check_answers(self):
        """Some of all possible questions.  (A port that is used again may
        meet an old connection: such a question is asked once more.)"""
        every = [(s, asker, f) for s in self.volatile + self.steady
                 for asker in self.world.askers() for f in FAMILIES]
        some = [Question(asker.who, host, port, want, proto, about=(
            "%s with %s at %s" % (s.name, s.spec, [
                (t.server, t.more) for t in s.endpoints])))
                for s, asker, f in self.rng.sample(every, N_QUESTIONS)
                for host, port, want in self._ways_in(s, asker, f)
                for proto in ("tcp", "udp")]
        some = self.rng.sample(some, min(2 * N_QUESTIONS, len(some)))
        self.count["questions"] += len(some)
        ask(some)
        again = [q for q in some if not q.is_met]
        if again:
            self.count["asked again"] += len(again)
            print(*again, sep="\n")
            self._fail(*ask(again))

    # What it takes.

    def sample(self):
        """Of the daemon that is never killed, and of both nodes."""
        daemon = self.world.members[1].daemon
        switches = [m.switch for m in self.world.members]
        self.samples.append({
            "daemon KiB": daemon.rss_kib(),
            "daemon files": len(os.listdir("/proc/%d/fd" % daemon.pid)),
            "learned": sum(s.ofctl("dump-flows", "table=%d" % LEARNED).count(
                "reg7=") for s in switches),
            "conntrack": sum(len(s.conntrack()) for s in switches),
            "switch KiB": max(int(pathlib.Path(
                "/proc/%d/status" % s.pid).read_text().split("VmRSS:")[
                    1].split()[0]) for s in switches)})
        print(*("%s %s" % item for item in self.samples[-1].items()),
              sep=", ", flush=True)

    def check_growth(self):
        """The last third is like the first one; not of a short run, since
        closed connections are tracked for minutes."""
        third = len(self.samples) // 3
        for name, (factor, more) in (GROWTH.items() if third >= MIN_SAMPLES
                                     else ()):
            first, last = (statistics.median(s[name] for s in some)
                           for some in (self.samples[:third],
                                        self.samples[-third:]))
            assert last <= factor * first + more, (name, first, last)

    def settled_state(self, member):
        """Once it does not change any more (old groups linger), without what
        clients have left and what settle() has made."""
        def look():
            texts.append([line for line in state(member).splitlines()
                          if not PASSING.search(line)])
            return texts[-1] == texts[-2]

        texts = [None]
        wait_for(look, 15, "an end of changes", member.daemon)
        return texts[-1]

    def check_cold_start(self):
        """Each node is what a daemon makes of it that finds nothing."""
        self.noise.mend()
        self.world.settle(30)
        for member in self.world.members:
            before = self.settled_state(member)
            member.daemon.terminate()
            wipe(member)
            member.daemon.start()
            wait_for(member.switch.has_bridge, 10, "the bridge",
                     member.daemon)
            for pod in member.node.pods:
                pod.attach()
            self.world.wait_pods()
            self.world.settle(30)
            after = self.settled_state(member)
            assert after == before, "\n".join(difflib.unified_diff(
                before, after, "before", "cold start", lineterm=""))


@pytest.fixture(name="soak")
def _soak(tmp_path):
    """On a world whose external addresses are the balancer's."""
    with World(tmp_path, "ab") as world:
        world.lead_all()
        for member in world.members:
            member.daemon.allow(*EXPECTED)
        yield Soak(random.Random(SEED), world)


def test_a_soak(soak):
    """See the module."""
    print("seed", SEED)
    soak.world.settle()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        soak.round()
    soak.check_growth()
    soak.check_cold_start()
    print(*("%s: %d" % item for item in soak.count.items()), sep=", ")
    assert not soak.failed, "\n".join(soak.failed)
    assert not soak.world.unexpected_warnings()
