"""An administrator's file is replaced whole, and what is about it stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.base import files


def test_a_new_file_has_the_mode_that_is_asked_for_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files.write(tmp_path / "new", b"one")
        files.write(tmp_path / "secret", b"two", mode=0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "new").read_bytes() == b"one"
    assert [oct((tmp_path / name).stat().st_mode & 0o7777) for name in ("new", "secret")] == ["0o644", "0o600"]


def test_owner_mode_and_attributes_stay(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(b"old")
    os.chown(file, 1234, 5678)
    file.chmod(0o640)
    os.setxattr(file, "user.label", b"kept")
    files.write(file, b"new")
    status = file.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (1234, 5678, 0o640)
    assert os.getxattr(file, "user.label") == b"kept"
    assert file.read_bytes() == b"new"


def test_the_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store/real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("store/real")
    files.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").readlink() == Path("store/real")
    assert (tmp_path / "store/real").read_bytes() == b"new"


def test_a_link_is_replaced_itself_where_it_is_not_to_be_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    files.write(tmp_path / "link", b"new", follow=False)
    assert (tmp_path / "link").read_bytes() == b"new"
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_the_longest_name_has_a_temporary_file_as_well(tmp_path: Path, name: str) -> None:
    files.write(tmp_path / name, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a FIFO", "a directory"])
def test_nothing_but_a_file_is_replaced(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "odd")
    with pytest.raises(ValueError, match="no regular file"):
        files.write(tmp_path / "odd", b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["odd"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write(tmp_path / "config", b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["config"]
    assert (tmp_path / "config").read_bytes() == b"old"


def test_what_waits_for_a_writer_is_not_opened(tmp_path: Path) -> None:
    """`shim runtime configure`, verify and --manifest hung for ever on a FIFO in the place of a file."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    for name in ("fifo", "link"):
        with pytest.raises(OSError, match="it is no regular file"):
            files.read(tmp_path / name)
    with pytest.raises(OSError, match="it is no regular file"):
        files.read("/dev/null")
    with pytest.raises(IsADirectoryError):
        files.read(tmp_path)


def test_a_pipe_that_the_shell_has_opened_is_read(tmp_path: Path) -> None:
    """`--manifest <(kubectl get …)`."""
    reader, writer = os.pipe()
    try:
        os.write(writer, b"text")
        os.close(writer)
        assert files.read(f"/dev/fd/{reader}") == b"text"
    finally:
        os.close(reader)
    (tmp_path / "file").write_bytes(b"0123456789")
    assert files.read(tmp_path / "file", 4) == b"0123"
    assert files.read(tmp_path / "file") == b"0123456789"
