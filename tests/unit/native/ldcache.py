"""Reads an ld.so.cache: for doctor, which says what a container's loader will find, and for tests.

The file comes from a container, so every offset in it is checked, and a file that is not whole is no cache. Each name
is read once however many entries share it, and all together are bounded: else a few megabytes could say that each of
their entries has the same megabytes for a name.

Only the format that glibc 2.2 and later read is known; the old one in front of it (glibc < 2.32 wrote both, later ones
do by `ldconfig -c compat`) is passed over. Where there is one, names are counted from the new format's header, and the
extension block and its sections from the file's beginning.
"""

from __future__ import annotations

import struct

OLD, NEW = b"ld.so-1.7.0", b"glibc-ld.so.cache1.1"
HEADER, ENTRY, SECTION = struct.Struct("=20sIIB3xI12x"), struct.Struct("=iIIIQ"), struct.Struct("=IIII")
EXTENSION, GENERATOR, HWCAPS = 0xEAA42174, 0, 1  # the block's magic, and what its sections are
LIMIT = 16 << 20  # bytes of a file, and of its names together


class NotACacheError(ValueError):
    """The bytes are no ld.so.cache, or not a whole one."""


class Entry:
    """One line of the cache.

    Attributes:
        key: the name that a program asks for.
        value: the file that it gets.
        flags: libc type in the low byte, ABI in the next; 0x0303 is x86-64.
        hwcap: legacy capability bits, or with bit 62 the ISA level and an index of hwcaps.
        hwcaps: name of the glibc-hwcaps directory, "" for an ordinary entry.
    """

    __slots__ = ("flags", "hwcap", "hwcaps", "key", "value")

    def __init__(self, key: str, value: str, flags: int, hwcap: int, hwcaps: str) -> None:
        self.key = key
        self.value = value
        self.flags = flags
        self.hwcap = hwcap
        self.hwcaps = hwcaps


class Cache:
    """What a cache holds.

    Attributes:
        entries: in the file's order, which is descending by name.
        generator: what wrote it, "" when it does not say.
    """

    __slots__ = ("entries", "generator")

    def __init__(self, entries: list[Entry], generator: str) -> None:
        self.entries = entries
        self.generator = generator


def decode(data: bytes) -> Cache:
    """Decode the bytes of a cache.

    Raises:
        NotACacheError: with what is wrong.
    """
    if len(data) > LIMIT:
        raise NotACacheError(f"{len(data)} bytes are no cache")
    whole, data = data, data[_start(data) :]
    if len(data) < HEADER.size:
        raise NotACacheError("it ends within its header")
    _magic, count, strings, _flags, extension = HEADER.unpack_from(data)
    end = HEADER.size + count * ENTRY.size + strings
    if end > len(data):
        raise NotACacheError(f"{count} entries and {strings} bytes of names do not fit into {len(data)} bytes")
    sections = _sections(whole, extension) if extension else {}
    names = _Names(data, sections.get(HWCAPS, b""))
    entries = [
        Entry(names.at(key), names.at(value), flags, hwcap, names.of_directory(hwcap))
        for flags, key, value, _osversion, hwcap in ENTRY.iter_unpack(data[HEADER.size : end - strings])
    ]
    return Cache(entries, sections.get(GENERATOR, b"").decode("utf-8", "replace"))


def _start(data: bytes) -> int:
    """Where the new format begins."""
    if data.startswith(NEW):
        return 0
    if data.startswith(OLD) and len(data) >= 16:
        start: int = (16 + 12 * struct.unpack_from("=I", data, 12)[0] + 7) & ~7
        if data.startswith(NEW, start):
            return start
    raise NotACacheError("it does not begin like a cache of glibc 2.2 or later")


def _sections(data: bytes, at: int) -> dict[int, bytes]:
    """The sections of the extension block that we know; of two of a kind the last, as in glibc's elf/dl-cache.h."""
    if at + 8 > len(data) or struct.unpack_from("=I", data, at)[0] != EXTENSION:
        raise NotACacheError("its extension block is not where it should be")
    end = at + 8 + struct.unpack_from("=I", data, at + 4)[0] * SECTION.size
    if end > len(data):
        raise NotACacheError("its extension block is cut off")
    places = {}
    for tag, _flags, offset, size in SECTION.iter_unpack(data[at + 8 : end]):
        if offset + size > len(data):
            raise NotACacheError("a section lies outside of the file")
        if tag in {GENERATOR, HWCAPS}:
            places[tag] = (offset, size)
    return {tag: data[offset : offset + size] for tag, (offset, size) in places.items()}


class _Names:
    """The names in a file, each read once.

    Arguments:
        data: the file from the new format's header on.
        directories: where the names of the glibc-hwcaps directories are, four bytes each. In a file of both formats
            glibc writes them like all others and looks for them from the file's beginning; what was meant counts here.
    """

    def __init__(self, data: bytes, directories: bytes) -> None:
        self._data = data
        self._directories = directories
        self._known: dict[int, str] = {}
        self._left = LIMIT

    def at(self, place: int) -> str:
        """The name that begins at a place."""
        name = self._known.get(place)
        if name is None:
            name = self._known[place] = self._read(place)
        return name

    def of_directory(self, hwcap: int) -> str:
        """The glibc-hwcaps directory of an entry, "" for an ordinary one."""
        if hwcap >> 42 != 1 << 20:  # bit 62 alone above the ISA level: all others are legacy capabilities
            return ""
        index, count = hwcap & 0xFFFFFFFF, len(self._directories) // 4
        if index >= count:
            raise NotACacheError(f"an entry is for glibc-hwcaps directory {index}, and it names {count}")
        return self.at(struct.unpack_from("=I", self._directories, 4 * index)[0])

    def _read(self, place: int) -> str:
        end = self._data.find(b"\0", place)
        if place >= len(self._data) or end < 0:
            raise NotACacheError(f"a name begins at {place}, outside of the file")
        self._left -= end - place
        if self._left < 0:
            raise NotACacheError(f"its names lie over each other, and are more than {LIMIT} bytes together")
        return self._data[place:end].decode("utf-8", "surrogateescape")
