"""`shim doctor` on the command line: exit status, forms, options, one screen, and quick."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
NAME = "acme.example/gpu=a"
SCREEN = 24  # lines


@pytest.fixture
def environment(trusted_path: Path) -> dict[str, str]:
    """A configuration whose spec directories have a device that any host can give."""
    top = trusted_path / "root"
    (top / "cdi").mkdir(parents=True)
    edits = {"env": ["A=b"], "deviceNodes": [{"path": "/dev/acme", "hostPath": "/dev/zero"}]}
    spec = {"cdiVersion": "0.5.0", "kind": "acme.example/gpu", "devices": [{"name": "a", "containerEdits": edits}]}
    (top / "cdi/a.json").write_text(json.dumps(spec))
    (top / "old").mkdir()
    (top / "old/a.json").write_text(json.dumps(spec))  # hidden by the other
    (top / "config.toml").write_text(f'[cdi]\nspec-dirs = ["{top}/old", "{top}/cdi"]\n')
    return {**os.environ, "SHIM_CONFIG": str(top / "config.toml"), "COLUMNS": "120"}


@pytest.fixture
def run(installed: Path, environment: dict[str, str]) -> Run:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(installed), "doctor", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    return run


def document(done: subprocess.CompletedProcess[str]) -> tuple[dict[str, Any], list[str]]:
    """The report, and the ids of its errors."""
    report: dict[str, Any] = json.loads(done.stdout)
    found = [finding for check in report["checks"] for finding in check["findings"]]
    return report, [finding["id"] for finding in found if finding["level"] == "ERROR"]


def test_a_device_that_works(run: Run) -> None:
    done = run("--device", NAME, "--engine", "podman", "-o", "json")
    report, errors = document(done)
    assert (done.returncode, done.stderr, errors, report["ok"]) == (0, "", [], True)
    (check,) = [check for check in report["checks"] if check["subject"] == NAME]
    assert check["evidence"].endswith("a.json: 1 env, 1 deviceNodes")


def test_a_device_that_is_not_there(run: Run) -> None:
    done = run("--device", "acme.example/gpu=b", "--engine", "podman", "-o", "json")
    report, errors = document(done)
    assert (done.returncode, errors, report["ok"]) == (1, ["DEVICE_UNKNOWN"], False)
    assert NAME in done.stdout


def test_a_name_that_is_none(run: Run) -> None:
    done = run("--device", "gpu", "--engine", "podman")
    assert done.returncode == 1
    assert "DEVICE_NAME" in done.stdout or "DEVICE_UNKNOWN" in done.stdout


def test_one_screen_when_all_is_well(run: Run) -> None:
    done = run("--engine", "podman")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) <= SCREEN
    assert "ERROR" not in done.stdout
    assert "SPEC_SHADOWED" not in done.stdout
    assert "SPEC_SHADOWED" in run("--engine", "podman", "-v").stdout


def test_an_archive_is_written_beside(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "report.tar.gz"
    done = run("--engine", "podman", "--report", str(file))
    assert (done.returncode, str(file) in done.stderr, file.stat().st_mode & 0o777) == (0, True, 0o600)
    done = run("--engine", "podman", "--report", str(tmp_path / "gone/report"))
    assert (done.returncode, "CONFIG_WRITE" in done.stderr) == (1, True)


@pytest.mark.parametrize("words", [("--container", "x", "--device", NAME), ("--engine", "lxc"), ("extra",)])
def test_what_makes_no_sense_is_refused(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words).returncode == 2
