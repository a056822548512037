# SPDX-License-Identifier: Apache-2.0
"""The API client against a scripted API server, by kube-probe."""
import json
import pathlib
import socket
import subprocess
import time

import pytest

from support import certs, objects, secrets, setns
from support.apiserver import ApiServer
from support.kubeprobe import program
from support.wait import slowness, wait_for

RECORDINGS = pathlib.Path(__file__).parents[1] / "data/recordings"
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture(name="probe")
def fixture_probe(kube_probe):
    """A function that starts probes."""
    return kube_probe


def fill(api, n=3):
    """Services ns1/s0.. with a slice of one endpoint each, and two nodes."""
    with api.batch():
        for i in range(n):
            api.apply(objects.service("ns1", "s%d" % i, [80],
                                      ["10.96.0.%d" % (10 + i)]))
            api.apply(objects.slice_("ns1", "s%d" % i,
                                     ["10.10.1.%d" % (10 + i)]))
        api.apply(objects.node("node-a"))
        api.apply(objects.node("node-b", zone="z2"))


def names(n):
    """What fill() makes."""
    return ["ns1/s%d" % i for i in range(n)]


def whole(body, head=JSON_HEAD):
    """A complete HTTP answer with this body."""
    return head + b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (
        len(body), body)


def recorded(name):
    """A recording's bytes."""
    return (RECORDINGS / name).read_bytes()


def queries(api, verb, resource="services"):
    """The queries of the requests so far."""
    return [r.query for r in api.requests_for(resource, verb)]


# The ordinary course.


def test_lists_then_watches_and_follows_changes(apiserver, probe):
    fill(apiserver)
    client = probe(apiserver).wait_synced()
    client.wait_services(*names(3))
    assert client.services["ns1/s1"] == [
        "ip=10.96.0.11", "port=80", "slices=1", "s1-abcde:10.10.1.11"]
    client.wait(lambda: client.nodes == {"node-a": "", "node-b": "z2"},
                "nodes")

    apiserver.apply(objects.service("ns1", "new", [81], ["10.96.0.99"]))
    apiserver.apply(objects.slice_("ns1", "s0", ["10.10.1.77"]))
    apiserver.delete("services", "ns1", "s1")
    apiserver.delete("endpointslices", "ns1", "s1-abcde")
    client.wait_services("ns1/s0", "ns1/s2", "ns1/new")
    client.wait(lambda: "s0-abcde:10.10.1.77" in client.services["ns1/s0"],
                "the new endpoint")
    assert "ip=10.96.0.99" in client.services["ns1/new"]
    assert [r.verb for r in apiserver.requests_for("services")] == [
        "list", "watch"]
    for request in apiserver.requests_for():
        assert request.headers["accept"] == "application/json"
        assert request.headers["user-agent"].startswith("ofproxyd/")
        assert "authorization" not in request.headers
    assert "WARN" not in client.log_text()


def test_a7_a_zone_that_appears_on_a_node_is_seen(apiserver, probe):
    apiserver.apply(objects.node("node-a"))
    client = probe(apiserver).wait_synced()
    client.wait(lambda: client.nodes == {"node-a": ""}, "the node")
    apiserver.apply(objects.node("node-a", zone="z1"))
    client.wait(lambda: client.nodes == {"node-a": "z1"}, "its zone")


def test_requests_ask_for_what_a_proxy_needs(apiserver, probe):
    fill(apiserver)
    probe(apiserver, watch_timeout_s=100).wait_watching()
    wait_for(lambda: apiserver.requests_for("nodes", "watch")
             and apiserver.requests_for("services", "watch")
             and apiserver.requests_for("endpointslices", "watch"), 5,
             "all watches")
    for resource, label, field in (
            ("services", "!service.kubernetes.io/headless,"
             "!service.kubernetes.io/service-proxy-name",
             "spec.clusterIP!=None"),
            ("endpointslices", "!service.kubernetes.io/headless", None),
            ("nodes", None, None)):
        first, = queries(apiserver, "list", resource)
        assert first["resourceVersion"] == "0"
        assert first["limit"] == "500"
        watch, = queries(apiserver, "watch", resource)
        assert watch["allowWatchBookmarks"] == "true"
        assert 100 <= int(watch["timeoutSeconds"]) < 200
        assert int(watch["resourceVersion"]) > 1
        for query in first, watch:
            assert query.get("labelSelector") == label
            assert query.get("fieldSelector") == field


def test_foreign_and_headless_services_are_left_to_others(apiserver, probe):
    label = "service.kubernetes.io/service-proxy-name"
    mine, other = ({"labels": {label: x}} for x in ("mine", "other"))
    apiserver.apply(objects.service("ns1", "plain"))
    apiserver.apply(objects.service("ns1", "headless", [80], ["None"]))
    apiserver.apply(objects.service("ns1", "called-headless", labels={
        "service.kubernetes.io/headless": ""}))
    apiserver.apply(objects.service("ns1", "other", **other))
    apiserver.apply(objects.service("ns1", "mine", **mine))
    probe(apiserver).wait_services("ns1/plain")
    special = probe(apiserver, service_proxy_name="mine")
    special.wait_services("ns1/mine")
    apiserver.apply(objects.service("ns1", "plain", **mine))
    special.wait_services("ns1/mine", "ns1/plain")


def test_an_old_server_is_asked_without_the_field_selector(apiserver, probe):
    apiserver.unsupported_fields = {"spec.clusterIP"}
    fill(apiserver)
    client = probe(apiserver).wait_synced()
    client.wait_services(*names(3))
    assert ["fieldSelector" in q for q in queries(apiserver, "list")] == [
        True, False]
    assert "WARN" not in client.log_text()


def test_a_watch_that_ends_in_time_goes_on_where_it_was(apiserver, probe):
    fill(apiserver, 1)
    client = probe(apiserver, watch_timeout_s=1).wait_synced()
    for i in range(3):
        last = apiserver.apply(objects.service("ns1", "n%d" % i))
        client.wait(lambda i=i: "ns1/n%d" % i in client.services, "n%d" % i)
        n_watches = len(queries(apiserver, "watch"))
        client.wait(lambda n=n_watches: len(queries(apiserver, "watch")) > n,
                    "the next watch")
    # Not from the last event alone: a bookmark came before the end.
    client.wait(lambda: int(queries(apiserver, "watch")[-1]
                            ["resourceVersion"]) >= int(last.rv),
                "a watch from the last version")
    assert len(queries(apiserver, "list")) == 1
    assert client.number("failures") == 0
    assert "WARN" not in client.log_text()


def test_a_bookmark_moves_the_version_on(apiserver, probe):
    fill(apiserver, 1)
    client = probe(apiserver)
    client.wait_watching()
    wait_for(lambda: apiserver.delivered("services"), 5, "the watch")
    rv = apiserver.apply(objects.node("another")).rv
    apiserver.bookmark("services")
    time.sleep(1.1)             # A watch that ends sooner has failed.
    apiserver.end_watches("services")
    client.wait(lambda: len(queries(apiserver, "watch")) == 2, "a new watch")
    assert int(queries(apiserver, "watch")[1]["resourceVersion"]) >= int(rv)


def test_o8_a_delete_between_list_and_watch_is_seen(apiserver, probe):
    fill(apiserver)
    slow = apiserver.fault(resource="services", verb="watch", delay=0.5)
    client = probe(apiserver).wait_synced()
    client.wait_services(*names(3))
    wait_for(lambda: slow.hits, 5, "the watch's request")
    apiserver.delete("services", "ns1", "s1")
    apiserver.delete("endpointslices", "ns1", "s1-abcde")
    client.wait_services("ns1/s0", "ns1/s2")


# Lists and versions that go stale.


def test_pages_are_put_together(apiserver, probe):
    """The pages of a real server, for one whose cache doesn't answer."""
    for page in range(1, 5):
        apiserver.fault(resource="services", verb="list",
                        raw=whole(recorded("services-page-%d.json" % page)))
    client = probe(apiserver, page_limit=6).wait_synced()
    expected = {"%s/%s" % (o["metadata"]["namespace"], o["metadata"]["name"])
                for page in range(1, 5) for o in json.loads(
                    recorded("services-page-%d.json" % page))["items"]}
    client.wait(lambda: client.number("objects") == len(expected), "all pages")
    assert set(client.services) >= expected
    asked = queries(apiserver, "list")
    assert asked[0]["resourceVersion"] == "0"
    assert [q.get("limit") for q in asked] == ["6"] * 4
    for page in range(1, 4):
        meta = json.loads(
            recorded("services-page-%d.json" % page))["metadata"]
        assert asked[page]["continue"] == meta["continue"]
        assert "resourceVersion" not in asked[page]
    watch = wait_for(lambda: queries(apiserver, "watch"), 5, "the watch")
    assert watch[0]["resourceVersion"] == "304"


def test_o5_a_page_that_is_gone_starts_the_list_again(apiserver, probe):
    fill(apiserver)
    page = json.loads(recorded("services-page-1.json"))
    page["items"] = page["items"][:2]
    apiserver.fault(resource="services", verb="list",
                    raw=whole(json.dumps(page).encode()))
    apiserver.fault(resource="services", verb="list",
                    raw=whole(recorded("error-410-continue.json"),
                              JSON_HEAD.replace(b"200 OK", b"410 Gone")))
    client = probe(apiserver, page_limit=2).wait_synced()
    # What was on the half list alone isn't taken for truth.
    client.wait_services(*names(3))
    first, second, third = queries(apiserver, "list")
    assert first["resourceVersion"] == "0"
    assert second["continue"] == page["metadata"]["continue"]
    assert "continue" not in third and "limit" not in third
    assert "resourceVersion" not in third
    assert client.number("lists") == 1
    assert "WARN" not in client.log_text()


def test_half_a_list_never_replaces_a_full_one(apiserver, probe):
    """D31: a relist that breaks in the middle takes nothing away."""
    fill(apiserver, 6)
    client = probe(apiserver, page_limit=2).wait_synced()
    client.wait_services(*names(6))
    broken = apiserver.fault(resource="services", verb="list", count=None,
                             skip=1, cut_after=300)
    apiserver.delete("services", "ns1", "s5")
    apiserver.delete("endpointslices", "ns1", "s5-abcde")
    client.wait_services(*names(5))
    apiserver.compact()
    apiserver.send_error("services", 410)
    wait_for(lambda: broken.hits >= 3, 10, "tries of the second page")
    client.wait_log("services: list: .*; what is known stays in use")
    client.wait_services(*names(5))
    assert client.number("lists") == 1
    apiserver.delete("services", "ns1", "s0")
    broken.remove()
    client.wait(lambda: client.number("lists") == 2, "the list", 20)
    assert "ns1/s0" in client.orphans and "ns1/s0" not in client.services
    client.wait_log("services: in order again, after .* failures")


@pytest.mark.parametrize("how", ["event", "http", "recording"])
def test_a_version_that_is_gone_is_listed_anew(apiserver, probe, how):
    fill(apiserver)
    client = probe(apiserver).wait_synced()
    client.wait_services(*names(3))
    client.wait_watching()
    wait_for(lambda: apiserver.delivered("services"), 5, "the watch")
    if how == "http":
        apiserver.fault(resource="services", verb="watch", status=410)
    elif how == "recording":
        apiserver.fault(resource="services", verb="watch",
                        raw=recorded("watch-410.http"))
    apiserver.hold("services")
    apiserver.delete("services", "ns1", "s1")
    apiserver.delete("endpointslices", "ns1", "s1-abcde")
    apiserver.compact()
    if how == "event":
        apiserver.send_error("services", 410)
    else:
        apiserver.cut_connections("rst", "services")
    client.wait_services("ns1/s0", "ns1/s2")
    assert "resourceVersion" not in queries(apiserver, "list")[1]
    client.wait_log("services: watch: (HTTP|ERROR event) 410: .*; asking "
                    "again in")
    client.wait_log("services: listed again, 2 objects .*, 1 have gone")


def test_b16_d08_what_was_deleted_during_an_outage_is_gone_after_it(
        apiserver, probe):
    fill(apiserver)
    apiserver.apply(objects.slice_("ns1", "s1", ["10.10.1.50"],
                                   suffix="second"))
    client = probe(apiserver).wait_synced()
    client.wait_services(*names(3))
    client.wait_watching()
    apiserver.stop("rst")
    client.wait(lambda: client.stats["Service"]["state"] == "BACKOFF",
                "a failure")
    apiserver.delete("services", "ns1", "s0")
    apiserver.delete("endpointslices", "ns1", "s0-abcde")
    apiserver.delete("endpointslices", "ns1", "s1-second")
    apiserver.apply(objects.service("ns1", "s2", [8080], ["10.96.0.12"]))
    apiserver.apply(objects.service("ns1", "fresh"))
    client.wait_log("services: watch: .*(refused|Couldn't connect)")
    assert set(client.services) == set(names(3))
    apiserver.compact()
    apiserver.start()
    client.wait_services("ns1/s1", "ns1/s2", "ns1/fresh")
    client.wait(lambda: "slices=1" in client.services["ns1/s1"]
                and "port=8080" in client.services["ns1/s2"],
                "the changes")
    client.wait_log("services: in order again, after")
    assert client.stats["Service"]["error"] == ""


def test_c23_d09_a_part_of_the_lists_is_not_all(apiserver, probe):
    fill(apiserver)
    stuck = apiserver.fault(resource="endpointslices", verb="list",
                            count=None, stall=True)
    client = probe(apiserver)
    client.wait_watching("Service")
    client.wait_watching("Node")
    client.wait_services(*names(3))
    assert not client.synced
    assert client.stats["EndpointSlice"]["state"] == "LIST"
    stuck.remove()
    apiserver.release_stalls()
    client.wait_synced()


# Connections.


def test_o3_d30_a_half_open_connection_is_noticed(netns, tmp_path, probe):
    space = netns.namespace("half-open")
    with ApiServer(tmp_path / "api", netns=space.name) as api:
        fill(api)
        client = probe(api, netns=space.name).wait_synced()
        client.wait_watching()
        wait_for(lambda: api.delivered(), 5, "watches")
        port = [w._wire.sock.getpeername()[1]
                for w in api.watches("services")][0]
        rules = """table inet t {
            chain c {
                type filter hook output priority 0;
                tcp sport %d drop
                tcp dport %d drop
            }
        }
        """ % (port, port)
        space.run("nft", "-f", "-", input=rules)
        started = time.monotonic()
        api.delete("services", "ns1", "s0")
        api.delete("endpointslices", "ns1", "s0-abcde")
        client.wait_services("ns1/s1", "ns1/s2", timeout=45)
        assert time.monotonic() - started > 10
        client.wait_log("services: watch: .*timed out")
        assert len(api.requests_for("services", "watch")) == 2
        assert len(api.requests_for("services", "list")) == 1


def test_a_watch_that_has_gone_silent_is_replaced(apiserver, probe):
    """An LB whose server has died keeps the connection alive."""
    fill(apiserver)
    client = probe(apiserver, silence_ms=1500).wait_synced()
    client.wait_watching()
    wait_for(lambda: apiserver.delivered("services"), 5, "the watch")
    apiserver.command("services", "stall")
    wait_for(lambda: apiserver.delivered("services"), 5, "the stall")
    apiserver.delete("services", "ns1", "s0")
    apiserver.delete("endpointslices", "ns1", "s0-abcde")
    client.wait_services("ns1/s1", "ns1/s2")
    assert len(queries(apiserver, "list")) == 1
    assert "WARN" not in client.log_text()


def test_a_server_that_never_answers_is_given_up(apiserver, probe):
    fill(apiserver)
    apiserver.fault(resource="services", verb="watch", stall=True)
    client = probe(apiserver, silence_ms=1500).wait_synced()
    client.wait_log("services: watch: the server doesn't answer; what is")
    client.wait_log("services: in order again, after 1 failures")
    apiserver.release_stalls()


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_cut_in_the_middle_of_an_event_loses_nothing(tmp_path, probe, how,
                                                       tls):
    with ApiServer(tmp_path / "api", tls=tls) as api:
        fill(api, 1)
        cut = api.fault(resource="services", verb="watch", cut_event=1,
                        how=how)
        client = probe(api).wait_synced()
        client.wait_watching()
        wait_for(lambda: api.delivered("services"), 5, "the watch")
        for i in range(4):
            api.apply(objects.service("ns1", "n%d" % i))
        client.wait(lambda: {"ns1/n%d" % i for i in range(4)}
                    <= set(client.services), "all events")
        assert cut.hits == 1
        assert len(queries(api, "list")) == 1
        assert client.number("bad") == 0


def test_nothing_listens_and_then_something_does(tmp_path, probe):
    api = ApiServer(tmp_path / "api")
    with api:
        fill(api)
    client = probe(api)         # It has stopped.
    client.wait_log("nodes: list: .*connect")
    client.wait(lambda: client.number("failures") > 2, "several tries")
    with api:
        client.wait_synced()
        client.wait_services(*names(3))
        client.wait_log("services: in order again, after")
    # Each trouble is told once a minute.
    assert client.log_text().count("services: list:") == 1


def test_a_name_that_does_not_resolve_is_tried_again(probe):
    client = probe(server="https://no-such-host.invalid")
    client.wait_log("services: list: .*[Rr]esolve host.*next try in")
    client.wait(lambda: client.number("failures") > 2, "several tries")


def test_a_name_server_that_is_dead_does_not_stop_the_loop(netns, tmp_path,
                                                           probe):
    space = netns.namespace("dns")
    resolv = tmp_path / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\noptions timeout:30\n")
    silent = setns.call(space.name, socket.socket, socket.AF_INET,
                        socket.SOCK_DGRAM)
    with silent:
        silent.bind(("127.0.0.1", 53))
        client = probe(server="https://api.example.com", netns=space.name,
                       wrapper=("unshare", "-m", "sh", "-c", "mount --bind "
                                "%s /etc/resolv.conf && exec \"$@\"" % resolv,
                                "sh"))
        slowest = 0

        def failed():
            nonlocal slowest
            started = time.monotonic()
            client.ask("dump", "counts")
            slowest = max(slowest, time.monotonic() - started)
            return client.number("failures")

        client.wait(failed, "the end of the first request", 20)
        assert slowest < slowness()
        client.wait_log("list: Resolving timed out")
        started = time.monotonic()
        assert client.close() == 0
        assert time.monotonic() - started < 5 * slowness()


def test_ipv6_servers_are_reached(tmp_path, probe):
    with ApiServer(tmp_path / "api", address="::1", tls=True) as api:
        fill(api)
        probe(api).wait_synced().wait_services(*names(3))


# What servers and those in between answer instead.


def test_o12_one_forbidden_kind_does_not_hold_up_the_others(apiserver, probe):
    fill(apiserver)
    forbidden = apiserver.forbid("nodes")
    client = probe(apiserver)
    client.wait_services(*names(3))
    client.wait_watching("Service")
    client.wait_watching("EndpointSlice")
    client.wait(lambda: client.number("failures", "Node") >= 3, "refusals")
    assert not client.synced
    lines = [line for line in client.log_text().splitlines()
             if "WARN" in line]
    assert len(lines) == 1, lines
    assert "nodes: list: HTTP 403: nodes is forbidden" in lines[0]
    assert "HTTP 403" in client.stats["Node"]["error"]
    apiserver.apply(objects.service("ns1", "more"))
    client.wait_services(*names(3), "ns1/more")
    forbidden.remove()
    client.wait_synced()
    client.wait_log("nodes: in order again, after")
    assert client.stats["Node"]["error"] == ""


def test_403_is_asked_slowly(apiserver, probe):
    apiserver.forbid("nodes")
    client = probe(apiserver, backoff_max_ms=60000)
    client.wait(lambda: client.number("failures", "Node") == 1, "a refusal")
    wait = float(client.wait_log(r"next try in (\d+\.\d)").group(1))
    assert 60 <= wait < 120


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(apiserver, probe, status):
    fill(apiserver)
    apiserver.fault(resource="services", verb="list", status=status,
                    headers={"Retry-After": "1"})
    probe(apiserver).wait_services(*names(3))
    first, second = apiserver.requests_for("services", "list")
    assert 0.95 <= second.time - first.time < 3 * slowness()


@pytest.mark.parametrize("answer", [
    {"status": 500}, {"status": 502, "body": b"<html><b>Bad Gateway</b>",
                      "content_type": "text/html"},
    {"status": 504}, {"status": 404}, {"status": 429},
    {"status": 200, "body": b"<html>Welcome to nginx</html>",
     "content_type": "text/html"},
    {"status": 200, "body": b"<html>Welcome to nginx</html>"},
    {"status": 200, "body": recorded("error-403.json")},
    {"status": 200, "body": b""},
    {"status": 200, "body": b"\x00\xff\xfe garbage"},
    {"raw": b"\x00\xff\xfe garbage"},
    {"raw": b"HTTP/1.1 200 OK\r\n\r\n"},
    {"raw": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
            b"Content-Length: 0\r\n\r\n"},
    {"raw": whole(recorded("services.json")[:-2])},
    {"raw": whole(recorded("services.json") + b"{}")},
    {"raw": whole(recorded("services.json").replace(b"ServiceList",
                                                    b"Something"))},
    {"cut_after": 100}, {"cut_after": 100, "how": "rst"}, {"cut_after": 0},
], ids=lambda answer: str(answer)[:50])
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_odd_answers_are_waited_out(apiserver, probe, answer, verb):
    fill(apiserver)
    odd = apiserver.fault(resource="services", verb=verb, count=2, **answer)
    client = probe(apiserver).wait_synced()
    n = 0

    def two_hits():
        """A cut in a watch takes events to happen."""
        nonlocal n
        n += 1
        apiserver.apply(objects.service("ns1", "later", [n]))
        return odd.hits == 2

    client.wait(two_hits, "the odd answers")
    client.wait(lambda: "port=%d" % n
                in client.services.get("ns1/later", ()), "the last change")
    client.wait_services(*names(3), "ns1/later")
    text = client.log_text()
    assert client.number("failures") or verb == "watch", text
    assert "127.0.0.1:1/" not in text or "302" in text


def test_a_watch_in_the_future_is_listed_anew(apiserver, probe):
    """Another, older server has taken over."""
    fill(apiserver)
    client = probe(apiserver).wait_synced()
    client.wait_watching()
    wait_for(lambda: apiserver.delivered("services"), 5, "the watch")
    apiserver.fault(resource="services", verb="watch", count=2, status=504,
                    raw=whole(recorded("error-504-too-large-rv.json"),
                              b"HTTP/1.1 504 Gateway Timeout\r\n"
                              b"Content-Type: application/json\r\n"))
    apiserver.cut_connections("rst", "services")
    client.wait(lambda: client.number("lists") == 2, "a list")
    first, second, third = apiserver.requests_for("services", "watch")[:3]
    assert first.query["resourceVersion"] == second.query["resourceVersion"]
    assert third.time - second.time >= 0.95
    assert "resourceVersion" not in queries(apiserver, "list")[1]


@pytest.mark.parametrize("garbage", [
    b"garbage\n", b"\n\n\n", b"{}\n", b"[]\n", b'{"type":"ADDED"}\n',
    b'{"type":"NEW","object":{}}\n', b'{"type":"DELETED","object":{}}\n',
    b'{"type":"ADDED","object":{"metadata":{"name":"x"}}}\n',
    b'{"type":"ADDED","object":' + b"[" * 100000 + b"\n",
    b'{"type":"ERROR","object":{}}\n', b'{"type":"ERROR","object":[]}\n',
    b"\xff" * 1000 + b"\n",
    b'{"type":"BOOKMARK","object":{"kind":"Service"}}\r\n',
], ids=lambda garbage: repr(garbage)[:40])
def test_garbage_in_a_watch_is_survived(apiserver, probe, garbage):
    fill(apiserver)
    client = probe(apiserver).wait_synced()
    client.wait_watching()
    wait_for(lambda: apiserver.delivered("services"), 5, "the watch")
    apiserver.send_raw("services", garbage)
    apiserver.apply(objects.service("ns1", "after"))
    client.wait_services(*names(3), "ns1/after")
    assert len(client.log_text()) < 20000


def test_an_endless_line_does_not_fill_the_memory(apiserver, probe):
    fill(apiserver)
    client = probe(apiserver).wait_synced()
    client.wait_watching()
    wait_for(lambda: apiserver.delivered("services"), 5, "the watch")
    line = b'{"type":"ADDED","object":{"x":"' + b"y" * (12 << 20)
    apiserver.send_raw("services", line)
    apiserver.apply(objects.service("ns1", "after"))
    client.wait_services(*names(3), "ns1/after", timeout=30)
    client.wait_log("services: watch: .*more than .* bytes")
    status = pathlib.Path("/proc/%d/status" % client.process.pid).read_text()
    assert int(status.split("VmHWM:")[1].split()[0]) < 300 * 1024


# Bytes in odd pieces.


def test_d31_o6_events_may_be_split_anywhere(apiserver, probe):
    fill(apiserver, 1)
    apiserver.fault(resource="services", verb="watch", piece=1)
    apiserver.fault(resource="endpointslices", verb="watch",
                    split=tuple(range(1, 400, 7)))
    client = probe(apiserver).wait_synced()
    client.wait_watching()
    for i in range(1, 8):
        apiserver.apply(objects.service("ns1", "s%d" % i))
        apiserver.apply(objects.slice_("ns1", "s%d" % i, ["10.10.1.1"]))
    client.wait_services(*names(8))
    client.wait(lambda: all("slices=1" in words for words
                            in client.services.values()), "all slices")
    assert client.number("bad") == client.number("failures") == 0


def test_a_list_may_come_drop_by_drop(apiserver, probe):
    fill(apiserver, 2)
    apiserver.fault(resource="services", verb="list", piece=3)
    apiserver.fault(resource="nodes", verb="list", drip=(64, 0.01))
    client = probe(apiserver).wait_synced()
    client.wait_services(*names(2))


def test_an_object_of_5_mb_is_read(apiserver, probe):
    fill(apiserver, 1)
    big = {"labels": {"x": "y"}, "annotations": {"blob": "z" * (5 << 20)}}
    client = probe(apiserver).wait_synced()
    client.wait_watching()
    apiserver.apply(objects.service("ns1", "big", **big))
    client.wait_services("ns1/s0", "ns1/big", timeout=30)
    again = probe(apiserver)
    again.wait_services("ns1/s0", "ns1/big", timeout=30)
    assert client.number("failures") == again.number("failures") == 0


@pytest.mark.parametrize("recording,resource,expected", [
    ("watch-services.http", "services", "default/born-during-watch"),
    ("watch-services-from-now.http", "services", None),
    ("watchlist-services.http", "services", None),
    ("watch-endpointslices.http", "endpointslices", None),
    ("watch-nodes.http", "nodes", None),
])
def test_recorded_watches_are_read_byte_for_byte(apiserver, probe, recording,
                                                 resource, expected):
    data = recorded(recording)
    apiserver.fault(resource=resource, verb="watch", raw=data)
    client = probe(apiserver).wait_synced()
    kind = {"services": "Service", "nodes": "Node",
            "endpointslices": "EndpointSlice"}[resource]
    lines = [json.loads(line) for line in data.splitlines()
             if line.startswith(b'{"type"')]
    changes = [e for e in lines if e["type"] != "BOOKMARK"]
    assert changes
    client.wait(lambda: client.number("events", kind) == len(changes),
                "all events")
    assert client.number("bad", kind) == 0
    client.wait(lambda: len(queries(apiserver, "watch", resource)) == 2,
                "the next watch")
    last = lines[-1]["object"]["metadata"]["resourceVersion"]
    assert queries(apiserver, "watch", resource)[1]["resourceVersion"] == last
    if expected:
        assert any(e["type"] == "DELETED" for e in changes)


@pytest.mark.parametrize("recording,resource", [
    ("services.json", "services"), ("services-selected.json", "services"),
    ("services-empty.json", "services"), ("services-rv0.json", "services"),
    ("endpointslices.json", "endpointslices"), ("nodes.json", "nodes"),
])
def test_recorded_lists_are_read_byte_for_byte(apiserver, probe, recording,
                                               resource):
    body = recorded(recording)
    apiserver.fault(resource=resource, verb="list", raw=whole(body))
    client = probe(apiserver).wait_synced()
    kind = {"services": "Service", "nodes": "Node",
            "endpointslices": "EndpointSlice"}[resource]
    client.wait(lambda: client.number("objects", kind)
                == len(json.loads(body)["items"]), "all items")
    assert client.number("bytes", kind) == len(body)
    assert client.number("bad", kind) == 0


# Objects that are out of order.


def test_a_bad_object_is_named_and_left_out(apiserver, probe):
    fill(apiserver)
    bad = b'{"metadata":{"namespace":"ns1","name":"bad"},"spec":{"ports":7}}'
    apiserver.put_raw("services", "ns1", "bad", bad)
    client = probe(apiserver).wait_synced()
    client.wait_services(*names(3))
    client.wait_log(r"services: an object is left out: .*ns1/bad.*ports")
    assert client.number("bad") == 1

    # In a watch as well; what was known of it stays, over a relist too.
    apiserver.put_raw("services", "ns1", "s1", bad.replace(b'"bad"', b'"s1"'))
    client.wait(lambda: client.number("bad") == 2, "the second one")
    apiserver.apply(objects.service("ns1", "after"))
    client.wait_services(*names(3), "ns1/after")
    apiserver.compact()
    apiserver.send_error("services", 410)
    client.wait(lambda: client.number("lists") == 2, "the list")
    assert "ip=10.96.0.11" in client.services["ns1/s1"]

    # And it goes when it is deleted, malformed as it is.
    client.wait_watching()
    apiserver.delete("services", "ns1", "s1")
    client.wait(lambda: "ns1/s1" in client.orphans, "its end")


# Credentials and TLS.


def test_d29_a_token_that_is_replaced_is_used(tls_apiserver, tmp_path, probe):
    api = tls_apiserver
    fill(api)
    volume = tmp_path / "volume"
    for name, value in ("1", "good"), ("2", "better"):
        (volume / name).mkdir(parents=True)
        (volume / name / "token").write_text(secrets.token(value) + "\n")
    (volume / "..data").symlink_to("1")
    (volume / "token").symlink_to("..data/token")
    client = probe(api, token_file=volume / "token").wait_synced()
    client.wait_watching()
    wait_for(lambda: api.delivered(at_least=4), 5, "watches")

    (volume / "..tmp").symlink_to("2")
    (volume / "..tmp").rename(volume / "..data")
    api.tokens = {secrets.token("better"): "system:node:n1"}
    api.cut_connections("rst")
    api.apply(objects.service("ns1", "new"))
    client.wait_services(*names(3), "ns1/new")
    assert {r.auth for r in api.requests} == {"token"}

    # Missing and empty for a while: the last one stays in use.
    for trouble in (volume / "..data").unlink, lambda: (
            (volume / "2" / "token").write_text(""),
            (volume / "..data").symlink_to("2")):
        trouble()
        seen = len(api.requests)
        api.cut_connections("rst")
        client.wait(lambda seen=seen: len(api.requests) >= seen + 3,
                    "new watches")
    assert {r.auth for r in api.requests} == {"token"}
    client.wait_log("token file .*what was read before stays")
    assert secrets.MARK not in client.log_text()


def test_401_reads_the_token_again_and_retries_at_once(tls_apiserver,
                                                       tmp_path, probe):
    api = tls_apiserver
    fill(api)
    token = tmp_path / "token"
    token.write_text(secrets.token("stale"))
    client = probe(api, token_file=token, backoff_min_ms=2000,
                   backoff_max_ms=2000)
    client.wait_log("services: list: HTTP 401: Unauthorized; asking again")
    client.wait_log("services: list: HTTP 401: Unauthorized; what is known")
    first, second, third = api.requests_for("services", "list")[:3] if len(
        api.requests_for("services", "list")) > 2 else client.wait(
            lambda: len(api.requests_for("services", "list")) > 2
            and api.requests_for("services", "list")[:3], "three tries")
    assert second.time - first.time < 1.5 < third.time - second.time
    token.write_text(secrets.token("good"))
    client.wait_synced()
    client.wait_services(*names(3))


def test_a_token_file_that_is_not_there_yet_is_waited_for(tls_apiserver,
                                                          tmp_path, probe):
    fill(tls_apiserver)
    token = tmp_path / "token"
    client = probe(tls_apiserver, token_file=token)
    client.wait_log("services: list: token file .*No such file")
    assert not tls_apiserver.requests
    token.write_text(secrets.token("good"))
    client.wait_synced()


def test_o2_a_ca_that_is_replaced_is_used(tls_apiserver, tmp_path, probe):
    api = tls_apiserver
    fill(api)
    ca = tmp_path / "ca.crt"
    ca.write_bytes(api.ca.cert.read_bytes())
    client = probe(api, ca_file=ca).wait_synced()
    client.wait_watching()
    api.new_ca("second")
    api.cut_connections("rst")
    client.wait_log("services: watch: SSL certificate problem")
    ca.write_bytes(api.ca.cert.read_bytes())
    api.apply(objects.service("ns1", "new"))
    client.wait_services(*names(3), "ns1/new")
    client.wait_log("services: in order again")


def test_o2_a_client_certificate_that_is_replaced_is_used(tmp_path, probe):
    with ApiServer(tmp_path / "api", tls=True, client_certs=True) as api:
        fill(api)
        cert, key = tmp_path / "client.crt", tmp_path / "client.key"
        cert.write_bytes(api.client_cert.read_bytes())
        key.write_bytes(api.client_key.read_bytes())
        client = probe(api, client_cert_file=cert,
                       client_key_file=key).wait_synced()
        client.wait_watching()
        wait_for(lambda: api.delivered(at_least=4), 5, "watches")
        new_cert, new_key = api.ca.client("system:node:n2", file_name="new")
        cert.write_bytes(new_cert.read_bytes())
        key.write_bytes(new_key.read_bytes())
        api.cut_connections("rst")
        client.wait(lambda: api.requests[-1].user == "system:node:n2",
                    "the new certificate's name")
        assert {r.auth for r in api.requests} == {"cert"}


def test_credentials_may_be_given_as_text(tmp_path, probe):
    with ApiServer(tmp_path / "api", tls=True, client_certs=True) as api:
        fill(api)
        client = probe(
            api, ca_data=api.ca.cert.read_text(), ca_file="/nowhere",
            client_cert_data=api.client_cert.read_text(),
            client_key_data=api.client_key.read_text())
        client.wait_synced()
        assert {r.auth for r in api.requests} == {"cert"}


@pytest.mark.parametrize("wrong", ["ca", "name", "expired", "no ca"])
def test_a_server_that_cannot_be_verified_is_refused(tmp_path, probe, wrong):
    with ApiServer(tmp_path / "api", tls=True,
                   tokens={secrets.token("good"): "n"}) as api:
        fill(api)
        other = certs.Authority(tmp_path / "other", "other")
        options = {}
        if wrong == "ca":
            options = {"ca_file": other.cert}
        elif wrong == "no ca":
            options = {"ca_file": ""}
        elif wrong == "name":
            api.use_certificate(*api.ca.server("192.0.2.1",
                                               file_name="elsewhere"))
        else:
            api.use_certificate(*api.ca.server("127.0.0.1", days=-1,
                                               file_name="old"))
        client = probe(api, **options)
        client.wait_log("services: list: SSL: .*|services: list: SSL cert")
        client.wait(lambda: client.number("failures") > 2, "several tries")
        assert not api.requests, "the token was sent"
        if wrong == "name":
            probe(api, tls_server_name="192.0.2.1").wait_synced()
            port = str(api.port)
            assert {r.headers["host"] for r in api.requests} == {
                "127.0.0.1:" + port}
        elif wrong != "expired":
            probe(api, insecure=1, **options).wait_log("is not verified")


def test_a_name_to_verify_by_may_be_given(tmp_path, probe):
    with ApiServer(tmp_path / "api", tls=True) as api:
        fill(api)
        api.use_certificate(*api.ca.server("kubernetes.default.svc"))
        bad = probe(api)
        bad.wait_log("services: list: SSL: no alternative certificate subject")
        good = probe(api, tls_server_name="kubernetes.default.svc")
        good.wait_synced()
        good.wait_services(*names(3))


@pytest.mark.parametrize("options,message", [
    ({"server": "nonsense://x"}, "neither https nor http"),
    ({"server": "http://127.0.0.1:1", "token": "t"}, "not sent without TLS"),
    ({"service_proxy_name": "a,b"}, "is no label value"),
    ({"service_proxy_name": "x" * 64}, "is no label value"),
    ({"backoff_min_ms": 9, "backoff_max_ms": 8}, "out of range"),
])
def test_bad_settings_are_refused_at_once(options, message):
    settings = {"server": "https://127.0.0.1:1", **options}
    done = subprocess.run(
        [program(), *("%s=%s" % pair for pair in settings.items())],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr


# Size.


def test_the_loop_answers_while_100000_endpoints_are_read(apiserver, probe):
    with apiserver.batch():
        for obj in objects.cluster_objects(1000, 100):
            apiserver.apply(obj)
    client = probe(apiserver, quiet=1).wait_synced(120)
    counts = client.ask("dump", "counts")
    assert counts["endpoints"] == 100000
    slices = client.stats["EndpointSlice"]
    print("EndpointSlices: %s bytes, %s us decoding" % (
        slices["bytes"], slices["us"]))
    turn = client.ask("turn", "turn_us")
    print("longest turn: %d us" % turn)
    assert turn < 200000 * slowness()
