"""A spec that is older than its host: what is refused, what has taken the place, and the wait for a refresh."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shim import create
from shim.base.findings import CdiError, Finding
from shim.cdi import plan
from shim.create import rules, stale
from shim.create.recorded import Recorded
from shim.create.world import World
from shim.host.identity import run_dir

OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.2  Release Build  (x@y)\n"
CLOSED_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.2  Thu Sep 11 2025\nGCC version:  gcc 12.2\n"
SPEC = "/var/run/cdi/shim-nvidia.com-gpu.yaml"
FOREIGN = "/etc/cdi/nvidia.yaml"


class Driven(World):
    """A host on which NVIDIA's driver is loaded, or not."""

    def __init__(self, version: str = "") -> None:
        super().__init__()
        status = SimpleNamespace(st_mode=0o100444)
        self._answers["read", stale.DRIVER_VERSION] = (status, version) if version else 2


def refused(mounts: list[str], world: World, spec: str = SPEC) -> list[tuple[str, str, str]]:
    edits = {"mounts": [{"hostPath": path, "containerPath": "/x", "options": ["rbind"]} for path in mounts]}
    made = plan.Plan(["a.b/c=0"], [{"spec": spec, "device": "0", "edits": edits}])
    _, findings = rules.impose(made, "/bin/sh", world, rootful=True, user=0)
    return [(finding.id, finding.text, finding.remedy) for finding in findings]


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """What an upgrade from 535.1 to 535.2 leaves."""
    for path in ("libcuda.so.535.2", "libcuda.so.1", "libnvidia-ml.so.535.2", "535.2/gsp.bin", "libother.so.7.1.old"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("libcuda.so.535.1", "libcuda.so.535.2"),
        ("535.1/gsp.bin", "535.2/gsp.bin"),
        ("535.1/../libnvidia-ml.so.535.1", "535.2/../libnvidia-ml.so.535.2"),
    ],
)
def test_a_file_that_has_another_version_now_is_named(libraries: Path, old: str, new: str) -> None:
    """A1: the low-level runtime said `stat …/libcuda.so.535.1: no such file or directory`, and named no spec."""
    (finding,) = refused([f"{libraries}/{old}"], Driven())
    text = f"{libraries}/{old} is missing on the host, which the spec mounts at /x; the host has {libraries}/{new}"
    assert finding == ("SPEC_STALE", text, "run `shim cdi refresh`")
    (finding,) = refused([f"{libraries}/{old}"], Driven(OPEN_MODULE), FOREIGN)
    assert finding[1] == f"{text}, and the kernel runs 535.2"
    assert "the program that wrote it" in finding[2]


@pytest.mark.parametrize("path", ["libgpu.so.535.1", "libother.so.7.0", "absent/libcuda.so.535.1", "plain"])
def test_a_file_that_is_gone_without_a_successor_is_missing(libraries: Path, path: str) -> None:
    assert refused([f"{libraries}/{path}"], Driven())[0][0] == "MOUNT_MISSING"


@pytest.mark.parametrize("module", [OPEN_MODULE, CLOSED_MODULE])
def test_a_library_of_another_driver_than_the_kernel_s_is_refused(libraries: Path, module: str) -> None:
    (libraries / "libcuda.so.535.1").touch()
    (finding,) = refused([f"{libraries}/libcuda.so.535.1"], Driven(module))
    assert finding[0] == "SPEC_STALE"
    assert "is of the driver 535.1, and the kernel runs 535.2" in finding[1]
    assert finding[1].endswith("the host has the files of 535.2")
    assert finding[2] == "run `shim cdi refresh`"


def test_a_machine_that_was_not_restarted_after_an_upgrade_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.535.9").touch()
    (finding,) = refused([f"{tmp_path}/libcuda.so.535.9"], Driven(OPEN_MODULE))
    assert finding[0] == "SPEC_STALE"
    assert finding[2].startswith("load the module of the driver 535.9")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libcuda.so.535.2", OPEN_MODULE),
        ("libcuda.so.535.9", ""),  # no driver, or another vendor's
        ("libcuda.so.1", OPEN_MODULE),  # a link without a version: whatever it leads to
        ("libcuda.so.535.9", "something else"),
        ("libcudart.so.12.1", OPEN_MODULE),
        ("libcuda.so.1.1", OPEN_MODULE),  # of WSL and of Tegra systems: no version of a driver
    ],
)
def test_what_fits_the_kernel_or_has_no_version_is_mounted(tmp_path: Path, name: str, version: str) -> None:
    (tmp_path / name).touch()
    assert refused([f"{tmp_path}/{name}"], Driven(version)) == []


class Carded(World):
    """A host with a card at 0000:03:00.0 whose node has the number 128 now."""

    def __init__(self) -> None:
        super().__init__()
        self._answers["names", "/sys/bus/pci/devices/0000:03:00.0/drm"] = ["card0", "renderD128"]


BY_PATH = {"hooks": [{"args": ["shim", "--link", "../renderD129::/dev/dri/by-path/pci-0000:03:00.0-render"]}]}
NODES = {"deviceNodes": [{"path": "/dev/dri/renderD129"}]}


@pytest.mark.parametrize(
    ("device", "edits"),
    [
        ("0", {**NODES, **BY_PATH}),
        ("0000-03-00-0-0x56a0", NODES),
        ("0000:03:00.0", {"deviceNodes": [{"path": "/dev/dri/gpu", "hostPath": "/dev/dri/renderD129"}]}),
    ],
)
def test_a_drm_node_that_was_renumbered_is_explained_by_its_card(device: str, edits: dict[str, Any]) -> None:
    """D7: `failed to stat CDI host device "/dev/dri/renderD129"`, after a boot with the cards in another order."""
    with pytest.raises(plan.NodeError) as caught:
        plan.complete(["a.b/c=0"], [(SPEC, device, edits)], numbers=plan.DISK, lookup=lambda _: None)
    explained = stale.missing_node(caught.value, [(SPEC, device, edits)], Carded())
    (finding,) = explained.findings
    assert finding.id == "SPEC_STALE"
    expected = "/dev/dri/renderD129 is missing on the host; the card at 0000:03:00.0 has /dev/dri/renderD128 now"
    assert finding.text == expected


@pytest.mark.parametrize(
    "edits",
    [
        NODES,
        {**NODES, "env": ["A=0000:03:00.0", "B=0000:04:00.0"]},  # two cards: it cannot be told which is meant
        {**NODES, "env": ["A=0000:05:00.0"]},  # a card that is not there any more
        {"deviceNodes": [{"path": "/dev/gone"}], "env": ["A=0000:03:00.0"]},
    ],
)
def test_a_node_without_a_known_successor_is_refused_as_it_was(edits: dict[str, Any]) -> None:
    with pytest.raises(plan.NodeError) as caught:
        plan.complete(["a.b/c=0"], [(SPEC, "0", edits)], numbers=plan.DISK, lookup=lambda _: None)
    assert stale.missing_node(caught.value, [(SPEC, "0", edits)], Carded()) is caught.value


def test_the_explanation_is_in_the_trace_and_can_be_replayed(libraries: Path) -> None:
    world = Driven(OPEN_MODULE)
    first = refused([f"{libraries}/libcuda.so.535.1"], world)
    assert ("names", str(libraries)) in [(kind, argument) for kind, argument, _ in world.trace]
    assert refused([f"{libraries}/libcuda.so.535.1"], Recorded(world.trace)) == first


# --- a refresh that is running --------------------------------------------------------------------------------------

KIND = "acme.example/gpu"


@pytest.fixture
def lock() -> Iterator[int]:
    """The lock of a refresh, held."""
    directory = Path(run_dir())
    directory.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(directory / stale.REFRESH_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    yield fd
    os.close(fd)
    (directory / stale.REFRESH_LOCK).unlink()


class Scene:
    """A bundle that asks for a device which the spec directory may lack."""

    def __init__(self, directory: Path, modules: Path) -> None:
        self.specs, self.bundle, self._settings = directory / "cdi", directory / "bundle", directory / "config.toml"
        self.specs.mkdir()
        self.bundle.mkdir()
        (self.bundle / "config.json").write_text(json.dumps({"annotations": {"cdi.k8s.io/x": f"{KIND}=0"}}))
        self._settings.write_text(f'log.file = ""\n[cdi]\nspec-dirs = ["{self.specs}"]\n')
        self._main = modules / "shim" / "__main__.py"

    def refresh(self) -> None:
        spec = {"cdiVersion": "0.6.0", "kind": KIND, "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}]}
        (self.specs / ".new").write_text(json.dumps(spec))
        (self.specs / ".new").rename(self.specs / "shim-gpu.json")

    def create(self) -> tuple[int, str, float]:
        """Exit status, stderr, and seconds of a create."""
        words = ["low=/bin/true", "name=shim", "self=/x/shim", "verb=create", f"bundle={self.bundle}", "id=c"]
        command = [sys.executable, "-I", "-S", "-B", str(self._main), "create", *words, "--", "true"]
        environment = {**os.environ, "SHIM_CONFIG": str(self._settings)}
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        return done.returncode, done.stderr, time.monotonic() - began


@pytest.fixture
def scene(trusted_path: Path, modules: Path) -> Scene:
    return Scene(trusted_path, modules)


@pytest.mark.rootful
def test_a7_a_create_waits_for_the_refresh_that_writes_its_spec(scene: Scene, lock: int) -> None:
    """A7: containers with `restart: always` stayed dead after a boot, since the engine was up before the spec."""

    def refresh() -> None:
        time.sleep(0.7)
        scene.refresh()
        fcntl.flock(lock, fcntl.LOCK_UN)

    thread = threading.Thread(target=refresh)
    thread.start()
    status, errors, seconds = scene.create()
    thread.join()
    assert (status, errors) == (0, "")
    assert seconds >= 0.5
    assert json.loads((scene.bundle / "config.json").read_text())["process"]["env"] == ["A=1"]


@pytest.mark.rootful
@pytest.mark.usefixtures("lock")
def test_a_refresh_that_does_not_end_is_named(scene: Scene) -> None:
    status, errors, seconds = scene.create()
    assert status == 1
    assert "a refresh of the specs is running, and did not end within 5 s" in errors
    assert 4.5 <= seconds < 60


@pytest.mark.usefixtures("lock")
def test_a_create_that_can_be_decided_does_not_wait(scene: Scene) -> None:
    scene.refresh()
    status, errors, _ = scene.create()
    assert (status, errors) == (0, "")


@pytest.mark.usefixtures("lock")
@pytest.mark.parametrize("id", ["DEVICE_NAME", "SPEC_CONFLICT", "CONFIG_JSON"])
def test_what_no_refresh_mends_does_not_wait(id: str) -> None:
    refusal = CdiError([Finding(id, "text")])
    assert not create._has_refreshed(refusal)
    assert str(refusal) == "text", "nothing was waited for"


def test_without_a_refresh_nothing_waits(scene: Scene) -> None:
    status, errors, _ = scene.create()
    assert status == 1
    assert "no usable spec is of the kind acme.example/gpu" in errors
    assert "refresh" not in errors
