"""dockerd 20.10 with the runtime under test as `shim`; it starts a containerd of its own."""

from __future__ import annotations

import json
from pathlib import Path

from . import images, programs
from .sandbox import Daemon, Result, Sandbox


class Docker:
    """One dockerd without network and with the busybox image loaded.

    Arguments:
        runtimes: name to path of the OCI runtimes that `docker run --runtime NAME` may choose.
    """

    def __init__(self, sandbox: Sandbox, runtimes: dict[str, Path]) -> None:
        program, self._docker = programs.find("dockerd", "docker")
        self._sandbox = sandbox
        self.directory = sandbox.scratch / "docker"
        self.directory.mkdir()
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
            "runtimes": {name: {"path": str(path)} for name, path in runtimes.items()},
        }
        file = self.directory / "daemon.json"
        file.write_text(json.dumps(settings), encoding="ascii")
        self._daemon = Daemon(sandbox, "dockerd", [program, "--config-file", file], lambda: self("version").status == 0)
        archive = self.directory / "busybox.tar"
        images.write_image(archive, images.BUSYBOX)
        self("load", "--input", archive).ok()

    def __call__(self, *arguments: str | Path, stdin: str = "") -> Result:
        """Call docker."""
        return self._sandbox.run(self._docker, "--host", self._socket, *arguments, stdin=stdin)

    def run(self, *options: str | Path, script: str, stdin: str = "") -> Result:
        """`docker run` of the shell script in a new container."""
        command = ["/bin/sh", "-c", script]
        return self("run", "--network=none", *options, images.BUSYBOX, *command, stdin=stdin)

    def stop(self) -> None:
        """Stop the daemon and, with it, its containerd."""
        self._daemon.stop()
