"""`shim cdi diff --host` as a user types it, on a fake machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from unit.discover import acme

import shim.cli
from shim.cli import generate, spec_diff
from shim.discover import vendors

SPEC = "/var/run/cdi/shim-acme.example-gpu.yaml"


@pytest.fixture
def shim_cdi(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `shim cdi …` on a machine with two devices; its result."""
    host = acme.machine(trusted_path, "0", "1")
    monkeypatch.setattr(vendors, "MODULES", {"acme": acme.MODULE})
    monkeypatch.setattr(generate, "Host", lambda: host)
    monkeypatch.setattr(spec_diff, "Host", lambda: host)

    def run(*words: str) -> Result:
        return CliRunner().invoke(shim.cli.shim, ["cdi", *words], catch_exceptions=False)

    return run


def test_without_specs_it_says_so(shim_cdi: Any) -> None:
    done = shim_cdi("diff", "--host")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "shim cdi generate" in done.stderr


def test_the_status_is_1_where_the_host_has_changed(shim_cdi: Any, trusted_path: Path) -> None:
    shim_cdi("generate", "--hook-path", "/usr/local/bin/shim")
    done = shim_cdi("diff", "--host")
    assert (done.exit_code, done.stdout) == (0, f"{SPEC}: fresh\n")
    acme.node(trusted_path, "acme/2", 3)
    done = shim_cdi("diff", "--host")
    assert done.exit_code == 1
    assert "added acme.example/gpu=2\n  + " in done.stdout
    [one] = json.loads(shim_cdi("diff", "--host", "-o", "json").stdout)["specs"]
    assert (one["path"], one["writtenByShim"], one["state"]) == (SPEC, True, "stale")
    assert {change["name"] for change in one["changes"]} >= {"acme.example/gpu=2", "acme.example/gpu=all"}


@pytest.mark.parametrize("words", [[], ["/a"], ["/a", "/b", "/c"]])
def test_without_host_two_are_compared(shim_cdi: Any, words: list[str]) -> None:
    done = shim_cdi("diff", *words)
    assert (done.exit_code, "name two files" in done.stderr) == (2, True)
