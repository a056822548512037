# SPDX-License-Identifier: Apache-2.0
"""Nodes come, change and go while the others talk to each other."""
import random

import pytest

from support import packets
from support.cluster import at
from support.multinode import ghost, host_of, pod_cidrs, state
from support.wait import wait_for

MULTI = {"encap": {"tunnel": "geneve"},
         "noEncap": {"mode": "noEncap"},
         "hybrid": {"mode": "hybrid", "subnets": "ab"}}
LOST = 50                       # Datagrams, at most, of hundreds.
NUMBER = 40                     # Of a Node that is an object only.


def apply(multi, *nodes):
    """Makes these Nodes known."""
    with multi.api.batch():
        for node in nodes:
            multi.api.apply(node)


def wait_state(member, condition, what):
    """Waits until the text of a node's state is as wanted; the text, with
    all that belongs to it."""
    wait_for(lambda: condition(state(member)), 10, what, member.daemon)
    member.daemon.wait_synced()
    return state(member)


@pytest.fixture(name="steady", autouse=True)
def _steady(multi):
    """Before and after each test the nodes have made the same, and not a
    packet between them is lost meanwhile, but for what Open vSwitch itself
    loses: after any change of the host's routes its userspace tunnels know
    none for a moment, until they have read all of them."""
    client, server = (node.pods[0] for node in multi.nodes[:2])
    before = [wait_state(member, bool, "a state")
              for member in multi.members[:2]]
    service = multi.service([at(server)])
    with service.client(client, "stream", interval=0.005) as stream, \
            service.client(client, "connect", interval=0.01) as connects:
        yield
    service.delete()
    assert not connects.result["n_failures"], connects.result["failures"]
    assert stream.result["n_failures"] <= LOST * multi.tunnels, stream.result
    for member, text in zip(multi.members, before):
        wait_state(member, lambda now, text=text: now == text,
                   "the state from before")


def test_a_node_comes_changes_and_goes(multi):
    """Its networks are known as long as it has them, and at its address."""
    member = multi.members[0]
    cidrs = pod_cidrs(NUMBER)
    others = ["10.20.7.0/24", "2001:db8:20:7::/64"]
    apply(multi, ghost(NUMBER))
    first = wait_state(member, lambda s: all(c in s for c in cidrs),
                       "its networks")
    if multi.mode == "hybrid":
        # The same subnet, so without a tunnel; then the other.
        apply(multi, ghost(NUMBER, "b"))
    else:
        apply(multi, ghost(NUMBER + 1, name="ghost-%d" % NUMBER,
                                 cidrs=cidrs))
    wait_state(member, lambda s: s != first and all(
        host_of("a", f, NUMBER)[1] not in s for f in (4, 6)),
        "its new address")
    apply(multi, ghost(NUMBER, cidrs=others))
    wait_state(member, lambda s: all(c in s for c in others) and not any(
        c in s for c in cidrs), "its new networks")
    multi.api.delete("nodes", "", "ghost-%d" % NUMBER)
    wait_state(member, lambda s: not any(c in s for c in others), "its end")
    apply(multi, ghost(NUMBER))
    wait_state(member, lambda s: s == first, "its return")
    multi.api.delete("nodes", "", "ghost-%d" % NUMBER)


def test_a_network_goes_to_its_newest_owner(multi):
    """Two Nodes with one pod network, as after an outage: the younger has
    it, and the elder again when that one has gone."""
    member = multi.members[0]
    old, new = (ghost(n, name="ghost-%d" % n,
                            cidrs=["10.20.9.0/24", "2001:db8:20:9::/64"])
                for n in (50, 51))
    for node, stamp in ((old, "2026-01-01T00:00:00Z"),
                        (new, "2026-01-02T00:00:00Z")):
        node["metadata"]["creationTimestamp"] = stamp
    apply(multi, old)
    before = wait_state(member, lambda s: "10.20.9.0/24" in s,
                        "the network")
    for m in multi.members:
        m.daemon.allow("ghost-50: pod network .* is left out")
    apply(multi, new)
    wait_state(member, lambda s: host_of("a", 4, 51)[1] in s,
               "its new owner")
    member.daemon.wait_log("it belongs to node \"ghost-51\"")
    multi.api.delete("nodes", "", "ghost-51")
    wait_state(member, lambda s: s == before, "its old owner")
    multi.api.delete("nodes", "", "ghost-50")


def test_many_nodes_come_and_go_in_any_order(multi):
    """Only those that are there have left a trace."""
    member = multi.members[0]
    rng = random.Random(4)
    numbers = rng.sample(range(60, 250), 180)
    stay = numbers[:20]
    apply(multi, *(ghost(n) for n in numbers))
    apply(multi, *(ghost(n + 1, name="ghost-%d" % n,
                         cidrs=pod_cidrs(n))
                   for n in stay))
    rng.shuffle(numbers)
    for n in numbers:
        if n not in stay:
            multi.api.delete("nodes", "", "ghost-%d" % n)
    apply(multi, *(ghost(n) for n in stay))

    def is_exact(text):
        return all((cidr in text) == (n in stay) for n in numbers
                   for cidr in pod_cidrs(n))

    wait_state(member, is_exact, "exactly those that stay")
    with multi.api.batch():
        for n in stay:
            multi.api.delete("nodes", "", "ghost-%d" % n)


def test_a_real_node_joins_and_leaves(multi):
    """Its pods are endpoints at once, and unreachable after it."""
    third = multi.add_node("a")
    multi.wait_connected()
    one, pod = multi.nodes[0].pods[0], third.pods[0]
    service = multi.service([at(pod)])
    for family in (4, 6):
        assert service.ask(one, family, 5)["answers"] == {
            pod.label + ":8080": 5}
    service.delete()
    multi.api.delete("nodes", "", third.node_name)
    third_daemon = multi.members.pop()
    multi.nodes.pop()
    third_daemon.daemon.stop()
    for cidr in pod_cidrs(third.number):
        wait_state(multi.members[0], lambda s, c=cidr: c not in s,
                   "the end of " + cidr)
    if multi.tunnels:
        assert not packets.ping(one, 4, pod.address, 0.3)
