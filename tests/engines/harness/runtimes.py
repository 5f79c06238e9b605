"""Bundles, and the low-level runtimes as a person calls them: through the launcher or plainly."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from . import images, programs
from .sandbox import Result, Sandbox, wait_until

RuntimeName = Literal["runc", "crun"]

# crun refuses a host that has a unified hierarchy beside those of cgroup v1.
CGROUP_MODE: dict[RuntimeName, Literal["hybrid", "v1"]] = {"runc": "hybrid", "crun": "v1"}


class Bundle:
    """A bundle with a busybox root and the config.json of `runc spec`, without terminal, in the sandbox's cgroup.

    Arguments:
        name: directory and container id.
        script: what the container's shell runs.
        members: further members of config.json, put over those of `runc spec`.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        name: str,
        script: str,
        *,
        annotations: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        (runc,) = programs.find("runc")
        self.id = name
        self.directory = sandbox.scratch / "bundles" / name
        self.file = self.directory / "config.json"
        self.directory.mkdir(parents=True)
        images.write_root(self.directory / "rootfs")
        sandbox.run(runc, "spec", "--bundle", self.directory).ok()
        config = self.config()
        config["process"].update(terminal=False, args=["/bin/sh", "-c", script], env=["PATH=/bin"])
        for capabilities in config["process"]["capabilities"].values():
            capabilities.append("CAP_MKNOD")  # for probes that make a node of their own
        config["linux"]["cgroupsPath"] = f"{sandbox.cgroup}/{name}"
        config.update(annotations=dict(annotations or {}), **(members or {}))
        self.file.write_text(json.dumps(config), encoding="utf-8")

    def config(self) -> dict[str, Any]:
        """The decoded config.json as it is now."""
        decoded: dict[str, Any] = json.loads(self.file.read_bytes())
        return decoded

    def identity(self) -> tuple[int, int, bytes]:
        """What must not change when nothing is injected: inode, time of change, bytes."""
        status = self.file.stat()
        return status.st_ino, status.st_ctime_ns, self.file.read_bytes()


class Runtime:
    """A low-level runtime with a root of its own, called by the command given.

    Arguments:
        command: the program to call, for example the launcher.
        name: the runtime that is expected to answer.
    """

    def __init__(self, sandbox: Sandbox, command: str | Path, name: RuntimeName) -> None:
        (self._plain,) = programs.find(name)
        self._sandbox = sandbox
        self._command = command
        self.name = name
        self._root = ["--root", str(sandbox.scratch / f"root-{name}")]

    def __call__(self, *arguments: str | Path, cwd: str | Path = "/") -> Result:
        """Call it with global options and a verb."""
        return self._sandbox.run(*self.argv(*arguments), cwd=cwd)

    def argv(self, *arguments: str | Path) -> list[str | Path]:
        """The command line of such a call."""
        return [self._command, *self._root, *arguments]

    def start_and_wait(self, bundle: Bundle, *options: str | Path, cwd: str | Path = "/") -> Result:
        """`create` with the options given, then `start`: what the container printed until it ended, then delete it.

        The result is that of `create` when that failed.
        """
        out, err = bundle.directory / "out", bundle.directory / "err"
        argv = self.argv("create", *options, bundle.id)
        with out.open("wb") as stdout, err.open("wb") as stderr:
            created = subprocess.run(
                self._sandbox.command(*argv, cwd=cwd),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=self._sandbox.environment(),
                timeout=60,
                check=False,
            )
        if created.returncode == 0:
            self("start", bundle.id).ok()
            wait_until(lambda: self.status(bundle.id) == "stopped", f"{bundle.id} has ended")
            self("delete", bundle.id).ok()
        return Result(created.returncode, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))

    def status(self, container: str) -> str | None:
        """The container's state as the plain runtime tells it, None when it knows no such container."""
        told = self._sandbox.run(self._plain, *self._root, "state", container)
        return None if told.status else str(json.loads(told.out)["status"])

    def containers(self) -> list[str]:
        """The ids that the plain runtime lists."""
        return self._sandbox.run(self._plain, *self._root, "list", "--quiet").ok().split()
