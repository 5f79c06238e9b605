"""Single files of an installation: made under a scratch name, with owner and mode, renamed, and compared later."""

from __future__ import annotations

import ctypes
import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def own(path: Path, mode: int) -> None:
    """Set a path's mode, and root as owner if we are root, whatever umask or a set-group-id directory changed."""
    if os.geteuid() == 0:
        os.chown(path, 0, 0, follow_symlinks=False)
    if not path.is_symlink():
        path.chmod(mode)


def make_directories(path: Path) -> list[Path]:
    """Create a directory and its missing parents; returns the new directories."""
    missing = [parent for parent in (path, *path.parents) if not parent.is_dir()][::-1]
    for directory in missing:
        directory.mkdir()
        own(directory, 0o755)
    return missing


def scratch_name(path: Path) -> Path:
    """The name of a file before it is renamed to its final name."""
    return path.with_name(f".{path.name}.new")


def prepare(path: Path, make: Callable[[Path], object], mode: int) -> None:
    """Make a file or link under its scratch name; what an installation left there that was cut off is overwritten."""
    fresh = scratch_name(path)
    fresh.unlink(missing_ok=True)
    make(fresh)
    own(fresh, mode)


def rename(path: Path) -> None:
    """Rename a prepared file to its final name."""
    scratch_name(path).rename(path)


def identity(path: Path) -> str:
    """The content of a path: the target of a link, the hash of a file, "" if it is missing."""
    if path.is_symlink():
        return f"link {path.readlink()}"
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}" if path.is_file() else ""


def sync(directories: set[Path]) -> None:
    """Write out the file systems of directories: a loss of power must not leave a name without its contents."""
    libc = ctypes.CDLL(None, use_errno=True)  # a program `sync` may be missing below a foreign root
    for directory in {directory.stat().st_dev: directory for directory in directories}.values():
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if libc.syncfs(fd):
                error = ctypes.get_errno()
                raise OSError(error, os.strerror(error), str(directory))
        finally:
            os.close(fd)
