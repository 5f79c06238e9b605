"""Device nodes of the host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.host import nodes
from shim.host.fakenodes import FakeNodes


def test_a_character_device_has_type_numbers_and_permission_bits() -> None:
    status = Path("/dev/null").lstat()
    expected = ("c", 1, 3, status.st_mode & 0o7777, status.st_uid, status.st_gid)
    assert nodes.lookup("/dev/null") == expected


def test_a_pipe_has_no_numbers_and_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "pipe").chmod(0o640)
    assert nodes.lookup(str(tmp_path / "pipe")) == ("p", 0, 0, 0o640, os.geteuid(), os.getegid())


@pytest.mark.parametrize("kind", ["directory", "file", "link to a device", "dangling link"])
def test_what_is_no_device_has_no_type(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "directory":
        path.mkdir()
    elif kind == "file":
        path.write_text("")
    else:
        path.symlink_to("/dev/null" if kind == "link to a device" else "gone")
    found = nodes.lookup(str(path))
    assert found is not None
    assert found[:3] == ("", 0, 0)


@pytest.mark.parametrize("path", ["/dev/absent", "/dev/null/", "/dev/null/x", "", "a\0b", "\ud800", "x" * 5000])
def test_nothing_is_there_at_impossible_paths(path: str) -> None:
    assert nodes.lookup(path) is None


def test_a_fake_answers_from_its_table_and_asks_the_other_for_the_rest() -> None:
    fake = FakeNodes({"/dev/gpu0": ("c", 195, 0, 0o666), "/dev/null": None}, otherwise=nodes.lookup)
    assert fake("/dev/gpu0") == ("c", 195, 0, 0o666, 0, 0)
    assert fake("/dev/null") is None
    assert fake("/dev/zero") == nodes.lookup("/dev/zero")
    assert fake.asked == ["/dev/gpu0", "/dev/null", "/dev/zero"]
    assert FakeNodes({})("/dev/zero") is None
