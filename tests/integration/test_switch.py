# SPDX-License-Identifier: Apache-2.0
"""The private switch of the tests."""
import pytest

from support.ovs import PrivateSwitch, pod_mac, warnings_in


def test_flows_and_groups_are_dumped_without_statistics(switch):
    """Sorted, with the names of tables and ports if there are any."""
    switch.add_bridge()
    switch.add_dummy_pod("pod1", ["10.10.1.2", "2001:db8::2"], ofport=7)
    switch.ofctl("add-group", "group_id=2,type=select,"
                 "bucket=bucket_id=0,actions=output:7")
    switch.ofctl("add-flow", "cookie=0x12,priority=9,ip,actions=group:2")
    switch.ofctl("add-flow", "table=3,priority=8,in_port=7,actions=drop")
    assert switch.dump_flows() == [
        "cookie=0x0, table=3, priority=8,in_port=pod1 actions=drop",
        "cookie=0x12, table=0, priority=9,ip actions=group:2"]
    assert switch.dump_flows(names=False)[0].count("in_port=7") == 1
    assert switch.dump_groups() == [
        "group_id=2,type=select,bucket=bucket_id:0,actions=output:pod1"]
    assert "Final flow" in switch.trace("in_port=pod1,ip")


@pytest.mark.parametrize("hard", [False, True])
def test_a_restart_loses_the_flows_and_keeps_the_ports(switch, hard):
    """As that of any ovs-vswitchd."""
    switch.add_bridge()
    ofport = switch.add_dummy_pod("pod1", ["10.10.1.2"])
    switch.ofctl("add-flow", "actions=drop")
    pid = switch.pid
    switch.restart(hard)
    assert switch.pid != pid
    assert switch.dump_flows() == []
    assert int(switch.vsctl("get", "Interface", "pod1", "ofport")) == ofport


def test_pods_carry_what_the_cni_writes(switch):
    """In the external_ids of their interfaces."""
    switch.add_bridge()
    switch.add_dummy_pod("pod1", ["10.10.1.2", "2001:db8::2"])
    ids = switch.vsctl("get", "Interface", "pod1", "external_ids")
    for part in ('attached-mac="0a:58:0a:0a:01:02"', "pod-namespace=ns1",
                 'ip-address="10.10.1.2,2001:db8::2"', "pod-name=pod1"):
        assert part in ids
    assert pod_mac("2001:db8::a01:2") == "0a:58:0a:01:00:02"


def test_warnings_are_found_unless_allowed(tmp_path):
    """By level, not by words."""
    log = tmp_path / "x.log"
    log.write_text(
        "2026-01-01T00:00:00.000Z|00001|mod|INFO|WARN is only a word\n"
        "2026-01-01T00:00:00.000Z|00002|mod|WARN|one thing\n"
        "2026-01-01T00:00:00.000Z|00003|mod(thread7)|ERR|another thing\n")
    assert len(warnings_in(log)) == 2
    assert warnings_in(log, ["one thing"])[0].endswith("another thing")
    assert not warnings_in(log, ["one", r"\|ERR\|"])
    assert not warnings_in(tmp_path / "none")


def test_a_switch_that_is_provoked_warns(tmp_path):
    """So that a quiet log means something."""
    with PrivateSwitch(tmp_path / "switch", dummy=True) as private:
        private.add_bridge()
        private.vsctl("--no-wait", "add-port", private.bridge, "bad", "--",
                      "set", "Interface", "bad", "type=nonsense")
        private.vsctl("set", "Open_vSwitch", ".", "external_ids:x=y")
        assert private.unexpected_warnings()
        private.allow("nonsense", "bad")
        assert not private.unexpected_warnings()
