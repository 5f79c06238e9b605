"""The second paths of DRM nodes: udev links them below /dev/dri/by-path, where programs know a card by its position.

In a container such a path is a bind mount of the node, as Intel's generator has it. A link would need a hook, and hooks
write nothing into other mounts than the root's, so never into the container's /dev.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.discover import pci

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.discover.edits import Edits
    from shim.host.tree import Tree

_BY_PATH = "/dev/dri/by-path"
_OPTIONS = ("bind", "rw", "nosuid", "noexec")


def add_paths(edits: Edits, nodes: Tree, position: str, names: Iterable[str]) -> None:
    """Add the paths by position of the DRM nodes of a device, those whose links lead to them on the host.

    Arguments:
        edits: of the device.
        nodes: the tree with the device nodes.
        position: of the device as udev names it: pci-0000:03:00.0.
        names: of its nodes: card0, renderD128.
    """
    for name in names:
        link = f"{_BY_PATH}/{position}-{'render' if pci.is_render(name) else 'card'}"
        if nodes.readlink(link) and nodes.resolve(link) == nodes.resolve(f"/dev/dri/{name}"):
            edits.add_mount(nodes, link, options=_OPTIONS)
