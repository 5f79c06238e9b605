"""Builds small ELF files: as much of a library as the loader's tools look at."""

from __future__ import annotations

import platform
import struct

X86_64, I386, AARCH64 = 62, 3, 183
OWN = {"x86_64": X86_64, "aarch64": AARCH64}[platform.machine()]
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_GNU_PROPERTY = 1, 2, 4, 0x6474E553
DT_NULL, DT_NEEDED, DT_STRTAB, DT_SONAME = 0, 1, 5, 14
ISA_1_NEEDED = 0xC0008002


def library(
    *sonames: str,
    machine: int = OWN,
    wide: bool = True,
    needed: tuple[str, ...] = (),
    isa: int = 0,
    kind: int = 3,
    padding: int = 0,
    text: bytes = b"",
    notes: dict[str, bytes] | None = None,
) -> bytes:
    """A shared object.

    Arguments:
        sonames: its DT_SONAME entries.
        machine: e_machine.
        wide: a 64-bit file.
        needed: the libraries that it needs.
        isa: bits of the x86 ISA levels that it says it needs.
        kind: e_type; 3 is a shared object.
        padding: bytes between the headers and the dynamic entries.
        text: constant data, in a segment of its own at the end.
        notes: sections of type SHT_NOTE, name -> contents, which no segment covers.
    """
    header, segment = (64, 56) if wide else (52, 32)
    word = 8 if wide else 4
    note = b""
    if isa:
        item = struct.pack("<III", ISA_1_NEEDED, 4, isa).ljust(16 if wide else 12, b"\0")
        note = struct.pack("<III", 4, len(item), 5) + b"GNU\0" + item
    count = 2 + bool(note) + bool(text)
    note_at = (header + count * segment + 7) & ~7
    strings_at = note_at + len(note)
    strings, dynamic = b"\0", []
    for tag, names in ((DT_NEEDED, needed), (DT_SONAME, sonames)):
        for name in names:
            dynamic.append((tag, len(strings)))
            strings += name.encode("utf-8", "surrogateescape") + b"\0"
    dynamic_at = (strings_at + len(strings) + padding + 15) & ~15
    entries = [(DT_STRTAB, strings_at), *dynamic, (DT_NULL, 0)]
    tail = b"".join(struct.pack("<qQ" if wide else "<iI", *entry) for entry in entries)
    end = dynamic_at + len(tail)
    segments = [(PT_LOAD, 0, end, 4096, 5), (PT_DYNAMIC, dynamic_at, len(tail), word, 6)]
    if note:
        segments.append((PT_GNU_PROPERTY, note_at, len(note), word, 4))
    if text:
        segments.append((PT_LOAD, end, len(text), 4096, 4))
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    form = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    after, where, sections = _sections(notes or {}, end + len(text), wide)
    size = (64 if wide else 40) if sections else 0
    table = (where, 0, header, segment, count, size, sections, sections and sections - 1)
    head = ident + struct.pack(form, kind, machine, 1, 0, header, *table)
    for type_, offset, size, align, flags in segments:
        if wide:
            head += struct.pack("<IIQQQQQQ", type_, flags, offset, offset, offset, size, size, align)
        else:
            head += struct.pack("<IIIIIIII", type_, offset, offset, offset, size, size, flags, align)
    blob = head.ljust(note_at, b"\0") + note + strings
    return blob.ljust(dynamic_at, b"\0") + tail + text + after


def note(owner: str, text: bytes, align: int = 4) -> bytes:
    """The contents of a note section: one note, whose text is padded."""
    name = owner.encode() + b"\0"
    head = struct.pack("<III", len(name), len(text), 1) + name
    whole = head.ljust((len(head) + align - 1) // align * align, b"\0") + text
    return whole.ljust((len(whole) + align - 1) // align * align, b"\0")


def _sections(notes: dict[str, bytes], at: int, wide: bool) -> tuple[bytes, int, int]:
    """What follows the file's contents, which end at AT: notes, names, headers; where the headers are, how many."""
    if not notes:
        return b"", 0, 0
    form = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    names, blob, headers = b"\0", b"", [struct.pack(form, *[0] * 10)]
    for name, contents in notes.items():
        headers.append(struct.pack(form, len(names), 7, 0, 0, at + len(blob), len(contents), 0, 0, 4, 0))
        names += name.encode() + b"\0"
        blob += contents
    headers.append(struct.pack(form, len(names), 3, 0, 0, at + len(blob), len(names) + 1, 0, 0, 1, 0))
    blob += names + b"\0"
    return blob + b"".join(headers), at + len(blob), len(headers)
