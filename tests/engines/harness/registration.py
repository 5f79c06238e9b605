"""How engines come to know the runtime under test.

The harness writes the configuration of an administrator who has never heard of us. A Configure then edits that file
before the engine starts. Which one does is said by the fixture `register` (../conftest.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

Engine = Literal["containerd", "docker", "podman"]
Configure = Callable[[Path], None]

NAME = "shim"  # handler, runtime or [engine.runtimes] entry

_CRI = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.shim'
CONTAINERD = f"""
{_CRI}]
  runtime_type = "io.containerd.runc.v2"
  pod_annotations = ["cdi.k8s.io/*"]
  container_annotations = ["cdi.k8s.io/*"]
{_CRI}.options]
  BinaryName = "COMMAND"
"""

# Goes on in the table [engine], the last one of the harness's containers.conf.
PODMAN = """
runtime_supports_json = ["runc", "crun", "shim"]
[engine.runtimes]
shim = ["COMMAND"]
"""


def by_hand(runtime: Path, engine: Engine) -> Configure:
    """What README.md tells a person to write into the engine's configuration, for the runtime of that path."""
    return partial({"containerd": _containerd, "docker": _docker, "podman": _podman}[engine], runtime)


def _containerd(runtime: Path, file: Path) -> None:
    file.write_text(file.read_text(encoding="utf-8") + CONTAINERD.replace("COMMAND", str(runtime)), encoding="utf-8")


def _docker(runtime: Path, file: Path) -> None:
    settings = json.loads(file.read_text(encoding="utf-8"))
    settings["runtimes"][NAME] = {"path": str(runtime)}
    file.write_text(json.dumps(settings), encoding="utf-8")


def _podman(runtime: Path, file: Path) -> None:
    file.write_text(file.read_text(encoding="utf-8") + PODMAN.replace("COMMAND", str(runtime)), encoding="utf-8")
