"""S23, S24: what an image makes large, deep or slow costs the host little, and nothing beside the image is read."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from security import evilroot
from security.stage import MEMORY, Stage
from unit.native.elves import library
from unit.native.trees import CONF, build

from shim.host import ldcache


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


def linked(root: Path, source: str, names: Iterator[str]) -> None:
    """Many names for one file: that costs an image nothing."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(root / source, root / name)


def collisions(count: int) -> Iterator[str]:
    """Names whose FNV-1a values agree in their low bits, so that they share one chain of a table."""
    found = number = 0
    while found < count:
        name = f"lib{number:x}.so"
        value = 2166136261
        for byte in name.encode():
            value = (value ^ byte) * 16777619 & 0xFFFFFFFF
        if value & 0x3F == 0:
            found += 1
            yield f"usr/lib/{name}"
        number += 1


def many_names(root: Path) -> None:
    build(root, {"etc/ld.so.conf": CONF, "usr/lib/lib0.so.1": library("lib0.so.1")})
    for i in range(70_000):
        (root / f"usr/lib/libn{i}.so.1").symlink_to("lib0.so.1")


def long_sonames(root: Path) -> None:
    """In directories that are found one after the other, so that each might be given memory of its own."""
    banner = b"\nGNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n"
    libc = library("libc.so.6", text=banner)  # of the generation that looks into directories of CPU names
    build(root, {"etc/ld.so.conf": CONF, "usr/lib/lib0.so.1": library("x" * 120_000), "lib/libc.so.6": libc})
    folders = ["", "tls/", "haswell/", "x86_64/", "xeon_phi/", "avx512_1/", "sse2/"]
    linked(root, "usr/lib/lib0.so.1", (f"usr/lib/{folder}libn{i}.so.1" for folder in folders for i in range(150)))


def long_targets(root: Path) -> None:
    build(root, {"etc/ld.so.conf": CONF, "usr/lib/lib0.so.1": library("lib0.so.1")})
    for i in range(15_000):
        (root / f"usr/lib/libn{i}.so.1").symlink_to("/" + "a" * 4090)


def names_in_one_chain(root: Path) -> None:
    build(root, {"etc/ld.so.conf": CONF, "usr/lib/lib0.so.1": library()})
    linked(root, "usr/lib/lib0.so.1", collisions(10_000))


def long_numbers(root: Path) -> None:
    build(root, {"etc/ld.so.conf": CONF, "usr/lib/lib0.so.1": library()})
    linked(root, "usr/lib/lib0.so.1", (f"usr/lib/lib12345678901-{i}.so" for i in range(50_000)))


def include_everything(root: Path) -> None:
    lines = "".join(f"include {'/*' * depth}\n" for depth in range(1, 30))
    files = [f"{a}/{b}/{c}/x" for a in "abcdef" for b in "abcdef" for c in "abc"]
    build(root, {"etc/ld.so.conf": lines * 20, **dict.fromkeys(files, "")})


def include_a_circle(root: Path) -> None:
    build(root, {"etc/ld.so.conf": CONF, **{f"etc/ld.so.conf.d/{i}.conf": "include *.conf\n" for i in range(20)}})


def slow_patterns(root: Path) -> None:
    lines = f"include /n/*{'[[:' * 1300}\n" + f"include /n/{'*[a' * 100}*b\n" * 50
    build(root, {"etc/ld.so.conf": lines, **{f"n/{'[a' * 120}{i}": "" for i in range(300)}})


def huge_headers(root: Path) -> None:
    """Every count of an ELF header at its largest, in a file of ten gigabytes, under a thousand names."""
    build(root, {"etc/ld.so.conf": CONF})
    head = bytearray(library("lib0.so.1", isa=7))
    head[56:58] = head[60:62] = struct.pack("<H", 0xFFFF)
    head[62:64] = struct.pack("<H", 0xFFFE)
    for name in ("usr/lib/lib0.so.1", "usr/local/cuda/compat/libcuda.so.999.1"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(head)
        os.truncate(root / name, 10 << 30)
    linked(root, "usr/lib/lib0.so.1", (f"usr/lib/libn{i}.so.1" for i in range(1000)))


def no_end_of_dynamic_entries(root: Path) -> None:
    build(root, {"etc/ld.so.conf": CONF})
    body = library("lib0.so.1")[:-16] + struct.pack("<qQ", 1, 1) * 100_000
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib/lib0.so.1").write_bytes(body)
    linked(root, "usr/lib/lib0.so.1", (f"usr/lib/libn{i}.so.1" for i in range(1000)))


def banners(root: Path) -> None:
    """A libc that says everywhere that it is one."""
    text = (b"GNU C Library " * 4 + b"\n") * 200_000
    whole = library("libc.so.6", text=text)
    links = dict.fromkeys(("usr/lib64", "usr/lib"), "-> ../lib64")
    build(root, {"etc/ld.so.conf": CONF, "lib64/libc.so.6": whole, **links})


def large_files(root: Path) -> None:
    build(root, {"etc/ld.so.conf": CONF})
    names = ["etc/ld.so.conf.d/a.conf", "etc/ld.so.conf.d/00-cdi-shim.conf", "lib/x86_64-linux-gnu/libc.so.6"]
    for name in (*names, "etc/ld-musl-x86_64.path", "etc/ld.so.cache", "lib/ld-musl-x86_64.so.1"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
        os.truncate(root / name, 10 << 30)


IMAGES: list[Callable[[Path], None]] = [
    many_names,
    long_sonames,
    long_targets,
    names_in_one_chain,
    long_numbers,
    include_everything,
    include_a_circle,
    slow_patterns,
    huge_headers,
    no_end_of_dynamic_entries,
    banners,
    large_files,
]


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.__name__)
def test_a_hook_ends_and_stays_small(stage: Stage, image: Callable[[Path], None]) -> None:
    """The stage ends what does not end; whether an image gets its cache is its own affair."""
    stage.clear()
    image(stage.root)
    hooks = ["enable-cuda-compat", "update-ldcache"]
    outcome = stage.start_hook([*hooks, *(word for hook in hooks for word in evilroot.WORDS[hook])])
    stage.clear()
    assert outcome.status == 0, outcome.err
    assert outcome.memory < MEMORY
    assert all(line.startswith("shim: warning: hook ") for line in outcome.err.splitlines())


# --- S23: nothing beside the image is read ---

PRIVATE = "/opt/secret"  # a directory that only a configuration of the host names


@pytest.mark.parametrize("shape", [None, *evilroot.LINKS_OUT[:4]], ids=lambda shape: getattr(shape, "__name__", "none"))
@pytest.mark.parametrize("place", ["etc/ld.so.conf", "etc/ld.so.conf.d/x.conf", "etc/ld.so.conf.d", "etc"])
def test_a_configuration_of_the_host_is_not_read(stage: Stage, place: str, shape: evilroot.Shape | None) -> None:
    """The control is the same text where it belongs: then the image's library is found."""
    stage.clear()
    image = {**evilroot.IMAGE, "opt/secret/libsecret.so.1": library("libsecret.so.1")}
    image["etc/ld.so.conf.d/x.conf"] = f"{PRIVATE}\n"
    if place == "etc/ld.so.conf":
        image["etc/ld.so.conf"] = f"{PRIVATE}\n"
        del image["etc/ld.so.conf.d/x.conf"]
    build(stage.root, image)
    if shape:
        shape(stage.root / place, stage.victim)
    outcome = stage.call_hook(["update-ldcache"])
    assert PRIVATE not in outcome.err
    cache = stage.root / "etc/ld.so.cache"
    names = {entry.key for entry in ldcache.decode(cache.read_bytes()).entries} if outcome.status == 0 else set()
    assert ("libsecret.so.1" in names) == (shape is None)


@pytest.mark.parametrize("place", ["etc/ld.so.conf", "etc/ld.so.conf.d", "etc"])
@pytest.mark.parametrize("shape", evilroot.LINKS_OUT[:4], ids=lambda shape: shape.__name__)
def test_who_joins_paths_reads_it(stage: Stage, place: str, shape: evilroot.Shape) -> None:
    """The other control: the links do lead to it."""
    stage.clear()
    build(stage.root, {**evilroot.IMAGE, "etc/ld.so.conf": PRIVATE, "etc/ld.so.conf.d/x.conf": PRIVATE})
    shape(stage.root / place, stage.victim)
    file = {"etc/ld.so.conf": place, "etc/ld.so.conf.d": f"{place}/x.conf", "etc": "etc/ld.so.conf"}[place]
    assert (stage.root / file).read_text() == PRIVATE
