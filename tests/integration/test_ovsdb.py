# SPDX-License-Identifier: Apache-2.0
"""The ovsdb module against a real database and switch, by ovsdb-probe."""
import re
import time

import pytest

from support import proc
from support.ovs import PrivateSwitch
from support.ovsdbprobe import (TABLES, WRAPPER, Probe, fixture_start,
                                fixture_switch, transact)
from support.wait import slowness, wait_for

__all__ = ["fixture_start", "fixture_switch"]

NAMES = {int(id_): name for id_, name in (t.split(":") for t in TABLES)}
LOCAL_MAC = re.compile(r"^[0-9a-f][26ae](:[0-9a-f]{2}){5}$")
A, B = ("v1", "10.10.0.1"), ("v2", "10.10.0.2")


def table_names(switch, bridge=None):
    """{table id: name} of a bridge."""
    rows, bridges = transact(
        switch, {"op": "select", "table": "Flow_Table", "where": [],
                 "columns": ["_uuid", "name"]},
        {"op": "select", "table": "Bridge", "columns": ["flow_tables"],
         "where": [["name", "==", bridge or switch.bridge]]})
    names = {row["_uuid"][1]: row["name"] if isinstance(row["name"], str)
             else None for row in rows["rows"]}
    return {id_: names[uuid[1]] for row in bridges["rows"]
            for id_, uuid in row["flow_tables"][1]}


def contents(switch):
    """What the module keeps right, for comparison."""
    get = switch.vsctl
    bridge = switch.bridge
    if bridge not in get("list-br").split():
        return None
    ports = get("list-ports", bridge).split()
    result = {
        "names": table_names(switch),
        "ports": ports,
        "local": get("--if-exists", "get", "Interface", bridge,
                     "type").strip(),
    }
    for column in ("fail_mode", "protocols", "datapath_type",
                   "external_ids"):
        result[column] = get("get", "Bridge", bridge, column).strip()
    if "gw0" in ports:
        result["gateway"] = [
            get("get", "Interface", "gw0", column).strip()
            for column in ("type", "mac", "ofport")]
    return result


def n_records(switch):
    """The number of transactions that the database's file holds."""
    log = proc.output("ovsdb-tool", "show-log", switch.dir / "conf.db")
    return len(re.findall(r"^record \d+:", log, re.M))


# Making and adopting.

def test_makes_bridge_gateway_and_names_from_nothing(switch, start):
    """All of it in one transaction, and marked as ours."""
    state = start().ready()
    have = contents(switch)
    assert have["fail_mode"] == "secure"
    assert have["datapath_type"] == "netdev"
    assert have["external_ids"] \
        == '{ofproxyd-layout="1", ofproxyd-made="true"}'
    assert have["names"] == NAMES
    assert have["local"] == "internal"
    mac = have["gateway"][1].strip('"')
    assert have["gateway"] == ["internal", '"%s"' % mac, "32769"]
    assert LOCAL_MAC.match(mac)
    assert state["gateway_ofport"] == 32769
    assert state["gateway_mac"] == mac
    wait_for(lambda: mac_of_port(switch, "gw0") == mac, 5,
             "the switch to use " + mac)
    assert switch.vsctl("get", "Port", "gw0", "external_ids").strip() \
        == '{ofproxyd-made="true"}'
    assert switch.dump_flows() == []    # Secure: not even a default flow.


def mac_of_port(switch, name):
    """The MAC address that the switch uses for a port.  What it writes into
    the database about that can be late."""
    return re.search(r"\(%s\): addr:(\S+)" % name, switch.ofctl("show"))[1]


def test_gateway_keeps_its_mac_when_the_switch_restarts(switch, start):
    """It stands in Interface.mac."""
    probe = start()
    mac = probe.ready()["gateway_mac"]
    switch.restart(hard=True)
    wait_for(lambda: mac_of_port(switch, "gw0") == mac, 5,
             "the switch to use " + mac)
    assert {s["gateway_mac"] for s in probe.states if s["gateway_ofport"]} \
        == {mac}


def test_adopts_what_exists_and_writes_only_what_is_wrong(switch, start):
    """Values that the daemon does not depend on are left."""
    switch.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int",
                 "protocols=OpenFlow10,OpenFlow13", "other_config:hwaddr="
                 '"02:00:00:00:00:99"', "external_ids:mine=1", "--",
                 "--id=@t", "create", "Flow_Table", "flow_limit=1000",
                 "name=old", "--", "set", "bridge", "br-int",
                 "flow_tables:12=@t", "--", "add-port", "br-int", "gw0",
                 "--", "set", "Interface", "gw0", "type=internal",
                 "ofport_request=7", 'mac="02:00:00:00:00:07"')
    probe = start(datapath="system")
    state = probe.ready()
    assert (state["gateway_ofport"], state["gateway_mac"]) \
        == (7, "02:00:00:00:00:07")
    wait_for(lambda: contents(switch)["names"] == NAMES, 5, "names", probe)
    have = contents(switch)
    assert have["fail_mode"] == "secure"
    assert set(re.findall(r"\w+", have["protocols"])) \
        == {"OpenFlow10", "OpenFlow13", "OpenFlow15"}
    assert have["external_ids"] == '{mine="1", ofproxyd-layout="1"}'
    assert have["gateway"] == ["internal", '"02:00:00:00:00:07"', "7"]
    assert switch.vsctl("get", "Port", "gw0", "external_ids").strip() == "{}"
    assert "1000" in switch.vsctl("--columns=flow_limit", "find",
                                  "Flow_Table", "name=ServiceLB")
    assert "02:00:00:00:00:99" in switch.vsctl("get", "bridge", "br-int",
                                               "other_config")


def test_another_datapath_type_is_named_once_and_kept(switch, start):
    """To change it would take the bridge away for a moment."""
    switch.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int",
                 "datapath_type=netdev")
    probe = start(datapath="system")
    probe.ready()
    probe.wait_log('has datapath_type "netdev" and not "system"')
    switch.add_dummy_pod(A[0], [A[1]])  # Makes it look again.
    probe.wait_pods({A[0]: [A[1]]})
    assert len(probe.log_lines("datapath_type")) == 1
    assert contents(switch)["datapath_type"] == "netdev"


@pytest.mark.parametrize("port", ["gw0", "br-int"])
def test_name_that_another_bridge_has_is_named_and_left(switch, start, port):
    """Port names are unique in a switch."""
    switch.vsctl("add-br", "br-other", "--", "add-port", "br-other", port,
                 "--", "set", "Interface", port, "type=internal")
    probe = start()
    line = probe.wait_log("left as it is")
    assert '"%s"' % port in line and '"br-other"' in line
    assert port in switch.vsctl("list-ports", "br-other").split()
    assert probe.state["gateway_ofport"] == 0
    switch.vsctl("del-port", port)
    probe.ready()


def test_database_without_its_root_row_is_named(switch, start):
    """Nobody but the distribution's start script makes it."""
    switch.stop_vswitchd()
    transact(switch, {"op": "delete", "table": "Open_vSwitch", "where": []})
    probe = start()
    probe.wait_log("ovs-vsctl init")
    switch.vsctl("--no-wait", "init")
    wait_for(lambda: contents(switch), 5, "the bridge", probe)


# Repairing.

REPAIRS = {
    "bridge deleted": ["del-br", "br-int"],
    "gateway deleted": ["del-port", "gw0"],
    "local port deleted": ["remove", "bridge", "br-int", "ports", "@local"],
    "fail mode changed": ["set-fail-mode", "br-int", "standalone"],
    "fail mode removed": ["del-fail-mode", "br-int"],
    "layout removed": ["remove", "bridge", "br-int", "external_ids",
                       "ofproxyd-layout"],
    "layout changed": ["set", "bridge", "br-int",
                       "external_ids:ofproxyd-layout=77"],
    "all names gone": ["clear", "bridge", "br-int", "flow_tables"],
    "one name gone": ["remove", "bridge", "br-int", "flow_tables", "3"],
    "name changed": ["set", "Flow_Table", "ServiceLB", "name=Wrong"],
    "name cleared": ["clear", "Flow_Table", "ServiceLB", "name"],
}


@pytest.mark.parametrize("case", REPAIRS)
def test_repairs(switch, start, case):
    """What a foreign hand takes away comes back within a second."""
    probe = start()
    probe.ready()
    want = contents(switch)
    command = ["--", *REPAIRS[case]]
    if "@local" in command:
        command = ["--", "--id=@local", "get", "Port", "br-int", *command]
    command = [row_uuid(switch, a) if a == "ServiceLB" else a
               for a in command]
    before = time.monotonic()
    switch.vsctl("--no-wait", *command)
    wait_for(lambda: probe.log_lines("INFO|")[1:], 5, "a repair",
             probe)
    looks = []

    def repaired():
        """To look takes a dozen commands, which is not the repair's time."""
        looks.append(time.monotonic())
        return contents(switch) == want

    wait_for(repaired, 5, "%s to be repaired" % case,
             lambda: str(contents(switch)))
    took = looks[-1] - before
    assert took < (10 if WRAPPER else 1) * slowness(), took
    probe.ready()


def row_uuid(switch, table):
    """The row of a table name."""
    return switch.vsctl("--bare", "--columns=_uuid", "find", "Flow_Table",
                        "name=" + table).strip()


def test_protocols_keep_openflow_1_5(switch, start):
    """Without it the service connection is refused."""
    probe = start()
    probe.ready()
    assert contents(switch)["protocols"] == "[]"   # All versions.
    switch.vsctl("set", "bridge", "br-int", "protocols=OpenFlow13")
    wait_for(lambda: contents(switch)["protocols"]
             == "[OpenFlow13, OpenFlow15]", 5, "OpenFlow15", probe)
    wait_for(lambda: proc.run("ovs-ofctl", "-O", "OpenFlow15", "show",
                              switch.dir / "br-int.mgmt",
                              check=False).returncode == 0, 5, "a connection")


def test_d35_gateway_recreated_with_another_ofport_is_followed(switch,
                                                               start):
    """And by us again with the number and the MAC address of before."""
    probe = start()
    probe.ready()
    mac = switch.vsctl("get", "Interface", "gw0", "mac").strip(' "\n')
    switch.vsctl("--", "del-port", "gw0", "--", "add-port", "br-int", "gw0",
                 "--", "set", "Interface", "gw0", "type=internal",
                 "ofport_request=99", 'mac="02:00:00:00:00:63"')
    probe.wait(lambda s: (s["gateway_ofport"], s["gateway_mac"])
               == (99, "02:00:00:00:00:63"), "port 99")
    switch.vsctl("del-port", "gw0")
    probe.wait(lambda s: (s["gateway_ofport"], s["gateway_mac"])
               == (32769, "02:00:00:00:00:63"), "our port again")
    assert mac != "02:00:00:00:00:63"


def test_ofctl_shows_the_table_names(switch, start):
    """For people."""
    start().ready()
    switch.ofctl("add-flow", "table=12,actions=drop")
    wait_for(lambda: any("table=ServiceLB" in line
                         for line in switch.dump_flows()), 5, "the name")


def test_tables_that_are_not_ours_keep_their_names(switch, start):
    """Unless they have one of ours: such names are printed for neither."""
    switch.vsctl("add-br", "br-int", "--", "add-br", "br-other", "--",
                 "--id=@theirs", "create", "Flow_Table", "name=Theirs", "--",
                 "--id=@twin", "create", "Flow_Table", "name=ServiceLB", "--",
                 "--id=@shared", "create", "Flow_Table", "name=Shared",
                 "flow_limit=5", "--", "set", "bridge", "br-int",
                 "flow_tables:50=@theirs", "flow_tables:51=@twin",
                 "flow_tables:3=@shared", "--", "set", "bridge", "br-other",
                 "flow_tables:3=@shared")
    probe = start()
    probe.ready()
    wait_for(lambda: table_names(switch)
             == {**NAMES, 50: "Theirs", 51: None}, 5, "the names",
             lambda: str(table_names(switch)))
    assert table_names(switch, "br-other") == {3: "Shared"}


LIMITED = [t + (":500" if t.startswith("12:") else "") for t in TABLES]


def limits(switch, bridge=None):
    """{table id: (flow limit, overflow policy)} of a bridge, of tables that
    have either."""
    rows, bridges = transact(
        switch, {"op": "select", "table": "Flow_Table", "where": [],
                 "columns": ["_uuid", "flow_limit", "overflow_policy"]},
        {"op": "select", "table": "Bridge", "columns": ["flow_tables"],
         "where": [["name", "==", bridge or switch.bridge]]})
    empty = ["set", []]
    found = {row["_uuid"][1]: (row["flow_limit"], row["overflow_policy"])
             for row in rows["rows"]}
    return {id_: found[uuid[1]] for row in bridges["rows"]
            for id_, uuid in row["flow_tables"][1]
            if found[uuid[1]] != (empty, empty)}


def test_limit_of_a_table_is_kept(switch, start):
    """With its policy; of others nothing is said, and a row that another
    bridge has, too, is not changed for that one."""
    start(tables=LIMITED).ready()
    assert limits(switch) == {12: (500, "evict")}
    row = switch.vsctl("get", "bridge", "br-int",
                       "flow_tables:12").strip()
    for columns in (["flow_limit=7"], ["overflow_policy=refuse"],
                    ["flow_limit=[]", "overflow_policy=[]"]):
        switch.vsctl("set", "Flow_Table", row, *columns)
        wait_for(lambda: limits(switch) == {12: (500, "evict")}, 5,
                 "the limit", lambda: str(limits(switch)))
    assert table_names(switch) == NAMES

    switch.vsctl("add-br", "br-other", "--", "set", "bridge", "br-other",
                 "flow_tables:3=" + row)
    switch.vsctl("set", "Flow_Table", row, "flow_limit=9")
    wait_for(lambda: limits(switch) == {12: (500, "evict")}, 5, "the limit")
    assert limits(switch, "br-other") == {3: (9, "evict")}


# Pods.

def test_pods_appear_move_and_disappear(switch, start):
    """In the order of their interfaces' names."""
    probe = start()
    probe.ready()
    assert probe.pods == {}
    switch.add_dummy_pod("v2", ["10.10.0.2", "fd00:10::2"], ofport=12,
                         mac="0A:58:0a:0a:00:02")
    switch.add_dummy_pod("v1", ["10.10.0.1"], ofport=11)
    switch.vsctl("add-port", "br-int", "tun0", "--", "set", "Interface",
                 "tun0", "type=dummy", "external_ids:antrea-type=tunnel")
    probe.wait_pods({"v1": ["10.10.0.1"], "v2": ["10.10.0.2", "fd00:10::2"]})
    assert [p["iface"] for p in probe.state["pods"]] == ["v1", "v2"]
    pod = probe.state["pods"][1]
    assert (pod["ns"], pod["name"], pod["ofport"], pod["mac"]) \
        == ("ns1", "v2", 12, "0a:58:0a:0a:00:02")

    switch.vsctl("set", "Interface", "v1",
                 "external_ids:ip-address=10.10.0.77")
    probe.wait_pods({"v1": ["10.10.0.77"],
                     "v2": ["10.10.0.2", "fd00:10::2"]})
    switch.vsctl("add-br", "br-other", "--", "del-port", "v2")
    probe.wait_pods({"v1": ["10.10.0.77"]})
    switch.vsctl("add-port", "br-other", "v2", "--", "set", "Interface",
                 "v2", "type=dummy", "external_ids:ip-address=10.10.0.2",
                 'external_ids:attached-mac="0a:58:0a:0a:00:02"')
    switch.del_port("v1")
    probe.wait_pods({})


def test_pod_whose_port_number_changes_is_followed(switch, start):
    """Also to none at all: a link that is gone."""
    probe = start()
    probe.ready()
    switch.add_dummy_pod(A[0], [A[1]], ofport=21)
    probe.wait(lambda s: probe.pods.get("v1", [0])[0] == 21, "port 21")
    switch.vsctl("set", "Interface", "v1", "ofport_request=22")
    probe.wait(lambda s: probe.pods.get("v1", [0])[0] == 22, "port 22")


def test_pod_without_a_port_number_waits_for_one(switch, start):
    """The switch is down, or is not that far yet."""
    probe = start()
    probe.ready()
    switch.stop_vswitchd()
    switch.vsctl("--no-wait", "add-port", "br-int", "v1", "--", "set",
                 "Interface", "v1", "type=dummy",
                 "external_ids:ip-address=10.10.0.1",
                 'external_ids:attached-mac="0a:58:0a:0a:00:01"', "--",
                 "set", "Interface", "gw0", "external_ids:seen=1")
    switch.start_vswitchd()
    probe.wait_pods({"v1": ["10.10.0.1"]})
    assert not probe.log_lines("WARN|")


def test_port_that_the_switch_cannot_open_is_named_once(switch, start):
    """Its pod is left out, the others are not."""
    probe = start()
    probe.ready()
    switch.add_dummy_pod(A[0], [A[1]])
    switch.vsctl("--no-wait", "add-port", "br-int", "v9", "--", "set",
                 "Interface", "v9", "type=nonsense",
                 "external_ids:ip-address=10.10.0.9",
                 "external_ids:pod-name=web", "external_ids:pod-namespace=x",
                 'external_ids:attached-mac="0a:58:0a:0a:00:09"')
    line = probe.wait_log('interface "v9" of pod "x/web"')
    assert "could not" in line or "nonsense" in line or "not supp" in line
    probe.wait_pods({"v1": ["10.10.0.1"]})
    switch.add_dummy_pod(B[0], [B[1]])
    probe.wait_pods({"v1": ["10.10.0.1"], "v2": ["10.10.0.2"]})
    assert len(probe.log_lines('"v9"')) == 1


BROKEN = {
    "attached-mac": ["", "1", "0a:58:0a:0a:00", "0a:58:0a:0a:00:01:02",
                     "0a-58-0a-0a-00-01", "0a:58:0a:0a:00:zz",
                     "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff",
                     "00:00:00:00:00:00", "0a:58:0a:0a:00:01 ", "x" * 70000],
    "ip-address": ["", ",", "10.10.0.1,", "10.10.0.1, 10.10.0.2",
                   "10.10.0.256", "10.10.0.1/24", "fe80::1%eth0", "::",
                   "0.0.0.0", "224.0.0.1", "ff02::1", "127.0.0.1", "name",
                   "1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5",
                   "10.10.0.1\n10.10.0.2", "%s%n%x", "1" * 70000],
}


@pytest.mark.parametrize("key", BROKEN)
def test_broken_values_are_named_and_leave_one_pod_out(switch, start, key):
    """Once for each value; what follows it still counts."""
    probe = start()
    probe.ready()
    switch.add_dummy_pod(A[0], [A[1]])
    switch.add_dummy_pod(B[0], [B[1]])
    good = {"attached-mac": "0a:58:0a:0a:00:01", "ip-address": A[1]}[key]
    for n, value in enumerate(BROKEN[key], 1):
        set_external_id(switch, "v1", key, value)
        wait_for(lambda: len(probe.log_lines("external_ids:" + key)) == n, 5,
                 "a line about %.40r" % value, probe)
        line = probe.log_lines("external_ids:" + key)[-1]
        assert '"v1"' in line and "left out" in line or len(value) > 500
        assert len(line) < 700
        probe.wait_pods({"v2": ["10.10.0.2"]})
    set_external_id(switch, "v1", key, good)
    probe.wait_pods({"v1": ["10.10.0.1"], "v2": ["10.10.0.2"]})
    switch.vsctl("remove", "Interface", "v1", "external_ids", key)
    probe.wait_log("but no " + key)
    probe.wait_pods({"v2": ["10.10.0.2"]})


def set_external_id(switch, iface, key, value):
    """By a raw transaction: ovs-vsctl has quoting rules of its own."""
    where = [["name", "==", iface]]
    mutations = [["external_ids", "delete", ["set", [key]]],
                 ["external_ids", "insert", ["map", [[key, value]]]]]
    transact(switch, {"op": "mutate", "table": "Interface", "where": where,
                      "mutations": mutations})


def test_addresses_are_read_as_they_should_be(switch, start):
    """The same address twice is one; zeros and case do not matter."""
    probe = start()
    probe.ready()
    switch.add_dummy_pod("v1", ["10.10.0.01", "FD00::0:1", "10.10.0.1",
                                "::ffff:10.10.0.1", "10.10.0.2",
                                "fd00::2"], mac="0A:58:0a:0a:00:0F")
    probe.wait_pods({"v1": ["10.10.0.1", "fd00::1", "10.10.0.2", "fd00::2"]})
    assert probe.pods["v1"][1] == "0a:58:0a:0a:00:0f"


def test_of_two_ports_with_one_address_the_higher_has_it(switch, start):
    """A port may outlive its pod; named once."""
    probe = start()
    probe.ready()
    switch.add_dummy_pod("old", ["10.10.0.1", "fd00::1"], ofport=31,
                         mac="0a:58:00:00:00:01")
    probe.wait_pods({"old": ["10.10.0.1", "fd00::1"]})
    switch.add_dummy_pod("new", ["10.10.0.1"], ofport=32,
                         mac="0a:58:00:00:00:02")
    probe.wait_pods({"new": ["10.10.0.1"], "old": ["fd00::1"]})
    line = probe.wait_log("both have address 10.10.0.1")
    assert '"old" (port 31)' in line and '"new" (port 32)' in line
    # The same MAC address: the older port is of no use to anybody.
    switch.add_dummy_pod("mac", ["10.10.0.9"], ofport=33,
                         mac="0a:58:00:00:00:01")
    probe.wait_pods({"new": ["10.10.0.1"], "mac": ["10.10.0.9"]})
    probe.wait_log("both have address 0a:58:00:00:00:01")
    switch.del_port("new")
    switch.del_port("mac")
    probe.wait_pods({"old": ["10.10.0.1", "fd00::1"]})
    assert len(probe.log_lines("both have address 10.10.0.1")) == 1


def test_the_number_of_the_snapshot_moves_only_with_a_change(switch, start):
    """Other columns and other bridges do not count."""
    probe = start()
    probe.ready()
    switch.add_dummy_pod(A[0], [A[1]])
    probe.wait_pods({"v1": ["10.10.0.1"]})
    n_states = len(probe.states)
    switch.vsctl("add-br", "br-other", "--", "add-port", "br-other", "x0",
                 "--", "set", "Interface", "x0", "type=dummy", "--", "set",
                 "Interface", "v1", "external_ids:container-id=other", "--",
                 "set", "Bridge", "br-int", "external_ids:other=1")
    switch.add_dummy_pod(B[0], [B[1]])
    probe.wait_pods({"v1": ["10.10.0.1"], "v2": ["10.10.0.2"]})
    numbers = [s["seqno"] for s in probe.states]
    assert numbers == sorted(set(numbers))
    assert all("v2" in [p["iface"] for p in s["pods"]]
               for s in probe.states[n_states:])


# Restarts.

@pytest.mark.parametrize("options", [{}, {"tables": LIMITED}],
                         ids=["plain", "limits"])
def test_second_run_writes_nothing(switch, start, options):
    """The switch is stopped, so nobody else writes either."""
    probe = start(**options)
    probe.ready()
    switch.add_dummy_pod(A[0], [A[1]])
    probe.wait_pods({"v1": ["10.10.0.1"]})
    probe.stop()
    switch.stop_vswitchd()
    records = n_records(switch)
    probe = start(**options)
    probe.wait_pods({"v1": ["10.10.0.1"]})
    # Had it something to write, it would have done so before it answers to
    # this change of ours.
    switch.vsctl("--no-wait", "set", "Interface", "v1",
                 "external_ids:ip-address=10.10.0.5")
    probe.wait_pods({"v1": ["10.10.0.5"]})
    probe.stop()
    assert n_records(switch) == records + 1


def test_snapshot_outlives_the_database_and_follows_it_again(switch, start):
    """Contents of before, said to be of before."""
    probe = start()
    probe.ready()
    switch.add_dummy_pod(A[0], [A[1]])
    probe.wait_pods({"v1": ["10.10.0.1"]})
    before = probe.state
    switch.stop_ovsdb()
    state = probe.wait(lambda s: not s["connected"], "the loss")
    keys = set(before) - {"connected", "seqno"}
    assert {k: state[k] for k in keys} == {k: before[k] for k in keys}
    switch.start_ovsdb()
    # The switch writes some columns anew, which the database does not keep.
    probe.wait(lambda s: s["connected"]
               and {k: s[k] for k in keys} == {k: before[k] for k in keys},
               "the contents of before", 30)
    switch.vsctl("--no-wait", "del-br", "br-int")
    wait_for(lambda: contents(switch), 10, "the bridge", probe)


def test_change_while_the_database_was_away_is_seen(switch, start):
    """Including the deletion of a pod and of the bridge's name."""
    probe = start()
    probe.ready()
    switch.add_dummy_pod(A[0], [A[1]])
    switch.add_dummy_pod(B[0], [B[1]])
    probe.wait_pods({"v1": ["10.10.0.1"], "v2": ["10.10.0.2"]})
    probe.process.send_signal(19)   # Stopped: it sees only the result.
    switch.del_port("v1")
    switch.vsctl("set-fail-mode", "br-int", "standalone")
    switch.stop_ovsdb()
    switch.start_ovsdb()
    probe.process.send_signal(18)
    probe.wait(lambda s: s["connected"] and len(s["pods"]) == 1, "one pod",
               30)
    wait_for(lambda: contents(switch)["fail_mode"] == "secure", 10,
             "fail_mode", probe)


def test_database_that_comes_later_is_waited_for(tmp_path):
    """At boot nobody starts in order."""
    switch = PrivateSwitch(tmp_path / "ovs", dummy=True)
    probe = Probe(switch, tmp_path)
    try:
        probe.wait(lambda s: not s["connected"], "the first snapshot")
        with switch:
            probe.wait(lambda s: s["bridge_ok"], "the bridge", 30)
    finally:
        probe.stop()


def test_two_daemons_at_once_make_one_bridge(switch, start):
    """During an upgrade the new one may start before the old one ends."""
    first, second = start(), start()
    first.ready()
    second.ready()
    wait_for(lambda: contents(switch)["names"] == NAMES, 5, "the names")
    assert switch.vsctl("list-br").split() == ["br-int"]


def test_refused_transaction_is_named_and_retried_with_backoff(switch,
                                                               start):
    """The database allows no such port number; pods are still read."""
    probe = start(ofport=65530)
    line = probe.wait_log("refused")
    assert "made bridge br-int" in line and "65530" in line
    switch.vsctl("--no-wait", "add-br", "br-int")
    switch.add_dummy_pod(A[0], [A[1]])
    probe.wait_pods({"v1": ["10.10.0.1"]})
    wait_for(lambda: len(probe.log_lines("refused")) >= 3, 10, "retries",
             probe)
    assert len(probe.log_lines("refused")) <= 6
    switch.vsctl("add-port", "br-int", "gw0", "--", "set", "Interface",
                 "gw0", "type=internal")
    probe.ready()
    wait_for(lambda: contents(switch)["names"] == NAMES, 40, "the rest",
             probe)


def test_fight_over_a_value_costs_little(switch, start):
    """Another program that insists on its own is answered, not hastily."""
    probe = start()
    probe.ready()
    end = time.monotonic() + 1
    rounds = 0
    while time.monotonic() < end or rounds < 6:
        switch.vsctl("--no-wait", "set-fail-mode", "br-int", "standalone")
        rounds += 1
    wait_for(lambda: contents(switch)["fail_mode"] == "secure", 5, "secure",
             probe)
    assert len(probe.log_lines("fail_mode")) <= 25
