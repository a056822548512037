# SPDX-License-Identifier: Apache-2.0
"""Random histories: objects and pods change, and all that the daemon talks to
fails, restarts and is meddled with.  After every quiet spell flows and groups
equal those of a cold start, the host has the routes that belong to them, and a
restart has nothing to change.

SEED=n in the environment repeats one history, STEPS=n sets its length,
SEEDS=n runs so many histories from SEED on.
"""
import os
import random
import re

import pytest

from support import churn, churnmc, packets
from support.attach import pod_mac
from support.clusterset import ON, POD_TO_POD
from support.objects import cluster
from support.rig import GATEWAY, Rig, cookie_of, is_ours
from support.wait import wait_for

SEED = int(os.environ.get("SEED", "1"))
SEEDS = int(os.environ.get("SEEDS", "1" if "SEED" in os.environ else "3"))
STEPS = int(os.environ.get("STEPS", "400"))
SPELL = 40                      # Steps between two checks.
N_OTHERS = 1500                 # Services of a large history.

# Names of Trouble's methods, and how often each is to come.
TROUBLE = {
    "cut_api": 6, "end_watches": 4, "stop_api": 4, "lag": 4, "refuse_api": 4,
    "cut_event": 4, "hold": 8,
    "kill_daemon": 5, "terminate_daemon": 2,
    "restart_switch": 3, "kill_switch": 2, "restart_database": 2,
    "delete_flows": 6, "modify_flows": 5, "add_flows": 6, "delete_groups": 5,
    "modify_group": 5, "add_group": 4, "add_foreign": 4,
    "refuse_mod": 10, "drop_reply": 1, "delay": 4, "cut": 6, "cut_on": 6,
    "remake_gateway": 2, "remake_bridge": 1, "delete_meters": 2,
    "delete_routes": 4, "steal_route": 3, "flush_rules": 3,
    "delete_members": 4, "add_member": 3, "delete_tunnel": 3,
    "flap_uplink": 3, "rename_uplink": 2, "flush_gateway": 3,
    "move_uplink": 3, "move_address": 4, "delete_marked_way": 3,
    "clients": 8,
}
ADDRESSES = ["192.0.2.13/24", "203.0.113.1/32", "2001:db8:2::13/64"]
LEARN = re.compile(r"learn\([^)]*cookie=0x([0-9a-f]+)")
UPLINK_V6 = "2001:db8:2::11/64"
SKIPPED = ["ns2/svc-9", "10.96.0.16", "2001:db8:96::1"]
MODES = ("encap", "noEncap", "hybrid")

# (type, code) of OFPT_ERROR: BAD_ACTION, FLOW_MOD_FAILED, GROUP_MOD_FAILED,
# BUNDLE_FAILED.
REFUSALS = ((2, 9), (5, 1), (6, 1), (17, 13))
MESSAGES = ("open", "group put", "flow add", "flow delete-strict",
            "group delete", "barrier-request", "commit", "open-reply",
            "commit-reply", "barrier-reply", "flow reply",
            "group-desc reply")


class Trouble:
    """What can go wrong around a rig whose objects `churn` changes."""

    def __init__(self, rng, rig, objects):
        self.rng, self.rig, self.churn = rng, rig, objects
        self.api, self.switch, self.shim = rig.api, rig.switch, rig.shim
        self.daemon = rig.daemon
        self.foreign = set()
        self._held = set()
        self._dropped = False
        self._n = 0

    def step(self):
        """One kind of trouble by chance."""
        name, = self.rng.choices(list(TROUBLE), TROUBLE.values())
        self.churn.done.append(name)
        getattr(self, name)()

    def end(self):
        """All is well again."""
        for resource in sorted(self._held):
            self.api.release(resource)
        self._held.clear()
        self.api.clear_faults()
        self.shim.clear_rules()

    def _some_changes(self):
        for _ in range(self.rng.randint(0, 6)):
            self.churn.step()

    def _resource(self):
        return self.rng.choice(self.churn.resources)

    # The API server.

    def cut_api(self):
        """Connections break."""
        self.api.cut_connections(self.rng.choice(("rst", "fin")))
        self._some_changes()

    def end_watches(self):
        """Watches end as they do from time to time."""
        self.api.end_watches(self.rng.choice((None, self._resource())))

    def stop_api(self):
        """An outage with changes in it, longer than the history at times."""
        self.api.stop(self.rng.choice(("rst", "fin")))
        self._some_changes()
        if self.rng.randrange(2):
            self.api.compact()
        self.api.start()

    def lag(self):
        """A watch falls behind, and what it lacks is gone from history."""
        resource = self._resource()
        self.api.hold(resource)
        self._some_changes()
        self.api.compact()
        self.api.cut_connections()
        if resource not in self._held:
            self.api.release(resource)

    def refuse_api(self):
        """Requests fail."""
        self.api.fault(resource=self._resource(), count=self.rng.choice(
            (1, 1, 2)), status=self.rng.choice((429, 500, 503, 504, 410)))
        self.end_watches()

    def cut_event(self):
        """A watch breaks off in the middle of an event."""
        self.api.fault(resource=self._resource(), verb="watch",
                       cut_event=self.rng.randrange(4))
        self.end_watches()
        self._some_changes()

    def hold(self):
        """One resource's events come later than the others'."""
        resource = self._resource()
        if resource in self._held:
            self._held.remove(resource)
            self.api.release(resource)
        else:
            self._held.add(resource)
            self.api.hold(resource)

    # Processes.

    def kill_daemon(self):
        """kill -9, and changes before it is back."""
        self.daemon.kill()
        self._some_changes()
        self.daemon.start()

    def terminate_daemon(self):
        """As its service ends it."""
        assert self.daemon.terminate() == 0
        self.daemon.start()

    def restart_switch(self, hard=False):
        """All flows and groups are gone."""
        self.switch.restart(hard)
        self.foreign.clear()

    def kill_switch(self):
        """The same by kill -9."""
        self.restart_switch(hard=True)

    def restart_database(self):
        """ovsdb-server is away for a moment."""
        self.switch.stop_ovsdb()
        self.switch.start_ovsdb()

    def remake_gateway(self):
        """Somebody deletes the gateway port."""
        self.switch.vsctl("--if-exists", "del-port", GATEWAY)

    def remake_bridge(self):
        """Somebody deletes the bridge, with all ports.  Where it comes back
        quickly, the switch takes it for the same and keeps all flows."""
        self._ofctl("del-flows", "cookie=0x77/-1")
        self.foreign.clear()
        bridge = self.switch.bridge
        self.switch.vsctl("--if-exists", "del-br", bridge)
        self.rig.pods.clear()
        wait_for(lambda: bridge in self.switch.vsctl("list-br"), 10,
                 "the bridge", self.rig)

    # Foreign hands.

    def _ofctl(self, command, *args):
        """The bridge may just be away, and what is named, too."""
        self.switch.ofctl(command, *args, check=False)

    def _group(self):
        groups = [g.split(",")[0] for g in self.switch.dump_groups()] \
            if self._bridge_is_there() else []
        return self.rng.choice(groups) if groups else None

    def _bridge_is_there(self):
        return (self.switch.dir / (self.switch.bridge + ".mgmt")).exists()

    def delete_flows(self):
        """Some or all."""
        which = self.rng.choice(("table=12", "table=12,udp", "table=20", ""))
        if which != "table=20":
            self.foreign.clear()
        self._ofctl("del-flows", *([which] if which else ()))

    def modify_flows(self):
        """Other actions."""
        self._ofctl("mod-flows", self.rng.choice(
            ("table=12,udp,actions=drop", "table=12,ip,actions=drop",
             "table=31,actions=drop")))

    def add_flows(self):
        """Under our cookie, at keys of ours and others."""
        self._n += 1
        self._ofctl("add-flow", "cookie=0xf90103000000%04x,table=12,"
                    "priority=%d,tcp,nw_dst=10.96.0.%d,tp_dst=80,"
                    "reg4=0x10000/0x70000,actions=drop" % (
                        self._n, self.rng.choice((200, 199)),
                        self.rng.randint(1, 16)))
        if self.rng.randrange(2):
            self._ofctl("add-flow", "cookie=0xf900000000000000,table=3,"
                        "priority=77,in_port=7,actions=goto_table:5")

    def delete_groups(self):
        """One or all; their flows go with them."""
        group = self._group() if self.rng.randrange(3) else None
        self._ofctl("del-groups", *([group] if group else ()))

    def modify_group(self):
        """Other buckets, or one bucket more."""
        group = self._group()
        if group:
            self._ofctl(*self.rng.choice((
                ("mod-group", group + ",type=select,bucket=actions=drop"),
                ("insert-buckets", group + ",command_bucket_id=last,"
                 "bucket=bucket_id=77,actions=drop"),
                ("mod-group", group + ",type=all,bucket=actions=drop"))))

    def add_group(self):
        """Under an id of ours."""
        self._n += 1
        self._ofctl("add-group", "group_id=%d,type=select,"
                    "bucket=actions=drop" % (0x40000000 + self._n))

    def add_foreign(self):
        """What is not ours, and stays."""
        self._n += 1
        if self._bridge_is_there():
            self.switch.ofctl("add-flow", "cookie=0x77,table=12,priority=%d,"
                              "udp,actions=drop" % self._n)
            self.foreign.add(self._n)

    # The host.

    def _host(self, *command):
        """What is named may not be there."""
        self.rig.ns.run(*command, check=False)

    def delete_routes(self):
        """Ours: all, or one."""
        family = self.rng.choice(("-4", "-6"))
        routes = self.rig.ns.ip(family, "route", "show", "proto",
                                "201").splitlines()
        if routes and self.rng.randrange(2):
            self._host("ip", family, "route", "del",
                       self.rng.choice(routes).split()[0], "proto", "201")
        else:
            self._host("ip", family, "route", "flush", "proto", "201")

    def steal_route(self):
        """Somebody leads one of ours elsewhere, or adds one as ours."""
        cidr = "10.10.%d.0/24" % self.rng.randint(30, 35)
        self._host("ip", "route", self.rng.choice(("replace", "add")), cidr,
                   "via", "192.0.2.%d" % self.rng.randint(20, 30), "dev",
                   "eth0", "proto", "201", "metric", "4096")

    def flush_rules(self):
        """All rules of the host, or our table."""
        self._host("nft", *self.rng.choice((
            ("flush", "ruleset"), ("delete", "table", "inet", "ofproxyd"),
            ("flush", "table", "inet", "ofproxyd"),
            ("flush", "chain", "inet", "ofproxyd", "postrouting_nat"),
            ("add", "rule", "inet", "ofproxyd", "postrouting_nat",
             "ip", "saddr", "203.0.113.1", "accept"))))

    def move_address(self):
        """The node gets one more address, or loses it."""
        address = self.rng.choice(ADDRESSES)
        self._host("ip", "addr", self.rng.choice(("replace", "del")),
                   address, "dev", "eth0",
                   *(["nodad"] if ":" in address else []))

    def delete_marked_way(self):
        """The rule or the route of marked packets, or the next hop's
        address."""
        family = self.rng.choice(("-4", "-6"))
        self._host("ip", family, *self.rng.choice((
            ("rule", "del", "priority", "201"),
            ("route", "flush", "table", "2010201"),
            ("neigh", "flush", "nud", "permanent"))))

    def _member(self):
        return self.rng.choice((
            ("node_ports_ipv4", "tcp . 30080"),
            ("node_ports_ipv6", "udp . 31000"),
            ("external_ipv4", "203.0.113.1 . tcp . 80"),
            ("external_ipv6", "2001:db8:3::1 . udp . 53"),
            ("node_port_addrs_ipv4", "192.0.2.13"),
            ("pod_cidrs_ipv4", "10.10.%d.0/24" % self.rng.randint(30, 35)),
            ("pod_cidrs_ipv4", "10.10.1.0/24"),
            ("pod_cidrs_ipv6", "2001:db8:10:%d::/64"
             % self.rng.randint(30, 35)),
            ("nodes_ipv4", "192.0.2.%d" % self.rng.randint(21, 25))))

    def delete_members(self):
        """Some of a set, or all."""
        name, member = self._member()
        if self.rng.randrange(2):
            self._host("nft", "flush", "set", "inet", "ofproxyd", name)
        else:
            self._host("nft", "delete", "element", "inet", "ofproxyd", name,
                       "{", member, "}")

    def add_member(self):
        """To a set of ours."""
        name, member = self._member()
        self._host("nft", "add", "element", "inet", "ofproxyd", name, "{",
                   member, "}")

    def delete_tunnel(self):
        """Somebody deletes the tunnel port."""
        self.switch.vsctl("--if-exists", "del-port", "antrea-tun0")

    def flap_uplink(self):
        """The transport link goes down and comes up again."""
        self._host("ip", "link", "set", "eth0", "down")
        self._some_changes()
        if self.rng.randrange(2):
            self.kill_daemon()
        self._host("ip", "link", "set", "eth0", "up")
        self._host("ip", "addr", "replace", UPLINK_V6, "dev", "eth0",
                   "nodad")

    def rename_uplink(self):
        """It has another name for a moment."""
        self._host("ip", "link", "set", "eth0", "down", "name", "other0")
        self._host("ip", "link", "set", "other0", "up")
        self._some_changes()
        if self.rng.randrange(2):
            self.kill_daemon()
        self._host("ip", "link", "set", "other0", "down", "name", "eth0")
        self._host("ip", "link", "set", "eth0", "up")
        self._host("ip", "addr", "replace", UPLINK_V6, "dev", "eth0",
                   "nodad")

    def move_uplink(self):
        """The node gets another address, on the link first or in its object
        first."""
        old = self.churn.own_address
        new = "192.0.2.12" if old == "192.0.2.11" else "192.0.2.11"
        steps = [lambda: self._host("ip", "addr", "replace", new + "/24",
                                    "dev", "eth0"),
                 lambda: self.churn.move_own_node(new)]
        self.rng.shuffle(steps)
        for step in steps:
            step()
            self._some_changes()
            if not self.rng.randrange(4):
                self.kill_daemon()
        self._host("ip", "addr", "del", old + "/24", "dev", "eth0")
        # The kernel may have taken the second one of the subnet along.
        self._host("ip", "addr", "replace", new + "/24", "dev", "eth0")

    def flush_gateway(self):
        """The gateway link loses its addresses, or is taken down and up."""
        if self.rng.randrange(2):
            self._host("ip", "addr", "flush", "dev", GATEWAY)
        else:
            self._host("ip", "link", "set", GATEWAY, "down")

    def delete_meters(self):
        """And what uses them."""
        self._ofctl("del-meters")

    # Clients.

    def clients(self):
        """Pods connect, and the switch learns of those that have affinity."""
        mac = self.rig.gateway_mac()
        for name, (addresses, *_) in sorted(self.rig.pods.items()) \
                if mac else ():
            self.switch.appctl("netdev-dummy/receive", name, *[
                packets.eth(pod_mac(addresses[0]), mac, *packets.ip(
                    addresses[":" in ip], ip, *data)).hex()
                for ip in churn.V4 + churn.V6 for port in (53, 80, 443)
                for data in (
                    (packets.TCP, packets.tcp(1024, port, packets.SYN)),
                    (packets.UDP, packets.udp(1024, port)))], check=False)

    # The OpenFlow connection.

    def _some_mod(self):
        """Matches one change in a few."""
        skip = self.rng.randrange(8)

        def match(message):
            nonlocal skip
            if not message.is_mod or message.what == "meter-mod":
                return False
            skip -= 1
            return skip < 0
        return match

    def refuse_mod(self):
        """The switch refuses flows or groups."""
        self.shim.refuse(self._some_mod(), *self.rng.choice(REFUSALS),
                         count=self.rng.choice((1, 1, 2, 3)))
        self._some_changes()

    def _some_message(self):
        what = self.rng.choice(MESSAGES)
        return lambda message: message.what == what

    def drop_reply(self):
        """A reply is lost, which costs a deadline: once is enough."""
        if not self._dropped:
            self._dropped = True
            what = self.rng.choice(("commit-reply", "barrier-reply"))
            self.shim.drop(lambda message: message.what == what)
            self._some_changes()

    def delay(self):
        """Something is late."""
        self.shim.delay(self._some_message(), self.rng.choice((.02, .2)),
                        count=self.rng.randint(1, 3))

    def cut(self):
        """The connection breaks."""
        self._some_changes()
        self.shim.cut()

    def cut_on(self):
        """It breaks at a certain point."""
        self.shim.cut_on(self._some_message(), count=self.rng.randint(1, 2))
        self._some_changes()

    def check_foreign(self):
        """What is not ours was not touched."""
        kept = {int(flow.split("priority=")[1].split(",")[0])
                for flow in self.switch.dump_flows() if not is_ours(flow)}
        assert kept == self.foreign

    def check_learned(self):
        """No client is remembered at an endpoint that is not in use."""
        learn = LEARN.findall("".join(self.switch.dump_flows("table=14")))
        learned = {"%x" % cookie_of(flow)
                   for flow in self.switch.dump_flows("table=11")
                   if "reg7=" in flow}
        assert learned <= set(learn), learned - set(learn)
        return len(learned)


def run_spell(rng, objects, trouble):
    """Changes, with trouble in between, and the end of the trouble."""
    when = set(rng.sample(range(SPELL), rng.randint(0, 5)))
    for i in range(SPELL):
        if i in when:
            trouble.step()
        objects.step()
    trouble.end()
    objects.mend()


def check_restart(rig):
    """With unchanged objects: no change."""
    rig.shim.clear()
    rig.restart_daemon()
    assert rig.shim.mods() == []


def run_history(tmp_path, seed, n_steps, others=()):
    """One history; `others` are objects that stay as they are."""
    rng = random.Random(seed)
    proxy = {"proxyAll": True, "proxyLoadBalancerIPs": seed % 4 > 0,
             "skipServices": SKIPPED if seed % 2 else [],
             "nodePortAddresses": [] if seed % 5 else ["192.0.2.8/29"]}
    members = seed % 2          # Of a cluster set: Gateways and others.
    with Rig(tmp_path, relay=True, antreaProxy=proxy,
             trafficEncapMode=MODES[seed % len(MODES)],
             **(POD_TO_POD if seed % 4 == 1 else ON if members else {})
             ) as rig:
        rig.ns.ip("addr", "add", UPLINK_V6, "dev", "eth0", "nodad")
        rig.daemon.allow(*churn.EXPECTED)
        rig.api.apply_all(others)
        objects = churn.Churn(rng, rig, members and churnmc.STEPS)
        trouble = Trouble(rng, rig, objects)
        rig.start_daemon()
        for name in "p0", "p1":
            rig.add_pod(name, churn.PODS[name], len(rig.pods) + 1)
        for i in range(0, n_steps, SPELL):
            print("seed %d, steps %d to %d:" % (seed, i, i + SPELL), end=" ")
            objects.done.clear()
            run_spell(rng, objects, trouble)
            print(*objects.done)
            if rng.randrange(2):
                rig.check_cold_host()
            rig.check_cold_start(timeout=90)
            rig.wait_routes()
            trouble.check_foreign()
            left = trouble.check_learned()
            if rng.randrange(2):
                check_restart(rig)
            trouble.clients()
            print("clients remembered: %d, now %d" % (
                left, trouble.check_learned()))
        rig.check_quiet()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_d06_d35_every_history_ends_like_a_cold_start(tmp_path, seed):
    """See the module."""
    run_history(tmp_path, seed, STEPS)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("seed", range(SEED, SEED + (SEEDS + 2) // 3))
def test_d06_so_does_a_history_that_takes_many_bundles(tmp_path, seed):
    """Among so many Services that each new start is more than one bundle and
    more than one turn of the loop."""
    run_history(tmp_path, seed, STEPS // 4, [
        obj for svc, slices in cluster(N_OTHERS, 2)
        for obj in (svc, *slices)])
