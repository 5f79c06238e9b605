"""Needles: what the launcher looks for where a configuration exists."""

from __future__ import annotations

from pathlib import Path

import pytest

import shim
from shim.config import needles

KNOWN: list[tuple[str, list[int] | None]] = [("/etc/a b", [1, 2, 3, 4, 5]), ("/etc/c", None)]


def test_the_file_holds_version_inputs_and_needles_and_an_end(tmp_path: Path) -> None:
    path = tmp_path / "needles"
    assert needles.write(str(path), KNOWN, ["x.example/", "cdi.k8s.io/", "AMD_VISIBLE_DEVICES"])
    assert path.read_text().splitlines() == [
        f"shim-needles 1 {shim.__version__}",
        "input 1 2 3 4 5 /etc/a b",
        "absent /etc/c",
        "needle cdi.k8s.io/",
        "needle x.example/",
        "needle AMD_VISIBLE_DEVICES",
        "end",
    ]
    assert path.stat().st_mode & 0o7777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["needles"]


@pytest.mark.parametrize("needle", ["", "ü/", "a\nneedle b", 'a"b', "a\\b", "a b", "a<b", "a&b", "\x7f"])
def test_what_json_could_spell_otherwise_is_no_needle_so_that_python_is_asked(tmp_path: Path, needle: str) -> None:
    assert not needles.write(str(tmp_path / "needles"), KNOWN, ["x.example/", needle])
    assert list(tmp_path.iterdir()) == []


def test_a_path_with_a_line_break_cannot_be_written_down(tmp_path: Path) -> None:
    assert not needles.write(str(tmp_path / "needles"), [("/etc/a\nend", None)], [])
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_takes_no_file_is_no_error(tmp_path: Path) -> None:
    assert not needles.write(str(tmp_path / "missing" / "needles"), KNOWN, [])
