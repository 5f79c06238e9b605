"""From a vendor's toolkit to shim with a real docker: its daemon starts with each file that is written, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from engines.harness import quickstart
from engines.harness.sandbox import Result, Sandbox
from install.machine import TOP, Machine, make

pytestmark = pytest.mark.engine

DAEMON = "/etc/docker/daemon.json"
THEIRS = "/usr/bin/amd-container-runtime"
REACHED = "/run/reached"
RUNTIME = f'#!/bin/sh\necho "$*" >> {REACHED}\nexec runc "$@"\n'
SPEC = (
    '{"cdiVersion": "0.6.0", "kind": "amd.com/gpu", "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}]}\n'
)


@pytest.fixture(autouse=True)
def device() -> None:
    """Not the fake device of the other tests."""


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A machine with docker, whose default runtime is AMD's, and with AMD's spec; shim is installed."""
    make("build/image")
    with Sandbox() as box:
        Machine(box)
        box.reset()
        quickstart.prepare(box, "docker")
        quickstart.paste(box, quickstart.blocks()["install"], TOP).ok()
        box.run("install", "-m", "755", "/dev/stdin", THEIRS, stdin=RUNTIME).ok()
        (box.scratch / "etc-cdi/amd.json").write_text(SPEC)
        settings = json.loads(box.run("cat", DAEMON).ok())
        settings |= {"default-runtime": "amd", "runtimes": {"amd": {"path": THEIRS, "runtimeArgs": []}}}
        box.run("install", "-m", "644", "/dev/stdin", DAEMON, stdin=json.dumps(settings, indent=4)).ok()
        yield box


def _paste(sandbox: Sandbox, text: str) -> Result:
    return quickstart.paste(sandbox, text, sandbox.scratch / "tmp")


def _default(sandbox: Sandbox) -> str:
    """The default runtime of docker as it starts anew, which runs a container."""
    sandbox.run("rm", "-f", REACHED).ok()
    output = _paste(
        sandbox,
        "systemctl restart docker; docker run --rm busybox sh -c 'echo ran'; docker info -f '{{.DefaultRuntime}}'",
    )
    ran, name = output.ok().split()
    assert ran == "ran"
    return name


def test_docker_runs_with_each_configuration_on_the_way_and_back(sandbox: Sandbox) -> None:
    before = sandbox.run("cat", DAEMON).ok()

    assert _default(sandbox) == "amd"
    assert "create" in sandbox.run("cat", REACHED).ok()

    done = _paste(sandbox, "shim runtime migrate --from amd")
    assert "docker: the runtime amd: stays, beside shim" in done.ok().splitlines()
    assert _default(sandbox) == "amd"
    assert _paste(sandbox, "docker run --rm --runtime shim busybox sh -c 'echo ran'").ok() == "ran\n"

    done = _paste(sandbox, "shim runtime migrate --from amd --remove")
    assert "docker: the runtime amd: removed" in done.ok().splitlines()
    assert _default(sandbox) == "shim"
    assert sandbox.run("cat", REACHED).status != 0, "the vendor's program was started"
    assert "amd" not in _paste(sandbox, "docker info -f '{{json .Runtimes}}'").ok()

    _paste(sandbox, "shim runtime migrate --from amd --undo").ok()
    assert sandbox.run("cat", DAEMON).ok() == before
    assert _default(sandbox) == "amd"
