"""Intel: GPUs, the management engines of GPUs, and NPUs.

    intel.com/gpu      0000-03-00-0-0x56a0   card and render node, and what udev links to them by PCI address
    intel.com/gpu-mei  mei1                  the management engine of a GPU: firmware updates and diagnosis
    intel.com/npu      accel0                or 0000-00-0b-0-0x643e, with --device-name-strategy uuid

Names and kinds are those of Intel's generator, but for `all`, which it does not write. A GPU that VFIO holds for a
virtual machine, which may run in a container, has the nodes of VFIO in place of those of DRM.

Source: Linux, drivers/gpu/drm/{i915,xe}, drivers/accel/ivpu, drivers/misc/mei; 60-drm.rules of udev.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover import dri, pci
from shim.discover.edits import Edits
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.reports import add_nodes, is_writable, left_out
from shim.host.tree import Tree, natural

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.host import Host

GPU, MEI, NPU = "intel.com/gpu", "intel.com/gpu-mei", "intel.com/npu"
GPU_DRIVERS = frozenset({"i915", "xe"})
NPU_DRIVER = "intel_vpu"

_CLASSES = frozenset({0x0300, 0x0380})  # VGA and other display controllers
_VFIO = "/dev/vfio"


def is_present(host: Host, wish: Wish) -> bool:  # noqa: ARG001 - all modules have the same functions
    """Whether a driver serves a GPU or an NPU of Intel, or VFIO holds a GPU."""
    every = (device for device in pci.devices(Tree(host)) if device.vendor == pci.INTEL)
    return any(device.driver == NPU_DRIVER or (is_gpu(device) and _is_bound(device)) for device in every)


def is_gpu(device: pci.PciDevice) -> bool:
    """Whether a PCI device is a GPU of Intel."""
    return device.vendor == pci.INTEL and device.klass in _CLASSES


def discover(host: Host, wish: Wish) -> Discovery:
    """The GPUs, management engines and NPUs of Intel on a host. Nothing is refused."""
    tree = Tree(host)
    nodes = Tree(host, wish.dev_root or "/")
    ids = pci.PciIds(tree)
    every = [device for device in pci.devices(tree) if device.vendor == pci.INTEL]
    gpus = [device for device in every if is_gpu(device)]
    findings: list[Finding] = []
    drafts: dict[str, list[DraftDevice]] = {GPU: [], MEI: [], NPU: []}
    inventory = []
    for gpu in gpus:
        drawn = _gpu(nodes, gpu, findings)
        engines = _engines(nodes, gpu, findings) if gpu.driver in GPU_DRIVERS else []
        drafts[GPU] += drawn
        drafts[MEI] += engines
        inventory.append(_entry(tree, wish, ids, gpu, {GPU: drawn, MEI: engines}))
    for npu in (device for device in every if device.driver == NPU_DRIVER):
        drawn = _npu(nodes, wish, npu, findings)
        drafts[NPU] += drawn
        inventory.append(_entry(tree, wish, ids, npu, {NPU: drawn}))
    waits_for = _waits_for(tree, gpus, findings)
    every_draft = (Draft(kind, devices=tuple(devices), keeps_kind=kind != GPU) for kind, devices in drafts.items())
    written = tuple(draft for draft in every_draft if draft.devices)
    return Discovery("intel", written, tuple(inventory), tuple(findings), waits_for)


def _edits(nodes: Tree, name: str, required: list[str], optional: list[str], findings: list[Finding]) -> Edits | None:
    """The edits of a device, None when it cannot be written."""
    edits = Edits()
    missing = add_nodes(edits, nodes, name, required, optional)
    findings += missing
    return edits if is_writable(missing) else None


def _gpu(nodes: Tree, gpu: pci.PciDevice, findings: list[Finding]) -> list[DraftDevice]:
    """A GPU as a device, none when it cannot be written."""
    name = f"{GPU}={gpu.dashed}"
    if gpu.driver in pci.VFIO_DRIVERS:
        edits = _vfio(nodes, gpu, name, findings)
    elif gpu.driver not in GPU_DRIVERS:
        return []
    elif not any(map(pci.is_card, gpu.drm)):
        findings.append(left_out(name, f"the driver {gpu.driver} has made no DRM card of it", gpu.path))
        return []
    else:
        edits = _edits(nodes, name, [f"/dev/dri/{node}" for node in gpu.drm], [], findings)
        if edits:
            dri.add_paths(edits, nodes, f"pci-{gpu.address}", gpu.drm)
    return [DraftDevice((gpu.dashed,), edits, (gpu.address, *gpu.drm))] if edits else []


def _vfio(nodes: Tree, gpu: pci.PciDevice, name: str, findings: list[Finding]) -> Edits | None:
    """The nodes by which a virtual machine is given a GPU: those of its IOMMU group, and that of the device itself."""
    if not gpu.iommu_group:
        findings.append(left_out(name, "VFIO holds it, and it has no IOMMU group", gpu.path))
        return None
    own = [f"{_VFIO}/devices/{device}" for device in gpu.names("vfio-dev")]
    return _edits(nodes, name, [f"{_VFIO}/{gpu.iommu_group}", f"{_VFIO}/vfio"], own, findings)


def _engines(nodes: Tree, gpu: pci.PciDevice, findings: list[Finding]) -> list[DraftDevice]:
    """The management engines of a GPU: auxiliary devices such as xe.mei-gscfi.768."""
    names = [name for below in gpu.names("") if ".mei-" in below for name in gpu.names(f"{below}/mei")]
    every = (
        (name, _edits(nodes, f"{MEI}={name}", [f"/dev/{name}"], [], findings)) for name in sorted(names, key=natural)
    )
    return [DraftDevice((name,), edits, (gpu.address, gpu.dashed)) for name, edits in every if edits]


def _npu(nodes: Tree, wish: Wish, npu: pci.PciDevice, findings: list[Finding]) -> list[DraftDevice]:
    names = npu.names("accel")
    if not names:
        findings.append(left_out(f"{NPU}={npu.dashed}", f"the driver {NPU_DRIVER} has made no node of it", npu.path))
        return []
    by_strategy = wish.names_by({"index": names[0], "uuid": npu.dashed})
    edits = _edits(nodes, f"{NPU}={by_strategy[0]}", [f"/dev/accel/{names[0]}"], [], findings)
    return [DraftDevice(by_strategy, edits, (names[0], npu.address, npu.dashed))] if edits else []


def _entry(
    tree: Tree, wish: Wish, ids: pci.PciIds, device: pci.PciDevice, drafts: dict[str, list[DraftDevice]]
) -> Device:
    """The entry of the inventory."""
    kinds = {kind: wish.kind_of(GPU) if kind == GPU else kind for kind in drafts}
    drawn = [(kinds[kind], draft) for kind, every in drafts.items() for draft in every]
    return Device(
        device.dashed,
        "intel",
        model=ids.model(device),
        driver_version=pci.driver_version(tree, device.driver),
        memory=_memory(tree, device),
        pci_address=device.address,
        numa_node=device.numa_node,
        cdi_names=tuple(f"{kind}={name}" for kind, draft in drawn for name in draft.names),
        nodes=tuple(node.host_path for _, draft in drawn for node in draft.edits.nodes.values()),
    )


def _memory(tree: Tree, gpu: pci.PciDevice) -> int:
    """Bytes of local memory: xe shows those of each tile, i915 (Intel's own version) those of the card."""
    tiles = [name for name in gpu.names("") if name.startswith("tile")]
    size = sum(max(pci.number(gpu.text(f"{tile}/physical_vram_size_bytes")), 0) for tile in tiles)
    card = next(filter(pci.is_card, gpu.drm), "")
    return size or max(pci.number(tree.text(f"{gpu.path}/drm/{card}/lmem_total_bytes")), 0)


def _is_bound(gpu: pci.PciDevice) -> bool:
    return gpu.driver in GPU_DRIVERS or gpu.driver in pci.VFIO_DRIVERS


def _waits_for(tree: Tree, gpus: list[pci.PciDevice], findings: list[Finding]) -> str:
    """Report GPUs without a driver; what is waited for when that holds for all of them."""
    idle = [gpu for gpu in gpus if not gpu.driver]
    if not idle:
        return ""
    text = f"no driver serves GPU {', '.join(gpu.address for gpu in idle)}"
    is_loaded = any(tree.is_directory(f"/sys/module/{driver}") for driver in GPU_DRIVERS)
    if is_loaded or len(idle) < len(gpus):
        findings.append(Finding("DISCOVERY_PART", text, "`dmesg | grep -e i915 -e xe` shows why"))
        return ""
    findings.append(Finding("DISCOVERY_INCOMPLETE", text, "`modprobe xe` or `modprobe i915`, then generate again"))
    return "the driver i915 or xe"
