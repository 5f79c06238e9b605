"""docker 20.10 with the launcher as an additional runtime.

This docker has no annotations, so nothing in config.json can ask for a device: ordinary containers must not notice the
launcher. What asks is `--device` in the runtimeArgs of a runtime, which docker puts in front of each verb.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from engines.harness.device import KIND, WITH, WITHOUT, FakeDevice, seen
from engines.harness.docker import Docker
from engines.harness.images import WAIT
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine


def test_a_container_that_asks_for_nothing_gets_nothing(docker: Docker, device: FakeDevice) -> None:
    assert seen(docker.run("--rm", "--runtime=shim", script=device.probe).ok()) == WITHOUT
    assert device.hook_state() is None


def test_a_runtime_with_device_in_its_arguments_gives_the_container_the_whole_device(
    docker: Docker, device: FakeDevice
) -> None:
    assert seen(docker.run("--rm", "--runtime=asks", script=device.probe).ok()) == WITH
    assert device.hook_state() is not None


def test_docker_puts_the_arguments_of_a_runtime_in_front_of_each_verb(docker: Docker, device: FakeDevice) -> None:
    """Only in create it asks; the others go on without it. `asks` has "runtimeArgs": ["--device=KIND=NAME"]."""
    docker.run("--detach", "--name=arguments", "--runtime=asks", script=f"{device.probe}\n{WAIT}").ok()
    assert seen(docker("exec", "arguments", "/bin/sh", "-c", device.probe).ok()) == WITH
    docker("pause", "arguments").ok()
    docker("unpause", "arguments").ok()
    docker("update", "--memory=64m", "--memory-swap=64m", "arguments").ok()
    assert seen(docker("exec", "arguments", "/bin/sh", "-c", device.probe).ok()) == WITH
    docker("kill", "arguments").ok()
    docker("rm", "arguments").ok()


def test_a_variable_asks_where_the_configuration_believes_it(
    docker: Docker, sandbox: Sandbox, device: FakeDevice
) -> None:
    """The way that is left without annotations and without a script: `docker run --env`."""
    options = ["--rm", "--runtime=shim", "--env=TEST_DEVICES=one"]
    assert seen(docker.run(*options, script=device.probe).ok()) == WITHOUT
    (sandbox.scratch / "etc-shim/config.toml").write_text(
        f'[sources]\nenvironment = "any"\n[sources.variables]\nTEST_DEVICES = "{KIND}"\n', encoding="ascii"
    )
    assert seen(docker.run(*options, script=device.probe).ok()) == WITH


def test_a_low_level_runtime_that_is_missing_is_named_to_the_user(
    docker: Docker, sandbox: Sandbox, linked: Path
) -> None:
    sandbox.link_low_level(linked.name, "/opt/not-there")
    ran = docker.run("--rm", "--runtime=shim", script="true")
    assert ran.status == 125
    assert "/opt/not-there" in ran.err
