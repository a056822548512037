# SPDX-License-Identifier: Apache-2.0
"""Long lists come packed: an API server sends what is longer than 128 KiB with
gzip to a client that takes it."""
import gzip
import pathlib

import pytest

from support import objects

LIST = (b'{"kind":"ServiceList","apiVersion":"v1",'
        b'"metadata":{"resourceVersion":"1"},"items":[')
PACKED = gzip.compress(LIST + b"]}")


@pytest.fixture(name="probe")
def fixture_probe(kube_probe):
    """A function that starts probes."""
    return kube_probe


def test_a_long_list_comes_packed_and_is_read(apiserver, probe):
    blob = {"annotations": {"blob": "z" * (256 << 10)}}
    apiserver.apply(objects.service("ns1", "big", **blob))
    apiserver.apply(objects.service("ns1", "small"))
    client = probe(apiserver).wait_synced()
    client.wait_services("ns1/big", "ns1/small")
    request, = apiserver.requests_for("services", "list")
    assert request.headers["accept-encoding"] == "gzip"
    assert request.packed
    assert client.number("failures") == 0
    apiserver.apply(objects.service("ns1", "later"))
    client.wait_services("ns1/big", "ns1/small", "ns1/later")


@pytest.mark.parametrize("body", [
    PACKED[:-10], PACKED[:20], b"", LIST + b"]}",
    PACKED[:30] + b"\0\xff" + PACKED[32:], PACKED + b"garbage",
    # 64 MiB of one object in 64 KiB.
    gzip.compress(LIST + b'{"x":"' + b"y" * (64 << 20)),
], ids=["without its end", "of one half", "empty", "not packed", "spoilt",
        "with garbage behind", "a bomb"])
def test_a_list_that_is_packed_badly_is_not_taken(apiserver, probe, body):
    """It is asked for again, and fills no memory."""
    apiserver.apply(objects.service("ns1", "s0"))
    odd = apiserver.fault(resource="services", verb="list", count=2, body=body,
                          status=200, headers={"Content-Encoding": "gzip"})
    client = probe(apiserver).wait_synced()
    client.wait_services("ns1/s0")
    assert odd.hits == 2
    assert client.number("failures") >= 2
    status = pathlib.Path("/proc/%d/status" % client.process.pid).read_text()
    assert int(status.split("VmHWM:")[1].split()[0]) < 100 * 1024
