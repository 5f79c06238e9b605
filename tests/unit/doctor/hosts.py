"""A healthy machine: devices of the vendor of tests, their spec, and docker with shim as a runtime."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from unit.discover import acme

from shim.base.findings import ERROR
from shim.discover import generate
from shim.discover.model import Wish
from shim.discover.output import Target
from shim.doctor import examine, examine_container
from shim.doctor.machine import Machine
from shim.doctor.model import Report
from shim.host.host import Host

WISH = Wish("/usr/local/bin/shim")
SPEC = "/var/run/cdi/shim-acme.example-gpu.yaml"
DIRS = ("/etc/cdi", "/var/run/cdi")
DAEMON = "/etc/docker/daemon.json"
LIBRARY = f"{acme.LIBRARIES}/libcuda.so.535.1"
KIND = acme.KIND


class Patient:
    """The machine below a directory.

    Arguments:
        top: the directory.
        launcher: a launcher of shim, which is copied.
    """

    def __init__(self, top: Path, launcher: Path) -> None:
        self.top = top
        acme.machine(top, "0", "1")
        (top / "usr/local/bin/shim").unlink()
        shutil.copy(launcher, top / "usr/local/bin/shim")
        self.program("/usr/bin/dockerd")
        self.program("/usr/bin/runc")
        self.write(LIBRARY, "")
        self.write(DAEMON, json.dumps({"runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}))
        self.link("/etc/shim/low-level/shim", "/usr/bin/runc")
        self.options: dict[str, Any] = {"daemons": []}
        self.version: tuple[int, ...] = ()  # of every engine
        generate.generate(self.host, WISH, Target(spec_dirs=DIRS), ["auto"])

    @property
    def host(self) -> Host:
        """The machine as it is now."""
        return Host(str(self.top), **getattr(self, "options", {}))

    def path(self, path: str) -> Path:
        """Where a path of the machine is."""
        return Path(f"{self.top}{path}")

    def write(self, path: str, text: str) -> None:
        """Write a file, its directories too."""
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)

    def replace(self, path: str, old: str, new: str) -> None:
        """Change a text that a file has."""
        text = self.path(path).read_text()
        assert old in text
        self.path(path).write_text(text.replace(old, new))

    def program(self, path: str) -> None:
        """Make a program."""
        self.write(path, "#!/bin/sh\n")
        self.path(path).chmod(0o755)

    def link(self, path: str, target: str) -> None:
        """Make a link."""
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).symlink_to(target)

    def relink(self, path: str, target: str) -> None:
        """Let a link lead elsewhere."""
        self.path(path).unlink()
        self.link(path, target)

    def move(self, path: str, to: str) -> None:
        """Rename a file."""
        self.path(path).rename(self.path(to))

    def spec(self, path: str, **members: Any) -> None:
        """Write a spec of another kind with one device, or with other members."""
        device = {"name": "a", "containerEdits": {"env": ["A=b"]}}
        self.write(path, json.dumps({"cdiVersion": "0.6.0", "kind": "v.example/other", "devices": [device], **members}))

    def edits(self, **edits: Any) -> None:
        """Write a spec whose device has these edits."""
        self.spec("/etc/cdi/other.json", devices=[{"name": "a", "containerEdits": edits}])

    def examine(self, device: str = "", engine: str = "") -> Report:
        """What the doctor reports."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Host, "version", lambda _host, _program: self.version)  # no program of it is started
            return examine(Machine(self.host), device, engine)

    def examine_container(self, word: str) -> Report:
        """What the doctor reports of a container."""
        return examine_container(Machine(self.host), word)


def errors(report: Report) -> set[str]:
    """Ids of the findings of level ERROR."""
    return {finding.id for finding in report.findings if finding.level == ERROR}


def ids(report: Report) -> set[str]:
    """Ids of all findings."""
    return {finding.id for finding in report.findings}
