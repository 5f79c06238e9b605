"""DRM: graphics cards by their nodes, whatever their vendor.

    drm/gpu  renderD128, 0000:03:00.0

One device has two names: that of its render node, by which programs know it until the next boot, and its PCI address,
which stays. A card that has neither is named by its card node.

The spec has every card of the host, so that --vendor drm gives all of them names of one kind. A host counts as having
something for this module when a card with a render node is served by no other module: a GPU of AMD that cannot compute,
one with the driver nouveau or radeon, the GPU of an ARM board, virtio-gpu. A card without a render node, as the
management controller of a server has it, can only drive a display.

Source: Linux, Documentation/gpu/drm-uapi.rst, "Render nodes"; 60-drm.rules of udev.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.discover import amd, dri, intel, pci
from shim.discover.edits import Edits
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.reports import add_nodes, is_writable
from shim.host.tree import Tree, natural

if TYPE_CHECKING:
    from shim.base.findings import Finding
    from shim.discover.model import Wish
    from shim.host.host import Host

KIND = "drm/gpu"

_CLASS = "/sys/class/drm"
_NVIDIA_DRIVER = "nvidia"


@dataclass(frozen=True)
class Card:
    """A device with DRM nodes.

    Attributes:
        path: its directory in /sys.
        drm: the names of its nodes, cards first.
        device: its PCI function, None for a device of a platform.
        driver: that it is bound to.
    """

    path: str
    drm: tuple[str, ...]
    device: pci.PciDevice | None
    driver: str

    @property
    def render(self) -> str:
        """The name of its render node, "" for none."""
        return next(filter(pci.is_render, self.drm), "")

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which it can be asked for."""
        every = (self.render, self.device.address if self.device else "")
        return tuple(filter(None, every)) or self.drm[:1]

    @property
    def position(self) -> str:
        """Its position in the machine, as udev names it."""
        return f"pci-{self.device.address}" if self.device else f"platform-{self.path.rpartition('/')[2]}"


def is_present(host: Host, wish: Wish) -> bool:  # noqa: ARG001 - all modules have the same functions
    """Whether a card with a render node is served by no other module."""
    return any(card.render for card in _unserved(Tree(host)))


def discover(host: Host, wish: Wish) -> Discovery:
    """The cards of a host; in the inventory those that no other module has. Nothing is refused."""
    tree = Tree(host)
    nodes = Tree(host, wish.dev_root or "/")
    ids = pci.PciIds(tree)
    own = {card.path for card in _unserved(tree)}
    drafts: list[DraftDevice] = []
    inventory: list[Device] = []
    findings: list[Finding] = []
    for card in cards(tree):
        edits = Edits()
        missing = add_nodes(edits, nodes, f"{KIND}={card.names[0]}", [f"/dev/dri/{name}" for name in card.drm])
        findings += missing
        is_written = is_writable(missing)
        if is_written:
            dri.add_paths(edits, nodes, card.position, card.drm)
            drafts.append(DraftDevice(card.names, edits, (*card.drm, card.render.removeprefix("renderD"))))
        if card.path in own:
            inventory.append(_entry(tree, ids, wish, card, edits if is_written else None))
    draft = Draft(KIND, devices=tuple(drafts))
    return Discovery("drm", (draft,) if drafts else (), tuple(inventory), tuple(findings))


def cards(tree: Tree) -> list[Card]:
    """The devices with DRM nodes of a machine, by their nodes.

    Arguments:
        tree: the machine's own root.
    """
    names = (name for name in tree.names(_CLASS) if pci.is_card(name) or pci.is_render(name))
    paths = (tree.resolve(f"{_CLASS}/{name}") for name in names)
    devices = {path.rpartition("/drm/")[0] for path in paths if path}  # .../0000:03:00.0/drm/card0
    every = []
    for path in devices:
        name = path.rpartition("/")[2]
        device = pci.PciDevice(tree, name) if pci.is_address(name) else None
        driver = (tree.readlink(f"{path}/driver") or "").rpartition("/")[2]
        if drm := pci.drm_names(tree, path):
            every.append(Card(path, drm, device, driver))
    return sorted(every, key=lambda card: natural(card.drm[-1]))


def _unserved(tree: Tree) -> list[Card]:
    """The cards that no vendor's module serves."""
    of_amd = {name for partition in amd.partitions(tree) for name in partition.drm}
    return [card for card in cards(tree) if not of_amd & set(card.drm) and not _is_of_a_vendor(card)]


def _is_of_a_vendor(card: Card) -> bool:
    """Whether the module of Intel or NVIDIA serves a card."""
    if card.device is None:
        return False
    return card.driver == _NVIDIA_DRIVER or (intel.is_gpu(card.device) and card.driver in intel.GPU_DRIVERS)


def _entry(tree: Tree, ids: pci.PciIds, wish: Wish, card: Card, edits: Edits | None) -> Device:
    """The entry of the inventory."""
    return Device(
        card.names[0],
        "drm",
        model=ids.model(card.device) if card.device else "",
        driver_version=pci.driver_version(tree, card.driver),
        memory=max(pci.number(tree.text(f"{card.path}/mem_info_vram_total")), 0),
        pci_address=card.device.address if card.device else "",
        numa_node=card.device.numa_node if card.device else -1,
        cdi_names=tuple(f"{wish.kind_of(KIND)}={name}" for name in card.names) if edits else (),
        nodes=tuple(node.host_path for node in edits.nodes.values()) if edits else (),
    )
