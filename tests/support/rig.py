# SPDX-License-Identifier: Apache-2.0
"""A daemon, a switch with dummy ports and an API server, all in a network
namespace of their own, and what a cold start would make of the same objects.

    with Rig(directory) as rig:
        rig.api.apply(objects.service(...))
        rig.start_daemon()
        rig.check_cold_start()

With `relay=True` an ofshim.OfShim stands between daemon and bridge
(rig.shim), to count, refuse, delay and cut.
"""
import difflib
import ipaddress
import pathlib
import re

from support import apistore, objects, ovs
from support.apiserver import ApiServer
from support.daemon import Ofproxyd
from support.netns import Namespace
from support.ofshim import OfShim
from support.wait import wait_for

GATEWAY, GATEWAY_OFPORT = "antrea-gw0", 32769
NODE_IP = "192.0.2.11"          # That of objects.node().
POD_CIDRS = ("10.10.1.0/24", "2001:db8:10:1::/64")
SERVICE_NETWORKS = ("10.96.", "2001:db8:96:")
ROUTE_PROTOCOL = "201"
OURS = 0xf9                     # First byte of our cookies.
CATEGORY_SERVICE, CATEGORY_MULTICLUSTER, CATEGORY_AFFINITY = 3, 6, 7
COOKIE = re.compile(r"\bcookie=0x([0-9a-f]+)")
PROXY_NAME = "service.kubernetes.io/service-proxy-name"
GROUP = re.compile(r"\b(group_id=|group:)(\d+)")
REGISTER = re.compile(r"\b(reg7=|set_field:)(0x[0-9a-f]+)((?:->reg7)?)")
COUNTS = re.compile(r"objects: (\d+) Services, (\d+) EndpointSlices, "
                    r"\d+ endpoints, (\d+) Nodes")

ESTABLISHED = "01"              # In /proc/net/tcp.
EXTRA_BUCKET = 0x7fffffff       # It only evens out the slots of dp_hash.

# How far the ids of a unit may be apart that found its own in use.
MAX_ID_DISTANCE = 8


def own_node(pod_cidrs=POD_CIDRS, **more):
    """The Node that the daemon runs on."""
    return objects.node("n1", pod_cidrs, **more)


def cookie_of(flow):
    """The cookie of a flow as dumped."""
    return int(COOKIE.search(flow)[1], 16)


def is_ours(line):
    """Whether a dumped flow or group is the daemon's."""
    if line.startswith("group_id="):
        return int(GROUP.match(line)[2]) >> 30 == 1
    return cookie_of(line) >> 56 == OURS


def is_learned(line):
    """Whether a dumped flow of ours remembers a client."""
    return (line.startswith("cookie=")
            and cookie_of(line) >> 40 & 0xff == CATEGORY_AFFINITY)


def object_id_of(line):
    """The object id in a flow's cookie or a group's id."""
    if line.startswith("group_id="):
        return (int(GROUP.match(line)[2]) & 0x3fffffff) >> 9
    return cookie_of(line) & 0xffffffff


def without_ids(line, names):
    """A dumped flow or group with names, by object id, instead of ids."""
    def cookie(match):
        value = int(match[1], 16)
        if value >> 40 & 0xff == CATEGORY_SERVICE:
            return "cookie=<%s>" % names.get(value & 0xffffffff, "?")
        return match[0]

    def group(match):
        return match[1] + numbered(int(match[2]), match[2])

    def register(match):
        return match[1] + numbered(int(match[2], 16), match[2]) + match[3]

    def numbered(value, text):
        if value >> 30 != 1:
            return text
        name = names.get((value & 0x3fffffff) >> 9, "?")
        return "<%s>+%d" % (name, value & 0x1ff)

    line = REGISTER.sub(register, COOKIE.sub(cookie, line))
    return GROUP.sub(group, line)


def service_flow(flows, address, port, proto):
    """The flow of ServiceLB for an address, or None."""
    parts = ["table=12,", "priority=200",
             "ipv6_dst=%s," % address if ":" in address
             else "nw_dst=%s," % address, "tp_dst=%d " % port,
             ",%s," % (proto + "6" if ":" in address else proto)]
    found = [flow for flow in flows if all(part in flow for part in parts)]
    assert len(found) <= 1, found
    return found[0] if found else None


def endpoints_in(groups, group_id):
    """The endpoints of a group and its leaves, sorted."""
    found = []
    text = groups["group_id=%s" % group_id]
    for bucket in text.split(",bucket=")[1:]:
        leaf = re.search(r"group:(\d+)", bucket)
        if leaf:
            found += endpoints_in(groups, leaf[1])
        elif "bucket_id:%d," % EXTRA_BUCKET not in bucket + ",":
            found.append(re.search(r"nat\(dst=([^)]+)\)", bucket)[1])
    return sorted(found)


class State:
    """What is ours on a bridge but for what the switch has learned of
    clients, and the names that go with the ids.

    Tables and ports have numbers here: their names come by another way than
    the flows, and at another time."""

    def __init__(self, switch, daemon):
        self.lines = [line for line in switch.dump_flows(names=False)
                      + switch.dump_groups(names=False)
                      if is_ours(line) and not is_learned(line)]
        self.ids = {unit: number for unit, number in units(daemon)}

    @property
    def named(self):
        """All lines, with names instead of ids."""
        names = {number: unit for unit, number in self.ids.items()}
        return sorted(without_ids(line, names) for line in self.lines)

    def differences(self, other):
        """What the other has more and less, as text; "" if they are equal.

        Ids have to be equal, too, but where two units prefer the same."""
        if self.lines == other.lines and self.ids == other.ids:
            return ""
        mine, its = set(self.named), set(other.named)
        text = (["only here:  " + a for a in sorted(mine - its)]
                + ["only there: " + a for a in sorted(its - mine)])
        if not text:
            text = ["%s: id %d here, %d there" % (unit, number, its_number)
                    for unit, number in self.ids.items()
                    for its_number in [other.ids[unit]]
                    if abs(number - its_number) >= MAX_ID_DISTANCE]
        return "\n".join(text)


def concerns_us(record):
    """Whether the daemon asks for this Service of the API server."""
    return (PROXY_NAME not in record.labels
            and record.fields.get("spec.clusterIP") != "None")


def is_of_use(record):
    """Whether the daemon keeps this slice."""
    return (objects.SERVICE_LABEL in record.labels
            and b'"FQDN"' not in record.body)


def has_all(api, text):
    """Whether a daemon that says this to "sync" is in sync and knows as many
    objects as the API server has."""
    wanted = (sum(map(concerns_us, api.store.records("services"))),
              sum(map(is_of_use, api.store.records("endpointslices"))),
              len(api.store.records("nodes")))
    return (text.startswith("in sync: yes")
            and tuple(map(int, COUNTS.search(text).groups())) == wanted)


def units(daemon):
    """(Service port in one family, object id) of all that it serves."""
    for line in daemon.appctl("services").splitlines()[1:]:
        service, name, proto, family, _, _, number = line.split()[:7]
        yield "%s:%s/%s/%s" % (service, name, proto, family), int(number)


class Rig:
    """See the module.  'config' are keys of antrea-agent.conf."""

    def __init__(self, directory, relay=False, **config):
        self.dir = pathlib.Path(directory)
        self.ns = Namespace("rig")
        # The dummy switch makes none; the daemon wants to give it addresses.
        self.ns.batch(
            "link add %s type veth peer name gw-peer" % GATEWAY,
            "link set gw-peer up", "link set %s up" % GATEWAY,
            # And the link for traffic between nodes.
            "link add eth0 type veth peer name eth0-peer",
            "link set eth0-peer up", "link set eth0 up",
            "addr add %s/24 dev eth0" % NODE_IP)
        self.switch = ovs.PrivateSwitch(self.dir / "switch", dummy=True,
                                        netns=self.ns.name)
        self.api = ApiServer(self.dir / "apiserver", netns=self.ns.name)
        self.pods = {}          # Name: arguments of add_dummy_pod().
        self.config = config
        self.daemon = self.shim = self._cold = None
        self._n_cold = 0
        self._relay = relay
        self.n_watches = 4      # Those that wait_settled() waits for.
        if "multicluster" in config:
            for resource in apistore.MULTICLUSTER:
                self.api.add_resource(resource)
            self.n_watches += len(apistore.MULTICLUSTER)

    def __enter__(self):
        self.switch.start()
        self.api.start()
        if self._relay:
            run = self.dir / "run"
            run.mkdir()
            (run / "db.sock").symlink_to(self.switch.dir / "db.sock")
            mgmt = self.switch.bridge + ".mgmt"
            self.shim = OfShim(run / mgmt, self.switch.dir / mgmt).start()
            self.config["ovsRunDir"] = str(run)
        self.daemon = Ofproxyd(self.dir / "daemon", self.api, self.switch,
                               **self.config)
        return self

    def __exit__(self, *_):
        self.daemon.stop()
        if self.shim:
            self.shim.stop()
        self.api.stop()
        if self._cold:
            self._cold.stop()
        self.switch.stop()
        self.ns.close()

    # The daemon.

    def start_daemon(self):
        """Starts it and waits until it is in sync."""
        self.daemon.start()
        return self.wait_settled()

    def restart_daemon(self, hard=True):
        """Ends it, starts it again and waits until it is in sync."""
        self.daemon.restart(hard)
        return self.wait_settled()

    def wait_settled(self, timeout=30):
        """Waits until all that the API server has was read and done."""
        wait_for(self._settled, timeout, "all events to be done", self)
        return self

    def _settled(self):
        self.daemon.check_running()
        return (self.api.delivered(at_least=self.n_watches)
                and self._is_read()
                and has_all(self.api, self.daemon.appctl("sync")))

    def _is_read(self):
        """Whether all that the API server has sent has been read: nothing is
        under way on a connection with it, in either direction."""
        text = pathlib.Path("/proc/%d/net/tcp" % self.daemon.pid).read_text()
        port = ":%04X" % self.api.port
        for line in text.splitlines()[1:]:
            _, local, remote, state, queues = line.split()[:5]
            if (state == ESTABLISHED and queues != "00000000:00000000"
                    and port in (local[-5:], remote[-5:])):
                return False
        return True

    # Services on the bridge.

    def lookup(self, address, port=80, proto="tcp"):
        """What a new connection to an address gets: None (no Service),
        "reject", "drop", or the endpoints as a sorted list of
        "ADDRESS:PORT"."""
        for _ in range(20):
            flow = service_flow(
                self.switch.dump_flows("table=12", names=False), address,
                port, proto)
            if flow is None:
                return None
            group = re.search(r"group:(\d+)", flow)
            if not group:
                return "drop" if "actions=drop" in flow else "reject"
            groups = {g.split(",")[0]: g for g in self.switch.dump_groups()}
            if "group_id=" + group[1] in groups:
                return endpoints_in(groups, group[1])
            # It changed between the two dumps.
        raise AssertionError("no such group: " + flow)

    def wait_lookup(self, address, expected, port=80, proto="tcp"):
        """Waits until lookup() says this."""
        def equal():
            self.daemon.check_running()
            seen.append(self.lookup(address, port, proto))
            return seen[-1] == expected

        seen = []
        wait_for(equal, 15, "%s of %s" % (expected, address),
                 lambda: "last seen: %s\n%s" % (seen[-1], self.dump()))
        return self

    # The host.

    def routes(self):
        """(destination, source) of the host's routes that are the daemon's
        and lead to Services."""
        text = "".join(self.ns.ip(family, "route", "show", "proto",
                                  ROUTE_PROTOCOL) for family in ("-4", "-6"))
        return {(found[1], found[2])
                for found in re.finditer(r"^(\S+) via .* src (\S+)", text,
                                         re.MULTILINE)
                if found[1].startswith(SERVICE_NETWORKS)}

    def wanted_routes(self):
        """The same, by what the daemon says to serve and where the node's pod
        networks have their gateway."""
        node = self.api.get("nodes", "", "n1").obj
        gateways = {}
        for cidr in reversed(node["spec"]["podCIDRs"]):
            gateways[":" in cidr] = objects.nth(cidr, 1)
        addresses = {line.split()[5] for line in
                     self.daemon.appctl("services").splitlines()[1:]}
        networks = re.search(r"^Service networks:(.*)$",
                             self.daemon.appctl("sync"), re.MULTILINE)[1]
        networks = [ipaddress.ip_network(n) for n in networks.split()
                    if n != "none"]
        alone = {a for a in addresses if not any(
            ipaddress.ip_address(a) in n for n in networks)}
        return {(address, gateways[":" in address])
                for address in alone | {str(n) for n in networks}
                if (":" in address) in gateways
                and address.startswith(SERVICE_NETWORKS)}

    def wait_routes(self):
        """Waits until the two are equal."""
        wait_for(lambda: self.routes() == self.wanted_routes(), 10,
                 "the host's routes", lambda: "there: %s\nwanted: %s\n%s" % (
                     sorted(self.routes()), sorted(self.wanted_routes()),
                     self.dump()))

    def host_text(self):
        """What the host has of ours: routes, addresses, neighbours, rules,
        health checks, as lines; members of sets in order, counters left
        out."""
        lines = []
        for family in ("-4", "-6"):
            for what in (("route", "show", "table", "all", "proto",
                          ROUTE_PROTOCOL),
                         ("addr", "show", "dev", GATEWAY, "scope", "global"),
                         ("rule", "show", "protocol", ROUTE_PROTOCOL),
                         ("neigh", "show", "nud", "permanent")):
                lines += [re.sub(r" (expires|qlen) \S+|valid_lft.*|^\d+: ", "",
                                 line).strip()
                          for line in self.ns.ip(family, *what).splitlines()]
        lines += self.ns.run("ss", "-Hltn", "sport", ">=", ":32000", "and",
                             "sport", "<", ":32100").stdout.splitlines()
        lines.sort()
        rules = self.ns.run("nft", "-s", "list", "table", "inet", "ofproxyd",
                            check=False).stdout
        rules = re.sub(r"\{([^{}]*)\}", lambda found: "{ %s }" % ", ".join(
            sorted(re.split(r",\s*", found[1].strip()))), rules)
        return "\n".join(filter(None, lines)) + "\n" + rules

    def check_cold_host(self):
        """The host has what it would have if there had been nothing before."""
        self.wait_settled(60)
        before = self.host_text()
        self.daemon.kill()
        for family in ("-4", "-6"):
            self.ns.run("ip", family, "route", "flush", "table", "all",
                        "proto", ROUTE_PROTOCOL, check=False)
            self.ns.run("ip", family, "rule", "flush", "protocol",
                        ROUTE_PROTOCOL, check=False)
        self.ns.run("nft", "flush", "ruleset")
        self.ns.ip("neigh", "flush", "nud", "permanent")
        self.ns.ip("addr", "flush", "dev", GATEWAY)
        self.daemon.start()
        self.wait_settled(60)
        after = self.host_text()
        assert before == after, "\n".join(difflib.unified_diff(
            before.splitlines(), after.splitlines(), "before", "cold start",
            lineterm="")) + self.dump()

    # Pods.

    def add_pod(self, name, addresses, ofport, namespace="ns1"):
        """A pod's port, with this number."""
        self.pods[name] = (list(addresses), ofport, namespace)
        self.switch.add_dummy_pod(name, addresses, ofport, namespace)

    def del_pod(self, name):
        """Takes a pod's port away."""
        del self.pods[name]
        self.switch.del_port(name)

    # Cold starts.

    def state(self):
        """What is on the bridge."""
        return State(self.switch, self.daemon)

    def gateway_mac(self):
        """That the gateway port has now.  (After a restart of the switch
        the database's mac_in_use is out of date at times.)"""
        ports = self.switch.ofctl("show", check=False)
        found = re.search(r"\(%s\): addr:(\S+)" % GATEWAY, ports)
        return found and found[1]

    def cold_state(self, mac):
        """What a fresh daemon puts on a fresh switch that has the same
        ports."""
        cold = self._cold_switch()
        cold.vsctl("--if-exists", "del-br", cold.bridge)
        cold.add_bridge()
        cold.vsctl("add-port", cold.bridge, GATEWAY, "--", "set",
                   "Interface", GATEWAY, "type=internal", 'mac="%s"' % mac,
                   "ofport_request=%d" % GATEWAY_OFPORT)
        for name, (addresses, ofport, namespace) in self.pods.items():
            cold.add_dummy_pod(name, addresses, ofport, namespace)
        self._n_cold += 1
        config = {k: v for k, v in self.config.items() if k != "ovsRunDir"}
        fresh = Ofproxyd(self.dir / ("cold-%d" % self._n_cold), self.api,
                         cold, **config)
        with fresh:
            fresh.wait_synced()
            state = State(cold, fresh)
        assert not cold.unexpected_warnings(), cold.dump()
        return state

    def _cold_switch(self):
        if self._cold is None:
            self._cold = ovs.PrivateSwitch(self.dir / "cold", dummy=True,
                                           netns=self.ns.name).start()
            self._cold.allow(r"\|dpif\|WARN\|Dropped \d+ log messages")
        return self._cold

    def check_cold_start(self, timeout=20):
        """Fails unless the bridge is, or soon becomes, what a cold start
        makes of it; returns the state."""
        last = {"text": "no gateway"}
        wait_for(self.daemon.in_sync, timeout, "the daemon in sync", self)

        def equal():
            self.daemon.check_running()
            mac = self.gateway_mac()
            if mac is None:
                return False
            if mac != last.get("mac"):
                last.update(mac=mac, cold=self.cold_state(mac))
            last["state"] = self.state()
            last["text"] = last["state"].differences(last["cold"])
            return not last["text"] and self.daemon.in_sync()

        def explain():
            return "here: the bridge, there: a cold start\n%s\n%s\n%s" % (
                last["text"], self.daemon.appctl("sync"), self.daemon.dump())

        wait_for(equal, timeout, "what a cold start makes", explain)
        return last["state"]

    def check_quiet(self):
        """Fails if daemon or switch have logged an unexpected warning."""
        lines = (self.daemon.unexpected_warnings()
                 + self.switch.unexpected_warnings())
        assert not lines, "unexpected warnings:\n" + "\n".join(lines[:20])

    def dump(self):
        """For failure messages."""
        if self.daemon.running:
            return self.daemon.appctl("sync") + self.daemon.dump()
        return self.daemon.dump()
