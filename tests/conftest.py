# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the integration and system tests.

Each (but `cluster`) makes fresh things for one test and takes them away after
it, however the test ended.  A test fails as well if a switch or a daemon has logged a
warning that the test did not allow (`switch.allow(pattern)`).
"""
import os

import pytest

from support.apiserver import ApiServer
from support.cluster import Cluster
from support.daemon import Ofproxyd
from support.netns import Netns
from support.ovs import PrivateSwitch


def pytest_collection_modifyitems(config, items):
    """The system tests need root; say so once, not in each of them."""
    if os.geteuid() == 0:
        return
    for item in items:
        if {"netns", "node", "cluster"} & set(item.fixturenames):
            item.add_marker(pytest.mark.skip(reason="needs root"))


def assert_quiet(*loggers):
    """Fails if one of them has logged what was not expected."""
    lines = [line for logger in loggers
             for line in logger.unexpected_warnings()]
    assert not lines, "unexpected warnings:\n" + "\n".join(lines[:20])


@pytest.fixture
def apiserver(tmp_path):
    """An API server over plain HTTP on loopback, without objects."""
    with ApiServer(tmp_path / "apiserver") as api:
        yield api


@pytest.fixture
def tls_apiserver(tmp_path):
    """An API server with TLS and the token "good"."""
    with ApiServer(tmp_path / "apiserver", tls=True,
                   tokens={"good": "system:node:n1"}) as api:
        yield api


@pytest.fixture
def switch(tmp_path):
    """A private switch with dummy ports; it has no bridge yet."""
    with PrivateSwitch(tmp_path / "switch", dummy=True) as private:
        yield private
    assert_quiet(private)


@pytest.fixture
def netns():
    """A maker of namespaces, nodes and pods (support.netns.Netns)."""
    maker = Netns()
    yield maker
    maker.close()


@pytest.fixture
def node(netns, tmp_path):
    """A node in a namespace of its own, its switch running."""
    made = netns.node("n1", tmp_path / "node")
    yield made
    netns.close()
    assert_quiet(made.switch)


@pytest.fixture
def node_apiserver(node, tmp_path):
    """An API server that listens on the node's loopback."""
    with ApiServer(tmp_path / "apiserver", netns=node.name) as api:
        yield api


@pytest.fixture
def daemon(tmp_path):
    """A function that makes daemons: daemon(api, switch, **config).

    They are started, and ended after the test."""
    made = []

    def make(api, private, **config):
        directory = tmp_path / ("daemon-%d" % len(made))
        made.append(Ofproxyd(directory, api, private, **config))
        return made[-1].start()

    yield make
    for one in made:
        one.stop()
    assert_quiet(*made)


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    """A support.cluster.Cluster for all tests of a module, whose CLUSTER has
    its arguments.  Warnings fail the last of these tests."""
    options = getattr(request.module, "CLUSTER", {})
    with Cluster(tmp_path_factory.mktemp("cluster"), **options) as made:
        yield made
    assert_quiet(made)
