"""A container that asks for nothing starts no Python in its whole life, whatever runtime it has.

The interpreter that the launcher starts notes each of its starts. The container that asks is what shows that it does:
the first one that asks for this is decided in Python. Its execs are not (test_repeated.py has the second one).
"""

from __future__ import annotations

import pytest
from engines.harness.containerd import Containerd
from engines.harness.cri import Cri
from engines.harness.device import NAME
from engines.harness.docker import Docker
from engines.harness.images import WAIT
from engines.harness.installation import Installation
from engines.harness.podman import Podman
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

KEY = "cdi.k8s.io/vendor-test_one"


@pytest.fixture
def python(sandbox: Sandbox, installation: Installation) -> Installation:
    sandbox.run("rm", "-rf", "/run/shim/answers").ok()
    installation.forget()
    return installation


def verbs(python: Installation) -> list[str]:
    """For which verbs Python was started."""
    return [line.partition(" verb=")[2].split()[0] for line in python.starts()]


@pytest.fixture(scope="module")
def cri(sandbox: Sandbox, containerd: Containerd) -> Cri:
    return Cri(sandbox, containerd.socket, containerd.directory / "cri")


@pytest.mark.parametrize(
    ("handler", "annotations", "started"),
    [
        pytest.param("", {}, [], id="the default handler"),
        pytest.param("runc", {KEY: NAME}, [], id="handler runc, though it asks"),
        pytest.param("shim", {}, [], id="handler shim, and nothing asked"),
        pytest.param("shim", {KEY: NAME}, ["create"], id="handler shim, and a device asked"),
    ],
)
def test_a_pod(cri: Cri, python: Installation, handler: str, annotations: dict[str, str], started: list[str]) -> None:
    pod = cri.run_pod(f"pod-{handler}-{len(annotations)}", {}, handler)
    container = pod.create("only", annotations, WAIT)
    pod.start(container)
    assert pod.execute(container, "/bin/sh", "-c", "echo hello") == "hello\n"
    pod.stop(container, seconds=5)
    pod.remove()
    assert verbs(python) == started


@pytest.mark.parametrize(
    ("runtime", "started"),
    [
        pytest.param("runc", [], id="the default runtime"),
        pytest.param("shim", [], id="runtime shim"),
        pytest.param("asks", ["create"], id="a runtime that asks"),
    ],
)
def test_a_container_of_dockers(docker: Docker, python: Installation, runtime: str, started: list[str]) -> None:
    docker.run("--detach", "--name=only", f"--runtime={runtime}", script=WAIT).ok()
    assert docker("exec", "only", "/bin/sh", "-c", "echo hello").ok() == "hello\n"
    docker("stop", "--time=5", "only").ok()
    docker("rm", "only").ok()
    assert verbs(python) == started


@pytest.mark.parametrize(
    ("plain", "annotation", "started"),
    [
        pytest.param(True, KEY, [], id="the low-level runtime itself, though it asks"),
        pytest.param(False, "other", [], id="runtime shim"),
        pytest.param(False, KEY, ["create"], id="runtime shim, and a device asked"),
    ],
)
def test_a_container_of_podmans(
    podman: Podman, python: Installation, low_level: RuntimeName, plain: bool, annotation: str, started: list[str]
) -> None:
    runtime = low_level if plain else "shim"
    podman.run("--detach", "--name=only", f"--annotation={annotation}={NAME}", script=WAIT, runtime=runtime).ok()
    assert podman("exec", "only", "/bin/sh", "-c", "echo hello").ok() == "hello\n"
    podman("stop", "--time=5", "only").ok()
    podman("rm", "only").ok()
    assert verbs(python) == started
