# SPDX-License-Identifier: Apache-2.0
"""Many questions to servers (traffic.py) at once, and whether each had the
answer that it should have.

    failed = ask([Question(pod, "10.96.0.10", 80, Answer({"web": pod.of(4)})),
                  Question(pod, "10.96.0.11", 80, REFUSED),
                  Question(pod, "10.96.0.12", 80, SILENCE, "udp")])
    assert not failed, "\n".join(failed)

The sockets are of this process, so that a question costs milliseconds; and
all that get no answer together cost one wait.
"""
import dataclasses
import errno
import selectors
import socket
import time

from support import setns
from support.wait import slowness

REFUSED, SILENCE = "ECONNREFUSED", "silence"
PATIENCE = 6.0                  # Seconds for answers that have to come, if
                                # nothing else is said, on an idle machine,
LOST_PATIENCE = 1.5             # and when one has not.
QUIET = 0.7                     # Without answer for so long: silence.
AT_ONCE = 80                    # Questions under way.


class Answer:
    """What may come: {name of a server: source address that it sees}, None
    for any address."""

    def __init__(self, servers):
        self.servers = dict(servers)

    def takes(self, server, source):
        """Whether it is so."""
        return (server in self.servers
                and self.servers[server] in (None, source))

    def __repr__(self):
        return " or ".join("%s seeing %s" % pair
                           for pair in sorted(self.servers.items()))


@dataclasses.dataclass
class Question:
    """A question from a namespace to an address and port.

    want: an Answer, REFUSED, or SILENCE.  source: the client's own address,
    or None.  about: for messages."""
    who: object
    host: str
    port: int
    want: object
    proto: str = "tcp"
    source: str = None
    about: str = ""
    got: object = None          # (server, source), or a kind of failure.
    sport: int = None           # The client's port.

    @property
    def is_met(self):
        """Whether what came is what should."""
        if isinstance(self.want, Answer):
            return isinstance(self.got, tuple) and self.want.takes(*self.got)
        return self.got == self.want

    def __str__(self):
        return "%s: %s%s to %s port %d/%s: wanted %s, got %s" % (
            self.about, self.who.label,
            " as " + self.source if self.source else "", self.host,
            self.port, self.proto, self.want, self.got)


class _Asked:
    """A question under way."""

    def __init__(self, question, sock):
        self.question, self.sock = question, sock
        self.sent = False

    def start(self):
        """Connects."""
        code = self.sock.connect_ex((self.question.host, self.question.port))
        if code not in (0, errno.EINPROGRESS):
            return self.end(code)
        self.question.sport = self.sock.getsockname()[1]
        return False

    def end(self, code):
        """It failed."""
        self.question.got = errno.errorcode.get(code, str(code))
        return True

    def go_on(self):
        """Something has happened to the socket; whether that was all."""
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            return self.end(code)
        try:
            if not self.sent:
                self.sent = True
                self.sock.send(b"hello\n")
                return False
            words = self.sock.recv(65536).decode(errors="replace").split()
            self.question.got = (words[0], words[1]) if words else "closed"
        except OSError as error:
            self.end(error.errno)
        return True


def _make(question):
    domain = socket.AF_INET6 if ":" in question.host else socket.AF_INET
    kind = (socket.SOCK_DGRAM if question.proto == "udp"
            else socket.SOCK_STREAM)
    sock = socket.socket(domain, kind)
    sock.setblocking(False)
    if question.source:
        sock.bind((question.source, 0))
    return sock


def _sockets(questions):
    """A socket for each, made in its namespace."""
    made = {}
    for who in {id(q.who): q.who for q in questions}.values():
        its = [q for q in questions if q.who is who]
        socks = setns.call(who.name, lambda some=its: [_make(q)
                                                       for q in some])
        made.update({id(q): s for q, s in zip(its, socks)})
    return [made[id(q)] for q in questions]


class _Round:
    """Questions that are asked at the same time."""

    def __init__(self, questions, patience):
        self.patience = patience
        self._selector = selectors.DefaultSelector()
        self._open = {}
        for question, sock in zip(questions, _sockets(questions)):
            asked = _Asked(question, sock)
            if asked.start():
                sock.close()
            else:
                self._open[id(question)] = asked
                self._selector.register(sock, selectors.EVENT_WRITE, asked)
        self._began = time.monotonic()

    def _is_over(self):
        """Whether all that has to come has come, and silence was long."""
        passed = time.monotonic() - self._began
        waits = any(a.question.want != SILENCE for a in self._open.values())
        return passed > (self.patience if waits else QUIET)

    def run(self):
        """Until each has its outcome."""
        while self._open and not self._is_over():
            for key, _ in self._selector.select(0.05):
                asked = key.data
                if asked.go_on():
                    self._close(asked)
                else:
                    self._selector.modify(asked.sock, selectors.EVENT_READ,
                                          asked)
        for asked in list(self._open.values()):
            asked.question.got = SILENCE
            self._close(asked)
        self._selector.close()

    def _close(self, asked):
        self._selector.unregister(asked.sock)
        asked.sock.close()
        del self._open[id(asked.question)]


def ask(questions, patience=None):
    """Asks all; what was not as wanted, one line each."""
    questions, patience = list(questions), patience or PATIENCE * slowness()
    for silent, n in ((False, AT_ONCE), (True, 10 * AT_ONCE)):
        some = [q for q in questions if (q.want == SILENCE) == silent]
        for at in range(0, len(some), n):
            _Round(some[at:at + n], patience).run()
            if any(q.got == SILENCE != q.want for q in some[at:at + n]):
                patience = min(patience, LOST_PATIENCE)
    # Nobody sends a datagram again; and while connections of an address that
    # has gone are being forgotten, the refusal of one may be for none.
    # Nor is one sent whose entry a kernel could not add to its conntrack.
    again = [q for q in questions if q.proto == "udp"
             and (q.got == "EPERM"
                  or (q.want == REFUSED and q.got == SILENCE))]
    if again:
        _Round(again, patience).run()
    return [str(q) for q in questions if not q.is_met]


def check(questions):
    """Fails with all that was not as wanted."""
    questions = list(questions)
    assert questions
    failed = ask(questions)
    assert not failed, "%d of %d:\n%s" % (len(failed), len(questions),
                                          "\n".join(failed[:40]))
