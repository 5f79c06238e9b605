"""A /run/shim that is not ours costs every create a cold start, and no command reported it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.host import run_directory


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "shim"
    made.mkdir(mode=0o700)
    return made


def _file(directory: Path) -> None:
    directory.rmdir()
    directory.write_text("")


def _link(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))
    directory.symlink_to("elsewhere")


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "another's": (lambda path: os.chown(path, 1234, 0), "it belongs to uid 1234"),
    "open to everybody": (lambda path: path.chmod(0o777), "others can write it (mode 0777)"),
    "open to its group": (lambda path: path.chmod(0o770), "others can write it (mode 0770)"),
    "a file": (_file, "it is no directory"),
    "a link": (_link, "it is no directory"),
}


@pytest.mark.parametrize(("spoil", "objection"), BAD.values(), ids=BAD)
def test_a_directory_that_is_not_ours_is_reported(
    directory: Path, spoil: Callable[[Path], object], objection: str
) -> None:
    spoil(directory)
    (finding,) = run_directory.findings(str(directory), os, os.geteuid())
    assert (finding.id, finding.level, finding.path) == ("RUN_DIR_UNTRUSTED", "WARNING", str(directory))
    assert finding.text.startswith(f"{objection}, so nothing is kept in it")
    assert f"rm -r {directory}" in finding.remedy


GOOD: dict[str, Callable[[Path], object]] = {
    "as a create makes it": lambda _: None,
    "as a line of tmpfiles.d makes it": lambda path: path.chmod(0o755),
    "missing": Path.rmdir,
}


@pytest.mark.parametrize("change", GOOD.values(), ids=GOOD)
def test_one_that_is_ours_or_missing_is_none(directory: Path, change: Callable[[Path], object]) -> None:
    change(directory)
    assert run_directory.findings(str(directory), os, os.geteuid()) == []


def test_without_a_directory_there_is_nothing_to_report() -> None:
    assert run_directory.findings("", os, 0) == []
