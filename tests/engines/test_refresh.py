"""An upgrade of NVIDIA's driver from end to end: a spec is written, is stale, is refused, and is refreshed.

The driver lies in a root of its own; what its kernel module shows in /proc is written over /proc/driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance import hosts
from engines.harness.runtimes import Bundle, Runtime
from engines.harness.sandbox import Result, Sandbox
from unit.discover.nvidia import driverroots

pytestmark = pytest.mark.engine

OLD, NEW = "535.1.1", "535.2.1"
SPEC = "/var/run/cdi/shim-nvidia.com-gpu.yaml"
GPU = "/proc/driver/nvidia/gpus/0000:01:00.0"
LIBRARIES = driverroots.MULTIARCH


class Driver:
    """The driver of a sandbox: its files, and its module in the kernel."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.root = f"{sandbox.host}/driver"
        self._top = sandbox.scratch / "host/driver"
        sandbox.run("mount", "-t", "tmpfs", "tmpfs", "/proc/driver").ok()

    def install(self, version: str) -> None:
        """Put the files of a version in the place of those that are there."""
        self._sandbox.run("rm", "-rf", self._top / "usr").ok()
        self._top.mkdir(exist_ok=True)
        hosts.build(driverroots.driver(LIBRARIES, version), self._top)

    def load(self, version: str) -> None:
        """Load its module: nodes appear, with the numbers of /dev/zero, and what /proc shows."""
        write = self._sandbox.run
        write("mkdir", "-p", GPU).ok()
        text = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Jun  6 22:20:39 UTC 2023\n"
        write("tee", "/proc/driver/nvidia/version", stdin=text).ok()
        text = "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-a\nDevice Minor: \t 0\n"
        write("tee", f"{GPU}/information", stdin=text).ok()
        zero = {"kind": "c", "major": 1, "minor": 5, "mode": "0666"}
        nodes = ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
        missing = [name for name in nodes if not (self._top / "dev" / name).exists()]
        hosts.build([{"path": f"/dev/{name}", **zero} for name in missing], self._top)

    def unload(self) -> None:
        """Unload its module."""
        self._sandbox.run("rm", "-r", "/proc/driver/nvidia", self._top / "dev").ok()


@pytest.fixture
def driver(sandbox: Sandbox) -> Iterator[Driver]:
    """A driver of the old version; what was generated for it is removed at the end."""
    driver = Driver(sandbox)
    driver.install(OLD)
    driver.load(OLD)
    yield driver
    sandbox.run("umount", "/proc/driver").ok()
    sandbox.run("rm", "-rf", "/var/lib/shim/generated", SPEC, sandbox.scratch / "host/driver").ok()


def _run(runtime: Runtime, sandbox: Sandbox, name: str) -> Result:
    script = "ls -l /usr/lib/x86_64-linux-gnu/libcuda.so.1; head -c1 /dev/nvidia0 | od -An -tx1"
    bundle = Bundle(sandbox, name, script)
    return runtime("run", "--device", "nvidia.com/gpu=0", "--bundle", bundle.directory, bundle.id)


def _refresh(sandbox: Sandbox, shim: Path, *words: str) -> tuple[Result, dict[str, str]]:
    done = sandbox.run(shim, "cdi", "refresh", "-o", "json", *words)
    return done, {spec["path"]: spec["state"] for spec in json.loads(done.out)["specs"]}


def _generate(sandbox: Sandbox, shim: Path, driver: Driver) -> None:
    """Generate the spec; its hook is the launcher that creates the containers, which does its work on crun's roots."""
    words = ("--vendor", "nvidia", "--mode", "nvml", "--driver-root", driver.root, "--hook-path", shim, "-o", "json")
    done = sandbox.run(shim, "cdi", "generate", *words)
    assert json.loads(done.out)["specs"][0]["state"] == "written", done


def test_a_driver_is_upgraded(runtime: Runtime, sandbox: Sandbox, shim: Path, driver: Driver) -> None:
    _generate(sandbox, shim, driver)
    before = _run(runtime, sandbox, f"before-{runtime.name}").ok()
    assert f"-> libcuda.so.{OLD}" in before
    assert before.split()[-1] == "00"

    driver.install(NEW)
    driver.load(NEW)
    refused = _run(runtime, sandbox, f"stale-{runtime.name}")
    assert refused.status == 1
    assert "SPEC_STALE" in refused.err
    assert "shim cdi refresh" in refused.err
    assert len(refused.err.splitlines()) == 1, "the low-level runtime was not started"

    done, states = _refresh(sandbox, shim)
    assert states == {SPEC: "written"}, done
    after = _run(runtime, sandbox, f"after-{runtime.name}").ok()
    assert f"-> libcuda.so.{NEW}" in after
    assert after.split()[-1] == "00"
    done, states = _refresh(sandbox, shim)
    assert states == {SPEC: "fresh"}, done


def test_a_driver_that_is_not_loaded_yet_is_waited_for(
    sandbox: Sandbox, shim: Path, driver: Driver, runtime: Runtime
) -> None:
    _generate(sandbox, shim, driver)
    before = sandbox.run("cat", SPEC).ok()
    driver.unload()
    done, states = _refresh(sandbox, shim)
    assert (done.status, states) == (0, {SPEC: "waiting for the driver"}), done
    assert _refresh(sandbox, shim, "--require")[0].status == 3
    assert sandbox.run("cat", SPEC).ok() == before
    driver.load(OLD)
    assert _refresh(sandbox, shim)[1] == {SPEC: "fresh"}
    assert _run(runtime, sandbox, f"loaded-{runtime.name}").status == 0
