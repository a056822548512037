# SPDX-License-Identifier: Apache-2.0
"""The image of conf/Dockerfile, without a container daemon and without a
registry: built by buildah, on a Debian made by mmdebstrap.

The Debian is kept in the cache of scripts/build-ovs.  The program in the image
is that of $O: the Dockerfile's first stage, which compiles it anew, is left
out unless OFPROXYD_FULL_IMAGE is set."""
import os
import pathlib
import platform
import shutil

import pytest
import yaml

from support import manifests, proc
from support.daemon import binary
from support.manifests import ROOT

DOCKERFILE = ROOT / "conf/Dockerfile"
TOOLS = ("buildah", "mmdebstrap", "bwrap", "dpkg-shlibdeps")
NAME = "localhost/ofproxyd"
ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"


def need_tools():
    """Skips without what an image needs."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.geteuid():
        pytest.skip("no image: needs root and %s (scripts/install-deps "
                    "--test)" % ", ".join(missing or TOOLS))


def debian():
    """The path of a tar file with the Debian release of this machine."""
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    path = manifests.cache() / ("debian-%s.tar" % release)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name("%s.%d.tar" % (path.stem, os.getpid()))
        try:
            proc.run("mmdebstrap", "--quiet", "--variant=apt", release, part,
                     timeout=600)
            part.rename(path)
        finally:
            part.unlink(missing_ok=True)
    return path


def package():
    """Makes the Debian package of what is built; its path."""
    before = binary().stat()
    version = proc.output(binary(), "--version").split()[1]
    path = pathlib.Path(proc.output(ROOT / "scripts/build-deb",
                                    binary().parent, version,
                                    timeout=600).strip())
    # Tests beside this one run it.
    assert binary().stat().st_ino == before.st_ino, "it was built again"
    assert binary().stat().st_mtime == before.st_mtime, "it was built again"
    return path


class Image:
    """The built image, with the package that is in it (.deb).  Its storage
    is in 'directory'."""

    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.deb = None

    def _buildah(self, *args):
        return proc.output(
            "buildah", "--root", self.dir / "storage", "--runroot",
            self.dir / "run", "--storage-driver", "vfs", *args,
            timeout=1200).strip()

    def _bud(self, name, dockerfile, context, *args):
        path = self.dir / "Dockerfile"
        path.write_text(dockerfile)
        self._buildah("bud", "--quiet", "--isolation", "chroot",
                      "--layers=false", "--file", path, "--tag", name, *args,
                      context)

    def build(self):
        """Builds it."""
        base, self.deb = debian(), package()
        self._bud("localhost/base", "FROM scratch\nADD %s /\n" % base.name,
                  base.parent, "--ignorefile", self._only(base.name))
        text = DOCKERFILE.read_text()
        if not os.environ.get("OFPROXYD_FULL_IMAGE"):
            self._bud("localhost/package",
                      "FROM scratch\nCOPY %s /out/\n" % self.deb.name,
                      self.deb.parent, "--ignorefile",
                      self._only(self.deb.name))
            head, _, last = text.split("\nFROM ")
            text = "%s\nFROM localhost/package AS build\nFROM %s" % (head,
                                                                     last)
        self._bud(NAME, text, ROOT, "--build-arg", "BASE=localhost/base")
        return self

    def _only(self, name):
        """A file that lets buildah see one file of a folder only."""
        path = self.dir / "ignore"
        path.write_text("*\n!%s\n" % name)
        return path

    def config(self):
        """How a container of it is started."""
        return yaml.safe_load(self._buildah(
            "inspect", "--type", "image", NAME))["OCIv1"]["config"]

    def root(self):
        """The root of a fresh container, with the folders on which a
        container runtime mounts what the DaemonSet says."""
        path = pathlib.Path(self._buildah("mount", self._buildah("from",
                                                                 NAME)))
        for folder in ["/" + ACCOUNT, *(
                m["mountPath"] for m in
                manifests.container()["volumeMounts"])]:
            (path / real(folder).lstrip("/")).mkdir(parents=True,
                                                    exist_ok=True)
        return path


def real(folder):
    """A path in the image without Debian's symbolic link, which would lead
    to the /run of this machine."""
    return folder.replace("/var/run/", "/run/")


def contained(root, mounts, *args, env=None, capabilities=None):
    """A command that runs the image's program as the DaemonSet says: on its
    read-only root, with its capabilities, and with 'mounts' (where: what).
    /proc/sys is read-only, as container runtimes have it."""
    context = manifests.container()["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]  # bwrap sees to it.
    assert context["capabilities"]["drop"] == ["ALL"]
    if capabilities is None:
        capabilities = context["capabilities"]["add"]
    result = ["bwrap", "--die-with-parent", "--ro-bind", root, "/", "--dev",
              "/dev", "--unshare-pid", "--unshare-ipc", "--as-pid-1",
              "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys",
              "--cap-drop", "ALL"]
    for name in capabilities:
        result += ["--cap-add", "CAP_" + name]
    for where, what in mounts.items():
        kind = "--bind"
        for mount in manifests.container()["volumeMounts"]:
            if mount["mountPath"] == where and mount.get("readOnly"):
                kind = "--ro-bind"
        result += [kind, what, real(where)]
    result += ["--clearenv"]
    for key, value in (env or {}).items():
        result += ["--setenv", key, value]
    return [*result, *args]
