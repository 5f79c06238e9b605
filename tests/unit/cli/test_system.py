"""`shim system`: device nodes and links, with a dry run that changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest


class Machine:
    """A root with device nodes, and a spec that names one of them."""

    def __init__(self, top: Path, shim: Path) -> None:
        self.top, self._shim = top, shim
        (top / "dev").mkdir()
        os.mknod(top / "dev/gpu0", 0o020666, os.makedev(240, 3))
        os.mknod(top / "dev/gpu1", 0o020666, os.makedev(240, 4))
        spec: dict[str, Any] = {"cdiVersion": "0.6.0", "kind": "acme.example/gpu"}
        spec["devices"] = [{"name": "a", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu0"}]}}]
        (top / "cdi").mkdir()
        (top / "cdi/a.json").write_text(json.dumps(spec))
        (top / "config.toml").write_text(f'[cdi]\nspec-dirs = ["{top}/cdi"]\n')

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SHIM_CONFIG": str(self.top / "config.toml")}
        command = [str(self._shim), "system", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    def links(self) -> dict[str, str]:
        return {path.name: str(path.readlink()) for path in (self.top / "dev/char").glob("*")}


@pytest.fixture
def machine(trusted_path: Path, installed: Path) -> Machine:
    top = trusted_path / "root"
    top.mkdir()
    return Machine(top, installed)


def test_links_of_the_nodes_that_specs_name(machine: Machine) -> None:
    words = ("create-dev-char-symlinks", "--dev-root", str(machine.top))
    done = machine.run(*words, "--dry-run")
    assert (done.returncode, machine.links()) == (0, {})
    assert "would be made" in done.stdout
    done = machine.run(*words, "-o", "json")
    assert (done.returncode, done.stderr, machine.links()) == (0, "", {"240:3": "../gpu0"})
    assert json.loads(done.stdout)["changes"] == [{"path": "/dev/char/240:3", "action": "make", "what": "-> ../gpu0"}]
    assert "is right" in machine.run(*words).stdout


def test_links_of_nodes_that_are_named(machine: Machine) -> None:
    words = ("create-dev-char-symlinks", "--dev-root", str(machine.top))
    assert machine.run(*words, "/dev/gpu1").returncode == 0
    assert machine.links() == {"240:4": "../gpu1"}
    done = machine.run(*words, "/dev/gpu1", "/dev/gone")
    assert done.returncode == 1
    assert "/dev/gone is no device node" in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("create-dev-char-symlinks", "--dev-char-path", "/dev/chars"), "it is an absolute path that ends in /char"),
        (("create-dev-char-symlinks", "--dev-root", "/absent"), "/absent is no directory"),
        (("create-device-nodes", "--dev-root", "relative"), "relative is no directory"),
    ],
)
def test_an_option_without_sense_is_a_usage_error(machine: Machine, words: tuple[str, ...], text: str) -> None:
    done = machine.run(*words)
    assert done.returncode == 2
    assert text in done.stderr


def test_nodes_without_a_driver_are_refused_with_the_module_to_load(machine: Machine) -> None:
    done = machine.run("create-device-nodes", "--dev-root", str(machine.top))
    if done.returncode == 0:  # a machine with the driver: then nodes of it were made in the root
        assert (machine.top / "dev/nvidiactl").exists()
    else:
        assert "DISCOVERY_INCOMPLETE" in done.stderr
        assert "modprobe nvidia" in done.stderr
