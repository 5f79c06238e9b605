"""dockerd 20.10 with the runtime under test as `shim`; it starts a containerd of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from . import device, images, programs
from .registration import Configure
from .sandbox import Daemon, Result, Sandbox


class Docker:
    """One dockerd without network and with the busybox image loaded.

    Beside the runtime `shim` it has `asks` and `asks-unknown`, the same with `--device` in their runtimeArgs: docker
    20.10 has no annotations, so nothing else asks for a device.

    Arguments:
        runtime: the OCI runtime of the two.
        configure: edits daemon.json before the engine starts; without it the engine knows no runtime `shim`.
        words: more of dockerd's command line.
    """

    def __init__(
        self, sandbox: Sandbox, runtime: Path, configure: Configure | None = None, *, words: Sequence[str] = ()
    ) -> None:
        program, self._docker = programs.find("dockerd", "docker")
        self._sandbox = sandbox
        self.directory = sandbox.scratch / "docker"
        self.directory.mkdir(exist_ok=True)
        self._socket = f"unix://{self.directory}/socket"
        settings = {
            "data-root": str(self.directory / "data"),
            "exec-root": str(self.directory / "exec"),
            "pidfile": str(self.directory / "pid"),
            "hosts": [self._socket],
            "bridge": "none",
            "iptables": False,
            "ip6tables": False,
            "ip-forward": False,
            "userland-proxy": False,
            "storage-driver": "overlay2",
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "cgroup-parent": sandbox.cgroup,
            "oom-score-adjust": 0,  # a better score needs CAP_SYS_RESOURCE
            "runtimes": {
                name: {"path": str(runtime), "runtimeArgs": [f"--device={asked}"]}
                for name, asked in (("asks", device.NAME), ("asks-unknown", device.UNKNOWN))
            },
        }
        file = self.directory / "daemon.json"
        file.write_text(json.dumps(settings), encoding="ascii")
        if configure:
            configure(file)
        argv: list[str | Path] = [program, "--config-file", file, *words]
        self._daemon = Daemon(sandbox, "dockerd", argv, lambda: self("version").status == 0)
        archive = self.directory / "busybox.tar"
        images.write_image(archive, images.BUSYBOX)
        self("load", "--input", archive).ok()

    def __call__(self, *arguments: str | Path, stdin: str = "") -> Result:
        """Call docker."""
        return self._sandbox.run(self._docker, "--host", self._socket, *arguments, stdin=stdin)

    def run(self, *options: str | Path, script: str, stdin: str = "", verb: str = "run") -> Result:
        """`docker run`, or `docker create`, of the shell script in a new container."""
        command = ["/bin/sh", "-c", script]
        return self(verb, "--network=none", *options, images.BUSYBOX, *command, stdin=stdin)

    def records(self) -> set[str]:
        """The containers that got something, as the launcher has noted them for exec."""
        return set(self._sandbox.run("ls", "/run/shim/c").out.split())

    def stop(self) -> None:
        """Stop the daemon and, with it, its containerd."""
        self._daemon.stop()
