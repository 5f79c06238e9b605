"""What an ELF file says about itself, and that no damaged file leads anywhere but to NotAnElfError."""

from __future__ import annotations

import io
import os
import random
import struct
import sys
from pathlib import Path

import pytest
from unit.native import elves

from shim.host import elf


def read(data: bytes) -> elf.Elf:
    return elf.read(io.BytesIO(data))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (elves.library("libcuda.so.1"), elf.Elf(64, elves.OWN, elf.SHARED_OBJECT, "libcuda.so.1")),
        (elves.library(), elf.Elf(64, elves.OWN, elf.SHARED_OBJECT, "")),
        (elves.library("first.so", "second.so"), elf.Elf(64, elves.OWN, elf.SHARED_OBJECT, "first.so")),
        (
            elves.library("a.so", wide=False, machine=elves.I386, needed=("libc.so.6",)),
            elf.Elf(32, elves.I386, elf.SHARED_OBJECT, "a.so"),
        ),
        (
            elves.library("a.so", machine=elves.AARCH64, padding=5_000_000, text=b"x" * 99),
            elf.Elf(64, elves.AARCH64, elf.SHARED_OBJECT, "a.so"),
        ),
        (elves.library("a.so", kind=2), elf.Elf(64, elves.OWN, 2, "a.so")),
    ],
)
def test_class_machine_type_and_soname_are_read(data: bytes, expected: elf.Elf) -> None:
    assert read(data) == expected


def test_the_interpreter_is_an_elf_file_of_this_machine() -> None:
    """A real file, which the linker wrote and not the tests."""
    with Path(sys.executable).resolve().open("rb") as file:
        program = elf.read(file)
    assert (program.machine, program.bits) == elf.MACHINES[os.uname().machine]
    assert program.soname == ""


@pytest.mark.parametrize(
    ("data", "machine", "fits"),
    [
        (elves.library("a.so", machine=elves.X86_64), "x86_64", True),
        (elves.library("a.so", machine=elves.X86_64), "aarch64", False),
        (elves.library("a.so", wide=False, machine=elves.I386), "x86_64", False),
        (elves.library("a.so", machine=elves.AARCH64), "aarch64", True),
        (elves.library("a.so", machine=elves.X86_64, kind=2), "x86_64", False),
        (elves.library("a.so"), "unheard-of", False),
    ],
)
def test_a_library_fits_a_machine_of_its_own_kind(data: bytes, machine: str, fits: bool) -> None:
    assert read(data).fits(machine) is fits


WHOLE = elves.library("libcuda.so.1", needed=("libc.so.6",))


def changed(offset: int, form: str, value: int) -> bytes:
    data = bytearray(WHOLE)
    struct.pack_into(form, data, offset, value)
    return bytes(data)


def dynamic(tag: int, new_tag: int, value: int) -> bytes:
    """WHOLE with the first dynamic entry of a tag replaced."""
    data = bytearray(WHOLE)
    at = data.find(struct.pack("<q", tag), len(data) - 4 * 16)
    struct.pack_into("<qQ", data, at, new_tag, value)
    return bytes(data)


FIRST, SECOND = 64, 64 + 56  # its program headers: PT_LOAD and PT_DYNAMIC
LONG = elves.library("x" * 300)


@pytest.mark.parametrize(
    ("data", "defect"),
    [
        (b"", "it is empty"),
        (b"hello", "it is no ELF file"),
        (b"#!/bin/sh\nexit 0\n", "it is no ELF file"),
        (WHOLE[:10], "its ELF header is damaged"),
        (changed(4, "B", 3), "its ELF header is damaged"),
        (changed(5, "B", 0), "its ELF header is damaged"),
        (WHOLE[:40], "it is cut off"),
        (WHOLE[:100], "it is cut off"),
        (WHOLE[:-20], "it is cut off"),
        (changed(32, "<Q", 1 << 63), "an offset in it leads outside"),
        (changed(54, "<H", 57), "its program headers have 57 bytes each in place of 56"),
        (changed(56, "<H", 0xFFFF), "it has 65535 program headers"),
        (changed(SECOND + 32, "<Q", 1 << 40), f"its dynamic section has {1 << 40} bytes"),
        (changed(SECOND + 8, "<Q", 1 << 60), "an offset in it leads outside"),
        (changed(FIRST + 32, "<Q", 8), "its DT_STRTAB lies in no segment"),
        (dynamic(elves.DT_STRTAB, 7, 0), "its dynamic section has a DT_SONAME and no DT_STRTAB"),
        (dynamic(elves.DT_NEEDED, 10, len("\0libc.so.6\0")), "its DT_SONAME lies outside of its strings"),
        (dynamic(elves.DT_STRTAB, elves.DT_STRTAB, len(WHOLE)), "its DT_STRTAB lies in no segment"),
        (changed(FIRST, "<I", 4), "its DT_STRTAB lies in no segment"),
        (dynamic(elves.DT_SONAME, elves.DT_SONAME, 1 << 60), "an offset in it leads outside"),
        (dynamic(elves.DT_SONAME, elves.DT_SONAME, len(WHOLE)), "its DT_SONAME does not end"),
        (LONG, "its DT_SONAME does not end"),
    ],
)
def test_a_damaged_file_is_refused_by_its_defect(data: bytes, defect: str) -> None:
    with pytest.raises(elf.NotAnElfError) as caught:
        read(data)
    assert str(caught.value) == defect


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_leads_elsewhere(seed: int) -> None:
    """Each beginning of a file, and bytes changed at random, gives an answer or NotAnElfError."""
    chance = random.Random(seed)
    whole = elves.library("libx.so.1", wide=seed % 2 == 0, machine=elves.I386, needed=("libc.so.6",), isa=3)
    refused = read_well = 0
    inputs = [whole[:size] for size in range(len(whole))]
    for _ in range(5000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        inputs.append(bytes(damaged))
    for data in inputs:
        try:
            answer = read(data)
        except elf.NotAnElfError:
            refused += 1
        else:
            read_well += 1
            assert answer.bits in {32, 64}
            assert len(answer.soname) <= 255
    assert refused > 500
    assert read_well > 500


def test_little_of_a_large_file_is_read() -> None:
    class Counted(io.BytesIO):
        count = 0

        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            self.count += len(data)
            return data

    file = Counted(elves.library("libcuda.so.1", padding=20_000_000))
    assert elf.read(file).soname == "libcuda.so.1"
    assert file.count < 2000
