"""Habana: accelerators of the family Intel Gaudi.

    intel.com/gaudi  accel0   or 0000-19-00-0-0x1020, with --device-name-strategy uuid

A card has the node of its accelerator, a control node by which it can be watched while it computes, and, where its
network ports serve RDMA, the verbs node of its InfiniBand device hlib_N. Names and kind are those of Intel's generator.

Source: Linux, drivers/accel/habanalabs; intel/intel-resource-drivers-for-kubernetes, pkg/gaudi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover import pci
from shim.discover.edits import Edits
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.rdma import class_names
from shim.discover.reports import add_nodes, is_writable, left_out
from shim.host.tree import Tree, natural

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.host import Host

KIND = "intel.com/gaudi"
DRIVER = "habanalabs"

_ACCEL = "/sys/class/accel"
_GAUDI = {
    **dict.fromkeys((0x1000, 0x1001, 0x1010, 0x1011), "Gaudi"),
    0x1020: "Gaudi2",
    **dict.fromkeys((0x1030, *range(0x1060, 0x1064)), "Gaudi3"),
}


def is_present(host: Host, wish: Wish) -> bool:  # noqa: ARG001 - all modules have the same functions
    """Whether the driver habanalabs is loaded."""
    return Tree(host).is_directory(f"/sys/module/{DRIVER}") or any(map(_is_ours, pci.devices(Tree(host))))


def discover(host: Host, wish: Wish) -> Discovery:
    """The Gaudi cards of a host. Nothing is refused."""
    tree = Tree(host)
    nodes = Tree(host, wish.dev_root or "/")
    drafts: list[DraftDevice] = []
    inventory: list[Device] = []
    findings: list[Finding] = []
    bus = [device for device in pci.devices(tree) if device.vendor == pci.HABANA or _is_ours(device)]
    for card in bus:
        edits = Edits()
        accel = _accel(tree, card)
        names = wish.names_by({"index": accel or card.dashed, "uuid": card.dashed})
        if _is_ours(card):
            findings += _add(edits, tree, nodes, card, accel, f"{KIND}={names[0]}")
        is_written = bool(edits)
        if is_written:
            drafts.append(DraftDevice(names, edits, (accel, card.address, card.dashed)))
        inventory.append(
            Device(
                accel or card.dashed,
                "habana",
                model=_GAUDI.get(card.device, ""),
                driver_version=pci.driver_version(tree, card.driver),
                pci_address=card.address,
                numa_node=card.numa_node,
                cdi_names=tuple(f"{wish.kind_of(KIND)}={name}" for name in names) if is_written else (),
                nodes=tuple(node.host_path for node in edits.nodes.values()),
            )
        )
    draft = Draft(KIND, devices=tuple(sorted(drafts, key=lambda device: natural(device.names[0]))))
    waiting = [card.address for card in bus if not card.driver]
    if waiting:
        text = f"the driver {DRIVER} is not loaded, and {', '.join(waiting)} wait for it"
        findings.append(Finding("DISCOVERY_INCOMPLETE", text, f"`modprobe {DRIVER}`, then generate again"))
    waits_for = f"the driver {DRIVER}" if waiting else ""
    return Discovery("habana", (draft,) if drafts else (), tuple(inventory), tuple(findings), waits_for)


def _add(edits: Edits, tree: Tree, nodes: Tree, card: pci.PciDevice, accel: str, name: str) -> list[Finding]:
    """Add the nodes of a card to edits, which stay empty when it cannot be written."""
    if not accel:
        return [left_out(name, f"the driver {DRIVER} has made no accelerator of it", card.path)]
    control = f"/dev/accel/accel_controlD{accel.removeprefix('accel')}"
    optional = [control, *(f"/dev/infiniband/{verbs}" for verbs in _verbs(tree, card, accel))]
    own = Edits()
    missing = add_nodes(own, nodes, name, [f"/dev/accel/{accel}"], optional)
    if is_writable(missing):
        edits.add(own)
    return missing


def _accel(tree: Tree, card: pci.PciDevice) -> str:
    """The name of a card's accelerator, accelN; "" for none. Older drivers show it in the class directory only."""
    below = [name for name in card.names("accel") if _is_accel(name)]
    others = (name for name in tree.names(_ACCEL) if _is_accel(name))
    return next(iter(below), "") or next(
        (name for name in others if tree.resolve(f"{_ACCEL}/{name}/device") == card.path), ""
    )


def _verbs(tree: Tree, card: pci.PciDevice, accel: str) -> list[str]:
    """The name of the card's verbs node, uverbsN: below the card, else that of the InfiniBand device hlib_N."""
    below = card.names("infiniband_verbs")
    if not below:
        below = class_names(tree, "infiniband_verbs", f"hlib_{accel.removeprefix('accel')}")
    return below if len(below) == 1 else []


def _is_accel(name: str) -> bool:
    return name.startswith("accel") and name.removeprefix("accel").isdecimal()


def _is_ours(device: pci.PciDevice) -> bool:
    return device.driver == DRIVER
