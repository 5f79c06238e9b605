"""Small files of our own are replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.base.replace import put, replace


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_the_new_file_is_whole_and_ours_alone(tmp_path: Path, umask: int) -> None:
    (tmp_path / "index").write_bytes(b"old")
    before = os.umask(umask)
    try:
        replace(f"{tmp_path}/index", b"new" * 1_000_000)
    finally:
        os.umask(before)
    assert (tmp_path / "index").read_bytes() == b"new" * 1_000_000
    assert (tmp_path / "index").stat().st_mode & 0o7777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each create on a full /run left a temporary file of its own there: more files, the fuller the disk."""
    (tmp_path / "index").write_bytes(b"old")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("posix.write", full)
    with pytest.raises(OSError, match="No space"):
        replace(f"{tmp_path}/index", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_directory_in_its_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    with pytest.raises(IsADirectoryError):
        replace(f"{tmp_path}/index", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_file_can_be_filled_by_a_function_and_stays_what_it_was_where_that_fails(tmp_path: Path) -> None:
    path = f"{tmp_path}/cache"

    def one(fd: int) -> None:
        os.write(fd, b"one")

    put(path, one, mode=0o644)
    assert (tmp_path / "cache").read_bytes() == b"one"
    assert (tmp_path / "cache").stat().st_mode & 0o7777 == 0o644

    def fail(fd: int) -> None:
        os.write(fd, b"half")
        raise OSError(30, "the image's file system is read-only")

    with pytest.raises(OSError, match="read-only"):
        put(path, fail)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"one"]
