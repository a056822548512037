# SPDX-License-Identifier: Apache-2.0
"""Connections of UDP that came by a NodePort, an external IP or a load
balancer's address, from a pod, the host and outside, and lead nowhere any
more."""
import contextlib
import re

import pytest

from support import objects
from support.cluster import (NAMESPACE, NODE, OUTSIDE, PORT,
                             SERVICE_CIDRS)
from support.oneway import OneWay
from support.wait import wait_for

CLUSTER = {"n_pods": 3, "antreaProxy": {"proxyAll": True}}
FAMILIES = (4, 6)
BOTH = pytest.mark.parametrize("family", FAMILIES)
EXTERNAL = {4: "203.0.113.10", 6: "2001:db8:ff::10"}
BALANCED = {4: "203.0.113.20", 6: "2001:db8:ff::20"}
VIRTUAL = {4: "169.254.0.252", 6: "fc01::aabb:ccdd:eefe"}
ZONES = {4: 65520, 6: 65510}
NUMBER = 500
SOURCE_PORT = 21000
SOON = 10


class Exposed:
    """A Service of UDP with addresses of all kinds."""

    def __init__(self, cluster):
        self.cluster, self.node_port = cluster, 30053
        self.externals, self.balanced = EXTERNAL, BALANCED

    def set(self, *pods):
        """Makes the API say so."""
        api = self.cluster.api
        addresses = [objects.nth(SERVICE_CIDRS[f], NUMBER) for f in FAMILIES]
        with api.batch():
            api.apply(objects.service(
                NAMESPACE, "exposed",
                [objects.port(PORT, "dns", "UDP", nodePort=self.node_port)],
                addresses, type="LoadBalancer",
                externalIPs=list(self.externals.values()),
                status={"loadBalancer": {"ingress": [
                    {"ip": ip} for ip in self.balanced.values()]}}))
            for f in FAMILIES:
                api.apply(objects.slice_(
                    NAMESPACE, "exposed",
                    [objects.endpoint(p.of(f), "n1") for p in pods],
                    [(8080, "dns", "UDP")], name="exposed-%d" % f,
                    address_type="IPv%d" % f))

    def begin(self, pod):
        """Gives it its first endpoint; waits until host and bridge lead all
        of its addresses there."""
        self.set(pod)
        for proto in ("udp", "udp6"):
            self.cluster.daemon.wait_flow(
                "ServiceLB", proto + ",", "tp_dst=%d " % self.node_port,
                "group:")
        self.cluster.daemon.wait_synced()

    def delete(self):
        """Takes it away."""
        api = self.cluster.api
        with api.batch():
            api.delete("services", NAMESPACE, "exposed")
            for f in FAMILIES:
                api.delete("endpointslices", NAMESPACE, "exposed-%d" % f)

    def ways(self, family):
        """Who sends where: [(namespace, address, port)]."""
        cluster, pod = self.cluster, self.cluster.pods[0]
        cluster_ip = objects.nth(SERVICE_CIDRS[family], NUMBER)
        ways = [(pod, cluster_ip, PORT), (cluster.host, cluster_ip, PORT)]
        for who in (pod, cluster.host, cluster.outside):
            ways += [(who, NODE[family], self.node_port),
                     (who, EXTERNAL[family], PORT),
                     (who, BALANCED[family], PORT)]
        return ways


@pytest.fixture(name="exposed")
def _exposed(cluster):
    """Its addresses are led to the node; it is gone after the test."""
    for f in FAMILIES:
        for address in (EXTERNAL[f], BALANCED[f]):
            cluster.outside.ip("route", "replace", address, "via", NODE[f])
            cluster.node.ip("route", "replace", address, "via", OUTSIDE[f])
    made = Exposed(cluster)
    yield made
    made.delete()
    cluster.daemon.wait_flow("ServiceLB", EXTERNAL[6], present=False)
    cluster.daemon.wait_flow("ServiceLB", "tp_dst=%d " % made.node_port,
                             present=False)
    cluster.daemon.wait_synced()


def led_to(cluster, family, pod):
    """{(address, port, source port)} of connections to 'pod', as they began.

    (A packet of the host that left before the host's rules were there may have
    come back from outside: then there are two, one perhaps with a port that the
    host chose.)"""
    found = set()
    for line in cluster.node.switch.conntrack():
        match = re.match(r"udp,orig=\(src=[^,]*,dst=([^,]*),sport=(\d+),"
                         r"dport=(\d+)\),reply=\(src=([^,]*),", line)
        if (match and match[4] == pod.of(family)
                and "zone=%d" % ZONES[family] in line
                and SOURCE_PORT <= int(match[2]) < SOURCE_PORT + 1000):
            found.add((match[1], int(match[3]), int(match[2])))
    return found


def wait_led(cluster, family, pod, expected):
    """Waits until exactly these connections lead to 'pod'."""
    last = {}

    def look():
        last["led"] = led_to(cluster, family, pod)
        return last["led"] == set(expected)
    try:
        wait_for(look, SOON, "the connections", cluster.daemon)
    except AssertionError:
        print("wanted %s\nfound %s" % (sorted(expected),
                                         sorted(last["led"])))
        raise


def seen_by_the_switch(exposed, family):
    """What led_to() shall find of ways(): the host's own packets and others'
    to a NodePort come by the virtual address."""
    return [(VIRTUAL[family] if who is not exposed.cluster.pods[0]
             and address == NODE[family] else address, port, SOURCE_PORT + n)
            for n, (who, address, port) in enumerate(exposed.ways(family))]


@contextlib.contextmanager
def senders(ways):
    """One for each way, all the time."""
    with contextlib.ExitStack() as stack:
        for n, way in enumerate(ways):
            stack.enter_context(OneWay(*way, SOURCE_PORT + n))
        yield


@BOTH
def test_e6_e7_e9_e10_d14_every_kind_of_address_is_cleared(cluster, exposed,
                                                          family):
    """Of an endpoint that goes; then of all; then of
    the Service."""
    old, new = cluster.pods[1:]
    exposed.begin(old)
    everything = seen_by_the_switch(exposed, family)
    with senders(exposed.ways(family)):
        wait_led(cluster, family, old, everything)
        exposed.set(new)
        wait_led(cluster, family, new, everything)
        wait_led(cluster, family, old, [])
        exposed.set()
        wait_led(cluster, family, new, [])
        exposed.set(old)
        wait_led(cluster, family, old, everything)
        exposed.delete()
        wait_led(cluster, family, old, [])


@BOTH
def test_an_address_that_is_taken_away_is_cleared(cluster, exposed, family):
    """NodePort renumbered, external IP and load-balancer address removed; the
    others' connections stay."""
    web = cluster.pods[1]
    exposed.begin(web)
    with senders(exposed.ways(family)):
        expected = seen_by_the_switch(exposed, family)
        wait_led(cluster, family, web, expected)
        exposed.node_port = 30054
        exposed.set(web)
        expected = [e for e in expected if e[1] != 30053]
        wait_led(cluster, family, web, expected)
        exposed.externals = {}
        exposed.set(web)
        expected = [e for e in expected if e[0] != EXTERNAL[family]]
        wait_led(cluster, family, web, expected)
        exposed.balanced = {}
        exposed.set(web)
        expected = [e for e in expected if e[0] != BALANCED[family]]
        wait_led(cluster, family, web, expected)


@BOTH
def test_what_changed_during_an_absence_is_found(cluster, exposed, family):
    """Of every kind of address."""
    old, new = cluster.pods[1:]
    exposed.begin(old)
    everything = seen_by_the_switch(exposed, family)
    with senders(exposed.ways(family)):
        wait_led(cluster, family, old, everything)
        cluster.daemon.kill()
        exposed.set(new)
        cluster.daemon.start()
        wait_led(cluster, family, new, everything)
        cluster.daemon.kill()
        exposed.delete()
        cluster.daemon.start()
        wait_led(cluster, family, new, [])


@BOTH
def test_e16_another_nodes_port_is_left_alone(cluster, exposed, family):
    """The same port number, of an address that is not this node's."""
    pod, web = cluster.pods[:2]
    other = {4: "192.0.2.77", 6: "2001:db8:2::77"}[family]

    def entry():
        return [line for line in cluster.node.switch.conntrack()
                if "dst=%s,sport=21999," % other in line]
    with OneWay(pod, other, 30053, 21999):
        wait_for(entry, SOON, "the entry", cluster.daemon)
        before = entry()
        exposed.begin(web)
        exposed.set()
        exposed.delete()
        cluster.daemon.wait_flow("ServiceLB", "tp_dst=30053 ", present=False)
        wait_for(lambda: "0 changes wait, 0 are in passes"
                 in cluster.daemon.appctl("sync"), SOON, "the last pass",
                 cluster.daemon)
        assert entry() == before


@BOTH
def test_e15_packets_before_the_service_are_no_obstacle(cluster, exposed,
                                                        family):
    """At any kind of address; the host's part included."""
    web = cluster.pods[1]
    with senders(exposed.ways(family)):
        wait_for(lambda: any("dst=%s,sport=21002," % NODE[family] in line
                             for line in cluster.node.switch.conntrack()),
                 SOON, "what goes by untranslated", cluster.daemon)
        exposed.begin(web)
        wait_led(cluster, family, web, seen_by_the_switch(exposed, family))


def uplink(cluster):
    """The name of the node's link to the outside."""
    text = cluster.node.run("ip", "-o", "addr", "show", "to", NODE[4]).stdout
    return text.split()[1]


@BOTH
@pytest.mark.parametrize("away", [False, True])
def test_e6_an_address_that_the_node_loses_is_cleared(cluster, exposed,
                                                      family, away):
    """Also if the daemon is away meanwhile; and it may come back."""
    pod, web = cluster.pods[:2]
    extra = {4: "192.0.2.66", 6: "2001:db8:2::66"}[family]
    plain = extra + {4: "/24", 6: "/64"}[family]
    expected = [(extra, 30053, SOURCE_PORT)]

    def change(verb):
        more = ["nodad"] if (family, verb) == (6, "add") else []
        if away:
            cluster.daemon.kill()
        cluster.node.ip("addr", verb, plain, "dev", uplink(cluster), *more)
        if away:
            cluster.daemon.start()
            cluster.daemon.wait_synced()
    exposed.begin(web)
    change("add")
    with OneWay(pod, extra, 30053, SOURCE_PORT):
        wait_led(cluster, family, web, expected)
        change("del")
        wait_led(cluster, family, web, [])
        change("add")
        wait_led(cluster, family, web, expected)
        change("del")
        wait_led(cluster, family, web, [])
