# SPDX-License-Identifier: Apache-2.0
"""ofproxyd ends, in good order or not, and begins again, while packets flow
and objects change: no packet is lost, nothing is sent twice."""
import contextlib
import re

import pytest

from support import objects, packets
from support.cluster import NAMESPACE, PORT, at, lost_syns
from support.ovs import STATS
from support.traffic import Client, ask_once
from support.wait import slowness, wait_for

BOTH = pytest.mark.parametrize("family", [4, 6])
HOW = pytest.mark.parametrize("hard", [True, False], ids=["kill", "term"])
CLUSTER = {"n_pods": 4, "antreaProxy": {"proxyAll": True}}
NODE_PORT = 30090


@contextlib.contextmanager
def no_loss(cluster, service, family, moves=0):
    """Clients of every kind, in a pod and on the host, of which none may lose
    a packet; but each time that its endpoint goes, one that sends by UDP all
    the time loses what is on its way there and back, and perhaps one with a
    remembered port number."""
    pod = cluster.pods[0]
    before = lost_syns(pod), lost_syns(cluster.host)
    with contextlib.ExitStack() as stack:
        def client(where, *args, **more):
            return stack.enter_context(
                service.client(where, *args, least=11, **more))

        traffic = {
            "connections": client(pod, "connect", family, interval=0.001,
                                  concurrency=2),
            "a held one": client(pod, "hold", family, interval=0.005),
            "datagrams": client(pod, "stream", family, interval=0.002),
            "sockets": client(pod, "connect", family, proto="udp",
                              interval=0.001),
            "of the host": client(cluster.host, "connect", family,
                                  interval=0.005),
            "held by the host": client(cluster.host, "hold", family,
                                       interval=0.005)}
        yield traffic
    for name, one in traffic.items():
        lost = moves * {"datagrams": 10 * slowness(),
                        "sockets": 1}.get(name, 0)
        assert one.result["n_failures"] <= lost, (name, one.result["failures"])
        assert one.result["n"] > 10, name
    assert (lost_syns(pod), lost_syns(cluster.host)) == before


def counters(switch):
    """The packets that each flow and group has seen."""
    found = {}
    for dump in ("dump-flows", "dump-group-stats"):
        for line in switch.ofctl(dump).splitlines():
            count = re.search(r"(?:n_packets|packet_count)=(\d+)", line)
            if count:
                name = re.sub(r"bucket\d+:", "", STATS.sub("", line))
                found[name] = int(count[1])
    return found


@HOW
@BOTH
def test_a_restart_sends_nothing_and_loses_nothing(cluster, family, hard):
    """Promise 2: everything is found as it is wanted; counters go on."""
    switch, daemon = cluster.node.switch, cluster.daemon
    service = cluster.service([at(p) for p in cluster.pods[1:3]])
    cluster.service()
    daemon.wait_synced()
    before = switch.state()
    with no_loss(cluster, service, family):
        service.ask(cluster.pods[0], family, 100)
        counted = counters(switch)
        daemon.restart(hard)
        daemon.wait_synced()
        assert set(cluster.sent().values()) == {0}
        assert switch.state() == before
        after = counters(switch)
    assert after.keys() == counted.keys()
    assert max(counted.values()) > 100
    assert all(after[name] >= n for name, n in counted.items())


@HOW
@BOTH
def test_changes_while_it_is_away_are_made_up_for(cluster, family, hard):
    """Those of endpoints, and Services that came and went."""
    daemon, web = cluster.daemon, cluster.pods[1:]
    service = cluster.service([at(web[0]), at(web[1])])
    ghost = cluster.service([at(web[0])])
    client = cluster.pods[0]
    with no_loss(cluster, service, family, moves=1):
        (daemon.kill if hard else daemon.terminate)()
        assert service.ask(client, family, 20)["n"] == 20
        service.set([at(web[1]), at(web[2])], wait=False)
        born = cluster.service([at(web[2])], wait=False)
        cluster.api.delete("services", NAMESPACE, ghost.name)
        daemon.start()
        service.wait()
        born.wait()
        daemon.wait_synced()
        assert set(service.ask(client, family, 40)["answers"]) == {
            "p2:8080", "p3:8080"}
        assert born.ask(client, family)["n"] == 1
        daemon.wait_flow("=%s," % ghost.of(family), present=False)


@BOTH
def test_killed_in_the_middle_of_updates_it_goes_on(cluster, family):
    """Twenty times in a row, under load."""
    daemon, web = cluster.daemon, cluster.pods[1:]
    service = cluster.service([at(web[0])])
    with no_loss(cluster, service, family, moves=20):
        for i in range(20):
            for j in range(4):
                service.set([at(web[(i + k) % 3], 8080 + j)
                             for k in range(1 + j % 3)], wait=False)
            daemon.restart(hard=i % 4 != 0)
            if i % 3 == 0:
                service.wait()
        service.wait()
    cluster.daemon.wait_synced()
    assert set(service.ask(cluster.pods[0], family, 20)["answers"]) == {
        "%s:%d" % (web[19 % 3].pod_name, 8083)}


@BOTH
def test_c23_nothing_is_refused_while_the_picture_is_partial(cluster,
                                                             family):
    """C23, C26, D09: Services are there at once, their endpoints only later:
    no reject, no removal, no shrinking in between."""
    daemon, switch = cluster.daemon, cluster.node.switch
    service = cluster.service([at(p) for p in cluster.pods[1:3]])
    daemon.wait_synced()
    before = switch.state()
    daemon.kill()
    delay = cluster.api.fault(resource="endpointslices", count=None,
                              delay=1.5 * slowness())
    with no_loss(cluster, service, family):
        daemon.start()
        wait_for(lambda: "Services: listed" in daemon.appctl("sync"), 10,
                 "the Services", daemon)
        assert "EndpointSlices: not listed" in daemon.appctl("sync")
        assert service.ask(cluster.pods[0], family, 200)["n"] == 200
        assert switch.state() == before
        delay.remove()
        daemon.wait_synced()
        assert set(cluster.sent().values()) == {0}
    assert switch.state() == before


@HOW
@BOTH
def test_c25_connections_of_udp_are_remembered(cluster, family, hard):
    """C25: the connection tracker is left alone."""
    daemon, client = cluster.daemon, cluster.pods[0]
    service = cluster.service([at(p) for p in cluster.pods[1:]])
    with packets.sock(client, family) as sock:
        sock.connect((service.of(family), PORT))
        port = sock.getsockname()[1]

        def ask():
            sock.send(b"hello")
            return sock.recv(100).split()[0]

        def entry():
            return [line for line in cluster.node.switch.conntrack()
                    if "dst=%s,sport=%d," % (service.of(family), port)
                    in line]
        who, entries = ask(), entry()
        daemon.restart(hard)
        daemon.wait_synced()
        assert len(entries) == 1 and entry() == entries
        assert ask() == who


@HOW
def test_127_0_0_1_is_served_while_a_new_daemon_knows_nothing(cluster, hard):
    """By what the last one has left, also if the API server is away."""
    daemon, api, host = cluster.daemon, cluster.api, cluster.host
    daemon.allow(r"\|(reflector|watcher|kube|http)\|WARN\|")
    api.apply_all([
        objects.service(NAMESPACE, "local", [objects.port(
            PORT, "web", nodePort=NODE_PORT)], ["10.96.2.1"],
                        type="NodePort"),
        objects.slice_(NAMESPACE, "local", [objects.endpoint(
            cluster.pods[1].of(4), "n1")], [(8080, "web")])])
    wait_for(lambda: not ask_once(host, "127.0.0.1", NODE_PORT,
                                  timeout=0.3)["n_failures"], 10,
             "the NodePort", daemon)
    daemon.wait_synced()
    before = lost_syns(host)
    with Client(host, "connect", "127.0.0.1", NODE_PORT,
                interval=0.005) as traffic:
        api.stop("rst")
        daemon.restart(hard)
        wait_for(lambda: "failing:" in daemon.appctl("sync"), 10,
                 "what it says", daemon)
        during = ask_once(host, "127.0.0.1", NODE_PORT)
        api.start()
        daemon.wait_synced(40)
    assert not during["n_failures"] and not traffic.result["n_failures"]
    assert lost_syns(host) == before
    api.delete("services", NAMESPACE, "local")
    api.delete("endpointslices", NAMESPACE, "local-abcde")
