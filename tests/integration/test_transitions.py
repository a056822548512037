# SPDX-License-Identifier: Apache-2.0
"""Services and slices that become something else in place: what a new
connection gets after each step, and that it is what a cold start makes.

Each transition is a list of steps: what is applied (or deleted: Gone) in one
breath, and who serves what afterwards."""
import os

import pytest

from support import objects
from support.objects import MANAGED_BY, endpoint, slice_
from support.rig import Rig, own_node

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

VIP, OTHER = "10.96.0.10", "10.96.0.11"
VIP6, OTHER6 = "2001:db8:96::10", "2001:db8:96::11"
POD, POD6 = "10.10.2.5", "2001:db8:10:2::5"
AT = ["10.10.2.5:8080"]
AT6 = ["[2001:db8:10:2::5]:8080"]
MIRRORED = "endpointslicemirroring-controller.k8s.io"


class Gone:
    """An object that is deleted."""

    def __init__(self, obj):
        self.obj = obj


def svc(*cluster_ips, name="web", port=80, called="http", proto="TCP",
        **more):
    """A Service with one port."""
    return objects.service("ns1", name, [objects.port(port, called, proto)],
                           cluster_ips or [VIP], **more)


def eps(*endpoints, called="http", proto="TCP", of="web", name="s1", **more):
    """A slice; endpoints are addresses, or dicts of endpoint()."""
    return slice_("ns1", of, endpoints or [POD], [(8080, called, proto)],
                  name=name, **more)


def state(ready, serving, terminating):
    """A slice of one endpoint."""
    return eps(endpoint(POD, "n2", ready=ready, serving=serving,
                        terminating=terminating))


def external_name():
    """As the API has it after the change of type."""
    return svc(type="ExternalName", externalName="db.example.com",
               clusterIP=None, clusterIPs=None, ipFamilies=None)


def for_nodes(*names):
    """Endpoints on n1, n2 and so on, hinted to these nodes ("": to none)."""
    made = []
    for i, name in enumerate(names, 1):
        made.append(endpoint("10.10.2.%d" % (4 + i), "n%d" % i))
        if name:
            made[-1]["hints"] = {"forNodes": [{"name": name}]}
    return eps(*made)


def by_hand(managed_by=None):
    """A slice as somebody writes it: no conditions, no node."""
    made = eps({"addresses": [POD]}, name="by-hand")
    labels = made["metadata"]["labels"]
    if managed_by:
        labels[MANAGED_BY] = managed_by
    else:
        del labels[MANAGED_BY]
    return made


TRANSITIONS = {
    "a port is renamed, its slice later": [
        ([svc(), eps()], {VIP: AT}),
        ([svc(called="web")], {VIP: "reject"}),
        ([eps(called="web")], {VIP: AT}),
        ([svc(called=None), eps(called="")], {VIP: AT})],
    "a port is renamed, its slice first": [
        ([svc(), eps()], {VIP: AT}),
        ([eps(called="web")], {VIP: "reject"}),
        ([svc(called="web")], {VIP: AT})],
    "a port is renumbered": [
        ([svc(), eps()], {VIP: AT}),
        ([svc(port=81)], {VIP: None, (VIP, 81): AT})],
    "a port gets another protocol": [
        ([svc(), eps()], {VIP: AT}),
        ([svc(proto="UDP")], {VIP: None, (VIP, 80, "udp"): "reject"}),
        ([eps(proto="UDP")], {VIP: None, (VIP, 80, "udp"): AT}),
        ([svc(proto="SCTP"), eps(proto="SCTP")],
         {(VIP, 80, "udp"): None, (VIP, 80, "sctp"): AT})],
    "a family comes and goes": [
        ([svc(), eps(), eps(POD6, name="s6")], {VIP: AT, VIP6: None}),
        ([svc(VIP, VIP6)], {VIP: AT, VIP6: AT6}),
        ([svc(VIP)], {VIP: AT, VIP6: None}),
        ([svc(VIP6, VIP)], {VIP: AT, VIP6: AT6}),
        ([svc(VIP6)], {VIP: None, VIP6: AT6})],
    "another cluster IP, by delete and create": [
        ([svc(VIP, VIP6), eps(), eps(POD6, name="s6")], {VIP: AT, VIP6: AT6}),
        ([Gone(svc()), svc(OTHER, OTHER6)],
         {VIP: None, VIP6: None, OTHER: AT, OTHER6: AT6}),
        ([Gone(svc()), Gone(eps()), svc(VIP), eps()],
         {VIP: AT, OTHER: None, OTHER6: None})],
    "two Services exchange their addresses": [
        ([svc(), svc(OTHER, name="db"), eps(),
          eps("10.10.2.6", of="db", name="s2")],
         {VIP: AT, OTHER: ["10.10.2.6:8080"]}),
        ([Gone(svc()), Gone(svc(name="db")), svc(OTHER),
          svc(VIP, name="db")], {OTHER: AT, VIP: ["10.10.2.6:8080"]})],
    "to ExternalName and back": [
        ([svc(), eps()], {VIP: AT}),
        ([external_name()], {VIP: None}),
        ([svc(OTHER)], {VIP: None, OTHER: AT})],
    "headless, and made anew": [
        ([svc(), eps()], {VIP: AT}),
        ([Gone(svc()), svc("None")], {VIP: None}),
        ([Gone(svc("None")), svc()], {VIP: AT})],
    "a slice moves to another Service": [
        ([svc(), svc(OTHER, name="db"), eps()], {VIP: AT, OTHER: "reject"}),
        ([eps(of="db")], {VIP: "reject", OTHER: AT}),
        ([eps(of="nobody")], {VIP: "reject", OTHER: "reject"}),
        ([eps()], {VIP: AT, OTHER: "reject"})],
    "slices that are mirrored or made by hand": [
        ([svc(selector=None)], {VIP: "reject"}),
        ([by_hand(MIRRORED)], {VIP: AT}),
        ([by_hand()], {VIP: AT}),
        ([by_hand("somebody")], {VIP: AT}),
        ([eps("10.10.2.6")], {VIP: AT + ["10.10.2.6:8080"]}),
        ([Gone(by_hand())], {VIP: ["10.10.2.6:8080"]})],
    "publishNotReadyAddresses": [
        ([svc(), state(False, False, False)], {VIP: "reject"}),
        ([svc(publishNotReadyAddresses=True), state(True, False, False)],
         {VIP: AT}),
        ([state(True, False, True)], {VIP: AT}),
        ([svc(), state(False, False, True)], {VIP: "reject"}),
        ([state(False, True, True)], {VIP: AT}),
        ([state(False, True, False)], {VIP: "reject"})],
    "what a proxy does not read": [
        ([svc(), eps(POD, "10.10.2.6")], {VIP: AT + ["10.10.2.6:8080"]}),
        ([svc(type="LoadBalancer", loadBalancerClass="example.com/lb",
              loadBalancerIP="203.0.113.9", trafficDistribution="PreferClose",
              allocateLoadBalancerNodePorts=False, annotations={
                  "service.kubernetes.io/topology-mode": "Auto",
                  "service.kubernetes.io/topology-aware-hints": "auto"})],
         {VIP: AT + ["10.10.2.6:8080"], "203.0.113.9": None})],
    "hints for nodes": [
        ([svc(), for_nodes("n1", "n2")], {VIP: AT}),
        ([for_nodes("n2", "n1")], {VIP: ["10.10.2.6:8080"]}),
        ([for_nodes("n1", "")], {VIP: AT + ["10.10.2.6:8080"]}),
        ([for_nodes("n2", "n3")], {VIP: AT + ["10.10.2.6:8080"]}),
        ([for_nodes("n1", "n1", "n3")], {VIP: AT + ["10.10.2.6:8080"]})],
}


@pytest.fixture(scope="module", name="shared")
def _shared(tmp_path_factory):
    """One daemon for all, which is never restarted."""
    with Rig(tmp_path_factory.mktemp("rig")) as rig:
        rig.api.apply(own_node())
        yield rig.start_daemon()
        rig.check_quiet()


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_ends_as_a_cold_start(shared, name):
    """And so do its steps."""
    for changes, wanted in TRANSITIONS[name]:
        with shared.api.batch():
            for change in changes:
                if isinstance(change, Gone):
                    shared.api.delete(change.obj)
                else:
                    shared.api.apply(change)
        for where, found in wanted.items():
            where = (where,) if isinstance(where, str) else where
            shared.wait_lookup(where[0], found, *where[1:])
        shared.wait_settled()
        for where, found in wanted.items():
            where = (where,) if isinstance(where, str) else where
            assert shared.lookup(*where) == found
        shared.check_cold_start()
    with shared.api.batch():
        for kind in ("services", "endpointslices"):
            for obj in shared.api.objects(kind):
                shared.api.delete(obj)
    shared.wait_settled()
