# SPDX-License-Identifier: Apache-2.0
"""Packets by hand: sockets inside namespaces, frames to send, frames that
arrived.

All of it happens in this process; only the sockets belong to the namespace
(see support.setns).
"""
import collections
import ipaddress
import random
import socket
import struct
import time

from support import setns
from support.wait import slowness

ETH_IP, ETH_ARP, ETH_IPV6 = 0x0800, 0x0806, 0x86dd
ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
GRE, FRAGMENT = 47, 44
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ECHO = {4: 8, 6: 128}           # ICMP types, by family.
ECHO_REPLY = {4: 0, 6: 129}
UNREACHABLE = {4: (3, 3), 6: (1, 4)}    # Type and code: port unreachable.
TOO_BIG = {4: (3, 4), 6: (2, 0)}        # Fragmentation needed, packet too big.
ETH_P_ALL = 3
BROADCAST = "ff:ff:ff:ff:ff:ff"
PATIENCE = 2.0                  # Seconds for what has to come, if nothing else
                                # is said, on an idle machine.


def _patience(timeout):
    return PATIENCE * slowness() if timeout is None else timeout


def sock(namespace, family, kind=socket.SOCK_DGRAM, address=None, port=0,
         timeout=None):
    """A socket inside a namespace, bound if address or port are given."""
    def make():
        domain = socket.AF_INET6 if family == 6 else socket.AF_INET
        made = socket.socket(domain, kind)
        made.settimeout(_patience(timeout))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address or port:
            made.bind((address or "", port))
        return made
    return setns.call(namespace.name, make)


def mac_of(namespace, link):
    """The MAC address of a link."""
    text = namespace.ip("-o", "link", "show", link)
    return text.split("link/ether ")[1][:17]


# Building.

def _mac(text):
    return bytes.fromhex(text.replace(":", ""))


def _packed(address):
    return ipaddress.ip_address(address).packed


def in_network(address, network):
    """Whether an address (text) is of a network (ipaddress)."""
    address = ipaddress.ip_address(address)
    return address.version == network.version and address in network


def checksum(data):
    """The Internet checksum (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def eth(src, dst, kind, payload):
    """An Ethernet frame."""
    return _mac(dst) + _mac(src) + struct.pack("!H", kind) + payload


def ip(src, dst, proto, payload, ttl=64, tos=0):
    """An IP packet and its Ethernet type; fills in the checksum that covers
    the pseudo header, at the place where 'proto' has it.  'tos' are DSCP and
    ECN."""
    src, dst = _packed(src), _packed(dst)
    at = {TCP: 16, UDP: 6, ICMPV6: 2}.get(proto)
    if at is not None:
        pseudo = src + dst + struct.pack("!II", len(payload), proto)
        value = struct.pack("!H", checksum(pseudo + payload))
        payload = payload[:at] + value + payload[at + 2:]
    if len(src) == 4:
        head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(payload), 0,
                           0x4000, ttl, proto, 0) + src + dst
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        return ETH_IP, head + payload
    head = struct.pack("!IHBB", 6 << 28 | tos << 20, len(payload), proto, ttl)
    return ETH_IPV6, head + src + dst + payload


def tcp(sport, dport, flags, seq=1, ack=0):
    """A TCP header; its checksum is filled in by ip()."""
    return struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags,
                       8192, 0, 0)


def udp(sport, dport, data=b""):
    """A UDP datagram; its checksum is filled in by ip()."""
    return struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data


def sctp_init(sport, dport):
    """An SCTP packet with an INIT chunk, without checksum."""
    return struct.pack("!HHII", sport, dport, 0, 0) + struct.pack(
        "!BBHIIHHI", 1, 0, 20, 1, 8192, 1, 1, 1)


def echo(family, ident, number=1):
    """An ICMP or ICMPv6 echo request."""
    head = struct.pack("!BBHHH", ECHO[family], 0, 0, ident, number)
    if family == 4:
        head = head[:2] + struct.pack("!H", checksum(head)) + head[4:]
    return head


def icmp_error(family, kind, quoted, word=0):
    """An ICMP or ICMPv6 error of a (type, code) that quotes a packet, which
    is what ip() returned; 'word' is the MTU of those that have one."""
    head = struct.pack("!BBHI", *kind, 0, word) + quoted[1]
    if family == 4:
        head = head[:2] + struct.pack("!H", checksum(head)) + head[4:]
    return head


def arp(sha, spa, tpa, op=1, tha="00:00:00:00:00:00"):
    """An ARP packet."""
    return struct.pack("!HHBBH", 1, ETH_IP, 6, 4, op) + _mac(sha) + _packed(
        spa) + _mac(tha) + _packed(tpa)


def _neighbour(kind, flags, target, option, mac):
    return (struct.pack("!BBHI", kind, 0, 0, flags) + _packed(target)
            + bytes([option, 1]) + _mac(mac))


def solicit(mac, target):
    """A neighbour solicitation (RFC 4861 4.3)."""
    return _neighbour(135, 0, target, 1, mac)


def advertise(mac, target):
    """A router's neighbour advertisement, solicited (RFC 4861 4.4)."""
    return _neighbour(136, 0xe0000000, target, 2, mac)


# Reading.

Packet = collections.namedtuple(
    "Packet", "eth_src eth_dst eth_type src dst proto ttl l4 tos offset more")


class Frame(Packet):
    """A frame that arrived; of ARP, src and dst are its SPA and TPA.

    'tos' has DSCP and ECN; 'offset' and 'more' are those of a fragment."""

    @property
    def ports(self):
        """Source and destination port."""
        return struct.unpack("!HH", self.l4[:4])

    @property
    def flags(self):
        """Of TCP."""
        return self.l4[13]

    @property
    def icmp(self):
        """Type and code."""
        return self.l4[0], self.l4[1]

    @property
    def quoted(self):
        """The packet that an ICMP error quotes, in an invented frame."""
        kind = ETH_IP if self.eth_type == ETH_IP else ETH_IPV6
        return parse(bytes(12) + struct.pack("!H", kind) + self.l4[8:])


def _mac_text(data):
    return ":".join("%02x" % byte for byte in data)


def parse(data):
    """A Frame."""
    kind, = struct.unpack("!H", data[12:14])
    src = dst = proto = ttl = tos = None
    fragment = 0                # Offset in 8 bytes, and the more flag on top.
    rest = data[14:]
    if kind == ETH_ARP:
        src, dst = rest[14:18], rest[24:28]
        proto, = struct.unpack("!H", rest[6:8])
    elif kind == ETH_IP:
        tos, length, fragment = struct.unpack("!xBHxxH", rest[:8])
        fragment &= 0x3fff
        ttl, proto, src, dst = rest[8], rest[9], rest[12:16], rest[16:20]
        rest = rest[(rest[0] & 15) * 4:length]
    elif kind == ETH_IPV6:
        tos = struct.unpack("!H", rest[:2])[0] >> 4 & 0xff
        length, proto, ttl = struct.unpack("!HBB", rest[4:8])
        src, dst, rest = rest[8:24], rest[24:40], rest[40:40 + length]
        if proto == FRAGMENT:
            proto, fragment = struct.unpack("!BxH", rest[:4])
            fragment = fragment >> 3 | (fragment & 1) << 13
            rest = rest[8:]
    return Frame(_mac_text(data[6:12]), _mac_text(data[:6]), kind,
                 src and str(ipaddress.ip_address(src)),
                 dst and str(ipaddress.ip_address(dst)), proto, ttl, rest,
                 tos, (fragment & 0x1fff) * 8, bool(fragment & 0x2000))


def l4_checksum(frame):
    """0 if the checksum of a frame's TCP, UDP or ICMPv6 is right."""
    return checksum(_packed(frame.src) + _packed(frame.dst)
                    + struct.pack("!II", len(frame.l4), frame.proto)
                    + frame.l4)


class Wire:
    """The end of a pod's (or other namespace's) link: sends frames, and keeps
    those that arrive from the moment that it is made."""

    def __init__(self, namespace, link="eth0"):
        def make():
            # With a protocol it would take the frames of all links until it
            # is bound.
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            made.bind((link, ETH_P_ALL))
            return made
        self.sock = setns.call(namespace.name, make)
        self.mac = _mac_text(self.sock.getsockname()[4])
        self.frames = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, dst_mac, kind_and_packet, src_mac=None):
        """Sends what ip() returned, or (ETH_ARP, arp())."""
        self.sock.send(eth(src_mac or self.mac, dst_mac, *kind_and_packet))

    def _read(self, timeout):
        """Takes one more frame that was received, not sent."""
        self.sock.settimeout(max(timeout, 0.001))
        try:
            data, address = self.sock.recvfrom(65536)
        except (TimeoutError, BlockingIOError):
            return
        if address[2] != socket.PACKET_OUTGOING:
            self.frames.append(parse(data))

    def wait(self, condition, timeout=None):
        """The first frame for which condition(frame) is true, or None."""
        end = time.monotonic() + _patience(timeout)
        seen = 0
        while True:
            for frame in self.frames[seen:]:
                if condition(frame):
                    return frame
            seen = len(self.frames)
            left = end - time.monotonic()
            if left <= 0:
                return None
            self._read(left)


def ping(namespace, family, address, timeout=None):
    """Whether an address answers an echo request."""
    protos = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}

    def make():
        domain = socket.AF_INET6 if family == 6 else socket.AF_INET
        return socket.socket(domain, socket.SOCK_RAW, protos[family])
    with setns.call(namespace.name, make) as raw:
        ident = random.randrange(1 << 16)
        raw.sendto(echo(family, ident), (address, 0))
        end = time.monotonic() + _patience(timeout)
        while time.monotonic() < end:
            raw.settimeout(max(end - time.monotonic(), 0.001))
            try:
                data, peer = raw.recvfrom(65536)
            except TimeoutError:
                break
            if family == 4:
                data = data[(data[0] & 15) * 4:]
            if (data[0] == ECHO_REPLY[family] and peer[0] == address
                    and data[4:6] == struct.pack("!H", ident)):
                return True
    return False
