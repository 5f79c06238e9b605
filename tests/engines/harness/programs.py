"""The programs that the engine tests start, and the Debian packages that bring them.

A missing program is an error that names the apt line: a test that is skipped proves nothing.
"""

from __future__ import annotations

import os
import shutil

# The directories of Debian's packages come first: other copies (/usr/local) are not what these tests are about.
SEARCH = "/usr/sbin:/usr/bin:/sbin:/bin"

PACKAGES = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
    "busybox": "busybox-static",
    "runc": "runc",
    "crun": "crun",
    "containerd": "containerd",
    "ctr": "containerd",
    "dockerd": "docker.io",
    "docker": "docker.io",
    "docker-compose": "docker-compose",
    "podman": "podman",
    "conmon": "conmon",
    "newuidmap": "uidmap",
    "curl": "curl",
    "/lib/systemd/systemd": "systemd",
    "systemctl": "systemd",
    "/lib/ld-musl-x86_64.so.1": "musl",  # no program, but found by its path all the same
}


class MissingError(RuntimeError):
    """A program or a right is missing; the text says how to get it."""


def find(*names: str) -> list[str]:
    """The absolute paths of the programs named, in order; raises MissingError with one apt line for all that lack."""
    paths = {name: shutil.which(name, path=SEARCH) for name in names}
    lacking = sorted({PACKAGES[name] for name, path in paths.items() if path is None})
    if lacking:
        missing = ", ".join(name for name, path in paths.items() if path is None)
        raise MissingError(f"missing: {missing}; apt-get install -y --no-install-recommends {' '.join(lacking)}")
    return [path for path in paths.values() if path is not None]


def need_root() -> None:
    """Raise MissingError unless this process may make namespaces and mounts."""
    if os.geteuid() != 0:
        raise MissingError("the engine tests make namespaces, mounts and device nodes: run them as root")
