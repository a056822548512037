# SPDX-License-Identifier: Apache-2.0
"""Many Services, endpoints and Nodes in a real API server, and what kubelets
keep telling it, without kubelets.

    192.0.2.0/24      the Nodes' addresses
    10.244.11.0/24... their pods, the endpoints
"""
import datetime
import http.client
import itertools
import json
import queue
import ssl
import threading
import time

NAMESPACE = "scale"
IDLE = 30                       # Seconds; the server waits longer for more.
CONNECTIONS = 6                 # That make objects at a time.
FIRST = 11                      # Of pod networks 10.244.N.0/24.
MOST_NODES = 240
IMAGES = 50                     # As many as a kubelet reports.
LEASE = 10                      # Seconds between two renewals of a Node's,
STATUS = 300                    # and between two of its reports: defaults.
PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices" % NAMESPACE
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CONDITIONS = (("Ready", "True", "KubeletReady"),
              ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
              ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
              ("PIDPressure", "False", "KubeletHasSufficientPID"),
              ("NetworkUnavailable", "False", "RouteCreated"))


class Api:
    """An administrator's connection to the API server; for one thread."""

    def __init__(self, pki, address):
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._connection = http.client.HTTPSConnection(
            address, 6443, context=context, timeout=60)
        self._used = time.monotonic()

    def __call__(self, method, path, body, kind="application/json"):
        """The answer to a request; RuntimeError if it is refused."""
        if time.monotonic() - self._used > IDLE:
            self._connection.close()    # The request opens it again.
        self._used = time.monotonic()
        self._connection.request(method, path, json.dumps(body).encode(),
                                 {"Content-Type": kind})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError("%s %s: %d %s" % (
                method, path, answer.status, text.decode()[:300]))
        return json.loads(text)


def now():
    """The time, as the API has it."""
    return datetime.datetime.now(datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%S.%fZ")


def uid(number):
    """Some object's."""
    return "80c9be92-347f-498e-9708-%012d" % number


# Objects, each with the path that it is posted to.

def service(name):
    """A Service without a selector, so that no controller makes slices."""
    return "/api/v1/namespaces/%s/services" % NAMESPACE, {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP",
                            "targetPort": 8080}]}}


def slice_of(name, endpoints):
    """A Service's EndpointSlice, of the Service's name, too."""
    return SLICES, {
        "metadata": {"name": name, "labels": {
            "kubernetes.io/service-name": name, "app": name,
            "endpointslice.kubernetes.io/managed-by": "scale"}},
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}


def node_name(number):
    """A Node's."""
    return "node-%03d.example.com" % number


def endpoint(number, n_nodes):
    """The pod with this number, on one of the Nodes."""
    node, host = number % n_nodes, 2 + number // n_nodes % 250
    return {"addresses": ["10.244.%d.%d" % (FIRST + node, host)],
            "conditions": {"ready": True, "serving": True,
                           "terminating": False},
            "nodeName": node_name(node), "zone": "zone-%d" % (node % 3),
            "targetRef": {"kind": "Pod", "namespace": NAMESPACE,
                          "name": "pod-7c5ddbdf54-%05d" % number,
                          "uid": uid(number)}}


def conditions():
    """What a kubelet says of its Node."""
    return [{"type": kind, "status": status, "reason": reason,
             "message": "all is well", "lastHeartbeatTime": now()}
            for kind, status, reason in CONDITIONS]


def node(number):
    """A Node, about as large as a real one."""
    name = node_name(number)
    cidr = "10.244.%d.0/24" % (FIRST + number)
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "250",
               "ephemeral-storage": "100Gi"}
    images = [{"names": ["registry.example.com/team/image-%d@sha256:%064x"
                         % (i, number * IMAGES + i)],
               "sizeBytes": 123456789} for i in range(IMAGES)]
    return "/api/v1/nodes", {
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": "zone-%d" % (number % 3)}},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "addresses": [
                {"type": "InternalIP", "address": "192.0.2.%d" % (number + 1)},
                {"type": "Hostname", "address": name}],
            "conditions": conditions(), "images": images,
            "nodeInfo": {
                "machineID": name, "systemUUID": name, "bootID": name,
                "kernelVersion": "6.1.0", "osImage": "Linux",
                "operatingSystem": "linux", "architecture": "amd64",
                "containerRuntimeVersion": "containerd://2.1.0",
                "kubeletVersion": "v1.34.2", "kubeProxyVersion": ""}}}


def lease(number):
    """A Node's sign of life."""
    return LEASES, {
        "metadata": {"name": node_name(number)},
        "spec": {"holderIdentity": node_name(number),
                 "leaseDurationSeconds": 40, "renewTime": now()}}


def objects(n_services, n_endpoints, n_nodes):
    """All of a cluster."""
    for number in range(n_nodes):
        yield lease(number)
        yield node(number)
    for number in range(n_services):
        name, first = "service-%05d" % number, number * n_endpoints
        yield service(name)
        yield slice_of(name, [endpoint(first + i, n_nodes)
                              for i in range(n_endpoints)])


def make(connect, made):
    """Makes objects by several connections; 'connect' makes one."""
    waiting, failures = queue.SimpleQueue(), []
    for item in made:
        waiting.put(item)

    def work():
        api = connect()
        try:
            while not failures:
                api("POST", *waiting.get_nowait())
        except queue.Empty:
            pass
        except (OSError, RuntimeError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Kubelets(threading.Thread):
    """What the Nodes' kubelets write while nothing happens: a Lease each,
    every 10 s, and every 5 minutes the Node's status."""

    def __init__(self, api, n_nodes):
        super().__init__(daemon=True)
        self._api, self._n, self.failure = api, n_nodes, None
        self.report = True      # Or Leases are renewed only.

    def run(self):
        done = threading.Event()
        try:
            for turn in itertools.count():
                self._renew(turn % self._n)
                if self.report and turn % (STATUS // LEASE) == 0:
                    self._report(turn // (STATUS // LEASE) % self._n)
                done.wait(LEASE / self._n)
        except (OSError, RuntimeError) as error:
            self.failure = error

    def _renew(self, number):
        self._api("PATCH", "%s/%s" % (LEASES, node_name(number)),
                  {"spec": {"renewTime": now()}}, PATCH)

    def _report(self, number):
        self._api("PATCH", "/api/v1/nodes/%s/status" % node_name(number),
                  {"status": {"conditions": conditions()}}, STRATEGIC)
