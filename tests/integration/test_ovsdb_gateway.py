# SPDX-License-Identifier: Apache-2.0
"""What the ovsdb module does about a gateway port without a link (C16).

ovs-vswitchd does not run here: the tests write what it would."""
import time

import pytest

from support.ovsdbprobe import fixture_start
from support.ovs import PrivateSwitch
from support.wait import wait_for

__all__ = ["fixture_start"]

GATEWAY, MAC, CLOSED = "gw0", "02:00:00:00:00:07", "ofproxyd-reopen"


@pytest.fixture(name="switch")
def fixture_switch(tmp_path):
    """A database without a switch."""
    switch = PrivateSwitch(tmp_path / "ovs", dummy=True)
    switch.run("ovsdb-tool", "create", switch.dir / "conf.db",
               "/usr/share/openvswitch/vswitch.ovsschema")
    switch.start_ovsdb()
    yield switch
    switch.stop_ovsdb()


def write(switch, *columns):
    """Columns of the gateway's Interface."""
    switch.vsctl("--no-wait", "set", "Interface", GATEWAY, *columns)


def kind(switch):
    """The type of the gateway's Interface."""
    return switch.vsctl("get", "Interface", GATEWAY, "type").strip()


def lose(switch):
    """The switch opens the port, and its link goes."""
    write(switch, "ofport=5", "mac_in_use=[]")


def prepare(switch, start):
    """A probe with a gateway that is there."""
    probe = start()
    wait_for(lambda: GATEWAY in switch.vsctl("list-ifaces", switch.bridge,
                                             check=False), 5, "gateway",
             probe)
    write(switch, "ofport=5", 'mac_in_use="%s"' % MAC, 'mac="%s"' % MAC)
    probe.wait(lambda s: s["gateway_ofport"] == 5, "a number")
    return probe


def close(switch, probe, timeout=5):
    """Waits until the port is taken out; the switch answers.  Returns two
    times between which it was taken out."""
    looks = [time.monotonic()]

    def closed():
        looks.append(time.monotonic())
        return kind(switch) == CLOSED

    wait_for(closed, timeout, "the first step", probe)
    seen = time.monotonic()
    write(switch, "ofport=-1", "error=unknown")
    wait_for(lambda: kind(switch) == "internal", 5, "the second step", probe)
    return looks[-2], seen


def stays(switch, seconds=0.6):
    """Whether nothing is done about the port for some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if kind(switch) != "internal":
            return False
    return True


def test_port_is_taken_out_and_put_in_again(switch, start):
    """One after the other, with the address that it had."""
    probe = prepare(switch, start)
    write(switch, "mac=[]", "external_ids:a=b", "ofport_request=5")
    lose(switch)
    probe.tell("lost 1")
    close(switch, probe)
    assert MAC in switch.vsctl("get", "Interface", GATEWAY, "mac")
    assert switch.vsctl("get", "Interface", GATEWAY, "external_ids:a",
                        "ofport_request").split() == ["b", "5"]
    write(switch, "ofport=5", 'mac_in_use="%s"' % MAC)
    probe.tell("lost 0")
    probe.wait(lambda s: (s["gateway_ofport"], s["gateway_mac"]) == (5, MAC),
               "the port")
    assert stays(switch)
    assert not probe.log_lines("reports")


def test_second_step_waits_for_the_switch(switch, start):
    """It would see no difference otherwise."""
    probe = prepare(switch, start)
    lose(switch)
    probe.tell("lost 1")
    wait_for(lambda: kind(switch) == CLOSED, 5, "the first step", probe)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        assert kind(switch) == CLOSED
    close(switch, probe)


def test_second_step_needs_no_loss(switch, start):
    """But only the state that a predecessor has left."""
    probe = prepare(switch, start)
    write(switch, "type=" + CLOSED, "ofport=-1", "mac_in_use=[]")
    wait_for(lambda: kind(switch) == "internal", 5, "the second step", probe)


@pytest.mark.parametrize("lost,columns", [
    (0, ["mac_in_use=[]"]), (1, []), (1, ["mac_in_use=[]", "ofport=-1"]),
    (1, ["mac_in_use=[]", "ofport=[]"])],
    ids=["link-there", "switch-has-it", "refused", "not-yet-opened"])
def test_port_that_is_not_dead_is_left(switch, start, lost, columns):
    """Both host and switch have to lack the link.  Where the switch's ports
    are no links, as a dummy's, it knows an address."""
    probe = prepare(switch, start)
    if columns:
        write(switch, *columns)
    probe.tell("lost %d" % lost)
    assert stays(switch)


def test_port_of_another_type_is_left(switch, start):
    """The switch would not make its link."""
    probe = prepare(switch, start)
    write(switch, 'type=""', "mac_in_use=[]")
    probe.tell("lost 1")
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        assert kind(switch) == '""'


def test_what_does_not_help_is_tried_less_and_less(switch, start):
    """And said once."""
    probe = prepare(switch, start)
    lose(switch)
    probe.tell("lost 1")
    times = []
    for _ in range(4):
        times.append(close(switch, probe, 10))
        lose(switch)
    gaps = [b[1] - a[0] for a, b in zip(times, times[1:])]
    assert gaps[0] > 0.9 and gaps[1] > 1.9 and gaps[2] > 3.9, gaps
    for text in ("took port", "put port", "still has no link"):
        assert len(probe.log_lines(text)) == 1, text
