"""Locked specs in real containers: what was locked starts, and what has changed since does not until it is locked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness.runtimes import Bundle, Runtime
from engines.harness.sandbox import Result, Sandbox

pytestmark = pytest.mark.engine

SPEC, SETTINGS, LOCK = "/etc/cdi/vendor.test-locked.json", "/etc/shim/config.toml", "/etc/shim/cdi.lock"
LIBRARY = "/etc/cdi/libacme.so.1"  # beside the spec: a path of the sandbox alone that root owns


def _write(sandbox: Sandbox, path: str, text: str) -> None:
    sandbox.run("mkdir", "-p", str(Path(path).parent)).ok()
    sandbox.run("tee", path, stdin=text).ok()


def _write_spec(sandbox: Sandbox, mark: str) -> None:
    mount = {"hostPath": LIBRARY, "containerPath": "/opt/libacme.so.1", "options": ["ro", "bind"]}
    edits = {"env": [f"MARK={mark}"], "mounts": [mount]}
    device = {"name": "0", "containerEdits": edits}
    _write(sandbox, SPEC, json.dumps({"cdiVersion": "0.5.0", "kind": "vendor.test/locked", "devices": [device]}))


@pytest.fixture
def locked(sandbox: Sandbox, shim: Path) -> Iterator[Sandbox]:
    """A device with a library, locked."""
    _write(sandbox, LIBRARY, "old")
    _write_spec(sandbox, "1")
    _write(sandbox, SETTINGS, "[cdi]\nlocked = true\n")
    sandbox.run(shim, "cdi", "lock").ok()
    yield sandbox
    sandbox.run("rm", "-f", SPEC, SETTINGS, LOCK, LIBRARY).ok()


def _run(runtime: Runtime, sandbox: Sandbox, name: str) -> Result:
    bundle = Bundle(sandbox, f"{name}-{runtime.name}", "echo $MARK; cat /opt/libacme.so.1")
    return runtime("run", "--device", "vendor.test/locked=0", "--bundle", bundle.directory, bundle.id)


def test_what_changed_since_it_was_locked_does_not_start(runtime: Runtime, locked: Sandbox, shim: Path) -> None:
    assert _run(runtime, locked, "as-locked").ok().split() == ["1", "old"]

    _write(locked, LIBRARY, "new")
    refused = _run(runtime, locked, "library")
    assert refused.status == 1
    assert f"SPEC_UNLOCKED: {SPEC}: the source {LIBRARY} has another content since" in refused.err
    assert "shim cdi lock --check" in refused.err
    assert len(refused.err.splitlines()) == 1, "the low-level runtime was not started"

    _write_spec(locked, "2")
    check = locked.run(shim, "cdi", "lock", "--check")
    assert check.status == 1
    assert "changed 0" in check.err
    assert _run(runtime, locked, "spec").status == 1

    locked.run(shim, "cdi", "lock").ok()
    assert _run(runtime, locked, "again").ok().split() == ["2", "new"]


def test_what_asks_for_nothing_starts_without_a_lock(runtime: Runtime, locked: Sandbox) -> None:
    locked.run("rm", LOCK).ok()
    bundle = Bundle(locked, f"nothing-{runtime.name}", "echo started")
    assert runtime("run", "--bundle", bundle.directory, bundle.id).ok().split() == ["started"]
    assert "SPEC_UNLOCKED" in _run(runtime, locked, "without").err
