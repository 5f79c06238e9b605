"""Reads an ld.so.cache, the index of libraries that the loader of glibc uses.

The file may be that of a container, so every offset in it is checked, and a file that is not whole is no cache. Each
name is read once however many entries share it, and all names together are bounded: otherwise all entries of a file of
a few megabytes could have the same name of megabytes.

Only the format that glibc 2.2 and later read is known; the old format in front of it (glibc < 2.32 wrote both, later
versions do by `ldconfig -c compat`) is skipped. In a file of both, names are counted from the new format's header, and
the extension block and its sections from the file's beginning.

Source: elf/cache.c and sysdeps/generic/dl-cache.h of glibc.
"""

from __future__ import annotations

import struct

OLD, NEW = b"ld.so-1.7.0", b"glibc-ld.so.cache1.1"
HEADER, ENTRY, SECTION = struct.Struct("=20sIIB3xI12x"), struct.Struct("=iIIIQ"), struct.Struct("=IIII")
EXTENSION, GENERATOR, HWCAPS = 0xEAA42174, 0, 1  # the block's magic, and the types of its sections
LIMIT = 16 << 20  # bytes of a file, and of its names together


class NotACacheError(ValueError):
    """The bytes are no ld.so.cache, or not a whole one."""


class Entry:
    """One line of the cache.

    Attributes:
        key: the name by which a program asks for a library.
        value: the path of its file.
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
    """The contents of a cache.

    Attributes:
        entries: in the file's order, which is descending by name.
        generator: the program that wrote it, "" when unknown.
    """

    __slots__ = ("entries", "generator")

    def __init__(self, entries: list[Entry], generator: str) -> None:
        self.entries = entries
        self.generator = generator


def decode(data: bytes) -> Cache:
    """Decode the bytes of a cache.

    Raises:
        NotACacheError: the defect.
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
    """The sections of the extension block that are known; of two of a kind the last, as in glibc's elf/dl-cache.h."""
    if at + 8 > len(data) or struct.unpack_from("=I", data, at)[0] != EXTENSION:
        raise NotACacheError("its extension block is not where it should be")
    end = at + 8 + struct.unpack_from("=I", data, at + 4)[0] * SECTION.size
    if end > len(data):
        raise NotACacheError("its extension block is cut off")
    sections = {}
    for tag, _flags, offset, size in SECTION.iter_unpack(data[at + 8 : end]):
        if offset + size > len(data):
            raise NotACacheError("a section lies outside of the file")
        if tag in {GENERATOR, HWCAPS}:
            sections[tag] = (offset, size)
    return {tag: data[offset : offset + size] for tag, (offset, size) in sections.items()}


class _Names:
    """The names in a file, each read once.

    Arguments:
        data: the file from the new format's header on.
        directories: where the names of the glibc-hwcaps directories are, four bytes each. In a file of both formats
            glibc writes them like all others and looks for them from the file's beginning; here they count as written.
    """

    def __init__(self, data: bytes, directories: bytes) -> None:
        self._data = data
        self._directories = directories
        self._known: dict[int, str] = {}
        self._left = LIMIT

    def at(self, offset: int) -> str:
        """The name that begins at an offset. Raises NotACacheError for an offset outside of the file."""
        name = self._known.get(offset)
        if name is None:
            name = self._known[offset] = self._read(offset)
        return name

    def of_directory(self, hwcap: int) -> str:
        """The glibc-hwcaps directory of an entry, "" for an ordinary one."""
        if hwcap >> 42 != 1 << 20:  # bit 62 alone above the ISA level: all others are legacy capabilities
            return ""
        index, count = hwcap & 0xFFFFFFFF, len(self._directories) // 4
        if index >= count:
            raise NotACacheError(f"an entry is for glibc-hwcaps directory {index}, and it names {count}")
        return self.at(struct.unpack_from("=I", self._directories, 4 * index)[0])

    def _read(self, offset: int) -> str:
        end = self._data.find(b"\0", offset)
        if offset >= len(self._data) or end < 0:
            raise NotACacheError(f"a name begins at {offset}, outside of the file")
        self._left -= end - offset
        if self._left < 0:
            raise NotACacheError(f"its names lie over each other, and are more than {LIMIT} bytes together")
        return self._data[offset:end].decode("utf-8", "surrogateescape")
