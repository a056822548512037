# SPDX-License-Identifier: Apache-2.0
"""ofproxyd --cleanup on a node with real links and packets."""
from support import objects, packets, proc
from support.daemon import binary
from support.rig import ROUTE_PROTOCOL
from support.traffic import Server, ask_once
from support.wait import wait_for

GATEWAY = "antrea-gw0"


def traces(node):
    """What of ours the host still has, as text."""
    text = "".join(
        node.ip(family, *what)
        for family in ("-4", "-6")
        for what in (("route", "show", "table", "all", "proto",
                      ROUTE_PROTOCOL),
                     ("neigh", "show", "nud", "permanent")))
    return text + node.ip("-o", "link", "show") .replace("\\", "\n")


def clean(proxy, node):
    """The clean-up's lines."""
    done = proc.run(binary(), "--cleanup", "--config", proxy.config,
                    "--unixctl", proxy.ctl, netns=node.name, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def test_gateway_is_gone_when_the_clean_up_returns(node, node_apiserver,
                                                   daemon):
    """With its routes and neighbours; pods keep the bridge, and a daemon
    that comes back serves them again."""
    node_apiserver.apply_all([
        objects.node("n1", [str(c) for c in node.cidrs]),
        objects.service("ns1", "web", [80], ["10.96.0.10"]),
        objects.slice_("ns1", "web", ["10.10.1.3"], [80])])
    proxy = daemon(node_apiserver, node.switch,
                   antreaProxy={"proxyAll": True})
    client, web = node.add_pod("client"), node.add_pod("web")
    with Server(web, "web", tcp=[80]):
        for pod in client, web:
            proxy.wait_flow("L3Forwarding", "_dst=%s " % pod.address)
        proxy.wait_synced()
        assert ask_once(client, "10.96.0.10", 80)["answers"] == {"web": 1}
        assert GATEWAY in traces(node) and "10.96.0.10" in traces(node)
        proxy.terminate()

        lines = clean(proxy, node)
        assert "removed port antrea-gw0 from bridge br-int" in lines
        assert "10.96.0.10" not in traces(node)
        assert GATEWAY not in traces(node)
        assert not packets.ping(client, 4, web.of(4))   # No flows.
        assert clean(proxy, node)[-1] == "nothing to remove"

        # Open vSwitch 3.1 may go on dropping by what its datapath has cached
        # while there were no flows, for as long as it is used.
        node.switch.vsctl("set", "Open_vSwitch", ".",
                          "other_config:max-idle=300")
        proxy.start().wait_synced()
        wait_for(lambda: ask_once(client, "10.96.0.10", 80)["answers"]
                 == {"web": 1}, 5, "an answer", proxy)
        proxy.terminate()
    client.detach()
    web.detach()
    assert "removed bridge br-int" in clean(proxy, node)
    assert "br-int" not in traces(node)
