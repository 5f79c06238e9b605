"""Entries of fake hosts, as conformance.trees.build takes them: PCI devices, DRM nodes, the topology of kfd."""

from __future__ import annotations

from typing import Any

from shim.discover.document import document
from shim.discover.model import Discovery, Wish

WISH = Wish("/usr/local/bin/shim")
VIDEO, RENDER = 44, 105  # groups

Entries = dict[str, Any]


def pci(
    address: str, vendor: int, device: int, klass: int, driver: str = "", drm: tuple[str, ...] = (), /, **files: str
) -> Entries:
    """A PCI device.

    Arguments:
        klass: base class and subclass, 0x0300 for a VGA controller.
        driver: that it is bound to.
        drm: names of its DRM nodes.
        files: further attributes; `__` in a name stands for /, so that `infiniband__mlx5_0__x` is a file below.
    """
    at = f"/sys/devices/pci0000:00/{address}"
    entries: Entries = {
        f"/sys/bus/pci/devices/{address}": {"link": f"../../../devices/pci0000:00/{address}"},
        f"{at}/vendor": f"0x{vendor:04x}\n",
        f"{at}/device": f"0x{device:04x}\n",
        f"{at}/class": f"0x{klass:04x}00\n",
    }
    if driver:
        entries[f"{at}/driver"] = {"link": f"../../../bus/pci/drivers/{driver}"}
        entries[f"/sys/bus/pci/drivers/{driver}/{address}"] = {"link": f"../../../../devices/pci0000:00/{address}"}
        entries[f"/sys/module/{driver}"] = {"dir": True}
    for name in drm:
        entries[f"{at}/drm/{name}/dev"] = "226:0\n"
        entries[f"/sys/class/drm/{name}"] = {"link": f"../../devices/pci0000:00/{address}/drm/{name}"}
        entries |= dri(name)
    return entries | {f"{at}/{name.replace('__', '/')}": f"{text}\n" for name, text in files.items()}


def dri(name: str) -> Entries:
    """The device node of a DRM device."""
    is_card = name.startswith("card")
    minor = int(name.removeprefix("card").removeprefix("renderD"))
    return {f"/dev/dri/{name}": {"node": ["c", 226, minor], "gid": VIDEO if is_card else RENDER}}


def by_path(address: str, card: str, render: str) -> Entries:
    """The links of udev to the DRM nodes of a PCI device."""
    return {
        f"/dev/dri/by-path/pci-{address}-card": {"link": f"../{card}"},
        f"/dev/dri/by-path/pci-{address}-render": {"link": f"../{render}"},
    }


def kfd(*gpus: tuple[int, int, int]) -> Entries:
    """/dev/kfd and a topology of a CPU and these GPUs: number of the render node, location, unique id."""
    nodes = "/sys/devices/virtual/kfd/kfd/topology/nodes"
    entries: Entries = {
        "/dev/kfd": {"node": ["c", 511, 0], "gid": RENDER},
        "/sys/class/kfd/kfd": {"link": "../../devices/virtual/kfd/kfd"},
        "/sys/module/amdgpu/drivers/pci:amdgpu": {"link": "../../../bus/pci/drivers/amdgpu"},
        f"{nodes}/0/properties": "cpu_cores_count 96\nlocation_id 0\ndomain 0\ndrm_render_minor 0\n",
    }
    for number, (render, location, unique_id) in enumerate(gpus, 1):
        values = f"location_id {location}\ndomain 0\ndrm_render_minor {render}\nunique_id {unique_id}\n"
        entries[f"{nodes}/{number}/properties"] = f"cpu_cores_count 0\n{values}"
        entries[f"{nodes}/{number}/mem_banks/0/properties"] = "heap_type 1\nsize_in_bytes 17179869184\n"
    return entries


def specs(discovery: Discovery, wish: Wish = WISH) -> dict[str, dict[str, Any]]:
    """The specs of a discovery: kind -> name of a device -> its edits, those of the whole spec below the name ""."""
    every = {}
    for draft in discovery.drafts:
        written = document(draft, wish)
        assert written is not None
        devices = {device["name"]: device["containerEdits"] for device in written["devices"]}
        every[written["kind"]] = devices | {"": written.get("containerEdits", {})}
    return every


def paths(edits: dict[str, Any]) -> list[str]:
    """The paths of the device nodes of edits."""
    return [node["path"] for node in edits.get("deviceNodes", ())]


def reported(discovery: Discovery) -> list[tuple[str, str]]:
    """Id and path of each finding."""
    return [(finding.id, finding.path) for finding in discovery.findings]
