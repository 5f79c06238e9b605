"""The lock of the specs: what they and the files that they name were when an administrator locked them. Late.

    {"format": 1, "specs": {PATH: ENTRY}, "files": {PATH: ENTRY}}

An entry has the type of what lies at the path, and of a file size, times, inode and the SHA-256 of its content; of a
spec also a digest of each device's edits, so that a check can name the devices that differ. Files are programs of hooks
and sources of mounts. A file whose size, times and inode are those of the entry is the same; only where these differ is
it read. The number of its device is not compared, since a reboot may change it.

`shim cdi lock` writes it (shim.create.lock_writer), and where the configuration has `[cdi] locked = true` a create asks
here (shim.create.locked). It lies beside the configuration file.
"""

from __future__ import annotations

import posix
import time

from shim.base import fastjson
from shim.base.paths import parent
from shim.config.location import SYSTEM_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from shim.host.look import FileStatus

    Json = dict[str, Any]

    class Looking(Protocol):
        """What answers questions about files: shim.create.world.World, or `OfHost`."""

        def lstat(self, path: str) -> FileStatus:
            """What lies at a path, a link not followed."""

        def stat(self, path: str) -> FileStatus:
            """What lies at a path, links followed."""

        def digest(self, path: str) -> str:
            """The SHA-256 of a file."""


FORMAT = 1
FILE, DIRECTORY, OTHER, MISSING = "file", "directory", "other", "missing"
_NAME = "cdi.lock"
_NUMBERS = 4  # of an identity
_MAX_SIZE = 64 * 1024 * 1024
_CHUNK = 1 << 20
_S_IFMT, _S_IFREG, _S_IFDIR = 0o170000, 0o100000, 0o040000
_EINVAL = 22


def path_of(settings_path: str) -> str:
    """Where the lock lies.

    Arguments:
        settings_path: the configuration file, "" for none.
    """
    return f"{parent(settings_path or SYSTEM_FILE)}/{_NAME}"


def entries(path: str, paths: Sequence[str]) -> list[Json | None]:
    """The entries of files, None for one that is not in the lock.

    Arguments:
        path: of the lock.
        paths: as the specs have them.
    Raises:
        OSError: it cannot be read. ValueError: it is no lock.
    """
    lock = read(path)
    return [lock["specs"].get(name) or lock["files"].get(name) for name in paths]


def read(path: str) -> Json:
    """The lock. Raises as `entries`."""
    lock = fastjson.loads(_content(path).decode())
    if not isinstance(lock, dict) or lock.get("format") != FORMAT:
        raise ValueError("it is no lock of this version")
    for part in ("specs", "files"):
        listed = lock.get(part)
        if not isinstance(listed, dict) or not all(map(_is_entry, listed.values())):
            raise ValueError(f"its member {part} is damaged")
    return lock


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    known = entry.get("identity")
    is_whole = isinstance(known, list) and len(known) == _NUMBERS and isinstance(entry.get("sha256"), str)
    return is_whole if entry.get("type") == FILE else entry.get("type") in (DIRECTORY, OTHER, MISSING)


def digest(path: str) -> str:
    """The SHA-256 of a regular file. Raises OSError."""
    from hashlib import sha256  # late: only a file with another identity is read

    total = sha256()
    fd = _open(path)
    try:
        while chunk := posix.read(fd, _CHUNK):
            total.update(chunk)
    finally:
        posix.close(fd)
    return total.hexdigest()


def difference(path: str, entry: Json, look: Looking) -> str:
    """How what lies at a path differs from an entry, a clause; "" for what is the same.

    Arguments:
        path: of the file.
        entry: of the lock.
        look: answers what is there now.
    """
    kind = entry["type"]
    if kind == DIRECTORY:
        return "" if _is_directory(path, look) else "was a directory, and is none now"
    if kind == OTHER:  # a node or a socket has no content
        return ""
    try:
        status = look.stat(path)
    except OSError:
        return "" if kind == MISSING else "is missing"
    if kind == MISSING:
        return "was missing, and is there now"
    if status.st_mode & _S_IFMT != _S_IFREG:
        return "was a file, and is none now"
    if identity(status) == entry["identity"]:
        return ""
    size = entry["identity"][0]
    if status.st_size != size:
        return f"had {size} bytes, and has {status.st_size} since {_time(status)}"
    try:
        now = look.digest(path)
    except OSError:
        return "cannot be read"
    if now == entry["sha256"]:
        return ""
    return f"has another content since {_time(status)}: SHA-256 {now[:12]}…, and not {entry['sha256'][:12]}…"


def identity(status: FileStatus) -> list[int]:
    """Size, times in nanoseconds and inode of a file."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def kind_of(status: FileStatus | None) -> str:
    """The type of what has a status; None: nothing is there."""
    if status is None:
        return MISSING
    return {_S_IFREG: FILE, _S_IFDIR: DIRECTORY}.get(status.st_mode & _S_IFMT, OTHER)


def _is_directory(path: str, look: Looking) -> bool:
    try:
        look.lstat(f"{path}/.")  # not its times, which change with what is in it
    except OSError:
        return False
    return True


def _time(status: FileStatus) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(max(status.st_mtime_ns, status.st_ctime_ns) // 10**9))


def _content(path: str) -> bytes:
    fd = _open(path)
    try:
        parts, left = [], _MAX_SIZE
        while left > 0 and (part := posix.read(fd, _CHUNK)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        posix.close(fd)


def _open(path: str) -> int:
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOCTTY)
    if posix.fstat(fd).st_mode & _S_IFMT != _S_IFREG:
        posix.close(fd)
        raise OSError(_EINVAL, "it is no regular file", path)
    return fd
