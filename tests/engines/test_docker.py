"""docker 20.10 with the launcher as an additional runtime.

This docker has no annotations, so nothing in config.json can ask for a device: ordinary containers must not notice the
launcher. What asks is a wrapper script of the administrator's that adds `--device` behind the verb.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from engines.harness.device import WITH, WITHOUT, FakeDevice, assert_reason, seen
from engines.harness.docker import Docker
from engines.harness.images import WAIT
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine


def test_a_container_that_asks_for_nothing_gets_nothing(docker: Docker, device: FakeDevice) -> None:
    assert seen(docker.run("--rm", "--runtime=shim", script=device.probe).ok()) == WITHOUT
    assert device.hook_state() is None


def test_the_life_of_an_ordinary_container(docker: Docker) -> None:
    docker.run("--detach", "--name=ordinary", "--runtime=shim", script=WAIT).ok()
    assert docker("exec", "--env=WORD=hello", "ordinary", "/bin/sh", "-c", "echo $WORD").ok() == "hello\n"
    docker("pause", "ordinary").ok()
    docker("unpause", "ordinary").ok()
    docker("restart", "--time=5", "ordinary").ok()
    docker("stop", "--time=5", "ordinary").ok()
    assert docker("inspect", "--format={{.State.ExitCode}}", "ordinary").ok() == "0\n"
    docker("rm", "ordinary").ok()


def test_standard_input_and_exit_status_are_those_of_the_container(docker: Docker) -> None:
    ran = docker.run("--rm", "--interactive", "--runtime=shim", script="cat; exit 3", stdin="through and through")
    assert (ran.status, ran.out) == (3, "through and through")


def test_a_wrapper_that_adds_device_gives_the_container_the_whole_device(docker: Docker, device: FakeDevice) -> None:
    assert seen(docker.run("--rm", "--runtime=asks", script=device.probe).ok()) == WITH
    assert device.hook_state() is not None


def test_the_user_is_told_why_a_device_is_unknown(docker: Docker) -> None:
    ran = docker.run("--rm", "--name=unknown", "--runtime=asks-unknown", script="true")
    assert ran.status == 125, "docker reads some words as `command not found` and changes the status"
    assert_reason(ran.err)
    assert docker("ps", "--all", "--quiet", "--filter=name=unknown").ok() == ""


def test_a_low_level_runtime_that_is_missing_is_named_to_the_user(
    docker: Docker, sandbox: Sandbox, linked: Path
) -> None:
    sandbox.link_low_level(linked.name, "/opt/not-there")
    ran = docker.run("--rm", "--runtime=shim", script="true")
    assert ran.status == 125
    assert "/opt/not-there" in ran.err
