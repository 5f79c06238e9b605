"""The grants of a subject, read from a file that others replace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shim.gate.grants import GrantsFile, parse

GPU = "nvidia.com/gpu=0"


def grants(*entries: tuple[str, str], **more: Any) -> str:
    return json.dumps({"version": 1, "serial": 1, "grants": [{"subject": s, "device": d} for s, d in entries], **more})


def replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def test_a_change_holds_at_once(tmp_path: Path) -> None:
    path = tmp_path / "grants.json"
    file = GrantsFile(str(path), "a")
    assert file.names() == frozenset()
    replace(path, grants(("a", GPU), ("b", "x/y=z")))
    assert file.names() == frozenset({GPU})
    replace(path, grants(("b", GPU)))
    assert file.names() == frozenset()
    path.unlink()
    assert file.names() == frozenset()


def test_nothing_is_kept_of_what_was_readable(tmp_path: Path) -> None:
    path = tmp_path / "grants.json"
    file = GrantsFile(str(path), "a")
    replace(path, grants(("a", GPU)))
    assert file.names() == frozenset({GPU})
    replace(path, "{")
    assert file.names() is None
    assert file.names() is None, "also where it is not read again"
    path.unlink()
    path.mkdir()
    assert file.names() is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"version": 2, "grants": []}',
        '{"version": true, "grants": []}',
        '{"version": 1}',
        '{"version": 1, "grants": [{"device": "a/b=c"}]}',
        '{"version": 1, "grants": [{"subject": "a", "device": 1}]}',
        '{"version": 1, "grants": [1]}',
        "[" * 100_000,
    ],
)
def test_another_form_gives_no_device(text: str) -> None:
    assert parse(text.encode(), "a") is None
