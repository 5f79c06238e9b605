"""A gate in front of Docker 26 (Debian 13), which takes CDI names: `docker run --device KIND=NAME` with a grant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engines.harness import device as fake
from engines.harness import images, trixie
from engines.harness.device import FakeDevice
from engines.harness.docker import Docker
from engines.harness.gate import Gate
from engines.harness.registration import Configure, Engine
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Result, Sandbox
from install.machine import Machine

pytestmark = [pytest.mark.engine, pytest.mark.nightly]


@pytest.fixture(scope="module")
def low_level() -> RuntimeName:
    """The gate stands in front of the daemon: which runtime is behind it makes no difference."""
    return "runc"


@pytest.fixture(scope="module")
def docker(sandbox: Sandbox, linked: Path, register: Callable[[Engine], Configure]) -> Iterator[Docker]:
    Machine(sandbox)
    trixie.cover(sandbox, "/run/overlay/machine-0/upper")
    by_command = register("docker")

    def configure(file: Path) -> None:
        settings = json.loads(file.read_text())
        del settings["oom-score-adjust"]  # no key since docker 25
        file.write_text(json.dumps({**settings, "features": {"cdi": True}}))
        by_command(file)

    engine = Docker(sandbox, linked, configure)
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def gate(sandbox: Sandbox, shim: Path, docker: Docker) -> Iterator[Gate]:
    served = Gate(sandbox, shim, docker)
    yield served
    served.stop()


def run(gate: Gate, *options: str, script: str = "true") -> Result:
    return gate("run", "--rm", "--network=none", *options, images.BUSYBOX, "/bin/sh", "-c", script)


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


@pytest.mark.usefixtures("device")
def test_annotations_are_judged(gate: Gate) -> None:
    assert "[grant-missing]" in run(gate, f"--annotation=cdi.k8s.io/x={fake.NAME}").err
    assert "[annotation-reserved]" in run(gate, "--annotation=run.oci.handler=krun").err
    run(gate, "--annotation=org.opencontainers.image.title=x").ok()


@pytest.mark.usefixtures("device")
def test_clients_of_this_version_work_through_it(gate: Gate) -> None:
    assert run(gate, script="echo x").ok() == "x\n"
    assert "[gpus-request]" in run(gate, "--gpus=all").err
    gate("image", "ls").ok()
