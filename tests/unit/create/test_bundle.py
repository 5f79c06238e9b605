"""config.json: read once, replaced as a whole, never touched without need."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from shim.base.findings import CdiError
from shim.create.bundle import MAX_SIZE, Bundle, edit


def _config(directory: Path, text: str = '{"ociVersion":"1.0.2"}') -> Path:
    path = directory / "config.json"
    path.write_text(text)
    return path


def _replace(bundle: Bundle, config: dict[str, Any]) -> None:
    assert bundle.put(config)


def test_what_is_written_is_what_was_given_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = _config(tmp_path)
    config: dict[str, Any] = {"x-unknown": {"deep": [1, None, True, 1.5, "ü\u2028"]}, "ociVersion": "1.0.2"}
    _replace(Bundle(str(path)), config)
    assert json.loads(path.read_text()) == config
    assert os.listdir(tmp_path) == ["config.json"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640, 0o666])
@pytest.mark.parametrize("umask", [0, 0o22, 0o77])
def test_mode_and_owner_stay_whatever_the_umask_is(tmp_path: Path, mode: int, umask: int) -> None:
    path = _config(tmp_path)
    path.chmod(mode)
    os.chown(path, 1234, 2345)
    before = os.umask(umask)
    try:
        _replace(Bundle(str(path)), {"a": 1})
    finally:
        os.umask(before)
    status = path.stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (mode, 1234, 2345)


def test_reading_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = _config(tmp_path)
    before = path.stat()
    edit(str(path), dict)
    assert path.stat() == before or path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_temporary_file_of_a_killed_process_with_our_pid_is_no_obstacle(tmp_path: Path) -> None:
    path = _config(tmp_path)
    Path(f"{path}.shim-{os.getpid()}").write_text("half of a config")
    _replace(Bundle(str(path)), {"a": 1})
    assert json.loads(path.read_text()) == {"a": 1}
    assert os.listdir(tmp_path) == ["config.json"]


def test_a_link_in_place_of_the_temporary_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    path = _config(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    Path(f"{path}.shim-{os.getpid()}").symlink_to(victim)
    _replace(Bundle(str(path)), {"a": 1})
    assert victim.read_text() == "precious"


def test_when_the_directory_takes_no_file_the_old_one_stays(tmp_path: Path) -> None:
    path = _config(tmp_path)
    bundle = Bundle(str(path))
    bundle.path = str(tmp_path / "missing" / "config.json")
    with pytest.raises(CdiError, match="cannot be replaced") as caught:
        _replace(bundle, {})
    assert caught.value.findings[0].id == "CONFIG_WRITE"
    assert path.read_text() == '{"ociVersion":"1.0.2"}'


BAD_TEXTS = {
    "not JSON at all": b"hello",
    "a list": b"[]",
    "empty": b"",
    "cut in the middle": b'{"a": {"b"',
    "two values": b"{} {}",
    "NaN": b'{"a": NaN}',
    "Latin-1": b'{"a": "\xe9"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "nested without end": b"[" * 200_000,
    "a raw control character in a text": b'{"a": "\n"}',
}


@pytest.mark.parametrize("raw", BAD_TEXTS.values(), ids=BAD_TEXTS.keys())
def test_what_is_no_json_object_in_utf_8_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(raw)
    assert Bundle(str(path)).fault
    with pytest.raises(CdiError) as caught:
        edit(str(path), dict)
    assert caught.value.findings[0].id == "CONFIG_JSON"
    assert caught.value.findings[0].path == str(path)
    assert path.read_bytes() == raw


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)


def _make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, MAX_SIZE + 1)


def _make_nothing(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)


BAD_FILES = {"a directory": Path.mkdir, "a FIFO": _make_fifo, "more than 16 MiB": _make_huge, "missing": _make_nothing}


@pytest.mark.parametrize("make", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_what_is_no_small_regular_file_is_refused_without_a_hang(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "config.json")
    assert Bundle(str(tmp_path / "config.json")).fault
    with pytest.raises(CdiError) as caught:
        edit(str(tmp_path / "config.json"), dict)
    assert caught.value.findings[0].id == "CONFIG_JSON"


def test_messages_hold_no_words_that_an_engine_takes_for_another_exit_status(tmp_path: Path) -> None:
    """docker and podman turn these into 126 and 127, "command not found"."""
    fault = Bundle(str(tmp_path / "config.json")).fault
    assert fault
    for words in ("no such file", "executable file not found", "permission denied"):
        assert words not in fault.lower()
