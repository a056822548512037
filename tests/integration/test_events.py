# SPDX-License-Identifier: Apache-2.0
"""Events that the API client sends, against a server that checks them as a
real one does."""
import datetime
import json
import re
import time

import pytest

from support import objects
from support.wait import wait_for

CONFLICT, HEALTH_PORT = 0, 1    # Of EVENT_REASONS.
MAX_PAUSE = 0.2                 # The probe's longest after a failure, in s.


@pytest.fixture(name="probe")
def fixture_probe(kube_probe):
    """A function that starts probes that have listed all."""
    return lambda api, **options: kube_probe(api, **options).wait_synced()


def events(api):
    """The Events that the server has."""
    return api.objects("events")


def posts(api):
    """The requests to create one."""
    return api.requests_for("events", "create")


def wait_events(api, n):
    """Until there are so many; returns them."""
    wait_for(lambda: len(events(api)) >= n, 10, "%d Events" % n)
    return events(api)


def settle(api, client):
    """Until nothing waits to be sent."""
    client.wait(lambda: client.event_stats()["waiting"] == 0, "a queue")
    assert len(events(api)) == client.event_stats()["created"]


# The ordinary course.


def test_an_event_says_who_what_and_why(apiserver, probe):
    """And a strict server takes it."""
    client = probe(apiserver)
    client.emit("shop/web", "192.0.2.1:80 belongs to shop/old", CONFLICT,
                uid="6f2c")
    [event] = wait_events(apiserver, 1)
    meta, regarding = event["metadata"], event["regarding"]
    assert meta["namespace"] == "shop"
    assert re.fullmatch(r"web\.[0-9a-f]{16}", meta["name"])
    assert regarding == {"kind": "Service", "apiVersion": "v1",
                         "name": "web", "namespace": "shop", "uid": "6f2c"}
    assert event["note"] == "192.0.2.1:80 belongs to shop/old"
    assert event["type"] == "Warning"
    assert event["reason"] == "AddressConflict"
    assert event["action"] == "ServeAddress"
    assert event["reportingController"] == "ofproxyd"
    assert event["reportingInstance"] == "node-a"
    when = datetime.datetime.strptime(event["eventTime"],
                                      "%Y-%m-%dT%H:%M:%S.%fZ")
    assert abs((datetime.datetime.utcnow() - when).total_seconds()) < 60
    [request] = posts(apiserver)
    assert request.path == "/apis/events.k8s.io/v1/namespaces/shop/events"
    assert request.headers["content-type"] == "application/json"


def test_the_reason_of_a_health_port_is_kube_proxys(apiserver, probe):
    """Alerts look for it."""
    client = probe(apiserver)
    client.emit("shop/web", "in use", HEALTH_PORT)
    [event] = wait_events(apiserver, 1)
    assert event["reason"] == "FailedToStartServiceHealthcheck"
    assert event["action"] == "StartServiceHealthcheck"


def test_an_event_of_a_node_goes_to_default(apiserver, probe):
    """A Node has no namespace."""
    client = probe(apiserver)
    client.emit("/node-a", "annotation", kind="Node", uid="")
    [event] = wait_events(apiserver, 1)
    assert event["metadata"]["namespace"] == "default"
    assert event["regarding"] == {"kind": "Node", "apiVersion": "v1",
                                  "name": "node-a"}


def test_events_carry_the_token(tls_apiserver, probe):
    """As every request."""
    client = probe(tls_apiserver)
    client.emit("shop/web", "note")
    wait_events(tls_apiserver, 1)
    assert [r.user for r in posts(tls_apiserver)] == ["system:node:n1"]


# Any text.


@pytest.mark.parametrize("note, sent", [
    ("x" * 2000, "x" * 1024),
    ('a "quoted\\ one"\t\x01', 'a "quoted\\ one"\t\x01'),
    ("\u00fc" * 600, "\u00fc" * 512),
    ("x" + "\u20ac" * 400, "x" + "\u20ac" * 341),
    ("", "")], ids=["long", "quotes", "two bytes", "cut", "empty"])
def test_any_note_can_be_sent(apiserver, probe, note, sent):
    """Cut to 1 kB between two characters."""
    client = probe(apiserver)
    client.emit("shop/web", note)
    [event] = wait_events(apiserver, 1)
    assert event["note"] == sent


@pytest.mark.parametrize("name", [
    "a" * 253, "UPPER.-case", "..", "a..b", "-", "a" * 235 + "-b", "a.-b.c-"])
def test_any_name_makes_a_name(apiserver, probe, name):
    """Too long, or none that an object could have."""
    client = probe(apiserver)
    client.emit("shop/" + name, "note")
    [event] = wait_events(apiserver, 1)
    assert event["regarding"]["name"] == name


# Aggregation.


def test_the_same_is_sent_once_and_counted(apiserver, probe):
    """One Event, whose series says how often."""
    client = probe(apiserver, event_repeat_ms=300)
    client.emit("shop/web", "note", times=1000)
    [event] = wait_events(apiserver, 1)
    wait_for(lambda: (events(apiserver)[0].get("series") or {}).get("count")
             == 1000, 10, "a count of 1000")
    settle(apiserver, client)
    [again] = events(apiserver)
    assert again["metadata"]["name"] == event["metadata"]["name"]
    assert len(posts(apiserver)) == 1
    [patch] = apiserver.requests_for("events", "patch")
    assert set(json.loads(patch.body)) == {"series"}


def test_the_count_waits_for_its_time(apiserver, probe):
    """With the real pause no second request follows at once."""
    client = probe(apiserver)
    client.emit("shop/web", "note")
    wait_events(apiserver, 1)
    client.emit("shop/web", "note", times=50)
    client.emit("shop/other", "note")
    wait_events(apiserver, 2)
    settle(apiserver, client)
    assert not apiserver.requests_for("events", "patch")


def test_what_differs_is_another_event(apiserver, probe):
    """Object, uid, reason and note."""
    client = probe(apiserver)
    client.emit("shop/web", "note")
    client.emit("shop/web", "other note")
    client.emit("shop/web", "note", HEALTH_PORT)
    client.emit("shop/web2", "note")
    client.emit("shop2/web", "note")
    client.emit("shop/web", "note", uid="u-2")
    wait_events(apiserver, 6)
    settle(apiserver, client)
    assert len(posts(apiserver)) == 6


def test_an_event_that_expired_is_made_anew(apiserver, probe):
    """The server keeps them for an hour."""
    client = probe(apiserver, event_repeat_ms=100)
    client.emit("shop/web", "note")
    [event] = wait_events(apiserver, 1)
    apiserver.delete(event)
    client.emit("shop/web", "note")
    [again] = wait_events(apiserver, 1)
    assert again["metadata"]["name"] != event["metadata"]["name"]
    assert "series" not in again


# Limits.


def test_a_flood_is_sent_slowly_and_bounded(apiserver, probe):
    """25 at once, the rest of what is kept by and by, the rest dropped."""
    client = probe(apiserver)
    for i in range(1000):
        client.emit("shop/web-%d" % i, "note")
    wait_events(apiserver, 25)

    def answered():
        """The 25th is there before the probe hears of it."""
        stats = client.event_stats()
        return (stats["emitted"] == 1000 and stats["created"] >= 25) and stats

    stats = client.wait(answered, "all")
    assert stats["created"] in (25, 26)
    assert stats["waiting"] + stats["created"] + stats["dropped"] == 1000
    assert 512 - 30 <= stats["waiting"] <= 512
    client.wait_log("INFO.*512 Events wait to be sent")


def test_the_flood_goes_on_at_the_rate(apiserver, probe):
    """The bucket fills again."""
    client = probe(apiserver, event_every_ms=20)
    for i in range(60):
        client.emit("shop/web-%d" % i, "note")
    wait_events(apiserver, 60)


def test_those_that_were_sent_make_room(apiserver, probe):
    """The oldest is forgotten: what is new counts more."""
    client = probe(apiserver, event_every_ms=1)
    for i in range(600):
        client.emit("shop/web-%d" % i, "note")
        if i % 100 == 99:
            wait_events(apiserver, i + 1)
    assert client.event_stats()["dropped"] == 0


# Failures.


def test_no_right_is_said_once_and_left_alone(apiserver, probe):
    """Nothing else suffers, and half an hour passes before the next try."""
    forbidden = apiserver.forbid("events")
    client = probe(apiserver)
    client.emit("shop/web", "note")
    client.wait_log("INFO.*an Event couldn't be sent, which harms nothing "
                    "else: HTTP 403: .*events")
    client.emit("shop/web2", "note", times=100)
    apiserver.apply(objects.service("shop", "web"))
    client.wait_services("shop/web")
    time.sleep(5 * MAX_PAUSE)   # That nothing happens takes its time.
    assert client.event_stats()["waiting"] == 2
    assert forbidden.hits == 1
    assert client.log_text().count("couldn't be sent") == 1
    assert "WARN" not in client.log_text()


@pytest.mark.parametrize("status", [404, 405])
def test_no_such_api_is_left_alone(apiserver, probe, status):
    """Some very old server, or a proxy in between."""
    fault = apiserver.fault(resource="events", verb="create", count=None,
                            status=status)
    client = probe(apiserver)
    client.emit("shop/web", "note")
    client.wait_log("couldn't be sent.*HTTP %d" % status)
    client.emit("shop/web2", "note")
    time.sleep(5 * MAX_PAUSE)   # As above.
    assert client.event_stats()["waiting"] == 2
    assert fault.hits == 1


GONE = ('events.events.k8s.io "web.1" is forbidden: unable to create new '
        "content in namespace shop because it is being terminated")


@pytest.mark.parametrize("status, message", [
    (422, "Event.events.k8s.io is invalid"), (400, "what is that"),
    (413, "Request entity too large"), (403, GONE),
    (404, 'namespaces "shop" not found')])
def test_what_is_wrong_with_one_stops_no_other(apiserver, probe, status,
                                                message):
    """It is dropped, the next one is sent."""
    apiserver.fault(resource="events", verb="create", status=status,
                    message=message)
    client = probe(apiserver)
    client.emit("shop/web", "note")
    client.emit("shop2/web", "note")
    [event] = wait_events(apiserver, 1)
    assert event["metadata"]["namespace"] == "shop2"
    assert client.event_stats()["dropped"] == 1


@pytest.mark.parametrize("fault", [
    {"status": 500}, {"status": 503}, {"status": 429},
    {"raw": b"HTTP/1.1 502 Bad Gateway\r\n\r\n"}, {"raw": b""},
    {"status": 401}], ids=str)
def test_a_failure_that_passes_is_waited_out(apiserver, probe, fault):
    """In the order in which they were emitted."""
    apiserver.fault(resource="events", verb="create", count=3, **fault)
    client = probe(apiserver)
    client.emit("shop/web-0", "note")
    client.emit("shop/web-1", "note")
    wait_events(apiserver, 2)
    names = [json.loads(r.body)["regarding"]["name"]
             for r in posts(apiserver)]
    assert names == ["web-0"] * 4 + ["web-1"]
    stats = client.event_stats()
    assert (stats["failures"], stats["error"]) == (3, "")


def test_a_failure_that_stays_costs_one_event(apiserver, probe):
    """After a dozen tries the next one has its turn."""
    apiserver.fault(resource="events", verb="create", count=12, status=500)
    client = probe(apiserver, backoff_max_ms=30)
    client.emit("shop/web-0", "note")
    client.emit("shop/web-1", "note")
    [event] = wait_events(apiserver, 1)
    assert event["regarding"]["name"] == "web-1"
    assert client.event_stats()["dropped"] == 1


def test_an_answer_that_was_lost_makes_no_second_event(apiserver, probe):
    """The server has it already."""
    apiserver.fault(resource="events", verb="create", cut_after=10)
    client = probe(apiserver)
    client.emit("shop/web", "note")
    client.wait(lambda: client.event_stats()["created"] == 1, "an answer")
    assert len(events(apiserver)) == 1


def test_an_outage_loses_no_event(apiserver, probe):
    """They wait, and go out when the server is back."""
    client = probe(apiserver)
    apiserver.stop()
    for i in range(5):
        client.emit("shop/web-%d" % i, "note")
    client.wait(lambda: client.event_stats()["failures"] > 14,
                "some tries")
    apiserver.start()
    wait_events(apiserver, 5)
    assert client.event_stats()["dropped"] == 0


# Objects that can't be read.


def bad_service(port="x"):
    """One with a port that is none."""
    service = objects.service("shop", "web")
    service["spec"]["ports"][0]["port"] = port
    return service


@pytest.mark.parametrize("port", ["x", 70000], ids=["object", "port"])
def test_the_owner_hears_of_what_is_left_out(apiserver, probe, port):
    """Which field it is: the whole object, or a port of it."""
    apiserver.apply(bad_service(port))
    probe(apiserver)
    [event] = wait_events(apiserver, 1)
    assert event["reason"] == "InvalidPartLeftOut"
    assert event["regarding"]["kind"] == "Service"
    assert event["regarding"]["name"] == "web"
    assert event["note"].startswith("Service shop/web: spec.ports[0].port: ")


def test_also_if_nothing_else_has_changed(apiserver, probe):
    """The Service is served as it was."""
    service = objects.service("shop", "web")
    apiserver.apply(service)
    client = probe(apiserver)
    client.wait_services("shop/web")
    service["spec"]["externalIPs"] = ["127.0.0.1"]
    apiserver.apply(service)
    [event] = wait_events(apiserver, 1)
    assert "externalIPs[0]" in event["note"]
    uid = apiserver.get("services", "shop", "web").obj["metadata"]["uid"]
    assert event["regarding"]["uid"] == uid


def test_with_the_uid_where_an_older_one_is_known(apiserver, probe):
    """`kubectl describe` asks for Events of that uid."""
    apiserver.apply(objects.service("shop", "web"))
    client = probe(apiserver)
    client.wait_services("shop/web")
    apiserver.apply(bad_service())
    [event] = wait_events(apiserver, 1)
    uid = apiserver.get("services", "shop", "web").obj["metadata"]["uid"]
    assert event["regarding"]["uid"] == uid


def test_the_same_mistake_is_told_once(apiserver, probe):
    """However often the object is sent."""
    apiserver.apply(bad_service())
    client = probe(apiserver)
    for i in range(5):
        service = bad_service()
        service["metadata"]["labels"] = {"x": str(i)}
        apiserver.apply(service)
    client.wait(lambda: client.number("bad") >= 6, "bad objects")
    settle(apiserver, client)
    assert len(events(apiserver)) == 1


def test_a_value_of_a_node_that_is_left_out(apiserver, probe):
    """A Node has no namespace, an Event has."""
    node = objects.node("node-b")
    node["metadata"]["annotations"] = {
        "node.antrea.io/transport-addresses": "192.0.2.300"}
    apiserver.apply(node)
    probe(apiserver)
    [event] = wait_events(apiserver, 1)
    assert event["metadata"]["namespace"] == "default"
    assert event["regarding"]["kind"] == "Node"
    assert event["regarding"]["uid"]
