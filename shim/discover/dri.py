"""The links that udev makes below /dev/dri/by-path, of which programs know a card by its position in the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.discover import pci

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.discover.edits import Edits
    from shim.host.tree import Tree

_BY_PATH = "/dev/dri/by-path"


def add_links(edits: Edits, nodes: Tree, position: str, names: Iterable[str]) -> None:
    """Add links to the DRM nodes of a device, those that lead to them on the host.

    Arguments:
        edits: of the device.
        nodes: the tree with the device nodes.
        position: of the device as udev names it: pci-0000:03:00.0.
        names: of its nodes: card0, renderD128.
    """
    for name in names:
        link = f"{_BY_PATH}/{position}-{'render' if pci.is_render(name) else 'card'}"
        if nodes.readlink(link) and nodes.resolve(link) == nodes.resolve(f"/dev/dri/{name}"):
            edits.add_link(link, f"../{name}")
