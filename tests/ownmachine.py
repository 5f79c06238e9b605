"""A mount namespace for the whole test session, in which no test meets or leaves anything of this machine's shim.

/etc is a copy, without what belongs to CDI and to shim; /run, /var/log and, where it is there, /var/lib/shim are empty.
So an installed shim with its configuration, specs of a machine with a GPU, and another test session beside this one
make no difference, and indexes, records and logs of creates go away with the session.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

_CLONE_NEWNS = 0x00020000
_FIRST_USER_NAMESPACE = 0xEFFFFFFD  # PROC_USER_INIT_INO, include/linux/proc_ns.h
_OURS = ("shim", "cdi", "nvidia-container-runtime", "logrotate.d/shim")  # below /etc


def is_root_of_the_machine() -> bool:
    """Whether this process is root, and in no user namespace but the first."""
    return os.geteuid() == 0 and Path("/proc/self/ns/user").stat().st_ino == _FIRST_USER_NAMESPACE


def enter() -> bool:
    """Enter such a namespace.

    Returns:
        whether this process may: only root can, and nobody else can write to these directories either.
    """
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(_CLONE_NEWNS):
        return False
    _run("mount", "--make-rprivate", "/")
    resolver = _read(Path("/etc/resolv.conf"))  # often a link into /run
    _tmpfs("/run")
    copy = Path("/run/etc")
    copy.mkdir()
    _tmpfs(copy)
    # in a user namespace some files cannot be read, /etc/shadow and private keys, of which no test knows
    subprocess.run(["cp", "--archive", "/etc/.", copy], check=is_root_of_the_machine(), capture_output=True)
    for name in _OURS:
        path = copy / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    if resolver is not None:
        (copy / "resolv.conf").unlink()
        (copy / "resolv.conf").write_bytes(resolver)
    _run("mount", "--move", copy, "/etc")
    copy.rmdir()
    Path("/run/lock").mkdir()
    Path("/run/lock").chmod(0o1777)
    # where /var/lib is another user's, tests have their directories in a new one
    for name in ("/var/log", "/var/lib/shim" if os.access("/var/lib", os.W_OK) else "/var/lib"):
        if Path(name).is_dir():
            _tmpfs(name)
    return True


def _tmpfs(path: str | Path) -> None:
    _run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", path)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
