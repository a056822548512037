# SPDX-License-Identifier: Apache-2.0
"""Trouble with size: groups that don't fit into a message, and groups that
grow; and with what the switch refuses.

See docs/trouble-cases.md for the cases.
"""
import math
import random
import re

import pytest

from support import objects
from support.objects import slice_
from support.rig import object_id_of
from support.wait import wait_for

VIP, VIP6 = "10.96.0.10", "2001:db8:96::10"
CLIENT, CLIENT_MAC = "10.10.1.2", "0a:58:0a:0a:01:02"
GATEWAY = "10.10.1.1"
MAX_MESSAGE = 65535
BAD_BUCKET = (6, 12)            # (type, code) of OFPT_ERROR.
BAD_COMMAND = (6, 11)
PER_CALL = 32                   # Packets that a dummy port takes at once.
SEED = 5


def address(i, family=4):
    """Of the i-th endpoint."""
    if family == 6:
        return "2001:db8:20::%x" % (i + 1)
    return "10.20.%d.%d" % (i // 200, i % 200 + 1)


def put_endpoints(rig, numbers, family=4, name="svc-a"):
    """Slices of at most 100 endpoints, as the controller makes them; those
    that are not needed any more go."""
    numbers = list(numbers)
    wanted = {}
    for k in range(0, len(numbers), 100):
        obj = slice_("ns1", name,
                     [address(i, family) for i in numbers[k:k + 100]],
                     suffix="v%d-%03d" % (family, k // 100))
        wanted[obj["metadata"]["name"]] = obj
    with rig.api.batch():
        for old in rig.api.objects("endpointslices"):
            if "-v%d-" % family in old["metadata"]["name"] \
                    and old["metadata"]["name"] not in wanted:
                rig.api.delete(old)
        for obj in wanted.values():
            rig.api.apply(obj)


def expected(numbers, family=4):
    """What lookup() says of them."""
    if family == 6:
        return sorted("[%s]:80" % address(i, 6) for i in numbers)
    return sorted("%s:80" % address(i) for i in numbers)


def group_puts(rig):
    """The messages that put groups."""
    return [m for m in rig.shim.mods() if m.what == "group put"]


@pytest.mark.parametrize("family", [4, 6])
def test_d1_d2_d02_any_number_of_endpoints_is_programmed(rig, family):
    """All buckets are there, read back over several parts of a reply, and no
    message is too long."""
    vip = VIP if family == 4 else VIP6
    rig.api.apply(objects.service("ns1", "svc-a", cluster_ips=[vip]))
    rig.start_daemon()
    for n in (511, 512, 550, 551, 600, 744, 745, 800, 801, 900, 1500, 5000):
        put_endpoints(rig, range(n), family)
        rig.wait_lookup(vip, expected(range(n), family))
    rig.check_cold_start()
    longest = max(len(m.data) for m in rig.shim.messages())
    assert 30000 < longest <= MAX_MESSAGE
    assert rig.shim.errors() == []
    rig.shim.clear()
    rig.restart_daemon()
    assert rig.shim.mods() == []


@pytest.mark.parametrize("n, most", [(500, 1), (1000, 3)])
def test_d4_one_changed_endpoint_costs_one_small_bundle(rig, n, most):
    """Not the group over and over again; of a group of groups, those whose
    share it is."""
    rig.api.apply(objects.service("ns1", "svc-a"))
    put_endpoints(rig, range(n))
    rig.start_daemon()
    rig.wait_lookup(VIP, expected(range(n)))
    rig.shim.clear()
    numbers = [i if i != 250 else n + 7 for i in range(n)]
    put_endpoints(rig, numbers)
    rig.wait_lookup(VIP, expected(numbers))
    rig.wait_settled()
    assert 1 <= len(group_puts(rig)) <= most
    assert len([m for m in rig.shim.to_switch() if m.what == "commit"]) == 1
    assert [m.what for m in rig.shim.mods()] == ["group put"] * len(
        group_puts(rig))


# Use of the endpoints.  A pod makes connections, each of another source port,
# and the buckets count them.

def connect(rig, ports):
    """One SYN from each source port."""
    head = ("in_port(1),eth(src=%s,dst=%s),eth_type(0x0800),ipv4(src=%s,"
            "dst=%s,proto=6,tos=0,ttl=64,frag=no),tcp_flags(syn),"
            "tcp(dst=80,src=" % (CLIENT_MAC, rig.gateway_mac(), CLIENT, VIP))
    flows = ["%s%d)" % (head, port) for port in ports]
    for k in range(0, len(flows), PER_CALL):
        rig.switch.appctl("netdev-dummy/receive", "p1",
                          *flows[k:k + PER_CALL])


def hits(rig):
    """How often each bucket of the Service's groups was chosen, but for
    those that name other groups."""
    described = {g.split(",")[0]: g.split(",bucket=")[1:]
                 for g in rig.switch.dump_groups()}
    found = []
    for line in rig.switch.ofctl("dump-group-stats").splitlines():
        match = re.match(r" ?(group_id=\d+),", line)
        if match:
            counts = [int(n) for n in re.findall(
                r"bucket\d+:packet_count=(\d+)", line)]
            found += [count for count, bucket in zip(
                counts, described[match[1]]) if "group:" not in bucket]
    return found


def check_all_used(rig, n, ports):
    """Connects until it is improbable (1 in 50) that an endpoint of n is not
    chosen; none is chosen far too often.

    More would cost: the switch keeps two datapath flows a connection."""
    n_connections = int(n * (math.log(n) + 4))
    before, old = rig.switch.dump_groups(), hits(rig)
    connect(rig, [ports.pop() for _ in range(n_connections)])
    # What later packets of a datapath flow do is counted a moment later.
    wait_for(lambda: sum(hits(rig)) >= sum(old) + n_connections, 10,
             "all packets", rig)
    found = [new - gone for new, gone in zip(hits(rig), old)]
    assert rig.switch.dump_groups() == before
    assert sum(found) == n_connections
    # The last bucket of a dp_hash group only evens out the slots.
    endpoints = [c for c in found if c] if n <= 64 else found
    assert len(endpoints) >= n and min(found[:n]) > 0, sorted(found)[:5]
    mean = n_connections / n
    assert max(found) < mean + 7 * math.sqrt(mean), (mean, max(found))


@pytest.mark.parametrize("sizes", [(20, 40, 41, 39, 64, 65, 64),
                                   (65, 600, 65, 64, 1)])
def test_d01_a_group_that_grows_or_shrinks_uses_all_endpoints(rig, sizes):
    """The switch's own way to insert a bucket hides the older ones; each
    size is put as a whole, and all are used."""
    ports = list(range(1024, 65536))
    random.Random(SEED).shuffle(ports)
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.start_daemon()
    rig.add_pod("p1", [CLIENT], 1)
    rig.daemon.wait_flow("table=SpoofGuard", "in_port=p1")
    for n in sizes:
        rig.shim.clear()
        put_endpoints(rig, range(n))
        rig.wait_lookup(VIP, expected(range(n)))
        rig.wait_settled()
        assert {m.what for m in rig.shim.mods()} <= {
            "group put", "flow add", "group delete"}
        check_all_used(rig, n, ports)
    rig.check_cold_start()


# What the switch refuses.

def test_d39_what_is_refused_of_one_service_is_said_and_stops_no_other(rig):
    """Every group of svc-a, in one family; then the switch thinks better of
    it."""
    for number, name in enumerate(("svc-a", "svc-b"), 10):
        rig.api.apply(objects.service("ns1", name, cluster_ips=[
            "10.96.0.%d" % number, "2001:db8:96::%d" % number]))
    rig.start_daemon()
    (refused_id,) = {object_id_of(line) for line in rig.state().lines
                     if "nw_dst=10.96.0.10,tp_dst" in line}
    rig.daemon.allow("the switch refuses to take", "the switch refused it")
    refusal = rig.shim.refuse(
        lambda m: m.what == "group put"
        and (m.group_id & 0x3fffffff) >> 9 == refused_id,
        *BAD_BUCKET, count=None)
    with rig.api.batch():
        for name in "svc-a", "svc-b":
            rig.api.apply(slice_("ns1", name, ["10.10.1.5"], suffix="v4"))
            rig.api.apply(slice_("ns1", name, ["2001:db8:10:1::5"],
                                 suffix="v6"))
    rig.wait_lookup("2001:db8:96::10", ["[2001:db8:10:1::5]:80"])
    rig.wait_lookup("10.96.0.11", ["10.10.1.5:80"])
    rig.wait_lookup("2001:db8:96::11", ["[2001:db8:10:1::5]:80"])
    rig.daemon.wait_log("Service ns1/svc-a:/TCP (IPv4): the switch refused")
    lines = rig.daemon.appctl("services").splitlines()
    assert [line for line in lines if line.endswith("SET-ASIDE")] == [
        line for line in lines if " 10.96.0.10 " in line]
    assert "set aside: Service ns1/svc-a:/TCP (IPv4): OFPGMFC_BAD_BUCKET" \
        in rig.daemon.appctl("sync")
    assert rig.lookup("10.96.0.10") == "reject", "as it was before"

    refusal.count = 0
    rig.wait_lookup("10.96.0.10", ["10.10.1.5:80"])
    rig.wait_settled()
    rig.check_cold_start()


def test_d39_a_switch_without_selection_methods_still_gets_the_rest(rig):
    """Everything that is no group of endpoints."""
    rig.api.apply(objects.service("ns1", "svc-a"))
    rig.api.apply(objects.service("ns1", "empty", cluster_ips=[
        "10.96.0.11"]))
    put_endpoints(rig, range(3))
    rig.daemon.allow("the switch refuses to take", "the switch refused it")
    rig.shim.refuse(lambda m: m.what == "group put"
                    and b"dp_hash" in m.data, *BAD_COMMAND, count=None)
    rig.daemon.start()
    rig.daemon.wait_log("Service ns1/svc-a:/TCP (IPv4): the switch refused")
    rig.wait_lookup("10.96.0.11", "reject")
    rig.add_pod("p1", [CLIENT], 1)
    rig.daemon.wait_flow("table=SpoofGuard", "in_port=p1")
    rig.shim.clear_rules()
    rig.wait_lookup(VIP, expected(range(3)))
    rig.check_cold_start()
