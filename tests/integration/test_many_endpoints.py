# SPDX-License-Identifier: Apache-2.0
"""One Service of 10 000 endpoints in each family, with session affinity, with
policy Local: all are in its groups, no message is too long, and an endpoint
that goes or comes is one group and, with affinity, its own flow."""
import pytest

from support import objects
from support.objects import endpoint, slice_
from support.rig import Rig, endpoints_in, own_node, service_flow

N, PER_SLICE = 10000, 1000      # The API allows 1000 endpoints in a slice.
VIPS = {4: "10.96.0.10", 6: "2001:db8:96::10"}
OUTSIDE = {4: "198.51.100.7", 6: "2001:db8:51::7"}
GROUP_MAX_BYTES = 60000         # FITEM_GROUP_MAX_BYTES
MESSAGE_MAX = 65535


@pytest.fixture
def rig(tmp_path):
    """With all kinds of addresses."""
    with Rig(tmp_path / "rig", relay=True,
             antreaProxy={"proxyAll": True}) as made:
        made.api.apply(own_node())
        made.start_daemon()
        yield made
    made.check_quiet()


def address(family, i):
    """Of the i-th endpoint."""
    if family == 4:
        return "10.20.%d.%d" % (i // 250, i % 250 + 1)
    return "2001:db8:20::%x" % (i + 1)


def one_slice(family, number, n=PER_SLICE):
    """The first n endpoints of a slice; two of three are on this node."""
    first = number * PER_SLICE
    return slice_("ns1", "svc-a", [
        endpoint(address(family, i), "n2" if i % 3 == 1 else "n1")
        for i in range(first, first + n)], [8080],
        suffix="v%d-%d" % (family, number))


def sizes(rig, what):
    """The bytes of each such message."""
    return [len(m.data) for m in rig.shim.mods() if m.what.startswith(what)]


def change(rig, family, n):
    """Makes the last slice have n endpoints; returns the sizes of group and of
    flow messages."""
    rig.shim.clear()
    rig.api.apply(one_slice(family, N // PER_SLICE - 1, n))
    rig.wait_settled()
    return sizes(rig, "group put"), sizes(rig, "flow")


@pytest.mark.parametrize("affinity", [False, True])
@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_d1_d4_ten_thousand_endpoints(rig, policy, affinity):
    """D1, D4; both families in one Service."""
    more = {"sessionAffinity": "ClientIP"} if affinity else {}
    rig.api.apply_all([
        objects.service("ns1", "svc-a", [objects.port(80)],
                        list(VIPS.values()), type="LoadBalancer",
                        externalIPs=list(OUTSIDE.values()),
                        externalTrafficPolicy=policy, **more)]
        + [one_slice(family, i) for family in VIPS
           for i in range(N // PER_SLICE)])
    rig.wait_settled(60)

    # All are there.
    n_scopes = 2 if policy == "Local" else 1
    n_local = sum(i % 3 != 1 for i in range(N))
    expected = N + (n_local if n_scopes == 2 else 0)
    assert max(sizes(rig, "group put")) <= GROUP_MAX_BYTES
    assert all(len(m.data) <= MESSAGE_MAX for m in rig.shim.to_switch())
    if affinity:
        flows = rig.switch.dump_flows("table=14", names=False)
        assert sum("learn(" in flow for flow in flows) == 2 * expected
    else:
        flows = rig.switch.dump_flows("table=12", names=False)
        groups = {g.split(",")[0]: g for g in rig.switch.dump_groups()}
        for family, vip in VIPS.items():
            flow = service_flow(flows, vip, 80, "tcp")
            found = endpoints_in(groups, int(flow.partition("group:")[2]))
            assert len(found) == N and len(set(found)) == N
            flow = service_flow(flows, OUTSIDE[family], 80, "tcp")
            found = endpoints_in(groups, int(flow.partition("group:")[2]))
            assert len(found) == (n_local if n_scopes == 2 else N)

    # One goes, and comes back.
    for family in VIPS:
        for n in (PER_SLICE - 1, PER_SLICE):
            group_sizes, flow_sizes = change(rig, family, n)
            assert 1 <= len(group_sizes) <= n_scopes
            assert max(group_sizes) <= GROUP_MAX_BYTES
            assert len(flow_sizes) == (len(group_sizes) if affinity else 0)
            print("policy %s, affinity %s, IPv%d: groups of %s bytes, flows "
                  "of %s" % (policy, affinity, family, group_sizes,
                             flow_sizes))
