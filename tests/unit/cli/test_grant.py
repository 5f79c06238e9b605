"""`shim grant`: grants from the command line, and the containers that keep what was revoked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.grants.grant_scene import Scene, qualified

from shim.create import record_files

GRANTS, LOG, RECORDS = Path("/etc/shim/grants.json"), Path("/var/log/shim"), Path("/run/shim/c")


class Command:
    """The command, on specs of its own."""

    def __init__(self, top: Path, shim: Path) -> None:
        self.scene, self.top, self._shim = Scene(top), top, shim
        (top / "config.toml").write_text(f'[cdi]\nspec-dirs = ["{self.scene.specs}"]\n')
        self.programs = top / "bin"
        self.programs.mkdir()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.programs}:{os.environ['PATH']}"
        environment = {**os.environ, "SHIM_CONFIG": str(self.top / "config.toml"), "PATH": path}
        command = [str(self._shim), "grant", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-o", "json").stdout)

    def container(self, id: str, *names: str, program: str = "engine", subject: str = "") -> Path:
        """A running container with devices, by its record; gives the directory of its state."""
        state = self.top / "state" / id
        state.mkdir(parents=True)
        config = self.top / "state" / f"{id}.json"
        config.write_text("{}")
        key = record_files.key(program, "/r", id)
        entry: dict[str, Any] = {"format": 1, "name": program, "root": "/r", "id": id, "config": str(config), "env": {}}
        entry |= {"identity": [], "wanted": dict.fromkeys(qualified(*names), "--device"), "origins": [], "folded": []}
        entry |= {"subject": subject} if subject else {}
        RECORDS.parent.mkdir(mode=0o700, exist_ok=True)
        RECORDS.mkdir(mode=0o700, exist_ok=True)
        life = [str(self.top), [str(state)], "", 0, 0]
        (RECORDS / key).write_text(f"{json.dumps(life)}\n{json.dumps(entry)}\n")
        (RECORDS / key).chmod(0o600)
        return state

    def program(self, status: int = 0) -> Path:
        """A low-level runtime that notes its arguments; gives the note."""
        note = self.top / "note"
        (self.programs / "engine").write_text(f'#!/bin/sh\necho "$@" >> {note}\necho refused >&2\nexit {status}\n')
        (self.programs / "engine").chmod(0o755)
        return note


@pytest.fixture
def command(trusted_path: Path, installed: Path) -> Iterator[Command]:
    yield Command(trusted_path, installed)
    for path in GRANTS.parent.glob("grants*"):
        path.unlink()
    for directory in (LOG, RECORDS):
        shutil.rmtree(directory, ignore_errors=True)


def test_from_add_to_purge(command: Command) -> None:
    names = qualified("0", "1")
    done = command.run("add", "repo-a", "--device", names[0], "--device", names[1], "--exclusive")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{names[0]}: granted to repo-a\n{names[1]}: granted to repo-a\n"
    listed = command.json("list")
    assert [(one["device"], one["exclusive"], one["served"]) for one in listed["grants"]] == [
        (name, True, True) for name in names
    ]
    assert command.run("add", "fork-of-repo-a", "--device", names[0]).returncode == 1
    assert command.run("rename", "repo-a", "b").returncode == 0
    assert "nothing is granted to repo-a" in command.run("list", "repo-a").stderr
    assert command.json("purge", "b")["changed"] == [{"subject": "b", "device": name} for name in names]
    done = command.run("log")
    assert done.returncode == 0
    assert [line.split()[3] for line in done.stdout.splitlines()[1:]] == ["add", "rename", "purge"]
    assert command.json("log", "repo-a")["changes"][1]["to"] == "b"


def test_a_dry_run_shows_the_difference(command: Command) -> None:
    done = command.run("add", "a", "--device", *qualified("0"), "--dry-run")
    assert done.returncode == 0
    assert '+    {"subject": "a", "device": "acme.example/gpu=0"' in done.stdout
    assert "would be granted to a" in done.stdout
    assert not GRANTS.exists()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("add", "a"), 2),
        (("revoke", "a"), 2),
        (("add", "a", "--device", "acme.example/gpu=zero"), 1),
        (("purge", "a"), 1),
    ],
)
def test_exit_status(command: Command, words: tuple[str, ...], status: int) -> None:
    assert command.run(*words).returncode == status


@pytest.mark.rootful
def test_revoke_lists_and_stops_the_containers_that_run(command: Command) -> None:
    command.run("add", "a", "--device", *qualified("0"), "--device", *qualified("1"))
    command.container("c1", "0")
    command.container("c2", "1")
    command.container("c3", "0").rmdir()  # it ended
    note = command.program()
    done = command.run("revoke", "a", "--device", *qualified("0"))
    assert done.returncode == 0
    assert "1 running container keeps the device until stopped" in done.stdout
    assert "engine --root /r kill c1 KILL" in done.stdout
    assert not note.exists()
    command.run("add", "a", "--device", *qualified("0"))
    (one,) = command.json("revoke", "a", "--device", *qualified("0"), "--stop")["running"]
    assert (one["id"], one["result"]) == ("c1", "stopped")
    assert note.read_text() == "--root /r kill c1 KILL\n"


@pytest.mark.rootful
def test_what_may_be_a_container_of_another_subject_is_not_stopped(command: Command) -> None:
    for subject in ("a", "b"):
        command.run("add", subject, "--device", *qualified("0"))
    command.container("c1", "0")
    note = command.program()
    done = command.run("purge", "a", "--stop")
    assert done.returncode == 1
    assert "left alone: b has the device, too" in done.stdout
    assert not note.exists()


@pytest.mark.rootful
def test_a_container_is_stopped_by_the_subject_of_its_record(command: Command) -> None:
    for subject in ("a", "b"):
        command.run("add", subject, "--device", *qualified("0"))
    command.container("c1", "0", subject="a")
    command.container("c2", "0", subject="b")
    note = command.program()
    assert command.run("purge", "a", "--stop").returncode == 0
    assert note.read_text() == "--root /r kill c1 KILL\n"


@pytest.mark.rootful
def test_what_cannot_be_stopped_is_reported(command: Command) -> None:
    command.run("add", "a", "--device", *qualified("0"))
    command.container("c1", "0")
    assert "left alone: engine is not here" in command.run("purge", "a", "--stop").stdout
    command.program(status=3)
    command.run("add", "a", "--device", *qualified("0"))
    done = command.run("purge", "a", "--stop")
    assert (done.returncode, "not stopped: refused" in done.stdout) == (1, True)


def test_a_log_with_a_gap_is_an_error(command: Command) -> None:
    for name in qualified("0", "1", "null"):
        command.run("add", "a", "--device", name)
    file = LOG / "audit.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(lines[0] + lines[2])
    done = command.run("log")
    assert done.returncode == 1
    assert "GRANTS_AUDIT" in done.stderr
