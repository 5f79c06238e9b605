"""How engines come to know the runtime under test.

The harness writes the configuration of an administrator who has never heard of us. A Configure then edits that file
before the engine starts. Which one does is said by the fixture `register` (../conftest.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from .sandbox import Sandbox

Engine = Literal["containerd", "docker", "podman"]
Configure = Callable[[Path], None]

NAME = "shim"  # handler, runtime or [engine.runtimes] entry
PODS = "pods"  # a handler of containerd's that lets the annotations of pods through, which `configure` never writes

_CRI = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.pods'
_PODS = f"""
{_CRI}]
  runtime_type = "io.containerd.runc.v2"
  pod_annotations = ["cdi.k8s.io/*", "io.kubernetes.cri.*"]
  container_annotations = ["cdi.k8s.io/*", "io.kubernetes.cri.*"]
{_CRI}.options]
  BinaryName = "COMMAND"
"""


def by_command(sandbox: Sandbox, shim: Path, runtime: Path, engine: Engine) -> Configure:
    """`shim runtime configure` does it, and `shim runtime verify` agrees.

    Arguments:
        shim: the launcher.
        runtime: what the engine is given: the launcher, or a link beside it that chooses the low-level runtime.
    """
    return partial(_configure, sandbox, shim, runtime, engine)


def _configure(sandbox: Sandbox, shim: Path, runtime: Path, engine: Engine, file: Path) -> None:
    words = [f"--engine={engine}", f"--config={file}", f"--name={NAME}"]
    low_level = runtime.name.removeprefix("shim-")
    sandbox.run(shim, "runtime", "configure", *words, f"--path={runtime}", f"--low-level={low_level}").ok()
    sandbox.run(shim, "runtime", "verify", *words).ok()
    if engine == "containerd":
        file.write_text(file.read_text(encoding="utf-8") + _PODS.replace("COMMAND", str(runtime)), encoding="utf-8")
