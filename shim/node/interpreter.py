"""A Python for hosts that have none, or another one: brought along by an image, and run with the image's own C library.

The image lists the files of its Python in a document (packaging/oci_interpreter.py writes it): program, standard
library, and every shared library that these need, the loader included. They are copied into the private directory of an
installation, and three fields of the copied program are changed, so that nothing of the host's /lib is used, be it
musl's or another glibc's:

    PT_INTERP     the kernel starts the copied loader. The new text is appended to the file, where the kernel reads it.
    PT_LOAD       the first segment is extended over the padding behind it, which gets the next text.
    DT_RPATH      one of the unused entries that ld(1) leaves at the end of the dynamic section (--spare-dynamic-tags):
                  the directory of the copied libraries, searched before /etc/ld.so.cache, also for those that
                  libraries need. ($ORIGIN would need /proc.)

Sources: elf(5); Linux, fs/binfmt_elf.c (PT_INTERP); ld.so(8), DT_RPATH and $ORIGIN.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.base.paths import parent
from shim.node.placed_files import own
from shim.node.placement import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCUMENT = "interpreter.json"
DIRECTORY = "python"  # below the private directory of an installation

_PAGE = 4096
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_STRTAB, _DT_RPATH = 0, 5, 15
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<qQ")
_TIMEOUT = 60


class PatchError(ValueError):
    """The program has not the form that is expected; the text names the difference."""


@dataclass(frozen=True)
class Brought:
    """The Python of an image, see shim.node.placement.Interpreter.

    Attributes:
        top: the directory that is the image's root.
        program_name: path of its program below DIRECTORY.
        loader: path of its dynamic loader below DIRECTORY.
        files: path below DIRECTORY -> path below `top`.
    """

    top: Path
    program_name: str
    loader: str
    files: Mapping[str, str]

    @classmethod
    def read(cls, document: Path, top: Path) -> Brought:
        """Read the document of an image. Raises OSError; ValueError, KeyError where it is damaged."""
        data: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
        return cls(top, str(data["program"]), str(data["loader"]), dict(data["files"]))

    def program(self, modules: str) -> str:
        """Its path, see Interpreter."""
        return f"{modules}/{DIRECTORY}/{self.program_name}"

    def bring(self, fresh: Path, modules: str) -> None:
        """Copy it, see Interpreter. Raises OSError; PatchError."""
        for name, source in self.files.items():
            file = fresh / DIRECTORY / name
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.top / source, file)
            own(file, 0o755 if name in {self.program_name, self.loader} else 0o644)
        program = fresh / DIRECTORY / self.program_name
        loader = f"{modules}/{DIRECTORY}/{self.loader}"
        program.write_bytes(patched(program.read_bytes(), loader, parent(loader)))
        for directory, _, _ in os.walk(fresh / DIRECTORY):
            own(Path(directory), 0o755)

    def check(self, modules: str) -> None:
        """Print the version of shim with it, see Interpreter."""
        program = self.program(modules)
        words = [program, "-I", "-S", "-B", f"{modules}/shim/__main__.py", "cli", "shim", "version"]
        try:
            done = subprocess.run(
                words, input="", capture_output=True, text=True, timeout=_TIMEOUT, check=False, cwd="/"
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refusal(f"{program} does not run on this host: {error}", _REMEDY) from None
        if done.returncode:
            last = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
            raise Refusal(f"{program} does not run on this host: {last}", _REMEDY)


_REMEDY = "name a prefix on a file system from which programs can be executed (no `noexec`), and an image for this CPU"


def patched(program: bytes, loader: str, libraries: str) -> bytes:
    """A program that is started by another loader, and searches its libraries in another directory first.

    Arguments:
        program: an ELF file of 64 bits, little endian, linked dynamically.
        loader: absolute path of the loader.
        libraries: absolute path of the directory.
    Raises:
        PatchError: it is none, or has no room for a change.
    """
    data = bytearray(program)
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < _HEADER.size:
        raise PatchError("it is no ELF file of 64 bits, little endian")
    header = _HEADER.unpack_from(data)
    offset, size, count = header[5], header[9], header[10]
    segments = [(offset + size * number, _SEGMENT.unpack_from(data, offset + size * number)) for number in range(count)]
    loads = [(at, segment) for at, segment in segments if segment[0] == _PT_LOAD]
    dynamic = next((segment for _, segment in segments if segment[0] == _PT_DYNAMIC), None)
    interp = next(((at, segment) for at, segment in segments if segment[0] == _PT_INTERP), None)
    if not loads or dynamic is None or interp is None:
        raise PatchError("it is not linked dynamically")
    address = _add_text(data, loads, os.fsencode(libraries) + b"\0")
    _set_rpath(data, dynamic, address)
    text = os.fsencode(loader) + b"\0"
    at, (kind, flags, _, virtual, physical, _, _, align) = interp
    # the address stays: the loader takes from there the name by which it may be needed
    _SEGMENT.pack_into(data, at, kind, flags, len(data), virtual, physical, len(text), len(text), align)
    return bytes(data + text)


def _add_text(data: bytearray, loads: list[tuple[int, tuple[int, ...]]], text: bytes) -> int:
    """Write a text into the padding behind the first segment, and extend the segment over it; its address."""
    at, (kind, flags, start, virtual, physical, in_file, in_memory, align) = loads[0]
    end = start + in_file
    free = -end % _PAGE
    if in_file != in_memory or free < len(text) or any(data[end : end + free]):
        raise PatchError("there is no padding behind its first segment")
    data[end : end + len(text)] = text
    _SEGMENT.pack_into(
        data, at, kind, flags, start, virtual, physical, in_file + len(text), in_memory + len(text), align
    )
    return virtual + in_file


def _set_rpath(data: bytearray, dynamic: tuple[int, ...], address: int) -> None:
    """Add DT_RPATH with a text at an address to the dynamic section."""
    start, size = dynamic[2], dynamic[5]
    offsets = range(start, start + size, _ENTRY.size)
    entries = [_ENTRY.unpack_from(data, at) for at in offsets]
    texts = next((value for tag, value in entries if tag == _DT_STRTAB), None)
    unused = next((number for number, (tag, _) in enumerate(entries) if tag == _DT_NULL), len(entries))
    if texts is None or unused + 1 >= len(entries):
        raise PatchError("its dynamic section has no unused entry")
    _ENTRY.pack_into(data, offsets[unused], _DT_RPATH, address - texts)
