# SPDX-License-Identifier: Apache-2.0
"""A relay between an OpenFlow 1.5 client and a bridge's .mgmt socket.

It records every message of either direction and, on command, swallows,
delays or refuses messages, or cuts the connection:

    with OfShim(directory / "shim.sock", switch.dir / "br-int.mgmt") as shim:
        shim.drop(lambda m: m.what == "commit-reply")
        ...
        assert [m.what for m in shim.to_switch()] == [...]

`ovs-ofctl snoop` does not see the connections to .mgmt, so this is how the
tests count and order what is sent.
"""
import os
import selectors
import socket
import struct
import threading
import time

HEADER = struct.Struct("!BBHI")
TYPES = {
    0: "hello", 1: "error", 2: "echo-request", 3: "echo-reply",
    4: "experimenter", 5: "features-request", 6: "features-reply",
    9: "set-config", 10: "packet-in", 13: "packet-out", 14: "flow-mod",
    15: "group-mod", 18: "multipart-request", 19: "multipart-reply",
    20: "barrier-request", 21: "barrier-reply", 28: "set-async",
    29: "meter-mod", 32: "requestforward", 33: "bundle-control",
    34: "bundle-add",
}
CONTROLS = ("open", "open-reply", "close", "close-reply", "commit",
            "commit-reply", "discard", "discard-reply")
FLOW_COMMANDS = ("add", "modify", "modify-strict", "delete", "delete-strict")
GROUP_COMMANDS = {0: "add", 1: "modify", 2: "delete", 3: "insert-bucket",
                  5: "remove-bucket", 0x8000: "put"}
MULTIPARTS = {1: "flow", 6: "group-stats", 7: "group-desc",
              10: "meter-config", 16: "flow-monitor"}
EXPERIMENTS = {(0x2320, 32): "ct-flush"}      # (vendor, subtype).
ACTION_GROUP = 22
TO_SWITCH, FROM_SWITCH = "to", "from"


class Message:
    """One OpenFlow message.

    .what names it: "commit", "barrier-request", or for what is inside a
    bundle "flow add", "group put"; .data are all of its bytes, .inner those
    of the message inside a bundle-add, else the same."""

    def __init__(self, direction, data):
        self.direction, self.data = direction, data
        self.time = time.monotonic()
        self.version, number, _, self.xid = HEADER.unpack_from(data)
        self.type = TYPES.get(number, "type-%d" % number)
        self.inner = data[16:] if self.type == "bundle-add" else data
        self.what = self._what()

    def _what(self):
        if self.type == "bundle-control":
            return CONTROLS[struct.unpack_from("!H", self.data, 12)[0]]
        if self.type.startswith("multipart"):
            number, = struct.unpack_from("!H", self.data, 8)
            return "%s %s" % (MULTIPARTS.get(number, number),
                              self.type.split("-")[1])
        if self.type == "experimenter":
            return EXPERIMENTS.get(struct.unpack_from("!II", self.data, 8),
                                   self.type)
        if self.inner[1] == 14:
            return "flow " + FLOW_COMMANDS[self.inner[25]]
        if self.inner[1] == 15:
            command, = struct.unpack_from("!H", self.inner, 8)
            return "group " + GROUP_COMMANDS.get(command, str(command))
        return self.type

    @property
    def is_mod(self):
        """True for what changes flows, groups or meters."""
        return self.what.split()[0] in ("flow", "group", "meter-mod") \
            and not self.type.startswith("multipart")

    @property
    def cookie(self):
        """Of a flow-mod."""
        return struct.unpack_from("!Q", self.inner, 8)[0]

    @property
    def cookie_mask(self):
        """Of a flow-mod."""
        return struct.unpack_from("!Q", self.inner, 16)[0]

    @property
    def priority(self):
        """Of a flow-mod."""
        return struct.unpack_from("!H", self.inner, 30)[0]

    @property
    def group_id(self):
        """Of a group-mod."""
        return struct.unpack_from("!I", self.inner, 12)[0]

    @property
    def groups_used(self):
        """The groups that a flow-mod's actions name."""
        match_len, = struct.unpack_from("!H", self.inner, 50)
        rest = self.inner[48 + (match_len + 7) // 8 * 8:]
        groups = set()
        while len(rest) >= 8:           # Instructions.
            _, length = struct.unpack_from("!HH", rest)
            actions = rest[8:length]
            while len(actions) >= 8:
                kind, size = struct.unpack_from("!HH", actions)
                if kind == ACTION_GROUP:
                    groups.add(struct.unpack_from("!I", actions, 4)[0])
                actions = actions[size:]
            rest = rest[length:]
        return groups

    def error(self, kind, code):
        """The bytes of an OFPT_ERROR in answer to this message."""
        body = struct.pack("!HH", kind, code) + self.data[:64]
        return HEADER.pack(self.version, 1, 8 + len(body), self.xid) + body

    def __repr__(self):
        return "<%s %s xid=%d %d bytes>" % (self.direction, self.what,
                                            self.xid, len(self.data))


class Rule:
    """What to do with messages that match; .hits counts them."""

    def __init__(self, match, action, count):
        self.match, self.action, self.count = match, action, count
        self.hits = 0

    def take(self, message):
        """True if the rule applies to this message."""
        if self.count is not None and self.hits >= self.count:
            return False
        if not self.match(message):
            return False
        self.hits += 1
        return True


class _Half:
    """One direction of a connection."""

    def __init__(self, direction, source, sink):
        self.direction, self.source, self.sink = direction, source, sink
        self.input = bytearray()
        self.held = []          # (time, bytes), in order
        self.output = bytearray()
        self.other = None


class OfShim:
    """Listens at 'path' and connects each client to 'upstream'."""

    def __init__(self, path, upstream):
        self.path, self.upstream = str(path), str(upstream)
        self.target = "unix:" + self.path
        self.n_connections = 0
        self._lock = threading.RLock()
        self._messages, self._rules = [], []
        self._halves = {}               # By source socket.
        self._selector = selectors.DefaultSelector()
        self._thread = self._listener = None
        self._wake_r, self._wake_w = socket.socketpair()
        self._stopping = self._deaf = False

    # Life.

    def start(self):
        """Starts to listen."""
        self.listen()
        self._selector.register(self._wake_r, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def stop(self):
        """Ends all connections and the relay."""
        self._stopping = True
        self._wake()
        self._thread.join(10)
        self.cut()
        self.close()

    __enter__ = start

    def __exit__(self, *_):
        self.stop()

    def listen(self):
        """Lets clients in."""
        with self._lock:
            if os.path.exists(self.path):
                os.unlink(self.path)
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self.path)
            self._listener.listen(5)
            self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake()

    def close(self):
        """Lets no more clients in: to them the switch is away."""
        with self._lock:
            if self._listener:
                self._selector.unregister(self._listener)
                self._listener.close()
                self._listener = None
                os.unlink(self.path)

    def cut(self):
        """Cuts all connections."""
        with self._lock:
            for half in list(self._halves.values()):
                self._close(half)

    # Rules.  'count' None: for ever, until clear_rules().

    def drop(self, match, count=1):
        """Swallows messages."""
        return self._rule(match, lambda half, m: [], count)

    def delay(self, match, seconds, count=1):
        """Holds back a message, and all behind it in its direction."""
        def action(half, message):
            half.held.append((time.monotonic() + seconds, message.data))
            return []
        return self._rule(match, action, count)

    def refuse(self, match, kind, code, count=1):
        """Answers messages to the switch with an error instead of passing
        them on."""
        def action(half, message):
            error = message.error(kind, code)
            self._messages.append(Message(FROM_SWITCH, error))
            half.other.output += error
            self._update(half.other)
            return []
        return self._rule(match, action, count)

    def cut_on(self, match, count=1):
        """Cuts the connection instead of passing a message on."""
        def action(half, _):
            self._close(half)
            return []
        return self._rule(match, action, count)

    def clear_rules(self):
        """Passes everything on from now on."""
        with self._lock:
            self._rules.clear()

    def inject(self, data):
        """Sends bytes to the client as if the switch had."""
        with self._lock:
            for half in self._halves.values():
                if half.direction == FROM_SWITCH:
                    half.output += data
                    self._update(half)
        self._wake()

    def pending(self):
        """Bytes that clients have not taken yet."""
        with self._lock:
            return sum(len(half.output) for half in self._halves.values()
                       if half.direction == FROM_SWITCH)

    def deaf(self, deaf):
        """While deaf, reads nothing that the client sends."""
        with self._lock:
            self._deaf = deaf
            for half in self._halves.values():
                self._update(half)
        self._wake()

    def _rule(self, match, action, count):
        rule = Rule(match, action, count)
        with self._lock:
            self._rules.append(rule)
        return rule

    # What was seen.

    def clear(self):
        """Forgets the messages so far."""
        with self._lock:
            self._messages.clear()

    def messages(self):
        """All messages, also those that were not passed on, and errors that
        the relay made up."""
        with self._lock:
            return list(self._messages)

    def to_switch(self):
        """Those of the client."""
        return [m for m in self.messages() if m.direction == TO_SWITCH]

    def from_switch(self):
        """Those of the switch."""
        return [m for m in self.messages() if m.direction == FROM_SWITCH]

    def mods(self):
        """What the client sent to change flows, groups or meters."""
        return [m for m in self.to_switch() if m.is_mod]

    def errors(self):
        """(type, code) of the switch's errors."""
        return [struct.unpack_from("!HH", m.data, 8)
                for m in self.from_switch() if m.type == "error"]

    # Inside.

    def _wake(self):
        self._wake_w.send(b".")

    def _run(self):
        while not self._stopping:
            with self._lock:
                timeout = self._release_held()
            events = self._selector.select(timeout)
            with self._lock:
                for key, mask in events:
                    self._handle(key, mask)

    def _release_held(self):
        now, next_time = time.monotonic(), now_plus_a_second()
        for half in list(self._halves.values()):
            while half.held and half.held[0][0] <= now:
                half.output += half.held.pop(0)[1]
                self._update(half)
            if half.held:
                next_time = min(next_time, half.held[0][0])
        return max(0, next_time - now)

    def _handle(self, key, mask):
        if key.fileobj is self._wake_r:
            self._wake_r.recv(4096)
        elif key.fileobj is self._listener:
            self._accept()
        elif key.fileobj in self._halves:
            half = self._halves[key.fileobj]
            if mask & selectors.EVENT_READ:
                self._read(half)
            if mask & selectors.EVENT_WRITE and half.source in self._halves:
                self._flush(half.other)

    def _accept(self):
        client, _ = self._listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.upstream)
        except OSError:
            client.close()
            server.close()
            return
        self.n_connections += 1
        there = _Half(TO_SWITCH, client, server)
        back = _Half(FROM_SWITCH, server, client)
        there.other, back.other = back, there
        for half in there, back:
            half.source.setblocking(False)
            self._halves[half.source] = half
            self._selector.register(half.source, selectors.EVENT_READ)

    def _close(self, half):
        for sock in half.source, half.sink:
            if sock in self._halves:
                del self._halves[sock]
                if sock in self._selector.get_map():
                    self._selector.unregister(sock)
                sock.close()

    def _read(self, half):
        try:
            data = half.source.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(half)
            return
        half.input += data
        while half.source in self._halves and len(half.input) >= 8:
            length = HEADER.unpack_from(half.input)[2]
            if length < 8 or len(half.input) < length:
                break
            message = Message(half.direction, bytes(half.input[:length]))
            del half.input[:length]
            self._pass(half, message)
        self._flush(half)

    def _pass(self, half, message):
        self._messages.append(message)
        for rule in self._rules:
            if rule.take(message):
                rule.action(half, message)
                return
        if half.held:
            half.held.append((half.held[-1][0], message.data))
        else:
            half.output += message.data

    def _flush(self, half):
        if half.sink not in self._halves:
            return
        try:
            if half.output:
                del half.output[:half.sink.send(half.output)]
        except BlockingIOError:
            pass
        except OSError:
            self._close(half)
            return
        self._update(half)

    def _update(self, half):
        """Has a half's sink waited for as it now is: for room exactly while
        there is output, for input unless we are deaf to it."""
        sock = half.sink
        if sock not in self._halves:
            return
        events = 0
        if not (self._deaf and self._halves[sock].direction == TO_SWITCH):
            events |= selectors.EVENT_READ
        if half.output:
            events |= selectors.EVENT_WRITE
        known = sock in self._selector.get_map()
        if known and events:
            self._selector.modify(sock, events)
        elif events:
            self._selector.register(sock, events)
        elif known:
            self._selector.unregister(sock)


def now_plus_a_second():
    """How long to sleep at most when nothing is held back."""
    return time.monotonic() + 1
