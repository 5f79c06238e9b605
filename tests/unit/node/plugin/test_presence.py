"""What of a unit is there, and where it is attached: on hosts made of files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.cdi.spec import parse
from shim.grants import overlap
from shim.host.host import Host
from shim.node.plugin import presence, topology
from shim.node.plugin.presence import Needs, Node

ADDRESS = "0000:3b:00.0"


def device(top: Path, driver: str = "amdgpu", numa: str = "1", address: str = ADDRESS) -> Path:
    """A PCI device behind a bridge, as sysfs has it."""
    real = top / f"sys/devices/pci0000:3a/0000:3a:00.0/{address}"
    real.mkdir(parents=True)
    links = top / "sys/bus/pci/devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / address).symlink_to(f"../../../devices/pci0000:3a/0000:3a:00.0/{address}")
    (real / "numa_node").write_text(numa + "\n")
    if driver:
        (real / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    return real


def fault(top: Path, needed: Needs) -> str:
    return presence.Look(Host(str(top))).fault(needed)


def test_needs_are_those_of_the_device_and_of_its_spec() -> None:
    spec = parse(
        b"""
cdiVersion: 0.6.0
kind: vendor.com/gpu
containerEdits:
  deviceNodes: [{path: /dev/ctl}]
  mounts: [{hostPath: /usr/lib//libx.so, containerPath: /libx.so}, {hostPath: tmpfs, containerPath: /x, type: tmpfs}]
devices:
- name: "0"
  containerEdits:
    deviceNodes: [{path: /dev/x, hostPath: /dev/gpu0, type: u, major: 195, minor: 0}, {path: /dev/ctl}]
""",
        "/etc/cdi/a.yaml",
        0,
    )
    needed = presence.needs(spec, "0", ADDRESS)
    assert needed == Needs((Node("/dev/gpu0", "c", (195, 0)), Node("/dev/ctl")), ("/usr/lib/libx.so",), ADDRESS)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Node("/dev/a"), ""),
        (Node("/dev/a", "c", (1, 3)), ""),
        (Node("/dev/a", "c", (1, 5)), "/dev/a is 1:3, not 1:5 as the spec has it (`shim cdi refresh`"),
        (Node("/dev/a", "b"), "/dev/a is of type c, not b as the spec has it (`shim cdi refresh`"),
        (Node("/dev/pipe", "p"), ""),
        (Node("/dev/file"), "/dev/file is no device node"),
        (Node("/dev/link"), "/dev/link is no device node"),
        (Node("/dev/gone"), "/dev/gone is missing"),
    ],
)
def test_a_node_must_be_there_with_type_and_numbers(tmp_path: Path, node: Node, expected: str) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    os.mknod(dev / "a", 0o20600, os.makedev(1, 3))
    os.mkfifo(dev / "pipe")
    (dev / "file").write_text("")
    (dev / "link").symlink_to("a")
    assert fault(tmp_path, Needs((node,))).startswith(expected)
    assert bool(fault(tmp_path, Needs((node,)))) is bool(expected)


def test_the_source_of_a_mount_must_be_there(tmp_path: Path) -> None:
    assert "/lib/x is missing, which the spec mounts" in fault(tmp_path, Needs(mounts=("/lib/x",)))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/x").write_text("")
    assert fault(tmp_path, Needs(mounts=("/lib/x",))) == ""


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(device, "", id="works"),
        pytest.param(lambda top: None, f"PCI device {ADDRESS} is gone from the bus", id="gone"),  # noqa: ARG005 - a function like the others
        pytest.param(lambda top: device(top, driver=""), f"PCI device {ADDRESS} has no driver", id="no driver"),
        pytest.param(lambda top: (device(top, "habanalabs") / "status").write_text("Operational\n"), "", id="Gaudi"),
        pytest.param(
            lambda top: (device(top, "habanalabs") / "status").write_text("In reset\n"),
            f"the driver reports of PCI device {ADDRESS}: In reset",
            id="Gaudi in reset",
        ),
    ],
)
def test_the_device_is_on_its_bus_and_its_driver_works(
    tmp_path: Path, make: Callable[[Path], object], expected: str
) -> None:
    make(tmp_path)
    assert fault(tmp_path, Needs(address=ADDRESS)) == expected


def test_nvidias_driver_must_list_its_device(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    os.mknod(tmp_path / "dev/nvidia0", 0o20600, os.makedev(195, 0))
    device(tmp_path, "nvidia")
    needed = Needs((Node("/dev/nvidia0"),), (), ADDRESS)
    assert fault(tmp_path, needed) == "NVIDIA's driver is not loaded"
    listed = tmp_path / "proc/driver/nvidia/gpus"
    listed.mkdir(parents=True)
    (listed.parent / "version").write_text("NVRM version: 550.54\n")
    assert fault(tmp_path, needed) == f"NVIDIA's driver does not list PCI device {ADDRESS}"
    (listed / ADDRESS).mkdir()
    assert fault(tmp_path, needed) == ""


def test_nothing_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev").mkdir()
    os.mknod(tmp_path / "dev/a", 0o20600, os.makedev(1, 3))
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("a file was opened"))
    assert fault(tmp_path, Needs((Node("/dev/a"),))) == ""


def test_a_position_by_the_numbers_of_a_node(tmp_path: Path) -> None:
    real = device(tmp_path)
    (real / "drm/renderD128").mkdir(parents=True)
    (tmp_path / "sys/dev/char").mkdir(parents=True)
    (tmp_path / "sys/dev/char/226:128").symlink_to(f"../../devices/pci0000:3a/0000:3a:00.0/{ADDRESS}/drm/renderD128")
    found = topology.Positions(Host(str(tmp_path))).of("v.com/g=0", frozenset({"/dev/dri/renderD128", "c 226:128"}))
    assert found == topology.Position(ADDRESS, ("pci0000:3a", "0000:3a:00.0", ADDRESS), 1)


@pytest.mark.rootful
def test_a_position_by_the_inventory(tmp_path: Path) -> None:
    device(tmp_path, numa="-1")
    entry = {
        "name": "0", "vendor": "nvidia", "model": "", "driverVersion": "", "memoryBytes": 0, "pciAddress": ADDRESS,
        "numaNode": 0, "platform": "native", "uuid": "", "cdiNames": ["nvidia.com/gpu=0"], "deviceNodes": [],
    }  # fmt: skip
    path = tmp_path / "var/lib/shim/inventory.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"format": 1, "time": 0.0, "devices": [entry]}))
    positions = topology.Positions(Host(str(tmp_path)))
    assert positions.of("nvidia.com/gpu=0", ()).address == ADDRESS
    assert positions.of("nvidia.com/gpu=0", ()).numa == -1, "sysfs counts, which is as the machine is now"
    assert positions.of("nvidia.com/gpu=1", ()) == topology.Position()


def test_a_unit_of_two_devices_has_no_position(tmp_path: Path) -> None:
    for index, address in enumerate((ADDRESS, "0000:3c:00.0")):
        real = device(tmp_path, address=address)
        (real / f"drm/card{index}").mkdir(parents=True)
        link = tmp_path / f"sys/dev/char/226:{index}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../devices/pci0000:3a/0000:3a:00.0/{address}/drm/card{index}")
    found = topology.Positions(Host(str(tmp_path))).of("v.com/g=0", frozenset({"c 226:0", "c 226:1"}))
    assert found == topology.Position()


def test_hardware_is_named_as_sysfs_is_asked() -> None:
    """The texts of shim.grants.overlap are what `Positions` reads."""
    assert overlap.numbers("/dev/null") == "c 1:3"
