"""Mode wsl: the GPUs of Windows in its Subsystem for Linux.

There is a device node for all adapters, /dev/dxg, and no device for a single GPU. The driver's files lie in a directory
of Windows, the driver store, which WSL shows below /usr/lib/wsl/drivers: one for each adapter's driver, and old ones
may be left there. NVIDIA's has libcuda.so.1.1. Which of several is in use is asked of Windows through libdxcore; where
that cannot be loaded, the store with the newest libcuda is taken.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.nvidia import dxcore, gpus, options
from shim.discover.nvidia.search import Search

if TYPE_CHECKING:
    from shim.discover.edits import Edits
    from shim.discover.model import Wish
    from shim.host.host import Host
    from shim.host.tree import Tree

NODE = "/dev/dxg"
LIBRARY = "libdxcore.so"
KIND = f"{options.DOMAIN}/gpu"
_ALL = "all"
_DIRECTORY = "/usr/lib/wsl/lib"
_STORES = "/usr/lib/wsl/drivers"
_MARK = "libcuda.so.1.1"  # a file that only NVIDIA's store has
_SMI, _SMI_LINK = "nvidia-smi", "/usr/bin/nvidia-smi"
_ENDINGS = (".so", ".bin", ".dll")
_UPDATE = "update the driver of NVIDIA on Windows, then `wsl.exe --update` and `wsl.exe --shutdown` there"


def is_present(host: Host, wish: Wish) -> bool:
    """Whether the host is WSL with GPUs: it has the node and libdxcore."""
    has_node = options.device_tree(host, wish).node(NODE) is not None
    return has_node and library(options.driver_tree(host, wish), wish) is not None


def library(tree: Tree, wish: Wish) -> str | None:
    """The path of libdxcore in the driver's root; None when it is missing.

    WSL's own directory is not in ld.so.cache on every distribution, so it comes first.
    """
    search = Search(tree, wish.library_paths, os.uname().machine)
    directories = [*([] if wish.library_paths else [_DIRECTORY]), *search.directories(LIBRARY)]
    paths = (f"{directory.rstrip('/')}/{LIBRARY}" for directory in directories)
    return next(filter(tree.is_file, paths), None)


def discover(host: Host, wish: Wish) -> Discovery:
    """The device `all`, with the files of NVIDIA's driver store.

    Returns:
        DISCOVERY_INCOMPLETE and no draft without the node, libdxcore or a store of NVIDIA's; DISCOVERY_PART without
        nvidia-smi, and where it is uncertain which store is in use.
    """
    tree = options.driver_tree(host, wish)
    node = options.new_edits(wish)
    findings = []
    if not node.add_node(options.device_tree(host, wish), NODE):
        text = f"there is no device node {NODE}: this system is no WSL 2, or Windows offers it no GPU"
        findings.append(Finding("DISCOVERY_INCOMPLETE", text, _UPDATE))
    path = library(tree, wish)
    store = ""
    if path is None:
        text = f"there is no {LIBRARY} below {tree.host_path(_DIRECTORY)}"
        findings.append(Finding("DISCOVERY_INCOMPLETE", text, _UPDATE))
    else:
        store, why = _store(host, tree, path)
        findings += why
    if path is None or not store or not node:
        return Discovery(options.VENDOR, findings=tuple(findings))
    common = options.common_edits(wish)
    findings += _add_files(common, tree, store, path)
    draft = Draft(KIND, common, (DraftDevice((_ALL,), node),), can_have_all=False)
    return Discovery(options.VENDOR, (draft,), _inventory(host, tree, wish, node), tuple(findings))


def _inventory(host: Host, tree: Tree, wish: Wish, node: Edits) -> tuple[Device, ...]:
    """The GPUs as NVML knows them, else a device for all of them."""
    # WSL's own directory has an NVML that leads to the driver store
    paths = wish.library_paths or (_DIRECTORY,)
    snapshot = gpus.take(host, tree, replace(wish, library_paths=paths))
    nodes = tuple(entry.host_path for entry in node.nodes.values())
    everything = Device(
        _ALL,
        options.VENDOR,
        driver_version=snapshot.driver_version,
        platform="wsl",
        cdi_names=(f"{wish.kind_of(KIND)}={_ALL}",),
        nodes=nodes,
    )
    each = (
        replace(everything, name=str(gpu.index), model=gpu.name, memory=gpu.memory, uuid=gpu.uuid)
        for gpu in snapshot.gpus
        if not gpu.error
    )
    return tuple(each) or (everything,)


def _store(host: Host, tree: Tree, path: str) -> tuple[str, list[Finding]]:
    """NVIDIA's driver store and what is wrong or uncertain; "" for none."""
    adapters = dxcore.adapters(host, tree, tree.resolve(path) or path)
    if isinstance(adapters, str):
        return _store_by_content(tree, adapters)
    stores = [adapter for adapter in adapters if adapter.store and tree.is_file(f"{adapter.store}/{_MARK}")]
    usable = list(dict.fromkeys(tree.resolve(adapter.store) or "" for adapter in stores if adapter.is_usable))
    if not usable:
        text = "Windows shows no GPU of NVIDIA: no adapter's driver store has " + _MARK
        if stores:
            version = max(adapter.wddm for adapter in stores)
            text = f"the driver of NVIDIA on Windows is for WDDM {version / 1000:g}, too old: WSL needs WDDM 2.7"
        return "", [Finding("DISCOVERY_INCOMPLETE", text, _UPDATE)]
    if not usable[1:]:
        return usable[0], []
    text = f"Windows shows several driver stores of NVIDIA, the first is used: {', '.join(usable)}"
    return usable[0], [Finding("DISCOVERY_PART", text, "remove the older driver of NVIDIA on Windows")]


def _store_by_content(tree: Tree, cause: str) -> tuple[str, list[Finding]]:
    """The store with the newest libcuda, where Windows cannot be asked."""
    every = {}
    for name in tree.names(_STORES):
        status = tree.status(f"{_STORES}/{name}/{_MARK}")
        store = tree.resolve(f"{_STORES}/{name}")
        if status and store:
            every[store] = status.st_mtime
    if not every:
        text = f"no driver store below {tree.host_path(_STORES)} has {_MARK}; and Windows was not asked: {cause}"
        return "", [Finding("DISCOVERY_INCOMPLETE", text, _UPDATE)]
    stores = sorted(every, key=lambda store: (-every[store], store))
    text = f"Windows was not asked for its driver store: {cause}; {stores[0]} is used"
    if stores[1:]:
        text += f", the newest of {len(stores)}: {', '.join(stores)}"
    return stores[0], [Finding("DISCOVERY_PART", text, "if that store is wrong, remove the others on Windows")]


def _add_files(edits: Edits, tree: Tree, store: str, path: str) -> list[Finding]:
    """Add the store's files, libdxcore, the link of nvidia-smi and the directories of libraries."""
    for file in [*(f"{store}/{name}" for name in tree.names(store) if _is_wanted(name)), path]:
        target = tree.resolve(file)
        if target and tree.is_file(target):
            edits.add_mount(tree, target, file)
    edits.add_folder(store)
    edits.add_folder(path.rpartition("/")[0])
    if f"{store}/{_SMI}" not in edits.mounts:
        return [Finding("DISCOVERY_PART", f"{tree.host_path(store)} has no {_SMI}")]
    edits.add_link(_SMI_LINK, f"{store}/{_SMI}")
    return []


def _is_wanted(name: str) -> bool:
    return name == _SMI or name.endswith(_ENDINGS) or ".so." in name
