# SPDX-License-Identifier: Apache-2.0
"""The host's packet rules in a real kernel, by rules-probe in a namespace."""
import concurrent.futures
import ipaddress
import os
import pathlib
import random
import shutil
import subprocess
import threading
import time

import pytest

from support.rulesprobe import (BASIC, NETFAULT, PROBE, SLOWER, TABLE, WRAPPER,
                                RulesProbe, listing, members, wait_healed)
from support.wait import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETS = ("nodes_ipv4", "pod_cidrs_ipv4", "nodes_ipv6", "pod_cidrs_ipv6")
CHAIN = ("chain", "ip", "filter", "FORWARD")


def test_the_listing_in_the_documentation_is_a_real_one(ns, probe):
    text = (ROOT / "docs/operations.md").read_text()
    sample = text[text.index("table inet ofproxyd {"):]
    probe.set(*[line.replace("gw0", "antrea-gw0") for line in BASIC],
              "node-port-ip 169.254.0.252",
              "kept-mac aa:bb:cc:dd:ee:ff",
              "node-port-ip fc01::aabb:ccdd:eefe", "add addrs 192.0.2.1/32",
              "add addrs 127.0.0.1/32", "add addrs 2001:db8::1/128",
              "port ports 0.0.0.0 TCP 30080", "port ports :: TCP 30080",
              "port external 203.0.113.10 TCP 443")
    listed = ns.run("nft", "list", "table", "inet", TABLE).stdout
    assert sample[:sample.index("```")] == listed.replace("\t", "    ")


@pytest.mark.parametrize("port", [6081, 4789, 7000])
def test_e18_notrack_is_for_the_configured_port_only(ns, probe, port):
    probe.set(*BASIC, "notrack %d" % port)
    rules = [l for l in listing(ns).splitlines() if "notrack" in l]
    assert len(rules) == 4
    assert all("udp dport %d " % port in rule for rule in rules)


def test_e18_without_a_udp_tunnel_nothing_bypasses_tracking(ns, probe):
    probe.set(*BASIC)
    assert "notrack" in listing(ns)
    probe.set("notrack 0")
    assert "notrack" not in listing(ns) and "raw" not in listing(ns)
    assert "masquerade" in listing(ns)


def test_the_settings_decide_about_masquerade(ns, probe):
    probe.set(*BASIC, "masquerade 0")
    assert "ip saddr 10.10.1.0/24" not in listing(ns)
    assert "ip saddr 169.254.0.253 counter  masquerade" in listing(ns)
    probe.set("masquerade 1", "random 1")
    rules = [l for l in listing(ns).splitlines() if "masquerade" in l]
    assert len(rules) == 6
    assert all(rule.endswith("masquerade fully-random") for rule in rules)


def test_one_family_alone_has_its_rules_alone(ns, probe):
    probe.set("gateway gw0", "gateway-ip 10.10.1.1",
              "virtual-ip 169.254.0.253", "transport 192.0.2.1",
              "pod-cidr 10.10.1.0/24", "masquerade 1", "complete 1",
              "notrack 6081", "add pods 10.10.1.0/24")
    assert "ip6 " not in listing(ns)


def test_a_name_that_could_be_read_as_a_rule_makes_none(ns, probe):
    probe.set(*BASIC, 'gateway x";drop', sync=False)
    probe.wait_log("is no name for a rule")
    assert listing(ns, "ruleset") == ""


def installed(networks):
    """Those that no other one contains, as nft prints them."""
    return sorted(str(n) for n in networks
                  if not any(n != o and n.subnet_of(o) for o in networks))


def test_members_follow_a_random_history(ns, probe):
    seed = int(os.environ.get("SEED", time.time()))
    print("SEED=%d" % seed)
    rng = random.Random(seed)
    probe.set(*BASIC)
    pool = {"ipv4": ["10.64.0.0/13", "10.64.0.0/16", "10.65.0.0/16",
                     "255.255.255.0/24", "255.0.0.0/8", "0.0.0.0/8"]
            + ["10.64.%d.0/24" % n for n in range(12)],
            "ipv6": ["2001:db8:40::/44", "ffff::/16", "::/16"]
            + ["2001:db8:40:%x::/64" % n for n in range(12)]}
    counts = {}
    for _ in range(12):
        for _ in range(rng.randrange(1, 20)):
            network = rng.choice(pool[rng.choice(["ipv4", "ipv6"])])
            if rng.random() < 0.6 or not counts.get(network):
                probe.send("add pods " + network)
                counts[network] = counts.get(network, 0) + 1
            else:
                probe.send("del pods " + network)
                counts[network] -= 1
        if rng.random() < 0.2:
            ns.run("nft", "flush", "ruleset")
        probe.wait_sync()
        for family, extra in (("ipv4", ["10.10.1.0/24", "10.10.2.0/24"]),
                              ("ipv6", ["2001:db8:10:1::/64",
                                        "2001:db8:10:2::/64"])):
            networks = [ipaddress.ip_network(n) for n in pool[family] + extra
                        if counts.get(n) or n in extra]
            wait_for(lambda f=family, n=networks:
                     members(ns, "pod_cidrs_" + f) == installed(n),
                     5 * SLOWER, "the set", probe)
    assert not probe.log_lines("WARN")


def test_a_thousand_nodes_come_and_go_in_any_order(ns, tmp_path):
    seed = int(os.environ.get("SEED", time.time()))
    print("SEED=%d" % seed)
    rng = random.Random(seed)
    nodes = list(range(1000))
    lines = {n: ("nodes 198.18.%d.%d/32" % (n // 250, n % 250),
                 "pods 10.%d.%d.0/24" % (64 + n // 250, n % 250))
             for n in nodes}

    def change(probe, what, some):
        rng.shuffle(some)
        probe.took()
        for n in some:
            probe.send(*(what + " " + line for line in lines[n]))
            if rng.random() < 0.1:
                probe.wait_sync()
        probe.wait_sync()
        return probe.took() / len(some)

    with RulesProbe(ns, tmp_path) as probe:
        probe.set(*BASIC)
        first = change(probe, "add", nodes[:100])
        rest = change(probe, "add", nodes[100:])
        gone = rng.sample(nodes, 600)
        change(probe, "del", gone)
        change(probe, "add", gone[:300])
        assert probe.number(r"written: (\d+) times") == 1
        assert not probe.log_lines("WARN")
    print("%.3f ms of CPU for each of the first 100, %.3f for the others"
          % (first, rest))
    assert rest < 0.7 * SLOWER
    grown = [members(ns, name) for name in SETS]
    with RulesProbe(ns, tmp_path) as probe:
        # One that begins with what there is in the end.
        probe.send(*("add " + line for n in set(nodes) - set(gone[300:])
                     for line in lines[n]))
        probe.set(*BASIC)
        assert [members(ns, name) for name in SETS] == grown
    assert len(grown[0]) == 701 and len(grown[1]) == 702


def test_several_may_want_a_member(ns, probe):
    probe.set(*BASIC, "add nodes 192.0.2.2/32", "add nodes 192.0.2.0/24")
    probe.send("del nodes 192.0.2.2/32")
    probe.wait_sync()
    assert members(ns, "nodes_ipv4") == ["192.0.2.2"]
    probe.send("del nodes 192.0.2.2/32", "del nodes 192.0.2.2/32")
    probe.wait_sync()
    assert members(ns, "nodes_ipv4") == []


@pytest.mark.parametrize("change", [
    "flush ruleset", "delete table inet " + TABLE,
    "flush chain inet %s prerouting_raw" % TABLE,
    "insert rule inet %s output_raw counter drop" % TABLE,
    "add chain inet %s foreign" % TABLE,
    "add set inet %s foreign { type ipv4_addr; }" % TABLE,
    "add table inet %s { flags dormant; }" % TABLE,
    "add chain inet %s output_raw { policy drop; }" % TABLE,
    "delete element inet %s nodes_ipv4 { 192.0.2.2 }" % TABLE,
    "delete element inet %s pod_cidrs_ipv6 { 2001:db8:10:2::/64 }" % TABLE,
    "add element inet %s nodes_ipv4 { 198.51.100.1 }" % TABLE,
    "add element inet %s pod_cidrs_ipv4 { 198.51.100.3-198.51.100.9 }" % TABLE,
    "flush set inet %s nodes_ipv6" % TABLE])
def test_what_a_foreign_hand_changes_is_healed(ns, probe, change):
    probe.set(*BASIC)
    wanted = listing(ns)
    ns.run("nft", change)
    print("healed after %.0f ms" % (1e3 * wait_healed(probe, ns, wanted)))
    probe.wait_sync()


def test_a_rule_deleted_by_its_handle_comes_back(ns, probe):
    probe.set(*BASIC)
    wanted = listing(ns)
    text = ns.run("nft", "-a", "list", "chain", "inet", TABLE,
                  "postrouting_nat").stdout
    handle = text.split("# handle ")[-1].split()[0]
    ns.run("nft", "delete", "rule", "inet", TABLE, "postrouting_nat",
           "handle", handle)
    wait_healed(probe, ns, wanted)
    assert "somebody changed it" in probe.wait_log("somebody")


def test_one_who_deletes_without_end_costs_little(ns, probe):
    probe.set(*BASIC)
    end = threading.Event()

    def delete():
        while not end.is_set():
            ns.run("nft", "delete", "table", "inet", TABLE, check=False)

    thread = threading.Thread(target=delete)
    thread.start()
    time.sleep(2)       # That is how long the fight lasts.
    end.set()
    thread.join()
    probe.wait_sync()
    assert probe.number(r"written: (\d+) times") <= 10


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
@pytest.mark.parametrize("call, ms", [("sendmsg", 300), ("sendto", 60)])
def test_a_change_right_after_our_own_write_is_seen(ns, tmp_path, call, ms):
    """It comes before, or while, we look at what we have written: libnftables
    writes with sendmsg, we ask with sendto."""
    slow = ("strace", "-o", tmp_path / "strace", "-e", "trace=" + call, "-e",
            "inject=%s:delay_exit=%d000" % (call, ms))
    with RulesProbe(ns, tmp_path, slow) as probe:
        probe.set(*BASIC)
        probe.send("random 1", "set")
        wait_for(lambda: "fully-random" in listing(ns), 5, "the write", probe)
        ns.run("nft", "insert", "rule", "inet", TABLE, "postrouting_nat",
               "accept")
        wait_for(lambda: "\t\taccept\n" not in listing(ns), 20 * SLOWER,
                 "the repair", probe)
        probe.wait_sync(30 * SLOWER)
        assert "fully-random" in listing(ns)


def test_a_busy_kube_proxy_costs_next_to_nothing(ns, probe):
    probe.set(*BASIC)
    before = ns.run("cat", "/proc/%d/stat" % probe.process.pid).stdout
    chains = "".join("chain svc-%d {\nip daddr 10.0.0.1 accept\n}\n" % n
                     for n in range(2000))
    for _ in range(5):
        ns.run("nft", "-f", "-", input="table ip kube-proxy {\n%s}\n"
               "delete table ip kube-proxy\n" % chains)
    probe.wait_sync()
    after = ns.run("cat", "/proc/%d/stat" % probe.process.pid).stdout
    ticks = [sum(int(x) for x in s.split()[13:15]) for s in (before, after)]
    used = (ticks[1] - ticks[0]) / os.sysconf("SC_CLK_TCK")
    print("%.3f s of CPU for 20000 chains and rules, made and deleted" % used)
    assert used < 0.5 * SLOWER
    assert probe.number(r"written: (\d+) times") == 1


def chains(ns):
    """The listing from the first chain on."""
    text = listing(ns)
    return text[text.index("chain "):]


def test_before_all_is_known_nothing_is_taken_away(ns, tmp_path):
    with RulesProbe(ns, tmp_path) as first:
        first.set(*BASIC, "add nodes 192.0.2.3/32", "notrack 7000")
    kept = chains(ns)
    assert "7000" in kept
    with RulesProbe(ns, tmp_path) as second:
        second.set(*BASIC, "complete 0", "add nodes 192.0.2.4/32", sync=False)
        wait_for(lambda: "192.0.2.4" in members(ns, "nodes_ipv4"), 5 * SLOWER,
                 "the new member", second)
        assert members(ns, "nodes_ipv4") == ["192.0.2.2", "192.0.2.3",
                                             "192.0.2.4"]
        assert chains(ns) == kept
        assert "kept for now" in "\n".join(second.ask("state"))
        second.set("complete 1")
        assert members(ns, "nodes_ipv4") == ["192.0.2.2", "192.0.2.4"]
        assert "7000" not in listing(ns) and "6081" in listing(ns)


def test_a_table_that_another_version_made_is_replaced_when_all_is_known(
        ns, probe):
    other = ("table inet %s {\n\tset nodes_ipv4 {\n\t\ttype ipv6_addr\n\t}\n"
             "\n\tchain odd {\n\t}\n}\n" % TABLE)
    ns.run("nft", "-f", "-", input=other)
    probe.set(*BASIC, "complete 0", sync=False)
    wait_for(lambda: "kept for now" in "\n".join(probe.ask("state")),
             5 * SLOWER, "a look at it", probe)
    assert listing(ns) == other
    probe.set("complete 1")
    assert "odd" not in listing(ns)
    assert not probe.log_lines("WARN")


@pytest.mark.skipif(b"__asan_init" in PROBE.read_bytes() or WRAPPER != [],
                    reason="memory is not the program's own")
def test_memory_for_writing_is_given_back(ns, probe):
    probe.send("many pods 5000 10.64.0.0/24", "many nodes 5000 198.18.0.1/32")
    before = probe.memory()
    probe.set(*BASIC)
    wait_for(lambda: probe.memory() < before + 1000, 5 * SLOWER,
             "less memory than %d KiB" % (before + 1000), probe)


def test_before_all_is_known_a_table_is_made_where_there_is_none(ns, probe):
    probe.set(*BASIC, "complete 0", sync=False)
    wait_for(lambda: "notrack" in listing(ns), 5 * SLOWER, "the table", probe)
    probe.send("add nodes 192.0.2.9/32")
    wait_for(lambda: "192.0.2.9" in members(ns, "nodes_ipv4"), 5 * SLOWER,
             "the member", probe)


def forward_rules(ns, tool="iptables"):
    """What iptables prints of the chain."""
    return ns.run(tool, "-S", "FORWARD").stdout.splitlines()[1:]


OURS = ["-A FORWARD -i gw0 -m comment --comment ofproxyd -j ACCEPT",
        "-A FORWARD -o gw0 -m comment --comment ofproxyd -j ACCEPT"]


@pytest.mark.parametrize("tool", ["iptables", "ip6tables"])
def test_g1_a_forward_chain_accepts_the_gateway(ns, probe, tool):
    ns.run(tool, "-P", "FORWARD", "DROP")
    probe.set(*BASIC)
    assert forward_rules(ns, tool) == OURS
    ns.run(tool, "-F", "FORWARD")
    wait_for(lambda: forward_rules(ns, tool) == OURS, SLOWER, "our rules",
             probe)
    ns.run(tool, "-I", "FORWARD", "-j", "DROP")
    wait_for(lambda: forward_rules(ns, tool) ==
             OURS + ["-A FORWARD -j DROP"], SLOWER, "our rules", probe)
    ns.run(tool, "-D", "FORWARD", "1")
    wait_for(lambda: forward_rules(ns, tool) ==
             OURS + ["-A FORWARD -j DROP"], SLOWER, "our rules", probe)
    probe.wait_sync()


def test_g1_a_forward_chain_that_comes_later_is_found(ns, probe):
    probe.set(*BASIC)
    assert "FORWARD" not in listing(ns, "ruleset")
    ns.run("iptables", "-P", "FORWARD", "DROP")
    wait_for(lambda: forward_rules(ns) == OURS, SLOWER, "our rules", probe)
    ns.run("nft", "delete", "table", "ip", "filter")
    ns.run("iptables", "-A", "FORWARD", "-j", "DROP")
    wait_for(lambda: forward_rules(ns) == OURS + ["-A FORWARD -j DROP"],
             SLOWER, "our rules", probe)


def test_rules_that_iptables_restores_are_known_as_ours(ns, tmp_path):
    ns.run("iptables", "-P", "FORWARD", "DROP")
    with RulesProbe(ns, tmp_path) as probe:
        probe.set(*BASIC)
    ns.run("iptables-restore", input=ns.run("iptables-save").stdout)
    restored = listing(ns, *CHAIN)
    with RulesProbe(ns, tmp_path) as probe:
        probe.set(*BASIC)
        assert listing(ns, *CHAIN) == restored
        probe.set("gateway gw1")
        assert forward_rules(ns) == [r.replace("gw0", "gw1") for r in OURS]


def test_a_chain_of_this_name_without_a_hook_is_left_alone(ns, probe):
    ns.run("nft", "add table ip filter; add chain ip filter FORWARD")
    probe.set(*BASIC)
    assert "gw0" not in listing(ns, *CHAIN)


def test_g10_what_others_left_behind_is_named_once(ns, probe):
    ns.run("iptables", "-t", "nat", "-N", "KUBE-SERVICES")
    ns.run("ip6tables", "-t", "mangle", "-N", "ANTREA-OUTPUT")
    ns.run("nft", "add table ip6 kube-proxy")
    ns.run("nft", "add table ip kube-proxy")
    ns.batch("link add kube-ipvs0 type veth peer name other0")
    before = listing(ns, "ruleset")
    probe.set(*BASIC)
    assert "kube-proxy --cleanup" in probe.wait_log("KUBE-*")
    assert "nft delete table ip6 kube-proxy" in probe.wait_log("table ip6 k")
    assert "nft delete table ip kube-proxy" in probe.wait_log("table ip kube")
    assert "ip6tables-restore" in probe.wait_log("ANTREA-*")
    assert "ip link del kube-ipvs0" in probe.wait_log("kube-ipvs0")
    ns.run("nft", "delete table inet " + TABLE)
    wait_for(lambda: probe.number(r"written: (\d+) times") == 2, 5 * SLOWER,
             "the repair", probe)
    probe.wait_sync()
    assert len(probe.log_lines("leftovers|WARN")) == 5
    ns.run("nft", "delete table inet " + TABLE)
    # Nothing of it was touched.
    for line in before.splitlines():
        assert line in listing(ns, "ruleset")


@pytest.mark.parametrize("tool", ["iptables-legacy", "ip6tables-legacy"])
def test_g1_a_drop_of_legacy_iptables_is_named(ns, tmp_path, tool):
    if ns.run(tool, "-P", "FORWARD", "ACCEPT", check=False).returncode:
        pytest.skip("the kernel has no legacy iptables")
    ns.run(tool, "-t", "nat", "-N", "KUBE-SERVICES")
    with RulesProbe(ns, tmp_path) as probe:
        probe.set(*BASIC)
        probe.wait_log("KUBE-* of legacy")
        assert not probe.log_lines("by policy")
    ns.run(tool, "-P", "FORWARD", "DROP")
    with RulesProbe(ns, tmp_path) as probe:
        probe.set(*BASIC)
        assert tool + " -I FORWARD -i gw0" in probe.wait_log("by policy")


def test_cleanup_removes_what_is_ours_and_says_what(ns, tmp_path):
    ns.run("iptables", "-A", "FORWARD", "-j", "DROP")
    ns.run("nft", "add table inet other")
    before = listing(ns, "ruleset")
    with RulesProbe(ns, tmp_path) as probe:
        probe.set(*BASIC)
    with RulesProbe(ns, tmp_path) as probe:
        assert probe.ask("cleanup") == [
            "removed nftables table inet ofproxyd",
            "removed 2 rules from nftables chain ip filter FORWARD"]
        assert probe.ask("cleanup") == []
    assert listing(ns, "ruleset") == before


def owned(ns, *commands):
    """A process that owns a table that it has made: nobody else may change
    it."""
    owner = ns.start("nft", "-i", stdin=subprocess.PIPE, text=True)
    owner.stdin.write("".join(c + "\n" for c in commands))
    owner.stdin.flush()
    wait_for(lambda: "flags owner" in listing(ns, "ruleset"), 5, "the table")
    return owner


def release(owner):
    """Ends the process, and its table with it."""
    owner.stdin.close()
    owner.wait(10)


def test_a_table_that_belongs_to_a_process_is_waited_for(ns, probe):
    owner = owned(ns, "add table inet %s { flags owner; }" % TABLE)
    probe.set(*BASIC, sync=False)
    probe.wait_log("trying again")
    release(owner)
    probe.wait_sync()
    assert "notrack" in listing(ns)


def test_a_chain_that_can_not_be_changed_holds_up_nothing_else(ns, probe):
    owner = owned(ns, "add table ip filter { flags owner; }",
                  "add chain ip filter FORWARD { type filter hook forward "
                  "priority 0; }")
    probe.set(*BASIC, sync=False)
    probe.wait_log("chain ip filter FORWARD can't be written")
    probe.send("add nodes 192.0.2.9/32")
    wait_for(lambda: "192.0.2.9" in (members(ns, "nodes_ipv4") or ()),
             SLOWER, "the member", probe)
    assert not probe.in_sync()
    release(owner)
    probe.wait_sync()


def ends_as(netns, directory, at, how):
    """The rules that a probe makes whose 'at'-th call fails, and whether it
    came so far."""
    ns = netns.namespace("fault")
    ns.run("iptables", "-P", "FORWARD", "DROP")
    directory.mkdir()
    with RulesProbe(ns, directory, LD_PRELOAD=str(NETFAULT),
                    NETFAULT_AT=str(at), NETFAULT_HOW=how,
                    NETFAULT_LOG=str(directory / "hit"),
                    NETFAULT_COMM="rules-probe") as probe:
        probe.set(*BASIC)
        probe.send("add pods 10.10.3.0/24", "del nodes 192.0.2.2/32",
                   "add nodes 192.0.2.3/32")
        probe.wait_sync(20)
    return listing(ns, "ruleset"), (directory / "hit").exists()


@pytest.mark.skipif(not NETFAULT.exists(), reason="no netfault.so")
@pytest.mark.parametrize("how", ["send", "refuse", "receive"])
def test_any_failure_is_tried_again_and_ends_equal(netns, tmp_path, how):
    wanted, _ = ends_as(netns, tmp_path / "0", 0, how)
    assert "notrack" in wanted and "10.10.3.0" in wanted
    n = 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        while True:
            numbers = range(n + 1, n + 9)
            results = list(pool.map(
                lambda at: ends_as(netns, tmp_path / str(at), at, how),
                numbers))
            for at, (have, _) in zip(numbers, results):
                assert have == wanted, "after failure %d" % at
            n += sum(hit for _, hit in results)
            if not results[-1][1]:
                break
    print("%d calls" % n)
    assert n > 20
