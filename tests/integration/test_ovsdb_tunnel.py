# SPDX-License-Identifier: Apache-2.0
"""The tunnel port and the gateway's MTU, by ovsdb-probe: made, adopted,
repaired, changed over a restart, removed."""
import json
import re
import time

import pytest

from support.ovs import PrivateSwitch
from support.ovsdbprobe import WRAPPER, fixture_start, transact
from support.wait import slowness, wait_for

__all__ = ["fixture_start"]

TUNNEL = "antrea-tun0"
GENEVE = TUNNEL + ",geneve,0,0,32768"
BY_FLOW = {"key": "flow", "remote_ip": "flow"}
ANTREA = "external_ids:antrea-type=tunnel"


def row(switch, table, name, *columns):
    """Columns of the one row of a name, as Python values; None if there is no
    such row."""
    (result,) = transact(switch, {"op": "select", "table": table,
                                  "where": [["name", "==", name]],
                                  "columns": list(columns)})
    return result["rows"][0] if result["rows"] else None


def as_map(value):
    """An OVSDB map as a dict."""
    return dict(value[1])


def tunnel(switch, name=TUNNEL):
    """(type, options, made, port number) of the tunnel port, or None."""
    iface = row(switch, "Interface", name, "type", "options", "ofport")
    if not iface:
        return None
    port = row(switch, "Port", name, "external_ids")
    return (iface["type"], as_map(iface["options"]),
            as_map(port["external_ids"]).get("ofproxyd-made") == "true",
            iface["ofport"])


def add_tunnel(switch, *settings, name=TUNNEL, type_="geneve", ofport=32768):
    """A bridge with a tunnel port that somebody else made."""
    switch.add_bridge()
    switch.vsctl("add-port", "br-int", name, "--", "set", "Interface", name,
                 "type=" + type_, "options:remote_ip=flow",
                 "options:key=flow", "ofport_request=%d" % ofport, *settings)


def wait_tunnel(probe, ofport=32768, timeout=5):
    """Waits for its port number."""
    return probe.wait(lambda s: s["tunnel_ofport"] == ofport,
                      "tunnel port %d" % ofport, timeout)


@pytest.fixture(name="switch")
def fixture_switch(tmp_path):
    """Its tunnels are real ones."""
    with PrivateSwitch(tmp_path / "ovs", dummy="system") as ovs:
        yield ovs


# Making.

@pytest.mark.parametrize("want, options", [
    ("geneve,0,0", {}),
    ("geneve,7000,1", {"dst_port": "7000", "csum": "true"}),
    ("vxlan,0,1", {"csum": "true"}),
    ("vxlan,8472,0", {"dst_port": "8472"}),
    ("gre,7000,0", {}),         # It has no ports.
    ("stt,0,0", {}),
])
def test_tunnel_port_is_made(switch, start, want, options):
    """With the bridge, in one transaction, marked as ours."""
    probe = start(tunnel="%s,%s,32768" % (TUNNEL, want))
    probe.ready()
    wait_tunnel(probe)
    assert tunnel(switch) == (want.split(",")[0], {**BY_FLOW, **options},
                              True, 32768)
    assert len(probe.log_lines("made ")) == 1
    assert not probe.log_lines("WARN|")


def test_tunnel_port_is_added_to_a_bridge_that_is_there(switch, start):
    """And to one that another daemon made without it."""
    switch.add_bridge()
    wait_tunnel(start(tunnel=GENEVE))
    assert tunnel(switch) == ("geneve", BY_FLOW, True, 32768)


def test_no_tunnel_port_is_made_if_none_is_wanted(switch, start):
    """Modes without tunnels."""
    probe = start()
    assert probe.ready()["tunnel_ofport"] == 0
    assert tunnel(switch) is None


def test_type_that_the_switch_does_not_have_is_named_once(switch, start):
    """As STT in newer versions; the rest goes on."""
    switch.allow("nostt", TUNNEL)
    probe = start(tunnel=TUNNEL + ",nostt,0,0,32768")
    line = probe.wait_log('tunnel port "antrea-tun0" of type nostt')
    assert "the switch reports" in line
    switch.add_dummy_pod("v1", ["10.10.0.1"])
    probe.wait_pods({"v1": ["10.10.0.1"]})
    assert probe.state["tunnel_ofport"] == 0
    assert len(probe.log_lines("antrea-tun0\" of type nostt")) == 1
    assert len(probe.log_lines("INFO|")) == 1       # No fight.


# Adopting.

@pytest.mark.parametrize("mark", [[], ["--", "set", "Port", TUNNEL, ANTREA]])
def test_antreas_tunnel_port_is_adopted(switch, start, mark):
    """With its number; tuning is left; older versions mark nothing."""
    add_tunnel(switch, "options:tos=inherit", *mark, ofport=1)
    wait_tunnel(start(tunnel=GENEVE), 1)
    assert tunnel(switch) == ("geneve", {**BY_FLOW, "tos": "inherit"}, False,
                              1)


def test_antreas_tunnel_port_gets_our_options(switch, start):
    """It sets csum always, which is a key of the configuration here."""
    add_tunnel(switch, "options:csum=true", "options:local_ip=192.0.2.1",
               "options:dst_port=7000", "--", "set", "Port", TUNNEL, ANTREA)
    wait_tunnel(start(tunnel=GENEVE))
    wait_for(lambda: tunnel(switch) == ("geneve", BY_FLOW, False, 32768), 5,
             "the options", lambda: str(tunnel(switch)))


@pytest.mark.parametrize("settings", [
    ["type=internal"], ["type=dummy"], ["options:remote_ip=192.0.2.1"],
])
def test_port_that_only_has_the_name_is_named_and_left(switch, start,
                                                       settings):
    """Nobody knows what it is for."""
    add_tunnel(switch, *settings)
    before = tunnel(switch)
    probe = start(tunnel=GENEVE)
    probe.wait_log("was not made by ofproxyd or Antrea")
    probe.tell("filled")
    switch.add_dummy_pod("v1", ["10.10.0.1"])
    probe.wait_pods({"v1": ["10.10.0.1"]})
    assert tunnel(switch) == before
    assert len(probe.log_lines("was not made by")) == 1


def test_tunnel_port_of_that_name_on_another_bridge_is_named(switch, start):
    """Names are unique in a switch; when it is free, ours is made."""
    switch.vsctl("add-br", "br-other", "--", "add-port", "br-other", TUNNEL,
                 "--", "set", "Interface", TUNNEL, "type=internal")
    probe = start(tunnel=GENEVE)
    line = probe.wait_log("left as it is")
    assert TUNNEL in line and '"br-other"' in line
    switch.vsctl("del-port", TUNNEL)
    wait_tunnel(probe)


# Conflicts: the switch takes no two ports with the same options.

def test_old_tunnel_port_under_another_name_gives_way(switch, start):
    """First, and the switch has time to forget it."""
    add_tunnel(switch, "--", "set", "Port", "tun0", ANTREA, name="tun0")
    wait_tunnel(start(tunnel=GENEVE))
    assert tunnel(switch, "tun0") is None
    assert tunnel(switch) == ("geneve", BY_FLOW, True, 32768)
    assert not switch.unexpected_warnings()


def test_foreign_tunnel_with_our_options_is_named_until_it_goes(switch,
                                                                start):
    """It is left; ours works as soon as it is gone."""
    switch.allow(TUNNEL, "attempting to add tunnel port")
    add_tunnel(switch, name="theirs0", ofport=5)
    probe = start(tunnel=GENEVE)
    line = probe.wait_log('tunnel port "antrea-tun0" of type geneve')
    assert "could not" in line
    assert tunnel(switch, "theirs0")[3] == 5
    switch.vsctl("del-port", "theirs0")
    wait_tunnel(probe)


# Repairing.

REPAIRS = {
    "deleted": ["del-port", TUNNEL],
    "another type": ["set", "Interface", TUNNEL, "type=vxlan"],
    "no tunnel at all": ["set", "Interface", TUNNEL, "type=internal"],
    "options cleared": ["clear", "Interface", TUNNEL, "options"],
    "one destination": ["set", "Interface", TUNNEL,
                        "options:remote_ip=192.0.2.9"],
    "one source": ["set", "Interface", TUNNEL, "options:local_ip=192.0.2.9"],
    "one key": ["set", "Interface", TUNNEL, "options:key=7"],
    "key in": ["set", "Interface", TUNNEL, "options:in_key=7"],
    "key out": ["set", "Interface", TUNNEL, "options:out_key=7"],
    "checksums": ["set", "Interface", TUNNEL, "options:csum=true"],
    "another port": ["set", "Interface", TUNNEL, "options:dst_port=9999"],
    "bridge deleted": ["del-br", "br-int"],
}


@pytest.mark.parametrize("case", REPAIRS)
def test_tunnel_port_is_repaired(switch, start, case):
    """Within a second."""
    switch.allow(TUNNEL)
    probe = start(tunnel=GENEVE)
    wait_tunnel(probe)
    want = ("geneve", BY_FLOW, True, 32768)
    assert tunnel(switch) == want
    n_lines = len(probe.log_lines("INFO|"))
    before = time.monotonic()
    switch.vsctl("--no-wait", *REPAIRS[case])
    wait_for(lambda: len(probe.log_lines("INFO|")) > n_lines, 5, "a repair",
             probe)
    wait_for(lambda: tunnel(switch) == want, 5, "%s to be repaired" % case,
             lambda: "%s\n%s" % (tunnel(switch), probe.dump()))
    assert time.monotonic() - before < slowness() * (10 if WRAPPER else 1.5)
    wait_tunnel(probe)


@pytest.mark.parametrize("name, number", [(TUNNEL, "tunnel_ofport"),
                                          ("gw0", "gateway_ofport")])
def test_a_late_word_of_the_switch_does_not_last(switch, start, name, number):
    """That it could not open a port, which it wrote after it had opened it,
    would stay until something else changes."""
    switch.allow("no such")
    probe = start(tunnel=GENEVE)
    before = wait_tunnel(probe)
    transact(switch, {"op": "update", "table": "Interface",
                      "where": [["name", "==", name]],
                      "row": {"ofport": -1, "error": "no such thing"}})
    probe.wait_log('the switch reports "no such thing"')
    wait_for(lambda: row(switch, "Interface", name, "error")
             == {"error": ["set", []]}, 5, "another word", probe)
    probe.wait(lambda s: s[number] == before[number], "the port")


def test_tunnel_options_that_are_tuning_are_left(switch, start):
    """An operator's business."""
    probe = start(tunnel=GENEVE)
    wait_tunnel(probe)
    switch.vsctl("set", "Interface", TUNNEL, "options:ttl=42",
                 "options:df_default=false")
    switch.vsctl("del-port", "gw0")     # Makes it look again.
    probe.wait_log("made port gw0")
    assert tunnel(switch)[1] == {**BY_FLOW, "ttl": "42",
                                 "df_default": "false"}


# Changes of the configuration over a restart.

def test_type_of_the_configuration_counts_after_a_restart(switch, start):
    """Also that of the port which Antrea made."""
    probe = start(tunnel=GENEVE)
    wait_tunnel(probe)
    for type_ in ("vxlan", "gre", "geneve"):
        probe.stop()
        probe = start(tunnel="%s,%s,0,0,32768" % (TUNNEL, type_))
        wait_tunnel(probe)
        wait_for(lambda: tunnel(switch) == (type_, BY_FLOW, True, 32768), 5,
                 type_, lambda: str(tunnel(switch)))
        # The port number in the database may be that of the type before.
        wait_for(lambda: re.search(
            r"%s 32768/\S+ \(%s" % (TUNNEL, type_),
            switch.appctl("dpif/show")), 5, "the switch to use it", probe)
    assert not switch.unexpected_warnings()


def test_port_and_checksum_of_the_configuration_count(switch, start):
    """And go back to the type's own."""
    probe = start(tunnel=TUNNEL + ",geneve,7000,1,32768")
    wait_tunnel(probe)
    probe.stop()
    probe = start(tunnel=GENEVE)
    wait_for(lambda: tunnel(switch)[1] == BY_FLOW, 5, "options", probe)


@pytest.mark.parametrize("antrea", [False, True])
def test_tunnel_port_goes_with_the_mode_that_had_it(switch, start, antrea):
    """Ours and Antrea's, when the bridge has the flows that need none."""
    if antrea:
        add_tunnel(switch, "--", "set", "Port", TUNNEL, ANTREA)
    else:
        probe = start(tunnel=GENEVE)
        wait_tunnel(probe)
        probe.stop()
    probe = start()
    probe.ready()
    assert tunnel(switch) is not None
    assert probe.state["tunnel_ofport"] == 0
    probe.tell("filled")
    probe.wait_log("removed port antrea-tun0")
    wait_for(lambda: tunnel(switch) is None, 5, "the port to go", probe)
    assert "gw0" in switch.vsctl("list-ports", "br-int").split()


def test_foreign_tunnel_is_left_when_no_tunnel_is_wanted(switch, start):
    """Not marked: not ours, whatever its name."""
    add_tunnel(switch)
    probe = start()
    probe.ready()
    probe.tell("filled")
    switch.vsctl("del-port", "gw0")     # Makes it look again.
    probe.wait_log("made port gw0")
    assert tunnel(switch) == ("geneve", BY_FLOW, False, 32768)


def test_gateway_of_another_name_that_we_made_goes(switch, start):
    """hostGateway was changed; one address would stand on two links."""
    probe = start(tunnel=GENEVE)
    probe.ready()
    probe.stop()
    probe = start(tunnel=GENEVE, gateway="gw1", ofport=32770)
    probe.ready()
    assert "gw0" in switch.vsctl("list-ports", "br-int").split()
    probe.tell("filled")
    probe.wait_log("removed port gw0")
    assert "gw1" in switch.vsctl("list-ports", "br-int").split()


def test_second_run_with_a_tunnel_writes_nothing(switch, start):
    """Nor does a switch that comes back."""
    probe = start(tunnel=GENEVE)
    probe.tell("mtu 1400")
    wait_tunnel(probe)
    wait_for(lambda: mtu(switch) == 1400, 5, "mtu", probe)
    probe.stop()
    n_lines = len(probe.log_lines("INFO|"))
    probe = start(tunnel=GENEVE)
    probe.tell("mtu 1400")
    probe.tell("filled")
    wait_tunnel(probe)
    switch.restart()
    switch.add_dummy_pod("v1", ["10.10.0.1"])
    probe.wait_pods({"v1": ["10.10.0.1"]})
    wait_tunnel(probe)
    assert len(probe.log_lines("INFO|")) == n_lines


# The gateway's MTU.

def mtu(switch, name="gw0"):
    """The wanted one; 0 for none."""
    value = row(switch, "Interface", name, "mtu_request")["mtu_request"]
    return value if isinstance(value, int) else 0


def test_gateway_mtu_is_set_followed_and_repaired(switch, start):
    """By mtu_request; 0 leaves alone what is there."""
    probe = start()
    probe.ready()
    assert mtu(switch) == 0
    for value in (1450, 1400):
        probe.tell("mtu %d" % value)
        wait_for(lambda: mtu(switch) == value, 5, "MTU", probe)
        wait_for(lambda: int(switch.vsctl("get", "Interface", "gw0", "mtu"))
                 == value, 5, "the switch to use it", probe)
    switch.vsctl("--no-wait", "clear", "Interface", "gw0", "mtu_request")
    wait_for(lambda: len(probe.log_lines("set the MTU of port gw0 to 1400"))
             == 2, 5, "the repair", probe)
    switch.vsctl("--no-wait", "del-port", "gw0")
    wait_for(lambda: row(switch, "Interface", "gw0", "name")
             and mtu(switch) == 1400, 5, "the MTU of a new port", probe)
    probe.tell("mtu 0")
    switch.vsctl("set", "Interface", "gw0", "mtu_request=1300")
    switch.add_dummy_pod("v1", ["10.10.0.1"])
    probe.wait_pods({"v1": ["10.10.0.1"]})
    assert mtu(switch) == 1300


def test_mtu_that_the_database_refuses_does_not_reach_it(switch, start):
    """It would take all other repairs of the transaction along."""
    probe = start()
    probe.tell("mtu 67")
    probe.ready()
    assert mtu(switch) == 0
    assert not probe.log_lines("refused")


# Pods whose external_ids stand in the Port, as Antrea's CNI plug-in does it.

def port_ids(name, address, mac):
    """ovs-vsctl's arguments."""
    return ["add-port", "br-int", name, "--", "set", "Interface", name,
            "type=dummy", "--", "set", "Port", name,
            'external_ids:attached-mac="%s"' % mac,
            'external_ids:ip-address="%s"' % address,
            "external_ids:pod-name=web", "external_ids:pod-namespace=ns1"]


def test_pods_of_antreas_cni_plugin_are_found(switch, start):
    """Followed like the others; the Interface's count first."""
    probe = start()
    probe.ready()
    switch.vsctl(*port_ids("v1", "10.10.0.1", "0a:58:0a:0a:00:01"))
    probe.wait_pods({"v1": ["10.10.0.1"]})
    pod = probe.state["pods"][0]
    assert (pod["ns"], pod["name"], pod["mac"]) \
        == ("ns1", "web", "0a:58:0a:0a:00:01")
    switch.vsctl("set", "Port", "v1", "external_ids:ip-address=10.10.0.2")
    probe.wait_pods({"v1": ["10.10.0.2"]})
    switch.vsctl("set", "Port", "v1", "external_ids:ip-address=nonsense")
    line = probe.wait_log('external_ids:ip-address is "nonsense"')
    assert 'interface "v1"' in line
    probe.wait_pods({})
    switch.vsctl("set", "Interface", "v1", "external_ids:ip-address=10.10.0.3",
                 'external_ids:attached-mac="0a:58:0a:0a:00:03"')
    probe.wait_pods({"v1": ["10.10.0.3"]})
    switch.vsctl("clear", "Interface", "v1", "external_ids", "--",
                 "clear", "Port", "v1", "external_ids")
    probe.wait_pods({})


def test_pod_that_moves_to_another_port_is_followed(switch, start):
    """The new port has the addresses, the old one is removed later."""
    probe = start()
    probe.ready()
    switch.add_dummy_pod("old", ["10.10.0.1"], ofport=11,
                         mac="0a:58:0a:0a:00:01")
    probe.wait_pods({"old": ["10.10.0.1"]})
    switch.add_dummy_pod("new", ["10.10.0.1"], ofport=12,
                         mac="0a:58:0a:0a:00:01")
    probe.wait_pods({"new": ["10.10.0.1"]})
    switch.del_port("old")
    wait_for(lambda: "old" not in switch.vsctl("list-ports", "br-int"), 5,
             "the port to go")
    probe.wait_pods({"new": ["10.10.0.1"]})
    assert not [s for s in probe.states if len(s["pods"]) > 1]
    assert json.dumps(probe.pods["new"][0]) == "12"
