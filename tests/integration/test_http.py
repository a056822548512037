# SPDX-License-Identifier: Apache-2.0
"""What is answered over HTTP: health of the node, health-check node ports and
metrics."""
import datetime
import json
import re
import time

import pytest

from support import httpclient, objects
from support.daemon import ROOT, binary
from support.objects import endpoint, slice_
from support.rig import Rig, own_node
from support.wait import slowness, wait_for

HEALTH, METRICS = 10256, 10249
CHECK = 32074                   # A healthCheckNodePort.
LOOPBACK = "127.0.0.1"
TAINT = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}


@pytest.fixture
def rig(tmp_path):
    """With all that serves HTTP switched on."""
    with Rig(tmp_path / "rig", relay=True, antreaProxy={"proxyAll": True},
             enablePrometheusMetrics=True) as made:
        made.api.apply(own_node())
        yield made
    made.check_quiet()


def get(rig, port, path="/", address=LOOPBACK, **more):
    """One request."""
    return httpclient.get(rig.ns.name, address, port, path, **more)


def body_of(rig, port):
    """Of an answer, or ""."""
    try:
        return get(rig, port).body
    except OSError:
        return ""


def lb_service(name="svc-a", port=CHECK, **more):
    """A LoadBalancer with policy Local and a health-check node port."""
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": port, **more}
    return objects.service("ns1", name, **spec)


def listens(rig, port):
    """The addresses on which somebody listens."""
    text = rig.ns.run("ss", "-Hltn", "sport = :%d" % port).stdout
    return sorted(line.split()[3].rsplit(":", 1)[0]
                  for line in text.splitlines())


def wait_check(rig, status, n, port=CHECK, **more):
    """Waits for an answer of a health-check node port; the reply."""
    def look():
        rig.daemon.check_running()
        try:
            replies.append(get(rig, port, **more))
        except OSError:
            return False
        return (replies[-1].status, json.loads(replies[-1].body)[
            "localEndpoints"]) == (status, n)

    replies = []
    wait_for(look, 10, "%d with %d endpoints" % (status, n),
             lambda: str(replies[-1:]) + rig.dump())
    return replies[-1]


def test_health_check_port_answers_as_kube_proxy_does(rig):
    """Status, headers in their order, and the body to the byte."""
    rig.api.apply(lb_service())
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1"),
                                          endpoint("10.10.1.6", "n1"),
                                          endpoint("10.10.2.5", "n2")]))
    rig.start_daemon()
    reply = wait_check(rig, 200, 2)
    date = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} "
                      r"\d\d:\d\d:\d\d GMT$")
    assert date.match(reply.header("Date"))
    assert reply.headers == [
        ("Content-Type", "application/json"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Load-Balancing-Endpoint-Weight", "2"),
        ("Date", reply.header("Date")),
        ("Content-Length", str(len(reply.body)))]
    assert reply.body == (
        '{\n\t"service": {\n\t\t"namespace": "ns1",\n\t\t"name": "svc-a"\n'
        '\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}')
    for method, body in (("POST", b"x" * 1000), ("PUT", b""), ("BREW", b"")):
        again = get(rig, CHECK, "/any/path?x=1", method=method, body=body)
        assert (again.status, again.body) == (200, reply.body)
    head = get(rig, CHECK, method="HEAD")
    assert (head.status, head.body) == (200, "")


def test_p1_p5_b14_d26_health_check_follows_endpoints(rig):
    """The slice is there first; two slices count together; what is not ready
    doesn't count; the last one goes."""
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1")]))
    rig.start_daemon()
    rig.api.apply(lb_service())
    wait_check(rig, 200, 1)
    rig.api.apply(slice_("ns1", "svc-a", [
        endpoint("10.10.1.6", "n1"), endpoint("10.10.1.5", "n1"),
        endpoint("10.10.1.7", "n1", ready=False, serving=True,
                 terminating=True)], suffix="bbbbb"))
    wait_check(rig, 200, 2)
    rig.api.delete("endpointslices", "ns1", "svc-a-bbbbb")
    wait_check(rig, 200, 1)
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.2.5", "n2")]))
    reply = wait_check(rig, 503, 0)
    assert reply.header("X-Load-Balancing-Endpoint-Weight") == "0"
    assert json.loads(reply.body)["serviceProxyHealthy"] is True


def test_p4_p5_health_check_ports_open_move_and_close(rig):
    """With the policy, the type, the port and the Service itself."""
    def wait_listening(port, wanted):
        wait_for(lambda: bool(listens(rig, port)) == wanted, 10,
                 "port %d %s" % (port, "open" if wanted else "closed"), rig)

    rig.start_daemon()
    rig.api.apply(lb_service())
    wait_listening(CHECK, True)
    assert listens(rig, CHECK) == ["0.0.0.0"]
    rig.api.apply(lb_service(externalTrafficPolicy="Cluster"))
    wait_listening(CHECK, False)
    rig.api.apply(lb_service())
    wait_listening(CHECK, True)
    with httpclient.connect(rig.ns.name, LOOPBACK, CHECK) as kept:
        assert httpclient.request(kept).status == 503
        rig.api.apply(lb_service(port=CHECK + 1))
        wait_listening(CHECK + 1, True)
        wait_listening(CHECK, False)
        assert kept.recv(1) == b""
    rig.api.apply(lb_service(type="NodePort"))
    wait_listening(CHECK + 1, False)
    # A port goes from one Service to another.
    rig.api.apply(lb_service())
    rig.api.apply(lb_service("svc-b", CHECK + 1, clusterIP="10.96.0.11",
                             clusterIPs=["10.96.0.11"]))
    wait_listening(CHECK, True)
    rig.api.apply(lb_service(port=CHECK + 2))
    rig.api.apply(lb_service("svc-b", CHECK, clusterIP="10.96.0.11",
                             clusterIPs=["10.96.0.11"]))
    wait_for(lambda: '"svc-b"' in body_of(rig, CHECK), 10,
             "svc-b on %d" % CHECK, rig)
    rig.api.delete("services", "ns1", "svc-a")
    rig.api.delete("services", "ns1", "svc-b")
    for port in (CHECK, CHECK + 1, CHECK + 2):
        wait_listening(port, False)


def test_p4_a_port_in_use_is_named_and_tried_again(rig):
    """Another program has it; when that ends, the check is answered."""
    rig.daemon.allow(r"health checks can't be answered on 0\.0\.0\.0:%d: "
                     r"Address already in use" % CHECK)
    with httpclient.listen(rig.ns.name, "0.0.0.0", CHECK):
        rig.start_daemon()
        rig.api.apply(lb_service())
        rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1")]))
        rig.daemon.wait_log("health checks can't be answered on")
        wait_for(lambda: rig.api.objects("events"), 10, "an Event", rig)
    wait_check(rig, 200, 1)
    rig.daemon.wait_log("health checks are answered on 0.0.0.0:%d" % CHECK)
    [event] = rig.api.objects("events")
    assert event["reason"] == "FailedToStartServiceHealthcheck"
    assert event["regarding"]["name"] == "svc-a"
    assert event["note"] == (
        "health-check node port %d can't be listened on: 0.0.0.0:%d: Address "
        "already in use; it will be tried again" % (CHECK, CHECK))


def test_i5_health_checks_are_answered_a_family(rig):
    """Each family has its own listener and counts its own endpoints."""
    rig.api.apply(lb_service(
        clusterIPs=["10.96.0.10", "2001:db8:96::10"],
        ipFamilies=["IPv4", "IPv6"]))
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1")]))
    rig.api.apply(slice_("ns1", "svc-a", [
        endpoint("2001:db8:10:1::5", "n1"),
        endpoint("2001:db8:10:1::6", "n1")], suffix="six"))
    rig.start_daemon()
    wait_check(rig, 200, 1)
    wait_check(rig, 200, 2, address="::1")
    assert listens(rig, CHECK) == ["0.0.0.0", "[::]"]


def health(rig, path="/healthz", **more):
    """The node's health; what it said."""
    reply = get(rig, HEALTH, path, **more)
    assert reply.header("Content-Type") == "application/json"
    said = json.loads(reply.body)
    assert said["healthy"] == (reply.status == 200)
    return reply.status, said


def test_p7_healthz_follows_the_node_and_livez_does_not(rig):
    """Taint of the autoscaler, a Node that is being deleted, and one that is
    gone."""
    rig.start_daemon()
    status, said = health(rig)
    assert status == 200 and said["nodeEligible"] is True
    assert set(said) == {"lastUpdated", "currentTime", "nodeEligible",
                         "healthy", "status"}
    assert said["lastUpdated"] == said["currentTime"]
    assert set(said["status"]) == {"IPv4", "IPv6"}
    assert all(one["healthy"] for one in said["status"].values())
    gone = own_node()
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for change, wanted in ((own_node(taints=[TAINT]), 503),
                           (own_node(), 200), (gone, 503), (own_node(), 200)):
        rig.api.apply(change)
        wait_for(lambda w=wanted: health(rig)[0] == w, 10, wanted, rig)
        status, said = health(rig, "/livez")
        assert status == 200 and "nodeEligible" not in said
        assert health(rig)[1]["nodeEligible"] is (wanted == 200)
    rig.api.delete("nodes", "", "n1")
    wait_for(lambda: health(rig)[0] == 503, 10, "503", rig)
    assert health(rig, "/livez", address="::1")[0] == 200
    assert get(rig, HEALTH, "/other").status == 404


def metrics(rig):
    """All families of the page, checked."""
    reply = get(rig, METRICS, "/metrics")
    assert reply.status == 200
    assert reply.header("Content-Type").startswith(
        "text/plain; version=0.0.4")
    return httpclient.parse_metrics(reply.body)


KUBE_PROXY = {
    "sync_proxy_rules_duration_seconds": ("histogram", {"ip_family"}),
    "sync_full_proxy_rules_duration_seconds": ("histogram", {"ip_family"}),
    "sync_partial_proxy_rules_duration_seconds":
        ("histogram", {"ip_family"}),
    "sync_proxy_rules_last_timestamp_seconds": ("gauge", {"ip_family"}),
    "sync_proxy_rules_last_queued_timestamp_seconds":
        ("gauge", {"ip_family"}),
    "network_programming_duration_seconds": ("histogram", {"ip_family"}),
    "sync_proxy_rules_endpoint_changes_pending": ("gauge", set()),
    "sync_proxy_rules_endpoint_changes_total": ("counter", set()),
    "sync_proxy_rules_service_changes_pending": ("gauge", set()),
    "sync_proxy_rules_service_changes_total": ("counter", set()),
    "sync_proxy_rules_no_local_endpoints_total":
        ("gauge", {"traffic_policy", "ip_family"}),
    "proxy_healthz_total": ("counter", {"code"}),
    "proxy_livez_total": ("counter", {"code"}),
}
ANTREA = {
    "sync_proxy_rules_duration_seconds": "histogram",
    "total_services_installed": "gauge",
    "total_endpoints_installed": "gauge",
    "total_services_updates": "counter",
    "total_endpoints_updates": "counter",
}


def labels_of(family):
    """The names of the labels that its samples have, "le" aside."""
    names = {frozenset(set(its) - {"le"}) for _, its, _ in family.samples}
    assert len(names) == 1
    return set(next(iter(names)))


def test_metrics_have_kube_proxys_names_types_and_labels(rig):
    """And Antrea's, and nothing that promtool would complain of."""
    rig.api.apply(lb_service(status={"loadBalancer": {"ingress": [
        {"ip": "198.51.100.10"}]}}))
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n2")]))
    rig.start_daemon()
    page = metrics(rig)
    for name, (kind, labels) in KUBE_PROXY.items():
        family = page["kubeproxy_" + name]
        assert (family.type, labels_of(family)) == (kind, labels), name
    for name, kind in ANTREA.items():
        family = page["antrea_proxy_" + name]
        assert (family.type, labels_of(family)) == (kind, {"ip_family"}), name
        assert {its["ip_family"] for _, its, _ in family.samples} == {
            "v4", "v6"}
    bounds = [its["le"] for name, its, _ in page[
        "kubeproxy_network_programming_duration_seconds"].samples
        if name.endswith("_bucket") and its["ip_family"] == "IPv4"]
    assert bounds == (["0.25", "0.5"] + [str(n) for n in range(1, 60)]
                      + [str(n) for n in range(60, 120, 5)]
                      + [str(n) for n in range(120, 301, 30)] + ["+Inf"])
    no_local = page["kubeproxy_sync_proxy_rules_no_local_endpoints_total"]
    assert no_local.value(ip_family="IPv4", traffic_policy="external") == 1
    assert no_local.value(ip_family="IPv4", traffic_policy="internal") == 0
    assert page["ofproxyd_in_sync"].value() == 1
    assert page["ofproxyd_openflow_up"].value() == 1
    assert page["antrea_proxy_total_services_installed"].value(
        ip_family="v4") == 1
    assert get(rig, METRICS, "/healthz").body == "ok"
    assert get(rig, METRICS, "/proxyMode").body == "ofproxyd"
    assert get(rig, METRICS, "/nothing").status == 404


def wait_status(rig, path, wanted, timeout):
    """Waits until the node's health has this status."""
    wait_for(lambda: health(rig, path)[0] == wanted, timeout,
             "%s %d" % (path, wanted), rig)


def test_p2_p11_health_is_about_changes_that_wait(rig):
    """A bridge that takes no more changes is an illness, a minute later,
    until it takes them again; an API server that is away is none."""
    rig.api.apply(lb_service())
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1")]))
    rig.start_daemon()
    rig.daemon.allow("connection given up|can't connect|watch: ")
    # The bridge takes nothing.
    rig.shim.deaf(True)
    rig.api.apply(objects.service("ns1", "svc-b",
                                  cluster_ips=("10.96.0.11",)))
    begin = time.monotonic()
    wait_for(lambda: health(rig)[0] == 503, 75, "503", rig)
    assert 59 < time.monotonic() - begin < 70 * slowness()
    assert health(rig, "/livez")[0] == 503
    reply = wait_check(rig, 503, 1)
    assert json.loads(reply.body)["serviceProxyHealthy"] is False
    page = metrics(rig)
    assert page["ofproxyd_healthy"].value(ip_family="IPv4") == 0
    assert page["kubeproxy_proxy_livez_total"].value(code="503") == 1
    rig.api.stop()
    rig.shim.deaf(False)
    wait_status(rig, "/healthz", 200, 30)
    wait_check(rig, 200, 1)


def stamp(seconds):
    """The annotation of a slice whose cause is so many seconds away."""
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(
        seconds=seconds)
    return {"endpoints.kubernetes.io/last-change-trigger-time":
            when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}


def triggered(seconds, *addresses):
    """A slice of svc-a with such an annotation."""
    made = slice_("ns1", "svc-a", [endpoint(a, "n1") for a in addresses])
    made["metadata"]["annotations"] = stamp(seconds)
    return made


def test_p8_programming_latency_is_that_of_new_changes(rig):
    """Neither a slice from before the start nor a deletion is a sample."""
    def samples():
        family = metrics(rig)["kubeproxy_network_programming_duration_seconds"]
        return [value for name, its, value in family.samples
                if its["ip_family"] == "IPv4"
                and name.endswith(("_count", "_sum"))][::-1]

    rig.api.apply(lb_service())
    rig.api.apply(triggered(-3 * 86400, "10.10.1.5"))
    rig.start_daemon()
    assert samples() == [0, 0]
    rig.api.apply(triggered(0, "10.10.1.5", "10.10.1.6"))
    wait_for(lambda: samples()[0] == 1, 10, "one sample", rig)
    assert 0 < samples()[1] < 5
    rig.api.delete("endpointslices", "ns1", "svc-a-abcde")
    rig.wait_lookup("10.96.0.10", "reject")
    assert samples()[0] == 1


def test_a_scrape_asks_the_switch_and_waits_for_no_answer(rig):
    """Counters of groups are asked for once in five seconds; a page comes
    without them when the switch doesn't answer."""
    rig.api.apply(lb_service())
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1")]))
    rig.start_daemon()
    asked = "group-stats request"
    rig.shim.clear()
    begin = time.monotonic()
    for _ in range(20):
        metrics(rig)
    asks = [m for m in rig.shim.to_switch() if m.what == asked]
    assert 1 <= len(asks) <= 1 + (time.monotonic() - begin) / 5
    family = metrics(rig)["ofproxyd_service_new_connections_total"]
    last = time.monotonic()
    assert family.value(namespace="ns1", service="svc-a", protocol="TCP",
                        traffic_policy="Cluster") == 0
    rig.shim.drop(lambda m: m.what == asked)
    wait_for(lambda: time.monotonic() - last > 5.5, 10, "the next", rig)
    again = time.monotonic()
    metrics(rig)
    assert .5 < time.monotonic() - again < 3 * slowness()


def test_g4_health_checks_listen_on_addresses_of_node_ports_only(tmp_path):
    """And follow them as they come and go."""
    with Rig(tmp_path / "rig", antreaProxy={
            "proxyAll": True,
            "nodePortAddresses": ["192.0.2.0/24", "2001:db8:2::/64"]}) as rig:
        rig.api.apply(own_node())
        rig.api.apply(lb_service(
            clusterIPs=["10.96.0.10", "2001:db8:96::10"],
            ipFamilies=["IPv4", "IPv6"]))
        rig.ns.ip("addr", "add", "198.51.100.5/24", "dev", "eth0")
        rig.start_daemon()

        def wait_listening(*addresses):
            wait_for(lambda: listens(rig, CHECK) == sorted(addresses), 10,
                     str(addresses),
                     lambda: str(listens(rig, CHECK)) + rig.dump())

        wait_listening("192.0.2.11")
        rig.ns.ip("addr", "add", "192.0.2.12/24", "dev", "eth0")
        rig.ns.ip("addr", "add", "2001:db8:2::5/64", "dev", "eth0", "nodad")
        wait_listening("192.0.2.11", "192.0.2.12", "[2001:db8:2::5]")
        rig.ns.ip("addr", "del", "192.0.2.12/24", "dev", "eth0")
        wait_listening("192.0.2.11", "[2001:db8:2::5]")
        assert get(rig, CHECK, address="192.0.2.11").status == 503
        assert get(rig, CHECK, address="2001:db8:2::5").status == 503
    rig.check_quiet()


@pytest.mark.parametrize("proxy", [
    {"proxyAll": False},
    {"proxyAll": True, "disableServiceHealthCheckServer": True}])
def test_health_is_served_with_proxy_all_unless_it_is_disabled(tmp_path,
                                                              proxy):
    """Neither the node's nor that of Services; metrics are."""
    with Rig(tmp_path / "rig", antreaProxy=proxy,
             enablePrometheusMetrics=True) as rig:
        rig.api.apply(own_node())
        rig.api.apply(lb_service())
        rig.start_daemon()
        rig.wait_lookup("10.96.0.10", "reject")
        assert listens(rig, METRICS) == [LOOPBACK]
        assert listens(rig, HEALTH) == listens(rig, CHECK) == []
    rig.check_quiet()


def test_p10_packet_rules_that_fail_hold_up_no_flow(tmp_path):
    """Whatever goes wrong between daemon and kernel."""
    with Rig(tmp_path / "rig", antreaProxy={"proxyAll": True}) as rig:
        rig.daemon.wrapper = (
            "env", "LD_PRELOAD=%s" % (binary().parent / "tests/netfault.so"),
            "NETFAULT_AT=1", "NETFAULT_COUNT=1000000", "NETFAULT_HOW=send")
        rig.api.apply(own_node())
        rig.api.apply(lb_service())
        rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1")]))
        rig.daemon.start()
        wait_for(lambda: "switch: FOLLOW" in rig.daemon.appctl("sync"), 10,
                 "the bridge", rig)
        rig.wait_lookup("10.96.0.10", ["10.10.1.5:80"])
        assert "in sync: no" in rig.daemon.appctl("sync")


def test_every_metric_is_documented(rig):
    """docs/metrics.md has a row for each, with its type and labels."""
    rig.api.apply(lb_service())
    rig.api.apply(slice_("ns1", "svc-a", [endpoint("10.10.1.5", "n1")]))
    rig.start_daemon()
    rows = ["| `%s` | %s | %s | %s |" % (
        name, family.type, ", ".join(sorted(labels_of(family))), family.help)
        for name, family in metrics(rig).items()]
    text = (ROOT / "docs" / "metrics.md").read_text()
    found = [line for line in text.splitlines()
             if line.startswith(("| `kubeproxy_", "| `antrea_", "| `ofproxyd_",
                                 "| `process_")) and line.count("|") == 5]
    assert found == rows, "\n".join(rows)


def test_there_are_descriptors_for_many_health_checks(rig):
    """The usual limit of 1024 would be too few for 600 Services of two
    families, and libnftables ends a process in which its own descriptor is
    above that."""
    rig.daemon.wrapper = ("prlimit", "--nofile=128:")
    rig.start_daemon()
    time.sleep(1.5)             # So long libnftables' descriptor is kept.
    for i in range(600):
        address = "10.96.%d.%d" % (1 + i // 200, 1 + i % 200)
        rig.api.apply(lb_service(
            "s%d" % i, 30000 + i, clusterIP=address,
            clusterIPs=[address, "2001:db8:96::%x" % (i + 1)],
            ipFamilies=["IPv4", "IPv6"]))
    wait_for(lambda: metrics(rig)["ofproxyd_health_check_listeners"].value()
             == 1200, 20, "1200 listeners", rig)
    assert wait_check(rig, 503, 0, port=30599)
    page = metrics(rig)
    assert page["process_open_fds"].value() > 1200
    rig.ns.run("nft", "delete", "table", "inet", "ofproxyd")
    wait_for(lambda: "@node_ports" in rig.ns.run(
        "nft", "list", "table", "inet", "ofproxyd", check=False).stdout, 10,
             "the table", rig)
    rig.daemon.check_running()
    assert page["ofproxyd_health_check_listeners_failing"].value() == 0


def test_ports_that_a_policy_leaves_without_endpoints_are_counted(rig):
    """Those of internalTrafficPolicy Local that drop, by family; not those
    that have no endpoint anywhere, or one here."""
    def internal(family):
        return metrics(rig)[
            "kubeproxy_sync_proxy_rules_no_local_endpoints_total"].value(
                ip_family=family, traffic_policy="internal")

    for i, node in enumerate(("n1", "n2", "n2", None)):
        name, address = "svc-%d" % i, "10.96.0.%d" % (10 + i)
        rig.api.apply(objects.service(
            "ns1", name, cluster_ips=(address,),
            internalTrafficPolicy="Local"))
        rig.api.apply(slice_("ns1", name, [
            endpoint("10.10.1.%d" % (10 + i), node)] if node else []))
    rig.start_daemon()
    assert (internal("IPv4"), internal("IPv6")) == (2, 0)
    rig.api.apply(slice_("ns1", "svc-1", [endpoint("10.10.1.11", "n1")]))
    wait_for(lambda: internal("IPv4") == 1, 10, "one less", rig)
