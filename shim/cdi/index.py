"""The index: specs and configuration read once, kept under /run/shim, so that a create reads only what it asked for.

HOT: on the warm path it stands in for the directory scan, the spec reader, the TOML reader and trust.

    preamble   one line of 43 bytes: magic, format, and the lengths of header, names and rest
    header     JSON: version, inputs, configuration, directories, specs
    names      a line for each device: name, number of its spec, offset and length of its record; found by bytes.find
    rest       JSON: findings, shadowed devices, conflicts; for people and for errors
    records    JSON: the edits of each device and of each spec

An index counts only while every input is what it was: the identity of each file and directory that was read or missing,
and owner and mode of each directory on the way to them, since trust hangs on those. Inputs that changed in the last
100 ms before it was made could change again within one tick of the clock, so then none is written. It is replaced by
rename, without a lock: several creates may write it at once, and each writes what it saw. Whatever is odd about an
index (owner, mode, format, version, length, content) means that there is none.
"""

from __future__ import annotations

import posix
import time

from shim import __version__
from shim.base import fastjson
from shim.base.paths import parent
from shim.host.file_identity import identity
from shim.host.identity import access_list, is_our_file, is_ours, make_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.base.findings import Finding
    from shim.cdi.directories import Directories
    from shim.cdi.spec import Spec
    from shim.host.look import Look

    Json = dict[str, Any]

FORMAT = 1
_MAGIC = b"shim-index"
_PREAMBLE = 43
_FIRST_READ = 64 * 1024  # holds everything but the records of eight GPUs
_MAX_SIZE = 256 * 1024 * 1024
_FRESH_NS = 100_000_000
_GROUP_WRITE = 0o020


class DamagedError(ValueError):
    """The index is not what it was when it was written; the specs have to be read instead."""


class IndexedSpec:
    """What a plan needs of a spec: its path, its own edits, and the devices that were asked for so far."""

    __slots__ = ("devices", "edits", "kind", "path")

    def __init__(self, path: str, kind: str, edits: Json) -> None:
        self.path = path
        self.kind = kind
        self.edits = edits
        self.devices: dict[str, Json] = {}


class Indexed:
    """The devices of an index; stands in for Directories.

    Attributes:
        dirs: the spec directories, lowest priority first.
        settings: the configuration that goes with them, as it was given to `write`.
        searched: as in Directories.
    """

    __slots__ = ("_fd", "_header", "_loaded", "_names", "_records", "_rest", "_specs", "dirs", "searched", "settings")

    def __init__(self, fd: int, header: Json, names: bytes, rest: tuple[int, int]) -> None:
        self._header = header
        self._names = names
        self._rest = rest
        self._loaded: Json | None = None
        self._records = rest[0] + rest[1]
        self._specs: dict[int, IndexedSpec] = {}
        self.dirs: list[str] = header["dirs"]
        self.settings: Json = header["settings"]
        self.searched: list[tuple[str, str]] = [(path, state) for path, state in header["searched"]]
        self._fd = fd  # last: a header that lacks a member must not close it here and again in _open

    def __del__(self) -> None:
        if (fd := getattr(self, "_fd", -1)) >= 0:
            posix.close(fd)

    def is_current(self, look: Look) -> bool:
        """Whether every input is what it was, as `look` answers."""
        try:
            inputs, ways = self._header["inputs"], self._header["ways"]
            return all(state(path, look) == known for path, known in inputs) and all(
                way(path, look) == known for path, known in ways
            )
        except (ValueError, KeyError, TypeError):
            return False  # hostile or torn

    def get(self, name: str) -> tuple[IndexedSpec, str] | None:
        """As Directories.get: the spec that serves the device, with that device in it, and the device's name.

        Raises:
            DamagedError: the record cannot be read.
        """
        start = self._names.find(b"\n%b\t" % name.encode("utf-8", "surrogateescape"))
        if start < 0 or "\n" in name or "\t" in name:
            return None
        try:
            line = self._names[start + 1 : self._names.index(b"\n", start + 1)]
            _, number, offset, length = line.split(b"\t")
            spec = self._spec(int(number))
            device = name.partition("=")[2]
            spec.devices[device] = self._json(self._records + int(offset), int(length))
        except (ValueError, IndexError, TypeError) as error:
            raise DamagedError(str(error)) from None
        return spec, device

    def driver(self, kind: str) -> list[IndexedSpec]:
        """As Directories.driver. Raises DamagedError."""
        found = {spec[0]: number for number, spec in enumerate(self._header["specs"]) if spec[1] == kind}
        highest = parent(next(reversed(found), ""))
        return [self._spec(number) for path, number in found.items() if parent(path) == highest]

    def devices(self) -> list[str]:
        """As Directories.devices."""
        lines = self._names.decode("utf-8", "surrogateescape").split("\n")
        return [line.partition("\t")[0] for line in lines if line]

    def kinds(self) -> list[str]:
        """As Directories.kinds."""
        return sorted({kind for _, kind, _, _ in self._header["specs"]})

    def vendors(self) -> list[str]:
        """As Directories.vendors."""
        return sorted({kind.partition("/")[0] for kind in self.kinds()})

    def classes(self) -> list[str]:
        """As Directories.classes."""
        return sorted({kind.partition("/")[2] for kind in self.kinds()})

    @property
    def findings(self) -> dict[str, list[Finding]]:
        """As Directories.findings."""
        from shim.base.findings import from_json  # late, as all below: only people and errors ask

        return {path: [from_json(one) for one in found] for path, found in self._told()["findings"].items()}

    @property
    def conflicts(self) -> dict[str, list[str]]:
        """As Directories.conflicts."""
        found: dict[str, list[str]] = self._told()["conflicts"]
        return found

    @property
    def shadowed(self) -> list[tuple[str, str, str]]:
        """As Directories.shadowed."""
        return [(name, loser, winner) for name, loser, winner in self._told()["shadowed"]]

    @property
    def specs(self) -> list[Spec]:
        """As Directories.specs, read from the files: an index does not keep whole documents."""
        from shim.cdi.directories import read

        return read(self.dirs).specs

    def _told(self) -> Json:
        if self._loaded is None:
            self._loaded = self._json(*self._rest)
        return self._loaded

    def _spec(self, number: int) -> IndexedSpec:
        if number not in self._specs:
            path, kind, offset, length = self._header["specs"][number]
            self._specs[number] = IndexedSpec(path, kind, self._json(self._records + offset, length))
        return self._specs[number]

    def _json(self, offset: int, length: int) -> Json:
        try:
            value = fastjson.loads(posix.pread(self._fd, length, offset).decode("utf-8"))
        except (OSError, ValueError) as error:
            raise DamagedError(str(error)) from None
        if not isinstance(value, dict):
            raise DamagedError("a record is no object")
        return value


def load(path: str, look: Look = posix) -> Indexed | None:
    """Open an index.

    Arguments:
        path: the file.
        look: answers what the inputs are now.
    Returns:
        None when there is no index, or none that counts now.
    """
    found = _open(path, look)
    return found if found and found.is_current(look) else None


def last_settings(path: str, look: Look = posix) -> Json | None:
    """The configuration in an index that need not count any more: what counted when the index was made.

    Arguments:
        path: the file.
        look: answers whose the directory is.
    Returns:
        None when there is no whole index of this version.
    """
    found = _open(path, look)
    return found.settings if found else None


def _open(path: str, look: Look) -> Indexed | None:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        found = _read(fd, path, look)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        found = None  # hostile or torn: any of these may come of it
    if found is None:
        posix.close(fd)
    return found


def _read(fd: int, path: str, look: Look) -> Indexed | None:
    status = posix.fstat(fd)
    if not is_our_file(status) or not is_ours(path.rpartition("/")[0] or "/", look):
        return None
    start = posix.pread(fd, _FIRST_READ, 0)
    magic, number, header_size, names_size, rest_size = start[:_PREAMBLE].split()
    if magic != _MAGIC or int(number) != FORMAT or status.st_size > _MAX_SIZE:
        return None
    header_end = _PREAMBLE + int(header_size, 16)
    names_end = header_end + int(names_size, 16)
    rest = (names_end, int(rest_size, 16))
    if names_end > len(start):
        start += posix.pread(fd, names_end - len(start), len(start))
    header = fastjson.loads(start[_PREAMBLE:header_end].decode("utf-8"))
    if header["version"] != __version__ or header["size"] != status.st_size:
        return None
    return Indexed(fd, header, start[header_end:names_end], rest)


def state(path: str, look: Look = posix) -> list[int] | None:
    """The identity of a file or directory, which holds as long as its content is the same; None when there is none."""
    try:
        return list(identity(look.stat(path)))
    except (OSError, ValueError):
        return None


def way(path: str, look: Look = posix) -> list[int] | None:
    """What a directory above, or a link on the way, is as long as trust in what lies below is the same."""
    try:
        status = look.lstat(path)
    except (OSError, ValueError):
        return None
    found = [status.st_dev, status.st_ino, status.st_mode, status.st_uid, status.st_gid]
    if status.st_mode & _GROUP_WRITE:
        found += access_list(path, look)
    return found


class Inputs:
    """The identities of what an index is made from, taken before anything is read."""

    __slots__ = ("_known", "_look", "_started")

    def __init__(self, look: Look = posix) -> None:
        """Begin; `look` answers what an input is before it is read."""
        self._look = look
        self._started = time.time_ns()
        self._known: dict[str, list[int] | None] = {}

    def note(self, path: str) -> None:
        """Take the identity of a path that will be read next, or that is missing."""
        self._known[path] = state(path, self._look)

    def settled(self) -> list[tuple[str, list[int] | None]] | None:
        """All of them; None when one changed meanwhile, or so shortly before that it could have without a trace."""
        for path, known in self._known.items():
            if state(path) != known or (known and max(known[3:]) > self._started - _FRESH_NS):
                return None
        return list(self._known.items())


def write(path: str, inputs: Inputs, ways: Iterable[str], settings: Json, found: Directories) -> bool:
    """Write an index; failure is silent, since the next create without an index writes it.

    Arguments:
        path: the file; its directory is made when it is missing, and nothing is written into one that is not ours.
        inputs: noted before the files were read.
        ways: directories and links on the way to the inputs, as Trust met them.
        settings: the configuration as plain values.
        found: what the directories serve.
    Returns:
        whether it was written.
    """
    settled = inputs.settled()
    if settled is None:
        return False
    data = _encode(settled, [(one, way(one)) for one in ways], settings, found)
    from shim.base.replace import replace, sweep  # late: nothing is written where an index was found

    try:
        if not make_directory(path.rpartition("/")[0]):
            return False
        replace(path, data)
        sweep(path.rpartition("/")[0])
    except (OSError, ValueError):
        return False
    return True


def _encode(inputs: Any, ways: Any, settings: Json, found: Directories) -> bytes:
    records: list[bytes] = []
    end = 0

    def record(value: Json) -> tuple[int, int]:
        nonlocal end
        data = fastjson.dumps(value).encode("ascii")
        records.append(data)
        start, end = end, end + len(data)
        return start, len(data)

    numbers = {id(spec): number for number, spec in enumerate(found.specs)}
    specs = [(spec.path, spec.kind, *record(spec.edits)) for spec in found.specs]
    lines = []
    for name in found.devices():
        spec, device = found.get(name) or (None, "")
        if spec:
            offset, length = record(spec.devices[device])
            lines.append(f"{name}\t{numbers[id(spec)]}\t{offset}\t{length}\n")
    names = "\n".join(("", "".join(lines))).encode("utf-8", "surrogateescape")
    rest_members = {
        "findings": {path: [one.to_json() for one in these] for path, these in found.findings.items()},
        "conflicts": found.conflicts,
        "shadowed": found.shadowed,
    }
    rest = fastjson.dumps(rest_members).encode("ascii")
    header = {
        "version": __version__,
        "inputs": inputs,
        "ways": ways,
        "settings": settings,
        "dirs": found.dirs,
        "searched": found.searched,
        "specs": specs,
        "size": 0,
    }
    total = _PREAMBLE + len(names) + len(rest) + end
    size = total + len(fastjson.dumps(header))
    for _ in range(3):  # the number of digits of the size is a part of the size
        header["size"] = size
        size = total + len(fastjson.dumps(header))
    text = fastjson.dumps(header).encode("ascii")
    preamble = b"%b %04d %08x %08x %08x\n" % (_MAGIC, FORMAT, len(text), len(names), len(rest))
    return b"".join((preamble, text, names, rest, *records))
