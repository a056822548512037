#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A scripted Kubernetes API server: the truth on demand, and lies too.

In a test:

    with ApiServer(directory) as api:
        api.apply(objects.service("default", "web", ...))
        api.fault(resource="services", verb="watch", cut_event=2)

Lists, watches and single objects over HTTP/1.1, with TLS, client
certificates and tokens if asked for; shapes and semantics are those of
kube-apiserver 1.34.  See tests/README.md for what can be commanded.

As a program (`apiserver.py --help`) it runs by itself and takes commands as
JSON lines on its standard input; RemoteApiServer speaks to such a one.
"""
import argparse
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import threading

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

# pylint: disable=wrong-import-position
from support import apifault, apihttp, apistore, certs, setns  # noqa: E402

LISTEN_BACKLOG = 128


class ApiServer:
    """The server, on threads of this process.

    directory: where its certificates go.
    tls: serve https, with `ca` (certs.Authority) as the root; `client_cert`
        and `client_key` are a certificate that it accepts.
    tokens: {token: user} that are let in; None: no token needed.
    client_certs: with TLS, a client certificate (or a token) is needed.
    netns: name of the network namespace in which it listens.
    """

    # Behaviour that a test may change at any time.
    watch_list = "on"           # sendInitialEvents: on, off (422), ignore.
    packs = True                # What is long, for those who take gzip.
    bookmark_interval = 60.0
    max_watch_seconds = 86400.0
    future_delay = 0.0          # Before the 504 of a future version.

    def __init__(self, directory, *, address="127.0.0.1", port=0, netns=None,
                 tls=False, names=(), tokens=None, client_certs=False,
                 seed=1):
        self.directory = pathlib.Path(directory)
        self.address, self.port, self.netns = address, port, netns
        self.names = (address, "localhost", *names)
        self.tokens = tokens
        self.client_certs = client_certs
        self.unsupported_fields = set()
        self.version = dict(apihttp.VERSION)
        self.store = apistore.Store(seed=seed)
        self.uid = "8e499427-4179-4372-91ca-d207fb904464"
        self.requests = []
        self.stopping = False
        self._faults = []
        self._connections = set()
        self._lock = threading.Lock()
        self._open = threading.Event()      # Cleared: frozen.
        self._released = threading.Event()  # Set: stalled ones end.
        self._open.set()
        self._listener = None
        self._tls = None
        self.ca = self.client_cert = self.client_key = None
        if tls:
            self.new_ca()
        for name in ("apply", "delete", "put_raw", "get", "batch", "compact",
                     "hold", "release", "add_resource", "remove_resource"):
            setattr(self, name, getattr(self.store, name))

    # Life.

    def start(self):
        """Listens; self.port is known from then on."""
        self.stopping = False
        self._open.set()
        self._released.clear()
        self._listener = setns.call(self.netns, self._listen)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,),
                         daemon=True).start()
        return self

    def _listen(self):
        family = (socket.AF_INET6 if ":" in self.address
                  else socket.AF_INET)
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self.address, self.port))
        sock.listen(LISTEN_BACKLOG)
        return sock

    def stop(self, how="fin"):
        """Refuses connections and cuts the present ones.  May be started
        again: on the same port, with the same objects."""
        self.stopping = True
        listener, self._listener = self._listener, None
        if listener:
            try:
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listener.close()
        self._open.set()
        self._released.set()
        self.cut_connections(how)

    __enter__ = start

    def __exit__(self, *_):
        self.stop()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,),
                             daemon=True).start()

    def _serve(self, sock):
        """One connection, from the handshake on."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.gate(None, False)
            if self._tls:
                sock = self._tls.wrap_socket(sock, server_side=True)
        except (OSError, apifault.Cut):
            sock.close()
            return
        connection = apihttp.Connection(self, sock)
        with self._lock:
            if self.stopping:
                connection.close()
                return
            self._connections.add(connection)
        connection.serve()
        with self._lock:
            self._connections.discard(connection)

    @property
    def url(self):
        """What a kubeconfig calls `server`."""
        host = "[%s]" % self.address if ":" in self.address else self.address
        return "http%s://%s:%d" % ("s" if self._tls else "", host, self.port)

    # TLS and credentials.

    def new_ca(self, name="ca"):
        """Makes a new CA and serves with a certificate of it, from the next
        connection on.  The old CA's client certificates are void."""
        self.ca = certs.Authority(self.directory / name, name)
        self.client_cert, self.client_key = self.ca.client()
        self.use_certificate(*self.ca.server(*self.names))

    def use_certificate(self, cert, key):
        """Serves with this certificate from the next connection on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        context.load_verify_locations(self.ca.cert)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        self._tls = context

    def authenticate(self, request, sock):
        """Sets request.user and request.auth; "bad" gets a 401."""
        token = request.headers.get("authorization", "")
        peer = sock.getpeercert() if self._tls else None
        if token.startswith("Bearer ") and self.tokens is not None:
            request.user = self.tokens.get(token[7:])
            request.auth = "token" if request.user else "bad"
        elif peer:
            subject = dict(pair for part in peer["subject"] for pair in part)
            request.user, request.auth = subject.get("commonName"), "cert"
        elif self.tokens is not None or self.client_certs:
            request.auth = "bad"

    def forbid(self, resource=None, verb=None):
        """403 for these from now on; end it by remove() of the result."""
        return self.fault(resource=resource, verb=verb, count=None,
                          status=403)

    # Faults.

    def fault(self, **fields):
        """Arms an apifault.Fault; returns it (see its fields)."""
        fault = apifault.Fault(**fields)
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear_faults(self):
        """Disarms all faults and ends what is stalled."""
        with self._lock:
            self._faults.clear()
        self.release_stalls()

    def fault_for(self, request):
        """The first armed fault that wants this request, and the end of its
        stall; or None for both."""
        with self._lock:
            for fault in self._faults:
                if fault.matches(request.resource, request.verb):
                    return fault, self._released
        return None, None

    def gate(self, connection, stall):
        """Called before each write: blocks while frozen or stalled."""
        if stall:
            (connection.released or self._released).wait()
        self._open.wait()
        if self.stopping:
            raise apifault.Cut("stopped")

    def freeze(self):
        """Falls silent: takes connections, sends nothing, ends nothing."""
        self._open.clear()

    def thaw(self):
        """Ends freeze(); what was held back is sent."""
        self._open.set()

    def release_stalls(self):
        """Cuts the connections that a fault has stalled, or is about to."""
        with self._lock:
            self._released.set()
            self._released = threading.Event()

    def cut_connections(self, how="rst", resource=None):
        """Cuts all connections, or those that watch 'resource'."""
        with self._lock:
            connections = [
                c for c in self._connections
                if resource is None or (c.watch and c.watch.resource
                                        == self.store.resource(resource))]
        for connection in connections:
            apifault.hang_up(connection.sock, how)
        with self.store.batch():
            pass                # Wakes the watches.
        for connection in connections:
            connection.thread.join(1)
            if connection.thread.is_alive():    # It is in a send().
                apifault.hang_up(connection.sock)

    # Running watches.

    def watches(self, resource=None):
        """The running watches of a resource, or all."""
        with self._lock:
            watches = [c.watch for c in self._connections if c.watch]
        if resource is None:
            return watches
        wanted = self.store.resource(resource)
        return [w for w in watches if w.resource == wanted]

    def command(self, resource, *command):
        """A command to the running watches; returns how many there are.

        ("raw", bytes), ("bookmark",), ("end",), ("cut", "rst"), ("stall",)
        after all events so far."""
        watches = self.watches(resource)
        for watch in watches:
            watch.command(*command)
        return len(watches)

    def send_raw(self, resource, data):
        """Puts bytes into the running watches."""
        return self.command(resource, "raw", data)

    def send_error(self, resource, code=410,
                   message="too old resource version: 1 (2)", reason=None):
        """Sends an ERROR event and ends the running watches."""
        line = apihttp.apiwatch.error_line(code, message, reason)
        self.send_raw(resource, line)
        return self.command(resource, "end")

    def bookmark(self, resource=None):
        """Sends a bookmark to the running watches."""
        return self.command(resource, "bookmark")

    def end_watches(self, resource=None):
        """Ends the running watches as a server does at their deadline."""
        return self.command(resource, "end")

    def delivered(self, resource=None, at_least=1):
        """Whether so many watches run and all events have been sent."""
        watches = self.watches(resource)
        return (len(watches) >= at_least
                and all(watch.caught_up for watch in watches))

    # Convenience.

    def log(self, request):
        """Keeps a request for requests_for()."""
        with self._lock:
            self.requests.append(request)

    def requests_for(self, resource=None, verb=None):
        """The requests so far, oldest first."""
        with self._lock:
            return [r for r in self.requests
                    if resource in (None, r.resource)
                    and verb in (None, r.verb)]

    def apply_all(self, objs):
        """Creates or replaces objects in one batch."""
        with self.batch():
            for obj in objs:
                self.apply(obj)

    def changes(self, steps):
        """A batch as data: [["apply", obj], ["delete", kind, ns, name]]."""
        with self.batch():
            for verb, *args in steps:
                {"apply": self.apply, "delete": self.delete}[verb](*args)

    def patch(self, which, namespace, name, change):
        """Merges 'change' into an object (RFC 7386); returns the record."""
        with self.batch():
            old = self.get(which, namespace, name).obj
            return self.apply(apihttp.merge(old, change))

    def objects(self, which):
        """Copies of all objects of a resource, in list order."""
        return [record.obj for record in self.store.records(which)]


# As a program.

REMOTE_CALLS = (
    "apply", "delete", "apply_all", "changes", "patch", "compact", "hold",
    "release", "fault", "clear_faults", "freeze", "thaw", "release_stalls",
    "cut_connections", "bookmark", "end_watches", "send_error", "delivered",
    "objects", "stop", "start")


def _plain(value):
    """A result as JSON can say it."""
    if isinstance(value, (bool, int, str, list, type(None))):
        return value
    return value.rv if isinstance(value, apistore.Record) else None


def _obey(api, line):
    """Carries out one JSON command line; the answer as a dict."""
    try:
        call = json.loads(line)
        if call["call"] not in REMOTE_CALLS:
            raise ValueError("no such call")
        method = getattr(api, call["call"])
        result = method(*call.get("args", ()), **call.get("kwargs", {}))
        return {"result": _plain(result)}
    except Exception as error:  # pylint: disable=broad-except
        return {"error": "%s: %s" % (type(error).__name__, error)}


def _load(api, path):
    """Applies the objects of a file: a JSON array, or one object a line."""
    text = path.read_text()
    if text.lstrip().startswith("["):
        api.apply_all(json.loads(text))
    else:
        api.apply_all(json.loads(line) for line in text.splitlines()
                      if line.strip())


def main():
    """Runs until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--dir", type=pathlib.Path, required=True,
                        help="for certificates")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--netns", help="listen in this network namespace")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--token", action="append",
                        help="a bearer token to let in")
    parser.add_argument("--objects", type=pathlib.Path, action="append",
                        default=[], help="JSON objects to start with")
    options = parser.parse_args()
    tokens = options.token and {t: "scripted" for t in options.token}
    api = ApiServer(options.dir, address=options.address, port=options.port,
                    netns=options.netns, tls=options.tls, tokens=tokens)
    api.packs = False           # It would take longer than what is measured.
    for resource in apistore.MULTICLUSTER:
        api.add_resource(resource)
    for path in options.objects:
        _load(api, path)
    with api:
        ready = {"url": api.url, "pid": os.getpid(),
                 "ca": str(api.ca.cert) if api.ca else None}
        print(json.dumps(ready), flush=True)
        for line in sys.stdin:
            print(json.dumps(_obey(api, line)), flush=True)


class RemoteApiServer:
    """An ApiServer in a process of its own, so that a benchmark's clients
    and its server do not share an interpreter.  Calls of REMOTE_CALLS are
    methods of it: api.apply(obj)."""

    def __init__(self, directory, *args):
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--dir", str(directory), *args],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = json.loads(self._process.stdout.readline())
        self.url, self.pid = ready["url"], ready["pid"]
        self.ca_file = ready["ca"]

    def __getattr__(self, name):
        if name not in REMOTE_CALLS:
            raise AttributeError(name)
        return lambda *args, **kwargs: self._call(name, args, kwargs)

    def _call(self, name, args, kwargs):
        line = json.dumps({"call": name, "args": args, "kwargs": kwargs})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def close(self):
        """Ends the process."""
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__":
    main()
