"""The fuzz target of the reader of caches: the corpus passes, it gets everywhere, and it notices a bad reader."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuzz import cache as target
from shim.host import ldcache
from shim.host.ldcache import Cache, Entry

CORPUS = Path(__file__).parent / "corpus/cache"
POOL = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
EVERYWHERE = 30_000  # inputs of seed 1 until each complaint of the reader has come


OVERLAP = "its names lie over each other, and are more than N bytes together"


def few(count: int) -> Callable[[], bool]:
    """Goes on for so many inputs."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_passes_and_so_does_each_beginning_of_its_files(path: Path) -> None:
    data = path.read_bytes()
    assert target.outcome(data).startswith("a cache: ") is (path.name != "old-format")
    for size in range(len(data)):
        assert not target.outcome(data[:size]).startswith("a cache: ")


def test_damage_leads_to_every_complaint_and_to_caches(tmp_path: Path) -> None:
    """Without this all could pass because nothing gets behind the first check."""
    source = Path(ldcache.__file__).read_text(encoding="utf-8")
    complaints = {re.sub(r"\{[^}]*\}|\d+", "N", text) for text in re.findall(r'NotACacheError\(f?"(.*)"\)', source)}
    assert len(complaints) == 10
    tally = target.run(1, POOL, few(EVERYWHERE), tmp_path)
    found = set(tally.outcomes)
    assert complaints - found <= {"N bytes are no cache", OVERLAP}  # these need megabytes
    assert len({text for text in found if text.startswith("a cache: ")}) > 10
    assert list(tmp_path.iterdir()) == []


def test_a_seed_gives_the_same_inputs_again() -> None:
    once, again, other = (list(itertools.islice(target.inputs(seed, POOL), 300)) for seed in (7, 7, 8))
    assert once == again
    assert once != other


HUGE: list[tuple[str, dict[str, Any], str]] = [
    ("entries with the same megabyte for a name", {"entries": 100_000}, "a cache: "),
    ("entries that each have a byte less of it", {"entries": 100_000, "step": 1}, OVERLAP),
    ("generators of megabytes", {"sections": 100_000}, "a cache: "),
    (
        "lists of names of directories",
        {"sections": 100_000, "kinds": 2, "hwcap": 1 << 62},
        "a name begins at N, outside",
    ),
]


@pytest.mark.parametrize(("name", "change", "expected"), HUGE, ids=[case[0] for case in HUGE])
def test_few_megabytes_cannot_ask_for_much(name: str, change: dict[str, Any], expected: str) -> None:
    """Each name and each section was decoded as often as it was named, a hundred thousand times here."""
    whole = {"entries": 1, "step": 0, "hwcap": 0, "text": b"a", "room": 1 << 20, "sections": 1, "kinds": 1, **change}
    data = target.giant(**whole)
    with target.bounds(target.TIME, 128 << 20):
        assert target.outcome(data).startswith(expected), name


def _endless(data: bytes) -> Cache:
    while data:
        pass
    return Cache([], "")


def _greedy(data: bytes) -> Cache:
    return Cache([Entry("a" * (1 << 22), "", 0, 0, "") for _ in data * 1000], "")


def _liar(_data: bytes) -> Cache:
    return Cache([Entry("libnone.so.1", "/usr/lib/libnone.so.1", 0x303, 0, "")], "")


def _careless(data: bytes) -> Cache:
    raise IndexError(len(data))


@pytest.mark.parametrize(
    ("reader", "error"),
    [
        pytest.param(_endless, TimeoutError, id="one that does not end"),
        pytest.param(_greedy, MemoryError, id="one that takes all memory"),
        pytest.param(_liar, AssertionError, id="one that answers what is not in the file"),
        pytest.param(_careless, IndexError, id="one that raises something else"),
    ],
)
def test_a_reader_that_does_what_it_must_not_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Callable[[bytes], Cache], error: type[Exception]
) -> None:
    decode = ldcache.decode
    monkeypatch.setattr(target, "TIME", 0.2)
    # what the corpus holds is read well, and only what is damaged is not
    monkeypatch.setattr(ldcache, "decode", lambda data: (decode if data in POOL else reader)(data))
    with pytest.raises(error):
        target.run(1, POOL, few(10), tmp_path)
    (crash,) = tmp_path.iterdir()
    assert re.fullmatch(r"crash-cache-[0-9a-f]{16}", crash.name)
    with pytest.raises(error), target.bounds(target.TIME, target.MEMORY):
        target.outcome(crash.read_bytes())


def test_what_the_command_says(tmp_path: Path) -> None:
    def fuzz(*words: str | Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "fuzz.cache", *words]
        return subprocess.run(argv, cwd=CORPUS.parents[2], capture_output=True, text=True, check=False, timeout=60)

    read = fuzz("--seed", "1", CORPUS / "one-library", CORPUS / "old-format")
    assert (read.returncode, read.stderr) == (0, "")
    assert re.match(r"seed 1\n +1 .*\n +1 .*\n2 inputs, slowest \d+ ms\n$", read.stdout)
    damaged = fuzz("--seconds", "1", "--crashes", tmp_path, CORPUS)
    assert (damaged.returncode, damaged.stderr) == (0, "")
    assert int(damaged.stdout.splitlines()[-1].split()[0]) > len(POOL)
