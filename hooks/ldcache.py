"""Reads an ld.so.cache: for doctor, which says what a container's loader will find, and for tests.

The file comes from a container, so every offset in it is checked, and a file that is not whole is no cache. Only the
format that glibc 2.2 and later read is known; the old one in front of it (glibc < 2.32 wrote both) is passed over.
"""

from __future__ import annotations

import struct

OLD, NEW = b"ld.so-1.7.0", b"glibc-ld.so.cache1.1"
HEADER, ENTRY, SECTION = struct.Struct("=20sIIB3xI12x"), struct.Struct("=iIIIQ"), struct.Struct("=IIII")
EXTENSION = 0xEAA42174
LIMIT = 16 << 20


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
    data = data[_start(data) :]
    if len(data) < HEADER.size:
        raise NotACacheError("it ends within its header")
    _magic, count, strings, _flags, extension = HEADER.unpack_from(data)
    end = HEADER.size + count * ENTRY.size + strings
    if end > len(data):
        raise NotACacheError(f"{count} entries and {strings} bytes of names do not fit into {len(data)} bytes")
    generator, names = _extension(data, extension) if extension else ("", [])
    entries = []
    for flags, key, value, _osversion, hwcap in ENTRY.iter_unpack(data[HEADER.size : HEADER.size + count * ENTRY.size]):
        index = hwcap & 0xFFFFFFFF
        named = hwcap >> 62 & 1 and index < len(names)
        entries.append(Entry(_string(data, key), _string(data, value), flags, hwcap, names[index] if named else ""))
    return Cache(entries, generator)


def _start(data: bytes) -> int:
    """Where the new format begins."""
    if data.startswith(NEW):
        return 0
    if data.startswith(OLD) and len(data) >= 16:
        start: int = (16 + 12 * struct.unpack_from("=I", data, 12)[0] + 7) & ~7
        if data.startswith(NEW, start):
            return start
    raise NotACacheError("it does not begin like a cache of glibc 2.2 or later")


def _string(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    if at >= len(data) or end < 0:
        raise NotACacheError(f"a name begins at {at}, outside of the file")
    return data[at:end].decode("utf-8", "surrogateescape")


def _extension(data: bytes, at: int) -> tuple[str, list[str]]:
    """The generator's text, and the names of glibc-hwcaps directories."""
    generator, names = "", []
    if at + 8 > len(data) or struct.unpack_from("=I", data, at)[0] != EXTENSION:
        raise NotACacheError("its extension block is not where it should be")
    count = struct.unpack_from("=I", data, at + 4)[0]
    if at + 8 + count * SECTION.size > len(data):
        raise NotACacheError("its extension block is cut off")
    for tag, _flags, offset, size in SECTION.iter_unpack(data[at + 8 : at + 8 + count * SECTION.size]):
        if offset + size > len(data):
            raise NotACacheError("a section lies outside of the file")
        if tag == 0:
            generator = data[offset : offset + size].decode("utf-8", "replace")
        elif tag == 1:
            places = struct.unpack_from(f"={size // 4}I", data, offset)
            names = [_string(data, place) for place in places]
    return generator, names
