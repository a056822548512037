# SPDX-License-Identifier: Apache-2.0
"""When the daemon tells the switch to forget connections, and what it does if
that fails.  (tests/system/test_stale.py has real connections.)"""
import ipaddress
import pathlib

import pytest

from support import objects
from support.ofshim import TO_SWITCH
from support.wait import wait_for

VIP = "10.96.0.10"
OLD, NEW = "10.10.9.1", "10.10.9.2"
INVALID_GROUP, BAD_EXPERIMENTER = (6, 1), (1, 3)        # Of OFPT_ERROR.


def dns(rig, *addresses):
    """A Service of UDP with these endpoints."""
    with rig.api.batch():
        rig.api.apply(objects.service("ns1", "dns", [(53, "dns", "UDP")],
                                      [VIP]))
        rig.api.apply(objects.slice_(
            "ns1", "dns", [objects.endpoint(a, "n2") for a in addresses],
            [(53, "dns", "UDP")]))


def is_flush(message):
    """For OfShim's rules."""
    return message.what == "ct-flush"


def flushes(rig):
    """Those that have been sent."""
    return [m for m in rig.shim.to_switch() if is_flush(m)]


def wire(text):
    """An address as it is sent."""
    ip = ipaddress.ip_address(text)
    return b"\xff\xff" * (ip.version == 4) + ip.packed


def wait_quiet(rig):
    """Waits until nothing is to be forgotten any more, and nothing says so to
    the next daemon."""
    directory = pathlib.Path(rig.config["ovsRunDir"])
    wait_for(lambda: "0 changes wait, 0 are in passes"
             in rig.daemon.appctl("sync"), 10, "the last pass", rig)
    wait_for(lambda: not list(directory.glob("*.ofproxyd-stale*")), 2,
             "the file's end", rig)


@pytest.fixture(name="started")
def _started(rig):
    """A rig whose Service has the old endpoint; what was sent is forgotten."""
    dns(rig, OLD)
    rig.start_daemon()
    wait_quiet(rig)
    assert not flushes(rig)
    rig.shim.clear()
    return rig


def test_connections_go_after_the_switch_has_confirmed(started):
    """And in passes, a barrier behind each."""
    rig = started
    dns(rig, NEW)
    rig.wait_settled()
    wait_quiet(rig)
    order = [m.what for m in rig.shim.messages()
             if m.what in ("commit-reply", "ct-flush")]
    first = order.index("ct-flush")
    assert order[:first] == ["commit-reply"]
    assert len(flushes(rig)) == 16
    for text in (VIP, OLD):
        assert all(wire(text) in m.data for m in flushes(rig))
    assert all(b"\x0a\x0a\x09\x02" not in m.data for m in flushes(rig))


def test_nothing_goes_when_nothing_has_gone(started):
    """An endpoint more, another Service; and of TCP nothing at all."""
    rig = started
    dns(rig, OLD, NEW)
    for addresses in (["10.10.9.3"], [], ["10.10.9.4"]):
        with rig.api.batch():
            rig.api.apply(objects.service("ns1", "web", [80], ["10.96.0.11"]))
            rig.api.apply(objects.slice_(
                "ns1", "web", [objects.endpoint(a, "n2") for a in addresses]))
        rig.wait_settled()
    rig.api.delete("services", "ns1", "web")
    rig.wait_settled()
    wait_quiet(rig)
    assert not flushes(rig)


def test_b20_what_has_to_go_is_not_forgotten_after_a_refusal(started):
    """The endpoint goes while the switch refuses the group."""
    rig = started
    refusal = rig.shim.refuse(lambda m: m.what == "group put",
                              *INVALID_GROUP, count=3)
    rig.daemon.allow("the switch refuse")
    dns(rig, NEW)
    wait_for(lambda: refusal.hits, 10, "the refusal", rig)
    wait_for(lambda: rig.daemon.in_sync(), 20, "the next try", rig)
    wait_quiet(rig)
    order = [m.what for m in rig.shim.messages()
             if m.what in ("commit-reply", "ct-flush", "error")]
    assert order.index("ct-flush") > order.index("commit-reply")
    assert order.count("error") == 3 and order[:3] == ["error"] * 3
    assert len(flushes(rig)) == 16


def test_b20_what_has_to_go_is_not_forgotten_with_the_connection(started):
    """It breaks with the first removal, and with one in the middle."""
    rig = started
    rig.daemon.allow("connection given up")
    for number, address in enumerate((NEW, OLD)):
        rig.shim.clear()
        seen = []
        cut = rig.shim.cut_on(
            lambda m, s=seen, n=number: is_flush(m)
            and (s.append(m) or len(s) > 5 * n))
        dns(rig, address)
        wait_for(lambda c=cut: c.hits, 10, "the cut", rig)
        rig.wait_settled()
        wait_quiet(rig)
        assert len(flushes(rig)) >= 16 + 5 * number


@pytest.mark.parametrize("gone", ["endpoint", "service"])
@pytest.mark.parametrize("hard", [True, False], ids=["kill", "term"])
def test_b20_what_has_to_go_is_not_forgotten_with_the_daemon(started, gone, hard):
    """It ends between the switch's new flows, which do not tell what was
    before, and the first removal; its successor then, too."""
    rig = started
    last = []

    def is_of_pass(message):
        """A removal, or the barrier behind it: so no pass ends."""
        if message.direction != TO_SWITCH:
            return False
        behind = last == ["ct-flush"] and message.what == "barrier-request"
        last[:] = [message.what]
        return is_flush(message) or behind

    lost = rig.shim.drop(is_of_pass, count=None)
    if gone == "endpoint":
        dns(rig, NEW)
    else:
        rig.api.delete("services", "ns1", "dns")
    end = rig.daemon.kill if hard else rig.daemon.terminate
    for _ in range(2):
        wait_for(lambda: lost.hits, 10, "the removal", rig)
        rig.wait_settled()
        state = rig.switch.state()
        end()
        lost.hits = 0
        rig.daemon.start()
        rig.wait_settled()
        assert rig.switch.state() == state
    rig.shim.clear_rules()
    end()
    rig.shim.clear()
    rig.daemon.start()
    rig.wait_settled()
    wait_for(lambda: flushes(rig), 10, "the removal", rig)
    wait_quiet(rig)
    assert len(flushes(rig)) == 16
    named = [VIP, OLD] if gone == "endpoint" else [VIP]
    assert all(wire(a) in m.data for m in flushes(rig) for a in named)
    rig.shim.clear()
    rig.daemon.restart(hard)
    rig.wait_settled()
    wait_quiet(rig)
    assert not flushes(rig)


def test_a_switch_that_cannot_is_told_of_once(started):
    """Open vSwitch before 3.1."""
    rig = started
    rig.daemon.allow("can't forget single connections")
    rig.shim.refuse(is_flush, *BAD_EXPERIMENTER, count=None)
    for addresses in ((NEW,), (OLD,), ()):
        dns(rig, *addresses)
        rig.wait_settled()
        wait_quiet(rig)
    lines = [line for line in rig.daemon.log_lines()
             if "can't forget single connections" in line]
    assert len(lines) == 1
    assert len(flushes(rig)) == 3


def test_1000_endpoints_are_few_chunks(started):
    """Of an endpoint that goes, each pass is cheap on an empty table; of all
    of them, it is one request."""
    rig = started
    many = ["10.10.%d.%d" % (16 + i // 250, 1 + i % 250) for i in range(1000)]
    dns(rig, NEW, *many)
    rig.wait_settled()
    wait_quiet(rig)
    rig.shim.clear()
    dns(rig, NEW)
    rig.wait_settled()
    wait_quiet(rig)
    assert len(flushes(rig)) in range(2 * 1000, 17 * 1000, 1000)
    dns(rig, NEW, *many)
    rig.wait_settled()
    wait_quiet(rig)
    rig.shim.clear()
    dns(rig)
    rig.wait_settled()
    wait_quiet(rig)
    assert len(flushes(rig)) == 16


@pytest.mark.parametrize("proto, number", [("UDP", 17), ("SCTP", 132)])
@pytest.mark.parametrize("family", [4, 6])
def test_of_each_protocol_and_family(rig, proto, number, family):
    """An endpoint goes; the last one; the Service, which had one again."""
    vip, old, new, zone = {
        4: (VIP, OLD, NEW, 65520),
        6: ("2001:db8:96::10", "2001:db8:9::1", "2001:db8:9::2", 65510),
    }[family]

    def set_endpoints(*addresses):
        with rig.api.batch():
            rig.api.apply(objects.service("ns1", "dns", [(53, "dns", proto)],
                                          [vip]))
            rig.api.apply(objects.slice_(
                "ns1", "dns", [objects.endpoint(a, "n2") for a in addresses],
                [(53, "dns", proto)], address_type="IPv%d" % family))
        rig.wait_settled()

    def taken():
        wait_quiet(rig)
        sent = flushes(rig)
        rig.shim.clear()
        assert all(m.data[16] == number for m in sent)
        assert all(zone.to_bytes(2, "big") in m.data for m in sent)
        return [[bool(wire(a) in m.data) for a in (vip, old, new)]
                for m in sent]

    rig.start_daemon()
    set_endpoints(old)
    wait_quiet(rig)
    rig.shim.clear()
    set_endpoints(new)
    assert taken() == [[True, True, False]] * 16
    set_endpoints()
    assert taken() == [[True, False, False]] * 16
    set_endpoints(new)
    rig.api.delete("services", "ns1", "dns")
    rig.wait_settled()
    assert taken() == [[True, False, False]] * 16
