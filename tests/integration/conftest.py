# SPDX-License-Identifier: Apache-2.0
"""The fixture `rig` (support.rig)."""
import os

import pytest

from support.rig import Rig, own_node


def pytest_collection_modifyitems(items):
    """Its network namespace needs root."""
    if os.geteuid() == 0:
        return
    for item in items:
        if "rig" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def rig(tmp_path):
    """A daemon that is not started yet, behind a relay to a switch with dummy
    ports, and an API server that has only the node's own object.

    The test fails as well if daemon or switch have logged a warning that
    was not allowed."""
    with Rig(tmp_path / "rig", relay=True) as made:
        made.api.apply(own_node())
        yield made
    made.check_quiet()
