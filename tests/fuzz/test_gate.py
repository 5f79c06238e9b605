"""The fuzz target of the gate: it gets everywhere, and notices a careless gate."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz import dockerlike
from fuzz import gate as target
from shim.gate.judge import structure

CORPUS = Path(__file__).parent / "corpus/gate"
FILES = [path.read_bytes() for path in sorted(CORPUS.iterdir())]


REASONS = [
    *("ok", "ok-judged", "ok-granted", "ok-start", "grant-missing", "privileged", "device-raw-path", "gpus-request"),
    *("json-duplicate-key", "json-key-alias", "json-type", "json-unknown-field", "json-invalid", "http-framing"),
    *("http-malformed", "http-upgrade", "path-form", "annotation-reserved", "bind-device", "volume-options", "cap-add"),
    *("runtime-not-allowed", "host-pid", "system-paths"),
]


def few(count: int) -> Callable[[], bool]:
    """Goes on for so many inputs."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


def test_the_gate_and_a_daemon_understand_twenty_thousand_requests_alike(tmp_path: Path) -> None:
    """Every outcome comes, so nothing passes because the inputs never get there."""
    tally = target.run(1, FILES, few(20_000), tmp_path)
    for reason in REASONS:
        assert tally[reason] > 5, reason
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_the_gate_and_a_daemon_understand_two_hundred_thousand_requests_alike(tmp_path: Path) -> None:
    target.run(2, FILES, few(200_000), tmp_path)


@pytest.mark.parametrize("careless", ["aliases", "repeats", "top"])
def test_a_careless_gate_is_noticed(careless: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with a mistake that a gate could have: it passes on what only Go matches, or drops what it does not know."""
    honest = structure.canonical

    def canonical(value: object, struct: str, *, is_stored: bool = False) -> dict[str, object]:
        if not isinstance(value, dict):
            return honest(value, struct, is_stored=is_stored)
        if careless == "aliases":
            kept = {key: item for key, item in value.items() if key.isascii()}
            return {**honest(kept, struct), **{key: item for key, item in value.items() if not key.isascii()}}
        if careless == "repeats":
            known = {key.lower(): key for key in value}
            return {**honest({key: value[key] for key in known.values()}, struct)}
        return honest(value, struct, is_stored=True)

    for module in ("shim.gate.judge.create", "shim.gate.judge.decision", "shim.gate.judge.structure"):
        monkeypatch.setattr(f"{module}.canonical", canonical)
    with pytest.raises(AssertionError):
        target.run(1, FILES, few(20_000), tmp_path)
    (crash,) = tmp_path.iterdir()
    assert re.fullmatch(r"crash-gate-[0-9a-f]{16}", crash.name)


def test_the_model_of_go_folds_merges_and_reuses() -> None:
    twice = b'{"HostConfig":{"Devices":[{"PathOnHost":"/dev/x"}]},"ho\xc5\xbftconfig":{"devices":[{}],"Runtime":"a"}}'
    assert dockerlike.decode("create", twice)["HostConfig"] == {"Devices": [{"PathOnHost": "/dev/x"}], "Runtime": "a"}
    assert dockerlike.decode("exec", b'{"privileged":true}{}') == {"Privileged": True}
    assert dockerlike.read_head(b"POST /a%2Fb HTTP/1.1\nX: a\n b\n\n").headers == {"x": ["a b"]}


def test_what_the_command_says() -> None:
    argv: list[str | Path] = [sys.executable, "-m", "fuzz.gate", "--seed", "1", CORPUS]
    read = subprocess.run(argv, cwd=CORPUS.parents[2], capture_output=True, text=True, check=False, timeout=60)
    assert (read.returncode, read.stderr) == (0, "")
    count = len(target.pool(FILES))
    assert read.stdout.splitlines()[-1] == f"{count} inputs"
    assert count > len(json.loads(target.VECTORS.read_text())) / 2
