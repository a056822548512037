# SPDX-License-Identifier: Apache-2.0
"""The daemon ends and begins again, in the same mode or another: no packet
between nodes is lost, and nothing of the old mode is left."""
import contextlib

import pytest

from support.cluster import at, lost_syns
from support.multinode import MultiCluster, ghost, state, wipe
from support.wait import wait_for

MULTI = {"encap": {"tunnel": "geneve"},
         "noEncap": {"mode": "noEncap"},
         "hybrid": {"mode": "hybrid", "subnets": "ab"}}
MODES = {
    "encap": {"trafficEncapMode": "encap"},
    "encap-vxlan": {"trafficEncapMode": "encap", "tunnelType": "vxlan",
                    "tunnelPort": 7000},
    "encap-gre": {"trafficEncapMode": "encap", "tunnelType": "gre"},
    "noEncap": {"trafficEncapMode": "noEncap"},
    "noEncap-noSNAT": {"trafficEncapMode": "noEncap", "noSNAT": True},
    "hybrid": {"trafficEncapMode": "hybrid"},
    "networkPolicyOnly": {"trafficEncapMode": "networkPolicyOnly"}}
CHANGES = (("encap", "noEncap"), ("noEncap", "hybrid"),
           ("hybrid", "encap-vxlan"), ("encap-vxlan", "encap"),
           ("encap", "encap-gre"), ("encap-gre", "noEncap-noSNAT"),
           ("encap", "networkPolicyOnly"), ("networkPolicyOnly", "encap"))


@contextlib.contextmanager
def no_loss(multi, service, family):
    """Clients in a pod and on a host of which none may lose a packet."""
    pod, host = multi.nodes[0].pods[0], multi.nodes[0]
    before = lost_syns(pod), lost_syns(host)
    with contextlib.ExitStack() as stack:
        def client(where, *args, **more):
            return stack.enter_context(
                service.client(where, *args, least=11, **more))

        traffic = {
            "connections": client(pod, "connect", family, interval=0.003),
            "a held one": client(pod, "hold", family, interval=0.005),
            "datagrams": client(pod, "stream", family, interval=0.003),
            "of the host": client(host, "connect", family, interval=0.005),
            "held by the host": client(host, "hold", family,
                                       interval=0.005)}
        yield
    for name, one in traffic.items():
        assert one.result["n_failures"] == 0, (name, one.result["failures"])
        assert one.result["n"] > 3, name
    assert (lost_syns(pod), lost_syns(host)) == before


@pytest.mark.parametrize("hard", [True, False], ids=["kill", "term"])
def test_no_packet_between_nodes_is_lost_over_a_restart(multi, host_family,
                                                        hard):
    """Of either node's daemon; and nothing is sent to the switch."""
    service = multi.service([at(multi.nodes[1].pods[0])])
    for member in multi.members[:2]:
        before = state(member)
        with no_loss(multi, service, host_family):
            member.daemon.restart(hard)
            member.daemon.wait_synced()
            service.wait()
        assert state(member) == before
        assert ("sent: 0 flow puts, 0 flow deletes, 0 group puts"
                in member.daemon.appctl("sync"))
    service.delete()


def start_as(cluster, member, mode, cold=False):
    """Starts a daemon in a mode, and waits for all that it makes; cold:
    there is no bridge yet, and so no pod has a port."""
    config = {**cluster.config, "tunnelType": "geneve", **MODES[mode]}
    member.daemon.write_config(**config)
    member.daemon.start()
    if cold:
        wait_for(member.switch.has_bridge, 10, "the bridge", member.daemon)
        for pod in member.node.pods:
            pod.attach()
    cluster.wait_pods()
    wait_for(member.daemon.in_sync, 10, "ofproxyd in sync", member.daemon)


@pytest.fixture(name="one", scope="module")
def _one(tmp_path_factory):
    """A node with one of the same and one of another subnet, of which there
    are objects only."""
    directory = tmp_path_factory.mktemp("one")
    with MultiCluster(directory, "a", n_pods=1) as cluster:
        for number, subnet in ((2, "a"), (3, "b")):
            cluster.api.apply(ghost(number, subnet))
        cluster.service([at(cluster.nodes[0].pods[0]),
                         at({4: "10.10.2.9", 6: "2001:db8:10:2::9"})])
        yield cluster


def cold_state(cluster, member, mode):
    """What a daemon makes of a node that has never seen one."""
    member.daemon.terminate()
    wipe(member)
    start_as(cluster, member, mode, cold=True)
    return settled_state(member)


def settled_state(member):
    """The state, once it does not change any more: old groups linger."""
    texts = [state(member)]

    def is_settled():
        texts.append(state(member))
        return texts[-1] == texts[-2]

    wait_for(is_settled, 10, "an end of changes", member.daemon)
    return texts[-1]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: "%s-to-%s" % c)
def test_another_mode_leaves_nothing_of_the_old_one(one, change):
    """After the restart all is as after a cold start."""
    member, = one.members
    old, new = change
    member.daemon.terminate()
    start_as(one, member, old)
    member.daemon.terminate()
    start_as(one, member, new)
    warm = settled_state(member)
    cold = cold_state(one, member, new)
    assert warm.splitlines() == cold.splitlines()
