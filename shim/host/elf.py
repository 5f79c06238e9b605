"""Reads what the header and the dynamic section of an ELF file say: class, machine, type, DT_SONAME.

The file may be anybody's: each offset and size in it is checked, and only the bytes that are needed are read, since
libraries of drivers have hundreds of megabytes.

Source: elf(5); System V ABI, chapters "ELF Header", "Program Header" and "Dynamic Section".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

SHARED_OBJECT = 3  # ET_DYN

# uname(2) -> e_machine and class
MACHINES = {"x86_64": (62, 64), "aarch64": (183, 64), "ppc64le": (21, 64), "riscv64": (243, 64), "i686": (3, 32)}

_MAGIC = b"\x7fELF"
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_STRSZ, _DT_SONAME = 0, 5, 10, 14
_MOST_SEGMENTS = 512  # a library has about ten
_MOST_ENTRIES = 65536  # of the dynamic section; a library has about thirty, and one for each library that it needs
_LONGEST = 255  # bytes of a file's name (NAME_MAX)
_MOST_BYTES = 1 << 40  # a larger offset is a defect of the file


class NotAnElfError(ValueError):
    """The bytes are no ELF file, or not a whole one; the text names the defect."""


@dataclass(frozen=True)
class Elf:
    """An ELF file.

    Attributes:
        bits: 32 or 64.
        machine: e_machine, such as 62 for x86-64.
        type: e_type; SHARED_OBJECT for libraries.
        soname: DT_SONAME; "" for none.
    """

    bits: int
    machine: int
    type: int
    soname: str

    def fits(self, machine: str) -> bool:
        """Whether it is a library for programs of a machine, as uname(2) names it, in the machine's own width."""
        return self.type == SHARED_OBJECT and MACHINES.get(machine) == (self.machine, self.bits)


def read(file: BinaryIO) -> Elf:
    """Read the header and the dynamic section of a file.

    Arguments:
        file: opened for reading; its position is moved.
    Raises:
        NotAnElfError: it is no ELF file, or an offset in it leads outside.
        OSError: it cannot be read.
    """
    ident = file.read(16)
    if not ident.startswith(_MAGIC):
        raise NotAnElfError("it is empty" if not ident else "it is no ELF file")
    if len(ident) < 16 or ident[4] not in {1, 2} or ident[5] not in {1, 2}:
        raise NotAnElfError("its ELF header is damaged")
    return _Reader(file, is_wide=ident[4] == 2, order="<" if ident[5] == 1 else ">").elf()


class _Reader:
    """Reads a file of one class and byte order."""

    def __init__(self, file: BinaryIO, *, is_wide: bool, order: str) -> None:
        self._file = file
        self._is_wide = is_wide
        self._header = struct.Struct(order + ("HHIQQQIHHH" if is_wide else "HHIIIIIHHH"))
        # type, then offset, virtual address and size in the file
        self._segment = struct.Struct(order + ("I4xQQ8xQ16x" if is_wide else "III4xI12x"))
        self._entry = struct.Struct(order + ("qQ" if is_wide else "iI"))

    def elf(self) -> Elf:
        header = self._header.unpack(self._bytes(16, self._header.size))
        type_, machine, _, _, table, _, _, _, entry_size, count = header
        if count and entry_size != self._segment.size:
            raise NotAnElfError(f"its program headers have {entry_size} bytes each in place of {self._segment.size}")
        if count > _MOST_SEGMENTS:
            raise NotAnElfError(f"it has {count} program headers")
        segments = list(self._segment.iter_unpack(self._bytes(table, count * self._segment.size)))
        return Elf(64 if self._is_wide else 32, machine, type_, self._soname(segments))

    def _soname(self, segments: list[tuple[int, int, int, int]]) -> str:
        entries = dict.fromkeys((_DT_STRTAB, _DT_STRSZ, _DT_SONAME), -1)
        for tag, value in self._dynamic(segments):
            if tag in entries and entries[tag] < 0:
                entries[tag] = value
        strings, size, name = entries.values()
        if name < 0:
            return ""
        if strings < 0:
            raise NotAnElfError("its dynamic section has a DT_SONAME and no DT_STRTAB")
        if 0 <= size <= name:
            raise NotAnElfError("its DT_SONAME lies outside of its strings")
        start = self._file_offset(segments, strings) + name
        text, zero, _ = self._some(start, _LONGEST + 1).partition(b"\0")
        if not zero:
            raise NotAnElfError("its DT_SONAME does not end")
        return text.decode("utf-8", "surrogateescape")

    def _dynamic(self, segments: list[tuple[int, int, int, int]]) -> Iterator[tuple[int, int]]:
        """The entries of the dynamic section up to its DT_NULL."""
        for type_, offset, _, size in segments:
            if type_ == _PT_DYNAMIC:
                if size > _MOST_ENTRIES * self._entry.size:
                    raise NotAnElfError(f"its dynamic section has {size} bytes")
                whole = size - size % self._entry.size
                for tag, value in self._entry.iter_unpack(self._bytes(offset, whole)):
                    if tag == _DT_NULL:
                        return
                    yield tag, value
                return

    @staticmethod
    def _file_offset(segments: list[tuple[int, int, int, int]], address: int) -> int:
        """Where the byte lies in the file that is loaded at an address."""
        for type_, offset, start, size in segments:
            if type_ == _PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise NotAnElfError("its DT_STRTAB lies in no segment")

    def _bytes(self, offset: int, size: int) -> bytes:
        read = self._some(offset, size)
        if len(read) < size:
            raise NotAnElfError("it is cut off")
        return read

    def _some(self, offset: int, size: int) -> bytes:
        if offset > _MOST_BYTES:
            raise NotAnElfError("an offset in it leads outside")
        self._file.seek(offset)
        return self._file.read(size)
