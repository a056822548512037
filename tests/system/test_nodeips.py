# SPDX-License-Identifier: Apache-2.0
"""This node's addresses, followed in a namespace."""
import ipaddress
import random

import pytest

from support.hostprobe import SOON
from support.wait import wait_for

BASE = {"192.0.2.5", "2001:db8::5"}
LOOPBACK = {"127.0.0.1"}


class Follower:
    """A host-probe that follows the addresses."""

    def __init__(self, probe, *lines):
        self.probe = probe
        probe.send(*lines, "nodeips not gw0", "nodeips set")
        wait_for(lambda: self.last(), SOON, "a state", probe)

    def last(self):
        """(number, all, those with NodePorts) of the last state."""
        lines = [l for l in self.probe.lines if l.startswith("nodeips ")]
        if not lines:
            return None
        _, number, *lists = (lines[-1] + "  ").split(" ")
        return int(number), *[[ip for ip in text.split(",") if ip]
                              for text in lists[:2]]

    def wait(self, ips, node_ports=None):
        """Waits until these are there, in ascending order."""
        node_ports = ips | LOOPBACK if node_ports is None else node_ports

        def there():
            _, all_of, ports = self.last()
            return set(all_of) == set(ips) and set(ports) == set(node_ports)

        wait_for(there, SOON, "%s, %s" % (sorted(ips), sorted(node_ports)),
                 lambda: "%s\n%s" % (self.last(), self.probe.dump()))
        everything = self.last()[1]
        assert everything == sorted(set(everything), key=lambda ip: (
            ":" in ip, ipaddress.ip_address(ip).packed))


@pytest.fixture(name="follow")
def _follow(start):
    return lambda *lines: Follower(start(), *lines)


def test_g3_links_of_ours_and_of_others_purposes_do_not_count(host, follow):
    host.batch("addr add 10.10.0.1/24 dev gw0",
               "link add kube-ipvs0 type veth",
               "addr add 10.96.0.1/32 dev kube-ipvs0",
               "link add antrea-egress0 type veth",
               "addr add 192.0.2.200/32 dev antrea-egress0",
               "link add docker0 type veth",
               "addr add 172.17.0.1/16 dev docker0", "link set docker0 up",
               "addr add 198.51.100.7/32 dev lo")
    follower = follow()
    ports = BASE | {"172.17.0.1", "198.51.100.7"}
    follower.wait(ports | {"10.96.0.1", "192.0.2.200"}, ports | LOOPBACK)


def test_g12_addresses_are_followed(host, follow):
    follower = follow()
    follower.wait(BASE)
    host.ip("addr", "add", "192.0.2.77/24", "dev", "eth0")
    follower.wait(BASE | {"192.0.2.77"})
    # An address that moves is not missed, wherever it is.
    host.batch("link add eth1 type veth", "link set eth1 up",
               "addr del 192.0.2.77/24 dev eth0",
               "addr add 192.0.2.77/32 dev eth1")
    follower.wait(BASE | {"192.0.2.77"})
    host.ip("addr", "add", "192.0.2.77/24", "dev", "eth0")
    host.ip("link", "del", "eth1")
    follower.wait(BASE | {"192.0.2.77"})
    host.ip("addr", "flush", "dev", "eth0")
    follower.wait(set())


def test_a_change_that_changes_nothing_is_none(host, follow):
    follower = follow()
    follower.wait(BASE)
    number = follower.last()[0]
    host.batch("addr add fe80::77/64 dev eth0 nodad",
               "addr add 192.0.2.5/32 dev lo", "link set eth0 mtu 1400",
               "addr add 192.0.2.78/24 dev gw0")
    host.ip("addr", "add", "192.0.2.79/24", "dev", "eth0")
    follower.wait(BASE | {"192.0.2.79"})
    assert follower.last()[0] == number + 1


def test_links_are_known_by_name(host, follow):
    """Also when they are renamed."""
    follower = follow()
    host.batch("link add x type veth", "addr add 192.0.2.80/32 dev x")
    follower.wait(BASE | {"192.0.2.80"})
    host.ip("link", "set", "x", "name", "kube-ipvs0")
    follower.wait(BASE | {"192.0.2.80"}, BASE | LOOPBACK)
    host.ip("link", "set", "gw0", "name", "y")
    host.ip("addr", "add", "10.10.0.1/24", "dev", "y")
    follower.wait(BASE | {"192.0.2.80", "10.10.0.1"},
                  BASE | {"10.10.0.1"} | LOOPBACK)
    host.ip("link", "set", "y", "name", "gw0")
    follower.wait(BASE | {"192.0.2.80"}, BASE | LOOPBACK)


@pytest.mark.parametrize("cidrs,node_ports", [
    (["192.0.2.0/24"], {"192.0.2.5"}),
    (["0.0.0.0/0"], {"192.0.2.5", "127.0.0.1"}),
    (["::/0"], {"2001:db8::5"}),
    (["127.0.0.0/8"], {"127.0.0.1"}),
    (["198.51.100.0/24"], set()),
    (["2001:db8::5/128", "192.0.2.4/31"], BASE)])
def test_only_addresses_in_the_cidrs_have_node_ports(host, follow, cidrs,
                                                     node_ports):
    follower = follow(*["nodeips cidr " + cidr for cidr in cidrs])
    follower.wait(BASE, node_ports)


def test_any_history_ends_with_what_is_there(host, follow):
    follower = follow()
    seed = random.randrange(1 << 32)
    print("seed %d" % seed)
    rng = random.Random(seed)
    host.batch("link add eth1 type veth", "link set eth1 up")
    there = set()
    for _ in range(8):
        lines = []
        for _ in range(rng.randrange(1, 60)):
            one = ("198.51.100.%d" % rng.randrange(1, 30),
                   rng.choice(["eth1", "gw0"]))
            lines.append("addr %s %s/32 dev %s" % (
                "del" if one in there else "add", *one))
            there ^= {one}
        host.batch(*lines)
        follower.wait(BASE | {ip for ip, link in there if link == "eth1"})
