"""The grants file and its log: whole at every moment, whoever writes and whenever a writer is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from unit.grants.grant_scene import Scene, forked, qualified

from shim.base.findings import CdiError
from shim.grants import audit, lock, reader

RACERS = 12


@pytest.fixture
def scene(trusted_path: Path) -> Scene:
    return Scene(trusted_path)


def raised(change: Callable[[], Any]) -> str:
    with pytest.raises(CdiError) as caught:
        change()
    return caught.value.findings[0].id


# --- reading ----------------------------------------------------------------------------------------------------------


def document(*grants: Any, **members: Any) -> str:
    return json.dumps({"version": 1, "serial": 1, "grants": list(grants), **members})


ONE = {"subject": "a", "device": "acme.example/gpu=0"}


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param("", "no JSON", id="empty"),
        pytest.param(document(ONE)[:-1], "no JSON", id="cut"),
        pytest.param("[]", "no JSON object", id="a list"),
        pytest.param(document(version=2), "version is 2", id="a later version"),
        pytest.param(document(version=True), "version is True", id="a version that is no number"),
        pytest.param(document(serial=-1), "serial", id="a negative serial"),
        pytest.param(document(serial="1"), "serial", id="a text as serial"),
        pytest.param(document(grants={}), "no list", id="grants of another type"),
        pytest.param(document(1), r"grants\[0\] is no object", id="a number as grant"),
        pytest.param(document({**ONE, "subject": "a/b"}), "valid subject", id="a bad subject"),
        pytest.param(document({**ONE, "device": "acme.example/gpu=*"}), "valid device", id="a pattern"),
        pytest.param(document({"subject": "a"}), "valid device", id="no device"),
        pytest.param(document({**ONE, "exclusive": 1}), "exclusive", id="a number as truth"),
        pytest.param(document(ONE, ONE), "a second time", id="a grant twice"),
        pytest.param('{"version":1,"serial":1,"grants":[],"grants":[]}', "stands twice", id="a member twice"),
    ],
)
def test_a_file_of_another_form_grants_nothing(scene: Scene, text: str, cause: str) -> None:
    scene.path.write_text(text)
    with pytest.raises(CdiError, match=cause) as caught:
        reader.read(str(scene.path))
    assert caught.value.findings[0].id == "GRANTS_UNREADABLE"
    assert reader.Reader(str(scene.path)).names("a") is None
    assert raised(lambda: scene.add("a", "0")) == "GRANTS_UNREADABLE"
    assert scene.path.read_text() == text


def _writable(path: Path) -> None:
    path.chmod(0o666)


def _foreign(path: Path) -> None:
    os.chown(path, 1234, 0)


def _below_writable(path: Path) -> None:
    path.parent.chmod(0o777)


def _link(path: Path) -> None:
    path.rename(path.with_name("target"))
    path.symlink_to("target")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [_writable, _foreign, _below_writable, _link, _fifo, _directory])
def test_a_file_that_others_could_write_grants_nothing(scene: Scene, spoil: Callable[[Path], None]) -> None:
    scene.add("a", "0")
    known = reader.Reader(str(scene.path))
    assert known.names("a") == frozenset({"acme.example/gpu=0"})
    spoil(scene.path)
    assert raised(lambda: reader.read(str(scene.path))) == "GRANTS_UNREADABLE"
    assert raised(lambda: scene.add("a", "1")) == "GRANTS_UNREADABLE"


def test_a_missing_file_grants_nothing(scene: Scene) -> None:
    assert reader.Reader(str(scene.path)).names("a") == frozenset()


def test_a_change_counts_at_the_next_question(scene: Scene) -> None:
    known = reader.Reader(str(scene.path))
    for _ in range(50):  # several in a tick of the file system's clock, in inodes that are used again
        scene.add("a", "0")
        assert known.names("a") == frozenset({"acme.example/gpu=0"})
        scene.store().revoke("a", qualified("0"))
        scene.add("a", "1")
        assert known.names("a") == frozenset({"acme.example/gpu=1"})
        scene.store().purge("a")
        assert known.names("a") == frozenset()


def test_an_unchanged_file_is_not_read_again(scene: Scene) -> None:
    scene.add("a", "0")
    os.utime(scene.path, (1, 1))
    time.sleep(0.15)  # its ctime counts, too
    known = reader.Reader(str(scene.path))
    assert known.grants() is known.grants()
    scene.path.write_text("{")
    assert known.names("a") is None, "nothing of an earlier state is kept"
    scene.path.unlink()
    assert known.names("a") == frozenset()


# --- writers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [5, pytest.param(30, marks=pytest.mark.nightly)])
def test_of_many_that_race_for_an_exclusive_device_a_single_process_wins(scene: Scene, rounds: int) -> None:
    for number in range(rounds):
        start, go = os.pipe()

        def job(index: int, start: int = start, go: int = go) -> int:
            os.close(go)
            os.read(start, 1)  # ends for all when the parent closes its end
            try:
                scene.add(f"racer-{index}", "0", exclusive=True)
            except CdiError as error:
                return 1 if [finding.id for finding in error.findings] == ["GRANT_CONFLICT"] else 2
            return 0

        pids = [forked(partial(job, index)) for index in range(RACERS)]
        os.close(start)
        os.close(go)
        statuses = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
        assert statuses == [0] + [1] * (RACERS - 1), f"round {number}"
        (winner,) = scene.state()
        scene.store().purge(winner[0])
    check_log(scene)


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_writer_that_is_killed_leaves_all_whole(scene: Scene, kills: int) -> None:
    generator = random.Random(7)

    def job() -> int:
        while True:
            scene.add("a", "0", "1")
            scene.store().purge("a")

    scene.add("b", "null")
    for _ in range(kills):
        pid = forked(job)
        time.sleep(generator.uniform(0.001, 0.04))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        grants = reader.read(str(scene.path))  # whole
        assert grants.names("b") == set(qualified("null"))
        assert len(grants.names("a")) in (0, 2), "several devices are one change"
        with lock.held(str(scene.path.with_suffix(".lock")), patience=0):
            pass
    scene.store(patience=0).purge("b")
    check_log(scene)
    assert {path.name for path in scene.path.parent.glob("grants*")} == {"grants.json", "grants.lock"}


def check_log(scene: Scene) -> None:
    """Check that the log has every change in force: replayed, it gives the state of the file."""
    lines, findings = audit.read(str(scene.audit))
    grants = reader.read(str(scene.path))
    assert findings + audit.verify(lines, grants.serial, "") == []
    abandoned = {line["of"] for line in lines if line["op"] == "abandoned"}
    state: set[tuple[str, str]] = set()
    for line in lines:
        if line["serial"] not in abandoned and line["op"] != "abandoned":
            pairs = {(line["subject"], device) for device in line["devices"]}
            state = state | pairs if line["op"] == "add" else state - pairs
    assert state == {(grant.subject, grant.device) for grant in grants.all}


def test_a_line_without_its_change_is_closed_by_the_next_writer(scene: Scene) -> None:
    scene.add("a", "0")
    before = scene.path.read_bytes()
    scene.add("b", "0", "1")
    scene.path.write_bytes(before)  # as if killed between line and rename
    lines, _ = audit.read(str(scene.audit))
    (open_line,) = audit.verify(lines, 1, "")
    assert (open_line.id, open_line.level) == ("GRANTS_AUDIT", "WARNING")
    scene.add("c", "1")
    lines, findings = audit.read(str(scene.audit))
    shown = [(line["serial"], line["op"], line.get("of")) for line in lines]
    assert shown == [(1, "add", None), (2, "add", None), (3, "abandoned", 2), (4, "add", None)]
    assert findings + audit.verify(lines, reader.read(str(scene.path)).serial, "") == []


def test_a_busy_lock_names_its_holder(scene: Scene) -> None:
    start, go = os.pipe()

    def job() -> int:
        with lock.held(str(scene.path.with_suffix(".lock"))):
            os.write(go, b"x")
            signal.pause()
        return 0

    pid = forked(job)
    try:
        os.read(start, 1)
        with pytest.raises(CdiError, match=f"process {pid} holds the lock") as caught:
            scene.store(patience=0.05).add("a", qualified("0"), scene.served)
        assert caught.value.findings[0].id == "GRANTS_BUSY"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    scene.store(patience=0).add("a", qualified("0"), scene.served)


def test_a_log_that_cannot_be_written_changes_nothing(scene: Scene) -> None:
    scene.add("a", "0")
    before = scene.path.read_bytes()
    scene.audit.unlink()
    scene.audit.mkdir()
    assert raised(lambda: scene.add("a", "1")) == "GRANTS_WRITE"
    assert scene.path.read_bytes() == before


def test_a_full_file_system_changes_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.add("a", "0")
    before = scene.path.read_bytes()

    def full(_fd: int, _mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    assert raised(lambda: scene.add("a", "1")) == "GRANTS_WRITE"
    monkeypatch.undo()
    assert scene.path.read_bytes() == before
    assert not scene.path.with_name("grants.json.new").exists()
    scene.add("a", "1")
    check_log(scene)


# --- the log ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        pytest.param(lambda lines: lines[:1] + lines[2:], "serial 3 follows 1", id="a line is missing"),
        pytest.param(lambda lines: lines[:2], "change 3 is in force and has no line", id="the end is missing"),
        pytest.param(lambda lines: [lines[0], lines[1][:20], lines[2]], "no line of the log", id="a part of a line"),
        pytest.param(lambda _lines: [], "change 3 is in force and has no line", id="no line"),
    ],
)
def test_a_log_that_was_changed(scene: Scene, edit: Callable[[list[bytes]], list[bytes]], text: str) -> None:
    for name in ("0", "1", "null"):
        scene.add("a", name)
    scene.audit.write_bytes(b"".join(line + b"\n" for line in edit(scene.audit.read_bytes().splitlines())))
    lines, findings = audit.read(str(scene.audit))
    findings += audit.verify(lines, 3, str(scene.audit))
    assert any(text in finding.text for finding in findings)
    assert {finding.id for finding in findings} == {"GRANTS_AUDIT"}


def test_a_part_of_a_line_does_not_swallow_the_next(scene: Scene) -> None:
    scene.add("a", "0")
    with scene.audit.open("ab") as file:
        file.write(b'{"serial": 2, "op"')
    scene.add("a", "1")
    lines, findings = audit.read(str(scene.audit))
    assert [line["serial"] for line in lines] == [1, 2]
    assert [finding.line for finding in findings] == [2]


def test_long_lines_at_the_end_are_read_whole(scene: Scene) -> None:
    scene.add("a", "0")
    with scene.audit.open("ab") as file:
        file.write(json.dumps({"serial": 2, "op": "purge", "devices": ["x" * 300_000]}).encode() + b"\n")
    scene.add("a", "1")
    assert [line["op"] for line in audit.read(str(scene.audit))[0]] == ["add", "purge", "abandoned", "add"]
