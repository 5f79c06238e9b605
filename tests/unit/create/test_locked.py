"""The lock of the specs: what is written, and what differs from it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from shim.cdi import directories
from shim.cdi.plan import Plan
from shim.config.settings import Settings
from shim.create import lock_file, lock_writer, locked
from shim.create.lock_writer import OfHost
from shim.create.world import World

pytestmark = pytest.mark.rootful

Json = dict[str, Any]


class Machine:
    """A spec with a program and three sources of mounts, below a directory that only root can write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.specs, self.lock = directory / "cdi", directory / "cdi.lock"
        self.program, self.library, self.folder = (directory / name for name in ("hook", "libacme.so.1", "share"))
        self.specs.mkdir()
        self.folder.mkdir()
        self.library.write_text("old")
        self.program.write_text("#!/bin/sh\n")
        self.spec = self.specs / "acme.json"
        self.write("0", "1")

    def write(self, *names: str, env: str = "A=1") -> None:
        """Write the spec."""
        sources = [self.library, self.folder, "/dev/null", self.directory / "absent"]
        mounts = [{"hostPath": str(path), "containerPath": "/x", "options": ["bind"]} for path in sources]
        mounts.append({"hostPath": "tmpfs", "containerPath": "/t", "type": "tmpfs"})
        hooks = [{"hookName": stage, "path": path} for stage, path in self.hooks()]
        devices = [{"name": name, "containerEdits": {"env": [f"N={name}", env]}} for name in names]
        common = {"mounts": mounts, "hooks": hooks}
        document = {"cdiVersion": "0.5.0", "kind": "acme.example/gpu", "devices": devices, "containerEdits": common}
        self.spec.write_text(json.dumps(document))

    def hooks(self) -> list[tuple[str, str]]:
        """Stage and program; the latter of startContainer is one of the image."""
        return [("createContainer", str(self.program)), ("startContainer", "/bin/inside")]

    def read(self) -> list[Any]:
        """The usable specs."""
        return directories.read([str(self.specs)]).specs

    def seal(self) -> Json:
        """Write the lock."""
        lock = lock_writer.make(self.read())
        self.lock.write_text(lock_writer.encode(lock))
        return lock

    def damage(self, entry: Any) -> None:
        """Give the library another entry in the lock."""
        lock = json.loads(self.lock.read_text())
        lock["files"][str(self.library)] = entry
        self.lock.write_text(json.dumps(lock))

    def refused(self) -> list[str]:
        """What a create refuses, as text with short paths."""
        settings = Settings()
        settings.path, settings.locked = f"{self.directory}/config.toml", True
        [spec] = self.read()
        plan = Plan([], [{"spec": spec.path, "device": None, "edits": spec.edits}])
        findings = locked.objections(plan, settings, World(), rootful=True, user=0)
        assert {finding.id for finding in findings} <= {"SPEC_UNLOCKED"}
        return [str(finding).replace(f"{self.directory}/", "") for finding in findings]

    def differences(self) -> list[tuple[str, str]]:
        """Level and text of what a check reports."""
        findings = lock_writer.differences(lock_file.read(str(self.lock)), self.read())
        return [(finding.level, finding.text.replace(f"{self.directory}/", "")) for finding in findings]


@pytest.fixture
def machine(trusted_path: Path) -> Machine:
    return Machine(trusted_path)


def test_the_lock_has_specs_programs_and_sources(machine: Machine) -> None:
    lock = machine.seal()
    assert list(lock["specs"]) == [str(machine.spec)]
    assert {Path(path).name: entry["type"] for path, entry in lock["files"].items()} == {
        "absent": "missing",
        "hook": "file",
        "libacme.so.1": "file",
        "null": "other",
        "share": "directory",
    }
    assert lock_file.read(str(machine.lock)) == json.loads(json.dumps(lock))
    assert (machine.refused(), machine.differences()) == ([], [])


def test_a_changed_file_is_refused_with_what_changed_and_since_when(machine: Machine) -> None:
    machine.seal()
    machine.library.write_text("new")
    [text] = machine.refused()
    assert text.startswith("cdi/acme.json: the source libacme.so.1 has another content since 20")
    machine.library.write_text("newer")
    [text] = machine.refused()
    assert "libacme.so.1 had 3 bytes, and has 5 since 20" in text
    assert [level for level, _ in machine.differences()] == ["ERROR"]


def test_a_changed_program_and_a_changed_spec_are_refused(machine: Machine) -> None:
    machine.seal()
    machine.program.write_text("#!/bin/bash\n")
    machine.write("0", "2", env="A=2")
    assert [text.partition(" had ")[0].partition(" has ")[0] for text in machine.refused()] == [
        "cdi/acme.json: the spec cdi/acme.json",
        "cdi/acme.json: the program hook",
    ]
    text = machine.differences()[0][1]
    assert text.endswith("added 2; removed 1; changed 0")


def test_the_same_content_with_another_identity_is_no_difference(machine: Machine) -> None:
    """As after a restored backup; the content is read then."""
    machine.seal()
    os.utime(machine.library, (1, 1))
    copy = machine.directory / "copy"
    copy.write_bytes(machine.spec.read_bytes())
    copy.replace(machine.spec)
    assert (machine.refused(), machine.differences()) == ([], [])
    assert sorted(lock_writer.renewed(lock_file.read(str(machine.lock)))) == [str(machine.spec), str(machine.library)]


def test_a_file_with_its_identity_is_not_read(machine: Machine) -> None:
    lock = machine.seal()

    class Counting(OfHost):
        def digest(self, path: str) -> str:
            raise AssertionError(path)

    for part in ("specs", "files"):
        for path, entry in lock[part].items():
            assert lock_file.difference(path, entry, Counting()) == ""


def test_a_type_that_changed_is_a_difference(machine: Machine) -> None:
    machine.seal()
    machine.library.unlink()
    machine.folder.rmdir()
    machine.folder.write_text("x")
    (machine.directory / "absent").write_text("x")
    assert [text.partition(": ")[2] for text in machine.refused()] == [
        "the source libacme.so.1 is missing",
        "the source share was a directory, and is none now",
        "the source absent was missing, and is there now",
    ]
    machine.library.mkdir()
    assert "the source libacme.so.1 was a file, and is none now" in machine.refused()[0]


def test_what_lies_in_a_directory_is_no_difference(machine: Machine) -> None:
    machine.seal()
    (machine.folder / "new").write_text("x")
    assert machine.refused() == []


def test_what_is_not_in_the_lock_is_refused_and_what_is_gone_is_a_warning(machine: Machine) -> None:
    machine.seal()
    other = machine.specs / "other.json"
    machine.spec.rename(other)
    assert "is not in the lock" in machine.refused()[0]
    assert [level for level, _ in machine.differences()] == ["ERROR", "WARNING"]


@pytest.mark.parametrize(
    ("prepare", "text"),
    [
        (lambda machine: machine.lock.unlink(), "cannot be used: it is missing"),
        (lambda machine: machine.lock.write_text("{"), "cannot be used: it is damaged"),
        (lambda machine: machine.lock.write_text('{"format": 99}'), "cannot be used: it is damaged"),
        (lambda machine: machine.lock.write_text('{"format": 1, "specs": []}'), "cannot be used: it is damaged"),
        (lambda machine: machine.damage({"type": "file"}), "cannot be used: it is damaged"),
        (lambda machine: machine.damage({"type": "file", "identity": [1], "sha256": ""}), "it is damaged"),
        (lambda machine: machine.damage({"type": "folder"}), "cannot be used: it is damaged"),
        (lambda machine: machine.damage([]), "cannot be used: it is damaged"),
        (lambda machine: machine.lock.chmod(0o666), "is not trusted"),
    ],
)
def test_a_lock_that_does_not_count_refuses_everything(machine: Machine, prepare: Any, text: str) -> None:
    machine.seal()
    prepare(machine)
    [refused] = machine.refused()
    assert text in refused


def test_the_lock_lies_beside_the_configuration() -> None:
    assert lock_file.path_of("") == "/etc/shim/cdi.lock"
    assert lock_file.path_of("/home/a/.config/shim/config.toml") == "/home/a/.config/shim/cdi.lock"


def test_a_fifo_in_place_of_a_file_is_not_waited_for(machine: Machine) -> None:
    machine.seal()
    machine.library.unlink()
    os.mkfifo(machine.library)
    began = time.monotonic()
    assert "was a file, and is none now" in machine.refused()[0]
    with pytest.raises(OSError, match="no regular file"):
        lock_file.digest(str(machine.library))
    assert time.monotonic() - began < 1
