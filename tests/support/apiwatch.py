# SPDX-License-Identifier: Apache-2.0
"""One watch of the scripted API server, run by its connection's thread."""
import collections
import time

from support import apifault, apistore


def error_line(code, message, reason=None):
    """An ERROR event with a Status."""
    status = apifault.status_body(code, message, reason)
    return b'{"type":"ERROR","object":%s}\n' % apistore.dumps(status)


def bookmark_line(resource, rv, initial_end=False):
    """A BOOKMARK event; 'initial_end' closes the initial events."""
    meta = {"resourceVersion": str(rv)}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj = {"kind": resource.kind, "apiVersion": resource.api_version,
           "metadata": meta, **resource.blank}
    return (b'{"type":"BOOKMARK","object":%s}\n'
            % apistore.dumps(obj, resource.crd))


def event_line(kind, record):
    """An ADDED, MODIFIED or DELETED event."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), record.full)


class Watch:
    """Sends the events of one resource as they come.

    'options': rv (int or None), bookmarks (bool), initial (bool), timeout
    (seconds), interval (seconds between bookmarks)."""

    def __init__(self, store, wire, resource, match, options):
        self.resource = resource
        self._store = store
        self._wire = wire
        self._match = match
        self._options = options
        self._cursor = 0
        self._commands = collections.deque()
        self._deadline = time.monotonic() + options["timeout"]
        self._next_bookmark = time.monotonic() + options["interval"]
        self._written = -1

    @property
    def caught_up(self):
        """Whether all events that it may send have been sent."""
        log = self._store.log(self.resource)
        return log is None or (self._written >= log.limit
                               and not self._commands)

    def command(self, *command):
        """Has the watch's thread do something after the events so far:
        ("raw", bytes), ("bookmark",), ("end",), ("cut", how), ("stall",)."""
        with self._store.batch():
            self._commands.append(command)

    def run(self, gone):
        """Until the end; 'gone' tells whether the connection is."""
        initial = self._begin()
        if initial is not None:
            self._wire.events(initial)
            self._written = self._cursor
            while self._turn():
                if gone():
                    raise apifault.Cut("gone")
        self._wire.finish()

    def _begin(self):
        """Sets the cursor; the lines to start with, None if too old."""
        store, options = self._store, self._options
        with store.lock:
            log = store.log(self.resource)
            rv = options["rv"]
            if rv and rv < log.compacted:
                self._wire.events([error_line(
                    410, "too old resource version: %d (%d)"
                    % (rv, log.compacted))])
                return None
            if rv and not options["initial"]:
                self._cursor = log.position(rv)
                return []
            self._cursor = log.end
            lines = [event_line("ADDED", record)
                     for record in store.records(self.resource)
                     if self._match(record)]
            if options["initial"]:
                lines.append(bookmark_line(self.resource, store.rv, True))
            return lines

    def _line(self, event):
        """What this watch shows of an event, or None."""
        was = event.old is not None and self._match(event.old)
        if event.new is not None and self._match(event.new):
            return event_line("MODIFIED" if was else "ADDED", event.new)
        if was:
            last = event.gone or self._store.at_version(event.old, event.rv)
            return event_line("DELETED", last)
        return None

    def _take(self):
        """What is to be sent: (events, commands, version), or None to end."""
        log = self._store.log(self.resource)
        if log is None:
            return None
        if self._cursor < log.base:
            return [], [("raw", error_line(410, "too old resource version")),
                        ("end",)], 0
        end = max(self._cursor, log.limit)
        events = log.events[self._cursor - log.base:end - log.base]
        self._cursor = end
        commands = list(self._commands)
        self._commands.clear()
        return events, commands, self._seen(log)

    def _seen(self, log):
        """The version that a bookmark may name now."""
        if log.hold is None:
            return self._store.rv
        at = log.hold - log.base
        return log.events[at - 1].rv if at > 0 else log.compacted

    def _turn(self):
        """Waits for something to send and sends it; false to end."""
        now = time.monotonic()
        with self._store.changed:
            if self.caught_up:
                until = min(self._deadline, self._next_bookmark, now + 0.25)
                self._store.changed.wait(max(0, until - now))
            taken = self._take()
        if taken is None:
            return False
        events, commands, rv = taken
        lines = [line for line in map(self._line, events) if line]
        now = time.monotonic()
        over = now >= self._deadline
        if self._options["bookmarks"] and (over or
                                           now >= self._next_bookmark):
            lines.append(bookmark_line(self.resource, rv))
            self._next_bookmark = now + self._options["interval"]
        if lines:
            self._wire.events(lines)
        going = not over
        for command in commands:
            going = self._do(rv, *command) and going
        self._written = self._cursor
        return going

    def _do(self, rv, verb, *args):
        """Carries out one command; false to end the watch."""
        if verb == "raw":
            self._wire.chunks(*args)
        elif verb == "bookmark":
            self._wire.events([bookmark_line(self.resource, rv)])
        elif verb == "cut":
            apifault.cut(self._wire.sock, *args)
        elif verb == "stall":
            self._wire.stall()
        return verb != "end"
