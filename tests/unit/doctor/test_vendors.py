"""The first links of the chain, of real vendors' modules: module, nodes, numbers and versions of their drivers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conformance import hosts, trees
from unit.discover import machines
from unit.discover.nvidia import test_native
from unit.doctor.hosts import DIRS, errors, ids

from shim.base.findings import ERROR, WARNING
from shim.discover import generate
from shim.discover.model import Wish
from shim.discover.output import Target
from shim.doctor import examine
from shim.doctor.machine import Machine
from shim.doctor.model import Report
from shim.host.host import Host

WISH = Wish("/usr/local/bin/shim", disabled_hooks=frozenset({"all"}))  # so that no launcher is needed
VERSION = test_native.VERSION
LIB = test_native.LIB
DRIVER = "proc/driver/nvidia"
FIRST = "0000:0f:00.0"
PCI = [
    test_native.file(f"/sys/bus/pci/devices/{FIRST}/{name}", f"{value}\n")
    for name, value in (("vendor", "0x10de"), ("device", "0x20b0"), ("class", "0x030200"))
]
Harm = Callable[[Path], object]


def report(top: Path) -> Report:
    return examine(Machine(Host(str(top), daemons=[])))


@pytest.fixture
def nvidia(trusted_path: Path) -> Path:
    """Eight GPUs, the first with a MIG device, their driver and their spec."""
    hosts.build([*test_native.HOST, *test_native.MIG, *PCI], trusted_path)
    return generated(trusted_path, "nvidia")


@pytest.fixture
def amd(trusted_path: Path) -> Path:
    """Two GPUs of AMD and their spec."""
    trees.build(machines.cpx(2, 1), str(trusted_path))
    return generated(trusted_path, "amd")


def generated(top: Path, vendor: str) -> Path:
    """The machine with its specs."""
    (top / "var/run").mkdir(parents=True, exist_ok=True)
    assert generate.generate(Host(str(top)), WISH, Target(spec_dirs=DIRS), [vendor]).written
    return top


def _unload(top: Path) -> None:
    shutil.rmtree(top / DRIVER)
    for path in (top / "dev").glob("nvidia*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _update(top: Path) -> None:
    """The libraries are those of the next version, and the kernel has the old one."""
    (top / f"{LIB}/libcuda.so.{VERSION}".lstrip("/")).rename(top / f"{LIB}/libcuda.so.575.1.2".lstrip("/"))


def _update_all(top: Path) -> None:
    _update(top)
    (top / DRIVER / "version").write_text(test_native.MODULE.replace(VERSION, "575.1.2"))


def _renumber(top: Path) -> None:
    (top / "dev/dri/renderD129").rename(top / "dev/dri/renderD140")
    drm = top / "sys/bus/pci/devices/0000:1f:00.0/drm"
    (drm / "renderD129").rename(drm / "renderD140")


def _same_minor(top: Path) -> None:
    information = top / DRIVER / "gpus/0000:1f:00.0/information"
    information.write_text(information.read_text().replace("Device Minor: \t 6", "Device Minor: \t 5"))


# What is wrong -> how it comes about, the finding, its level, and a word of its text or remedy
NVIDIA: dict[str, tuple[Harm, str, str, str]] = {
    "the module is not loaded": (_unload, "MODULE_MISSING", ERROR, "modprobe nvidia"),
    "the module of unified memory is not loaded": (
        lambda top: (top / "dev/nvidia-uvm").unlink(),
        "DISCOVERY_INCOMPLETE",
        ERROR,
        "nvidia-modprobe -u",
    ),
    "a capability node is gone": (
        lambda top: (top / "dev/nvidia-caps/nvidia-cap31").unlink(),
        "DISCOVERY_INCOMPLETE",
        ERROR,
        "nvidia-cap31",
    ),
    "the machine was not restarted after an update": (_update, "DRIVER_MISMATCH", ERROR, "575.1.2"),
    "no refresh after an update": (_update_all, "SPEC_STALE", ERROR, "575.1.2"),
    "a boot has renumbered a card": (_renumber, "SPEC_STALE", ERROR, "renderD140"),
    "two GPUs have a minor": (_same_minor, "DISCOVERY_DEVICE", ERROR, "the same device node"),
    "a GPU is gone": (lambda top: (top / "dev/nvidia3").unlink(), "DISCOVERY_DEVICE", ERROR, "nvidia3"),
}


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_a_healthy_driver_has_nothing_wrong(vendor: str, request: pytest.FixtureRequest) -> None:
    made = report(request.getfixturevalue(vendor))
    shown = [(finding.level, finding.id, str(finding)) for finding in made.findings]
    assert errors(made) == set(), shown
    assert [check.evidence for check in made.checks if (check.link, check.subject) == ("module", vendor)] != []


@pytest.mark.parametrize(("harm", "id", "level", "word"), NVIDIA.values(), ids=NVIDIA)
def test_a_broken_link_of_nvidia(nvidia: Path, harm: Harm, id: str, level: str, word: str) -> None:
    harm(nvidia)
    made = report(nvidia)
    shown = [(finding.level, finding.id, str(finding), finding.remedy) for finding in made.findings]
    assert errors(made) == ({id} if level == ERROR else set()), shown
    assert any(
        (finding.level, finding.id) == (level, id) and word in f"{finding} {finding.remedy}"
        for finding in made.findings
    ), shown


def test_a_further_module_that_is_not_loaded_explains_its_missing_node(nvidia: Path) -> None:
    (nvidia / "dev/nvidia-uvm").unlink()
    (nvidia / "proc/modules").write_text("nvidia 1 0 - Live 0x0\n")
    (nvidia / "proc/devices").write_text("Character devices:\n195 nvidia\n")
    made = report(nvidia)
    assert errors(made) == {"MODULE_MISSING"}
    assert "DISCOVERY_INCOMPLETE" in ids(made)
    assert "modprobe nvidia_uvm" in made.findings[0].remedy
    (nvidia / "proc/modules").write_text("nvidia 1 0 - Live 0x0\nnvidia_uvm 1 0 - Live 0x0\n")
    assert errors(report(nvidia)) == {"DISCOVERY_INCOMPLETE"}


def test_a_vendor_that_nothing_is_asked_of_is_no_error(nvidia: Path) -> None:
    trees.build(machines.gaudi(0), str(nvidia))
    (nvidia / "dev/accel/accel0").unlink()
    made = report(nvidia)
    shown = [(finding.level, finding.id, str(finding)) for finding in made.findings]
    assert errors(made) == set(), shown
    assert ("habana", WARNING) in [(check.subject, check.state) for check in made.checks], shown


def test_a_driver_of_amd_that_serves_no_gpu(amd: Path) -> None:
    for node in (amd / "sys/devices/virtual/kfd/kfd/topology/nodes").iterdir():
        if node.name != "0":
            shutil.rmtree(node)
    made = report(amd)
    assert "KFD_WITHOUT_RENDER" in ids(made)


def test_a_module_of_amd_that_is_not_loaded(amd: Path) -> None:
    (amd / "dev/kfd").unlink()
    shutil.rmtree(amd / "sys/devices/virtual/kfd")
    shutil.rmtree(amd / "sys/module/amdgpu")
    for path in [*amd.glob("sys/devices/pci*/*/driver"), *(amd / "dev/dri").iterdir()]:
        path.unlink()
    made = report(amd)
    assert errors(made) == {"MODULE_MISSING"}
    assert WARNING in {finding.level for finding in made.findings}
