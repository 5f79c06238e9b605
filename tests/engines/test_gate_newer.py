"""A gate in front of newer Dockers, with their own clients, BuildKit and Compose: that of Debian 13, and sid's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from engines.harness import debian, images, refusals
from engines.harness import device as fake
from engines.harness.device import FakeDevice
from engines.harness.docker import Docker
from engines.harness.gate import Gate
from engines.harness.images import WAIT
from engines.harness.registration import Configure, Engine
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Result, Sandbox
from install.machine import Machine

pytestmark = [pytest.mark.engine, pytest.mark.nightly]

RESERVED = f"{{driver: cdi, capabilities: [gpu], device_ids: ['{fake.NAME}']}}"
COMPOSE = f"""\
services:
  web:
    build: {{context: ., network: none}}
    image: built-by-compose
    network_mode: none
    command: [/bin/sh, -c, "echo up; exec sleep 600"]
    volumes: ["data:/data", "./:/project:ro"]
  device:
    image: {images.BUSYBOX}
    network_mode: none
    devices: ["{fake.NAME}"]
    command: [/bin/sh, -c, "echo env=$$SHIM_TEST"]
  reserved:
    image: {images.BUSYBOX}
    network_mode: none
    deploy: {{resources: {{reservations: {{devices: [{RESERVED}]}}}}}}
    command: [/bin/sh, -c, "echo env=$$SHIM_TEST"]
  gpus:
    image: {images.BUSYBOX}
    network_mode: none
    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: 1, capabilities: [gpu]}}]}}}}}}
volumes: {{data: {{}}}}
"""


@pytest.fixture(scope="module", params=get_args(debian.Release))
def release(request: pytest.FixtureRequest) -> debian.Release:
    chosen: debian.Release = request.param
    return chosen


@pytest.fixture(scope="module")
def low_level(release: debian.Release) -> RuntimeName:  # noqa: ARG001 - a sandbox for each release
    """The gate stands in front of the daemon: which runtime is behind it makes no difference."""
    return "runc"


@pytest.fixture(scope="module")
def docker(
    sandbox: Sandbox, linked: Path, register: Callable[[Engine], Configure], release: debian.Release
) -> Iterator[Docker]:
    Machine(sandbox)
    debian.cover(sandbox, "/run/overlay/machine-0/upper", release)
    by_command = register("docker")

    def configure(file: Path) -> None:
        settings = json.loads(file.read_text())
        del settings["oom-score-adjust"]  # no key since docker 25
        builder = {"entitlements": {"device": False}}
        settings.update(features={"cdi": True}, experimental=True, builder=builder)
        file.write_text(json.dumps(settings))
        by_command(file)

    engine = Docker(sandbox, linked, configure)
    engine("swarm", "init", "--advertise-addr=127.0.0.1").ok()
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def gate(sandbox: Sandbox, shim: Path, docker: Docker) -> Iterator[Gate]:
    served = Gate(sandbox, shim, docker)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def builder(sandbox: Sandbox, shim: Path, docker: Docker) -> Iterator[Gate]:
    """A gate that lets BuildKit pass."""
    served = Gate(sandbox, shim, docker, 'builder = "daemon"\n', name="builder")
    yield served
    served.stop()


@pytest.fixture(scope="module")
def running(gate: Gate) -> Iterator[str]:
    """A container that runs."""
    gate("run", "--detach", "--name=running", "--network=none", images.BUSYBOX, "/bin/sh", "-c", WAIT).ok()
    yield "running"
    gate("rm", "--force", "running").ok()


@pytest.fixture(scope="module")
def context(sandbox: Sandbox) -> Path:
    """A directory to build from."""
    directory = sandbox.scratch / "tmp/newer"
    directory.mkdir()
    (directory / "Dockerfile").write_text(f"FROM {images.BUSYBOX}\nCOPY Dockerfile /copied\nRUN echo built > /built\n")
    (directory / "compose.yaml").write_text(COMPOSE)
    return directory


def run(gate: Gate, *options: str, script: str = "true", stdin: str = "") -> Result:
    return gate("run", "--rm", "--network=none", *options, images.BUSYBOX, "/bin/sh", "-c", script, stdin=stdin)


def test_a_granted_name_is_given_by_the_engine(gate: Gate, device: FakeDevice) -> None:
    refused = run(gate, f"--device={fake.NAME}")
    assert f"shim grant add repo-a --device {fake.NAME} [grant-missing]" in refused.err
    gate.grant("add", fake.NAME)
    assert "env=one" in run(gate, f"--device={fake.NAME}", script=device.probe).ok()
    assert gate.decisions()[-1]["devices"] == [fake.NAME]
    gate("create", "--name=later", f"--device={fake.NAME}", "--network=none", images.BUSYBOX, "true").ok()
    gate.grant("revoke", fake.NAME)
    assert "[grant-missing]" in gate("start", "later").err
    gate("rm", "later").ok()


def test_annotations_are_judged(gate: Gate) -> None:
    assert "[grant-missing]" in run(gate, f"--annotation=cdi.k8s.io/x={fake.NAME}").err
    assert "[annotation-reserved]" in run(gate, "--annotation=run.oci.handler=krun").err
    run(gate, "--annotation=org.opencontainers.image.title=x").ok()


def test_clients_of_this_version_work_through_it(gate: Gate, running: str, sandbox: Sandbox) -> None:
    assert run(gate, "--interactive", script="cat; echo end", stdin="given").ok() == "givenend\n"
    assert gate("exec", "--interactive", running, "cat", stdin="x").ok() == "x"
    assert gate("exec", running, "/bin/sh", "-c", "exit 7").status == 7
    file = sandbox.scratch / "tmp/file"
    file.write_text("copied")
    for words in (
        ["version"], ["info"], ["ps", "--all", "--size"], ["inspect", running], ["top", running], ["logs", running],
        ["stats", "--no-stream", running], ["diff", running], ["cp", file, f"{running}:/copied"],
        ["cp", f"{running}:/copied", f"{file}.back"], ["pause", running], ["unpause", running],
        ["update", "--memory=64m", "--memory-swap=64m", running], ["restart", "--time=0", running],
        ["commit", running, "committed"], ["image", "ls"], ["image", "inspect", "committed"], ["history", "committed"],
        ["save", "--output", f"{file}.tar", "committed"], ["load", "--input", f"{file}.tar"], ["rmi", "committed"],
        ["volume", "create", "data"], ["volume", "inspect", "data"], ["volume", "rm", "data"], ["network", "ls"],
        ["system", "df", "--verbose"], ["events", "--since=1m", "--until=0s"], ["container", "prune", "--force"],
    ):  # fmt: skip
        gate(*words).ok()
    assert Path(f"{file}.back").read_text() == "copied"


def test_buildkit_is_refused_with_its_message(gate: Gate, context: Path) -> None:
    refused = gate("build", "--network=none", context)
    assert refused.status != 0
    assert "use DOCKER_BUILDKIT=0 docker build, or let the operator set" in refused.err
    assert "docker-container" not in refused.err, "buildx makes no builder of its own"
    gate("build", "--network=none", "--tag=classic", context, env={"DOCKER_BUILDKIT": "0"}).ok()
    gate("rmi", "classic").ok()


def test_buildkit_builds_where_the_policy_trusts_the_daemon(builder: Gate, context: Path) -> None:
    builder("build", "--network=none", "--tag=by-buildkit", context).ok()
    assert run(builder, script="true").status == 0
    assert builder("run", "--rm", "--network=none", "by-buildkit", "cat", "/built").ok() == "built\n"
    builder("buildx", "du").ok()
    refused = builder("build", "--allow=security.insecure", "--network=none", context)
    assert refused.status != 0
    assert "security.insecure" in refused.err


def test_compose(builder: Gate, context: Path, release: debian.Release) -> None:
    compose: list[str | Path] = ["compose", "--file", context / "compose.yaml"]
    builder(*compose, "up", "--detach", "--build", "web").ok()
    assert builder(*compose, "exec", "-T", "web", "cat", "/built").ok() == "built\n"
    assert "up" in builder(*compose, "logs", "web").ok()
    missing = f"shim grant add repo-a --device {fake.NAME} [grant-missing]"
    too_old = "or Compose 2.30 is needed [device-raw-path]"
    by_devices = builder(*compose, "up", "device").err
    assert (too_old if release == "trixie" else missing) in by_devices  # trixie has Compose 2.26
    assert missing in builder(*compose, "up", "reserved").err
    assert "[gpus-request]" in builder(*compose, "up", "gpus").err
    builder.grant("add", fake.NAME)
    assert "env=one" in builder(*compose, "up", "reserved").ok()
    if release != "trixie":
        assert "env=one" in builder(*compose, "up", "device").ok()
    builder.grant("revoke", fake.NAME)
    builder(*compose, "down", "--volumes", "--timeout=1").ok()


@pytest.mark.parametrize(("options", "message"), refusals.RUN, ids=refusals.named)
def test_docker_run_is_refused(options: list[str], message: str, gate: Gate) -> None:
    refused = run(gate, *options)
    assert refused.status == 125
    assert message in refused.err


@pytest.mark.parametrize(("words", "message"), [*refusals.COMMANDS, *refusals.OF_A_MANAGER], ids=refusals.named)
@pytest.mark.usefixtures("running")
def test_another_command_is_refused(words: list[str], message: str, gate: Gate) -> None:
    refused = gate(*words)
    assert refused.status != 0
    assert message in refused.err


def test_verify_reports_the_manager_of_a_swarm(sandbox: Sandbox, shim: Path, docker: Docker) -> None:
    words = ["--subject=repo-a", f"--upstream={docker.directory}/socket", "--output=json"]
    checked = sandbox.run(shim, "gate", "verify", *words)
    found = {finding["id"] for finding in json.loads(checked.out)["findings"]}
    assert "GATE_SWARM" in found
    assert not {"GATE_TCP", "GATE_UPSTREAM", "GATE_CGROUP", "GATE_BUILDER"} & found


def test_versions_are_negotiated(gate: Gate) -> None:
    """The client uses the highest version that both know, and the gate passes no higher one."""
    server = json.loads(gate("version", "--format={{json .Server}}").ok())
    gate("ps", env={"DOCKER_API_VERSION": server["ApiVersion"]}).ok()
    refused = gate("ps", env={"DOCKER_API_VERSION": "1.39"})
    assert "API version 1.39 is refused; versions 1.40 to 1.56 are served [api-version]" in refused.err
