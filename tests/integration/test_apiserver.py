# SPDX-License-Identifier: Apache-2.0
"""The scripted API server, held against recordings of a real one."""
import base64
import contextlib
import http.client
import json
import pathlib
import socket
import ssl
import threading
import time

import pytest

from support import apifault, apihttp, apistore, objects
from support.apiserver import ApiServer, RemoteApiServer
from support.secrets import token
from support.wait import slowness, wait_for

RECORDINGS = pathlib.Path(__file__).parents[1] / "data/recordings"
SERVICES = "/api/v1/services"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
MERGE = {"Content-Type": "application/merge-patch+json"}
NOT_FOREIGN = "labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"


class Client:
    """A small HTTP client that sees the bytes."""

    def __init__(self, api, token=None, cert=None):
        self.api, self.token = api, token
        self.context = None
        if api.ca:
            self.context = ssl.create_default_context(cafile=api.ca.cert)
            if cert:
                self.context.load_cert_chain(*cert)

    def open(self, path, method="GET", body=None, **headers):
        """The http.client response to one request."""
        if self.context:
            connection = http.client.HTTPSConnection(
                self.api.address, self.api.port, timeout=10,
                context=self.context)
        else:
            connection = http.client.HTTPConnection(
                self.api.address, self.api.port, timeout=10)
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def get(self, path, **headers):
        """(status, body)."""
        response = self.open(path, **headers)
        return response.status, response.read()

    def json(self, path):
        """The decoded body of a 200."""
        status, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def events(self, path):
        """All events of a watch that ends."""
        return [json.loads(line) for line in self.open(path)]


@pytest.fixture(name="client")
def _client(apiserver):
    return Client(apiserver)


def recorded(name):
    """A recorded body as text."""
    return (RECORDINGS / name).read_text()


def load_recording(api, name):
    """Puts the items of a recorded list into the server."""
    value = json.loads(recorded(name))
    kind = value["kind"][:-4]
    for item in value["items"]:
        api.apply({"kind": kind, "apiVersion": value["apiVersion"], **item})


def recorded_events(name):
    """The events of a recorded watch."""
    return [json.loads(line) for line in recorded(name).splitlines()
            if line.startswith("{")]


def masked(text):
    """A body without what differs from server to server."""
    value = json.loads(text)
    value["metadata"].pop("resourceVersion", None)
    for item in value["items"]:
        item["metadata"].pop("resourceVersion")
        item["metadata"].pop("generation", None)
    return json.dumps(value)


@pytest.mark.parametrize("name, path", [
    ("services.json", SERVICES),
    ("services-not-headless.json", SERVICES + "?" + NOT_FOREIGN
     + "&fieldSelector=spec.clusterIP%21%3DNone"),
    ("services-selected.json", SERVICES + "?" + NOT_FOREIGN),
    ("services-rv0.json", SERVICES + "?" + NOT_FOREIGN
     + "&resourceVersion=0"),
    ("services-empty.json", "/api/v1/namespaces/kube-public/services"),
    ("nodes.json", "/api/v1/nodes"),
    ("node-one.json", "/api/v1/nodes?fieldSelector=metadata.name%3Dnode-a"),
    ("endpointslices.json", SLICES),
    ("endpointslices-selected.json",
     SLICES + "?labelSelector=%21service.kubernetes.io%2Fheadless"
     "%2C%21service.kubernetes.io%2Fservice-proxy-name"),
    ("gateways.json", "/apis/multicluster.crd.antrea.io/v1alpha1/namespaces/"
     "kube-system/gateways"),
    ("clusterinfoimports.json", "/apis/multicluster.crd.antrea.io/v1alpha1/"
     "namespaces/kube-system/clusterinfoimports"),
])
def test_lists_have_the_recorded_text(apiserver, client, name, path):
    """Selectors, order of items and keys, kind and apiVersion, newline."""
    for resource in apistore.MULTICLUSTER:
        apiserver.add_resource(resource)
    for source in ("services", "nodes", "endpointslices", "gateways",
                   "clusterinfoimports"):
        load_recording(apiserver, source + ".json")
    status, body = client.get(path)
    assert status == 200
    assert masked(body) == masked(recorded(name))
    assert body.endswith(b"}\n")
    assert b'": ' not in body.replace(b'": \\', b"")


def test_pages_are_cut_as_recorded(apiserver, client):
    """Items, remaining count and continue token of each page."""
    load_recording(apiserver, "services.json")
    token = ""
    for page in range(1, 5):
        path = SERVICES + "?limit=6" + ("&continue=" + token if token else "")
        ours = client.json(path)
        theirs = json.loads(recorded("services-page-%d.json" % page))
        assert ([i["metadata"]["name"] for i in ours["items"]]
                == [i["metadata"]["name"] for i in theirs["items"]])
        assert list(ours["metadata"]) == list(theirs["metadata"])
        assert (ours["metadata"].get("remainingItemCount")
                == theirs["metadata"].get("remainingItemCount"))
        token = ours["metadata"].get("continue", "")
        theirs = theirs["metadata"].get("continue", "")
        assert start_of(token) == start_of(theirs)


def start_of(token):
    """The start key in a continue token."""
    if not token:
        return None
    return json.loads(base64.urlsafe_b64decode(token + "=="))["start"]


def test_the_remaining_items_of_a_selection_are_not_counted(apiserver,
                                                            client):
    """As with a real server."""
    load_recording(apiserver, "services.json")
    page = client.json(SERVICES + "?limit=6&" + NOT_FOREIGN)
    assert list(page["metadata"]) == ["resourceVersion", "continue"]


def test_later_pages_show_the_version_of_the_first(apiserver, client):
    """What changes between two pages is not seen."""
    for i in range(6):
        apiserver.apply(objects.service("ns1", "svc-%d" % i))
    first = client.json(SERVICES + "?limit=3")
    apiserver.delete("services", "ns1", "svc-4")
    apiserver.apply(objects.service("ns1", "svc-6"))
    second = client.json(SERVICES + "?limit=3&continue="
                         + first["metadata"]["continue"])
    assert [i["metadata"]["name"] for i in second["items"]] == [
        "svc-3", "svc-4", "svc-5"]
    assert (second["metadata"]["resourceVersion"]
            == first["metadata"]["resourceVersion"])


def test_an_expired_continue_token_gets_410_and_a_fresh_token(apiserver,
                                                              client):
    """And the fresh token lists the rest as it is now."""
    for i in range(6):
        apiserver.apply(objects.service("ns1", "svc-%d" % i))
    first = client.json(SERVICES + "?limit=3")
    apiserver.apply(objects.service("ns1", "svc-6"))
    apiserver.compact()
    status, body = client.get(SERVICES + "?limit=3&continue="
                              + first["metadata"]["continue"])
    assert status == 410
    ours, theirs = json.loads(body), json.loads(
        recorded("error-410-continue.json"))
    token = ours["metadata"].pop("continue")
    theirs["metadata"].pop("continue")
    assert json.dumps(ours) == json.dumps(theirs)
    rest = client.json(SERVICES + "?continue=" + token)
    assert [i["metadata"]["name"] for i in rest["items"]] == [
        "svc-3", "svc-4", "svc-5", "svc-6"]


@pytest.mark.parametrize("name, path, status", [
    ("error-400-field-selector.json",
     SERVICES + "?fieldSelector=spec.nonsense%3D1", 400),
    ("error-400-label-selector.json", SERVICES + "?labelSelector=%21%21",
     400),
    ("error-404-group.txt", "/apis/nothing.example.com/v1/things", 404),
    ("error-404-resource.json",
     "/apis/multicluster.crd.antrea.io/v1/gateways", 404),
    ("error-410-exact.json",
     SERVICES + "?resourceVersion=5&resourceVersionMatch=Exact", 410),
])
def test_errors_have_the_recorded_text(apiserver, client, name, path,
                                       status):
    """Status bodies, and plain text where the real server sends it."""
    apiserver.compact()
    assert client.get(path) == (status, recorded(name).encode())


def test_put_to_a_collection_is_not_allowed(client):
    """405 as recorded."""
    response = client.open(SERVICES, "PUT", b"{}")
    assert response.status == 405
    assert response.read() == recorded("error-405.json").encode()


def test_a_version_of_the_future_gets_504_with_its_cause(apiserver, client):
    """As recorded, but for the numbers."""
    response = client.open(SERVICES + "?resourceVersion=99999999")
    assert response.status == 504
    assert response.headers["Retry-After"] == "1"
    text = recorded("error-504-too-large-rv.json")
    assert response.read().decode() == text.replace(
        "current: 335", "current: %d" % apiserver.store.rv)


@pytest.mark.parametrize("name, verb, path", [
    ("error-403.json", "list", SERVICES),
    ("error-403-watch.json", "watch", SLICES + "?watch=1"),
])
def test_what_is_forbidden_gets_403(tmp_path, name, verb, path):
    """With the user's name, as recorded; until it is allowed again."""
    with ApiServer(tmp_path, tokens={"t": "nobody"}) as api:
        forbidden = api.forbid(verb=verb)
        client = Client(api, token="t")
        for _ in range(2):
            assert client.get(path) == (403, recorded(name).encode())
        forbidden.remove()
        assert client.open(path).status == 200


def test_tokens_are_checked_and_may_change(tls_apiserver):
    """401 as recorded without the right token."""
    unauthorized = (401, recorded("error-401.json").encode())
    good, bad = (Client(tls_apiserver, token(t)) for t in ("good", "bad"))
    assert good.get(SERVICES)[0] == 200
    assert bad.get(SERVICES) == unauthorized
    assert Client(tls_apiserver).get(SERVICES) == unauthorized
    tls_apiserver.tokens = {token("bad"): "now good"}
    assert bad.get(SERVICES)[0] == 200
    assert good.get(SERVICES) == unauthorized


def test_client_certificates_are_checked(tmp_path):
    """None: 401; one of another CA: no handshake."""
    with ApiServer(tmp_path, tls=True, client_certs=True) as api:
        mine = (api.client_cert, api.client_key)
        assert Client(api, cert=mine).get(SERVICES)[0] == 200
        assert Client(api).get(SERVICES)[0] == 401
        assert api.requests[0].user == "system:node:n1"
        api.new_ca("other")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Client(api, cert=mine).get(SERVICES)
        mine = (api.client_cert, api.client_key)
        assert Client(api, cert=mine).get(SERVICES)[0] == 200


# Watches.

def watch_path(api, path=SERVICES, seconds=1, more=""):
    """A watch from now on that ends by itself."""
    return "%s?watch=1&resourceVersion=%d&timeoutSeconds=%d%s" % (
        path, api.store.rv, seconds, more)


@contextlib.contextmanager
def watching(api, client, path):
    """A running watch, as an open response; one that ends may still be
    there."""
    before = api.watches()
    response = client.open(path)
    wait_for(lambda: [watch for watch in api.watches()
                      if watch not in before and watch.caught_up], 5,
             "a watch")
    yield response
    response.close()


def next_events(response, n):
    """The next n events."""
    return [json.loads(response.readline()) for _ in range(n)]


def test_a_watch_from_nowhere_begins_with_what_there_is(apiserver, client):
    """In the recorded text, versions apart."""
    apiserver.max_watch_seconds = 0.2
    load_recording(apiserver, "services.json")
    ours = client.events(SERVICES + "?watch=1&timeoutSeconds=1")
    theirs = recorded_events("watch-services-from-now.http")
    for event in ours + theirs:
        event["object"]["metadata"].pop("resourceVersion")
    assert json.dumps(ours) == json.dumps(theirs)


def test_a_streaming_list_ends_with_the_annotated_bookmark(apiserver,
                                                           client):
    """And is refused with 422 where the server lacks it."""
    apiserver.max_watch_seconds = 0.2
    load_recording(apiserver, "services.json")
    path = (SERVICES + "?watch=1&allowWatchBookmarks=true&sendInitialEvents="
            "true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1")
    ours = client.events(path)
    theirs = recorded_events("watchlist-services.http")
    assert len(ours) >= len(theirs)
    for event in ours + theirs:
        event["object"]["metadata"].pop("resourceVersion")
    assert json.dumps(ours[:len(theirs)]) == json.dumps(theirs)
    apiserver.watch_list = "off"
    status, body = client.get(path)
    assert (status, json.loads(body)["reason"]) == (422, "Invalid")
    apiserver.watch_list = "ignore"
    assert not [e for e in client.events(path)
                if e["type"] == "BOOKMARK" and e["object"]["metadata"].get(
                    "annotations")]


def test_a_version_that_is_gone_is_an_error_event(apiserver, client):
    """200 and one ERROR event, as recorded."""
    apiserver.apply(objects.service("ns1", "svc-a"))
    apiserver.compact()
    ours = client.events(SERVICES + "?watch=1&resourceVersion=5")
    theirs = recorded_events("watch-410.http")
    theirs[0]["object"]["message"] = (
        "too old resource version: 5 (%d)" % apiserver.store.rv)
    assert json.dumps(ours) == json.dumps(theirs)


def test_bookmarks_have_the_recorded_text(apiserver, client):
    """Each kind shows its empty fields."""
    for name, path in (("watch-services.http", SERVICES),
                       ("watch-endpointslices.http", SLICES),
                       ("watch-nodes.http", "/api/v1/nodes")):
        theirs = [e for e in recorded_events(name)
                  if e["type"] == "BOOKMARK"][0]
        path = watch_path(apiserver, path, 9, "&allowWatchBookmarks=true")
        with watching(apiserver, client, path) as response:
            assert apiserver.bookmark() == 1
            ours, = next_events(response, 1)
        rv = str(apiserver.store.rv)
        theirs["object"]["metadata"]["resourceVersion"] = rv
        assert json.dumps(ours) == json.dumps(theirs)
        apiserver.cut_connections()


def test_bookmarks_come_by_themselves_and_at_the_end(apiserver, client):
    """At the interval, if asked for."""
    apiserver.bookmark_interval = 0.3
    path = watch_path(apiserver, more="&allowWatchBookmarks=true")
    events = client.events(path)
    assert 3 / slowness() <= len(events) <= 5
    assert {e["type"] for e in events} == {"BOOKMARK"}
    assert client.events(watch_path(apiserver)) == []


def test_a_selecting_watch_shows_leaving_as_deleted(apiserver, client):
    """And coming back as ADDED; the last state that matched is shown."""
    plain = objects.service("ns1", "svc-a", labels={"a": "1"})
    foreign = objects.service("ns1", "svc-a", labels={
        "service.kubernetes.io/service-proxy-name": "other"})
    apiserver.apply(plain)
    path = watch_path(apiserver, more="&" + NOT_FOREIGN, seconds=9)
    with watching(apiserver, client, path) as response:
        apiserver.apply(foreign)
        rv = apiserver.store.rv
        apiserver.apply(foreign, force=True)
        apiserver.apply(plain)
        apiserver.delete(plain)
        events = next_events(response, 3)
    assert [e["type"] for e in events] == ["DELETED", "ADDED", "DELETED"]
    assert events[0]["object"]["metadata"]["labels"] == {"a": "1"}
    assert events[0]["object"]["metadata"]["resourceVersion"] == str(rv)


def test_replacing_by_an_equal_object_is_no_change(apiserver):
    """No event, no new version; with force there is one."""
    first = apiserver.apply(objects.service("ns1", "svc-a"))
    assert apiserver.apply(objects.service("ns1", "svc-a")) is first
    again = apiserver.apply(objects.service("ns1", "svc-a"), force=True)
    assert again.rv == first.rv + 1
    assert again.obj["metadata"]["uid"] == first.obj["metadata"]["uid"]


def test_a_batch_leaves_in_one_write(apiserver, client, monkeypatch):
    """All its events, to each watch."""
    writes = []
    head = apifault.Wire.head

    def spy(self, data):
        writes.append(data)
        head(self, data)

    path = watch_path(apiserver, seconds=9)
    with watching(apiserver, client, path) as response:
        monkeypatch.setattr(apifault.Wire, "head", spy)
        with apiserver.batch():
            for i in range(5):
                apiserver.apply(objects.service("ns1", "svc-%d" % i))
        next_events(response, 5)
        monkeypatch.undo()
    assert [data.count(b'"ADDED"') for data in writes] == [5]


def test_the_order_across_resources_can_be_chosen(apiserver, client):
    """A held resource lags behind, as caches do."""
    path = watch_path(apiserver, seconds=9)
    with watching(apiserver, client, path) as services:
        slices = client.open(watch_path(apiserver, SLICES, 9))
        apiserver.hold("services")
        apiserver.apply(objects.service("ns1", "svc-a"))
        apiserver.apply(objects.slice_("ns1", "svc-a", ["10.10.1.2"]))
        assert next_events(slices, 1)[0]["type"] == "ADDED"
        apiserver.bookmark("services")
        bookmark, = next_events(services, 1)
        assert bookmark["type"] == "BOOKMARK"
        assert (int(bookmark["object"]["metadata"]["resourceVersion"])
                < apiserver.store.rv - 1)
        apiserver.release("services")
        assert next_events(services, 1)[0]["type"] == "ADDED"
        wait_for(lambda: apiserver.delivered(at_least=2), 5, "delivery")


def test_a_thousand_events_a_second_reach_a_watch(apiserver, client):
    """A batch-free stream keeps up by far."""
    path = watch_path(apiserver, SLICES, 60)
    with watching(apiserver, client, path) as response:
        began = time.process_time()
        for i in range(2000):
            apiserver.apply(objects.slice_(
                "ns1", "svc-a", ["10.10.%d.%d" % (i // 200, i % 200)] * 10))
        next_events(response, 2000)
        assert time.process_time() - began < 2 * slowness()


# Faults.

@pytest.mark.parametrize("fields, status, body", [
    ({"status": 500}, 500, b'"reason":"InternalError"'),
    ({"status": 503}, 503, b'"reason":"ServiceUnavailable"'),
    ({"status": 404}, 404, b"404 page not found\n"),
    ({"status": 410}, 410, recorded("error-410-exact.json").encode()),
    ({"status": 502, "body": b"<html>", "content_type": "text/html"}, 502,
     b"<html>"),
])
def test_an_error_is_sent_as_often_as_told(apiserver, client, fields, status,
                                           body):
    """To the resource and verb named, after those to be skipped."""
    fault = apiserver.fault(resource="services", verb="list", count=2,
                            skip=1, **fields)
    assert client.get("/api/v1/nodes")[0] == 200
    seen = [client.get(SERVICES) for _ in range(4)]
    assert [s for s, _ in seen] == [200, status, status, 200]
    assert body in seen[1][1]
    assert fault.hits == 2


def test_too_many_requests_carry_retry_after(apiserver, client):
    """As the server's own overload protection answers."""
    apiserver.fault(status=429, headers={"Retry-After": "7"})
    response = client.open(SERVICES)
    assert (response.status, response.headers["Retry-After"]) == (429, "7")
    assert response.read() == b"Too many requests, please try again later.\n"


def test_a_recording_is_replayed_byte_for_byte(apiserver):
    """As the whole response to one request."""
    raw = (RECORDINGS / "watch-services.http").read_bytes()
    apiserver.fault(resource="services", verb="watch", raw=raw)
    assert request_raw(apiserver, SERVICES + "?watch=1") == raw


def request_raw(api, path):
    """All bytes of the answer to one request, up to the end."""
    with socket.create_connection(("127.0.0.1", api.port), 10) as sock:
        sock.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
        data = b""
        while True:
            more = sock.recv(65536)
            if not more:
                return data
            data += more


def test_a_connection_is_cut_after_so_many_bytes(apiserver):
    """By FIN, or by RST."""
    apiserver.apply(objects.service("ns1", "svc-a"))
    apiserver.fault(cut_after=100)
    data = request_raw(apiserver, SERVICES)
    assert len(data.split(b"\r\n\r\n", 1)[1]) == 100
    apiserver.fault(cut_after=100, how="rst")
    with pytest.raises(ConnectionResetError):
        request_raw(apiserver, SERVICES)


def test_a_watch_is_cut_in_the_middle_of_an_event(apiserver):
    """The events before are whole."""
    for i in range(3):
        apiserver.apply(objects.service("ns1", "svc-%d" % i))
    apiserver.fault(verb="watch", cut_event=2)
    data = request_raw(apiserver, SERVICES + "?watch=1")
    assert data.count(b"}\n") == 2
    assert data.count(b'"ADDED"') == 3


def test_events_are_split_and_dripped(apiserver, client):
    """The content stays; so do garbage lines put between."""
    apiserver.max_watch_seconds = 0.2
    for i in range(3):
        apiserver.apply(objects.service("ns1", "svc-%d" % i))
    path = SERVICES + "?watch=1&timeoutSeconds=1"
    plain = client.get(path)[1]
    apiserver.fault(split=(1, 20, 300))
    assert client.get(path)[1] == plain
    apiserver.fault(piece=1000, drip=(700, 0.001))
    assert client.get(path)[1] == plain
    apiserver.fault(insert=b"garbage\n", insert_at=1)
    lines = client.get(path)[1].split(b"\n")
    assert lines[1] == b"garbage"
    assert b"\n".join(lines[:1] + lines[2:]) == plain


def test_a_stalled_request_is_silent_until_released(apiserver):
    """Accepted, never answered; then cut."""
    fault = apiserver.fault(stall=True)
    with socket.create_connection(("127.0.0.1", apiserver.port)) as sock:
        sock.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
                     % SERVICES.encode())
        wait_for(lambda: fault.hits, 5, "the request")
        sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        apiserver.release_stalls()
        sock.settimeout(5)
        assert sock.recv(1) == b""


def test_running_watches_obey_commands(apiserver, client):
    """Raw bytes, an ERROR event, the end, a cut: after what was before."""
    path = watch_path(apiserver, seconds=60)
    with watching(apiserver, client, path) as response:
        apiserver.apply(objects.service("ns1", "svc-a"))
        assert apiserver.send_raw("services", b"garbage\n") == 1
        assert next_events(response, 1)[0]["type"] == "ADDED"
        assert response.readline() == b"garbage\n"
        apiserver.send_error("services")
        assert next_events(response, 1)[0]["object"]["code"] == 410
        assert response.read() == b""
    path = watch_path(apiserver, seconds=60)
    with watching(apiserver, client, path) as response:
        apiserver.cut_connections("rst", "services")
        with pytest.raises((ConnectionResetError,
                            http.client.IncompleteRead)):
            response.read()


def test_an_outage_refuses_and_ends_on_the_same_port(apiserver, client):
    """Objects and versions survive it."""
    apiserver.apply(objects.service("ns1", "svc-a"))
    before = client.json(SERVICES)
    apiserver.stop("rst")
    with pytest.raises(ConnectionRefusedError):
        client.get(SERVICES)
    apiserver.start()
    assert client.json(SERVICES) == before


def test_a_frozen_server_takes_connections_and_is_silent(apiserver, client):
    """And goes on where it was."""
    apiserver.freeze()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(
        client.get(SERVICES)[0]))
    thread.start()
    thread.join(0.3)
    assert not answers
    apiserver.thaw()
    thread.join(5)
    assert answers == [200]


def test_raw_bytes_are_listed_as_they_are(apiserver, client):
    """So that any malformed object can be served."""
    apiserver.apply(objects.service("ns1", "svc-a"))
    apiserver.put_raw("services", "ns1", "svc-b", b'{"metadata":\xff')
    assert client.get(SERVICES)[1].endswith(b',{"metadata":\xff]}\n')


# Writing.

def test_objects_are_written_over_http(apiserver, client):
    """create, conflict, replace, patch, get, delete."""
    path = "/api/v1/namespaces/ns1/services"
    text = json.dumps(objects.service("ns1", "svc-a"))
    assert client.open(path, "POST", text).status == 201
    assert client.open(path, "POST", text).status == 409
    response = client.open(path + "/svc-a", "PATCH",
                           '{"metadata":{"labels":{"x":"y"}}}', **MERGE)
    assert json.loads(response.read())["metadata"]["labels"] == {"x": "y"}
    assert client.open(path + "/svc-a", "PUT", text).status == 200
    one = client.json(path + "/svc-a")
    assert list(one)[:3] == ["kind", "apiVersion", "metadata"]
    stale = json.dumps({**one, "metadata": {
        **one["metadata"], "resourceVersion": "1"}})
    assert client.open(path + "/svc-a", "PUT", stale).status == 409
    assert client.open(path + "/svc-a", "DELETE").status == 200
    status, body = client.get(path + "/svc-a")
    assert status == 404
    assert json.loads(body)["message"] == 'services "svc-a" not found'
    assert not apiserver.objects("services")


def test_a_merge_patch_changes_what_it_names(apiserver, client):
    """Of a Node, as a real server does: with an event, unless it is none."""
    node = objects.node("n1")
    node["metadata"]["annotations"] = {"a": "1", "b": "2"}
    apiserver.apply(node)
    path = "/api/v1/nodes/n1"

    def patch(annotations, **more):
        body = {"metadata": {"annotations": annotations, **more}}
        response = client.open(path, "PATCH", json.dumps(body), **MERGE)
        return response.status, json.loads(response.read())["metadata"]

    before = client.json(path)["metadata"]
    status, after = patch({"b": None, "c": "3"})
    assert status == 200
    assert after["annotations"] == {"a": "1", "c": "3"}
    assert after["uid"] == before["uid"]
    assert int(after["resourceVersion"]) > int(before["resourceVersion"])
    assert patch({"c": "3"}) == (200, after), "no change"
    rv = before["resourceVersion"]
    assert patch({"c": "4"}, resourceVersion=rv)[0] == 409
    assert patch({"c": "4"}, resourceVersion=after["resourceVersion"])[0] \
        == 200
    apiserver.max_watch_seconds = 0.2
    events = client.events("/api/v1/nodes?watch=1&resourceVersion=" + rv)
    assert [e["object"]["metadata"]["annotations"]["c"] for e in events] \
        == ["3", "4"]


def test_a_patch_of_another_type_is_refused(apiserver, client):
    """Only merge patches are known here."""
    apiserver.apply(objects.node("n1"))
    for kind in ("application/json", "application/json-patch+json",
                 "application/strategic-merge-patch+json"):
        assert client.open("/api/v1/nodes/n1", "PATCH", "{}",
                           **{"Content-Type": kind}).status == 415
    assert client.open("/api/v1/nodes/n2", "PATCH", "{}",
                       **MERGE).status == 404


def test_an_event_gets_its_name(apiserver, client):
    """generateName, as the recording has it."""
    theirs = json.loads(recorded("event-created-201.json"))
    meta = {k: theirs["metadata"][k] for k in ("generateName", "namespace")}
    response = client.open(
        "/apis/events.k8s.io/v1/namespaces/edge/events", "POST",
        json.dumps({**theirs, "metadata": meta}))
    assert response.status == 201
    ours = json.loads(response.read())
    assert list(ours) == list(theirs)
    assert list(ours["metadata"]) == list(theirs["metadata"])
    assert ours["metadata"]["name"].startswith("lb-")
    assert len(apiserver.objects("events")) == 1


@pytest.mark.parametrize("change, message", [
    ({"reportingController": None}, "reportingController"),
    ({"reportingInstance": ""}, "reportingInstance: Required"),
    ({"reportingInstance": "x" * 129}, "reportingInstance: can have at most"),
    ({"action": None}, "action: Required"),
    ({"reason": "x" * 129}, "reason: can have at most"),
    ({"type": "Error"}, "type: has invalid value"),
    ({"eventTime": "2026-11-29T13:55:00Z"}, "eventTime"),
    ({"note": "x" * 1025}, "note: can have at most 1024"),
    ({"note": "\u00fc" * 513}, "note: can have at most 1024"),
    ({"count": 2}, "count: unknown field"),
    ({"deprecatedCount": 2}, "deprecatedCount: needs to be unset"),
    ({"regarding": {"namespace": "other"}}, "regarding.namespace"),
    ({"regarding": {"foo": "x"}}, "regarding.foo: unknown field"),
    ({"series": {"count": 1, "lastObservedTime":
                 "2026-11-29T13:55:00.000000Z"}}, "series.count"),
    ({"series": {"count": 2}}, "series.lastObservedTime"),
    ({"metadata": {"name": "A"}}, "metadata.name")], ids=str)
def test_an_event_is_checked(apiserver, client, change, message):
    """As a real server checks it; and no field of it may change."""
    path = "/apis/events.k8s.io/v1/namespaces/edge/events"
    event = json.loads(recorded("event-created-201.json"))
    wrong = apihttp.merge(event, change)
    if "metadata" not in change:
        wrong["metadata"] = {"name": "lb-1"}
    response = client.open(path, "POST", json.dumps(wrong))
    assert response.status == 422
    assert message in json.loads(response.read())["message"]
    assert not apiserver.objects("events")


def test_only_the_series_of_an_event_may_change(client):
    """The rest is what has happened."""
    path = "/apis/events.k8s.io/v1/namespaces/edge/events"
    event = json.loads(recorded("event-created-201.json"))
    event["metadata"] = {"name": "lb-1"}
    assert client.open(path, "POST", json.dumps(event)).status == 201
    series = {"count": 3, "lastObservedTime": "2026-11-29T13:56:00.000000Z"}
    for change, status in (({"note": "other"}, 422), ({"series": series}, 200),
                           ({"series": {"count": 1}}, 422)):
        assert client.open(path + "/lb-1", "PATCH", json.dumps(change),
                           **MERGE).status == status


def test_version_and_health_are_answered(client):
    """As clients and probes ask."""
    assert client.json("/version")["minor"] == "34"
    assert client.get("/livez") == (200, b"ok")


def test_requests_are_logged(apiserver, client):
    """So that tests can count them."""
    apiserver.max_watch_seconds = 0.2
    client.get(SERVICES + "?limit=5")
    client.get(watch_path(apiserver, SLICES))
    assert [(r.verb, r.resource) for r in apiserver.requests] == [
        ("list", "services"), ("watch", "endpointslices")]
    assert apiserver.requests_for("services")[0].query == {"limit": "5"}


def test_it_runs_as_a_program(tmp_path):
    """With objects from a file, TLS and commands."""
    path = tmp_path / "objects.json"
    path.write_text(json.dumps(objects.cluster_objects(20, 3)))
    with RemoteApiServer(tmp_path, "--objects", str(path), "--tls") as api:
        assert api.url.startswith("https://127.0.0.1:")
        assert len(api.objects("services")) == 20
        api.apply(objects.service("ns1", "svc-a"))
        api.changes([["delete", "services", "ns1", "svc-a"]])
        assert len(api.objects("services")) == 20
        with pytest.raises(RuntimeError, match="KeyError"):
            api.objects("nonsense")


def test_a_large_cluster_is_listed_in_a_second(apiserver, client):
    """10 000 Services and slices of 10 endpoints: 20 MB and more."""
    apiserver.apply_all(objects.cluster_objects(10000, 10))
    began = time.process_time()
    sizes = [len(client.get(path)[1]) for path in (SERVICES, SLICES)]
    assert time.process_time() - began < 2 * slowness()
    assert sum(sizes) > 20e6
