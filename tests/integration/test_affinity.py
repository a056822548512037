# SPDX-License-Identifier: Apache-2.0
"""What becomes of the clients that the switch remembers: learned flows, and a
daemon that leaves them alone or ends them.

The flows are put by hand, so that no test has to wait for as many clients;
the switch's clock goes ahead when told to, so that none waits for a day."""
import re
import time

import pytest

from support import objects
from support.wait import slowness, wait_for

VIP, VIP6 = "10.96.0.10", "2001:db8:96::10"
TABLE = 11
LEARNED = 0xf901070000000000
MAX_FLOW_TIMEOUT = 65535        # OpenFlow has 16 bits for it.
DAY = 86400
LEAST_REST = 3600               # See hard_of().
NEAR = 2                        # Seconds; the switch looks once in one.
FLOW = re.compile(r"cookie=0x(?P<cookie>[0-9a-f]+),.*?"
                  r"(?:idle_timeout=(?P<timeout>\d+), )?"
                  r"(?:hard_timeout=(?P<hard>\d+), )?"
                  r"idle_age=(?P<idle>\d+), .*reg7=0x(?P<group>[0-9a-f]+),.*"
                  r"(?:nw_src|ipv6_src)=(?P<client>\S+) actions=")


def affine(timeout, name="svc-a", ips=(VIP,), **more):
    """A Service with this timeout, or without affinity."""
    if timeout:
        more.update(sessionAffinity="ClientIP", sessionAffinityConfig={
            "clientIP": {"timeoutSeconds": timeout}})
    return objects.service("ns1", name, cluster_ips=list(ips), **more)


def start(rig, *services):
    """A daemon in sync, which has looked once at what was learned."""
    for service in services:
        rig.api.apply(service)
        rig.api.apply(objects.slice_("ns1", service["metadata"]["name"],
                                     ["10.20.0.1", "10.20.0.2"]))
    rig.start_daemon()
    wait_reviewed(rig)


def group_of(rig, name="svc-a", local=False):
    """The id of the Service port's group."""
    unit = next(line.split() for line
                in rig.daemon.appctl("services").splitlines()
                if line.split()[0] == "ns1/" + name and "IPv4" in line)
    return 0x40000000 | int(unit[6]) << 9 | local << 8


def client(i):
    """The address of the i-th one."""
    return "198.51.%d.%d" % (100 + i // 250, i % 250)


def hard_of(timeout):
    """The hard timeout of flows of a Service with a long one: they are put
    anew when their client has been idle for the rest."""
    return min(timeout - LEAST_REST, MAX_FLOW_TIMEOUT)


def flow_timeouts(timeout):
    """(idle, hard timeout) of learned flows."""
    return (timeout, 0) if timeout <= MAX_FLOW_TIMEOUT \
        else (0, hard_of(timeout))


def learn(rig, group, clients, timeout, cookie=LEARNED | 5, table=TABLE):
    """What the switch would have learned."""
    flows = ["table=%d,cookie=%#x,priority=200,idle_timeout=%d,"
             "hard_timeout=%d,ip,reg7=%#x,nw_src=%s,"
             "actions=set_field:0x0a140001->reg3,"
             "set_field:0x20050/0x7ffff->reg4"
             % (table, cookie, *flow_timeouts(timeout), group, client(i))
             for i in clients]
    path = rig.dir / "learned"
    path.write_text("\n".join(flows) + "\n", encoding="utf-8")
    rig.switch.ofctl("add-flows", path, options=("--bundle",))


def learned(rig):
    """{client: (idle timeout, hard timeout, seconds idle)}."""
    text = rig.switch.ofctl("dump-flows", "table=%d" % TABLE,
                            options=("--no-names",))
    return {found["client"]: (int(found["timeout"] or 0),
                              int(found["hard"] or 0), int(found["idle"]))
            for found in map(FLOW.search, text.splitlines()) if found}


def timeouts(rig):
    """{client: (idle timeout, hard timeout)}."""
    return {name: flow[:2] for name, flow in learned(rig).items()}


def wait_timeouts(rig, wanted, seconds=10):
    """Waits until these clients are remembered, with the flows that a
    Service's timeout asks for."""
    expected = {client(i): flow_timeouts(t) for i, t in wanted.items()}
    wait_for(lambda: timeouts(rig) == expected, seconds, str(expected),
             lambda: "%s\n%s" % (learned(rig), rig.dump()))


def wait_reviewed(rig):
    """Waits until the daemon has looked at what was learned: each eighth has
    been asked for since it was started."""
    wait_for(lambda: reviews(rig) >= 8, 10, "a review", rig)
    rig.wait_settled()


def reviews(rig):
    """How many requests have asked for learned flows alone."""
    return sum(1 for m in rig.shim.to_switch()
               if is_review(m))


def is_review(message):
    """A request for learned flows alone, by its cookie."""
    return message.what == "flow request" and message.data[32:35] == (LEARNED >> 40).to_bytes(3, "big")


def sleep_of_the_switch(rig, seconds):
    """Its clock goes ahead."""
    milliseconds = str(int(seconds * 1000))
    rig.switch.appctl("time/warp", milliseconds, milliseconds)


def test_learned_flows_are_nobodys_wish(rig):
    """A restart, a reconnect and changes of other Services leave them alone,
    and nothing is sent on their account."""
    start(rig, affine(10800), affine(None, "svc-b", ["10.96.0.11"]))
    learn(rig, group_of(rig), range(300), 10800)
    before = timeouts(rig)
    assert len(before) == 300
    rig.daemon.allow("connection given up in state FOLLOW")
    for disturb in (rig.restart_daemon, lambda: rig.restart_daemon(False),
                    rig.shim.cut):
        rig.shim.clear()
        disturb()
        wait_reviewed(rig)
        assert rig.shim.mods() == []
    rig.api.apply(objects.slice_("ns1", "svc-b", ["10.20.0.3"]))
    rig.wait_lookup("10.96.0.11", ["10.20.0.3:80"])
    rig.wait_settled()
    assert timeouts(rig) == before
    assert "0 foreign" in rig.daemon.appctl("sync")


def test_such_a_cookie_elsewhere_is_a_foreign_hands(rig):
    """Nothing is learned in other tables, nor for all packets."""
    start(rig, affine(10800))
    before = rig.switch.state()
    learn(rig, group_of(rig), range(3), 10800, table=12)
    rig.switch.ofctl("add-flow", "table=11,priority=0,cookie=%#x,"
                     "actions=drop" % LEARNED)
    wait_for(lambda: rig.switch.state() == before, 10, "the flows of before",
             rig)


def review_now(rig):
    """The daemon, whose clock is another one, looks at what is there."""
    rig.shim.clear()
    rig.restart_daemon()
    wait_reviewed(rig)


@pytest.mark.parametrize("timeout", [MAX_FLOW_TIMEOUT + 1, 70000, DAY])
def test_f3_d18_a_long_timeout_ends_in_its_second(rig, timeout):
    """Although no flow can have it; and a client that came again stays for
    its own time.  The daemon needs not have seen the clients come, and has
    to be there only once in half a day."""
    rest = timeout - hard_of(timeout)
    start(rig, affine(timeout))
    # A review takes its time, and has to be over before the flow's second.
    began = time.monotonic()
    review_now(rig)
    early = 1 + 3 * (time.monotonic() - began)
    group = group_of(rig)
    learn(rig, group, [0], timeout)
    sleep_of_the_switch(rig, 200)
    learn(rig, group, [1], timeout)
    sleep_of_the_switch(rig, rest - 200 - early)
    review_now(rig)
    assert mods(rig) == []
    wait_for(lambda: mods(rig), 10, "the flow put anew in its time", rig)
    rig.daemon.terminate()
    assert timeouts(rig) == {client(i): (0, hard_of(timeout))
                             for i in range(2)}
    idle = learned(rig)[client(0)][2]
    assert rest <= idle <= rest + NEAR * slowness()

    # The other one is late: it is put so that it ends in time all the same.
    sleep_of_the_switch(rig, 1000)
    review_now(rig)
    rig.daemon.terminate()
    assert mods(rig) == ["flow add"]
    flows = learned(rig)
    _, hard, idle = flows[client(1)]
    late = hard + idle - timeout        # Since the daemon has looked.
    assert 0 <= late <= NEAR * slowness()

    sleep_of_the_switch(rig, timeout - flows[client(0)][2] - NEAR)
    assert set(learned(rig)) == {client(0), client(1)}
    sleep_of_the_switch(rig, 3 * NEAR)
    assert set(learned(rig)) == {client(1)}
    sleep_of_the_switch(rig, 200 - 5 * NEAR)
    assert set(learned(rig)) == {client(1)}
    sleep_of_the_switch(rig, 3 * NEAR + late)
    assert learned(rig) == {}


def mods(rig):
    """What has been changed."""
    return [m.what for m in rig.shim.mods()]


def test_a_short_timeout_is_the_switchs_own_business(rig):
    """One review after the start, and no more."""
    start(rig, affine(MAX_FLOW_TIMEOUT))
    learn(rig, group_of(rig), range(2), MAX_FLOW_TIMEOUT)
    n = reviews(rig)
    rig.api.apply(affine(None, "svc-b", ["10.96.0.11"]))
    rig.wait_settled()
    assert reviews(rig) == n


def test_d18_another_timeout_is_also_that_of_remembered_clients(rig):
    """Who has been away for longer than the new one is forgotten; the others
    have been away for as long as before."""
    start(rig, affine(10800))
    group = group_of(rig)
    learn(rig, group, [1], 10800)
    sleep_of_the_switch(rig, 1000)
    learn(rig, group, [2], 10800)
    for timeout in (1200, DAY, 1500, MAX_FLOW_TIMEOUT, 65536):
        rig.api.apply(affine(timeout))
        wait_timeouts(rig, {1: timeout, 2: timeout})
    assert learned(rig)[client(1)][2] in range(1000, 1030)
    assert learned(rig)[client(2)][2] in range(30)
    rig.api.apply(affine(900))
    wait_timeouts(rig, {2: 900})
    rig.restart_daemon()
    wait_timeouts(rig, {2: 900}, 0)


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("end", ["off", "delete"])
def test_f7_what_is_left_of_an_affinity_that_ended_goes(rig, end, away):
    """Also flows whose learning flow is gone already, and if the daemon was
    away then; those of others stay."""
    start(rig, affine(DAY), affine(10800, "svc-b", ["10.96.0.11"]))
    group, other = group_of(rig), group_of(rig, "svc-b")
    learn(rig, group, range(5), DAY)
    learn(rig, group | 1 << 8, range(5, 8), 10800)
    learn(rig, other, range(8, 10), 10800)
    learn(rig, 0, [10], 10800)
    if away:
        rig.daemon.kill()
        rig.shim.clear()
    if end == "off":
        rig.api.apply(affine(None))
    else:
        rig.api.delete("services", "ns1", "svc-a")
    if away:
        rig.daemon.start()
    wait_timeouts(rig, {8: 10800, 9: 10800})


def test_a_review_that_breaks_off_is_done_again(rig):
    """The connection is cut while it is under way, or the switch refuses."""
    start(rig, affine(DAY))
    learn(rig, group_of(rig), range(500), 10800)
    rig.shim.refuse(is_review, 1, 1)
    rig.shim.cut_on(is_review, 2)
    rig.daemon.allow("connection given up in state")
    rig.shim.cut()
    wait_timeouts(rig, dict.fromkeys(range(500), DAY))
    rig.shim.clear_rules()


def test_a_thousand_clients_are_forgotten_at_once(rig):
    """None is left behind, and no more than asked for."""
    start(rig, affine(DAY, ips=(VIP, VIP6)))
    group = group_of(rig)
    for i in range(4):
        learn(rig, group, range(i * 1000, (i + 1) * 1000), DAY,
              LEARNED | i * 0x1111)
    learn(rig, group, range(4000, 4010), DAY)
    rig.api.apply(affine(60))
    wait_timeouts(rig, dict.fromkeys(range(4010), 60))
    sleep_of_the_switch(rig, 30)
    rig.api.apply(affine(20))
    wait_timeouts(rig, {})


def test_what_is_remembered_is_bounded(rig):
    """By the database."""
    start(rig, affine(10800))
    row = rig.switch.vsctl("get", "bridge", rig.switch.bridge,
                           "flow_tables:%d" % TABLE).strip()
    assert rig.switch.vsctl("get", "Flow_Table", row, "flow_limit",
                            "overflow_policy").split() == ["100000", "evict"]
