"""`shim cdi lock` as an administrator types it, and creates that compare with it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SPEC = """\
cdiVersion: "0.5.0"
kind: acme.example/gpu
devices:
- name: "0"
  containerEdits:
    env: [GPU=0]
    mounts: [{hostPath: LIBRARY, containerPath: /usr/lib/libacme.so.1, options: [bind]}]
"""
ASKING = {
    "annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"},
    "process": {"cwd": "/", "env": []},
    "root": {"path": "rootfs"},
}


@pytest.fixture(autouse=True)
def library(trusted_path: Path) -> Path:
    """A file that the spec mounts."""
    library = trusted_path / "libacme.so.1"
    library.write_text("old")
    (trusted_path / "cdi").mkdir()
    (trusted_path / "cdi/acme.yaml").write_text(SPEC.replace("LIBRARY", str(library)))
    return library


@pytest.fixture
def shim(launcher: Path, trusted_path: Path) -> Any:
    """Run a command; its result."""
    settings = trusted_path / "config.toml"
    settings.write_text(f'[cdi]\nlocked = true\nspec-dirs = ["{trusted_path}/cdi"]\n[log]\nfile = ""\n')

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SHIM_CONFIG": str(settings)}
        return subprocess.run([launcher, *words], capture_output=True, text=True, env=environment, check=False)

    return run


def explained(shim: Any, directory: Path) -> list[str]:
    """The ids of what a create of a bundle would report."""
    bundle = directory / "bundle"
    (bundle / "rootfs").mkdir(parents=True, exist_ok=True)
    (bundle / "config.json").write_text(json.dumps(ASKING))
    made = json.loads(shim("explain", "--bundle", bundle, "-o", "json").stdout)
    return [finding["id"] for finding in made["findings"]]


def test_a_lock_is_written_checked_and_counts(shim: Any, trusted_path: Path, library: Path) -> None:
    lock = trusted_path / "cdi.lock"
    assert explained(shim, trusted_path) == ["SPEC_UNLOCKED"]
    done = shim("cdi", "lock")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{lock}: written: 1 spec, 1 file\n", "")
    assert lock.stat().st_mode & 0o777 == 0o644
    assert shim("cdi", "lock").stdout == f"{lock}: unchanged: 1 spec, 1 file\n"
    assert shim("cdi", "lock", "--check").returncode == 0
    assert explained(shim, trusted_path) == []
    library.write_text("new")
    done = shim("cdi", "lock", "--check")
    assert (done.returncode, done.stdout) == (1, f"{lock}: differs: 1 spec, 1 file\n")
    assert f"{library} has another content since" in done.stderr
    assert explained(shim, trusted_path) == ["SPEC_UNLOCKED"]
    assert shim("cdi", "lock").returncode == 0
    assert explained(shim, trusted_path) == []


def test_a_dry_run_shows_what_would_change_and_writes_nothing(shim: Any, trusted_path: Path) -> None:
    lock = trusted_path / "cdi.lock"
    done = shim("cdi", "lock", "--dry-run")
    assert f"{lock}: would be written" in done.stdout
    assert f"+++ {lock}" in done.stdout
    assert not lock.exists()
    assert shim("cdi", "lock", "--dry-run", "--check").returncode == 2


def test_a_check_without_a_lock_says_what_writes_it(shim: Any, trusted_path: Path) -> None:
    done = shim("cdi", "lock", "--check")
    assert done.returncode == 1
    assert "SPEC_UNLOCKED" in done.stderr
    assert "`shim cdi lock` writes it" in done.stderr
    shim("cdi", "lock")
    (trusted_path / "cdi.lock").chmod(0o666)
    assert "the lock is not trusted" in shim("cdi", "lock", "--check").stderr


def test_the_same_content_under_another_identity_is_advised_to_be_locked_again(shim: Any, library: Path) -> None:
    shim("cdi", "lock")
    os.utime(library)
    done = shim("cdi", "lock", "--check", "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "as it was locked")
    assert "1 file with the locked content and new times" in shim("cdi", "lock", "--check").stderr


def test_without_the_key_it_says_that_nothing_compares(shim: Any, trusted_path: Path) -> None:
    settings = trusted_path / "config.toml"
    settings.write_text(settings.read_text().replace("locked = true\n", ""))
    assert f"set locked = true below [cdi] in {settings}" in shim("cdi", "lock").stderr
    assert json.loads(shim("cdi", "lock", "-o", "json").stdout)["locked"] is False


def test_a_spec_that_is_refused_is_reported_and_not_locked(shim: Any, trusted_path: Path) -> None:
    (trusted_path / "cdi/broken.yaml").write_text("kind: x\n")
    done = shim("cdi", "lock")
    assert (done.returncode, "1 spec, 1 file" in done.stdout) == (1, True)
    assert "SPEC_INVALID" in done.stderr
