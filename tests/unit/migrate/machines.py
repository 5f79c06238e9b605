"""Machines with a vendor's toolkit: trees of tests/configs with a launcher, a driver, the toolkit's spec and units."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

from conformance import hosts, trees
from unit.discover import machines as devices
from unit.discover.nvidia import driverroots
from unit.engines.test_lost_requests import Running
from unit.engines.trees import CONFIGS

from shim.host.host import Host

LAUNCHER = "/usr/local/bin/shim"
VERSION = driverroots.VERSION
UNITS = {
    "nvidia-cdi-refresh.service": "[Service]\nType=oneshot\nExecStart=/usr/bin/nvidia-ctk cdi generate\n",
    "nvidia-cdi-refresh.path": "[Path]\nPathChanged=/usr/bin/nvidia-ctk\n",
}
PROC = {"path": "/proc/driver/nvidia/version", "kind": "f", "content": f"NVRM version: Kernel Module  {VERSION}  x\n"}
NODES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
NAMES = ("0", "1", "all")
OTHER_KIND = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gds", "devices": [{"name": "all", "containerEdits": {}}]}
DRIVER = [
    *driverroots.driver(driverroots.MULTIARCH),
    *driverroots.program("/usr/bin/nvidia-smi"),
    *driverroots.cache(driverroots.MULTIARCH),
    PROC,
    *(
        {
            "path": f"/proc/driver/nvidia/gpus/0000:0{minor + 1}:00.0/information",
            "kind": "f",
            "content": f"Model: NVIDIA A100\nGPU UUID: GPU-{minor}\nDevice Minor: {minor}\n",
        }
        for minor in (0, 1)
    ),
    *({"path": f"/dev/{name}", "kind": "c", "major": 195, "mode": "0666"} for name in NODES),
]


class Machine(Running):
    """A machine below a directory, with systemd.

    Arguments:
        top: where root alone can write.
        launcher: the installed launcher.
        config: ENGINE/NAME of a tree of tests/configs, "" for a machine without an engine.
    """

    def __init__(self, top: Path, launcher: Path, config: str = "") -> None:
        super().__init__(top / "root")
        if config:
            shutil.copytree(CONFIGS / config, self.root, symlinks=True)
            (self.root / "about").unlink()
        for directory in ("usr/local/bin", "etc/systemd/system", "run/systemd/system"):
            (self.root / directory).mkdir(parents=True, exist_ok=True)
        shutil.copy(launcher, self.root / LAUNCHER[1:])
        for name in ("python3", "runc", "crun", "conmon", "nvidia-container-runtime", "amd-container-runtime"):
            self.program(f"/usr/bin/{name}")
        self.enabled: set[str] = set()
        self.calls: list[str] = []
        self.refusal = ""

    def program(self, path: str) -> None:
        if not (self.root / path[1:]).exists():
            self.write(path, "#!/bin/sh\n")
        (self.root / path[1:]).chmod(0o755)

    def nvidia(self, *names: str, spec: str = "/etc/cdi/nvidia.yaml") -> Machine:
        """Two GPUs with their driver, and NVIDIA's toolkit with its spec of devices of these names."""
        hosts.build(DRIVER, self.root)
        for name in ("nvidia-ctk", "nvidia-cdi-hook"):
            self.program(f"/usr/bin/{name}")
        for name, text in UNITS.items():
            self.write(f"/usr/lib/systemd/system/{name}", text)
        self.spec(spec, "nvidia.com/gpu", names or NAMES, "/usr/bin/nvidia-cdi-hook")
        return self

    def amd(self) -> Machine:
        """Two GPUs, and AMD's toolkit with its spec."""
        trees.build(devices.cpx(2, 1), str(self.root))
        self.program("/usr/bin/amd-ctk")
        self.spec("/etc/cdi/amd.json", "amd.com/gpu", NAMES)
        return self

    def spec(self, path: str, kind: str, names: tuple[str, ...], hook: str = "") -> None:
        """A spec as it was not written by us, with blanks of its own."""
        hooks = {"hooks": [{"hookName": "createContainer", "path": hook, "args": ["x"]}]} if hook else {}
        each = [{"name": name, "containerEdits": {"env": [f"A={name}"]}} for name in names]
        document = {"cdiVersion": "0.6.0", "kind": kind, "devices": each, "containerEdits": {"env": ["B=1"], **hooks}}
        self.write(path, json.dumps(document, indent=3) + "  \n")

    def write(self, path: str, text: str) -> None:
        super().write(path, text)

    def read(self, path: str) -> str:
        return (self.root / path[1:]).read_text()

    def exists(self, path: str) -> bool:
        return os.path.lexists(self.root / path[1:])

    @property
    def host(self) -> Host:
        return _Host(self)

    def state(self) -> dict[str, Any]:
        """Files and links with modes, owners and contents, and the directories of /etc; without the lock of specs."""
        every: dict[str, Any] = {}
        for path in sorted(self.root.rglob("*")):
            status = path.lstat()
            if path.is_symlink():
                every[str(path)] = os.readlink(path)
            elif path.is_file() and path.name != "refresh.lock":
                every[str(path)] = (path.read_bytes(), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
            elif path.is_relative_to(self.root / "etc"):
                every[str(path)] = stat.S_IMODE(status.st_mode)
        return every


class _Host(Host):
    """A machine on which systemd answers."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(str(machine.root), daemons=machine.daemons)
        self._machine = machine

    def ask(self, *argv: str) -> str | None:
        if argv[:2] == ("systemctl", "is-enabled"):
            return "enabled\n" if argv[2] in self._machine.enabled else None
        return "active\n" if argv == ("systemctl", "is-active", "nvidia-cdi-refresh.path") else None

    def refusal(self, *argv: str) -> str:
        self._machine.calls.append(" ".join(argv[1:]))
        if argv[1] in {"enable", "disable"} and self._machine.refusal:
            return self._machine.refusal
        change = {"enable": self._machine.enabled.add, "disable": self._machine.enabled.discard}.get(argv[1])
        if change:
            change(argv[-1])
        return ""
