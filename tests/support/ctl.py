# SPDX-License-Identifier: Apache-2.0
"""ofproxyctl, as an operator calls it."""
import os
import pathlib

from support import proc


def program():
    """Its path."""
    return pathlib.Path(os.environ.get("O", "build")) / "ofproxyctl"


def run(rig, *args):
    """Calls it; the result, whatever its exit status."""
    return proc.run(program(), "--target", rig.daemon.ctl, "--vswitchd",
                    rig.switch.dir / "ovs-vswitchd.ctl", *args, check=False)


def output(rig, *args):
    """What it prints; it must succeed without a word on standard error."""
    done = run(rig, *args)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout
