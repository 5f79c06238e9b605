"""A node for the device plugin: specs of nodes that are there, a fake kubelet, the plugin as a process."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakekubelet import PATIENCE, FakeKubelet, Follower

from shim.grants.store import Store


class Plugin:
    """A node, and `shim node plugin` on it.

    Attributes:
        specs: its spec directory.
        nodes: where its device nodes are.
        kubelet: the directory of the kubelet's sockets; short, since it is part of the path of a socket.
    """

    def __init__(self, launcher: Path, top: Path, kubelet: Path) -> None:
        self.top = top
        self.specs = top / "cdi"
        self.nodes = top / "dev"
        self.kubelet = kubelet
        self.config = top / "node.toml"
        self.grants = Store(str(top / "grants.json"), str(top / "audit.jsonl"))
        self.log = top / "log"
        self._launcher = launcher
        self.processes: list[subprocess.Popen[bytes]] = []
        for directory in (self.specs, self.nodes):
            directory.mkdir()

    def node(self, name: str, minor: int = 3) -> str:
        """A device node, a copy of /dev/null (minor 3) or of another memory device."""
        path = self.nodes / name
        path.unlink(missing_ok=True)
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, minor))
        return str(path)

    def spec(self, kind: str, devices: dict[str, list[str]], **members: Any) -> Path:
        """A spec: names of devices -> their nodes."""
        entries = [
            {
                "name": name,
                "containerEdits": {"deviceNodes": [{"path": path} for path in paths]} if paths else {"env": ["A=1"]},
            }
            for name, paths in devices.items()
        ]
        path = self.specs / f"{kind.replace('/', '-')}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": entries, **members}))
        fresh.rename(path)
        return path

    def gpus(self, count: int, kind: str = "vendor.com/gpu") -> None:
        """A kind with so many devices, each with a node of its own numbers."""
        self.spec(kind, {str(number): [self.node(f"gpu{number}", 100 + number)] for number in range(count)})

    def words(self, *words: str) -> list[str]:
        """The command line."""
        config = ["--config", str(self.config)] if self.config.exists() else []
        places = ["--spec-dir", str(self.specs), "--grants", str(self.top / "grants.json")]
        return [str(self._launcher), "node", "plugin", *config, *places, *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        line = self.words("--kubelet-dir", str(self.kubelet), *words)
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start it; its events are in `log`."""
        return self.launch(self.words("--kubelet-dir", str(self.kubelet), *words))

    def launch(self, line: list[str]) -> subprocess.Popen[bytes]:
        """Start a command line, as `start` does."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(line, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def events(self) -> list[dict[str, Any]]:
        """What it has written down."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def wait_event(self, name: str, text: str, count: int = 1) -> dict[str, Any]:
        """Wait for an event whose message has a text; the last of them."""
        end = time.monotonic() + PATIENCE
        while True:
            found = [event for event in self.events() if event["event"] == name and text in event["message"]]
            if len(found) >= count:
                return found[-1]
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)


@contextmanager
def _node(launcher: Path) -> Iterator[Plugin]:
    with (
        tempfile.TemporaryDirectory(prefix="shim-test-", dir="/var/lib") as top,
        tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as sockets,
    ):
        plugin = Plugin(launcher, Path(top), Path(sockets) / "p")
        plugin.kubelet.mkdir()
        yield plugin
        for process in plugin.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)


@pytest.fixture
def plugin(launcher: Path) -> Iterator[Plugin]:
    with _node(launcher) as plugin:
        yield plugin


@pytest.fixture(scope="module")
def served(launcher: Path) -> Iterator[tuple[Plugin, Follower]]:
    """A plugin that runs for all tests of a module: vendor.com/gpu with the units 0 and 1, and the name `all`."""
    with _node(launcher) as plugin, FakeKubelet(plugin.kubelet) as kubelet:
        nodes = [plugin.node("gpu0", 3), plugin.node("gpu1", 5)]
        plugin.spec("vendor.com/gpu", {"0": nodes[:1], "1": nodes[1:], "all": nodes})
        plugin.start()
        yield plugin, kubelet.plugin("vendor.com/gpu")


@pytest.fixture
def kubelet(plugin: Plugin) -> Iterator[FakeKubelet]:
    with FakeKubelet(plugin.kubelet) as kubelet:
        yield kubelet
