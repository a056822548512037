# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors of the scripted API server.

A parsed selector is a function from a record's labels (or fields) to bool.
Bad ones raise SelectorError with a real API server's message.
"""
import re

_REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<akey>[\w./-]+)"
    r"|(?P<skey>[\w./-]+)\s+(?P<set>in|notin)\s*\((?P<values>[^)]*)\)"
    r"|(?P<ekey>[\w./-]+)\s*(?P<op>==|!=|=)\s*(?P<value>[\w./-]*)"
    r"|(?P<key>[\w./-]+))\s*(?:,|$)")


class SelectorError(ValueError):
    """A selector that a real server answers with 400."""


def _requirement(match):
    """The test that one matched requirement stands for."""
    if match["absent"]:
        key = match["akey"]
        return lambda labels: key not in labels
    if match["set"]:
        key = match["skey"]
        values = {v.strip() for v in match["values"].split(",")}
        if match["set"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match["op"]:
        key, value = match["ekey"], match["value"]
        if match["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    key = match["key"]
    return lambda labels: key in labels


def parse_labels(text):
    """The label selector 'text' as a function of a labels dict."""
    tests = []
    at = 0
    while at < len(text):
        match = _REQUIREMENT.match(text, at)
        if not match:
            found = text[at:].lstrip("!") or "!"
            raise SelectorError("unable to parse requirement: found '%s', "
                                "expected: identifier" % found[:1])
        tests.append(_requirement(match))
        at = match.end()
    return lambda labels: all(test(labels) for test in tests)


def parse_fields(text, supported):
    """The field selector 'text' as a function of a fields dict."""
    tests = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"([\w.]+)(==|!=|=)(.*)", part)
        if not match:
            raise SelectorError("invalid selector: '%s'; can't understand "
                                "'%s'" % (text, part))
        field, op, value = match.groups()
        if field not in supported:
            raise SelectorError("field label not supported: %s" % field)
        wanted = op != "!="
        tests.append((field, value, wanted))
    return lambda fields: all((fields.get(f, "") == v) == w
                              for f, v, w in tests)
