# SPDX-License-Identifier: Apache-2.0
"""Runs a command with all file systems read-only, but for some folders.

    python3 readonly.py WRITABLE... -- COMMAND...
"""
import ctypes
import os
import sys

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
SYS_MOUNT_SETATTR = 442         # On all architectures.
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
RDONLY = 1

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    """Ends the program if a call has failed."""
    if result:
        sys.exit("%s: %s" % (what, os.strerror(ctypes.get_errno())))


def set_attributes(path, flags, on=0, off=0):
    """mount_setattr(2)."""
    attributes = (ctypes.c_uint64 * 4)(on, off, 0, 0)
    check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags,
                       attributes, ctypes.sizeof(attributes)), path)


def main():
    """The program."""
    at = sys.argv.index("--")
    writable, command = sys.argv[1:at], sys.argv[at + 1:]
    check(libc.unshare(CLONE_NEWNS), "unshare")
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "/")
    for path in writable:
        check(libc.mount(path.encode(), path.encode(), None, MS_BIND, None),
              path)
    set_attributes("/", AT_RECURSIVE, on=RDONLY)
    for path in writable:
        set_attributes(path, 0, off=RDONLY)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
