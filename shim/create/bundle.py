"""The bundle's config.json: read once, written atomically, every unknown member kept. HOT.

It is replaced by rename in its own directory, with the mode and owner that it had: the low-level runtime sees the old
file or the new one, never half of one. There is no fsync: an engine writes a bundle anew after a crash of the machine,
and a sync of its disk would cost more than the whole create.
"""

from __future__ import annotations

import posix

from shim.cdi import fastjson
from shim.cdi.findings import CdiError, Finding
from shim.cdi.paths import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_SIZE = 16 * 1024 * 1024
_S_IFMT, _S_IFREG = 0o170000, 0o100000


class Bundle:
    """A config.json as it lies on disk.

    Attributes:
        path: where it lies.
        raw: its bytes.
    """

    __slots__ = ("_gid", "_mode", "_uid", "path", "raw")

    def __init__(self, path: str) -> None:
        """Read the file.

        Arguments:
            path: path of the config.json (OCI runtime specification, "Filesystem Bundle").
        Raises:
            CdiError: CONFIG_JSON, when it is missing, no regular file, or larger than 16 MiB.
        """
        self.path = path
        try:
            # O_NONBLOCK: a FIFO in its place must not hold the engine up
            fd = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC | posix.O_NOCTTY)
        except OSError as error:
            raise _config_error(path, f"config.json cannot be read: {reason(error)}") from None
        try:
            status = posix.fstat(fd)
            if status.st_mode & _S_IFMT != _S_IFREG:
                raise _config_error(path, "config.json is not a regular file")
            if status.st_size > MAX_SIZE:
                raise _config_error(path, f"config.json has {status.st_size} bytes, more than 16 MiB")
            self.raw = _read_all(fd, status.st_size)
        finally:
            posix.close(fd)
        self._mode = status.st_mode & 0o7777
        self._uid, self._gid = status.st_uid, status.st_gid

    def config(self) -> dict[str, Any]:
        """The decoded config.json.

        Raises:
            CdiError: CONFIG_JSON, when it is not one JSON object in UTF-8.
        """
        try:
            value = fastjson.loads(self.raw.decode("utf-8"))
        except ValueError as error:
            raise _config_error(self.path, f"config.json is not valid JSON: {error}") from None
        if not isinstance(value, dict):
            raise _config_error(self.path, "config.json is not a JSON object")
        return value

    def write(self, config: dict[str, Any]) -> None:
        """Replace the file.

        Raises:
            CdiError: CONFIG_WRITE; the old file is still there.
        """
        data = fastjson.dumps(config).encode("ascii")
        temporary = f"{self.path}.shim-{posix.getpid()}"
        try:
            fd = _create(temporary)
            try:
                if (posix.geteuid(), posix.getegid()) != (self._uid, self._gid):
                    posix.fchown(fd, self._uid, self._gid)
                posix.fchmod(fd, self._mode)  # explicit: dockerd runs us with umask 0
                _write_all(fd, data)
            finally:
                posix.close(fd)
            posix.rename(temporary, self.path)
        except OSError as error:
            _discard(temporary)
            text = f"config.json cannot be replaced: {reason(error)}"
            raise CdiError([Finding("CONFIG_WRITE", text, path=self.path)]) from None


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


def _config_error(path: str, text: str) -> CdiError:
    return CdiError([Finding("CONFIG_JSON", text, path=path)])
