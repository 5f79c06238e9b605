"""Specs, a store and processes for the tests of grants."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shim.cdi import directories
from shim.cdi.directories import Directories
from shim.grants.store import Store

CAPS = "/dev/nvidia-caps/nvidia-cap"


def node(path: str, **members: Any) -> dict[str, Any]:
    return {"deviceNodes": [{"path": path, **members}]}


# name -> edits. Nodes that exist on every host have the numbers of the host, the others only their paths.
DEVICES: dict[str, dict[str, Any]] = {
    "0": node("/dev/gpu0"),
    "uuid": {"deviceNodes": [{"path": "/dev/gpu0"}]},
    "1": node("/dev/gpu1"),
    "all": {"deviceNodes": [{"path": "/dev/gpu0"}, {"path": "/dev/gpu1"}]},
    "null": node("/dev/null"),
    "alias": node("/dev/other", hostPath="/dev/../dev/null"),
    "numbers": node("/dev/elsewhere", type="c", major=240, minor=7),
    "same-numbers": node("/dev/elsewhere2", type="c", major=240, minor=7),
    "bound": {"mounts": [{"hostPath": "/dev/null", "containerPath": "/dev/x"}]},
    "library": {"mounts": [{"hostPath": "/etc", "containerPath": "/etc/x"}]},
    "eth": {"netDevices": [{"hostInterfaceName": "eth7", "name": "eth0"}]},
    "eth-again": {"netDevices": [{"hostInterfaceName": "eth7", "name": "eth1"}]},
    "variable": {"env": ["A=B"]},
    "0:0": {"deviceNodes": [{"path": "/dev/gpu0"}, {"path": f"{CAPS}1"}, {"path": f"{CAPS}2"}]},
    "0:1": {"deviceNodes": [{"path": "/dev/gpu0"}, {"path": f"{CAPS}1"}, {"path": f"{CAPS}3"}]},
}


def qualified(*names: str) -> list[str]:
    return [f"acme.example/gpu={name}" for name in names]


class Scene:
    """A directory with a store and specs."""

    def __init__(self, top: Path) -> None:
        self.path, self.audit = top / "grants.json", top / "log/audit.jsonl"
        self.specs = top / "cdi"
        self.specs.mkdir()
        self.write_spec(DEVICES)

    def write_spec(self, devices: dict[str, dict[str, Any]]) -> None:
        listed = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
        common = node("/dev/control")
        spec = {"cdiVersion": "1.1.0", "kind": "acme.example/gpu", "containerEdits": common, "devices": listed}
        (self.specs / "a.json").write_text(json.dumps(spec))

    def served(self) -> Directories:
        return directories.read([str(self.specs)])

    def store(self, patience: float = 10.0) -> Store:
        return Store(str(self.path), str(self.audit), patience=patience)

    def add(self, subject: str, *names: str, **options: Any) -> list[tuple[str, str]]:
        return self.store().add(subject, qualified(*names), self.served, **options).changed

    def state(self) -> list[tuple[str, str, bool]]:
        """Subject, last part of the name, and whether it is exclusive, for each grant of the file."""
        entries = json.loads(self.path.read_bytes())["grants"] if self.path.exists() else []
        return [(entry["subject"], entry["device"].rpartition("=")[2], entry["exclusive"]) for entry in entries]


def forked(job: Callable[[], int]) -> int:
    """Run a function in a process of its own, whose exit status it returns; gives its id."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = job()
        finally:
            os._exit(status)
    return pid
