"""The blocks of docs/quickstart.md as they stand there: pasted on a machine, each gives a container its device."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from engines.harness import debian, quickstart
from engines.harness.sandbox import Sandbox
from install.machine import TOP, Machine, make

pytestmark = pytest.mark.engine

BLOCKS = quickstart.blocks()
SHARED = ("install", "spec")
ENGINES = {
    "containerd-ctr": "containerd",
    "containerd-cri": "containerd",
    "docker-20.10": "docker",
    "podman-4.3": "podman",
}
NIGHTLY = {"docker-26": "docker", "podman-5": "podman"}  # with the packages of Debian 13
NOT_RUN = ("crio",)  # no Debian has a package of the engine

BOX = quickstart.blocks(quickstart.README)
GPU_ENGINES = {"gpu-podman": "podman", "gpu-containerd": "containerd"}
GPU_NIGHTLY = {"gpu-podman": "podman", "gpu-docker": "docker"}  # with the packages of Debian 13
GPU_NOT_RUN = ("gpu-crio",)  # as above

USR = "/run/overlay/machine-0/upper"  # where a Machine keeps its changes to /usr

CARD = re.compile(r"^crw-rw-rw- +1 .* 1, +5 .* renderD128$", re.MULTILINE)
NODE = re.compile(r"^crw-rw-rw- +1 .* 1, +5 .* /dev/hello$", re.MULTILINE)


@pytest.fixture(scope="module")
def image() -> None:
    """What `make install` installs, so that nothing is built in the sandbox."""
    make("build/image")


@pytest.fixture(autouse=True)
def device() -> None:
    """Not the fake device of the other tests: the blocks bring their own."""


@pytest.fixture
def sandbox(image: None) -> Iterator[Sandbox]:  # noqa: ARG001 (made before)
    """A machine without shim, and without specs."""
    with Sandbox() as box:
        Machine(box)
        box.reset()
        yield box


def test_d10_each_block_is_run_or_listed_as_not_run() -> None:
    assert {*BLOCKS} == {*SHARED, *ENGINES, *NIGHTLY, *NOT_RUN}
    assert quickstart.DOCUMENT.read_text(encoding="utf-8").count("```sh\n") == len(BLOCKS), "none without a name"


@pytest.mark.parametrize("name", ENGINES)
def test_d10_a_block_gives_a_container_its_device(sandbox: Sandbox, name: str) -> None:
    """A newcomer had to put the steps together from four documents."""
    quickstart.prepare(sandbox, ENGINES[name])
    _assert_device(sandbox, name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NIGHTLY)
def test_d10_so_does_a_block_for_an_engine_of_debian_13(sandbox: Sandbox, name: str) -> None:
    debian.cover(sandbox, USR)
    quickstart.prepare(sandbox, NIGHTLY[name], is_newer=True)
    _assert_device(sandbox, name)


def _assert_device(sandbox: Sandbox, name: str) -> None:
    """Paste the blocks up to that of an engine, and look at what the container prints."""
    quickstart.paste(sandbox, BLOCKS["install"], TOP).ok()
    done = quickstart.paste(sandbox, BLOCKS["spec"] + BLOCKS[name], sandbox.scratch / "tmp")
    output = done.ok()
    assert "HELLO=world\n" in output, done
    assert NODE.search(output), done


def test_each_block_of_the_readme_is_run_or_listed_as_not_run() -> None:
    assert {*BOX} == {"gpu-box", *GPU_ENGINES, *GPU_NIGHTLY, *GPU_NOT_RUN}
    assert quickstart.README.read_text(encoding="utf-8").count("```sh\n") == len(BOX), "none without a name"
    for name, text in BOX.items():
        commands = len(text.replace("\\\n", "").splitlines())
        assert commands == (3 if name == "gpu-box" else 2), "five in all"


@pytest.mark.parametrize("name", GPU_ENGINES)
def test_a_gpu_box_from_nothing(sandbox: Sandbox, name: str) -> None:
    quickstart.give_card(sandbox)
    quickstart.prepare(sandbox, GPU_ENGINES[name])
    _assert_card(sandbox, name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", GPU_NIGHTLY)
def test_a_gpu_box_from_nothing_on_debian_13(sandbox: Sandbox, name: str) -> None:
    debian.cover(sandbox, USR)
    quickstart.give_card(sandbox)
    quickstart.prepare(sandbox, GPU_NIGHTLY[name], is_newer=True)
    _assert_card(sandbox, name)


def _assert_card(sandbox: Sandbox, name: str) -> None:
    """Paste the five commands, and look at what the container prints."""
    done = quickstart.paste(sandbox, BOX["gpu-box"] + BOX[name], TOP)
    assert CARD.search(done.ok()), done
