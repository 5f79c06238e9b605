"""Read and replace files that belong to the machine's administrator: a configuration, a config.json. Cold.

They are replaced whole or not at all, and on the disk before the old one goes: a temporary file in the same directory,
fsync, rename. What the old file had stays: owner, mode, and extended attributes such as its SELinux label and its
access list (xattr(7)). A link is followed: the file that it leads to is replaced. (shim.base.replace writes the small
files of our own, which are 0600 and outlive no boot.)
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

NOT_REGULAR = "it is no regular file, and nothing else is replaced"
_NAMED = 48  # letters of a file's name in that of its temporary file, which has at most 255 bytes, too
_OUR_DESCRIPTORS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")  # open already, for example a pipe of the shell


def read(path: str | Path, limit: int = -1) -> bytes:
    """Read a regular file, or one of this process's descriptors by its path.

    Anything else is not opened: a FIFO waits for a writer, perhaps for ever, and opening a device may have effects.

    Arguments:
        path: the file, or a link to it.
        limit: bytes to read at most; all by default.
    Raises:
        OSError: it cannot be read, or is no regular file.
        ValueError: the path holds a NUL.
    """
    with open_regular(path) as file:
        return file.read(limit)


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file, or one of this process's descriptors by its path, for reading.

    Raises:
        OSError: it cannot be opened, or is no regular file.
        ValueError: the path holds a NUL.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY
    if not str(path).startswith(_OUR_DESCRIPTORS):
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise IsADirectoryError(errno.EISDIR, "") if stat.S_ISDIR(mode) else OSError("it is no regular file")
        flags |= os.O_NONBLOCK
    return os.fdopen(os.open(path, flags), "rb")


def write(path: str | Path, data: bytes, *, mode: int = 0o644, keep: bool = True, follow: bool = True) -> None:
    """Write a file anew.

    Arguments:
        path: the file, or a link to it; its directory must exist.
        data: its content.
        mode: permission bits of a file that is not there yet.
        keep: whether an old file's owner, mode and attributes stay.
        follow: whether the file that a link leads to is replaced, else the link itself.
    Raises:
        OSError: it could not be written; an old one is still there.
        ValueError: what is there is no regular file (NOT_REGULAR), or the path holds a NUL.
    """
    # before the link is followed: /dev/stdout leads to what has no path
    old = status(path) if follow else _regular(path)
    target = Path(path).resolve() if follow else Path(path)
    fd, temporary = tempfile.mkstemp(prefix=f".{target.name[:_NAMED]}.", dir=target.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if old and keep:
                _copy_attributes(target, fd)
                new = os.fstat(fd)
                if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
                    os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, old.st_mode & 0o7777 if old and keep else mode)  # last: a change of owner takes bits away
            os.fsync(fd)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync(target.parent)


def status(path: str | Path) -> os.stat_result | None:
    """Of a file that may be replaced, None where there is none.

    Raises:
        OSError: it cannot be looked at.
        ValueError: it is no regular file (NOT_REGULAR).
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(NOT_REGULAR)
    return status


def _regular(path: str | Path) -> os.stat_result | None:
    """The status of a regular file, None for anything else: a link is replaced, a directory refuses that itself."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def sync(directory: Path) -> None:
    """Have the disk know which names a directory holds, as far as its file system can."""
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _copy_attributes(source: Path, fd: int) -> None:
    """Labels and access lists, as far as this file system and our rights go."""
    with contextlib.suppress(OSError):
        for name in os.listxattr(source):
            with contextlib.suppress(OSError):
                os.setxattr(fd, name, os.getxattr(source, name))
