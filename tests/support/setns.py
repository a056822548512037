# SPDX-License-Identifier: Apache-2.0
"""Calls in another network namespace, by a thread that goes there.

A socket stays in the namespace in which it was made, so a server of this
process can listen inside a namespace without a process there.
"""
import ctypes
import os
import threading

CLONE_NEWNET = 0x40000000


def _enter(netns):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/run/netns/" + netns, os.O_RDONLY)
    try:
        if libc.setns(fd, CLONE_NEWNET):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), netns)
    finally:
        os.close(fd)


def call(netns, function, *args):
    """The result of function(*args), called in 'netns' (None: here)."""
    if netns is None:
        return function(*args)
    outcome = {}

    def run():
        try:
            _enter(netns)
            outcome["result"] = function(*args)
        except BaseException as error:  # pylint: disable=broad-except
            outcome["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]
