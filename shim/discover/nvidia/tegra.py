"""Mode csv: a Tegra system (Jetson), whose files for containers are named by lists (tegra_lists).

Such a system has one device, the integrated GPU, whose nodes the lists have. A board may have discrete GPUs beside it;
then NVML knows all of them. A discrete GPU gets its own node, those of the driver as a whole, and what the lists have
that is no GPU; the integrated GPU gets what the lists have without the nodes of discrete GPUs.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.nvidia import devices, gpus, names, native, options, tegra_files, tegra_lists
from shim.discover.nvidia.options import TEGRA_RELEASE
from shim.discover.nvidia.snapshot import Gpu
from shim.host.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.discover.edits import Edits
    from shim.discover.model import Wish
    from shim.discover.nvidia.snapshot import Snapshot
    from shim.discover.nvidia.tegra_lists import Entry
    from shim.host.host import Host

_MODEL = "/proc/device-tree/model"
# What NVML names the GPU of a Tegra chip: by its kernel module, or as the first chip without that module
_NAMES = ("(nvgpu)", "NVIDIA Thor")
_ADDRESS = re.compile(r"0000:01:00\.[0-7]")  # of the integrated GPU, where NVML gives it one
_ORIN = "Orin (nvgpu)"
_ORIN_COMPAT = "/usr/local/cuda/compat_orin"  # where images for Orin have the libraries of a newer CUDA
_DISPLAY = 2  # minor number of the integrated GPU's display, on a board with a discrete GPU
_GPU_NODE = re.compile(r"/dev/nvidia(\d+)")


def has_integrated(snapshot: Snapshot) -> bool:
    """Whether NVML knows the GPU of a Tegra chip."""
    return any(is_integrated(gpu.name) for gpu in snapshot.gpus)


def is_integrated(name: str) -> bool:
    """Whether a model, as NVML names it, is the GPU of a Tegra chip."""
    return any(mark in name for mark in _NAMES)


def discover(host: Host, wish: Wish) -> Discovery:
    """What lists and NVML have, see `discover_with`."""
    return discover_with(host, wish, gpus.take(host, options.driver_tree(host, wish), wish))


def discover_with(host: Host, wish: Wish, snapshot: Snapshot) -> Discovery:
    """What the lists have, and the GPUs of a snapshot where there are several.

    Returns:
        DISCOVERY_INCOMPLETE and no draft without any list or anything on the host that a list names.
    Raises:
        CdiError: DISCOVERY_WISH for a list, a strategy of names or a device that is not there.
    """
    strategies = names.strategies(wish)
    tree, nodes = options.driver_tree(host, wish), options.device_tree(host, wish)
    entries, findings = tegra_lists.read(host, wish, tree)
    if not entries:
        text = f"no list of a Tegra system's files has an entry: {', '.join(wish.csv_files or tegra_lists.FILES)}"
        remedy = "install JetPack's package nvidia-l4t-init, or name the lists: --csv-file FILE"
        return Discovery(options.VENDOR, findings=(*findings, Finding("DISCOVERY_INCOMPLETE", text, remedy)))
    common, missing = tegra_files.driver_edits(tree, wish, entries, os.uname().machine)
    _add_compat(common, wish, snapshot)
    listed, missing_nodes = _listed(nodes, wish, entries)
    findings += tegra_files.findings([*missing, *missing_nodes])
    # without NVML such a system is complete, so an NVML that fails is no error either
    findings += [finding.as_warning() for finding in snapshot.errors if finding.id != "DISCOVERY_PART"]
    integrated = _integrated(wish, snapshot)
    if integrated is None:
        drafts, inventory = _single(host, wish, strategies, snapshot, listed)
    else:
        drafts, inventory, faults = _several(host, wish, strategies, snapshot, listed, integrated)
        findings += faults
    if not _add_release(host, tree, common, drafts):
        text = f"none of the device nodes that the lists name is on this host, and no {TEGRA_RELEASE}"
        return Discovery(options.VENDOR, (), inventory, (*findings, Finding("DISCOVERY_INCOMPLETE", text)))
    return Discovery(options.VENDOR, (Draft(devices.KIND, common, drafts),), inventory, tuple(findings))


def _listed(nodes: Tree, wish: Wish, entries: list[Entry]) -> tuple[Edits, list[Entry]]:
    """The device nodes that lists name, and the entries without any."""
    edits = options.new_edits(wish)
    missing = []
    for entry in entries:
        if entry.kind == tegra_lists.DEVICE:
            added = [edits.add_node(nodes, path) for path in tegra_lists.expand(nodes, entry.path)]
            missing += [] if any(added) else [entry]
    return edits, missing


def _add_compat(common: Edits, wish: Wish, snapshot: Snapshot) -> None:
    """Add the hook that lets an image use the libraries of a newer CUDA, if NVML tells which the driver has."""
    if snapshot.cuda_version:
        is_orin = any(_ORIN in gpu.name for gpu in snapshot.gpus)
        root = wish.csv_compat_root or (_ORIN_COMPAT if is_orin else "")
        further = (f"--cuda-compat-container-root={root}",) if root else ()
        common.hooks["enable-cuda-compat"] = (f"--host-cuda-version={snapshot.cuda_version}", *further)


def _integrated(wish: Wish, snapshot: Snapshot) -> Gpu | None:
    """The integrated GPU of a board that has others, too; None where the lists describe the only device."""
    if options.ONE_CSV_DEVICE in wish.features or snapshot.source != "nvml" or len(snapshot.gpus) <= 1:
        return None
    by_name = [gpu for gpu in snapshot.gpus if any(mark in gpu.name for mark in _NAMES)]
    by_address = [gpu for gpu in snapshot.gpus if _ADDRESS.fullmatch(gpu.pci_address)]
    return next(iter(by_name or by_address), None)


def _single(
    host: Host, wish: Wish, strategies: tuple[str, ...], snapshot: Snapshot, listed: Edits
) -> tuple[tuple[DraftDevice, ...], tuple[Device, ...]]:
    """The only device: what the lists have. It has number 0, and no UUID: the lists may stand for several GPUs."""
    first = Gpu(0)
    given = names.named(strategies, first)
    if not given:
        text = (
            "--device-name-strategy uuid: the device that the lists describe has no UUID (there are: index, type-index)"
        )
        raise CdiError([Finding("DISCOVERY_WISH", text)])
    ids = tuple(dict.fromkeys([names.index_of(first), *(gpu.uuid for gpu in snapshot.gpus[:1] if gpu.uuid)]))
    known = snapshot.gpus[0] if len(snapshot.gpus) == 1 else first
    return (DraftDevice(given, listed, ids),), (_inventory(host, wish, snapshot, known, given, listed),)


def _several(
    host: Host, wish: Wish, strategies: tuple[str, ...], snapshot: Snapshot, listed: Edits, integrated: Gpu
) -> tuple[tuple[DraftDevice, ...], tuple[Device, ...], list[Finding]]:
    """Each GPU as a device: the integrated one and those of NVML."""
    nodes = options.device_tree(host, wish)
    discrete = [gpu for gpu in snapshot.gpus if gpu is not integrated]
    minors = {gpu.minor for gpu in discrete}
    own = _without_gpus(wish, listed, lambda minor: minor in minors)
    if _DISPLAY not in minors:
        own.add_node(nodes, f"/dev/nvidia{_DISPLAY}")
    given = names.named(strategies, integrated)
    ids = (names.index_of(integrated), integrated.uuid)
    drafts = [DraftDevice(given, own, tuple(filter(None, ids)))]
    inventory = [_inventory(host, wish, snapshot, integrated, given, own)]
    shared = _without_gpus(wish, listed, lambda _: True)
    findings = native.add_control(shared, nodes)
    builder = devices.Builder(host, nodes, wish, replace(snapshot, gpus=tuple(discrete)))
    for part in builder.parts():
        if part.finding and set(part.ids) & set(wish.devices):
            raise CdiError([part.finding])
        findings += [part.finding] if part.finding else []
        if part.draft:
            part.draft.edits.add(shared)
            drafts.append(part.draft)
        inventory.append(builder.inventory(part))
    return tuple(drafts), tuple(inventory), findings


def _without_gpus(wish: Wish, listed: Edits, is_left_out: Callable[[int], bool]) -> Edits:
    """The nodes that lists name, without those of GPUs of some minor numbers."""
    edits = options.new_edits(wish)
    for path, node in listed.nodes.items():
        match = _GPU_NODE.fullmatch(path)
        if not match or not is_left_out(int(match[1])):
            edits.nodes[path] = node
    return edits


def _add_release(host: Host, tree: Tree, common: Edits, drafts: tuple[DraftDevice, ...]) -> bool:
    """Add the file by which programs know the system; False when a device has nothing without it, and it is missing.

    It is that of the driver's root, whose files it describes, else the machine's own. A device needs an edit of its
    own, which this file is where lists name no device node.
    """
    targets = [common] if all(draft.edits for draft in drafts) else [draft.edits for draft in drafts]
    for source in (tree, Tree(host)):
        path = source.resolve(TEGRA_RELEASE)
        if path and source.is_file(path):
            for edits in targets:
                edits.add_mount(source, path, TEGRA_RELEASE)
            return True
    return targets == [common]


def _inventory(host: Host, wish: Wish, snapshot: Snapshot, gpu: Gpu, given: tuple[str, ...], edits: Edits) -> Device:
    """The integrated GPU in the inventory. Without NVML its model is that of the board."""
    kind = wish.kind_of(devices.KIND)
    return Device(
        names.index_of(gpu),
        options.VENDOR,
        gpu.name or host.text(_MODEL).rstrip("\0"),
        snapshot.driver_version,
        gpu.memory,
        gpu.pci_address,
        gpu.numa,
        uuid=gpu.uuid,
        cdi_names=tuple(f"{kind}={name}" for name in given),
        nodes=tuple(node.host_path for node in edits.nodes.values()),
    )
