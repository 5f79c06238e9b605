"""Mode management: all nodes of the driver in one device, of a class that no request for GPUs names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conformance import hosts

from shim.base.findings import Finding
from shim.discover import nvidia, vendors
from shim.discover.model import Discovery, Wish
from shim.discover.nvidia import gpus
from shim.discover.nvidia.snapshot import Snapshot
from shim.host.host import Host

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
WISH = Wish("/usr/bin/nvidia-cdi-hook", mode="management")
TAKEN = [
    "nvidia-caps-imex-channels/channel0",
    "nvidia-caps/nvidia-cap1",
    "nvidia-modeset",
    "nvidia-uvm",
    "nvidia0",
    "nvidia1",
    "nvidiactl",
]
LEFT = ["nvidia-fs0", "nvidia-nvlink", "nvidia-nvswitch0", "nvidia-nvswitchctl", "nvram", "dri/card0"]
NODES = [{"path": f"/dev/{name}", "kind": "c", "major": 195, "mode": "0666"} for name in [*TAKEN, *LEFT]]
FILES: list[dict[str, Any]] = [
    {"path": f"{LIBRARIES}/libcuda.so.570.1", "kind": "elf", "soname": "libcuda.so.1"},
    {"path": "/usr/bin/nvidia-smi", "kind": "f", "mode": "0755"},
    {"path": "/etc/OpenCL/vendors/nvidia.icd", "kind": "f"},
    {"path": "/usr/share/nvidia/nvoptix.bin", "kind": "f"},
]


@pytest.fixture(autouse=True)
def snapshots(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """What the driver answers: the last snapshot of the list."""
    answers = [Snapshot("570.1", source="proc")]
    monkeypatch.setattr(gpus, "take", lambda *_: answers[-1])
    return answers


def discover(top: Path, entries: list[dict[str, Any]]) -> Discovery:
    hosts.build(entries, top)
    return nvidia.discover(Host(str(top)), WISH)


def test_the_device_has_the_nodes_of_the_driver_and_its_files(tmp_path: Path) -> None:
    discovery = discover(tmp_path, [*NODES, *FILES])
    [(_, document)] = vendors.documents(discovery, WISH)
    assert document["kind"] == "management.nvidia.com/gpu"
    [device] = document["devices"]
    assert device["name"] == "all"
    assert sorted(node["path"][5:] for node in device["containerEdits"]["deviceNodes"]) == TAKEN
    common = document["containerEdits"]
    assert [mount["containerPath"] for mount in common["mounts"]] == [
        "/usr/bin/nvidia-smi",
        f"{LIBRARIES}/libcuda.so.570.1",
    ]
    hooks = [hook["args"][1] for hook in common["hooks"]]
    assert hooks == ["create-symlinks", "enable-cuda-compat", "update-ldcache"]
    assert discovery.findings == ()


def test_without_nodes_nothing_is_written(tmp_path: Path) -> None:
    discovery = discover(tmp_path, FILES)
    [finding] = discovery.findings
    assert (discovery.drafts, finding.id) == ((), "DISCOVERY_INCOMPLETE")
    assert "there is no device node /dev/nvidia*" in finding.text


def test_a_version_is_not_guessed_from_files(tmp_path: Path, snapshots: list[Snapshot]) -> None:
    snapshots.append(Snapshot())
    discovery = discover(tmp_path, [*NODES, *FILES])
    assert (discovery.drafts, [finding.id for finding in discovery.findings]) == ((), ["DISCOVERY_INCOMPLETE"])


def test_an_nvml_that_fails_is_a_warning_here(tmp_path: Path, snapshots: list[Snapshot]) -> None:
    snapshots.append(Snapshot("570.1", errors=(Finding("DISCOVERY_INCOMPLETE", "NVML crashed"),), source="proc"))
    discovery = discover(tmp_path, [*NODES, *FILES])
    assert [(finding.text, finding.level) for finding in discovery.findings] == [("NVML crashed", "WARNING")]
    assert len(discovery.drafts) == 1
