# SPDX-License-Identifier: Apache-2.0
"""Tokens and keys of the tests, and the search for them where they must not
be: in logs, dumps, and what programs print."""
import os
import pathlib
import stat

MARK = "s3cr3t-"                # Each token begins with it.
CARRIERS = ("token", "kubeconfig")
KEY_END = ".key"
LIMIT = 100 << 20               # Bytes of a file that are searched.


def token(name):
    """A token that is found wherever it is written."""
    return MARK + name


def _files(root):
    for folder, _, names in os.walk(root):
        for name in names:
            path = pathlib.Path(folder, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _of_key(path):
    """The first line of what a private key's file holds."""
    lines = path.read_bytes().splitlines()
    return lines[1] if len(lines) > 2 else None


def leaks(root):
    """The files below a folder that have a token, or a key that another file
    of the folder has, and aren't there to have it."""
    files = list(_files(root))
    keys = {_of_key(path) for path in files if path.name.endswith(KEY_END)}
    wanted = [MARK.encode(), *(keys - {None})]
    for path in files:
        if path.name in CARRIERS or path.name.endswith(KEY_END):
            continue
        with open(path, "rb") as file:
            text = file.read(LIMIT)
        if any(secret in text for secret in wanted):
            yield path
