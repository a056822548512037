# SPDX-License-Identifier: Apache-2.0
"""Changes of single endpoints: how long one takes after a quiet spell, what a
storm of them costs, and whether the cost grows with the cluster."""
import queue
import random
import re
import subprocess
import threading
import time

from bed import (N_ENDPOINTS, Bed, Churn, cpu_ns, sleep_until, vswitchd_cpu)
from figures import median, quantile
from support import objects, proc
from support.wait import wait_for

LARGE = 10000                   # Services.
QUIET = 0.07                    # Seconds between two single changes, at least.
SETTLE = 2                      # Seconds from in sync to the first change.

VSWITCHD = "ovs-vswitchd: "     # Its share, not ours.

# Goals.
MAX_P99_MS = 10
MAX_CORES = 1
MAX_GROWTH = 2


# One change after a quiet spell.

def single_changes(bed, daemon, rng, n, wanted=None):
    """Applies 'n' changes, each after a pause, of Services that 'wanted' says;
    returns the churn."""
    churn = Churn(bed, rng, wanted)
    before = bed.n_events(daemon)
    due = time.monotonic()
    for _ in range(n):
        due += QUIET + rng.random() * QUIET / 2
        sleep_until(due)
        churn.apply()
    bed.wait_read(daemon, before + n)
    return churn


def check(bed, churn, switch, daemon):
    """Fails if the bridge does not have the last state.  Of a mix, the
    daemon, as fresh as after a crash, judges."""
    if bed.mix:
        daemon.restart(hard=True)
        daemon.wait_ready()
        assert not daemon.sent(), daemon.sync()
        return
    wrong = churn.wrong(switch)
    assert not wrong, "%d Services are not as they should be" % wrong


class Watcher:
    """An observer of a bridge's flows, independent of the daemon: says when
    it saw the flow of an address and port come."""

    def __init__(self, switch):
        self._seen = queue.Queue()
        self._process = proc.start(
            "ovs-ofctl", "-O", "OpenFlow15", "--no-names",
            "--unixctl=%s" % (switch.dir / "watcher.ctl"), "monitor",
            str(switch.dir / (switch.bridge + ".mgmt")),
            "watch:!initial,table=12", stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stderr:
            found = re.search(r"event=ADDED.*tp_dst=(\d+)", line)
            if found:
                self._seen.put((int(found[1]), time.monotonic()))

    def wait(self, port, timeout=5):
        """When the flow of this port came."""
        while True:
            number, when = self._seen.get(timeout=timeout)
            if number == port:
                return when

    def stop(self):
        """Ends it."""
        proc.stop(self._process)


def wait_watching(bed, watcher, service):
    """Changes a Service until the observer sees it."""
    def seen():
        set_port(bed, service, seen.port)
        seen.port += 1
        try:
            return watcher.wait(seen.port - 1, 0.5)
        except queue.Empty:
            return False
    seen.port = 1000
    wait_for(seen, 20, "the observer")


def set_port(bed, service, number):
    """Gives a Service another port."""
    service["spec"]["ports"][0]["port"] = number
    bed.api.apply(service)


def end_to_end(bed, switch, rng, n):
    """Seconds from a write to the API server to the flow on the switch, of
    'n' changes of a Service's port."""
    services = [obj for obj in bed.objects if obj["kind"] == "Service"]
    watcher = Watcher(switch)
    try:
        wait_watching(bed, watcher, services[0])
        seconds = []
        for number in range(n):
            time.sleep(QUIET + rng.random() * QUIET / 2)
            start = time.monotonic()
            set_port(bed, rng.choice(services), 2000 + number)
            seconds.append(watcher.wait(2000 + number) - start)
        return seconds
    finally:
        watcher.stop()


def large_service(table, options):
    """The same for a single Service that is as large as all others
    together."""
    rng = random.Random(options.seed)
    n = LARGE * N_ENDPOINTS // 10
    with Bed(1, options.seed, n) as bed, bed.synced() as (switch, daemon):
        time.sleep(SETTLE)
        before = daemon.sent()
        cost = Cost(daemon, switch).of(100, single_changes, bed, daemon, rng,
                                       100)
        found = daemon.latency()
        name = "a Service of %d endpoints, " % n
        table.figure(name + "p50", found["p50"], "ms",
                     note="%.1f groups a change" % (
                         (daemon.sent() - before) / 100))
        table.figure(name + "p99", found["p99"], "ms")
        table.figure(name + "ofproxyd", cost.own, "us")


def run_latency(table, options):
    """The sub-benchmark."""
    table.title("latency: one change after a quiet spell, %d Services of %d "
                "endpoints" % (LARGE, N_ENDPOINTS))
    rng = random.Random(options.seed)
    with Bed(LARGE, options.seed, mix=options.mix) as bed, \
            bed.synced() as (switch, daemon):
        time.sleep(SETTLE)
        n = 400
        churn = single_changes(bed, daemon, rng, n)
        found = daemon.latency()
        check(bed, churn, switch, daemon)
        assert found["n"] >= 0.9 * n, found
        table.figure("event read to confirmed, p50", found["p50"], "ms",
                     note="%d changes" % found["n"])
        table.figure("event read to confirmed, p99", found["p99"], "ms",
                     MAX_P99_MS)
        table.figure("event read to confirmed, max", found["max"], "ms")
        ms = [1000 * s for s in end_to_end(bed, switch, rng, 300)]
        table.figure("API server written to flow seen, p50", median(ms), "ms",
                     note="%d changes of a Service's port, by ovs-ofctl "
                     "monitor" % len(ms))
        table.figure("API server written to flow seen, p99",
                     quantile(ms, 0.99), "ms")
        table.figure("API server written to flow seen, max", max(ms), "ms")
    if not options.mix:
        large_service(table, options)


# Storms.

class Storm:
    """Changes at a steady rate, and what they cost."""

    def __init__(self, bed, switch, daemon, rng):
        self._bed, self._switch, self._daemon = bed, switch, daemon
        self.churn = Churn(bed, rng)
        self.seconds = self.lag = 0
        self.latency = {}
        self.daemon_ns = self.switch_ns = self.api_ns = 0

    def run(self, rate, seconds):
        """Applies them; the figures are there after it."""
        daemon, switch, bed = self._daemon, self._switch, self._bed
        before = bed.n_events(daemon)
        costs = self._costs()
        start = time.monotonic()
        sent = 0
        while sent < rate * seconds:
            due = int((time.monotonic() - start) * rate) + 1 - sent
            due = min(due, rate * seconds - sent)
            if due > 0:
                self.churn.apply(due)
                sent += due
            sleep_until(start + sent / rate)
        self.seconds = time.monotonic() - start
        self.daemon_ns, self.switch_ns, self.api_ns = (
            after - then for after, then in zip(self._costs(), costs))
        bed.wait_read(daemon, before + sent)
        self.lag = time.monotonic() - start - self.seconds
        self.latency = daemon.latency()
        check(bed, self.churn, switch, daemon)
        return self

    def _costs(self):
        return (self._daemon.cpu_ns(), vswitchd_cpu(self._switch),
                cpu_ns(self._bed.api.pid))

    @property
    def us_per_change(self):
        """The daemon's processor time."""
        return self.daemon_ns / 1000 / self.churn.n


def run_sustained(table, options):
    """The sub-benchmark."""
    rate, seconds = 1000, 20
    table.title("sustained: %d changes a second for %d s, %d Services of %d "
                "endpoints" % (rate, seconds, LARGE, N_ENDPOINTS))
    rng = random.Random(options.seed)
    with Bed(LARGE, options.seed, mix=options.mix) as bed, \
            bed.synced() as (switch, daemon):
        time.sleep(SETTLE)
        storm = Storm(bed, switch, daemon, rng).run(rate, seconds)
        ns = storm.seconds * 1e9
        table.figure("changes a second", storm.churn.n / storm.seconds, "1/s",
                     note="all of them on the bridge %.2f s after the last"
                     % storm.lag)
        table.figure("ofproxyd", storm.daemon_ns / ns, "cores", MAX_CORES)
        table.figure("ofproxyd, a change", storm.us_per_change, "us")
        table.figure("ovs-vswitchd", storm.switch_ns / ns, "cores")
        table.figure("the scripted API server", storm.api_ns / ns, "cores")
        found = storm.latency
        for name in ("p50", "p99", "max"):
            table.figure("event read to confirmed, " + name, found[name],
                         "ms", note="%d rounds" % found["n"]
                         if name == "p50" else "")


# Growth.

class Cost:
    """The processor time that a change costs, in us."""

    def __init__(self, daemon, switch):
        self._daemon, self._switch = daemon, switch
        self.own = self.switch = 0

    def of(self, n, function, *args):
        """Calls a function that makes 'n' changes."""
        own, switch = self._daemon.cpu_ns(), vswitchd_cpu(self._switch)
        function(*args)
        self.own = (self._daemon.cpu_ns() - own) / 1000 / n
        self.switch = (vswitchd_cpu(self._switch) - switch) / 1000 / n
        return self


def cost_of_singles(bed, daemon, switch, rng, wanted=None, n=150):
    """Of a change of an endpoint, after a quiet spell."""
    return Cost(daemon, switch).of(n, single_changes, bed, daemon, rng, n,
                                   wanted)


def has_all(service):
    """Is it a load balancer with affinity?"""
    return (service["spec"]["type"] == "LoadBalancer"
            and service["spec"]["sessionAffinity"] == "ClientIP")


def new_services(bed, daemon, n):
    """Makes new Services, one after the other; for a mix, load balancers with
    affinity."""
    more = {}
    for i in range(n):
        port = objects.port(80)
        if bed.mix:
            port["nodePort"] = 32600 + i
            more = {"type": "LoadBalancer", "sessionAffinity": "ClientIP",
                    "status": {"loadBalancer": {"ingress": [
                        {"ip": objects.nth("203.0.113.0/24", i + 1)}]}}}
        bed.api.apply(objects.service(
            "ns-new", "new-%d" % i, [port],
            [objects.nth("10.112.0.0/16", i + 10)], **more))
        time.sleep(QUIET)
    daemon.wait_ready()


def old_services(bed, daemon, n):
    """Takes them away."""
    for i in range(n):
        bed.api.delete("services", "ns-new", "new-%d" % i)
        time.sleep(QUIET)
    daemon.wait_ready()


def costs_of_services(bed, n=60, **config):
    """Of a new Service, and of one that goes, with proxyAll."""
    with bed.synced(antreaProxy={"proxyAll": True}, **config) as (switch,
                                                                  daemon):
        time.sleep(SETTLE)
        return [Cost(daemon, switch).of(n, function, bed, daemon, n)
                for function in (new_services, old_services)]


def costs_at(n_services, options):
    """{what: us} for a cluster of this size."""
    rng = random.Random(options.seed)
    costs = {}
    with Bed(n_services, options.seed, mix=options.mix) as bed:
        with bed.synced() as (switch, daemon):
            time.sleep(SETTLE)
            costs["an endpoint, after a quiet spell"] = cost_of_singles(
                bed, daemon, switch, rng).own
            if options.mix:
                costs["the same, load balancer with affinity"] = (
                    cost_of_singles(bed, daemon, switch, rng, has_all).own)
            costs["an endpoint, at 1000 a second"] = Storm(
                bed, switch, daemon, rng).run(1000, 3).us_per_change
        if not options.mix:
            new, old = costs_of_services(bed)
            costs["a new Service, proxyAll"] = new.own
            costs["a Service that goes, proxyAll"] = old.own
            costs[VSWITCHD + "a new Service, proxyAll"] = new.switch
        new, old = costs_of_services(bed, serviceCIDR="10.96.0.0/11")
        if options.mix:
            costs["a new Service"] = new.own
            costs["a Service that goes"] = old.own
        costs[VSWITCHD + "and serviceCIDR"] = new.switch
    return costs


def run_flat(table, options):
    """The sub-benchmark."""
    sizes = (100, 1000, LARGE)
    table.title("flat: processor time of ofproxyd for a change, by size of "
                "the cluster")
    costs = {size: costs_at(size, options) for size in sizes}
    for what in costs[LARGE]:
        for size in sizes:
            table.figure("%s, %d" % (what, size), costs[size][what], "us")
        table.figure("%s, %d : %d" % (what, LARGE, sizes[0]),
                     costs[LARGE][what] / costs[sizes[0]][what], "",
                     None if what.startswith(VSWITCHD) else MAX_GROWTH)
