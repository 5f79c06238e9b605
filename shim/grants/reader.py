"""The grants file, for reading: what the gate and each create decide by. HOT where grants are enforced.

    {"version": 1, "serial": 412, "grants": [
     {"subject": "repo-a", "device": "nvidia.com/gpu=0", "exclusive": true, "since": "2026-08-30T12:00:00Z", ...}]}

Writers replace the file by rename (shim.grants.store), so whoever opens it reads one state whole, without a lock. A
missing file means that nothing is granted. A file that cannot be read, or that others than root could have written, is
an error and never an empty or an earlier state: whoever asks must refuse (fail closed).
"""

from __future__ import annotations

import posix

from shim.base import fastjson, subjects
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.cdi.names import BadName, parse_qualified
from shim.host.trust import Trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.host.look import FileStatus

FILE = "/etc/shim/grants.json"
VERSION = 1

_LARGEST = 16 * 1024 * 1024  # bytes: a hundred thousand grants
_S_IFMT, _S_IFREG = 0o170000, 0o100000
_RECENT = 100_000_000  # nanoseconds: a file may change within them without a change of its times


class Grant:
    """A device that a subject may use.

    Attributes:
        entry: the object of the file, with members that this version does not know.
    """

    __slots__ = ("entry",)

    def __init__(self, entry: dict[str, Any]) -> None:
        self.entry = entry

    @property
    def subject(self) -> str:
        """The name to which the device is granted."""
        return str(self.entry["subject"])

    @property
    def device(self) -> str:
        """The qualified name of the device."""
        return str(self.entry["device"])

    @property
    def is_exclusive(self) -> bool:
        """Whether no other subject may have the same hardware."""
        return self.entry.get("exclusive", False) is True

    @property
    def is_by_name(self) -> bool:
        """Whether it is compared with other grants by its name alone, not by hardware."""
        return self.entry.get("nameOnly", False) is True


class Grants:
    """The state of the file at one moment.

    Attributes:
        document: the whole file, with members that this version does not know.
        all: the grants, in the order of the file.
    """

    __slots__ = ("all", "document")

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.all = [Grant(entry) for entry in document["grants"]]

    @property
    def serial(self) -> int:
        """The number of the last change."""
        return int(self.document["serial"])

    def of(self, subject: str) -> list[Grant]:
        """The grants of a subject."""
        return [grant for grant in self.all if grant.subject == subject]

    def names(self, subject: str) -> frozenset[str]:
        """The qualified names that a subject may use, exactly as spelled."""
        return frozenset(grant.device for grant in self.all if grant.subject == subject)


class Reader:
    """Reads the file again whenever it has changed: a grant or its end counts from the next question on.

    Arguments:
        path: the file.
        trust: judges who could have written it; the rules of all configuration when not given.
    """

    __slots__ = ("_grants", "_known", "_path", "_trust")

    def __init__(self, path: str = FILE, trust: Trust | None = None) -> None:
        self._path = path
        self._trust = trust
        self._known: tuple[int, ...] = ()
        self._grants = Grants(empty())

    def grants(self) -> Grants:
        """The state now; a decision asks once, so that it rests on a single state.

        Raises:
            CdiError: GRANTS_UNREADABLE; nothing of an earlier state is kept.
        """
        try:
            status: FileStatus | None = posix.stat(self._path)
        except (OSError, ValueError):
            status = None  # missing, or what reading reports
        if status is None or _identity(status) != self._known:
            self._known = ()
            self._grants, self._known = _read(self._path, self._trust or Trust())
        return self._grants

    def names(self, subject: str) -> frozenset[str] | None:
        """The qualified names that a subject may use now, None where the file cannot be read: then nothing counts."""
        try:
            return self.grants().names(subject)
        except CdiError:
            return None


def read(path: str = FILE, trust: Trust | None = None) -> Grants:
    """The state of the file now.

    Arguments:
        path: the file; when it is missing nothing is granted.
        trust: as of Reader.
    Raises:
        CdiError: GRANTS_UNREADABLE.
    """
    return _read(path, trust or Trust())[0]


def empty() -> dict[str, Any]:
    """The document of a machine on which nothing was ever granted."""
    return {"version": VERSION, "serial": 0, "grants": []}


def _read(path: str, trust: Trust) -> tuple[Grants, tuple[int, ...]]:
    """The state, and the identity by which it is known again; () where the file is too young to be known by it."""
    try:
        # O_NOFOLLOW: a writer would replace the link, and leave what it leads to
        fd = posix.open(path, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except FileNotFoundError:
        return Grants(empty()), ()
    except (OSError, ValueError) as error:
        raise unreadable(path, reason(error)) from None
    try:
        status = posix.fstat(fd)
        if status.st_mode & _S_IFMT != _S_IFREG:
            raise unreadable(path, "it is no regular file")
        objection = trust.objection(path)
        if objection:
            remedy = "let root own it and each directory above it, writable by nobody else (`chown root`, `chmod go-w`)"
            raise unreadable(path, objection, remedy)
        if status.st_size > _LARGEST:
            raise unreadable(path, f"it has more than {_LARGEST // 1024 // 1024} MiB")
        data = b""
        while part := posix.read(fd, _LARGEST):
            data += part
    except OSError as error:
        raise unreadable(path, reason(error)) from None
    finally:
        posix.close(fd)
    try:
        grants = parse(data)
    except ValueError as error:
        raise unreadable(path, str(error)) from None
    import time  # late: a builtin, needed only where the file was read

    is_old = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _RECENT
    return grants, _identity(status) if is_old else ()


def parse(data: bytes) -> Grants:
    """The grants that a text holds.

    Raises:
        ValueError: it is no such document; the error names the member.
    """
    try:
        document, twice = fastjson.loads_noting(data.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if twice:
        raise ValueError(f"the member {twice[0][0]!r} stands twice in one object")
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    if document.get("version") != VERSION or document["version"] is True:
        raise ValueError(f"its version is {document.get('version')!r}, and this shim knows version {VERSION}")
    serial, entries = document.get("serial"), document.get("grants")
    if type(serial) is not int or serial < 0:
        raise ValueError("its serial is no number")
    if not isinstance(entries, list):
        raise ValueError("its grants are no list")
    known: set[tuple[str, str]] = set()
    for index, entry in enumerate(entries):
        _check(f"grants[{index}]", entry)
        pair = (entry["subject"], entry["device"])
        if pair in known:
            raise ValueError(f"grants[{index}] grants {pair[1]} to {pair[0]} a second time")
        known.add(pair)
    return Grants(document)


def _check(where: str, entry: object) -> None:
    if not isinstance(entry, dict):
        raise ValueError(f"{where} is no object")
    subject, device = entry.get("subject"), entry.get("device")
    if not isinstance(subject, str) or subjects.objection(subject):
        raise ValueError(f"{where} has no valid subject")
    try:
        parse_qualified(device if isinstance(device, str) else "")
    except BadName as error:
        raise ValueError(f"{where} has no valid device: {error}") from None
    for member in ("exclusive", "nameOnly"):
        if not isinstance(entry.get(member, False), bool):
            raise ValueError(f"{where}.{member} is neither true nor false")


def unreadable(path: str, why: str, remedy: str = "") -> CdiError:
    """The error for a grants file that cannot be used."""
    return CdiError([Finding("GRANTS_UNREADABLE", f"the grants cannot be read: {why}", remedy, path=path)])


def _identity(status: FileStatus) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
