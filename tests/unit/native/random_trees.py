"""Roots from a seed, full of what a directory of libraries may hold: the corpus of test_ldcache_random.py."""

from __future__ import annotations

import random

from unit.native.elves import AARCH64, I386, X86_64, library
from unit.native.trees import CONF, USR, Entry

USUAL = (USR, "usr/lib", "usr/local/lib", "lib32", "usr/lib/i386-linux-gnu")
EXTRA = ("opt/gpu/lib", "opt/gpu/lib64", "usr/local/cuda-12.4/compat", "srv/ünï/lib", "opt/a b/lib", "data/haswell")
HWCAPS = ("x86-64-v2", "x86-64-v3", "power9", "with:colon", ".hidden", "empty")
STEMS = ("c", "m", "GL", "cuda", "nvidia-ml", "stdc++", "foo", "foo2", "foo-1.0", "a.b", "ünïcode", "with space", "007")
VERSIONS = ("1", "2", "9", "10", "01", "1.2", "1.10", "0", "550.54.14", "2147483648", "99999999999999", "1a", "", "1.")
SCRIPT = "/* GNU ld script */ GROUP ( /lib/libc.so.6 )"


def tree(seed: int) -> dict[str, Entry]:
    """The entries of a root.

    Arguments:
        seed: the same seed gives the same root.
    Returns:
        what `trees.build` makes; at least one library of this architecture lies in a usual directory.
    """
    dice = random.Random(seed)
    entries: dict[str, Entry] = {"etc/ld.so.conf": CONF, f"{USR}/libcertain.so.1.0": library("libcertain.so.1")}
    extra = dice.sample(EXTRA, dice.randrange(4))
    for number, directory in enumerate(extra):
        entries[f"etc/ld.so.conf.d/{dice.randrange(20)}{number}.conf"] = f"# {seed}\n/{directory}\n"
    for directory in (USR, *dice.sample(USUAL, 2), *extra):
        for _ in range(dice.randrange(3, 14)):
            _add(dice, entries, directory)
        for hwcaps in dice.sample(HWCAPS, dice.randrange(3)):
            for _ in range(dice.randrange(3)):
                _add(dice, entries, f"{directory}/glibc-hwcaps/{hwcaps}")
    return entries


def _add(dice: random.Random, entries: dict[str, Entry], directory: str) -> None:
    """A file, a link or a directory, if nothing has its name."""
    stem, version = dice.choice(STEMS), dice.choice(VERSIONS)
    soname = f"lib{stem}.so.{version.partition('.')[0]}"
    path = f"{directory}/lib{stem}.so{'.' if version else ''}{version}"
    others = [name for name in entries if name.startswith(f"{directory}/lib")] or ["nothing"]
    other = dice.choice(others)
    choices: list[Entry] = [
        *[library(soname, needed=dice.choice(((), ("libc.so.6",))), padding=dice.randrange(3000))] * 6,
        library(),
        library(dice.choice(("libother.so.1", "other", "", "../libup.so.1"))),
        library(soname, machine=I386, wide=False),
        library(soname, machine=dice.choice((X86_64, AARCH64))),
        library(soname, isa=dice.choice((1, 3, 7))),
        library(soname, kind=dice.choice((1, 2))),
        library(soname)[: dice.randrange(300)],
        f"-> {other.rpartition('/')[2]}",
        f"-> /{other}",
        "-> nowhere",
        f"-> {path.rpartition('/')[2]}",
        SCRIPT,
        None,
    ]
    entries.setdefault(path, dice.choice(choices))
