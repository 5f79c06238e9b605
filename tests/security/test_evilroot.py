"""S03, S08, S23, S24: whatever an image holds, nothing outside of it changes or is read, and the hook ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from security import evilroot
from security.runners import RUNNERS, Runner
from security.stage import MEMORY, Outcome, Stage

from shim.host import ldcache


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


def judge(stage: Stage, outcome: Outcome, before: dict[str, object], hook: str) -> list[str]:
    """What is wrong, in words."""
    wrong = []
    after = stage.picture()
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    if changed:
        wrong.append(f"changed outside: {sorted(changed)}")
    lines = outcome.err.splitlines()
    if outcome.status not in {0, 1} or (outcome.status == 1) != any(line.startswith("shim: error: ") for line in lines):
        wrong.append(f"status {outcome.status}")
    if len(lines) > 1 or any(not line.startswith(("shim: warning: hook ", "shim: error: hook ")) for line in lines):
        wrong.append(f"said {outcome.err!r}")
    if outcome.memory > MEMORY:
        wrong.append(f"{outcome.memory >> 20} MiB")
    cache = stage.root / "etc/ld.so.cache"
    if hook == "update-ldcache" and cache.is_file() and not cache.is_symlink() and cache.stat().st_size < 1 << 20:
        data = cache.read_bytes()
        if data.startswith(ldcache.NEW) and evilroot.FOREIGN in {entry.key for entry in ldcache.decode(data).entries}:
            wrong.append("a library of the victim is in the cache")
    return wrong


@pytest.mark.rootful
@pytest.mark.parametrize("shape", evilroot.SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.__name__)
def test_nothing_outside_of_the_image_is_touched(stage: Stage, runner: Runner, shape: evilroot.Shape) -> None:
    problems = []
    for hook, places in evilroot.PLACES.items():
        for place in places:
            stage.clear()
            evilroot.make(stage.root, stage.victim, place, shape)
            before = stage.picture()
            outcome = runner(stage, [hook])
            problems += [f"{hook} at {place}: {text}" for text in judge(stage, outcome, before, hook)]
    stage.clear()
    assert problems == []


@pytest.mark.parametrize("shape", [*evilroot.LINKS_OUT, evilroot.hard_link], ids=lambda shape: shape.__name__)
def test_the_comparison_sees_who_follows(stage: Stage, shape: evilroot.Shape) -> None:
    """The control: the naive reference is seen at every single place."""
    unseen = []
    for places in evilroot.PLACES.values():
        for place in places:
            stage.clear()
            evilroot.make(stage.root, stage.victim, place, shape)
            before = stage.picture()
            evilroot.naive(stage.root, place)
            if stage.picture() == before:
                unseen.append(place)
    stage.clear()
    assert unseen == []


def test_a_fifo_does_hold_up_who_opens_it(stage: Stage) -> None:
    """The control of the shapes that wait: `cat` never comes back from a FIFO."""
    stage.clear()
    evilroot.make(stage.root, stage.victim, "etc/ld.so.conf", evilroot.fifo)
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["cat", stage.root / "etc/ld.so.conf"], timeout=1, check=False)


def test_memory_is_seen(stage: Stage, tmp_path: Path) -> None:
    """The control of the limit of memory: a static program that reads a whole file of 100 MiB."""
    source = tmp_path / "greedy.c"
    source.write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        "int main(void) { char *p = malloc(100 << 20); memset(p, 1, 100 << 20); return p[4096] - 1; }\n"
    )
    subprocess.run(["gcc", "-static", "-o", stage.host / "bin/greedy", source], check=True)
    assert stage.run("/bin/greedy").memory > MEMORY
    assert stage.run("/bin/shim", "hook").memory < MEMORY / 2
