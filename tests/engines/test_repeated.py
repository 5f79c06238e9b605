"""The second container that asks for the same is made without Python, from each engine's real config.json."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from engines.harness.containerd import Containerd
from engines.harness.device import NAME
from engines.harness.docker import Docker
from engines.harness.podman import Podman
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

SCRIPT = "echo ${SHIM_TEST-absent}"
SETTLED = 0.2  # seconds after which the files of a test count as settled


def _line(sandbox: Sandbox) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((sandbox.scratch / "log/shim.log").read_text().splitlines()[-1])
    return found


def test_containerd(sandbox: Sandbox, containerd: Containerd) -> None:
    time.sleep(SETTLED)
    for number in range(3):  # each with an annotation key of its own, as device plugins write
        request = f"--annotation=cdi.k8s.io/plugin_{number}={NAME}"
        assert containerd.run(f"repeated{number}", request, script=SCRIPT).ok() == "one\n"
    assert _line(sandbox)["devices"] == {NAME: "annotation cdi.k8s.io/plugin_2"}
    assert _line(sandbox).get("repeated") is True


def test_docker(sandbox: Sandbox, docker: Docker) -> None:
    time.sleep(SETTLED)
    for _ in range(3):
        assert docker.run("--rm", "--runtime=asks", "--env=SHIM_TEST=all", script=SCRIPT).ok() == "one\n"
    assert _line(sandbox).get("repeated") is True


def test_podman(sandbox: Sandbox, podman: Podman) -> None:
    time.sleep(SETTLED)
    for number in range(3):
        request = f"--annotation=cdi.k8s.io/plugin_{number}={NAME}"
        assert podman.run("--rm", f"--name=repeated{number}", request, script=SCRIPT).ok() == "one\n"
    if podman.rootless:  # decided in Python each time, and logged elsewhere
        return
    assert _line(sandbox)["devices"] == {NAME: "annotation cdi.k8s.io/plugin_2"}
    assert _line(sandbox).get("repeated") is True
