# SPDX-License-Identifier: Apache-2.0
"""The objects behind the scripted API server, with their history.

One global resourceVersion that only grows; every change is an event in the
log of its resource, from which watches are served and older versions of the
store are rebuilt (for the later pages of a list).  Nothing is validated: what
a test puts in comes out, with the metadata that a real server adds and in a
real server's order of keys.  Objects are kept as their JSON text, so that a
list of many thousands costs one join.
"""
import bisect
import contextlib
import json
import random
import threading
import time
import uuid
from dataclasses import dataclass, field

METADATA_ORDER = (
    "name", "generateName", "namespace", "uid", "resourceVersion",
    "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "labels", "annotations",
    "ownerReferences", "finalizers", "managedFields")
SERVER_OWNED = ("uid", "resourceVersion", "generation", "creationTimestamp",
                "managedFields")
HISTORY_LIMIT = 200000          # Events kept for each resource.


def dumps(value, crd=False):
    """JSON as an API server writes it (custom resources: sorted)."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False,
                      sort_keys=crd).encode()


@dataclass(frozen=True)
class Resource:
    """One kind of object that the server knows."""
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    crd: bool = False           # Served as a custom resource is.
    generation: bool = False
    fields: tuple = ()          # Selectable besides name and namespace.
    blank: dict = field(default_factory=dict, compare=False)

    @property
    def api_version(self):
        """As objects carry it: "v1", "discovery.k8s.io/v1"."""
        return "/".join(filter(None, (self.group, self.version)))

    @property
    def qualified(self):
        """As messages name it: "services", "endpointslices.<group>"."""
        return ".".join(filter(None, (self.plural, self.group)))

    @property
    def path(self):
        """The path of all its objects."""
        root = "/apis/" if self.group else "/api/"
        return root + self.api_version + "/" + self.plural


_NODE_INFO = dict.fromkeys(
    ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage",
     "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion",
     "operatingSystem", "architecture"), "")

SERVICES = Resource(
    "", "v1", "services", "Service", fields=("spec.clusterIP", "spec.type"),
    blank={"spec": {}, "status": {"loadBalancer": {}}})
ENDPOINTSLICES = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice",
    generation=True,
    blank={"addressType": "", "endpoints": None, "ports": None})
NODES = Resource(
    "", "v1", "nodes", "Node", namespaced=False,
    fields=("spec.unschedulable",),
    blank={"spec": {}, "status": {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": _NODE_INFO}})
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod", fields=("spec.nodeName",))
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
SERVICECIDRS = Resource("networking.k8s.io", "v1", "servicecidrs",
                        "ServiceCIDR", namespaced=False)
GATEWAYS = Resource("multicluster.crd.antrea.io", "v1alpha1", "gateways",
                    "Gateway", crd=True, generation=True)
CLUSTERINFOIMPORTS = Resource(
    "multicluster.crd.antrea.io", "v1alpha1", "clusterinfoimports",
    "ClusterInfoImport", crd=True, generation=True)

BUILTIN = (SERVICES, ENDPOINTSLICES, NODES, NAMESPACES, PODS, EVENTS,
           SERVICECIDRS)
MULTICLUSTER = (GATEWAYS, CLUSTERINFOIMPORTS)


class Expired(Exception):
    """A version that the history does not reach back to."""


class Conflict(Exception):
    """Create of what exists, or replace of an older version."""


@dataclass(frozen=True)
class Record:
    """One version of one object."""
    resource: Resource
    namespace: str
    name: str
    rv: int
    body: bytes                 # As an item of a list.
    essence: int                # Hash of what the user gave.
    labels: dict
    fields: dict
    raw: bool = False           # 'body' is a test's own bytes.

    @property
    def key(self):
        """Its place in lists."""
        return (self.namespace, self.name)

    @property
    def full(self):
        """As the object of a watch event, and as the answer to a GET."""
        if self.resource.crd or self.raw:
            return self.body
        return b'{"kind":"%s","apiVersion":"%s",%s' % (
            self.resource.kind.encode(), self.resource.api_version.encode(),
            self.body[1:])

    @property
    def obj(self):
        """A fresh copy as a dict, with kind and apiVersion."""
        return json.loads(self.full)


@dataclass(frozen=True)
class Event:
    """One change: 'old' or 'new' is None for a create or a delete."""
    rv: int
    old: Record
    new: Record
    gone: Record                # The last state, at the version of now.


def _field_names(value):
    """A managedFields set that covers 'value'."""
    if not isinstance(value, dict):
        return {}
    return {"f:" + k: _field_names(v) for k, v in sorted(value.items())}


def _port_fields(ports):
    """The managedFields set of a Service's ports."""
    result = {".": {}}
    for port in ports:
        if isinstance(port, dict):
            key = 'k:{"port":%s,"protocol":"%s"}' % (
                port.get("port"), port.get("protocol", "TCP"))
            result[key] = {".": {}, **_field_names(port)}
    return result


def managed_fields(resource, obj, now):
    """What a real server would add to 'obj' as metadata.managedFields."""
    fields = {}
    labels = obj["metadata"].get("labels")
    if isinstance(labels, dict) and labels:
        fields["f:metadata"] = {"f:labels": {".": {}, **_field_names(labels)}}
    for key, value in sorted(obj.items()):
        if key in ("kind", "apiVersion", "metadata", "status"):
            continue
        fields["f:" + key] = _field_names(value)
        if isinstance(value, dict) and isinstance(value.get("ports"), list):
            fields["f:" + key]["f:ports"] = _port_fields(value["ports"])
    return [{"manager": "scripted", "operation": "Update",
             "apiVersion": resource.api_version, "time": now,
             "fieldsType": "FieldsV1", "fieldsV1": fields}]


def _select_fields(resource, obj):
    """The values of the selectable fields of 'obj'."""
    values = {}
    for path in resource.fields:
        value = obj
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str):
            values[path] = value
        elif isinstance(value, bool):
            values[path] = "true" if value else "false"
    return values


class _Log:
    """The events of one resource; positions count from its first event."""

    def __init__(self):
        self.events = []
        self.base = 0           # Position of events[0].
        self.compacted = 0      # Versions below it are gone.
        self.hold = None        # Watches get no event from here on.

    @property
    def end(self):
        """The position after the last event."""
        return self.base + len(self.events)

    @property
    def limit(self):
        """The position up to which watches may read."""
        return self.end if self.hold is None else self.hold

    def drop(self, n):
        """Forgets the 'n' oldest events."""
        if n > 0:
            self.compacted = max(self.compacted, self.events[n - 1].rv)
            del self.events[:n]
            self.base += n

    def position(self, rv):
        """The position of the first event after version 'rv'."""
        return self.base + bisect.bisect_right(self.events, rv,
                                               key=lambda e: e.rv)


class Store:
    """All objects; every method may be called from any thread."""

    def __init__(self, seed=1, first_rv=100, now=None):
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.rv = first_rv
        self._random = random.Random(seed)
        self._now = now or (lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ",
                                                  time.gmtime()))
        self._resources = {}
        self._by_kind = {}
        self._objects = {}
        self._logs = {}
        for resource in BUILTIN:
            self.add_resource(resource)

    # Resources.

    def add_resource(self, resource):
        """Makes 'resource' known: before, it answers 404."""
        with self.lock:
            key = (resource.group, resource.version, resource.plural)
            self._resources[key] = resource
            self._by_kind[resource.kind] = resource
            self._by_kind[resource.plural] = resource
            self._objects.setdefault(resource, {})
            self._logs.setdefault(resource, _Log())

    def remove_resource(self, which):
        """Makes a resource unknown, with all its objects."""
        with self.lock:
            resource = self.resource(which)
            del self._resources[resource.group, resource.version,
                                resource.plural]
            del self._by_kind[resource.kind], self._by_kind[resource.plural]
            del self._objects[resource], self._logs[resource]
            self.changed.notify_all()

    def find_resource(self, group, version, plural):
        """The Resource at a path, or None."""
        return self._resources.get((group, version, plural))

    def resource(self, which):
        """A Resource by itself, its plural, its kind or an object of it."""
        if isinstance(which, dict):
            which = which["kind"]
        return which if isinstance(which, Resource) else self._by_kind[which]

    # Changes.

    @contextlib.contextmanager
    def batch(self):
        """Changes made inside reach the watches all at once."""
        with self.lock:
            yield
            self.changed.notify_all()

    def apply(self, obj, create=False, force=False):
        """Creates or replaces an object; returns its record.

        As with a real server, replacing an object by an equal one is no
        change, unless 'force'.  'create' raises Conflict if it exists.
        uid and creationTimestamp are kept when given."""
        resource = self.resource(obj)
        meta = dict(obj["metadata"])
        namespace = meta.get("namespace", "") if resource.namespaced else ""
        with self.batch():
            name = self._name(resource, meta)
            old = self._objects[resource].get((namespace, name))
            if old and create:
                raise Conflict("%s \"%s\" already exists"
                               % (resource.qualified, name))
            essence = self._essence(resource, obj, meta)
            if old and old.essence == essence and not force:
                return old
            self.rv += 1
            record = self._record(resource, obj, meta, old, essence)
            self._append(resource, Event(self.rv, old, record, None))
            self._objects[resource][record.key] = record
            return record

    def put_raw(self, which, namespace, name, body):
        """Stores bytes as an object: listed and watched as they are."""
        resource = self.resource(which)
        with self.batch():
            old = self._objects[resource].get((namespace, name))
            self.rv += 1
            record = Record(resource, namespace, name, self.rv, body, 0,
                            {}, {"metadata.name": name,
                                 "metadata.namespace": namespace}, raw=True)
            self._append(resource, Event(self.rv, old, record, None))
            self._objects[resource][record.key] = record
            return record

    def delete(self, which, namespace=None, name=None):
        """Deletes an object (also given as a dict); None if absent."""
        resource = self.resource(which)
        if isinstance(which, dict):
            namespace = which["metadata"].get("namespace", "")
            name = which["metadata"]["name"]
        with self.batch():
            old = self._objects[resource].pop((namespace or "", name), None)
            if old:
                self.rv += 1
                self._append(resource, Event(self.rv, old, None,
                                             self.at_version(old, self.rv)))
            return old

    def _append(self, resource, event):
        log = self._logs[resource]
        log.events.append(event)
        if len(log.events) > HISTORY_LIMIT:
            log.drop(HISTORY_LIMIT // 10)

    def _name(self, resource, meta):
        """The object's name, made up if only generateName is given."""
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + "".join(
                self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        return meta["name"]

    @staticmethod
    def _essence(resource, obj, meta):
        """A hash of what is not the server's own."""
        own = {k: v for k, v in meta.items() if k not in SERVER_OWNED}
        return hash(dumps({**obj, "metadata": own}, crd=True))

    def _record(self, resource, obj, meta, old, essence):
        """The record of 'obj' at the present version."""
        before = old.obj["metadata"] if old and not old.raw else {}
        now = self._now()
        meta.setdefault("uid", before.get("uid") or str(
            uuid.UUID(int=self._random.getrandbits(128), version=4)))
        meta.setdefault("creationTimestamp",
                        before.get("creationTimestamp", now))
        meta["resourceVersion"] = str(self.rv)
        if resource.generation:
            meta["generation"] = before.get("generation", 0) + 1
        if "managedFields" not in meta:
            meta["managedFields"] = managed_fields(resource, obj, now)
        ordered = {k: meta[k] for k in METADATA_ORDER if k in meta}
        ordered.update(meta)
        if resource.crd:
            body = {"apiVersion": resource.api_version,
                    "kind": resource.kind, **obj, "metadata": ordered}
        else:
            body = {"metadata": ordered, **{
                k: v for k, v in obj.items()
                if k not in ("kind", "apiVersion", "metadata")}}
        namespace = meta.get("namespace", "") if resource.namespaced else ""
        labels = meta.get("labels")
        fields = _select_fields(resource, obj)
        fields["metadata.name"] = meta["name"]
        fields["metadata.namespace"] = namespace
        return Record(resource, namespace, meta["name"], self.rv,
                      dumps(body, resource.crd), essence,
                      dict(labels) if isinstance(labels, dict) else {},
                      fields)

    @staticmethod
    def at_version(record, rv):
        """'record' with another resourceVersion, as deletes show it."""
        if record.raw:
            return record
        obj = json.loads(record.body)
        obj["metadata"]["resourceVersion"] = str(rv)
        return Record(record.resource, record.namespace, record.name, rv,
                      dumps(obj, record.resource.crd), record.essence,
                      record.labels, record.fields)

    # Reading.

    def get(self, which, namespace, name):
        """One record, or None."""
        with self.lock:
            return self._objects[self.resource(which)].get(
                (namespace or "", name))

    def records(self, which, rv=None):
        """All records in list order, as of version 'rv'.

        Raises Expired if the history does not reach back that far."""
        with self.lock:
            resource = self.resource(which)
            objects = self._objects[resource]
            if rv is not None and rv < self.rv:
                objects = self._rewind(resource, objects, rv)
            return [objects[key] for key in sorted(objects)]

    def _rewind(self, resource, objects, rv):
        """A copy of 'objects' as they were at version 'rv'."""
        log = self._logs[resource]
        if rv < log.compacted:
            raise Expired()
        objects = dict(objects)
        for event in reversed(log.events):
            if event.rv <= rv:
                break
            if event.old is None:
                objects.pop(event.new.key, None)
            else:
                objects[event.old.key] = event.old
        return objects

    # The history.

    def log(self, which):
        """The log of a resource; None once the resource is removed."""
        return self._logs.get(which if isinstance(which, Resource)
                              else self.resource(which))

    def compact(self, which=None, rv=None):
        """Forgets the history up to 'rv' (default: all there is)."""
        with self.lock:
            logs = [self.log(which)] if which else self._logs.values()
            for log in logs:
                upto = self.rv if rv is None else rv
                log.drop(log.position(upto) - log.base)
                log.compacted = max(log.compacted, upto)

    def hold(self, which):
        """Watches of this resource get no more events until release()."""
        with self.lock:
            log = self.log(which)
            log.hold = log.end

    def release(self, which):
        """Ends hold(): what has been held back is sent at once."""
        with self.batch():
            self.log(which).hold = None
