"""The log: a line for each create that has something to tell, and never a reason to fail."""

from __future__ import annotations

import json
import os
import posix
import re
from pathlib import Path
from typing import Any

import pytest

from shim.base.findings import CdiError, Finding
from shim.cdi.plan import Plan
from shim.config.settings import Settings
from shim.create import log
from shim.create.invocation import Invocation
from shim.create.outcome import Outcome
from shim.create.recipe import Decision


def _call() -> Invocation:
    return Invocation(["low=/bin/true", "name=shim", "self=/x", "verb=create", "bundle=/b", "id=c1", "--", "true"])


def _outcome(file: Path | str | None, *findings: Finding, changed: bool = True) -> Outcome:
    outcome, decision = Outcome(), Decision(Settings())
    decision.settings.log_file = None if file is None else str(file)
    decision.requests = {"v.example/c=d": "annotation cdi.k8s.io/x"}
    origins = [{"spec": f"/etc/cdi/{name}.json", "device": "d", "edits": {}} for name in ("a", "a", "b")]
    decision.plan = Plan(["v.example/c=d"], origins)
    decision.warn(findings)
    outcome.decision, outcome.changed = decision, changed
    return outcome


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_tells_who_got_what_from_where(tmp_path: Path) -> None:
    path = tmp_path / "log"
    finding = Finding("DEVNUM_STALE", "old numbers", path="/etc/cdi/a.json")
    log.append(_call(), _outcome(path, finding, finding), rootful=True)
    (line,) = _lines(path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line.pop("time"))
    assert line == {
        "verb": "create",
        "id": "c1",
        "bundle": "/b",
        "outcome": "injected",
        "devices": {"v.example/c=d": "annotation cdi.k8s.io/x"},
        "specs": ["/etc/cdi/a.json", "/etc/cdi/b.json"],
        "folded": [],
        "findings": [finding.to_json()],
    }
    assert path.stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_its_mode_gives_nothing_to_others_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        log.append(_call(), _outcome(tmp_path / "log"), rootful=True)
    finally:
        os.umask(before)
    assert (tmp_path / "log").stat().st_mode & 0o7777 == 0o640 & ~umask


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"old": 1}\n')
    log.append(_call(), _outcome(path), rootful=True)
    failed = _outcome(path, changed=False)
    failed.refusal = CdiError([Finding("CONFIG_WRITE", "x")])
    log.append(_call(), failed, rootful=True)
    log.append(_call(), _outcome(path, Finding("DEVNUM_STALE", "x"), changed=False), rootful=True)
    assert [line.get("outcome") for line in _lines(path)] == [None, "injected", "failed", "unchanged"]


def test_a_create_that_changed_nothing_and_warned_of_nothing_leaves_no_line(tmp_path: Path) -> None:
    log.append(_call(), _outcome(tmp_path / "log", changed=False), rootful=True)
    assert not (tmp_path / "log").exists()


def test_no_name_can_write_a_line_of_its_own(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path / "log")
    assert outcome.decision
    outcome.decision.requests = {'v.example/c=d"}\n{"outcome": "injected': "annotation \r\n\x1b[2J\u2028"}
    log.append(_call(), outcome, rootful=True)
    text = (tmp_path / "log").read_text()
    assert text.count("\n") == 1
    assert text.rstrip("\n").isprintable()
    assert _lines(tmp_path / "log")[0]["devices"] == outcome.requests


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "victim")
    log.append(_call(), _outcome(tmp_path / "log"), rootful=True)
    assert not (tmp_path / "victim").exists()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _full(path: Path) -> None:
    path.symlink_to("/dev/full")


@pytest.mark.parametrize("make", [Path.mkdir, _fifo, _full])
def test_a_log_that_cannot_be_written_changes_nothing(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "log")
    log.append(_call(), _outcome(tmp_path / "log"), rootful=True)
    log.append(_call(), _outcome("/dev/full"), rootful=True)
    log.append(_call(), _outcome("/nowhere/log"), rootful=True)


def test_an_empty_name_switches_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SYSTEM_FILE", str(tmp_path / "log"))
    log.append(_call(), _outcome(""), rootful=True)
    assert os.listdir(tmp_path) == []
    log.append(_call(), _outcome(None), rootful=True)
    assert os.listdir(tmp_path) == ["log"]


def test_the_usual_places(tmp_path: Path) -> None:
    home = {b"XDG_STATE_HOME": bytes(tmp_path)}
    assert log.find(True, home) == "/var/log/shim.log"
    assert log.find(False, home) == f"{tmp_path}/shim/log"
    assert os.listdir(tmp_path) == [], "who only asks, such as `shim config show`, leaves nothing behind"
    assert log.find(False, {}) == ""
    assert log.find(False, {b"XDG_STATE_HOME": b"relative"}) == ""


def test_the_directory_of_a_user_s_log_is_made_with_its_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(posix.environ, b"XDG_STATE_HOME", bytes(tmp_path))
    for _ in range(2):
        log.append(_call(), _outcome(None), rootful=False)
    assert (tmp_path / "shim").stat().st_mode & 0o7777 == 0o700
    assert len(_lines(tmp_path / "shim/log")) == 2


def test_d7_without_root_the_log_needs_no_variable_but_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without XDG_STATE_HOME, which hardly anybody sets, there was no log."""
    home = {b"HOME": bytes(tmp_path)}
    assert log.find(False, home) == f"{tmp_path}/.local/state/shim/log"
    assert os.listdir(tmp_path) == []
    monkeypatch.delitem(posix.environ, b"XDG_STATE_HOME", raising=False)
    monkeypatch.setitem(posix.environ, b"HOME", bytes(tmp_path))
    for _ in range(2):
        log.append(_call(), _outcome(None), rootful=False)
    assert len(_lines(tmp_path / ".local/state/shim/log")) == 2
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_dir()} == {0o700}
    tmp_path.chmod(0o777)
    assert log.find(False, {b"HOME": bytes(tmp_path / "other")}) == "", "others could make it first"


def test_a_state_directory_that_is_not_ours_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert log.find(False, {b"XDG_STATE_HOME": bytes(tmp_path)}) == ""
    tmp_path.chmod(0o755)
    os.chown(tmp_path, 1234, 1234)
    assert log.find(False, {b"XDG_STATE_HOME": bytes(tmp_path)}) == ""
