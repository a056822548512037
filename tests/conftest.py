# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the integration and system tests.

Each (but `cluster` and `multi`) makes fresh things for one test and takes them away after
it, however the test ended.  A test fails as well if a switch or a daemon has logged a
warning that the test did not allow (`switch.allow(pattern)`).
"""
import itertools
import os
import re

import pytest

from support.apiserver import ApiServer
from support.cluster import Cluster
from support.daemon import Ofproxyd
from support.multinode import MultiCluster
from support.netns import Netns, sweep
from support.ovs import PrivateSwitch
from support.secrets import leaks, token

# Files that take longest, a minute or two.  They are begun first, so that
# no worker still has one of them when the others have done all.
LONGEST = ("test_api_outage", "test_host_faults", "test_modes_paths",
           "test_http", "test_kube", "test_pipeline_outside",
           "test_exposed_changes", "test_host_nodeports", "test_modes_heal")


def _begins_late(item):
    return (LONGEST.index(item.path.stem) if item.path.stem in LONGEST
            else len(LONGEST))


def _cluster_number(item):
    """The place of a test's cluster in its module's MULTI; 0 if it has
    none."""
    cluster = item.callspec.params.get("multi") if hasattr(
        item, "callspec") else None
    clusters = list(getattr(item.module, "MULTI", {}).values())
    return clusters.index(cluster) if cluster in clusters else 0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Long files come first, and tests that share a cluster of several nodes
    follow each other.  The system tests need root; say so once, not in each
    of them."""
    items.sort(key=_begins_late)
    items[:] = [item for _, group in itertools.groupby(
        items, lambda item: item.path)
                for item in sorted(group, key=_cluster_number)]
    if os.geteuid() == 0:
        return
    for item in items:
        if ({"netns", "node", "cluster", "multi"}
                & set(item.fixturenames)):
            item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """A fresh folder whose name is short: the sockets in it have room for
    some hundred characters (unix(7))."""
    return tmp_path_factory.mktemp(
        re.sub(r"\W", "_", request.node.name)[:16].strip("_"))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """No log and no dump of all these tests has a token or a key.

    That is looked at when all workers have ended, in the folder that has
    theirs, too."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    # pylint: disable=protected-access
    found = list(leaks(session.config._tmp_path_factory.getbasetemp()))
    if found:
        print("\nA token or a key is in", *found[:20], sep="\n  ")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure():
    """A worker that had to end at once has taken nothing away."""
    if os.geteuid() == 0 and "PYTEST_XDIST_WORKER" not in os.environ:
        sweep()


def pytest_generate_tests(metafunc):
    """Runs each test that takes `multi` with each of the module's clusters,
    and in each family that this one has: `family` is one of its pods,
    `host_family` one of its nodes, too."""
    names = metafunc.fixturenames
    if "multi" not in names:
        return
    values, ids = [], []
    for name, options in metafunc.module.MULTI.items():
        pods, hosts = (options.get(key, (4, 6))
                       for key in ("families", "underlay"))
        for number in (4, 6):
            if "host_family" in names and number in set(pods) & set(hosts):
                values.append({"multi": options, "host_family": number})
            elif "family" in names and number in pods:
                values.append({"multi": options, "family": number})
            else:
                continue
            ids.append("%s-IPv%d" % (name, number))
        if not {"family", "host_family"} & set(names):
            values.append({"multi": options})
            ids.append(name)
    keys = list(values[0])
    metafunc.parametrize(keys, [tuple(v[k] for k in keys) for v in values],
                         ids=ids, indirect=["multi"], scope="module")


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
    """An API server with TLS and the token token("good")."""
    with ApiServer(tmp_path / "apiserver", tls=True,
                   tokens={token("good"): "system:node:n1"}) as api:
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
    """A node in a namespace of its own, its switch running, with a link that
    has the address of objects.node()."""
    made = netns.node("n1", tmp_path / "node")
    made.batch("link add uplink type veth peer name uplink-peer",
               "link set uplink-peer up", "link set uplink up",
               "addr add 192.0.2.11/24 dev uplink")
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


@pytest.fixture(scope="module")
def multi(request, tmp_path_factory):
    """A support.multinode.MultiCluster for all tests of a module; MULTI has
    the arguments of each, by name (see pytest_generate_tests)."""
    with MultiCluster(tmp_path_factory.mktemp("multi"),
                      **request.param) as made:
        yield made
    assert_quiet(made)
