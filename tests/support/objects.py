# SPDX-License-Identifier: Apache-2.0
"""Builders of Kubernetes objects, and of whole clusters for benchmarks."""
import functools
import ipaddress
import random

SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
ZONE_LABEL = "topology.kubernetes.io/zone"


def port(number, name=None, protocol="TCP", target=None, **more):
    """A Service's port; 'more' e.g. nodePort=, appProtocol=."""
    result = {"name": name} if name else {}
    result.update(protocol=protocol, port=number,
                  targetPort=number if target is None else target)
    result.update(more)
    return result


def _ports(ports):
    """Ports given as numbers, (number, name) pairs or dicts."""
    result = []
    for given in ports:
        if isinstance(given, dict):
            result.append(given)
        elif isinstance(given, int):
            result.append(port(given))
        else:
            result.append(port(*given))
    return result


def _families(addresses):
    return ["IPv6" if ":" in a else "IPv4" for a in addresses if a != "None"]


def service(namespace, name, ports=(80,), cluster_ips=("10.96.0.10",), *,
            labels=None, annotations=None, created=None, uid=None,
            status=None, **spec):
    """A Service; 'spec' overrides or adds fields, e.g. type="NodePort",
    internalTrafficPolicy="Local"; a field of value None is left out."""
    meta = {"name": name, "namespace": namespace}
    for key, value in (("labels", labels), ("annotations", annotations),
                       ("creationTimestamp", created), ("uid", uid)):
        if value is not None:
            meta[key] = value
    families = _families(cluster_ips)
    body = {"ports": _ports(ports), "selector": {"app": name},
            "clusterIP": cluster_ips[0] if cluster_ips else "",
            "clusterIPs": list(cluster_ips), "type": "ClusterIP",
            "sessionAffinity": "None", "ipFamilies": families or ["IPv4"],
            "ipFamilyPolicy": ("RequireDualStack" if len(families) > 1
                               else "SingleStack"),
            "internalTrafficPolicy": "Cluster", **spec}
    return {"kind": "Service", "apiVersion": "v1", "metadata": meta,
            "spec": {k: v for k, v in body.items() if v is not None},
            "status": status or {"loadBalancer": {}}}


def endpoint(addresses, node=None, *, ready=True, serving=None,
             terminating=False, pod=None, zone=None, hints=None, **more):
    """An endpoint of a slice; 'hints': zones; ready=None: no conditions."""
    if isinstance(addresses, str):
        addresses = [addresses]
    result = {"addresses": list(addresses), "conditions": {}}
    if ready is not None:
        result["conditions"] = {
            "ready": ready, "serving": ready if serving is None else serving,
            "terminating": terminating}
    if pod:
        result["targetRef"] = {"kind": "Pod", "namespace": pod[0],
                               "name": pod[1]}
    if node is not None:
        result["nodeName"] = node
    if zone is not None:
        result["zone"] = zone
    if hints is not None:
        result["hints"] = {"forZones": [{"name": z} for z in hints]}
    result.update(more)
    return result


def slice_port(number, name="", protocol="TCP", **more):
    """A port of an EndpointSlice."""
    return {"name": name, "port": number, "protocol": protocol, **more}


def _slice_ports(ports):
    result = []
    for given in ports:
        if isinstance(given, dict):
            result.append(given)
        elif isinstance(given, int):
            result.append(slice_port(given))
        else:
            result.append(slice_port(*given))
    return result


def slice_(namespace, service_name, endpoints=(), ports=(80,), *,
           suffix="abcde", name=None, family=None, labels=None, **more):
    """An EndpointSlice of a Service.

    Endpoints are addresses or dicts of endpoint(); an empty slice has nulls,
    as a real one.  'family' (IPv4, IPv6, FQDN) follows from the first
    address."""
    endpoints = [endpoint(e) if isinstance(e, str) else e for e in endpoints]
    if family is None:
        first = endpoints[0]["addresses"][0] if endpoints else ""
        family = "IPv6" if ":" in first else "IPv4"
    all_labels = {MANAGED_BY: "endpointslice-controller.k8s.io",
                  SERVICE_LABEL: service_name, **(labels or {})}
    meta = {"name": name or "%s-%s" % (service_name, suffix),
            "namespace": namespace, "labels": all_labels}
    return {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
            "metadata": meta, "addressType": family,
            "endpoints": endpoints or None,
            "ports": _slice_ports(ports) or None, **more}


def node(name, pod_cidrs=("10.244.1.0/24",), addresses=("192.0.2.11",), *,
         zone=None, labels=None, **spec):
    """A Node."""
    all_labels = {"kubernetes.io/hostname": name}
    if zone:
        all_labels[ZONE_LABEL] = zone
    all_labels.update(labels or {})
    stamp = "2026-01-01T00:00:00Z"
    return {
        "kind": "Node", "apiVersion": "v1",
        "metadata": {"name": name, "labels": all_labels},
        "spec": {"podCIDR": pod_cidrs[0] if pod_cidrs else "",
                 "podCIDRs": list(pod_cidrs), **spec},
        "status": {
            "conditions": [{
                "type": "Ready", "status": "True",
                "lastHeartbeatTime": stamp, "lastTransitionTime": stamp,
                "reason": "KubeletReady", "message": "ready"}],
            "addresses": [{"type": "InternalIP", "address": a}
                          for a in addresses]
            + [{"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}}


def service_cidr(name, cidrs, ready=True):
    """A ServiceCIDR."""
    return {
        "kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": name, "finalizers": [
            "networking.k8s.io/service-cidr-finalizer"]},
        "spec": {"cidrs": list(cidrs)},
        "status": {"conditions": [{
            "type": "Ready", "status": "True" if ready else "False",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "",
            "message": "Kubernetes Service CIDR is ready"}]}}


_network = functools.lru_cache(ipaddress.ip_network)


def nth(cidr, n):
    """The n-th address of a network, as text."""
    return str(_network(cidr)[n])


# All Services of a mix are dual stack; what else the i-th is repeats itself.
_MIX_EVERY = 20
_MIX_NODE_PORT = (0, 10)
_MIX_LOAD_BALANCER = (5, 15)    # They have node ports as well.
_MIX_LOCAL = (15,)
_MIX_AFFINITY = (5, 7)


def _mixed(i):
    """The i-th Service of a mix: fields of its port, and of itself."""
    kind, port_more, more = i % _MIX_EVERY, {}, {}
    if kind in _MIX_NODE_PORT + _MIX_LOAD_BALANCER:
        port_more["nodePort"] = 30000 + i // 5
        more["type"] = "NodePort"
        more["externalTrafficPolicy"] = "Cluster"
    if kind in _MIX_LOAD_BALANCER:
        more["type"] = "LoadBalancer"
        more["status"] = {"loadBalancer": {"ingress": [
            {"ip": nth("198.18.0.0/15", i), "ipMode": "VIP"}]}}
    if kind in _MIX_LOCAL:
        more["externalTrafficPolicy"] = "Local"
        more["healthCheckNodePort"] = 32000 + i // _MIX_EVERY
    if kind in _MIX_AFFINITY:
        more["sessionAffinity"] = "ClientIP"
        more["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    return port_more, more


_PODS = {False: "10.128.0.0/9", True: "fd00:10:244::/48"}
_SERVICES = {False: "10.96.0.0/12", True: "fd00:10:96::/108"}


def cluster(n_services, n_endpoints, *, seed=1, nodes=10, ipv6=False,
            mix=False, here="n1"):
    """A generator of (Service, [slices]) for benchmarks: the same for the
    same arguments.  Endpoints are spread over 'nodes' nodes, slices hold at
    most 100 of them, as the endpoint slice controller makes them.  With
    'mix', 20 % of the Services have node ports, half of them load balancers,
    too, 10 % have affinity and 5 % externalTrafficPolicy Local; all are dual
    stack, and have 'n_endpoints' in both families together."""
    rng = random.Random(seed)
    names = [here] + ["node-%d" % i for i in range(1, nodes)]
    families = [False, True] if mix else [ipv6]
    n_pods = n_endpoints // len(families)
    at = 0
    for i in range(n_services):
        name, namespace = "svc-%05d" % i, "ns-%d" % (i % 50)
        pods = [(at + k, rng.choice(names)) for k in range(1, n_pods + 1)]
        at += n_pods
        slices = []
        for family in families:
            endpoints = [endpoint(nth(_PODS[family], pod), on,
                                  pod=(namespace, "%s-%d" % (name, pod)))
                         for pod, on in pods]
            slices += [
                slice_(namespace, name, endpoints[k:k + 100] or (),
                       [(8080, "http")], family="IPv6" if family else "IPv4",
                       suffix="%s%03d" % ("sv"[mix and family], k // 100))
                for k in range(0, max(n_pods, 1), 100)]
        port_more, more = _mixed(i) if mix else ({}, {})
        yield (service(namespace, name,
                       [port(80, "http", target=8080, **port_more)],
                       [nth(_SERVICES[family], i + 100)
                        for family in families],
                       labels={"app": name}, **more),
               slices)


def cluster_objects(n_services, n_endpoints, **more):
    """All objects of cluster() in one list, with the Node `here`."""
    here = more.get("here", "n1")
    if more.get("mix"):
        result = [node(here, ("10.244.1.0/24", "2001:db8:244:1::/64"),
                       ("192.0.2.11", "2001:db8::11"))]
    else:
        result = [node(here)]
    for svc, slices in cluster(n_services, n_endpoints, **more):
        result.append(svc)
        result.extend(slices)
    return result
