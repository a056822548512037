# SPDX-License-Identifier: Apache-2.0
"""What passes on a link between nodes: tunnelled or plain, both headers.

    with Capture(cluster.router, "to-n1", "to-n2") as capture:
        ...
    assert capture.between("10.10.1.2", "10.10.2.2") == {"geneve"}
"""
import dataclasses
import socket
import struct

from support import packets, setns

SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_STATISTICS = 263, 6
RECEIVE_BUFFER = 64 << 20       # Bytes: some 30 000 frames.
ETHERNET_IN_TUNNEL = 0x6558     # Transparent Ethernet bridging (RFC 1701).
PORTS = {6081: "geneve", 4789: "vxlan"}


@dataclasses.dataclass(frozen=True)
class Seen:
    """A frame on the wire.

    kind: "plain", "geneve", "vxlan", "gre"; 'inner' is what such a tunnel
    carries, and otherwise the frame itself.  link: where it was seen;
    sent: whether the link's owner sent it; data: its bytes."""
    kind: str
    outer: packets.Frame
    inner: packets.Frame
    link: str
    sent: bool
    data: bytes

    @property
    def marked(self):
        """Its bytes after a router that has marked it with "congestion
        experienced" (RFC 3168)."""
        data = bytearray(self.data)
        if self.outer.eth_type == packets.ETH_IPV6:
            data[15] |= 0x30
            return bytes(data)
        data[15] |= 3
        data[24:26] = bytes(2)
        data[24:26] = struct.pack("!H", packets.checksum(bytes(data[14:34])))
        return bytes(data)


def decapsulate(outer, ports=None):
    """The kind of a frame and what it carries, as in Seen."""
    data = outer.l4
    if outer.proto == packets.UDP and not outer.offset and len(data) >= 16:
        kind = (ports or PORTS).get(outer.ports[1])
        if kind == "vxlan":
            return kind, packets.parse(data[16:])
        if kind == "geneve":
            length, protocol = struct.unpack("!BxH", data[8:12])
            if protocol == ETHERNET_IN_TUNNEL:
                return kind, packets.parse(data[16 + (length & 63) * 4:])
    if outer.proto == packets.GRE and not outer.offset:
        flags, protocol = struct.unpack("!HH", data[:4])
        length = 4 + 4 * sum(bool(flags & bit)
                             for bit in (0x8000, 0x2000, 0x1000))
        if protocol == ETHERNET_IN_TUNNEL:
            return "gre", packets.parse(data[length:])
    return "plain", outer


class Capture:
    """Frames of some links of a namespace, from now to stop().

    ports: which UDP ports belong to which kind of tunnel."""

    def __init__(self, namespace, *links, ports=None):
        self._ports = ports
        self._socks = {link: setns.call(namespace.name, self._open, link)
                       for link in links}
        self.seen = []

    @staticmethod
    def _open(link):
        # With a protocol it would take the frames of all links until it is
        # bound.
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        sock.bind((link, packets.ETH_P_ALL))
        sock.setblocking(False)
        return sock

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends it; what was seen is in .seen, link by link."""
        self.read()
        for link, sock in self._socks.items():
            _, dropped = struct.unpack("II", sock.getsockopt(
                SOL_PACKET, PACKET_STATISTICS, 8))
            sock.close()
            assert not dropped, "%s: %d frames not seen" % (link, dropped)
        self._socks = {}
        return self

    def read(self):
        """Takes what has passed so far; .seen."""
        for link, sock in self._socks.items():
            while True:
                try:
                    data, address = sock.recvfrom(65536)
                except BlockingIOError:
                    break
                outer = packets.parse(data)
                kind, inner = decapsulate(outer, self._ports)
                self.seen.append(Seen(
                    kind, outer, inner, link,
                    address[2] == socket.PACKET_OUTGOING, data))
        return self.seen

    def of(self, *addresses, **fields):
        """The IP packets between these addresses (one: from or to it; none:
        all), with these fields of Seen."""
        return [s for s in self.seen
                if s.inner.eth_type in (packets.ETH_IP, packets.ETH_IPV6)
                and set(addresses) <= {s.inner.src, s.inner.dst}
                and all(getattr(s, k) == v for k, v in fields.items())]

    def between(self, one, other):
        """The kinds of what goes between two addresses, as a set."""
        return {s.kind for s in self.of(one, other)}

    def plain_of(self, networks):
        """Packets that are in no tunnel, from or to one of some networks
        (ipaddress), ARP included."""
        return [s for s in self.seen if s.kind == "plain" and any(
            address and packets.in_network(address, network)
            for address in (s.outer.src, s.outer.dst)
            for network in networks)]
