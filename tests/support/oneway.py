# SPDX-License-Identifier: Apache-2.0
"""A sender of UDP datagrams that never listens: what keeps a stale connection
alive for ever."""
import subprocess
import sys

from support import proc

# Sends datagrams and never reads an answer, not even an ICMP error.
ONE_WAY = """
import socket, sys, time
host, port, source = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET,
                     socket.SOCK_DGRAM)
sock.bind(("", source))
print("ready", flush=True)
while True:
    try:
        sock.sendto(b"x", (host, port))
    except OSError:             # There may be no route for a moment.
        pass
    time.sleep(0.01)
"""


class OneWay:
    """A running sender of datagrams that expects no answer."""

    def __init__(self, namespace, host, port, source_port):
        self._process = proc.start(
            sys.executable, "-c", ONE_WAY, host, str(port), str(source_port),
            stdout=subprocess.PIPE, text=True, netns=namespace.name)
        assert self._process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        proc.stop(self._process)
        self._process.stdout.close()
