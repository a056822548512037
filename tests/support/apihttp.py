# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 and REST of the scripted API server: one thread a connection."""
import base64
import email.utils
import gzip
import json
import select
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field

from support import apievents, apifault, apiselect, apistore, apiwatch
from support.apifault import Cut, status_body

VERSION = {
    "major": "1", "minor": "34", "emulationMajor": "1",
    "emulationMinor": "34", "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "33", "gitVersion": "v1.34.2",
    "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.24", "compiler": "gc", "platform": "linux/amd64"}
EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list "
    "result. You can start a new list without the continue parameter, or use "
    "the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent "
    "list - objects that were created, modified, or deleted between the time "
    "the first chunk was returned and now may show up in the list.")
NO_WATCH_LIST = ("sendInitialEvents is forbidden for watch unless the "
                 "WatchList feature gate is enabled")
WRITE_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch",
               "DELETE": "delete"}
MERGE_PATCH = "application/merge-patch+json"
CHUNKED_FROM = 16384            # Longer answers have no Content-Length.


class Answer(Exception):
    """An answer other than the usual one: status and Status object."""

    def __init__(self, code, *args, **kwargs):
        super().__init__(code)
        self.code = code
        self.body = apistore.dumps(status_body(code, *args, **kwargs)) + b"\n"


@dataclass
class Request:
    """One request, as it is also kept in the server's log."""
    method: str
    path: str
    query: dict
    headers: dict = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    user: str = None
    auth: str = "none"          # none, token, cert or bad.
    resource: str = None        # Plural, or "version" and such.
    namespace: str = ""
    name: str = None
    verb: str = None
    time: float = 0
    status: int = None
    packed: bool = False        # The answer, with gzip.

    def number(self, key, default=None):
        """A query parameter as an integer."""
        text = self.query.get(key, "")
        return int(text) if text.isdigit() else default

    def flag(self, key):
        """A boolean query parameter."""
        return self.query.get(key) in ("1", "true", "True")


def forbidden(request):
    """The 403 for a request."""
    parts = request.path.split("/")
    group = parts[2] if parts[1] == "apis" and len(parts) > 2 else ""
    qualified = ".".join(filter(None, (request.resource, group)))
    scope = ('in the namespace "%s"' % request.namespace
             if request.namespace else "at the cluster scope")
    message = ('%s is forbidden: User "%s" cannot %s resource "%s" in API '
               'group "%s" %s' % (qualified, request.user or "anonymous",
                                  request.verb, request.resource, group,
                                  scope))
    details = {"group": group} if group else {}
    return Answer(403, message, details={**details,
                                         "kind": request.resource})


def check_event(resource, obj, old=None):
    """Raises the 422 for an Event that is wrong."""
    wrong = (apievents.check(obj, old)
             if resource is apistore.EVENTS else [])
    if wrong:
        name = obj["metadata"].get("name", "")
        raise Answer(422, 'Event.events.k8s.io "%s" is invalid: %s'
                     % (name, ", ".join(wrong)))


def encode_token(rv, start):
    """A continue token."""
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": rv, "start": start},
                      separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_token(token):
    """The (version, start) of a continue token; ValueError if garbage."""
    padded = token + "=" * (-len(token) % 4)
    value = json.loads(base64.urlsafe_b64decode(padded))
    return value["rv"], value["start"]


class Reader:
    """Reads requests from a socket."""

    def __init__(self, sock):
        self._sock = sock
        self._data = b""

    def _more(self):
        data = self._sock.recv(65536)
        if not data:
            raise Cut("closed by the client")
        self._data += data

    def _until(self, mark):
        while mark not in self._data:
            self._more()
        found, self._data = self._data.split(mark, 1)
        return found

    def _exactly(self, n):
        while len(self._data) < n:
            self._more()
        found, self._data = self._data[:n], self._data[n:]
        return found

    def _chunked(self):
        body = b""
        while True:
            size = int(self._until(b"\r\n").split(b";")[0], 16)
            body += self._exactly(size)
            self._until(b"\r\n")
            if size == 0:
                return body

    def request(self):
        """The next request; raises Cut when there is none."""
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = {}
        for line in lines[1:]:
            key, _, value = line.partition(":")
            headers[key.strip().lower()] = value.strip()
        if "100-continue" in headers.get("expect", "").lower():
            self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunked()
        else:
            body = self._exactly(int(headers.get("content-length", 0)))
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query,
                                            keep_blank_values=True))
        return Request(method, urllib.parse.unquote(url.path), query,
                       headers, body, time=time.monotonic())


class Connection:
    """Serves one client until either side ends it."""

    def __init__(self, server, sock):
        self._server = server
        self.sock = sock
        self._reader = Reader(sock)
        self._wire = apifault.Wire(sock, lambda stall: server.gate(self,
                                                                   stall))
        self.thread = threading.current_thread()
        self.watch = self.released = None

    def serve(self):
        """Answers requests, one after the other."""
        try:
            while True:
                request = self._reader.request()
                self._handle(request)
                if request.headers.get("connection", "").lower() == "close":
                    break
        except (Cut, OSError, ssl.SSLError, ValueError):
            pass
        finally:
            self.close()

    def close(self):
        """Closes the socket; for ever."""
        try:
            self.sock.close()
        except OSError:
            pass

    def _gone(self):
        """Whether the client has closed, seen below TLS."""
        if self._server.stopping:
            return True
        try:
            readable, _, _ = select.select([self.sock], [], [], 0)
            return bool(readable) and not socket.socket.recv(
                self.sock, 1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    # Dispatch.

    def _handle(self, request):
        resource = self._route(request)
        self._server.authenticate(request, self.sock)
        self._server.log(request)
        fault, self.released = self._server.fault_for(request)
        self._wire.start(fault)
        try:
            if fault and self._spoil(request, fault):
                return
            if request.auth == "bad":
                raise Answer(401)
            self._dispatch(request, resource)
        except Answer as answer:
            headers = {"Retry-After": "1"} if answer.code == 504 else {}
            self._send(request, answer.code, answer.body, headers=headers)
        except apiselect.SelectorError as error:
            self._send(request, 400, apistore.dumps(
                status_body(400, str(error))) + b"\n")

    def _route(self, request):
        """Fills in what the request is for; returns the Resource or None."""
        parts = request.path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            request.resource, request.verb = request.path.strip("/"), "get"
            return None
        if rest[0] == "namespaces" and len(rest) > 2:
            request.namespace, rest = rest[1], rest[2:]
        request.resource = rest[0]
        request.name = rest[1] if len(rest) > 1 else None
        if request.method != "GET":
            request.verb = WRITE_VERBS.get(request.method, "other")
        elif request.name:
            request.verb = "get"
        else:
            request.verb = "watch" if request.flag("watch") else "list"
        return self._server.store.find_resource(group, version, rest[0])

    def _spoil(self, request, fault):
        """Applies a fault; true if that was the whole answer."""
        time.sleep(fault.delay)
        if fault.stall:
            self._wire.stall()
        if fault.raw is not None:
            request.status = 0
            self._wire.body(fault.raw)
            apifault.cut(self.sock, fault.how)
        if fault.status == 403 and not (fault.message or fault.body):
            raise forbidden(request)
        if fault.is_answer:
            code, content_type, body = fault.answer()
            self._send(request, code, body, content_type, fault.headers)
            return True
        return False

    def _dispatch(self, request, resource):
        if resource is None:
            self._send_other(request)
        elif request.verb == "list":
            self._list(request, resource)
        elif request.verb == "watch":
            self._watch(request, resource)
        else:
            self._one(request, resource)

    def _send_other(self, request):
        """/version, the health checks, and what does not exist."""
        if request.resource == "version":
            body = json.dumps(self._server.version, indent=2).encode()
            self._send(request, 200, body)
        elif request.resource in ("livez", "readyz", "healthz"):
            self._send(request, 200, b"ok", "text/plain; charset=utf-8")
        else:
            self._send(request, 404, apifault.PLAIN_BODIES[404],
                       "text/plain; charset=utf-8")

    # Sending.

    def _head(self, request, code, content_type, extra):
        request.status = code
        reason = apifault.REASONS.get(code, ("", "OK"))[1]
        headers = {
            "Audit-Id": str(uuid.uuid4()),
            "Cache-Control": "no-cache, private",
            "Content-Type": content_type,
            "X-Kubernetes-Pf-Flowschema-Uid": self._server.uid,
            "X-Kubernetes-Pf-Prioritylevel-Uid": self._server.uid,
            "Date": email.utils.formatdate(usegmt=True), **extra}
        lines = "".join("%s: %s\r\n" % item for item in headers.items())
        self._wire.head(("HTTP/1.1 %d %s\r\n%s\r\n"
                         % (code, reason, lines)).encode())

    def _send(self, request, code, body, content_type="application/json",
              headers=None):
        """A whole answer."""
        headers = dict(headers or {})
        accepted = request.headers.get("accept-encoding", "")
        if (self._server.packs and "gzip" in accepted
                and len(body) > 128 * 1024):
            body = gzip.compress(body, 1)
            headers["Content-Encoding"] = "gzip"
            request.packed = True
        if len(body) < CHUNKED_FROM and not self._wire.fault:
            headers["Content-Length"] = str(len(body))
            self._head(request, code, content_type, headers)
            self._wire.body(body)
            return
        headers["Transfer-Encoding"] = "chunked"
        self._head(request, code, content_type, headers)
        if self._wire.fault:
            self._wire.chunks(body)
        else:
            for at in range(0, len(body), 65536):
                self._wire.chunks(body[at:at + 65536])
        self._wire.finish()

    # List and watch.

    def _match(self, request, resource):
        """A function that tells which records the request selects."""
        labels = apiselect.parse_labels(
            request.query.get("labelSelector", ""))
        supported = {"metadata.name", "metadata.namespace",
                     *resource.fields} - self._server.unsupported_fields
        fields = apiselect.parse_fields(
            request.query.get("fieldSelector", ""), supported)
        namespace = request.namespace
        return lambda r: ((not namespace or r.namespace == namespace)
                          and labels(r.labels) and fields(r.fields))

    def _list(self, request, resource):
        match = self._match(request, resource)
        store = self._server.store
        token = request.query.get("continue", "")
        rv = request.number("resourceVersion")
        with store.lock:
            start, at = self._list_start(request, rv, token)
            try:
                records = store.records(resource, at)
            except apistore.Expired:
                raise self._expired(start) from None
            at = store.rv if at is None else at
        records = [r for r in records if match(r)]
        if start is not None:
            records = [r for r in records if "/%s/%s" % r.key >= start]
        limit = None if rv == 0 else request.number("limit")
        selected = any(request.query.get(k) for k in ("labelSelector",
                                                      "fieldSelector"))
        self._send(request, 200, self._list_body(resource, records, at,
                                                 limit, selected))

    def _list_start(self, request, rv, token):
        """Where a list begins: (start key or None, version or None)."""
        if token:
            try:
                at, start = decode_token(token)
            except (ValueError, KeyError, TypeError) as error:
                raise Answer(400, "invalid continue token: continue key is "
                             "not valid: %s" % error) from None
            return "/" + start.lstrip("/"), at if at > 0 else None
        current = self._server.store.rv
        if rv and rv > current:
            time.sleep(self._server.future_delay)
            raise Answer(
                504, "Timeout: Too large resource version: %d, current: %d"
                % (rv, current), details={
                    "causes": [{"reason": "ResourceVersionTooLarge",
                                "message": "Too large resource version"}],
                    "retryAfterSeconds": 1})
        if rv and request.query.get("resourceVersionMatch") == "Exact":
            return None, rv
        return None, None

    @staticmethod
    def _expired(start):
        if start is None:
            return Answer(410)
        return Answer(410, EXPIRED_CONTINUE, metadata={
            "continue": encode_token(-1, start.lstrip("/"))})

    @staticmethod
    def _list_body(resource, records, rv, limit, selected):
        meta = {"resourceVersion": str(rv)}
        if resource.crd:
            meta = {"continue": "", **meta}
        if limit and len(records) > limit:
            left = len(records) - limit
            records = records[:limit]
            meta["continue"] = encode_token(
                rv, "/%s/%s\0" % records[-1].key)
            if not selected:
                meta["remainingItemCount"] = left
        items = b",".join([r.body for r in records])
        meta = apistore.dumps(meta)
        kind = resource.kind.encode() + b"List"
        version = resource.api_version.encode()
        if resource.crd:
            return (b'{"apiVersion":"%s","items":[%s],"kind":"%s",'
                    b'"metadata":%s}\n' % (version, items, kind, meta))
        return (b'{"kind":"%s","apiVersion":"%s","metadata":%s,'
                b'"items":[%s]}\n' % (kind, version, meta, items))

    def _watch(self, request, resource):
        server = self._server
        initial = request.flag("sendInitialEvents")
        if initial and server.watch_list == "off":
            raise Answer(422, 'ListOptions.meta.k8s.io "" is invalid: '
                         "sendInitialEvents: Forbidden: " + NO_WATCH_LIST,
                         details={
                             "group": "meta.k8s.io", "kind": "ListOptions",
                             "causes": [{
                                 "reason": "FieldValueForbidden",
                                 "message": "Forbidden: " + NO_WATCH_LIST,
                                 "field": "sendInitialEvents"}]})
        timeout = request.number("timeoutSeconds") or 1800
        options = {
            "rv": request.number("resourceVersion"),
            "initial": initial and server.watch_list == "on",
            "bookmarks": request.flag("allowWatchBookmarks"),
            "timeout": min(timeout, server.max_watch_seconds),
            "interval": server.bookmark_interval}
        match = self._match(request, resource)
        self._head(request, 200, "application/json",
                   {"Transfer-Encoding": "chunked"})
        self.watch = apiwatch.Watch(server.store, self._wire, resource,
                                    match, options)
        try:
            self.watch.run(self._gone)
        finally:
            self.watch = None

    # Single objects.

    def _one(self, request, resource):
        """get, create, update, patch, delete."""
        if (request.verb == "create") != (request.name is None):
            raise Answer(405, "the server does not allow this method on the "
                         "requested resource", details={})
        if request.verb == "create":
            code, record = 201, self._create(request, resource)
        else:
            code, record = 200, self._existing(request, resource)
        self._send(request, code, record.full + b"\n")

    @staticmethod
    def _object(request, resource, base=None):
        """The object in the request's body, patched onto 'base'."""
        try:
            obj = json.loads(request.body)
        except ValueError as error:
            raise Answer(400, "error decoding: %s" % error) from None
        if base is not None:
            obj = merge(base, obj)
        if not isinstance(obj, dict):
            raise Answer(400, "not an object")
        meta = obj.setdefault("metadata", {})
        if resource.namespaced and request.namespace:
            meta["namespace"] = request.namespace
        meta.pop("managedFields", None)
        obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
        return obj

    def _create(self, request, resource):
        obj = self._object(request, resource)
        meta = obj["metadata"]
        for key in apistore.SERVER_OWNED:
            meta.pop(key, None)
        if not (meta.get("name") or meta.get("generateName")):
            raise Answer(422, "name or generateName is required")
        check_event(resource, obj)
        try:
            return self._server.store.apply(obj, create=True)
        except apistore.Conflict as error:
            raise Answer(409, str(error), details={
                "name": meta.get("name"), "kind": resource.plural}) from None

    @staticmethod
    def _base(request, old):
        """What the request's body is merged into; None: it replaces."""
        if request.verb != "patch":
            return None
        given = request.headers.get("content-type", "").split(";")[0]
        if given.strip() != MERGE_PATCH:
            raise Answer(415, "the body of the request was in an unknown "
                         "format - accepted media types include: "
                         + MERGE_PATCH, details={})
        return old.obj

    def _existing(self, request, resource):
        store = self._server.store
        with store.lock:
            old = store.get(resource, request.namespace, request.name)
            if old is None:
                raise Answer(404, '%s "%s" not found'
                             % (resource.qualified, request.name),
                             details={"name": request.name,
                                      "kind": resource.plural})
            if request.verb == "get":
                return old
            if request.verb == "delete":
                return store.delete(resource, *old.key)
            base = self._base(request, old)
            obj = self._object(request, resource, base)
            obj["metadata"]["name"] = request.name
            given = obj["metadata"].get("resourceVersion")
            if given and given != str(old.rv):
                raise Answer(409, 'Operation cannot be fulfilled on %s "%s":'
                             " the object has been modified"
                             % (resource.qualified, request.name),
                             "Conflict")
            check_event(resource, obj, old.obj)
            return store.apply(obj)


def merge(base, patch):
    """RFC 7386: 'patch' merged into 'base'."""
    if not isinstance(patch, dict):
        return patch
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
