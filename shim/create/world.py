"""World: the only way from a decision to the outside. HOT.

`recipe.decide` asks the host nothing itself: it asks a World, which answers each question once and keeps the answer. So
a decision can be made again elsewhere from its trace (shim.create.recorded), and checked against the host as it is now.

    lstat, stat        what lies at a path                readlink   the text of a symbolic link
    read               status and text of a small file    getxattr   an extended attribute
    access             whether we may execute a file      index      whether an index counts
    names              the names in a directory
    missing            whether a path leads nowhere   readonly   whether the file system of a path is read-only
    environ            a variable of the call             content    whether a file could be read
    digest             the SHA-256 of a file      locked     entries of the lock of the specs
    idmap, ridmap      whether ids can be mapped on a bind mount of a path, or on those below it, too
    settings, specs    the configuration; the edits behind device names
    grants             the devices that are granted to a subject
    hardware           the hardware of every device that the specs serve
    podman             which podman calls

An answer is a plain value, or what stat(2) gives; the number of an error (errno(3)) stands for an OSError. The last
five are answered from files, and each of these files is asked about as well, so that the trace names every path that
was looked at.

Settings and specs come from the index, which costs the opening of one file, or from the files themselves. What was read
from files is left for the next create by `save`, which is no part of a decision.
"""

from __future__ import annotations

import posix

from shim.base.findings import CdiError, internal
from shim.cdi import index, plan
from shim.config import location
from shim.config.settings import Settings
from shim.host.nodes import node_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.cdi.plan import Block
    from shim.cdi.types import Named
    from shim.create.unindexed import Unsaved
    from shim.host.look import FileStatus
    from shim.host.nodes import Node
    from shim.host.trust import Trust

    Trace = list[tuple[str, Any, Any]]

_MAX_READ = 64 * 1024  # bytes of a small file
_MAX_CONTENT = 4 * 1024 * 1024  # bytes: the longest command line or environment of a process (execve(2))
_S_IFMT, _S_IFREG = 0o170000, 0o100000
_EINVAL = 22


class World:
    """The host, asked for one decision."""

    __slots__ = ("_answers", "_loaded", "_unsaved")

    def __init__(self) -> None:
        self._answers: dict[tuple[str, Any], Any] = {}
        self._loaded: tuple[Settings, Named] | None = None
        self._unsaved: Unsaved | None = None

    # --- what lies at a path ------------------------------------------------------------------------------------------

    def lstat(self, path: str) -> FileStatus:
        """What lies at a path, a link not followed. Raises OSError."""
        status: FileStatus = self._ask("lstat", path)
        return status

    def stat(self, path: str) -> FileStatus:
        """What lies at a path, links followed. Raises OSError."""
        status: FileStatus = self._ask("stat", path)
        return status

    def readlink(self, path: str) -> str:
        """The text of a symbolic link. Raises OSError."""
        text: str = self._ask("readlink", path)
        return text

    def getxattr(self, path: str, name: str) -> bytes:
        """An extended attribute of a file, links followed. Raises OSError."""
        return bytes.fromhex(self._ask("getxattr", (path, name)))

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted. Raises OSError."""
        listed: list[str] = self._ask("names", path)
        return listed

    def is_executable(self, path: str) -> bool:
        """Whether this process may execute the file, by its effective ids (access(2), X_OK)."""
        return bool(self._ask("access", path))

    def is_missing(self, path: str) -> bool:
        """Whether a path leads nowhere, links followed; False where that cannot be seen."""
        if ("missing", path) not in self._answers:  # not by _ask: a plan may have dozens of mounts
            self._answers["missing", path] = self._look("missing", path)
        return bool(self._answers["missing", path])

    def is_read_only(self, path: str) -> bool:
        """Whether the file system in which a path lies takes no writes; False where that cannot be seen."""
        return bool(self._ask("readonly", path))

    def can_map_ids(self, path: str, *, recursive: bool) -> bool:
        """Whether ids can be mapped on a bind mount of a path; True where that cannot be tried.

        Arguments:
            path: of the host.
            recursive: also on the mounts below it.
        """
        return bool(self._ask("ridmap" if recursive else "idmap", path))

    def read(self, path: str) -> tuple[FileStatus, str]:
        """The status and the text of a small file, which is no link; text "" unless it is a regular file.

        Arguments:
            path: absolute; at most 64 KiB are read, bytes that are no UTF-8 as in os.fsdecode.
        Raises:
            OSError: it cannot be opened or read.
        """
        status, text = self._ask("read", path)
        return status, text

    def digest(self, path: str) -> str:
        """The SHA-256 of a regular file. Raises OSError."""
        text: str = self._ask("digest", path)
        return text

    def locked(self, lock: str, paths: Sequence[str]) -> list[dict[str, Any] | None]:
        """The entries that files have in the lock of the specs, see shim.create.lock_file. Raises OSError.

        Arguments:
            lock: its path.
            paths: of the files.
        """
        listed: list[dict[str, Any] | None] = self._ask("locked", (lock, *paths))
        return listed

    def content(self, path: str) -> bytes:
        """What a file holds, for an answer that a World makes of it. Raises OSError.

        The trace keeps only whether it could be read: the environment of a process may hold secrets.
        """
        try:
            content = _content(path)
        except OSError as error:
            self._answers["content", path] = error.errno or _EINVAL
            raise
        self._answers["content", path] = True
        return content

    def node(self, path: str) -> Node | None:
        """The device node at a path, as shim.host.nodes.lookup."""
        try:
            return node_of(self.lstat(path))
        except OSError:
            return None

    def is_same_file(self, path: str, other: str) -> bool:
        """Whether two paths lead to one file; False where one of them leads nowhere."""
        if path == other:
            return True
        try:
            first, second = self.stat(path), self.stat(other)
        except OSError:
            return False
        return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)

    def trust(self, *, rootful: bool, user: int) -> Trust:
        """A judge of whose files count.

        Arguments:
            rootful: whether we are the host's root (shim.host.identity).
            user: our effective uid.
        """
        from shim.host import trust  # late: no warm create needs it whose plan has no hooks

        overflow = -1 if rootful else trust.overflow_uid(self._text(trust.OVERFLOW_UID))
        return trust.Trust(rootful=rootful, euid=user, overflow=overflow, look=self)

    def _text(self, path: str) -> str:
        try:
            return self.read(path)[1]
        except OSError:
            return ""

    # --- the caller ---------------------------------------------------------------------------------------------------

    def environ(self, name: str) -> str:
        """A variable of the environment of the call, "" when it is not set."""
        value: str = self._ask("environ", name)
        return value

    def podman(self, stage: str) -> tuple[str, str, str]:
        """Which podman calls, as the members of shim.create.annotation_origin.Origin.

        Arguments:
            stage: "precreate", where podman itself is the parent process, or "create", where conmon is.
        """
        kind, source, remedy = self._ask("podman", stage)
        return kind, source, remedy

    # --- what is configured and served --------------------------------------------------------------------------------

    def settings(self) -> tuple[Settings, CdiError | None]:
        """The settings that count, and why the configuration does not count, None where it does.

        With a configuration that cannot be read every source counts, so that whoever asks is refused.
        """
        answer: tuple[Settings, CdiError | None] = self._ask("settings", "")
        return answer

    def specs(self, names: Sequence[str], driver_only: Sequence[str]) -> list[Block]:
        """The container edits that device names stand for, see shim.cdi.plan.find. Raises CdiError."""
        blocks: list[Block] = self.given("specs", (*names, "", *driver_only))
        return blocks

    def given(self, kind: str, argument: Any) -> Any:
        """An answer that may be an error: "specs", or of shim.create.granted. Raises CdiError."""
        answer = self._ask(kind, argument)
        if isinstance(answer, CdiError):
            raise answer
        return answer

    def served(self) -> Named:
        """The devices that the configured directories serve. Raises CdiError: SETTINGS or SETTINGS_UNTRUSTED."""
        return self._load()[1]

    def save(self) -> None:
        """Leave what was read from files as an index for the next create, and needles for the launcher. Silent."""
        if self._unsaved and self._loaded:
            self._unsaved.save(*self._loaded)
        self._unsaved = None

    # --- the trace ----------------------------------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """Each question that was asked, its argument, and the answer, in the order of asking."""
        return [(kind, argument, answer) for (kind, argument), answer in self._answers.items()]

    def _ask(self, kind: str, argument: Any) -> Any:
        try:
            answer = self._answers[kind, argument]
        except KeyError:
            answer = self._answers[kind, argument] = self._look(kind, argument)
        if type(answer) is int:
            raise OSError(answer, posix.strerror(answer), argument)
        return answer

    def _look(self, kind: str, argument: Any) -> Any:
        if kind in _LOOKS:
            try:
                return _LOOKS[kind](argument)
            except OSError as error:
                return error.errno or _EINVAL
            except ValueError:  # a NUL or an unpaired surrogate, which no path can hold
                return _EINVAL
        if kind == "settings":
            return self._settings()
        if kind in {"grants", "hardware"}:
            from shim.create import granted  # late: only where grants are enforced

            return granted.answer(kind, argument, self)
        return self._specs(argument) if kind == "specs" else self._podman(argument)

    def _settings(self) -> tuple[Settings, CdiError | None]:
        try:
            return self._load()[0], None
        except Exception as error:  # also where a module that reads them is damaged
            from shim.create import unreadable  # late: the configuration is broken

            return unreadable.widest(error, self), error if isinstance(error, CdiError) else internal(error)

    def _specs(self, argument: tuple[str, ...]) -> list[Block] | CdiError:
        end = argument.index("")
        names, driver_only = argument[:end], argument[end + 1 :]
        try:
            try:
                return plan.find(names, self.served(), driver_only)
            except index.DamagedError:
                self._read(location.candidates(look=self))
                return plan.find(names, self.served(), driver_only)
        except CdiError as error:
            return error

    def _podman(self, stage: str) -> list[str]:
        from shim.create import podman_caller  # late: only podman's containers that ask by annotation need it

        origin = podman_caller.find(self, precreate=stage == "precreate", environ=posix.environ)
        return [origin.kind, origin.source, origin.remedy]

    def _load(self) -> tuple[Settings, Named]:
        """The configuration and the devices that go with it, from the index if it counts. Raises CdiError."""
        if self._loaded:
            return self._loaded
        paths = location.candidates(look=self)
        path = location.index_path(paths[0], self)
        loaded = None
        if path:
            loaded = index.load(path, self)
            self._answers["index", path] = loaded is not None
        if loaded:
            try:
                self._loaded = Settings.from_json(loaded.settings), loaded
                return self._loaded
            except ValueError:  # of another making than ours: as good as no index
                pass
        return self._read(paths)

    def _read(self, paths: Sequence[str]) -> tuple[Settings, Named]:
        from shim.create.unindexed import Unsaved  # late, with the reader of specs: the index saves them

        unsaved = Unsaved(location.index_path(paths[0], self), paths, self)
        self._loaded = unsaved.read()
        self._unsaved = unsaved
        return self._loaded


# --- the answers ------------------------------------------------------------------------------------------------------


def _is_missing(path: str) -> bool:
    """Not its status: what is mounted may change all the time, and a decision must not hang on that."""
    try:
        posix.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        import errno  # late, as in shim.base.paths

        return error.errno == errno.ELOOP
    return False


def _is_read_only(path: str) -> bool:
    try:
        return bool(posix.statvfs(path).f_flag & posix.ST_RDONLY)
    except OSError:
        return False


def _can_map_ids(path: str, *, recursive: bool) -> bool:
    try:
        from shim.hooks import core  # late, with the C core: only a mount in a user namespace needs it
    except (ImportError, SyntaxError):  # such as a C module of another Python
        return True
    return core.can_map_ids(path, recursive=recursive)


def _read(path: str) -> tuple[FileStatus, str]:
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOFOLLOW | posix.O_NOCTTY)
    try:
        status = posix.fstat(fd)
        is_regular = status.st_mode & _S_IFMT == _S_IFREG
        text = posix.read(fd, _MAX_READ).decode("utf-8", "surrogateescape") if is_regular else ""
    finally:
        posix.close(fd)
    return status, text


def _content(path: str) -> bytes:
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        parts = []
        while part := posix.read(fd, _MAX_CONTENT):
            parts.append(part)
        return b"".join(parts)
    finally:
        posix.close(fd)


def _lock_file() -> Any:
    from shim.create import lock_file  # late: few machines lock their specs

    return lock_file


_LOOKS: dict[str, Callable[[Any], Any]] = {
    "lstat": posix.lstat,
    "stat": posix.stat,
    "readlink": posix.readlink,
    "getxattr": lambda argument: posix.getxattr(*argument).hex(),
    "names": lambda path: sorted(posix.listdir(path)),
    "access": lambda path: posix.access(path, posix.X_OK, effective_ids=True),
    "missing": _is_missing,
    "readonly": _is_read_only,
    "idmap": lambda path: _can_map_ids(path, recursive=False),
    "ridmap": lambda path: _can_map_ids(path, recursive=True),
    "read": _read,
    "digest": lambda path: _lock_file().digest(path),
    "locked": lambda argument: _lock_file().entries(argument[0], argument[1:]),
    "environ": lambda name: posix.environ.get(name.encode(), b"").decode("utf-8", "surrogateescape"),
}
