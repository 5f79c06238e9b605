"""Whole hosts without NVML: from /proc to a document, as it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance import hosts

from shim.base.findings import ERROR
from shim.cdi import spec
from shim.discover import nvidia, vendors
from shim.discover.model import Wish
from shim.host.host import Host

VERSION = "570.86.10"
LIB = "/usr/lib64"
MODULE = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build\n"
GPUS = 8


def file(path: str, content: str) -> dict[str, Any]:
    return {"path": path, "kind": "f", "content": content}


def node(path: str, minor: int, mode: str = "0666", gid: int = 0) -> dict[str, Any]:
    return {"path": path, "kind": "c", "major": 195, "minor": minor, "mode": mode, "gid": gid}


def gpu(index: int) -> list[dict[str, Any]]:
    """A GPU whose minor number counts from the other end."""
    address = f"0000:{index * 16 + 15:02x}:00.0"
    facts = {"Model": "NVIDIA A100", "GPU UUID": f"GPU-{index}", "Device Minor": GPUS - 1 - index}
    text = "".join(f"{key}: \t {value}\n" for key, value in facts.items())
    return [
        file(f"/proc/driver/nvidia/gpus/{address}/information", text),
        node(f"/dev/nvidia{index}", index),
        {"path": f"/sys/bus/pci/devices/{address}/drm/renderD{128 + index}", "kind": "d"},
        node(f"/dev/dri/renderD{128 + index}", 128 + index, "0660", 105),
    ]


HOST = [
    file("/proc/driver/nvidia/version", MODULE),
    *(entry for index in range(GPUS) for entry in gpu(index)),
    *(node(f"/dev/{name}", minor) for name, minor in (("nvidiactl", 255), ("nvidia-uvm", 0), ("nvidia-modeset", 254))),
    {"path": f"{LIB}/libcuda.so.{VERSION}", "kind": "elf", "soname": "libcuda.so.1"},
    {"path": "/usr/bin/nvidia-smi", "kind": "f", "mode": "0755"},
]
# MIG devices of the GPU with minor 7, which has index 0
MIG = [
    file("/proc/driver/nvidia/capabilities/gpu7/mig/gi3/access", "DeviceFileMinor: 30\n"),
    file("/proc/driver/nvidia/capabilities/gpu7/mig/gi3/ci0/access", "DeviceFileMinor: 31\n"),
    node("/dev/nvidia-caps/nvidia-cap30", 30, "0444"),
    node("/dev/nvidia-caps/nvidia-cap31", 31, "0444"),
]


def document(top: Path, entries: list[dict[str, Any]]) -> dict[str, Any]:
    hosts.build(entries, top)
    wish = Wish("/usr/local/bin/shim")
    discovery = nvidia.discover(Host(str(top)), wish)
    assert [finding.text for finding in discovery.findings if finding.level == ERROR] == []
    ((_, written),) = vendors.documents(discovery, wish)
    assert spec.faults(json.dumps(written).encode()) == []
    return written


def test_eight_gpus_whose_minors_are_not_their_indexes(tmp_path: Path) -> None:
    written = document(tmp_path, HOST)
    numbers = [str(index) for index in range(GPUS)]
    uuids = [f"GPU-{number}" for number in numbers]
    assert [device["name"] for device in written["devices"]] == [*numbers, *uuids, "all"]
    first = written["devices"][0]["containerEdits"]
    assert first == {
        "deviceNodes": [{"path": "/dev/nvidia7"}, {"path": "/dev/dri/renderD128", "fileMode": 0o660, "gid": 105}],
        "additionalGids": [105],
    }
    assert written["devices"][8] == {"name": "GPU-0", "containerEdits": first}
    assert len(written["devices"][-1]["containerEdits"]["deviceNodes"]) == 2 * GPUS
    common = written["containerEdits"]
    assert [entry["path"] for entry in common["deviceNodes"]] == [
        "/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidiactl",
    ]  # fmt: skip
    assert {mount["containerPath"] for mount in common["mounts"]} == {
        f"{LIB}/libcuda.so.{VERSION}", "/usr/bin/nvidia-smi",
    }  # fmt: skip
    assert written["cdiVersion"] == "0.7.0"
    assert written["kind"] == "nvidia.com/gpu"


def test_mig_devices_by_their_instances(tmp_path: Path) -> None:
    written = document(tmp_path, [*HOST, *MIG])
    names = [device["name"] for device in written["devices"]]
    assert "0:gi3:ci0" in names
    assert "0" not in names
    device = next(device for device in written["devices"] if device["name"] == "0:gi3:ci0")
    assert [entry["path"] for entry in device["containerEdits"]["deviceNodes"]] == [
        "/dev/nvidia7", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31",
    ]  # fmt: skip
