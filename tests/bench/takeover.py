# SPDX-License-Identifier: Apache-2.0
"""What is lost while ofproxyd takes a bridge over from Antrea's agent: real
packets from pod to pod through a pipeline in the shape of that agent's, with
many Services in it."""
import json
import pathlib
import re
import shutil
import tempfile
import time

from bed import switch_rss_mib
from support import objects, packets
from support.antrea import Antrea, Port, Svc, with_more
from support.apiserver import RemoteApiServer
from support.cluster import lost_syns
from support.daemon import Ofproxyd
from support.netns import Netns
from support.traffic import Client, Server, ask_once
from support.wait import wait_for

GATEWAY = "antrea-gw0"
N_SERVICES = (10, 1000, 5000)


class Api(RemoteApiServer):
    """The API server, as support.daemon wants to see it."""

    ca = tokens = client_certs = None


def vip(number):
    """The cluster IP of a Service."""
    return "10.%d.%d.%d" % (96 + number // 62500, number // 250 % 250,
                            number % 250 + 1)


def endpoints(number, servers):
    """Addresses of a Service's endpoints: pods that serve for the first,
    others for the rest."""
    if number == 0:
        return [pod.address for pod in servers]
    return ["10.20.%d.%d" % (number // 250, number % 250 + 1), "10.10.1.3"]


def _site(netns, directory, n_services):
    """(node, client, Antrea, API server)."""
    node = netns.node("n1", directory / "node", cidrs=["10.10.1.0/24"])
    switch = node.switch
    switch.add_bridge()
    switch.vsctl("add-port", switch.bridge, GATEWAY, "--", "set",
                 "Interface", GATEWAY, "type=internal",
                 "ofport_request=32769")
    node.batch("link set %s up" % GATEWAY,
               "addr add 10.10.1.1/24 dev %s" % GATEWAY)
    client, *servers = [node.add_pod("p%d" % i) for i in range(3)]
    made = [objects.node("n1", ["10.10.1.0/24"])]
    services = []
    for i in range(n_services):
        addresses = endpoints(i, servers)
        name = "svc-%d" % i
        made += [objects.service("ns1", name, cluster_ips=[vip(i)]),
                 objects.slice_("ns1", name, addresses, [8080])]
        services.append(Svc(vip(i), 80, [a + ":8080" for a in addresses]))
    antrea = Antrea(
        switch, Port(32769, packets.mac_of(node, GATEWAY), ["10.10.1.1"]),
        [Port(int(switch.vsctl("get", "Interface", pod.iface, "ofport")),
              pod.mac, pod.addresses) for pod in node.pods],
        services, ["10.10.1.0/24"], round_=3, tables=with_more()).program()
    path = directory / "objects"
    path.write_text("\n".join(map(json.dumps, made)))
    return node, client, servers, antrea, path


def _measure(table, directory, n_services):
    netns = Netns()
    try:
        node, client, servers, antrea, path = _site(netns, directory,
                                                    n_services)
        api = Api(directory / "api", "--netns", node.name, "--objects",
                  str(path))
        daemon = Ofproxyd(directory / "daemon", api, node.switch)
        try:
            _run(table, n_services, (node, client, servers, antrea, daemon))
        finally:
            daemon.stop()
            api.close()
    finally:
        netns.close()


def _run(table, n_services, site):
    node, client, servers, antrea, daemon = site
    with Server(servers[0], "p1", tcp=[8080], udp=[8080]), \
            Server(servers[1], "p2", tcp=[8080], udp=[8080]):
        ask_once(client, vip(0), 80)
        n_flows = len(node.switch.dump_flows())
        before = lost_syns(client)
        with Client(client, "connect", vip(0), 80, interval=.001,
                    concurrency=4) as new, \
                Client(client, "hold", vip(0), 80, interval=.001) as held, \
                Client(client, "stream", servers[0].address, 8080,
                       interval=.0005) as stream:
            time.sleep(2)
            daemon.start()
            daemon.wait_synced(60)
            wait_for(lambda: antrea.mark_left() is None, 10, "the end")
            time.sleep(1)
        lost = lost_syns(client) - before
    took = re.search(r"in one transaction, (\d+) ms after",
                     daemon.log.read_text())[1]
    table.figure("%d Services: flows before" % n_services, n_flows, "")
    table.figure("  known to done", float(took), "ms")
    table.figure("  failed connections of %d" % new.result["n"],
                 new.result["n_failures"], "", 0)
    table.figure("  broken ones of those held",
                 held.result["n_failures"], "", 0)
    table.figure("  SYNs sent again", lost, "")
    table.figure("  datagrams lost of %d" % stream.result["n"],
                 stream.result["n_failures"], "", None,
                 "2000 a second")
    table.figure("  slowest connection", new.result["max"] * 1000, "ms", None,
                 "median %.1f ms" % (new.result["p50"] * 1000))
    table.figure("  slowest answer on the held one",
                 held.result["max"] * 1000, "ms")
    table.figure("  ovs-vswitchd", switch_rss_mib(node.switch), "MiB")


def run(table, _options):
    """The sub-benchmark."""
    table.title("takeover: from Antrea's pipeline to ours under traffic")
    for n_services in N_SERVICES:
        directory = pathlib.Path(tempfile.mkdtemp(prefix="ofproxyd-bench-"))
        try:
            _measure(table, directory, n_services)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
