"""Modes gds, mofed, gdrcopy and nvswitch: a spec of its own for each, and what is missing has a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conformance import hosts

from shim.base.findings import CdiError
from shim.discover import nvidia, vendors
from shim.discover.model import Discovery, Wish
from shim.discover.nvidia.companions import COMPANIONS
from shim.host.host import Host

PRESENT: dict[str, list[tuple[str, int]]] = {
    "gds": [("/dev/nvidia-fs0", 0), ("/dev/nvidia-fs1", 1), ("/dev/nvidia-fs10", 10)],
    "mofed": [("/dev/infiniband/uverbs0", 192), ("/dev/infiniband/rdma_cm", 122), ("/dev/infiniband/umad0", 0)],
    "gdrcopy": [("/dev/gdrdrv", 0)],
    "nvswitch": [("/dev/nvidia-nvswitchctl", 255), ("/dev/nvidia-nvswitch0", 0)],
}
WRITTEN = {
    "gds": ["/dev/nvidia-fs0", "/dev/nvidia-fs1", "/dev/nvidia-fs10"],
    "mofed": ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"],
    "gdrcopy": ["/dev/gdrdrv"],
    "nvswitch": ["/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitchctl"],
}


def node(path: str, minor: int = 0, **members: Any) -> dict[str, Any]:
    return {"path": path, "kind": "c", "major": 240, "minor": minor, "mode": "0666", **members}


def discover(top: Path, entries: list[dict[str, Any]], wish: Wish) -> Discovery:
    hosts.build(entries, top)
    return nvidia.discover(Host(str(top)), wish)


@pytest.mark.parametrize("mode", COMPANIONS)
def test_the_spec_has_one_device_all_in_a_class_of_its_own(mode: str, tmp_path: Path) -> None:
    wish = Wish("/x", mode=mode)
    discovery = discover(tmp_path, [node(path, minor) for path, minor in PRESENT[mode]], wish)
    [(suffix, document)] = vendors.documents(discovery, wish)
    assert (suffix, document["kind"]) == ("", f"nvidia.com/{mode}")
    assert document["containerEdits"] == {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}
    [device] = document["devices"]
    assert device["name"] == "all"
    assert [entry["path"] for entry in device["containerEdits"]["deviceNodes"]] == WRITTEN[mode]
    assert [entry.cdi_names for entry in discovery.devices] == [(f"nvidia.com/{mode}=all",)]


@pytest.mark.parametrize("mode", COMPANIONS)
def test_missing_nodes_are_named_with_what_brings_them(mode: str, tmp_path: Path) -> None:
    # a link and a regular file are no device nodes
    first = COMPANIONS[mode].required[0]
    entries = [
        {"path": first.replace("*", "0"), "kind": "l", "target": "/dev/null"},
        {"path": "/etc/cufile.json", "kind": "f", "content": "{}"},
        {"path": "/run/udev", "kind": "d"},
    ]
    discovery = discover(tmp_path, entries, Wish("/x", mode=mode))
    assert (discovery.drafts, discovery.devices) == ((), ())
    assert {finding.id for finding in discovery.findings} == {"DISCOVERY_INCOMPLETE"}
    assert [finding.text for finding in discovery.findings] == [
        f"there is no device node {path}, which {COMPANIONS[mode].title} needs" for path in COMPANIONS[mode].required
    ]
    assert {finding.remedy for finding in discovery.findings} == {COMPANIONS[mode].remedy}


def test_what_is_there_is_written_although_a_switch_is_missing(tmp_path: Path) -> None:
    wish = Wish("/x", mode="nvswitch")
    discovery = discover(tmp_path, [node("/dev/nvidia-nvswitchctl", 255)], wish)
    [finding] = discovery.findings
    assert (finding.id, "/dev/nvidia-nvswitch*" in finding.text) == ("DISCOVERY_INCOMPLETE", True)
    [(_, document)] = vendors.documents(discovery, wish)
    assert document["devices"][0]["containerEdits"]["deviceNodes"] == [{"path": "/dev/nvidia-nvswitchctl"}]


def test_storage_needs_udev_and_takes_its_configuration(tmp_path: Path) -> None:
    entries = [node("/nodes/dev/nvidia-fs0"), {"path": "/driver/etc/cufile.json", "kind": "f"}]
    wish = Wish("/x", mode="gds", driver_root="/driver", dev_root="/nodes", kind="storage")
    discovery = discover(tmp_path, entries, wish)
    [(_, document)] = vendors.documents(discovery, wish)
    [device] = document["devices"]
    assert document["kind"] == "nvidia.com/storage"
    assert device["containerEdits"]["deviceNodes"] == [{"path": "/dev/nvidia-fs0", "hostPath": "/nodes/dev/nvidia-fs0"}]
    [mount] = device["containerEdits"]["mounts"]
    assert (mount["hostPath"], mount["containerPath"]) == ("/driver/etc/cufile.json", "/etc/cufile.json")
    [finding] = discovery.findings
    assert finding.id == "DISCOVERY_PART"
    assert "/driver/run/udev is missing: cuFile" in finding.text


def test_a_device_that_is_no_name_is_refused(tmp_path: Path) -> None:
    wish = Wish("/x", mode="gdrcopy", devices=("0",))
    discovery = discover(tmp_path, [node("/dev/gdrdrv")], wish)
    with pytest.raises(CdiError, match=r"--device 0: no such device of nvidia.com/gdrcopy \(there are: all\)"):
        vendors.documents(discovery, wish)
