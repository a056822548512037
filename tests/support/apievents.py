# SPDX-License-Identifier: Apache-2.0
"""What a real API server refuses of events.k8s.io/v1 (after
pkg/apis/core/validation/events.go of 1.34), and unknown fields besides, which
a real one refuses only if asked to."""
import re

FIELDS = {
    "kind", "apiVersion", "metadata", "eventTime", "series",
    "reportingController", "reportingInstance", "action", "reason",
    "regarding", "related", "note", "type", "deprecatedSource",
    "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount"}
DEPRECATED = tuple(sorted(f for f in FIELDS if f.startswith("deprecated")))
REF_FIELDS = {"kind", "namespace", "name", "uid", "apiVersion",
              "resourceVersion", "fieldPath"}
IMMUTABLE = ("eventTime", "reportingController", "reportingInstance",
             "action", "reason", "regarding", "related", "note", "type",
             *DEPRECATED)
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
                       r"(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}"
                       r"[A-Za-z0-9])?")


def _check_texts(event):
    """Strings that must be there, and how long they may be."""
    for key in "reportingInstance", "action", "reason":
        value = event.get(key)
        if not isinstance(value, str) or not value:
            yield key + ": Required value"
        elif len(value.encode()) > 128:
            yield key + ": can have at most 128 characters"
    if not QUALIFIED.fullmatch(event.get("reportingController") or ""):
        yield "reportingController: name part must consist of alphanumeric"
    if len((event.get("note") or "").encode()) > 1024:
        yield "note: can have at most 1024 characters"
    if event.get("type") not in ("Normal", "Warning"):
        yield "type: has invalid value: %s" % event.get("type")


def _check_regarding(event):
    """The object, and whether the Event is in its namespace."""
    regarding = event.get("regarding") or {}
    for key in sorted(set(regarding) - REF_FIELDS):
        yield "regarding.%s: unknown field" % key
    namespace = event["metadata"].get("namespace")
    there = regarding.get("namespace", "")
    if there and there != namespace:
        yield "regarding.namespace: does not match event.namespace"
    if not there and namespace not in ("default", "kube-system"):
        yield "regarding.namespace: does not match event.namespace"


def _check_series(event):
    series = event.get("series")
    if series is None:
        return
    for key in sorted(set(series) - {"count", "lastObservedTime"}):
        yield "series.%s: unknown field" % key
    if not isinstance(series.get("count"), int) or series["count"] < 2:
        yield "series.count: should be at least 2"
    if not MICRO_TIME.fullmatch(series.get("lastObservedTime") or ""):
        yield "series.lastObservedTime: Required value"


def check(event, old=None):
    """Messages of what is wrong with an Event that is created, or is to
    replace 'old'; empty if nothing."""
    wrong = ["%s: unknown field" % k for k in sorted(set(event) - FIELDS)]
    name = event["metadata"].get("name") \
        or event["metadata"].get("generateName", "") + "x"
    if len(name) > 253 or not SUBDOMAIN.fullmatch(name):
        wrong.append("metadata.name: Invalid value: " + name)
    if not MICRO_TIME.fullmatch(event.get("eventTime") or ""):
        wrong.append("eventTime: Required value")
    for part in _check_texts, _check_regarding, _check_series:
        wrong += part(event)
    wrong += ["%s: needs to be unset" % key for key in DEPRECATED
              if event.get(key)]
    if old:
        wrong += ["%s: field is immutable" % key for key in IMMUTABLE
                  if event.get(key) != old.get(key)]
    return wrong
