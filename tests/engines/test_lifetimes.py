"""What happens to shim while containers run under it: they can still be entered, stopped and deleted afterwards.

A table of engines and actions, for what `make install` put in place and for the Debian package. Each engine has a link
to the launcher by whose name no runtime is found, so that without its low-level link a container is lost: the last test
shows that this is noticed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from engines.harness.containerd import Containerd
from engines.harness.cri import Cri
from engines.harness.docker import Docker
from engines.harness.images import WAIT
from engines.harness.podman import Podman
from engines.harness.sandbox import Result, Sandbox, wait_until
from install.machine import TOP, Machine, make

pytestmark = pytest.mark.engine

Kind = Literal["make", "deb"]
ACTIONS = ("configure", "remove", "upgrade", "uninstall", "remove, then uninstall")


class Shim:
    """shim, installed in one of two ways on a machine of its own, with three engines that it is registered with."""

    def __init__(self, sandbox: Sandbox, kind: Kind, deb: Path) -> None:
        self.kind = kind
        self.machine = Machine(sandbox)
        sandbox.reset()  # no link to a runtime of the machine's own
        self._package = sandbox.scratch / "package.deb"
        shutil.copy(deb, self._package)
        prefix = "/usr/local" if kind == "make" else "/usr"
        self.command = f"{prefix}/bin/shim"
        self.files: dict[str, Path] = {}
        self.upgrade().ok()
        for engine in ("containerd", "docker", "podman"):
            self.machine.run("ln", "-s", "shim", self.launcher(engine)).ok()
        self.containerd = Containerd(sandbox, self.launcher("containerd"), partial(self._register, "containerd"))
        self.docker = Docker(sandbox, self.launcher("docker"), partial(self._register, "docker"))
        self.podman = Podman(sandbox, partial(self._register, "podman"))
        self.cri = Cri(sandbox, self.containerd.socket, self.containerd.directory / "cri")

    def launcher(self, engine: str) -> Path:
        """The path of the launcher in an engine's configuration."""
        return Path(f"{self.command}-of-{engine}")

    def _register(self, engine: str, file: Path) -> None:
        self.files[engine] = file
        self.configure(engine).ok()

    def configure(self, engine: str, low_level: str = "runc") -> Result:
        """`shim runtime configure`; a second time with the same runtime it changes nothing."""
        return self._runtime("configure", engine, f"--path={self.launcher(engine)}", f"--low-level={low_level}")

    def remove(self, engine: str) -> Result:
        """`shim runtime remove`."""
        return self._runtime("remove", engine)

    def _runtime(self, verb: str, engine: str, *words: str) -> Result:
        file = f"--config={self.files[engine]}"
        return self.machine.run(self.command, "runtime", verb, f"--engine={engine}", file, *words)

    def upgrade(self) -> Result:
        """Install it, or once more."""
        if self.kind == "make":
            return self.machine.place("install")
        return self.machine.run("dpkg", "--no-triggers", "-i", self._package)

    def uninstall(self) -> Result:
        """Remove it, as far as it lets itself be removed."""
        if self.kind == "make":
            return self.machine.place("uninstall")
        options = ("-o", "Dir::Cache=/run/apt", "-o", "Dpkg::Options::=--no-triggers")
        self.machine.run("mkdir", "-p", "/run/apt/archives/partial").ok()
        return self.machine.run("apt-get", "remove", "-y", *options, "cdi-shim")


@pytest.fixture(scope="module")
def deb() -> Path:
    make("build/deb")
    (package,) = (TOP / "build/deb").glob("*.deb")
    return package


@pytest.fixture(scope="module", params=["make", "deb"])
def shim(request: pytest.FixtureRequest, deb: Path) -> Iterator[Shim]:
    with Sandbox() as sandbox:
        installed = Shim(sandbox, request.param, deb)
        yield installed
        installed.podman.close()
        installed.docker.stop()
        installed.containerd.stop()


@pytest.fixture(autouse=True)
def device() -> None:
    """No device: what counts is the launcher, and a reset of the sandbox would remove its low-level link."""


class Life(NamedTuple):
    """A container that runs, and what one does with it."""

    engine: str
    enter: Callable[[], object]
    end: Callable[[], object]


def of_ctr(shim: Shim, name: str) -> Life:
    ctr = shim.containerd.ctr
    shim.containerd.run(name, "--detach", script=WAIT).ok()

    def end() -> None:
        ctr("task", "kill", "--signal=KILL", name).ok()
        wait_until(lambda: "STOPPED" in ctr("task", "list").ok(), f"{name} has ended")
        ctr("task", "delete", name)  # its status is that of the container
        assert name not in ctr("task", "list").ok()
        ctr("container", "delete", name).ok()

    return Life("containerd", lambda: ctr("task", "exec", "--exec-id=e", name, "/bin/true").ok(), end)


def of_cri(shim: Shim, name: str) -> Life:
    pod = shim.cri.run_pod(name, {})
    container = pod.create(name, {}, WAIT)
    pod.start(container)

    def end() -> None:
        pod.remove_container(container)
        pod.remove()

    return Life("containerd", lambda: pod.execute(container, "/bin/sh", "-c", "echo inside"), end)


def of_docker(shim: Shim, name: str) -> Life:
    return _of_client(shim.docker, "docker", name, "--runtime=shim")


def of_podman(shim: Shim, name: str) -> Life:
    return _of_client(shim.podman, "podman", name)


def _of_client(call: Docker | Podman, engine: str, name: str, *words: str) -> Life:
    call.run("--detach", f"--name={name}", *words, script=WAIT).ok()

    def end() -> None:
        call("stop", "--time=1", name).ok()
        call("rm", name).ok()

    return Life(engine, lambda: call("exec", name, "/bin/true").ok(), end)


CLIENTS = {"ctr": of_ctr, "cri": of_cri, "docker": of_docker, "podman": of_podman}


def act(shim: Shim, action: str, engine: str) -> None:
    """Do it, and assert that it was done, or that it was refused with the reason."""
    if action == "configure":
        done = shim.configure(engine, "crun")
        assert done.status == 1
        assert "ERROR CONTAINERS_RUNNING" in done.err
    elif action == "remove":
        done = shim.remove(engine)
        refused = engine == "podman"
        assert done.status == int(refused)
        assert f"{'ERROR' if refused else 'WARNING'} CONTAINERS_RUNNING" in done.err
    elif action == "upgrade":
        shim.upgrade().ok()
    else:
        done = shim.uninstall()
        assert done.status != 0
        assert f"{engine} container" in done.out + done.err


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("client", CLIENTS)
def test_c3_a_container_outlives_what_is_done_to_shim(shim: Shim, client: str, action: str) -> None:
    """exec, stop and delete failed, or did not return; Pods stayed Terminating."""
    life = CLIENTS[client](shim, f"{client}-{ACTIONS.index(action)}")
    try:
        for step in action.split(", then "):
            act(shim, step, life.engine)
        life.enter()
        life.end()
    finally:
        shim.configure(life.engine).ok()
    report = shim.machine.run(shim.command, "runtime", "in-use", "--output=json").out
    assert json.loads(report)["containers"] == [], "and is not counted any more"


def test_without_the_link_the_container_is_lost(shim: Shim) -> None:
    """The tests above can fail."""
    life = of_docker(shim, "control")
    link = "/etc/shim/low-level/shim-of-docker"
    shim.machine.run("mv", link, f"{link}.away").ok()
    with pytest.raises(AssertionError):
        life.enter()
    shim.machine.run("mv", f"{link}.away", link).ok()
    life.enter()
    life.end()
