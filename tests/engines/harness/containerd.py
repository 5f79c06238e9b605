"""containerd with `ctr` and, through the CRI plugin, the calls of a kubelet."""

from __future__ import annotations

from pathlib import Path

from . import images, programs
from .registration import Configure
from .sandbox import Daemon, Result, Sandbox

CONFIG = """
version = 2
root = "DIRECTORY/root"
state = "DIRECTORY/state"
[grpc]
  address = "DIRECTORY/socket"
[ttrpc]
  address = "DIRECTORY/socket.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "DIRECTORY/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  # A pod sandbox asks for a better oom score than a machine without CAP_SYS_RESOURCE may give.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "DIRECTORY/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


class Containerd:
    """One containerd daemon with the images loaded, for `ctr` and for CRI, where the default handler is "runc".

    Arguments:
        runtime: the OCI runtime of `ctr run`, which needs no configuration.
        configure: edits config.toml before the engine starts; without it the engine knows no runtime `shim`.
    """

    def __init__(self, sandbox: Sandbox, runtime: Path, configure: Configure | None = None) -> None:
        program, self._ctr = programs.find("containerd", "ctr")
        self._sandbox = sandbox
        self._runtime = runtime
        self.directory = sandbox.scratch / "containerd"
        self.socket = self.directory / "socket"
        (self.directory / "cni").mkdir(parents=True)
        text = CONFIG
        for word, value in {"DIRECTORY": self.directory, "PAUSE": images.PAUSE}.items():
            text = text.replace(word, str(value))
        file = self.directory / "config.toml"
        file.write_text(text, encoding="ascii")
        if configure:
            configure(file)
        self._daemon = Daemon(
            sandbox,
            "containerd",
            [program, "--config", file],
            lambda: self.socket.exists() and self.ctr("version").status == 0,
        )
        for reference, namespace in ((images.BUSYBOX, "default"), (images.BUSYBOX, "k8s.io"), (images.PAUSE, "k8s.io")):
            self._load(reference, namespace)

    def _load(self, reference: str, namespace: str) -> None:
        """Make an image known in a namespace: "default" is ctr's, "k8s.io" is CRI's."""
        archive = self.directory / "image.tar"
        images.write_image(archive, reference)
        self.ctr("--namespace", namespace, "image", "import", archive).ok()

    def ctr(self, *arguments: str | Path) -> Result:
        """Call ctr."""
        return self._sandbox.run(self._ctr, "--address", self.socket, *arguments)

    def run(self, container: str, *options: str | Path, script: str, image: str = images.BUSYBOX) -> Result:
        """`ctr run` of the shell script in a new container, with the runtime under test."""
        place = [f"--cgroup={self._sandbox.cgroup}/{container}", f"--runc-root={self.directory}/ctr-runtime"]
        command = ["/bin/sh", "-c", script]
        return self.ctr("run", "--runc-binary", self._runtime, *place, *options, image, container, *command)

    def stop(self) -> None:
        """Stop the daemon; what it started ends with the sandbox."""
        self._daemon.stop()
