# SPDX-License-Identifier: Apache-2.0
"""Connection tracking of the host and the tunnels' packets.

The nodes have their addresses on the links themselves here, so that the hosts
see what comes for the tunnel port, as they do with the kernel's datapath.
"""
import ipaddress

import pytest

from support import packets
from support.wait import wait_for

MULTI = {
    "geneve": {"tunnel": "geneve", "bridged": False},
    "vxlan": {"tunnel": "vxlan", "bridged": False},
    "geneve-port-7000": {"tunnel": "geneve", "bridged": False,
                         "tunnelPort": 7000},
    "gre": {"tunnel": "gre", "bridged": False},
    "off": {"tunnel": "geneve", "bridged": False,
            "ofproxyd": {"tunnelNotrack": False}}}
USUAL = {"geneve": 6081, "vxlan": 4789}


def own_port(multi):
    """The port of the tunnels, 0 if it is not to be left alone."""
    if "ofproxyd" in multi.config:
        return 0
    return multi.config.get("tunnelPort", USUAL.get(multi.tunnel, 0))


def send(sender, family, target, port):
    """One datagram; whoever gets it does not answer.  The text that an entry
    about it has."""
    with packets.sock(sender, family) as sock:
        sock.sendto(b"x", (target, port))
        return "src=%s dst=%s sport=%d dport=%d " % (
            full(sender.of(family)), full(target), sock.getsockname()[1],
            port)


def is_tracked(node, text):
    """Whether a host's connection tracking has this entry."""
    return text in node.run("cat", "/proc/net/nf_conntrack").stdout


def wait_tracked(node, text):
    """Waits until it has."""
    wait_for(lambda: is_tracked(node, text), 2, "an entry " + text)


def full(address):
    """An address as the kernel writes it there."""
    return ipaddress.ip_address(address).exploded


@pytest.mark.parametrize("port", [6081, 4789, 7000])
def test_tunnel_packets_between_nodes_are_not_tracked(multi, host_family,
                                                      port):
    """Neither where they leave nor where they arrive; on the tunnel's own
    port only (E18)."""
    one, two = multi.nodes
    text = send(one, host_family, two.of(host_family), port)
    later = send(one, host_family, two.of(host_family), 9)
    for node in (one, two):
        wait_tracked(node, later)
        assert is_tracked(node, text) == (port != own_port(multi))


@pytest.mark.parametrize("port", [6081, 4789, 7000])
def test_packets_from_elsewhere_are_tracked_as_ever(multi, host_family,
                                                    port):
    """Also on the tunnel's port, if no node has sent them."""
    node = multi.nodes[0]
    with packets.sock(multi.outside, host_family) as sock:
        sock.sendto(b"x", (node.of(host_family), port))
        wait_tracked(node, "src=%s dst=%s sport=%d dport=%d " % (
            full(multi.outside_address(host_family)),
            full(node.of(host_family)), sock.getsockname()[1], port))


def test_a_node_that_goes_is_tracked_again(multi, host_family):
    """The set of nodes follows the Node objects."""
    port = own_port(multi) or 6081
    one, two = multi.nodes
    multi.api.delete("nodes", "", two.node_name)

    def next_is_tracked():
        text = send(two, host_family, one.of(host_family), port)
        return is_tracked(one, text)

    wait_for(next_is_tracked, 5, "an entry", multi.members[0].daemon)
    text = send(two, host_family, one.of(host_family), port)
    wait_tracked(one, text)
    multi.api.apply(two.object())
    if own_port(multi):
        # What was tracked goes, too, long before it ends by itself.
        wait_for(lambda: not is_tracked(one, text), 10, "its end",
                 multi.members[0].daemon)
        wait_for(lambda: not next_is_tracked(), 5, "no entry",
                 multi.members[0].daemon)


def test_what_was_tracked_before_is_forgotten(multi, host_family):
    """Once, when the rules come (E19)."""
    port = own_port(multi)
    member, (one, two) = multi.members[0], multi.nodes
    member.daemon.terminate()
    one.run("nft", "flush", "ruleset")
    one.run("nft", "add table inet other; add chain inet other c "
            "{ type filter hook prerouting priority 0; ct state new accept; }")
    text = send(two, host_family, one.of(host_family), port or 6081)
    wait_tracked(one, text)
    member.daemon.start()
    member.daemon.wait_synced()
    if port:
        wait_for(lambda: not is_tracked(one, text), 5, "its end",
                 member.daemon)
    else:
        assert is_tracked(one, text)
    one.run("nft", "delete", "table", "inet", "other")
