"""The bundle's config.json: read once, written atomically, every unknown member kept. HOT.

It is replaced by rename in its own directory, with the mode and owner that it had: the low-level runtime sees the old
file or the new one, never half of one. There is no fsync: an engine writes a bundle anew after a crash of the machine,
and a sync of its disk would cost more than the whole create.

Two shims may work on one bundle. Each may replace only the file that it has read, which it checks while it holds a lock
on that very file; the second one reads the new file and edits that. So no edit is lost, and no third file is needed
for the lock.
"""

from __future__ import annotations

import posix

from shim.base import fastjson
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.host.file_identity import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from shim.host.file_identity import Identity

    Json = dict[str, Any]

MAX_SIZE = 16 * 1024 * 1024
_MAX_SEARCHED = 64 * 1024 * 1024  # bytes of a larger file in which a request is looked for
_MAX_TRIES = 100  # each means that another process has replaced the file
_S_IFMT, _S_IFREG = 0o170000, 0o100000
# O_NONBLOCK: a FIFO at this path must not hold the engine up
_READ = posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC | posix.O_NOCTTY


class Bundle:
    """A config.json, or another file of an engine in JSON, as it lies on disk.

    Attributes:
        path: where it lies.
        raw: its bytes, b"" where it cannot be read; of a file that is too large the first 64 MiB.
        config: what was decoded, {} where it could not be; not to be changed.
        fault: why it could not be read or decoded, a text, "" when it could.
        unsure: why it must not be edited, a text, "" when it may: it is a link, or a name stands twice in an object.
        lost: (name, value) of each member that is not in `config`, since one of the same name stands behind it.
        identity: of the file as it is now: the one that was read, or the one that was written.
        read_identity: of the file that was read.
    """

    __slots__ = (
        "_gid",
        "_mode",
        "_uid",
        "config",
        "fault",
        "identity",
        "lost",
        "path",
        "raw",
        "read_identity",
        "unsure",
    )

    def __init__(self, path: str) -> None:
        """Read the file; what is wrong with it is kept in `fault`, for nothing may be asked for.

        Arguments:
            path: path of the config.json (OCI runtime specification, "Filesystem Bundle").
        """
        self.path = path
        self.raw = b""
        self.config: Json = {}
        self.lost: list[tuple[str, Any]] = []
        self.fault = self.unsure = ""
        self.identity: Identity = (0, 0, 0, 0, 0)
        self._mode = self._uid = self._gid = 0
        try:
            self._read()
            self.config, self.lost = decoded(self.raw, "config.json")
            self.unsure = self.unsure or repeats("config.json", self.lost)
        except ValueError as error:
            self.fault = str(error)
        self.read_identity = self.identity

    def _read(self) -> None:
        """Read the bytes. Raises ValueError with the reason."""
        fd = self._open()
        try:
            status = posix.fstat(fd)
            if status.st_mode & _S_IFMT != _S_IFREG:
                raise ValueError("config.json is not a regular file")
            if status.st_size > MAX_SIZE:
                self.raw = _read_all(fd, min(status.st_size, _MAX_SEARCHED))
                raise ValueError(f"config.json has {status.st_size} bytes, more than 16 MiB")
            self.raw = _read_all(fd, status.st_size)
        except OSError as error:
            raise ValueError(f"config.json cannot be read: {reason(error)}") from None
        finally:
            posix.close(fd)
        self.identity = identity(status)
        self._mode = status.st_mode & 0o7777
        self._uid, self._gid = status.st_uid, status.st_gid

    def _open(self) -> int:
        """A link is followed, as the low-level runtime does, since perhaps nothing is asked; but it is not edited."""
        try:
            try:
                return posix.open(self.path, _READ | posix.O_NOFOLLOW)
            except OSError as error:
                import errno  # late, as in shim.base.paths

                if error.errno != errno.ELOOP:
                    raise
                self.unsure = "config.json is a symbolic link, and only the bundle's own file is edited"
                return posix.open(self.path, _READ)
        except (OSError, ValueError) as error:
            raise ValueError(f"config.json cannot be read: {reason(error)}") from None

    def put(self, config: Json) -> bool:
        """Replace the file, unless another process has replaced it since it was read.

        Arguments:
            config: the new content.
        Returns:
            False when the file on disk is no longer the one that was read; it has to be read again then.
        Raises:
            CdiError: CONFIG_WRITE, and the old file is still there.
        """
        return self.replace(fastjson.dumps(config).encode("ascii"))

    def replace(self, data: bytes) -> bool:
        """The same for bytes."""
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

    def write_beside(self, path: str, data: bytes) -> None:
        """Write another file of the bundle anew, with owner and mode of this one. Raises OSError."""
        temporary = f"{path}-{posix.getpid()}"
        try:
            self._write(temporary, data)
            posix.rename(temporary, path)
        except OSError:
            _discard(temporary)
            raise

    def is_of_owner(self, status: posix.stat_result) -> bool:
        """Whether another file has the owner of this one."""
        return status.st_uid == self._uid

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


class Input:
    """A config.json on standard input, in the place of a Bundle; members as there."""

    __slots__ = ("config", "fault", "lost", "path", "raw", "unsure")

    def __init__(self, raw: bytes) -> None:
        """Decode the bytes."""
        self.path = ""
        self.raw = raw
        self.config: Json = {}
        self.lost: list[tuple[str, Any]] = []
        self.fault = self.unsure = ""
        try:
            what = "the config.json on standard input"
            self.config, self.lost = decoded(raw, what)
            self.unsure = repeats(what, self.lost)
        except ValueError as error:
            self.fault = str(error)


def tries(path: str) -> Iterator[Bundle]:
    """The file, read anew for each time that another process was faster to replace it.

    Arguments:
        path: path of the config.json.
    Raises:
        CdiError: CONFIG_WRITE, when that does not end.
    """
    for _ in range(_MAX_TRIES):
        yield Bundle(path)
    raise CdiError([Finding("CONFIG_WRITE", "other processes replace config.json without end", path=path)])


def edit(path: str, change: Callable[[Json], Json]) -> None:
    """Replace a file by what `change` makes of its content; when it changes nothing, the file is not touched.

    Arguments:
        path: the file.
        change: given the decoded content, returns the new one; called again when another process was faster.
    Raises:
        CdiError: CONFIG_JSON, when the file cannot be read, or not be edited without doubt; CONFIG_WRITE. Whatever
            `change` raises.
    """
    if not _is_regular(path):  # not opened: whoever writes to a FIFO would lose what the low-level runtime shall read
        raise CdiError([Finding("CONFIG_JSON", "it is not a regular file", path=path)])
    for bundle in tries(path):
        if bundle.fault or bundle.unsure:
            raise CdiError([Finding("CONFIG_JSON", bundle.fault or bundle.unsure, path=path)])
        edited = change(bundle.config)
        if edited == bundle.config or bundle.put(edited):
            return


def _is_regular(path: str) -> bool:
    try:
        return posix.lstat(path).st_mode & _S_IFMT == _S_IFREG
    except (OSError, ValueError):
        return False


def decoded(raw: bytes, what: str) -> tuple[Json, list[tuple[str, Any]]]:
    """A config.json that was read.

    Arguments:
        raw: its bytes.
        what: its name in the texts.
    Returns:
        the decoded object, and the members that another one of the same name replaces.
    Raises:
        ValueError: it is not one JSON object in UTF-8; with the reason.
    """
    try:
        value, lost = fastjson.loads_noting(raw.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{what} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not a JSON object")
    return value, lost


def repeats(what: str, lost: list[tuple[str, Any]]) -> str:
    """Why a config.json must not be edited in which members are replaced by others, "" where none is."""
    return f"{what} holds the name {lost[0][0]!r} twice in one object" if lost else ""


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
