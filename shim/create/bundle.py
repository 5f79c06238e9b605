"""The bundle's config.json: read once, written atomically, every unknown member kept. HOT.

It is replaced by rename in its own directory, with the mode and owner that it had: the low-level runtime sees the old
file or the new one, never half of one. There is no fsync: an engine writes a bundle anew after a crash of the machine,
and a sync of its disk would cost more than the whole create.

Two shims may work on one bundle. Each may replace only the file that it has read, which it checks while it holds a lock
on that very file; who comes second reads the new file and edits that. So no edit is lost, and no third file is needed
for the lock.
"""

from __future__ import annotations

import errno
import posix

from shim.base import fastjson
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Json = dict[str, Any]
    Identity = tuple[int, int, int, int, int]

MAX_SIZE = 16 * 1024 * 1024
_MAX_TRIES = 100  # each means that another process has replaced the file
_S_IFMT, _S_IFREG = 0o170000, 0o100000
# O_NONBLOCK: a FIFO in its place must not hold the engine up
_READ = posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC | posix.O_NOCTTY


def identity(status: posix.stat_result) -> Identity:
    """What tells a file from any other and from its own later content: device, inode, size, mtime and ctime in ns."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class Bundle:
    """A config.json as it lies on disk.

    Attributes:
        path: where it lies.
        raw: its bytes.
        identity: of the file as it is now: the one that was read, or the one that was written.
        read_identity: of the file that was read.
    """

    __slots__ = (
        "_config",
        "_gid",
        "_is_link",
        "_mode",
        "_repeated",
        "_uid",
        "identity",
        "path",
        "raw",
        "read_identity",
    )

    def __init__(self, path: str) -> None:
        """Read the file.

        Arguments:
            path: path of the config.json (OCI runtime specification, "Filesystem Bundle").
        Raises:
            CdiError: CONFIG_JSON, when it is missing, no regular file, or larger than 16 MiB.
        """
        self.path = path
        self._read()

    def _read(self) -> None:
        self._config: Json | None = None
        self._repeated = ""
        fd = self._open()
        try:
            status = posix.fstat(fd)
            if status.st_mode & _S_IFMT != _S_IFREG:
                raise self._error("config.json is not a regular file")
            if status.st_size > MAX_SIZE:
                raise self._error(f"config.json has {status.st_size} bytes, more than 16 MiB")
            self.raw = _read_all(fd, status.st_size)
        finally:
            posix.close(fd)
        self.identity = self.read_identity = identity(status)
        self._mode = status.st_mode & 0o7777
        self._uid, self._gid = status.st_uid, status.st_gid

    def _open(self) -> int:
        """A link is followed, as the low-level runtime does, since perhaps nothing is asked; but it is not edited."""
        self._is_link = False
        try:
            try:
                return posix.open(self.path, _READ | posix.O_NOFOLLOW)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                self._is_link = True
                return posix.open(self.path, _READ)
        except OSError as error:
            raise self._error(f"config.json cannot be read: {reason(error)}") from None

    def config(self) -> Json:
        """The decoded config.json; not to be changed.

        Raises:
            CdiError: CONFIG_JSON, when it is not one JSON object in UTF-8.
        """
        if self._config is None:
            try:
                value = fastjson.loads(self.raw.decode("utf-8"), self._pairs)
            except ValueError as error:
                raise self._error(f"config.json is not valid JSON: {error}") from None
            if not isinstance(value, dict):
                raise self._error("config.json is not a JSON object")
            self._config = value
        return self._config

    def _pairs(self, pairs: list[tuple[str, Any]]) -> Json:
        members = dict(pairs)
        if len(members) != len(pairs) and not self._repeated:
            names = [name for name, _ in pairs]
            self._repeated = next(name for name in names if names.count(name) > 1)
        return members

    def edit(self, change: Callable[[Json], Json]) -> tuple[Json, Json]:
        """Replace the file by what `change` makes of its content. When it changes nothing, the file is not touched.

        Arguments:
            change: given the decoded config, returns the new one; called again when another process was faster.
        Returns:
            the config before and after.
        Raises:
            CdiError: CONFIG_JSON, when the file cannot be edited without doubt: it is a link, or a name stands twice
                in an object, which readers understand differently. CONFIG_WRITE, and the old file is still there.
                Whatever `change` raises.
        """
        for _ in range(_MAX_TRIES):
            config = self.config()
            if self._is_link:
                raise self._error("config.json is a symbolic link, and only the bundle's own file is edited")
            if self._repeated:
                raise self._error(f"config.json holds the name {self._repeated!r} twice in one object")
            edited = change(config)
            if edited == config or self._replace(edited):
                return config, edited
            self._read()
        raise CdiError([Finding("CONFIG_WRITE", "other processes replace config.json without end", path=self.path)])

    def _replace(self, config: Json) -> bool:
        """Write the new file unless the one on disk is no longer the one that was read."""
        data = fastjson.dumps(config).encode("ascii")
        temporary = f"{self.path}.shim-{posix.getpid()}"
        lock = self._lock()
        try:
            if identity(posix.lstat(self.path)) != self.identity:
                return False
            try:
                self._write(temporary, data)
                posix.rename(temporary, self.path)
            except OSError:
                _discard(temporary)
                raise
            self.identity = identity(posix.lstat(self.path))
        except OSError as error:
            text = f"config.json cannot be replaced: {reason(error)}"
            raise CdiError([Finding("CONFIG_WRITE", text, path=self.path)]) from None
        finally:
            if lock >= 0:
                posix.close(lock)
        return True

    def _lock(self) -> int:
        """A descriptor that holds the lock on the file, -1 where there can be none: not every file system has locks."""
        try:
            fd = posix.open(self.path, posix.O_RDWR | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
        except OSError:
            return -1
        try:
            posix.lockf(fd, posix.F_LOCK, 0)
        except OSError:
            posix.close(fd)
            return -1
        return fd

    def _write(self, path: str, data: bytes) -> None:
        fd = _create(path)
        try:
            if (posix.geteuid(), posix.getegid()) != (self._uid, self._gid):
                posix.fchown(fd, self._uid, self._gid)
            posix.fchmod(fd, self._mode)  # explicit: dockerd runs us with umask 0
            _write_all(fd, data)
        finally:
            posix.close(fd)

    def _error(self, text: str) -> CdiError:
        return CdiError([Finding("CONFIG_JSON", text, path=self.path)])


def _create(path: str) -> int:
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
    try:
        return posix.open(path, flags, 0o600)
    except FileExistsError:  # left by a killed process that had our pid
        posix.unlink(path)
        return posix.open(path, flags, 0o600)


def _discard(path: str) -> None:
    try:
        posix.unlink(path)
    except OSError:
        pass


def _read_all(fd: int, size: int) -> bytes:
    parts = []
    left = size + 1  # one more, so that the end is seen without another call
    while left > 0:
        part = posix.read(fd, left)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[posix.write(fd, view) :]
