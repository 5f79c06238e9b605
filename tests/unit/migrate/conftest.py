"""`shim runtime migrate` on a machine of a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from unit.engines import trees
from unit.migrate.machines import LAUNCHER, Machine

import shim.cli
from shim.cli import migrate
from shim.discover.nvidia import gpus
from shim.discover.nvidia.snapshot import Gpu, Snapshot
from shim.host.host import Host

GPUS = tuple(Gpu(minor, minor, f"GPU-{minor}", f"0000:0{minor + 1}:00.0", "NVIDIA A100") for minor in (0, 1))


@pytest.fixture
def make(trusted_path: Path, launcher: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Machine]:
    """Make the machine of a tree of tests/configs. NVML answers that there are two GPUs."""
    monkeypatch.setattr(Host, "version", trees.stub_version)
    monkeypatch.setattr(gpus, "take", lambda *_: Snapshot("570.86.10", "12.8", GPUS, "nvml"))

    def made(config: str) -> Machine:
        return Machine(trusted_path, launcher, config)

    return made


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `shim runtime migrate` on a machine."""

    def run(machine: Machine, vendor: str, *words: str) -> Result:
        monkeypatch.setattr(migrate, "Host", lambda: machine.host)
        paths = [] if "--undo" in words else ["--path", LAUNCHER]
        command = ["runtime", "migrate", "--from", vendor, *paths, *words]
        return CliRunner().invoke(shim.cli.shim, command, catch_exceptions=False)

    return run
