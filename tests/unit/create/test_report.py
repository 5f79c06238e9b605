"""One line, where the engine looks for it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from shim.base.findings import CdiError, Finding
from shim.create import report

ERROR = CdiError([Finding("DEVICE_UNKNOWN", 'no device "a/b=c"\nlevel=error msg=forged \x1b[31m')])


def test_json_lines_are_what_containerd_reads(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.json"
    log.write_text('{"level":"info","msg":"before"}\n')
    report.fail(ERROR, str(log), "json")
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    line = json.loads(lines[1])
    assert line["level"] == "error"
    assert line["msg"].startswith("shim: DEVICE_UNKNOWN: ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["time"])
    assert capfd.readouterr().err.count("\n") == 1


def test_text_lines_are_what_runc_writes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    report.fail(ERROR, str(log), "text")
    assert re.fullmatch(r'time="[^"]+" level=error msg="shim: DEVICE_UNKNOWN: .*"\n', log.read_text())


@pytest.mark.parametrize(("name", "begins"), [("oci-log", "DEVICE_UNKNOWN: "), ("log.json", "shim: DEVICE_UNKNOWN: ")])
def test_d11_podman_names_the_runtime_itself(
    tmp_path: Path, name: str, begins: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its message was "Error: OCI runtime error: shim: shim: DEVICE_UNKNOWN: …"."""
    report.fail(ERROR, str(tmp_path / name), "json")
    assert json.loads((tmp_path / name).read_text())["msg"].startswith(begins)
    assert capfd.readouterr().err.startswith("shim: DEVICE_UNKNOWN: ")


def test_control_characters_cannot_make_a_line_of_their_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report.fail(ERROR, str(tmp_path / "log"), "text")
    for text in ((tmp_path / "log").read_text(), capfd.readouterr().err):
        assert text.count("\n") == 1
        assert "\x1b" not in text
        assert r"\nlevel=error" in text


def _no_directory(path: Path) -> Path:
    return path / "missing" / "log"


def _fifo(path: Path) -> Path:
    os.mkfifo(path / "log")
    return path / "log"


def _directory(path: Path) -> Path:
    return path


@pytest.mark.parametrize("place", [_no_directory, _fifo, _directory])
def test_a_log_that_cannot_be_written_changes_nothing(
    tmp_path: Path, place: object, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(place)
    report.fail(ERROR, str(place(tmp_path)), "json")
    assert "DEVICE_UNKNOWN" in capfd.readouterr().err


def test_a_very_long_message_is_cut(capfd: pytest.CaptureFixture[str]) -> None:
    report.fail(CdiError([Finding("DEVICE_UNKNOWN", "x" * 1_000_000)]), "", "text")
    assert len(capfd.readouterr().err) < 10_000


def test_a_warning_goes_to_a_terminal_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """Engines connect stderr to the container's own output: a warning there was a line of the application's log.

    The positive control is the same warning where stderr is a terminal.
    """
    warning = Finding("DEVNUM_STALE", "major was 497 and is 498")
    report.warn(warning)
    assert capfd.readouterr().err == ""
    master, terminal = os.openpty()
    saved = os.dup(2)
    try:
        os.dup2(terminal, 2)
        report.warn(warning)
    finally:
        os.dup2(saved, 2)
    assert os.read(master, 200).startswith(b"shim: warning: DEVNUM_STALE: major was 497")
    for fd in (master, terminal, saved):
        os.close(fd)
