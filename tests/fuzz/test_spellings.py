"""The fuzz target of config.json's spellings: the corpus passes, gets everywhere, and notices a careless reader."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz import spellings as target
from shim.config.settings import Settings
from shim.create.recipe import Decision

CORPUS = Path(__file__).parent / "corpus/spellings"
POOL = [path.read_bytes() for path in sorted(CORPUS.iterdir())]


def few(count: int) -> Callable[[], bool]:
    """Goes on for so many inputs."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


def test_create_and_runc_understand_config_json_alike(tmp_path: Path) -> None:
    """Every outcome comes, so nothing passes because the inputs never get there."""
    tally = target.run(1, POOL, few(1500), tmp_path)
    for outcome in (
        "given, 1 devices",
        "given, 2 devices",
        "nothing is given, 0 keys",
        "refused: CONFIG_JSON, asked",
        "refused: CONFIG_JSON, not asked for runc",
        "refused: ANNOTATION_INVALID, asked",
        "runc refuses it, shim: nothing",
    ):
        assert tally[outcome] > 0, outcome
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_create_and_runc_understand_a_hundred_thousand_alike(tmp_path: Path) -> None:
    target.run(2, POOL, few(100_000), tmp_path)


def _careless(_host: target.Host, data: bytes) -> tuple[Decision, bytes]:
    """Reads as most programs do: the last of two members counts, and no other spelling."""
    decision = Decision(Settings())
    try:
        config = json.loads(data)
        annotations = config.get("annotations") or {}
        decision.requests = {name: "annotation" for text in annotations.values() for name in text.split(",") if name}
    except (ValueError, AttributeError):
        return decision, data
    return decision, data


def test_a_careless_reader_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target.Host, "decide", _careless)
    monkeypatch.setattr(target, "check_edits", lambda _before, _after: None)
    with pytest.raises(AssertionError):
        target.run(1, POOL, few(3000), tmp_path)
    (crash,) = tmp_path.iterdir()
    assert re.fullmatch(r"crash-spellings-[0-9a-f]{16}", crash.name)


def test_what_the_command_says() -> None:
    argv: list[str | Path] = [sys.executable, "-m", "fuzz.spellings", "--seed", "1", CORPUS]
    read = subprocess.run(argv, cwd=CORPUS.parents[2], capture_output=True, text=True, check=False, timeout=60)
    assert (read.returncode, read.stderr) == (0, "")
    assert read.stdout.splitlines()[-1] == f"{len(POOL)} inputs"
