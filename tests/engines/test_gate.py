"""A gate in front of dockerd 20.10, used by docker itself: what must work, and every refusal with its message.

Docker 20.10 has neither CDI nor annotations; the runtime `asks`, which has `--device` in its runtimeArgs, stands for a
device here.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engines.harness import device as fake
from engines.harness import images, programs, refusals
from engines.harness.device import WITH, FakeDevice, seen
from engines.harness.docker import Docker
from engines.harness.gate import Gate
from engines.harness.images import WAIT
from engines.harness.registration import Configure, Engine
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Result, Sandbox

pytestmark = pytest.mark.engine

SECONDS_TO_STOP = 11


@pytest.fixture(scope="module")
def low_level() -> RuntimeName:
    """The gate stands in front of the daemon: which runtime is behind it makes no difference."""
    return "runc"


@pytest.fixture(scope="module")
def docker(sandbox: Sandbox, linked: Path, register: Callable[[Engine], Configure]) -> Iterator[Docker]:
    engine = Docker(sandbox, linked, register("docker"))
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def gate(sandbox: Sandbox, shim: Path, docker: Docker) -> Iterator[Gate]:
    served = Gate(sandbox, shim, docker)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def running(gate: Gate) -> Iterator[str]:
    """A container that runs."""
    gate("run", "--detach", "--name=running", "--network=none", images.BUSYBOX, "/bin/sh", "-c", WAIT).ok()
    yield "running"
    gate("rm", "--force", "running").ok()


def run(gate: Gate, *options: str | Path, script: str = "true", stdin: str = "") -> Result:
    return gate("run", "--rm", "--network=none", *options, images.BUSYBOX, "/bin/sh", "-c", script, stdin=stdin)


# --- what must work -----------------------------------------------------------------------------------------------


def test_standard_input_ends_and_the_rest_of_the_output_comes(gate: Gate) -> None:
    assert run(gate, "--interactive", script="cat; echo end", stdin="given").ok() == "givenend\n"


def test_exec_and_its_status(gate: Gate, running: str) -> None:
    assert gate("exec", "--interactive", running, "cat", stdin="x").ok() == "x"
    assert gate("exec", running, "/bin/sh", "-c", "exit 7").status == 7
    gate("exec", "--detach", running, "true").ok()


def test_attach(gate: Gate) -> None:
    gate("create", "--interactive", "--name=attached", "--network=none", images.BUSYBOX, "/bin/cat").ok()
    assert gate("start", "--attach", "--interactive", "attached", stdin="through attach").ok() == "through attach"
    gate("rm", "attached").ok()


def test_logs_follow_and_events(gate: Gate) -> None:
    end = f"--until={int(time.time()) + 8}"
    events = gate.start("events", "--filter=container=logged", "--format={{.Action}}", end)
    script = "echo one; sleep 1; echo two"
    gate("run", "--detach", "--name=logged", "--network=none", images.BUSYBOX, "/bin/sh", "-c", script).ok()
    logs = gate.start("logs", "--follow", "logged")
    assert logs.communicate(timeout=60)[0] == "one\ntwo\n"
    gate("rm", "--force", "logged").ok()
    assert events.communicate(timeout=60)[0].split() == ["create", "start", "die", "destroy"]


def test_much_output_arrives_whole(gate: Gate) -> None:
    ran = run(gate, script="head -c 20971520 /dev/zero | tr '\\0' x")
    assert len(ran.ok()) == 20 << 20


def test_files_are_copied_in_both_directions(gate: Gate, running: str, sandbox: Sandbox) -> None:
    (sandbox.scratch / "tmp/in").write_text("copied")
    gate("cp", sandbox.scratch / "tmp/in", f"{running}:/copied").ok()
    gate("cp", f"{running}:/copied", sandbox.scratch / "tmp/out").ok()
    assert (sandbox.scratch / "tmp/out").read_text() == "copied"


def test_images_are_saved_loaded_built_tagged_and_committed(gate: Gate, running: str, sandbox: Sandbox) -> None:
    archive = sandbox.scratch / "tmp/saved.tar"
    gate("save", "--output", archive, images.BUSYBOX).ok()
    assert images.BUSYBOX in gate("load", "--input", archive).ok()
    directory = sandbox.scratch / "tmp/context"
    directory.mkdir()
    (directory / "Dockerfile").write_text(f"FROM {images.BUSYBOX}\nRUN echo built > /built\nCOPY noise /noise\n")
    (directory / "noise").write_bytes(os.urandom(4 << 20))
    gate("build", "--network=none", "--tag=built", directory, env={"DOCKER_BUILDKIT": "0"}).ok()
    assert gate("run", "--rm", "--network=none", "built", "cat", "/built").ok() == "built\n"
    gate("tag", "built", "other").ok()
    gate("commit", running, "committed").ok()
    gate("rmi", "built", "other", "committed").ok()


def test_ordinary_work(gate: Gate, running: str) -> None:
    for words in (
        ["info"], ["ps"], ["inspect", running], ["top", running], ["stats", "--no-stream", running], ["diff", running],
        ["images"], ["history", images.BUSYBOX], ["volume", "create", "data"], ["volume", "ls"],
        ["volume", "rm", "data"], ["network", "ls"], ["system", "df"], ["update", "--memory=64m", "--memory-swap=64m",
        running], ["pause", running], ["unpause", running], ["rename", running, "renamed"],
        ["rename", "renamed", running], ["restart", "--time=0", running],
    ):  # fmt: skip
        gate(*words).ok()


def test_directories_of_a_project_are_bound(gate: Gate, sandbox: Sandbox) -> None:
    project = sandbox.scratch / "tmp/project"
    project.mkdir()
    run(gate, f"--volume={project}:/p", script="echo x > /p/made").ok()
    assert (project / "made").read_text() == "x\n"
    assert run(gate, "--volume=/etc:/host:ro", script="ls /host").ok()


def test_a_granted_device_is_given_and_a_revoked_one_is_not_started(gate: Gate, device: FakeDevice) -> None:
    """The runtime `asks` stands for the device of its arguments, also at a later start."""
    refused = run(gate, "--runtime=asks", script=device.probe)
    assert refused.status == 125
    assert f"device {fake.NAME} is not granted to repo-a (granted: none)" in refused.err
    assert f"shim grant add repo-a --device {fake.NAME} [grant-missing]" in refused.err

    gate.grant("add", fake.NAME)
    assert seen(run(gate, "--runtime=asks", script=device.probe).ok()) == WITH
    assert gate.decisions()[-1]["devices"] == [fake.NAME]

    gate("create", "--name=later", "--runtime=asks", "--network=none", images.BUSYBOX, "true").ok()
    gate("start", "later").ok()
    gate.grant("revoke", fake.NAME)
    started = gate("start", "later")
    assert "[grant-missing]" in started.err
    assert "[grant-missing]" in gate("restart", "later").err
    gate("rm", "later").ok()


def test_containers_of_others_and_links_that_changed_are_judged_at_their_start(
    gate: Gate, docker: Docker, sandbox: Sandbox
) -> None:
    docker("create", "--name=foreign", "--privileged", "--network=none", images.BUSYBOX, "true").ok()
    assert "[privileged]" in gate("start", "foreign").err
    docker("rm", "foreign").ok()

    source = sandbox.scratch / "tmp/becomes-a-link"
    source.mkdir()
    gate("create", "--name=swapped", f"--volume={source}:/x", "--network=none", images.BUSYBOX, "true").ok()
    gate("start", "swapped").ok()
    source.rmdir()
    source.symlink_to("/dev")
    assert "[bind-device]" in gate("start", "swapped").err
    assert "[bind-device]" in run(gate, f"--volume={source}:/x").err
    gate("rm", "swapped").ok()


def test_compose(gate: Gate, sandbox: Sandbox) -> None:
    directory = sandbox.scratch / "tmp/project-of-compose"
    directory.mkdir()
    service = f"image: {images.BUSYBOX}\n    network_mode: none\n    command: [/bin/sh, -c, 'echo up; sleep 600']\n"
    (directory / "compose.yaml").write_text(
        f"version: '2.4'\nservices:\n  web:\n    {service}    volumes: ['data:/data', './:/project:ro']\n"
        f"  bad:\n    {service}    privileged: true\nvolumes: {{data: {{}}}}\n"
    )
    compose: list[str | Path] = [
        programs.find("docker-compose")[0],
        "--host",
        f"unix://{gate.socket}",
        "--file",
        directory / "compose.yaml",
    ]
    sandbox.run(*compose, "up", "--detach", "web").ok()
    assert sandbox.run(*compose, "exec", "-T", "web", "cat", "/project/compose.yaml").ok().startswith("version")
    assert "up" in sandbox.run(*compose, "logs", "web").ok()
    refused = sandbox.run(*compose, "up", "--detach", "bad")
    assert refused.status != 0
    assert "[privileged]" in refused.err
    sandbox.run(*compose, "down", "--volumes").ok()


def test_buildkit_passes_where_the_policy_trusts_the_daemon(sandbox: Sandbox, shim: Path, docker: Docker) -> None:
    directory = sandbox.scratch / "tmp/by-buildkit"
    directory.mkdir()
    (directory / "Dockerfile").write_text(f"FROM {images.BUSYBOX}\nCOPY Dockerfile /copied\nRUN echo built > /built\n")
    builder = Gate(sandbox, shim, docker, 'builder = "daemon"\n', name="builder")
    words: list[str | Path] = ["build", "--network=none", "--tag=by-buildkit", directory]
    built = builder(*words, env={"DOCKER_BUILDKIT": "1"})
    assert built.status == 0, built
    assert builder("run", "--rm", "--network=none", "by-buildkit", "cat", "/built").ok() == "built\n"
    assert builder.stop() == 0


def test_verify_reports_what_this_daemon_lacks(sandbox: Sandbox, shim: Path, docker: Docker) -> None:
    words = ["--subject=repo-a", f"--upstream={docker.directory}/socket", "--output=json"]
    checked = sandbox.run(shim, "gate", "verify", *words)
    found = {finding["id"]: finding["text"] for finding in json.loads(checked.out)["findings"]}
    assert found["GATE_ENGINE"].startswith("engine 20.10.24")
    assert "GATE_BINDS" in found
    assert not {"GATE_TCP", "GATE_UPSTREAM", "GATE_CGROUP"} & set(found)


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), refusals.RUN, ids=refusals.named)
def test_docker_run_is_refused(options: list[str], message: str, gate: Gate) -> None:
    refused = run(gate, *options)
    assert refused.status == 125
    assert message in refused.err
    assert refused.err.startswith("docker: Error response from daemon: ")


def test_unreadable_grants_give_no_device_and_leave_the_rest_alone(gate: Gate, sandbox: Sandbox) -> None:
    (sandbox.scratch / "etc-shim/grants.json").write_text("{")
    assert "[grants-unreadable]" in run(gate, "--gpus=driver=cdi,device=a.b/c=d").err
    run(gate).ok()


@pytest.mark.parametrize(("words", "message"), refusals.COMMANDS, ids=refusals.named)
@pytest.mark.usefixtures("running")
def test_another_command_is_refused(words: list[str], message: str, gate: Gate) -> None:
    refused = gate(*words)
    assert refused.status != 0
    assert message in refused.err


def test_buildkit_is_refused(gate: Gate, sandbox: Sandbox) -> None:
    directory = sandbox.scratch / "tmp/buildkit"
    directory.mkdir()
    (directory / "Dockerfile").write_text(f"FROM {images.BUSYBOX}\n")
    refused = gate("build", directory, env={"DOCKER_BUILDKIT": "1"})
    assert refused.status != 0
    assert "use DOCKER_BUILDKIT=0 docker build, or let the operator set" in refused.err


@pytest.mark.parametrize(("method", "target", "body", "message"), refusals.REQUESTS, ids=refusals.named)
@pytest.mark.usefixtures("running")
def test_what_no_command_sends_is_refused(
    method: str, target: str, body: str, message: str, gate: Gate, sandbox: Sandbox
) -> None:
    words: list[str | Path] = ["curl", "--silent", "--path-as-is", "--unix-socket", gate.socket, "--request", method]
    content = ["--header", "Content-Type: application/json", "--data", body] if body else []
    answer = sandbox.run(*words, *content, f"http://docker{target}")
    assert message in json.loads(answer.ok())["message"]


def test_old_versions_and_long_bodies_are_refused(gate: Gate, sandbox: Sandbox) -> None:
    refused = gate("ps", env={"DOCKER_API_VERSION": "1.30"})
    assert "API version 1.30 is refused; versions 1.40 to 1.56 are served [api-version]" in refused.err
    (sandbox.scratch / "tmp/labels").write_text("".join(f"l{number}={'x' * 1000}\n" for number in range(5000)))
    assert "[http-too-large]" in run(gate, f"--label-file={sandbox.scratch}/tmp/labels").err


def test_every_refusal_was_written_down(gate: Gate) -> None:
    run(gate, "--privileged")
    last = gate.decisions()[-1]
    assert (last["decision"], last["reason"], last["uid"]) == ("deny", "privileged", 0)
    assert last["target"] == "/v1.41/containers/create"


def test_a_gate_stops_with_streams_open(sandbox: Sandbox, shim: Path, docker: Docker) -> None:
    own = Gate(sandbox, shim, docker, name="stopped")
    events = own.start("events")
    began = time.monotonic()
    assert own.stop() == 0
    assert time.monotonic() - began < SECONDS_TO_STOP
    events.communicate(timeout=30)
