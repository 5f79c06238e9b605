"""podman with the hook of its precreate stage, and its usual runtime: no other runtime is needed for devices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness.device import NAME, UNKNOWN, WITH, WITHOUT, FakeDevice, seen
from engines.harness.podman import Podman
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

EXAMPLE = Path(__file__).parent.parent.parent / "docs/podman-precreate.json"


@pytest.fixture(scope="module")
def podman(sandbox: Sandbox) -> Iterator[Podman]:
    """One that knows no runtime of ours, recorded as one under which annotations count."""
    engine = Podman(sandbox)
    engine.record("5.0")
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def hooks(sandbox: Sandbox, shim: Path) -> Path:
    """A directory with the file of the documentation, for this launcher."""
    directory = sandbox.scratch / "hooks.d"
    directory.mkdir()
    document = json.loads(EXAMPLE.read_text())
    assert document["hook"]["path"] == "/usr/local/bin/shim"
    document["hook"]["path"] = str(shim)
    (directory / "shim.json").write_text(json.dumps(document))
    return directory


def ask(name: str) -> str:
    return f"--annotation=cdi.k8s.io/vendor-test_one={name}"


def test_the_container_gets_the_whole_device(
    podman: Podman, low_level: RuntimeName, hooks: Path, device: FakeDevice
) -> None:
    assert seen(podman.run("--rm", ask(NAME), script=device.probe, hooks=hooks, runtime=low_level).ok()) == WITH
    assert device.hook_state() is not None


def test_without_the_hook_it_gets_nothing(podman: Podman, low_level: RuntimeName, device: FakeDevice) -> None:
    """The test above can fail."""
    assert seen(podman.run("--rm", ask(NAME), script=device.probe, runtime=low_level).ok()) == WITHOUT


def test_a_container_that_asks_for_nothing_is_as_it_was(
    podman: Podman, low_level: RuntimeName, hooks: Path, device: FakeDevice
) -> None:
    assert seen(podman.run("--rm", script=device.probe, hooks=hooks, runtime=low_level).ok()) == WITHOUT


def test_started_again_it_has_the_device_once(
    podman: Podman, low_level: RuntimeName, hooks: Path, device: FakeDevice
) -> None:
    """Podman makes the config anew for each start, and calls the hook for each."""
    podman.run("--name=again", ask(NAME), script=device.probe, hooks=hooks, runtime=low_level).ok()
    for _ in range(2):
        assert seen(podman(f"--hooks-dir={hooks}", "start", "--attach", "again").ok()) == WITH


def test_what_cannot_be_given_starts_nothing_and_the_log_says_why(
    podman: Podman, low_level: RuntimeName, hooks: Path, sandbox: Sandbox
) -> None:
    ran = podman.run("--rm", ask(UNKNOWN), script="echo started", hooks=hooks, runtime=low_level)
    assert ran.status != 0
    assert ran.out == ""
    assert "exit status 1" in ran.err
    line = json.loads((sandbox.scratch / "log/shim.log").read_text().splitlines()[-1])
    assert (line["verb"], line["outcome"]) == ("precreate", "failed")
    assert UNKNOWN in line["findings"][-1]["text"]
