# SPDX-License-Identifier: Apache-2.0
"""Faults that the scripted API server commits on command.

A Fault waits for requests of its resource and verb and spoils the next
'count' of them (None: every one until it is removed): by another answer, or
by what happens to the bytes of the right one.
"""
import json
import socket
import struct
import time
from dataclasses import dataclass, field

REASONS = {
    400: ("BadRequest", "Bad Request"),
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", "Forbidden"),
    404: ("NotFound", "Not Found"),
    405: ("MethodNotAllowed", "Method Not Allowed"),
    409: ("AlreadyExists", "Conflict"),
    410: ("Expired", "Gone"),
    413: ("RequestEntityTooLarge", "Request Entity Too Large"),
    415: ("UnsupportedMediaType", "Unsupported Media Type"),
    422: ("Invalid", "Unprocessable Entity"),
    429: ("TooManyRequests", "Too Many Requests"),
    500: ("InternalError", "Internal Server Error"),
    502: ("", "Bad Gateway"),
    503: ("ServiceUnavailable", "Service Unavailable"),
    504: ("Timeout", "Gateway Timeout"),
}
MESSAGES = {
    401: "Unauthorized",
    410: "The resourceVersion for the provided list is too old.",
    500: "Internal error occurred: scripted",
    503: "apiserver is shutting down",
    504: "Timeout: request did not complete within the allotted timeout",
}
PLAIN_BODIES = {
    404: b"404 page not found\n",
    429: b"Too many requests, please try again later.\n",
}


def status_body(code, message=None, reason=None, details=None, metadata=None):
    """A Status object in a real server's order of keys, as a dict."""
    status = {"kind": "Status", "apiVersion": "v1",
              "metadata": metadata or {}, "status": "Failure",
              "message": message or MESSAGES.get(code, "scripted"),
              "reason": reason or REASONS[code][0]}
    if details is not None:
        status["details"] = details
    status["code"] = code
    return status


@dataclass
class Fault:
    """See the module; all fields but the first four say what goes wrong."""
    resource: str = None        # Plural; None: any.
    verb: str = None            # list, watch, get, create, ...; None: any.
    count: int = 1
    skip: int = 0               # Requests that pass before the first.

    # Another answer.
    status: int = None          # HTTP status, with a Status body or plain.
    message: str = None
    reason: str = None
    headers: dict = field(default_factory=dict)  # e.g. {"Retry-After": "2"}
    body: bytes = None          # With 'status' or 200.
    content_type: str = None
    raw: bytes = None           # Whole response, byte for byte; then closed.

    # The right answer, spoilt.
    delay: float = 0            # Seconds before anything.
    stall: bool = False         # Never answers (until release_stalls()).
    stall_after: int = None     # Falls silent after so many body bytes.
    cut_after: int = None       # Cuts the connection after so many.
    cut_event: int = None       # Cuts in the middle of the n-th event (0..).
    how: str = "fin"            # The cut: "fin" or "rst".
    insert: bytes = None        # Sent as it is before event 'insert_at'.
    insert_at: int = 0
    split: tuple = ()           # Offsets at which every event is split up.
    drip: tuple = ()            # (bytes, seconds): slow from then on.
    piece: int = None           # Chunks of this size, regardless of events.

    hits: int = 0
    left: int = None

    def __post_init__(self):
        self.left = self.count

    def matches(self, resource, verb):
        """Whether this request is to be spoilt; counts it if so."""
        if self.resource not in (None, resource):
            return False
        if self.verb not in (None, verb) or self.left == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.left is not None:
            self.left -= 1
        self.hits += 1
        return True

    def remove(self):
        """Ends the fault."""
        self.left = 0

    @property
    def is_answer(self):
        """Whether it replaces the answer, not only spoils it."""
        return self.status is not None or self.body is not None

    def answer(self):
        """The (status, content type, body) that it sends."""
        code = self.status or 200
        body, kind = self.body, self.content_type
        if body is None and code in PLAIN_BODIES and not self.message:
            body = PLAIN_BODIES[code]
            kind = kind or "text/plain; charset=utf-8"
        elif body is None:
            body = json.dumps(status_body(code, self.message, self.reason),
                              separators=(",", ":")).encode() + b"\n"
        return code, kind or "application/json", body


class Cut(Exception):
    """The connection has been cut, or is to be."""


def hang_up(sock, how="fin"):
    """Ends a connection below TLS; its own thread then closes it.

    An RST is sent by that close: until then nothing may be sent, which is
    why only the receiving side is shut down here."""
    try:
        if how == "rst":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            struct.pack("ii", 1, 0))
        else:
            socket.socket.shutdown(sock, socket.SHUT_WR)
        socket.socket.shutdown(sock, socket.SHUT_RD)
    except OSError:
        pass                    # The client was faster.


def cut(sock, how="fin"):
    """Ends the connection of the calling thread."""
    hang_up(sock, how)
    raise Cut(how)


class Wire:
    """A connection's sending side, with the present request's fault."""

    def __init__(self, sock, gate):
        self.sock = sock
        self._gate = gate       # Called before each write; may block.
        self.fault = None
        self._sent = 0          # Body bytes of this response.
        self._events = 0

    def start(self, fault):
        """Begins a response."""
        self.fault = fault
        self._sent = 0
        self._events = 0

    def head(self, data):
        """Sends bytes that no fault touches."""
        self._gate(False)
        self.sock.sendall(data)

    def body(self, data):
        """Sends body bytes (with their chunk framing)."""
        fault = self.fault
        if fault is None:
            self.head(data)
            return
        for limit, stalls in ((fault.cut_after, False),
                              (fault.stall_after, True)):
            if limit is not None and self._sent + len(data) >= limit:
                self._raw(data[:limit - self._sent])
                if stalls:
                    self.stall()
                cut(self.sock, fault.how)
        self._raw(data)

    def stall(self):
        """Silent until the server is told to release; then it is cut."""
        self._gate(True)
        raise Cut("stalled")

    def _raw(self, data):
        self._sent += len(data)
        if not (self.fault and self.fault.drip):
            self.head(data)
            return
        size, seconds = self.fault.drip
        for at in range(0, len(data), size):
            self.head(data[at:at + size])
            time.sleep(seconds)

    def chunks(self, data):
        """Sends 'data' chunked, in one chunk or as the fault says."""
        size = (self.fault.piece if self.fault else None) or len(data)
        for at in range(0, len(data), size):
            piece = data[at:at + size]
            self.body(b"%x\r\n%s\r\n" % (len(piece), piece))

    def events(self, lines):
        """Sends event lines, all in one write unless a fault is on."""
        if self.fault is None:
            self.head(b"".join(b"%x\r\n%s\r\n" % (len(line), line)
                               for line in lines))
            return
        for line in lines:
            self._event(line)

    def _event(self, line):
        fault = self.fault
        if fault.insert is not None and self._events == fault.insert_at:
            self.chunks(fault.insert)
        if fault.cut_event == self._events:
            self.chunks(line[:len(line) // 2])
            cut(self.sock, fault.how)
        self._events += 1
        at = 0
        for offset in (*fault.split, len(line)):
            if at < offset <= len(line):
                self.chunks(line[at:offset])
                at = offset

    def finish(self):
        """Sends the last chunk."""
        self.body(b"0\r\n\r\n")
