"""The whole life of a container of docker's and podman's: it has its device as long as it lives."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pytest
from engines.harness.device import NAME, UNKNOWN, WITH, WITHOUT, FakeDevice, assert_reason, repeated, seen
from engines.harness.docker import Docker
from engines.harness.images import WAIT
from engines.harness.podman import Podman
from engines.harness.sandbox import wait_until

pytestmark = pytest.mark.engine


class Client(NamedTuple):
    """An engine's command line.

    Arguments:
        name: of the engine.
        call: the engine.
        options: of `run` for a container that asks for nothing, for the device, and for an unknown one.
        refused: exit status of `run` where the runtime has refused.
    """

    name: str
    call: Docker | Podman
    options: dict[str, str]
    refused: int


@pytest.fixture(params=["docker", "podman", "podman of a user"])
def client(request: pytest.FixtureRequest, docker: Docker, rootful: Podman, rootless: Podman) -> Client:
    if request.param == "docker":
        # docker looks for words in the message and then changes the status
        asks = {"nothing": "--runtime=shim", "device": "--runtime=asks", "unknown": "--runtime=asks-unknown"}
        return Client("docker", docker, asks, 125)
    key = "--annotation=cdi.k8s.io/vendor-test_one"
    asks = {"nothing": "--annotation=other=x", "device": f"{key}={NAME}", "unknown": f"{key}={UNKNOWN}"}
    return Client(request.param, rootful if request.param == "podman" else rootless, asks, 126)


# What is done, and how often the container has been started then; 0 where it does not run.
LIFE = [
    ("start", 1),
    ("pause", 0),
    ("unpause", 1),
    ("update --memory=64m --memory-swap=64m", 1),
    ("kill --signal=USR1", 1),
    ("restart --time=5", 2),
    ("stop --time=5", 0),
    ("start", 3),
    ("kill", 0),
    ("wait", 0),
    ("start", 4),
]
NOT_FOR_A_USER = ("pause", "unpause", "update")  # no cgroups, on v1


def has_told(client: Client, name: str, times: int) -> bool:
    return client.call("logs", name).out.count("gate=") == times


@pytest.mark.parametrize(
    ("asked", "expected", "life"), [("device", WITH, LIFE), ("nothing", WITHOUT, LIFE[:7])], ids=["device", "nothing"]
)
def test_a_container_has_what_it_asked_for_as_long_as_it_lives(
    client: Client, device: FakeDevice, asked: str, expected: dict[str, str], life: list[tuple[str, int]]
) -> None:
    call, name = client.call, f"life-{asked}"
    before = call.records()
    call.run(client.options[asked], f"--name={name}", script=f"{device.probe}\ntrap : USR1\n{WAIT}", verb="create").ok()
    for step, starts in life:
        if client.name == "podman of a user" and step.startswith(NOT_FOR_A_USER):
            continue
        call(*step.split(), name).ok()
        if starts:
            wait_until(partial(has_told, client, name, starts), f"{name} has said {starts} times what it has")
            assert seen(call("logs", name).ok()) == expected, step
            assert seen(call("exec", name, "/bin/sh", "-c", device.probe).ok()) == expected, step
            assert device.hook_calls() == (starts if asked == "device" else 0), step
    assert len(call.records() - before) == (1 if asked == "device" else 0)
    if asked == "device":
        assert repeated(device.config()) == []
    call("stop", "--time=5", name).ok()
    assert call("inspect", "--format={{.State.ExitCode}}", name).ok() == "0\n"
    call("rm", name).ok()


def test_a_container_that_is_restarted_for_its_failures_has_its_device_each_time_once(
    client: Client, device: FakeDevice
) -> None:
    """It fails twice, and waits the third time, so that one can look."""
    script = f"{device.probe}\necho >> /starts\n[ $(stat -c %s /starts) -gt 2 ] || exit 1\n{WAIT}"
    call, before = client.call, client.call.records()
    call.run("--detach", "--restart=on-failure:2", client.options["device"], "--name=failing", script=script).ok()
    wait_until(partial(has_told, client, "failing", 3), "it was started three times")
    logs = call("logs", "failing").ok()
    assert [seen(f"env={one}") for one in logs.split("env=")[1:]] == [WITH] * 3
    assert seen(call("exec", "failing", "/bin/sh", "-c", device.probe).ok()) == WITH
    assert device.hook_calls() == 3
    assert repeated(device.config()) == []
    assert len(call.records() - before) == 1
    call("rm", "--force", "failing").ok()


def test_the_user_is_told_why_a_device_is_unknown_and_no_container_runs(client: Client) -> None:
    ran = client.call.run("--rm", "--name=unknown", client.options["unknown"], script="true")
    assert (ran.status, ran.out) == (client.refused, "")
    assert_reason(ran.err)
    assert client.call("ps", "--all", "--quiet", "--filter=name=unknown").ok() == ""


def test_standard_input_and_exit_status_are_those_of_the_container(client: Client) -> None:
    ran = client.call.run(
        "--rm", "--interactive", client.options["device"], script="cat; exit 3", stdin="through and through"
    )
    assert (ran.status, ran.out) == (3, "through and through")
