"""Fixtures of the engine tests: for runc and for crun a sandbox, the launcher, the fake device, and each engine.

Whatever uses one of these runs twice in a module, once for each low-level runtime, each time with new engines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
from engines.harness import programs
from engines.harness.containerd import Containerd
from engines.harness.device import FakeDevice
from engines.harness.docker import Docker
from engines.harness.installation import Installation
from engines.harness.podman import Podman
from engines.harness.registration import Configure, Engine, by_command
from engines.harness.runtimes import CGROUP_MODE, Runtime, RuntimeName
from engines.harness.sandbox import UID, Sandbox


@pytest.fixture(scope="session", autouse=True)
def umask() -> Iterator[None]:
    """What the tests write can be read by the unprivileged user, whatever the developer's own umask is."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="module", params=get_args(RuntimeName))
def low_level(request: pytest.FixtureRequest) -> RuntimeName:
    """The low-level runtime behind the launcher."""
    chosen: RuntimeName = request.param
    return chosen


@pytest.fixture(scope="module")
def sandbox(low_level: RuntimeName) -> Iterator[Sandbox]:
    """A sandbox for each low-level runtime, since crun does not take every cgroup layout that runc takes."""
    with Sandbox(CGROUP_MODE[low_level]) as box:
        yield box


@pytest.fixture(scope="module")
def installation(sandbox: Sandbox) -> Installation:
    """The launcher of the environment that runs these tests, as `make install` places it."""
    return Installation(sandbox)


@pytest.fixture(scope="module")
def shim(installation: Installation) -> Path:
    """The launcher, by its path inside the sandbox."""
    return installation.launcher


@pytest.fixture(scope="module")
def linked(installation: Installation, low_level: RuntimeName) -> Path:
    """What engines are given: a link to the launcher, which chooses the low-level runtime by its name."""
    return installation.link(f"shim-{low_level}")


@pytest.fixture(autouse=True)
def device(sandbox: Sandbox) -> FakeDevice:
    """The fake device with its spec in /etc/cdi; nothing else in the directories that the shim reads.

    Every test begins with it, used or not: what a test leaves in those directories is gone for the next.
    """
    sandbox.reset()
    fake = FakeDevice(sandbox)
    fake.publish()
    return fake


@pytest.fixture
def runtime(sandbox: Sandbox, shim: Path, low_level: RuntimeName) -> Runtime:
    """The launcher as `shim`; runc is what it finds by itself, crun is chosen by the low-level link."""
    if low_level == "crun":
        sandbox.link_low_level("shim", programs.find("crun")[0])
    return Runtime(sandbox, shim, low_level)


@pytest.fixture(scope="module")
def register(sandbox: Sandbox, shim: Path, linked: Path) -> Callable[[Engine], Configure]:
    """How an engine comes to know the launcher as `shim`: the one place that says so for all of them."""
    return partial(by_command, sandbox, shim, linked)


@pytest.fixture(scope="module")
def containerd(sandbox: Sandbox, linked: Path, register: Callable[[Engine], Configure]) -> Iterator[Containerd]:
    engine = Containerd(sandbox, linked, register("containerd"))
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def docker(sandbox: Sandbox, linked: Path, register: Callable[[Engine], Configure]) -> Iterator[Docker]:
    engine = Docker(sandbox, linked, register("docker"))
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def own(sandbox: Sandbox) -> Path:
    """A directory of the unprivileged user's, in a path that root keeps, as seen inside; `shim` and `cdi` are in it."""
    directory = sandbox.host / "own"
    for path in (directory, directory / "shim", directory / "cdi"):
        sandbox.run("install", "-d", "-m", "755", "-o", str(UID), "-g", str(UID), path).ok()
    return directory


@pytest.fixture(scope="module")
def rootful(sandbox: Sandbox, register: Callable[[Engine], Configure]) -> Iterator[Podman]:
    """podman of root, recorded as one under which annotations count."""
    engine = Podman(sandbox, register("podman"))
    engine.record("5.0")
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def rootless(sandbox: Sandbox, register: Callable[[Engine], Configure], own: Path) -> Iterator[Podman]:
    """podman of an unprivileged user, with a configuration and log of its own, recorded likewise."""
    variables = {"XDG_CONFIG_HOME": str(own), "XDG_STATE_HOME": str(own)}
    engine = Podman(sandbox, register("podman"), rootless=True, runtime_env=variables)
    engine.record("5.0")
    yield engine
    engine.close()


@pytest.fixture(params=["rootful", "rootless"])
def podman(request: pytest.FixtureRequest, rootful: Podman, rootless: Podman) -> Podman:
    """Both of them, one after the other."""
    return rootful if request.param == "rootful" else rootless
