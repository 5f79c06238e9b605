"""`python3 -m pins`: see the package."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import compare, runner, store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Json = dict[str, Any]
HERE = Path(__file__).parent
VENV = HERE.parent.parent / ".venv"
LAST = HERE.parent.parent / "build/pins"  # what the last check made
FAMILIES = ("generated", "vectors", "bundles", "traces", "lives", "commands", "written", "calls")


def _versions(venv: Path) -> Json:
    """What else than the build decides how a text looks: the interpreter, and the libraries of the command line."""
    launcher = (venv / "bin/shim").read_bytes()
    found = {"machine": platform.machine(), "python": (venv / "bin/python3").resolve().name}
    found["libc"] = "glibc" if b"__libc_start_call_main" in launcher else "musl"
    for place in venv.glob("lib/python3*/site-packages/*.dist-info"):
        name, _, version = place.name.removesuffix(".dist-info").partition("-")
        if name in ("click", "rich", "pyyaml", "PyYAML"):
            found[name.lower()] = version
    return dict(sorted(found.items()))


def _start(versions: Json) -> list[str]:
    """What decides how many system calls it takes to start the launcher and the interpreter."""
    return [versions[name] for name in ("machine", "python", "libc")]


def make(venv: Path, families: Iterable[str]) -> int:
    """Store what a build makes of every case."""
    for family in families:
        cases = importlib.import_module(f"{__package__}.{family}").cases()
        made = list(runner.run(cases, venv))
        store.write(family, [{"made with": _versions(venv)}, *made])
        size = (store.DATA / f"{family}.xz").stat().st_size
        print(f"{family}: {sum('made' in line for line in made)} cases, {size} bytes")
    return 0


def chosen(lines: Iterable[Json], patterns: Sequence[str] = (), every: int = 1) -> Iterator[Json]:
    """The stored cases whose id matches one of the patterns, and every n-th of them, with their worlds.

    Arguments:
        lines: of a family, without the first.
        patterns: of ids; none: all.
        every: 1 for each.
    """
    count = 0
    world: Json | None = {"world": [], "name": ""}
    for line in lines:
        if "world" in line:
            world = line
        elif not patterns or any(fnmatch.fnmatchcase(line["id"], pattern) for pattern in patterns):
            count += 1
            if count % every == 0:
                if world:
                    yield world
                    world = None
                yield line


def check(
    venv: Path, patterns: Sequence[str] = (), every: Mapping[str, int] | None = None, *, again: bool = False
) -> list[str]:
    """Compare a build with what is stored.

    Arguments:
        venv: the virtual environment with the build.
        patterns: of the ids of cases; none: all.
        every: family -> n, for every n-th case of these families only.
        again: compare what the last check made, without making it.
    Returns:
        what is wrong, in words: differences that no entry names; entries that match nothing, where all was compared.
    """
    entries = compare.load()
    pinned: list[Json] = []
    made_with: Json = {}
    for family in every or store.families():
        head, *lines = store.read(family)
        made_with = head["made with"]
        pinned += chosen(lines, patterns, (every or {}).get(family, 1))
    here = _versions(venv)
    # the interpreter has its own way of starting, and so have its libraries
    without = [] if _start(here) == _start(made_with) else ["calls"]
    if not again:
        store.write("made", runner.run(pinned, venv), LAST, preset=1)
    made = {line["id"]: line for line in store.read("made", LAST) if "id" in line}
    found: list[compare.Difference] = []
    for before in pinned:
        if before.get("id") in made:
            found += compare.differences(before, made[before["id"]], without)
    told = compare.report(compare.explain(found, entries), [] if patterns or every else entries)
    if told and made_with != here:
        told.append(f"the pins were made with {made_with}, here are {here}: texts of these may differ")
    return told


def show(patterns: Sequence[str]) -> int:
    """Print cases, and what is stored of them."""
    for family in store.families():
        _, *lines = store.read(family)
        for case in chosen(lines, patterns):
            print(f"=== {case.get('id') or case.get('name')}")
            for file in case.get("files") or case.get("world") or ():
                print(f"--- {file}")
            for step in case.get("steps", ()):
                print(f"--- {step}")
                for part, text in case["made"][step["name"]].items():
                    print(f"{part}:", *compare.lines(text), sep="\n    ")
    return 0


def main(arguments: list[str]) -> int:
    """See the package; the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m pins", description="What 6022cb0 does, and what a build does.")
    parser.add_argument("what", choices=["check", "make", "show"])
    parser.add_argument("--venv", "--from", type=Path, default=VENV, help="the virtual environment with the build")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="this family alone; repeatable")
    parser.add_argument("--again", action="store_true", help="compare what the last check made, in a second")
    parser.add_argument("patterns", nargs="*", help="patterns of case ids")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        if given.what == "make":
            return make(given.venv, given.family or FAMILIES)
        if given.what == "show":
            return show(given.patterns)
        told = check(
            given.venv, given.patterns, dict.fromkeys(given.family, 1) if given.family else None, again=given.again
        )
    except (runner.BrokenError, ValueError) as error:
        print(f"pins: {error}", file=sys.stderr)
        return 2
    for one in told:
        print(one, end="\n\n")
    print(
        f"{len(told)} unexplained" if told else "as pinned, or as differences.toml says",
        f"({time.monotonic() - started:.0f} s)",
    )
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
