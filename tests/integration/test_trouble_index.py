# SPDX-License-Identifier: Apache-2.0
"""docs/trouble-cases.md names tests that exist, for every case."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "trouble-cases.md"
ROW = re.compile(r"^\| ([A-Z]\d+) \| [^|]+ \| (.*) \|$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[^`:]+)::(\w+)`")

# The numbers of the cases of each group, and of the longer notes.
CASES = {
    "A": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25,
          26),
    "B": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20),
    "C": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25,
          26),
    "D": (1, 2, 4, 5, 7),
    "E": (1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24),
    "F": (1, 3, 4, 6, 7, 9, 10, 12),
    "G": (1, 3, 4, 6, 7, 9, 10, 12, 13),
    "H": (1, 2, 4, 5, 7, 8),
    "I": (1, 2, 4, 5),
    "J": (2,),
    "K": (1, 3, 4),
    "L": (1, 2),
    "M": (2, 3),
    "N": (1, 2, 4, 5),
    "O": (2, 3, 5, 6, 8, 9, 11, 12),
    "P": (1, 2, 4, 5, 7, 8, 10, 11),
    "Q": (1, 2),
}
NOTES = (1, 2, 3, 4, 6, 8, 9, 11, 12, 14, 16, 17, 18, 20, 22, 23, 26, 29, 30,
         31, 34, 35, 39)


def rows():
    """The table's rows: {id: text}."""
    return dict(ROW.findall(PAGE.read_text()))


def exists(path, name):
    """Whether the file defines this test (and, in C, runs it)."""
    text = (ROOT / path).read_text()
    if path.endswith(".py"):
        return re.search(r"^def %s\(" % name, text, re.MULTILINE)
    return (re.search(r"^%s\(" % name, text, re.MULTILINE)
            and len(re.findall(r"\b%s\b" % name, text)) > 1)


def complaints(table):
    """What is wrong with the table."""
    for case, text in table.items():
        named = NAMED.findall(text)
        for path, name in named:
            if not (ROOT / path).exists() or not exists(path, name):
                yield "%s: no test %s::%s" % (case, path, name)
            elif not re.search(r"(^|_)%s_" % case.lower(), name):
                yield "%s: %s is not named after it" % (case, name)
        if not named and not text.startswith("no: "):
            yield "%s: neither a test nor a reason" % case


def test_every_case_has_its_row():
    """And no other has."""
    wanted = {"%s%d" % (group, n) for group, ns in CASES.items() for n in ns}
    wanted |= {"D%02d" % n for n in NOTES}
    assert set(rows()) == wanted


def test_every_named_test_exists():
    """And is named after the case."""
    assert list(complaints(rows())) == []


@pytest.mark.parametrize("text, wrong", [
    ("`tests/unit/test-nothing.c::a1_x`", "no test"),
    ("`tests/integration/test_trouble_a.py::test_a1_x`", "no test"),
    ("`tests/integration/test_trouble_a.py::test_a1_a_ready_pod_is_used_"
     "though_a_terminating_one_had_its_address`", None),
    ("`tests/unit/test-services.c::b7_ids_do_not_leak`", "not named after"),
    ("later", "neither"), ("no: it is not built yet", None)])
def test_what_is_wrong_is_found(text, wrong):
    """Of a row."""
    found = list(complaints({"A1": text}))
    assert (wrong in found[0]) if wrong else not found
