"""The index: specs and configuration, kept under /run/shim, so that a create reads only the devices that it asked for.

HOT: on the warm path it stands in for the directory scan, the spec reader, the TOML reader and trust.

    preamble   one line of 43 bytes: magic, format, and the lengths of header, names and rest
    header     JSON: version, inputs, configuration, directories, specs
    names      a line for each device: name, number of its spec, offset and length of its record; found by bytes.find
    rest       JSON: findings, shadowed devices, conflicts; for people and for errors
    records    JSON: the edits of each device and of each spec

An index counts only while every input is unchanged: the identity of each file and directory that was read or missing,
and owner and mode of each directory on the way to them, since trust depends on those. An input that changed less than
100 ms before could change again within one tick of the clock, so then no index is written. It is replaced by
rename, without a lock: several creates may write it at the same time, each what it read. An index with an unexpected
owner, mode, format, version, length or content is ignored.

It is written by shim.cdi.index_writer, and listed for people by shim.cdi.index_lists.
"""

from __future__ import annotations

import posix

from shim import __version__
from shim.base import fastjson
from shim.host.file_identity import identity
from shim.host.identity import access_list, is_our_file, is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.cdi.index_lists import IndexLists
    from shim.host.look import Look

    Json = dict[str, Any]

FORMAT = 1
MAGIC = b"shim-index"
PREAMBLE = 43  # bytes
_MEMBERS = {"inputs", "ways", "settings", "dirs", "searched", "specs"}  # of the header
_FIRST_READ = 8 * 1024  # holds header and names of eight GPUs; memory costs more than a second read of more
_MAX_SIZE = 256 * 1024 * 1024
_GROUP_WRITE = 0o020


class DamagedError(ValueError):
    """The content of the index is damaged; the specs have to be read instead."""


class IndexedSpec:
    """What a plan needs of a spec: its path, its own edits, and the devices that were looked up so far."""

    __slots__ = ("devices", "edits", "kind", "path")

    def __init__(self, path: str, kind: str, edits: Json) -> None:
        self.path = path
        self.kind = kind
        self.edits = edits
        self.devices: dict[str, Json] = {}


class Indexed:
    """The devices of an index, by their names; stands in for Directories.

    Attributes:
        settings: the configuration, as it was given to shim.cdi.index_writer.
        header: the header of the file.
        names: the lines of the devices.
        rest: offset and length of the object that has the rest.
    """

    __slots__ = ("_fd", "_records", "_specs", "header", "names", "rest", "settings")

    def __init__(self, fd: int, header: Json, names: bytes, rest: tuple[int, int]) -> None:
        self.header = header
        self.names = names
        self.rest = rest
        self._records = rest[0] + rest[1]
        self._specs: dict[int, IndexedSpec] = {}
        self.settings: Json = header["settings"]
        self._fd = fd  # last: a header that lacks a member must not close it here and again in _open

    def __del__(self) -> None:
        if (fd := getattr(self, "_fd", -1)) >= 0:
            posix.close(fd)

    def is_current(self, look: Look) -> bool:
        """Whether every input is unchanged, by its present status from `look`."""
        try:
            inputs, ways = self.header["inputs"], self.header["ways"]
            return all(state(path, look) == known for path, known in inputs) and all(
                way(path, look) == known for path, known in ways
            )
        except (ValueError, KeyError, TypeError):
            return False  # hostile or incomplete content

    def get(self, name: str) -> tuple[IndexedSpec, str] | None:
        """As Directories.get: the spec that serves the device, with that device in it, and the device's name.

        Raises:
            DamagedError: the record cannot be read.
        """
        start = self.names.find(b"\n%b\t" % name.encode("utf-8", "surrogateescape"))
        if start < 0 or "\n" in name or "\t" in name:
            return None
        try:
            line = self.names[start + 1 : self.names.index(b"\n", start + 1)]
            _, number, offset, length = line.split(b"\t")
            spec = self.spec(int(number))
            device = name.partition("=")[2]
            spec.devices[device] = self.record(self._records + int(offset), int(length))
        except (ValueError, IndexError, TypeError) as error:
            raise DamagedError(str(error)) from None
        return spec, device

    def whole(self) -> IndexLists:
        """The same with the lists that Directories has for people and errors."""
        from shim.cdi.index_lists import IndexLists  # late: a create needs it only for an error

        return IndexLists(self)

    def spec(self, number: int) -> IndexedSpec:
        """A spec by its number in the header. Raises DamagedError."""
        if number not in self._specs:
            path, kind, offset, length = self.header["specs"][number]
            self._specs[number] = IndexedSpec(path, kind, self.record(self._records + offset, length))
        return self._specs[number]

    def record(self, offset: int, length: int) -> Json:
        """An object of the file. Raises DamagedError."""
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
        look: for the present status of the inputs.
    Returns:
        None when there is no index, or when it does not count any more.
    """
    opened = _open(path, look)
    return opened if opened and opened.is_current(look) else None


def last_settings(path: str, look: Look = posix) -> Json | None:
    """The configuration in an index that need not count any more: the settings of the time when it was written.

    Arguments:
        path: the file.
        look: for the owner of the directory.
    Returns:
        None when there is no whole index of this version.
    """
    opened = _open(path, look)
    return opened.settings if opened else None


def _open(path: str, look: Look) -> Indexed | None:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        opened = _read(fd, path, look)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        opened = None  # hostile or incomplete content can raise any of these
    if opened is None:
        posix.close(fd)
    return opened


def _read(fd: int, path: str, look: Look) -> Indexed | None:
    status = posix.fstat(fd)
    if not is_our_file(status) or not is_ours(path.rpartition("/")[0] or "/", look):
        return None
    start = posix.pread(fd, _FIRST_READ, 0)
    magic, number, header_size, names_size, rest_size = start[:PREAMBLE].split()
    if magic != MAGIC or int(number) != FORMAT or status.st_size > _MAX_SIZE:
        return None
    header_end = PREAMBLE + int(header_size, 16)
    names_end = header_end + int(names_size, 16)
    rest = (names_end, int(rest_size, 16))
    if names_end > len(start):
        start += posix.pread(fd, names_end - len(start), len(start))
    header = fastjson.loads(start[PREAMBLE:header_end].decode("utf-8"))
    if header["version"] != __version__ or header["size"] != status.st_size or not header.keys() >= _MEMBERS:
        return None
    return Indexed(fd, header, start[header_end:names_end], rest)


def state(path: str, look: Look = posix) -> list[int] | None:
    """The identity of a file or directory, which changes when its content changes; None when it cannot be examined."""
    try:
        return list(identity(look.stat(path)))
    except (OSError, ValueError):
        return None


def way(path: str, look: Look = posix) -> list[int] | None:
    """Identity, mode, owners and access list of a directory or link on the way to an input: trust depends on these."""
    try:
        status = look.lstat(path)
    except (OSError, ValueError):
        return None
    numbers = [status.st_dev, status.st_ino, status.st_mode, status.st_uid, status.st_gid]
    if status.st_mode & _GROUP_WRITE:
        numbers += access_list(path, look)
    return numbers
