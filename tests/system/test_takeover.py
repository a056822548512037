# SPDX-License-Identifier: Apache-2.0
"""From Antrea's agent to ofproxyd, with packets on the way: no new connection
fails, none that is there ends."""
import contextlib

import pytest

from support import objects, packets
from support.antrea import TABLES, Antrea, Port, Svc, with_more
from support.cluster import lost_syns
from support.traffic import Client, Server, ask_once
from support.wait import slowness

GATEWAY = "antrea-gw0"
VIPS = {4: "10.96.0.10", 6: "2001:db8:96::10"}
PORT = 80
# Of connections to a pod itself: one that is translated to the same port might
# have the same ends, and the switch can't tell the two apart.
DIRECT = 8081
# Packets that were on their way between two tables when the tables changed,
# at most.  TCP sends them again, and no connection fails.
LOST = 3
BOTH = pytest.mark.parametrize("family", [4, 6])


def at(pod, family, port=8080):
    """An endpoint as text."""
    address = pod.of(family)
    return "[%s]:%d" % (address, port) if family == 6 \
        else "%s:%d" % (address, port)


class Site:
    """A node under Antrea's agent: pods, one of them a client, and a Service
    of the others in both families."""

    def __init__(self, node, api, stack, fail_mode=None, tables=TABLES):
        self.node, self.api = node, api
        switch = node.switch
        switch.add_bridge()
        if fail_mode is None:
            switch.vsctl("clear", "bridge", switch.bridge, "fail_mode")
        switch.vsctl("add-port", switch.bridge, GATEWAY, "--", "set",
                     "Interface", GATEWAY, "type=internal",
                     "ofport_request=32769")
        node.batch("link set %s up" % GATEWAY, *(
            "addr add %s/%d dev %s%s" % (c[1], c.prefixlen, GATEWAY,
                                         " nodad" if c.version == 6 else "")
            for c in node.cidrs))
        self.client, *servers = [node.add_pod("p%d" % i) for i in range(3)]
        self.servers = servers
        for pod in servers:
            stack.enter_context(Server(pod, pod.pod_name,
                                       tcp=[8080, DIRECT],
                                       udp=[8080, DIRECT]))
        self.antrea = Antrea(
            switch, Port(32769, packets.mac_of(node, GATEWAY),
                         [str(c[1]) for c in node.cidrs]),
            [Port(int(switch.vsctl("get", "Interface", pod.iface, "ofport")),
                  pod.mac, pod.addresses) for pod in node.pods],
            [Svc(vip, PORT, [at(pod, family) for pod in servers], proto)
             for family, vip in VIPS.items() for proto in ("tcp", "udp")],
            node.cidrs, round_=3, tables=tables).program()
        self._apply()

    def _apply(self):
        made = [objects.node("n1", [str(c) for c in self.node.cidrs])]
        ports = [{"name": p, "port": PORT, "protocol": p.upper(),
                  "targetPort": 8080} for p in ("tcp", "udp")]
        made.append(objects.service("ns1", "web", ports, list(VIPS.values())))
        for family in (4, 6):
            made.append(objects.slice_(
                "ns1", "web", [pod.of(family) for pod in self.servers],
                [{"name": p, "port": 8080, "protocol": p.upper()}
                 for p in ("tcp", "udp")], name="web-%d" % family))
        self.api.apply_all(made)

    @contextlib.contextmanager
    def traffic(self, family):
        """Clients of every kind while the block runs, none of which may
        fail."""
        vip, pod = VIPS[family], self.servers[0]
        before = lost_syns(self.client)
        with contextlib.ExitStack() as stack:
            def client(where, kind, host, port, **more):
                return stack.enter_context(
                    Client(where, kind, host, port, least=21, **more))

            made = {
                "connections": client(self.client, "connect", vip, PORT,
                                      interval=.001, concurrency=2),
                "a held one": client(self.client, "hold", vip, PORT,
                                     interval=.002),
                "datagrams": client(self.client, "stream",
                                    pod.of(family), DIRECT, interval=.002),
                "sockets": client(self.client, "connect", vip, PORT,
                                  proto="udp", interval=.001),
                "to the pod": client(self.client, "connect",
                                     pod.of(family), DIRECT, interval=.002),
                "held to the pod": client(self.client, "hold",
                                          pod.of(family), DIRECT,
                                          interval=.002),
                "of the host": client(self.node, "connect", pod.of(family),
                                      DIRECT, interval=.002),
                "held by the host": client(self.node, "hold",
                                           pod.of(family), DIRECT,
                                           interval=.002)}
            yield
        for name, one in made.items():
            lost = LOST if name in ("datagrams", "sockets") else 0
            assert one.result["n_failures"] <= lost, (name, one.result)
            assert one.result["n"] > 20, (name, one.result)
        assert lost_syns(self.client) <= before + LOST


@pytest.fixture
def site(request, node, node_apiserver):
    """A Site; in the fail_mode that the test asks for."""
    with contextlib.ExitStack() as stack:
        yield Site(node, node_apiserver, stack,
                   *request.param)


@BOTH
@pytest.mark.parametrize(
    "site", [(None,), ("secure",), (None, with_more())], indirect=True,
    ids=["standalone", "secure", "more tables"])
def test_no_connection_is_lost_on_the_way_from_antrea(site, daemon, family):
    """Neither a new one nor one that is there, to a Service or to a pod."""
    for pod in site.servers:    # All that neighbours have to learn.
        ask_once(site.client, pod.of(family), 8080)
    assert ask_once(site.client, VIPS[family], PORT)["n_failures"] == 0
    # So that all clients have begun before.
    site.api.fault(resource="services", verb="list", delay=1)
    with site.traffic(family):
        proxy = daemon(site.api, site.node.switch)
        proxy.allow(r"\|takeover\|WARN\|.*features of Antrea's")
        proxy.wait_synced()
        assert not site.antrea.flows_left()
        assert not site.antrea.groups_left()
        answers = Client(site.client, "connect", VIPS[family], PORT,
                         count=50).wait()
    assert set(answers["answers"]) == {"p1", "p2"}
    text = "\n".join(site.node.switch.dump_flows())
    assert "ServiceLB" in text


@BOTH
def test_a_switch_by_itself_connects_pods_until_ours_is_there(
        node, node_apiserver, daemon, family):
    """fail_mode standalone: pods reach each other while the lists are not
    read, and go on when they are."""
    switch = node.switch
    switch.vsctl("add-br", switch.bridge, "--", "set", "bridge",
                 switch.bridge, "datapath_type=netdev")
    one, two = node.add_pod("p0"), node.add_pod("p1")
    node_apiserver.apply(objects.node("n1", [str(c) for c in node.cidrs]))
    node_apiserver.fault(resource="services", verb="list", delay=slowness())
    with Server(two, "p1", tcp=[8080]):
        ask_once(one, two.of(family), 8080)
        before = lost_syns(one)
        with Client(one, "connect", two.of(family), 8080,
                    interval=.002, least=101) as new, \
                Client(one, "hold", two.of(family), 8080,
                       interval=.002, least=101) as held:
            proxy = daemon(node_apiserver, switch)
            proxy.wait_log("forwards by itself")
            seen = switch.dump_flows()
            proxy.wait_synced()
            Client(one, "connect", two.of(family), 8080, count=20).wait()
        assert len(seen) == 1 and "NORMAL" in seen[0]
        for client in (new, held):
            assert client.result["n_failures"] == 0, client.result
            assert client.result["n"] > 100
        assert lost_syns(one) == before
