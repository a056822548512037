# SPDX-License-Identifier: Apache-2.0
"""The transport addresses that the API client writes into the own Node."""
import json
import time

import pytest

from support import objects
from support.kubeprobe import KubeProbe
from support.wait import slowness, wait_for

OWN = "node-a"                  # kube-probe's.
KEY = "node.antrea.io/transport-addresses"
V4, V6 = "192.0.2.11", "2001:db8::11"
# The longest pause of the probe, and the shortest after a refusal, as
# src/kube/publisher.c has it.
MAX_PAUSE, SLOW_PAUSE = 0.2, 2.0
# Its shortest: what the server has taken is told by the watch within it, or it
# is written again.
MIN_PAUSE_MS = 100
REFUSED = "can't be written"


@pytest.fixture(name="probe")
def fixture_probe(kube_probe):
    """A function that starts probes that have listed all."""
    return lambda api, **options: kube_probe(
        api, **{"backoff_min_ms": MIN_PAUSE_MS, **options}).wait_synced()


def own_node(annotations=None, **more):
    """The own Node."""
    node = objects.node(OWN, **more)
    if annotations is not None:
        node["metadata"]["annotations"] = annotations
    return node


def patches(api):
    """The patches so far."""
    return api.requests_for("nodes", "patch")


def annotations(api):
    """Those of the own Node."""
    return api.get("nodes", "", OWN).obj["metadata"].get("annotations")


def wait_written(api, value, timeout=10):
    """Until the own Node says 'value'."""
    wait_for(lambda: (annotations(api) or {}).get(KEY) == value, timeout,
             "transport addresses %s" % value)


def settle(api, client):
    """Until the probe has seen all events of Nodes so far, and has had a
    turn after that."""
    zone = "z%d" % len(settle.zones)
    settle.zones.append(zone)
    api.apply(objects.node("node-z", zone=zone))
    client.wait(lambda: client.nodes.get("node-z") == zone, "an event")
    client.ask("turn", "turn_us")


settle.zones = []


def wait_seen(client, text):
    """Until the probe's model has these transport addresses."""
    client.wait(lambda: client.nodes.get(OWN) == "@" + text if text
                else client.nodes.get(OWN) == "", "the Node " + text)


# The ordinary course.


def test_the_own_node_gets_its_addresses_once(apiserver, probe):
    apiserver.apply(own_node())
    apiserver.apply(objects.node("node-b"))
    client = probe(apiserver)
    client.set_transport(V6, V4)
    wait_seen(client, "%s@%s" % (V4, V6))
    assert annotations(apiserver) == {KEY: V4 + "," + V6}
    settle(apiserver, client)
    [request] = patches(apiserver)
    assert request.path == "/api/v1/nodes/" + OWN
    assert not request.query
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {
        "metadata": {"annotations": {KEY: V4 + "," + V6}}}
    assert client.published == {"requests": "1", "failures": "0",
                                "error": ""}
    client.wait_log('INFO.*Node "node-a": transport addresses 192.0.2.11,')
    assert "annotations" not in apiserver.get(
        "nodes", "", "node-b").obj["metadata"]


def test_nothing_else_in_the_node_is_touched(apiserver, probe):
    apiserver.apply(own_node({"kubectl.example.com/a": "1"}, zone="za"))
    before = apiserver.get("nodes", "", OWN).obj
    client = probe(apiserver)
    client.set_transport(V4)
    wait_written(apiserver, V4)
    after = apiserver.get("nodes", "", OWN).obj
    assert after["metadata"]["annotations"] == {"kubectl.example.com/a": "1",
                                                KEY: V4}
    for obj in before, after:
        for key in "annotations", "resourceVersion", "managedFields":
            obj["metadata"].pop(key)
    assert after == before


def test_nothing_is_written_if_nothing_is_configured(apiserver, probe):
    apiserver.apply(own_node({KEY: "198.51.100.9"}))
    client = probe(apiserver)
    settle(apiserver, client)
    assert {r.verb for r in apiserver.requests} == {"list", "watch"}
    assert client.published == {}


@pytest.mark.parametrize("there", [V4 + "," + V6, V6 + "," + V4,
                                   " %s ,\t%s," % (V4, V6)])
def test_what_is_there_already_is_not_written_again(apiserver, probe, there):
    apiserver.apply(own_node({KEY: there}))
    client = probe(apiserver)
    client.set_transport(V4, V6)
    settle(apiserver, client)
    apiserver.apply(own_node({KEY: there}, zone="za"))
    settle(apiserver, client)
    assert not patches(apiserver)


@pytest.mark.parametrize("there", [
    "198.51.100.9", V4, V6, "", "%s,%s,junk" % (V4, V6),
    "%s,%s,192.0.2.12" % (V4, V6), "127.0.0.1"])
def test_what_is_wrong_is_replaced(apiserver, probe, there):
    apiserver.apply(own_node({KEY: there}))
    client = probe(apiserver)
    client.set_transport(V4, V6)
    wait_written(apiserver, V4 + "," + V6)
    settle(apiserver, client)
    assert len(patches(apiserver)) == 1


def test_what_somebody_takes_away_comes_back(apiserver, probe):
    apiserver.apply(own_node())
    client = probe(apiserver)
    client.set_transport(V4)
    for _ in range(3):
        wait_seen(client, V4)
        apiserver.patch("nodes", "", OWN,
                        {"metadata": {"annotations": {KEY: None}}})
        wait_written(apiserver, V4)


def test_another_address_follows(apiserver, probe):
    apiserver.apply(own_node())
    client = probe(apiserver)
    client.set_transport(V4)
    wait_written(apiserver, V4)
    client.set_transport("192.0.2.12", V6)
    wait_written(apiserver, "192.0.2.12," + V6)
    client.set_transport(V6)
    wait_written(apiserver, V6)


def test_no_address_takes_it_away(apiserver, probe):
    apiserver.apply(own_node({KEY: V4, "other": "x"}))
    client = probe(apiserver)
    client.set_transport()
    wait_written(apiserver, None)
    assert annotations(apiserver) == {"other": "x"}
    wait_seen(client, "")
    settle(apiserver, client)
    [request] = patches(apiserver)
    assert json.loads(request.body) == {"metadata": {"annotations": {
        KEY: None}}}


def test_the_patch_carries_token_and_is_verified(tls_apiserver, probe):
    tls_apiserver.apply(own_node())
    client = probe(tls_apiserver)
    client.set_transport(V4)
    wait_written(tls_apiserver, V4)
    assert [r.user for r in patches(tls_apiserver)] == ["system:node:n1"]


def test_a_large_node_is_written_too(apiserver, probe):
    """Its answer is longer than what is kept of one."""
    apiserver.apply(own_node({"blob": "x" * 200000}))
    client = probe(apiserver)
    client.set_transport(V4)
    wait_seen(client, V4)
    settle(apiserver, client)
    assert client.published["failures"] == "0"
    assert len(patches(apiserver)) == 1


# When.


def test_it_waits_for_the_nodes(apiserver, probe):
    """For the whole list, and for the own Node."""
    with apiserver.batch():
        for i in range(4):
            apiserver.apply(objects.node("a%d" % i))
        apiserver.apply(objects.node("z"))
    client = probe(apiserver)
    client.set_transport(V4)
    settle(apiserver, client)
    assert not patches(apiserver)
    apiserver.apply(own_node())
    wait_written(apiserver, V4)


def test_half_a_list_is_not_enough(apiserver, tmp_path):
    apiserver.apply(own_node())
    for i in range(3):
        apiserver.apply(objects.node("z%d" % i))
    fault = apiserver.fault(resource="nodes", verb="list", count=None,
                            cut_after=2500)
    with KubeProbe(tmp_path, apiserver) as client:
        client.set_transport(V4)
        client.wait(lambda: OWN in client.nodes, "the own Node")
        client.wait(lambda: fault.hits > 2, "failures")
        assert not patches(apiserver)
        fault.remove()
        wait_written(apiserver, V4)


def test_b11_a_node_that_comes_back_is_written_again(apiserver, probe):
    apiserver.apply(own_node())
    client = probe(apiserver)
    client.set_transport(V4)
    wait_seen(client, V4)
    n = len(patches(apiserver))
    apiserver.delete("nodes", "", OWN)
    client.wait(lambda: OWN not in client.nodes, "no Node")
    settle(apiserver, client)
    assert len(patches(apiserver)) == n
    apiserver.apply(own_node(pod_cidrs=("10.244.9.0/24",)))
    wait_written(apiserver, V4)


# Trouble.


def test_a_refusal_is_named_once_and_tried_slowly(apiserver, probe):
    apiserver.apply(own_node())
    refusal = apiserver.forbid("nodes", "patch")
    client = probe(apiserver)
    client.set_transport(V4)
    client.wait(lambda: client.published.get("failures") == "3",
                "three refusals", 30)
    times = [r.time for r in patches(apiserver)]
    assert all(b - a >= SLOW_PAUSE for a, b in zip(times, times[1:]))
    assert client.log_text().count(REFUSED) == 1
    client.wait_log(r'Node "node-a": transport addresses can.t be written.*'
                    r"HTTP 403: nodes is forbidden")
    assert "HTTP 403" in client.published["error"]
    refusal.remove()
    wait_written(apiserver, V4)
    client.wait(lambda: client.published["error"] == "", "no error")


@pytest.mark.parametrize("status", [404, 409])
def test_what_is_over_soon_is_not_named(apiserver, probe, status):
    apiserver.apply(own_node())
    fault = apiserver.fault(resource="nodes", verb="patch", count=3,
                            status=status)
    client = probe(apiserver)
    client.set_transport(V4)
    wait_written(apiserver, V4)
    assert fault.hits == 3
    settle(apiserver, client)
    assert len(patches(apiserver)) == 4
    assert REFUSED not in client.log_text()


@pytest.mark.parametrize("fault", [
    {"status": 500}, {"status": 503}, {"status": 429},
    {"status": 401}, {"raw": b"HTTP/1.1 200 OK\r\nContent-Le", "how": "rst"},
    {"raw": b"junk", "how": "fin"},
    {"status": 502, "body": b"<html>", "content_type": "text/html"}])
def test_trouble_is_named_once_and_waited_out(apiserver, probe, fault):
    apiserver.apply(own_node())
    trouble = apiserver.fault(resource="nodes", verb="patch", count=6,
                              **fault)
    client = probe(apiserver)
    client.set_transport(V4)
    wait_written(apiserver, V4)
    assert trouble.hits == 6
    settle(apiserver, client)
    assert client.log_text().count(REFUSED) == 1
    times = [r.time for r in patches(apiserver)]
    assert len(times) == 7
    assert times[-1] - times[-2] >= MAX_PAUSE, "the pauses grow"


def test_retry_after_is_obeyed(apiserver, probe):
    apiserver.apply(own_node())
    apiserver.fault(resource="nodes", verb="patch", status=429,
                    headers={"Retry-After": "1"})
    client = probe(apiserver)
    client.set_transport(V4)
    wait_written(apiserver, V4)
    first, second = [r.time for r in patches(apiserver)]
    assert second - first > 0.99     # Two clocks, in milliseconds.


def test_an_answer_that_got_lost_does_no_harm(apiserver, probe):
    """The patch was done, and the watch tells."""
    apiserver.apply(own_node())
    apiserver.fault(resource="nodes", verb="patch", cut_after=10, how="rst")
    client = probe(apiserver)
    client.set_transport(V4)
    wait_written(apiserver, V4)
    wait_seen(client, V4)
    client.wait(lambda: client.published["failures"] == "1", "a failure")
    settle(apiserver, client)
    assert len(patches(apiserver)) == 1


def test_a_late_watch_makes_no_storm_of_patches(apiserver, probe):
    """Nor do two that want different addresses."""
    apiserver.apply(own_node())
    client = probe(apiserver)
    apiserver.hold("nodes")
    client.set_transport(V4)
    wait_for(lambda: len(patches(apiserver)) >= 8, 10, "patches")
    times = [r.time for r in patches(apiserver)]
    assert all(b - a >= MAX_PAUSE for a, b in zip(times[4:], times[5:]))
    rv = apiserver.get("nodes", "", OWN).rv
    apiserver.release("nodes")
    wait_seen(client, V4)
    assert apiserver.get("nodes", "", OWN).rv == rv
    for i in range(8):
        n = len(patches(apiserver))
        apiserver.patch("nodes", "", OWN, {"metadata": {"annotations": {
            KEY: "198.51.100.%d" % i}}})
        wait_written(apiserver, V4)
        assert len(patches(apiserver)) == n + 1
    times = [r.time for r in patches(apiserver)][-7:]
    assert all(b - a >= MAX_PAUSE for a, b in zip(times, times[1:]))


def test_the_pause_is_short_again_after_a_quiet_time(apiserver, probe):
    """One that went well is forgotten after three times its pause."""
    apiserver.apply(own_node())
    apiserver.fault(resource="nodes", verb="patch", count=6, status=503)
    client = probe(apiserver, backoff_max_ms=400)
    client.set_transport(V4)
    wait_seen(client, V4)
    last = patches(apiserver)[-1].time
    wait_for(lambda: time.monotonic() - last > 2.5, 10, "a quiet time")
    n = len(patches(apiserver))
    for i in range(2):
        client.set_transport("192.0.2.%d" % i)
        wait_seen(client, "192.0.2.%d" % i)
    one, other = patches(apiserver)[n:]
    assert other.time - one.time < 0.4 * slowness()


def test_it_ends_in_the_middle_of_a_patch(apiserver, probe):
    apiserver.apply(own_node())
    fault = apiserver.fault(resource="nodes", verb="patch", stall=True)
    client = probe(apiserver)
    client.set_transport(V4)
    client.wait(lambda: fault.hits == 1, "a patch")
    assert client.close() == 0


# What is read.


def test_bad_transport_addresses_are_named_once(apiserver, probe):
    """The Node stays, and the usable ones of them."""
    apiserver.apply(own_node())
    node = objects.node("node-b", zone="zb")
    client = probe(apiserver)
    for zone in "zb", "zc":
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "zb"
        node["metadata"]["annotations"] = {KEY: "192.0.2.12,x", "n": zone}
        apiserver.apply(node)
        client.wait(lambda: client.nodes.get("node-b") == "zb@192.0.2.12",
                    "node-b")
        settle(apiserver, client)
    assert len(client.log_text().split("left out")) == 2
    client.wait_log('nodes: a value is left out: Node node-b: '
                    'metadata.annotations.*found "x"')
