"""The firmware of GSP, the processor on a GPU that runs much of the driver.

Kernels before 5.10 open it by the root of the process that opens the device first, which may be a container's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shim.discover.nvidia.search import below_root
from shim.host.tree import Tree

if TYPE_CHECKING:
    from shim.discover.edits import Edits

_CUSTOM_PATH = "/sys/module/firmware_class/parameters/path"
_RELEASE = "/proc/sys/kernel/osrelease"
_STANDARD = "/lib/firmware"


def add_firmware(edits: Edits, tree: Tree, version: str) -> None:
    """Add the firmware's files, each from the directory from which the kernel takes it.

    Arguments:
        edits: get the mounts.
        tree: the driver's files.
        version: of the driver.
    Source: Documentation/driver-api/firmware/fw_search_path.rst of Linux.
    """
    below = f"nvidia/{version}"
    taken: set[str] = set()
    for source, directory, inside in _directories(tree):
        for name in source.names(f"{directory}/{below}"):
            path = f"{directory}/{below}/{name}"
            if name.startswith("gsp") and name.endswith(".bin") and name not in taken and source.is_file(path):
                taken.add(name)
                edits.add_mount(source, path, f"{inside}/{below}/{name}")


def _directories(tree: Tree) -> list[tuple[Tree, str, str]]:
    """The directories in the kernel's order: tree, path in it, path in the container."""
    machine = Tree(tree.host)
    release = machine.text(_RELEASE) or os.uname().release
    names = (f"{_STANDARD}/updates/{release}", f"{_STANDARD}/updates", f"{_STANDARD}/{release}", _STANDARD)
    standard = [(tree, name, name) for name in names]
    custom = machine.text(_CUSTOM_PATH)
    if not custom.startswith("/"):
        return standard
    # a path of the machine, on which the kernel opens it; the container has it below the driver's root, too
    below = below_root(tree, custom)
    if tree.root == "/" or below != custom:
        return [(tree, below, below), *standard]
    return [(machine, custom, _STANDARD), *standard]
