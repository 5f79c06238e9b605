"""Entries of fake hosts, as conformance.trees.build takes them, and what the tests ask of a discovery."""

from __future__ import annotations

from typing import Any

from shim.discover.document import document
from shim.discover.model import Discovery, Wish

WISH = Wish("/usr/local/bin/shim")
VIDEO, RENDER = 44, 105  # groups

Entries = dict[str, Any]

UNIQUE = 0x9BAC5FE057CD5881
MI300 = 0x74A1


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


def amd_gpu(address: str, *drm: str, driver: str = "amdgpu", **files: str) -> Entries:
    return pci(address, 0x1002, MI300, 0x1200, driver, drm, **files)


def cpx(gpus: int, per_gpu: int) -> Entries:
    """GPUs in partitions: render nodes GPU by GPU, as the driver makes them."""
    entries: Entries = {}
    topology = []
    partition = 0
    for index in range(gpus):
        bus, unique_id = 0x10 + index, UNIQUE + index
        for share in range(per_gpu):
            render = 128 + index * per_gpu + share
            topology.append((render, share << 28 | bus << 8, unique_id))
            if share == 0:
                entries |= amd_gpu(f"0000:{bus:02x}:00.0", f"card{index}", f"renderD{render}")
            else:
                entries[f"/sys/devices/platform/amdgpu_xcp_{partition}/drm/renderD{render}/dev"] = "226:0\n"
                entries |= dri(f"renderD{render}")
                partition += 1
    return entries | kfd(*topology)


def npu(accel: str = "accel0") -> Entries:
    entries = pci("0000:00:0b.0", 0x8086, 0x643E, 0x1200, "intel_vpu", **{f"accel__{accel}__dev": "261:0"})
    return entries | {f"/dev/accel/{accel}": {"node": ["c", 261, 0], "gid": RENDER}}


LAPTOP = {
    **pci("0000:00:02.0", 0x8086, 0x9A49, 0x0300, "i915", ("card1", "renderD128")),
    **pci("0000:01:00.0", 0x10DE, 0x2520, 0x0300, "nvidia", ("card0", "renderD129")),
    **pci("0000:00:1f.0", 0x8086, 0xA082, 0x0601),
    **by_path("0000:00:02.0", "card1", "renderD128"),
    **by_path("0000:01:00.0", "card0", "renderD129"),
}


def gaudi(number: int, **files: str) -> Entries:
    """Gaudi card N at bus 0x10 + N, with the nodes of its accelerator."""
    address = f"0000:{0x10 + number:02x}:00.0"
    files[f"accel__accel{number}__dev"] = "261:0"
    entries = pci(address, 0x1DA3, 0x1020, 0x1200, "habanalabs", **files)
    nodes = {f"accel{number}": 2 * number, f"accel_controlD{number}": 2 * number + 1}
    return entries | {
        f"/dev/accel/{name}": {"node": ["c", 261, minor], "mode": "0666"} for name, minor in nodes.items()
    }


NOUVEAU = {
    **pci("0000:01:00.0", 0x10DE, 0x2520, 0x0300, "nouveau", ("card0", "renderD128"), numa_node="1"),
    **by_path("0000:01:00.0", "card0", "renderD128"),
}

CM = {"/dev/infiniband/rdma_cm": {"node": ["c", 10, 121], "mode": "0666"}}


def hca(address: str, number: int, name: str, driver: str = "mlx5_core", vendor: int = 0x15B3, **files: str) -> Entries:
    """An adapter on a PCI function, with verbs, management and an interface; N of its nodes is `number`."""
    at = f"../../devices/pci0000:00/{address}"
    below = f"/sys/devices/pci0000:00/{address}"
    entries = pci(address, vendor, 0x1021, 0x0207, driver, (), **files)
    entries |= {
        f"{below}/infiniband/{name}/device": {"link": "../.."},
        f"{below}/infiniband/{name}/hca_type": "MT4129\n",
        f"{below}/infiniband/{name}/node_guid": "b83f:d203:00b5:1c2a\n",
        f"/sys/class/infiniband/{name}": {"link": f"{at}/infiniband/{name}"},
        f"{below}/net/ens{number}/phys_port_name": "p0\n",
    }
    for klass, nodes in (("infiniband_verbs", ("uverbs",)), ("infiniband_mad", ("umad", "issm"))):
        for node in nodes:
            entries[f"{below}/{klass}/{node}{number}/ibdev"] = f"{name}\n"
            entries[f"/sys/class/{klass}/{node}{number}"] = {"link": f"{at}/{klass}/{node}{number}"}
            mode = "0666" if node == "uverbs" else "0600"
            entries[f"/dev/infiniband/{node}{number}"] = {"node": ["c", 231, number], "mode": mode}
    return entries


TWO_ADAPTERS = {**hca("0000:5e:00.0", 0, "mlx5_1"), **hca("0000:3b:00.0", 1, "mlx5_0", numa_node="1"), **CM}


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
