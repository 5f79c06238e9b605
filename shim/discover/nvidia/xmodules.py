"""The driver's modules of the X server. They lie in directories of X, so the loader is not to find them."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from shim.discover.nvidia.libraries import Libraries

if TYPE_CHECKING:
    from shim.discover.edits import Edits
    from shim.discover.nvidia.search import Search

_ABOVE = ("/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib")
_DIRECTORIES = (
    "nvidia/xorg",
    "xorg/modules",
    "xorg/modules/drivers",
    "xorg/modules/extensions",
    "xorg/modules/extensions/nvidia",
)
_DRIVER, _GLX = "nvidia_drv.so", "libglxserver_nvidia.so"


def add_x_modules(edits: Edits, search: Search, version: str, directories: list[str]) -> None:
    """Add the modules that are there, under the names by which the X server opens them.

    Arguments:
        edits: get mounts and links.
        search: reads libraries.
        version: of the driver.
        directories: of libraries, which may have directories of X.
    """
    tree = search.tree
    libraries = Libraries(search, version)
    above = dict.fromkeys([*directories, *_ABOVE])
    paths = (tree.resolve(f"{directory}/{name}") for directory in above for name in _DIRECTORIES)
    for directory in dict.fromkeys(path for path in paths if path is not None and tree.is_directory(path)):
        if libraries.take(directory, _DRIVER):
            edits.add_mount(tree, f"{directory}/{_DRIVER}")
        module = libraries.take(directory, f"{_GLX}.{version}")
        # Debian has only a link here, through /etc/alternatives
        link = f"{directory}/{_GLX}"
        target = tree.resolve(link) if tree.readlink(link) is not None else None
        if module is None and target is not None and posixpath.basename(target) == f"{_GLX}.{version}":
            module = libraries.take(*posixpath.split(target))
        if module is not None:
            edits.add_mount(tree, module.path)
            if tree.readlink(link) is not None:
                edits.add_link(link, posixpath.relpath(module.path, directory))
