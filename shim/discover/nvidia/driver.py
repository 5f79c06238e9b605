"""The driver's files that every container with a GPU gets, whatever the GPU: the edits common to all devices.

    Search ──> Libraries ──> mounts, links, folders
    tables of files ───────> mounts
    version ───────────────> hooks

Everything is read in one tree, the driver's root; paths in the container are those within the tree.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.edits import Edits
from shim.discover.nvidia.driverfiles import add_configuration, add_programs, add_sockets, unknown_to_loaders
from shim.discover.nvidia.firmware import add_firmware
from shim.discover.nvidia.libraries import Libraries
from shim.discover.nvidia.links import links
from shim.discover.nvidia.options import EXPLICIT_LIBRARIES, NO_SOCKETS
from shim.discover.nvidia.search import Search
from shim.discover.nvidia.xmodules import add_x_modules

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.tree import Tree

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+")


def driver_edits(
    tree: Tree, version: str, wish: Wish, machine: str = "", *, has_graphics: bool = True
) -> tuple[Edits, list[Finding]]:
    """The edits for the driver's files, with links, directories of libraries and hooks.

    Arguments:
        tree: the driver's files, its root that of --driver-root.
        version: of the driver that runs, from the kernel's module or NVML; it is never guessed from files' names.
        wish: directories to search, features.
        machine: as uname(2) names it; that of this kernel by default.
        has_graphics: whether modules of X and files for loaders of graphics and OpenCL are added.
    Returns:
        the edits, and findings: DISCOVERY_INCOMPLETE without libcuda of this version, DRIVER_MISMATCH where the files
        are of another version, DISCOVERY_PART for what was left out.
    """
    edits = Edits(env={"NVIDIA_VISIBLE_DEVICES": "void"})
    if not tree.exists:
        text = f"the driver's root {tree.root} is no directory"
        return edits, [Finding("DISCOVERY_INCOMPLETE", text, "name the driver's root: --driver-root DIR")]
    if not _VERSION.fullmatch(version):
        text = f"the driver's version is unknown ({version!r})" if version else "the driver's version is unknown"
        return edits, [Finding("DISCOVERY_INCOMPLETE", text)]
    machine = machine or os.uname().machine
    search = Search(tree, wish.library_paths, machine)
    libraries = Libraries(search, version)
    libraries.take_driver(is_explicit=EXPLICIT_LIBRARIES in wish.features)
    directories = search.directories()
    _add_libraries(edits, tree, libraries, version, directories)
    findings = libraries.findings()
    findings += add_programs(edits, tree)
    if has_graphics:
        add_x_modules(edits, search, version, directories)
        add_configuration(edits, tree, wish.config_paths, machine)
        findings += unknown_to_loaders(edits, (name for _, name in libraries.taken), machine)
    add_firmware(edits, tree, version)
    if NO_SOCKETS not in wish.features:
        findings += add_sockets(edits, tree)
    edits.hooks = {
        "enable-cuda-compat": (f"--host-driver-version={version}",),
        "disable-device-node-modification": (),
        "update-application-profile": (),
    }
    return edits, findings


def _add_libraries(edits: Edits, tree: Tree, libraries: Libraries, version: str, directories: list[str]) -> None:
    for library in libraries.taken.values():
        edits.add_mount(tree, library.path)
        edits.add_folder(library.directory)
    for link, text in links(tree, libraries.taken.values(), version, directories).items():
        edits.add_link(link, text)
    if libraries.driver_directories:
        edits.env["NVIDIA_CTK_LIBCUDA_DIR"] = ":".join(libraries.driver_directories)
