"""`shim gate serve` in front of a dockerd of the tests, and docker through it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import programs
from .docker import Docker
from .sandbox import Daemon, Result, Sandbox

SUBJECT = "repo-a"


class Gate:
    """A gate for the subject `repo-a`.

    Arguments:
        shim: the launcher, by its path inside.
        docker: the daemon behind it.
        policy: text of the policy file.
        name: of its files.
    """

    def __init__(self, sandbox: Sandbox, shim: Path, docker: Docker, policy: str = "", name: str = "gate") -> None:
        self._sandbox = sandbox
        self._shim = shim
        self._docker = programs.find("docker")[0]
        self.socket = sandbox.scratch / f"{name}.sock"
        self.log = sandbox.scratch / f"{name}.decisions"
        file = sandbox.scratch / f"{name}.toml"
        file.write_text(policy, encoding="utf-8")
        argv: list[str | Path] = [
            shim, "gate", "serve", f"--subject={SUBJECT}", f"--listen={self.socket}", f"--log={self.log}",
            f"--upstream={docker.directory}/socket", f"--policy={file}",
        ]  # fmt: skip
        self._daemon = Daemon(sandbox, name, argv, lambda: self.socket.exists() and self("version").status == 0)

    def __call__(self, *arguments: str | Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Result:
        """Call docker through the gate."""
        return self._sandbox.run(self._docker, "--host", f"unix://{self.socket}", *arguments, stdin=stdin, env=env)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """A docker through the gate that goes on; its standard output is a pipe."""
        command = self._sandbox.command(self._docker, "--host", f"unix://{self.socket}", *arguments)
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._sandbox.environment()
        )

    def grant(self, verb: str, *devices: str) -> None:
        """`shim grant add|revoke` for the subject."""
        options = [f"--device={device}" for device in devices]
        self._sandbox.run(self._shim, "grant", verb, SUBJECT, *options).ok()

    def memory(self) -> int:
        """KiB of memory that the process has (VmRSS)."""
        pid = self._daemon.pid()
        status = self._sandbox.run("cat", f"/proc/{pid}/status").ok()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))

    def decisions(self) -> list[dict[str, Any]]:
        """What the gate has written down so far."""
        lines = self.log.read_text(encoding="ascii").splitlines()
        return [entry for entry in map(json.loads, lines) if "decision" in entry]

    def stop(self) -> int:
        """End the gate; its exit status."""
        return self._daemon.stop()
