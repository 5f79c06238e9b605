"""AMD: GPUs and their partitions, by the topology of the compute driver (kfd).

A GPU in a partitioned mode (CPX, QPX, DPX) shows its first partition below its PCI function, and each further one below
a platform device amdgpu_xcp_N. What can compute is what a node of the topology names by its render node. All partitions
share /dev/kfd, which lets a process use those whose render node it can open; so every device has it, as the spec's
common edits.

Names are indices, given as AMD's toolkit (amd-ctk) gives them: GPU by GPU in the order of the bus, and within a GPU by
render node. A partition whose node is missing keeps its number, so that the others keep theirs. With `uuid` in
--device-name-strategy a device is named by the unique id, as AMD_VISIBLE_DEVICES takes it: it has all partitions of the
GPU, which share the id.

Source: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c and amdxcp/amdgpu_xcp_drv.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover import pci
from shim.discover.edits import Edits
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.reports import add_nodes, is_writable
from shim.host.tree import Tree, natural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.discover.model import Wish
    from shim.host.host import Host

KIND = "amd.com/gpu"
DRIVER = "amdgpu"

_DRIVERS = "/sys/module/amdgpu/drivers"
_FUNCTIONS = f"{_DRIVERS}/pci:amdgpu"
_PLATFORM = "/sys/devices/platform"
_PARTITION = "amdgpu_xcp_"
_TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"
_KFD = "/dev/kfd"
_DRI = "/dev/dri"
_NO_GIDS = "no-additional-gids-for-device-nodes"  # a feature that NVIDIA's generator has under the same name
_VRAM_HEAPS = frozenset({"1", "2"})  # HSA_MEM_HEAP_TYPE_FB_PUBLIC, _PRIVATE: memory of the device
_LARGEST_ID = 1 << 64
_PROCESSING = 0x1200  # PCI class of GPUs without a display
_MODULE = "modprobe amdgpu"


@dataclass(frozen=True)
class TopologyNode:
    """A node of the topology that has a render node.

    Attributes:
        path: its directory in /sys.
        domain: PCI domain of its GPU.
        location: the GPU's number in the domain, as in pci.address_of.
        unique_id: of its GPU as amd-ctk writes it, 0x and hexadecimal digits; "" for none.
    """

    path: str
    domain: int
    location: int
    unique_id: str


@dataclass(frozen=True)
class Partition:
    """A GPU, or a partition of one, that can compute.

    Attributes:
        index: by which it is named.
        render: the name of its render node.
        drm: the names of all its DRM nodes.
        gpu: the PCI function of the GPU.
        node: its node of the topology.
        is_first: whether it stands for the whole GPU where that is not partitioned.
    """

    index: int
    render: str
    drm: tuple[str, ...]
    gpu: pci.PciDevice
    node: TopologyNode
    is_first: bool


def is_present(host: Host, wish: Wish) -> bool:  # noqa: ARG001 - all modules have the same functions
    """Whether the driver amdgpu is loaded."""
    return Tree(host).is_directory(f"/sys/module/{DRIVER}")


def discover(host: Host, wish: Wish) -> Discovery:
    """The GPUs of AMD on a host, one device for each partition. Nothing is refused."""
    tree = Tree(host)
    nodes = Tree(host, wish.dev_root or "/")
    bus = [device for device in pci.devices(tree) if _is_gpu(device)]
    if not tree.is_directory(_DRIVERS):
        return _without_driver(tree, bus)
    parts = partitions(tree)
    findings = _common_findings(tree, nodes, bool(parts))
    common = Edits(has_gids=_NO_GIDS not in wish.features)
    if common.add_node(nodes, _KFD) and not parts:
        findings.append(Finding("KFD_WITHOUT_RENDER", "no GPU stands behind it", path=nodes.host_path(_KFD)))
    findings += _not_for_compute(tree, parts)
    drafts: list[tuple[Partition, Edits]] = []
    for partition in parts:
        edits = Edits(has_gids=common.has_gids)
        name = f"{wish.kind_of(KIND)}={partition.index} ({partition.gpu.address})"
        cards = (f"{_DRI}/{card}" for card in partition.drm if card != partition.render)
        missing = add_nodes(edits, nodes, name, [f"{_DRI}/{partition.render}"], cards)
        findings += missing
        if is_writable(missing):
            drafts.append((partition, edits))
    named = _named(drafts, wish)
    draft = Draft(KIND, common, named)
    inventory = _inventory(tree, wish, parts, drafts, named, common)
    served = {partition.gpu.address for partition in parts}
    # a GPU with a render node that cannot compute is in the inventory of the module drm
    idle = [device for device in bus if device.address not in served and not any(map(pci.is_render, device.drm))]
    inventory += [_device(tree, device, device.address) for device in idle]
    return Discovery("amd", (draft,) if named else (), tuple(inventory), tuple(findings))


def partitions(tree: Tree) -> list[Partition]:
    """The GPUs and partitions that the topology of the compute driver names, by index.

    Arguments:
        tree: the machine's own root.
    """
    topology = _topology(tree)
    addresses = pci.addresses(tree, _FUNCTIONS)
    functions = [(f"{_FUNCTIONS}/{address}", address) for address in addresses]
    platform = [(f"{_PLATFORM}/{name}", "") for name in tree.names(_PLATFORM) if name.startswith(_PARTITION)]
    groups: dict[tuple[int, int], list[tuple[int, str, tuple[str, ...], str]]] = {}
    for path, address in [*functions, *platform]:
        drm = pci.drm_names(tree, path)
        for render in [name for name in drm if _minor(name) in topology]:
            node = topology[_minor(render)]
            groups.setdefault((node.domain, node.location >> 3), []).append((_minor(render), render, drm, address))
    every: list[Partition] = []
    for group in groups.values():
        first = next((address for _, _, _, address in group if address), "")
        for minor, render, drm, address in sorted(group):
            node = topology[minor]
            gpu = pci.PciDevice(tree, address or first or pci.address_of(node.domain, node.location))
            every.append(Partition(len(every), render, drm, gpu, node, bool(address)))
    return every


def _topology(tree: Tree) -> dict[int, TopologyNode]:
    """The nodes of the topology by the number of their render node; CPUs have none."""
    every = {}
    for name in tree.names(_TOPOLOGY):
        path = f"{_TOPOLOGY}/{name}"
        values = properties(tree, path)
        minor, location = (pci.number(values.get(key, "")) for key in ("drm_render_minor", "location_id"))
        if minor > 0 and location >= 0:
            # a partition's number stands in the highest bits of its location
            domain = max(pci.number(values.get("domain", "")), 0)
            every[minor] = TopologyNode(path, domain, location & 0xFFFF, _unique_id(values.get("unique_id", "")))
    return every


def properties(tree: Tree, path: str) -> dict[str, str]:
    """The lines `NAME VALUE` of a node of the topology, or of one of its banks of memory, by its directory."""
    lines = (line.split() for line in tree.text(f"{path}/properties").splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2}


def _unique_id(text: str) -> str:
    value = pci.number(text)
    return f"0x{value:X}" if 0 < value < _LARGEST_ID else ""


def _minor(name: str) -> int:
    """The number of a render node, -1 for another DRM node."""
    return int(name.removeprefix("renderD")) if pci.is_render(name) else -1


def _named(drafts: list[tuple[Partition, Edits]], wish: Wish) -> tuple[DraftDevice, ...]:
    """The devices that are written, named by the strategies that are asked for."""
    strategies = [name for name in wish.names if name in {"index", "uuid"}] or ["index"]
    named: list[DraftDevice] = []
    by_id: dict[str, list[Edits]] = {}
    for partition, edits in drafts:
        unique_id = partition.node.unique_id
        if "uuid" in strategies and unique_id:
            by_id.setdefault(unique_id, []).append(edits)
        if "index" in strategies or not unique_id:
            ids = (partition.render, partition.gpu.address, unique_id)
            named.append(DraftDevice((str(partition.index),), edits, tuple(filter(None, ids))))
    for unique_id, shares in by_id.items():
        whole = Edits(has_gids=shares[0].has_gids)
        for edits in shares:
            whole.add(edits)
        named.append(DraftDevice((unique_id,), whole))
    return tuple(named)


def _inventory(
    tree: Tree,
    wish: Wish,
    parts: Iterable[Partition],
    drafts: list[tuple[Partition, Edits]],
    named: Iterable[DraftDevice],
    common: Edits,
) -> list[Device]:
    ids = pci.PciIds(tree)
    edits_of = {partition.index: edits for partition, edits in drafts}
    names = {name for device in named for name in device.names}
    inventory = []
    for partition in parts:
        edits = edits_of.get(partition.index)
        own = [name for name in (str(partition.index), partition.node.unique_id) if edits and name in names]
        every = [*edits.nodes.values(), *common.nodes.values()] if edits else []
        inventory.append(
            Device(
                str(partition.index),
                "amd",
                model=partition.gpu.text("product_name") or ids.model(partition.gpu),
                driver_version=pci.driver_version(tree, DRIVER),
                memory=_memory(tree, partition),
                pci_address=partition.gpu.address,
                numa_node=partition.gpu.numa_node,
                uuid=partition.node.unique_id,
                cdi_names=tuple(f"{wish.kind_of(KIND)}={name}" for name in own),
                nodes=tuple(sorted((node.host_path for node in every), key=natural)),
            )
        )
    return inventory


def _device(tree: Tree, gpu: pci.PciDevice, name: str) -> Device:
    """The entry of a GPU that no spec has."""
    return Device(
        name,
        "amd",
        model=gpu.text("product_name") or pci.PciIds(tree).model(gpu),
        driver_version=pci.driver_version(tree, gpu.driver),
        memory=max(pci.number(gpu.text("mem_info_vram_total")), 0),
        pci_address=gpu.address,
        numa_node=gpu.numa_node,
    )


def _memory(tree: Tree, partition: Partition) -> int:
    """Bytes of memory: what the topology gives the partition, else what the GPU has."""
    size = 0
    banks = f"{partition.node.path}/mem_banks"
    for name in tree.names(banks):
        values = properties(tree, f"{banks}/{name}")
        if values.get("heap_type") in _VRAM_HEAPS:
            size += max(pci.number(values.get("size_in_bytes", "")), 0)
    if not size and partition.is_first:
        size = max(pci.number(partition.gpu.text("mem_info_vram_total")), 0)
    return size


def _is_gpu(device: pci.PciDevice) -> bool:
    return device.vendor == pci.AMD and (device.is_display or device.klass == _PROCESSING)


def _without_driver(tree: Tree, bus: list[pci.PciDevice]) -> Discovery:
    """A host on which the driver serves nothing: no finding when there is nothing to serve."""
    inventory = tuple(_device(tree, gpu, gpu.address) for gpu in bus)
    waiting = [gpu.address for gpu in bus if not gpu.driver]
    if not waiting and not tree.is_directory(f"/sys/module/{DRIVER}"):
        return Discovery("amd", devices=inventory)
    text = f"it is missing: the driver {DRIVER} serves no GPU"
    if waiting:
        text += f", and {', '.join(waiting)} wait for it"
    finding = Finding("DISCOVERY_INCOMPLETE", text, f"`{_MODULE}`, then generate again", path=_DRIVERS)
    return Discovery("amd", devices=inventory, findings=(finding,), waits_for=f"the driver {DRIVER}" * bool(waiting))


def _common_findings(tree: Tree, nodes: Tree, has_devices: bool) -> list[Finding]:
    """What all GPUs need and the host lacks."""
    if not pci.addresses(tree, _FUNCTIONS):
        return []
    if not tree.is_directory(_TOPOLOGY):
        text = "it is missing: the kernel has no compute driver (CONFIG_HSA_AMD), so no GPU can compute"
        return [Finding("DISCOVERY_INCOMPLETE", text, path=_TOPOLOGY)]
    if has_devices and nodes.node(_KFD) is None:
        text = "the device node is missing: without it no GPU can compute"
        remedy = f"`mknod {_KFD} c $(sed -n 's/ kfd$//p' /proc/devices) 0`, then generate again"
        return [Finding("DISCOVERY_INCOMPLETE", text, remedy, path=nodes.host_path(_KFD))]
    return []


def _not_for_compute(tree: Tree, parts: list[Partition]) -> list[Finding]:
    """A finding for each GPU of the driver that is not a device of ours."""
    served = {partition.gpu.address for partition in parts}
    findings = []
    for address in pci.addresses(tree, _FUNCTIONS):
        drm = pci.drm_names(tree, f"{_FUNCTIONS}/{address}")
        if address not in served:
            has_render = any(pci.is_render(name) for name in drm)
            cause = f"no node of {_TOPOLOGY} names its render node" if has_render else "it has no render node"
            text = f"GPU {address} cannot compute and is left out: {cause}"
            findings.append(Finding("DISCOVERY_PART", text, "`shim cdi generate --vendor drm` serves it for graphics"))
    return findings
