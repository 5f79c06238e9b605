"""The nodes of NVIDIA's driver, from what the running driver says in /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.discover.nvidia import device_files
from shim.host.host import Host

DEVICES = (
    "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n510 nvidia-uvm\n511 nvidia-caps\n\n"
    "Block devices:\n195 nvidia-uvm\n"
)
PARAMS = (
    "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\n"
)
MINORS = "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngarbage 9\n"


def machine(top: Path, **files: str) -> Host:
    paths = {
        "devices": "proc/devices",
        "params": "proc/driver/nvidia/params",
        "minors": "proc/driver/nvidia-caps/mig-minors",
        "gpu0": "proc/driver/nvidia/gpus/0000:17:00.0/information",
        "gpu1": "proc/driver/nvidia/gpus/0000:65:00.0/information",
    }
    for name, text in files.items():
        (top / paths[name]).parent.mkdir(parents=True, exist_ok=True)
        (top / paths[name]).write_text(text)
    return Host(str(top))


def test_every_node_that_the_driver_has_numbers_for(tmp_path: Path) -> None:
    gpu = "Model: \t\t NVIDIA A100\nDevice Minor: \t {}\n"
    host = machine(tmp_path, devices=DEVICES, params=PARAMS, minors=MINORS, gpu0=gpu.format(3), gpu1=gpu.format(0))
    nodes, findings = device_files.wanted(host, control_only=False)
    assert findings == []
    assert {node.path: (node.major, node.minor) for node in nodes} == {
        "/dev/nvidiactl": (195, 255),
        "/dev/nvidia-modeset": (195, 254),
        "/dev/nvidia-uvm": (510, 0),
        "/dev/nvidia-uvm-tools": (510, 1),
        "/dev/nvidia0": (195, 0),
        "/dev/nvidia3": (195, 3),
        **{f"/dev/nvidia-caps/nvidia-cap{minor}": (511, minor) for minor in (1, 2, 12, 13)},
    }
    assert {(node.mode, node.uid, node.gid) for node in nodes} == {(0o660, 0, 44)}


def test_control_nodes_alone(tmp_path: Path) -> None:
    nodes, _ = device_files.wanted(machine(tmp_path, devices=DEVICES, minors=MINORS), control_only=True)
    assert len(nodes) == 4
    assert {(node.mode, node.gid) for node in nodes} == {(0o666, 0)}


def test_a_module_that_is_not_loaded_is_named(tmp_path: Path) -> None:
    nodes, findings = device_files.wanted(machine(tmp_path, devices="195 nvidia-frontend\n"), control_only=False)
    assert [node.path for node in nodes] == ["/dev/nvidiactl", "/dev/nvidia-modeset"]
    assert [(finding.id, "nvidia-uvm" in finding.remedy) for finding in findings] == [("DISCOVERY_PART", True)] * 2


def test_without_the_driver_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(CdiError) as caught:
        device_files.wanted(machine(tmp_path, devices="Block devices:\n195 nvidia\n"), control_only=False)
    assert caught.value.findings[0].id == "DISCOVERY_INCOMPLETE"
