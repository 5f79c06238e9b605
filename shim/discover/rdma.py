"""RDMA: host channel adapters, such as InfiniBand and RoCE cards.

    rdma/hca  mlx5_0, 0000:3b:00.0

An adapter has the verbs node (uverbs) by which programs use it, and where the kernel module ib_umad is loaded the nodes
for management datagrams (umad) and subnet managers (issm) of its ports. /dev/infiniband/rdma_cm makes connections for
all adapters. A device has the adapter's name and, where the adapter is alone on its PCI function, the address of that.

With --network its network interface moves into the container, too, under its name: the host and other containers do not
have it while the container runs.

Source: Linux, Documentation/infiniband/user_verbs.rst and user_mad.rst, ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover import pci
from shim.discover.edits import Edits
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.reports import add_nodes, is_writable, left_out
from shim.host.tree import Tree, natural

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.host import Host

KIND = "rdma/hca"

_ADAPTERS = "/sys/class/infiniband"
_VERBS = "infiniband_verbs"
_MANAGEMENT = "infiniband_mad"
_NODES = "/dev/infiniband"
_CONNECTIONS = f"{_NODES}/rdma_cm"
# phys_port_name of what stands for a port of a virtual function on the host's side of a switch
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+[vs]f\d+")


@dataclass(frozen=True)
class Adapter:
    """A host channel adapter.

    Attributes:
        name: such as mlx5_0.
        path: the directory of its device in /sys, "" for one that is software.
        device: its PCI function, None for none.
    """

    name: str
    path: str
    device: pci.PciDevice | None


def is_present(host: Host, wish: Wish) -> bool:  # noqa: ARG001 - all modules have the same functions
    """Whether the kernel has an RDMA adapter."""
    return bool(_adapters(Tree(host)))


def discover(host: Host, wish: Wish) -> Discovery:
    """The RDMA adapters of a host. Nothing is refused."""
    tree = Tree(host)
    nodes = Tree(host, wish.dev_root or "/")
    ids = pci.PciIds(tree)
    adapters = _adapters(tree)
    shared = Counter(adapter.device.address for adapter in adapters if adapter.device)
    common = Edits()
    drafts: list[DraftDevice] = []
    inventory: list[Device] = []
    findings: list[Finding] = []
    for adapter in adapters:
        edits = Edits()
        missing = _add(edits, tree, nodes, adapter, wish)
        findings += missing
        address = adapter.device.address if adapter.device else ""
        names = (adapter.name, address) if shared[address] == 1 else (adapter.name,)
        is_written = is_writable(missing)
        if is_written:
            drafts.append(DraftDevice(names, edits))
        inventory.append(_entry(tree, ids, wish, adapter, names if is_written else (), edits))
    if drafts and not common.add_node(nodes, _CONNECTIONS):
        text = "the device node is missing: programs cannot connect by the RDMA connection manager"
        remedy = "`modprobe rdma_ucm`, then generate again"
        findings.append(Finding("DISCOVERY_PART", text, remedy, path=nodes.host_path(_CONNECTIONS)))
    draft = Draft(KIND, common, tuple(drafts))
    return Discovery("rdma", (draft,) if drafts else (), tuple(inventory), tuple(findings))


def class_names(tree: Tree, klass: str, adapter: str) -> list[str]:
    """The names of an adapter's nodes in a class of /sys, such as infiniband_verbs."""
    names = tree.names(f"/sys/class/{klass}")
    return [name for name in names if tree.text(f"/sys/class/{klass}/{name}/ibdev") == adapter]


def _adapters(tree: Tree) -> list[Adapter]:
    """The adapters, by PCI address, but for the network ports of Gaudi cards, which belong to these."""
    adapters = []
    for name in tree.names(_ADAPTERS):
        path = tree.resolve(f"{_ADAPTERS}/{name}/device") or ""
        # that of a subfunction is an auxiliary device below the PCI function
        address = path.rpartition("/")[2]
        device = pci.PciDevice(tree, address) if pci.is_address(address) else None
        if device is None or device.vendor != pci.HABANA:
            adapters.append(Adapter(name, path, device))
    return sorted(
        adapters,
        key=lambda adapter: (
            pci.address_key(adapter.device.address) if adapter.device else [1 << 32],
            natural(adapter.name),
        ),
    )


def _add(edits: Edits, tree: Tree, nodes: Tree, adapter: Adapter, wish: Wish) -> list[Finding]:
    """Add what an adapter has to its edits."""
    verbs = class_names(tree, _VERBS, adapter.name)
    name = f"{KIND}={adapter.name}"
    if not verbs:
        cause = "the kernel has no verbs node for it (module ib_uverbs)"
        return [left_out(name, cause, f"{_ADAPTERS}/{adapter.name}")]
    required, optional = (
        [f"{_NODES}/{node}" for node in every] for every in (verbs, class_names(tree, _MANAGEMENT, adapter.name))
    )
    findings = add_nodes(edits, nodes, name, required, optional)
    if wish.has_network:
        interfaces = _interfaces(tree, adapter)
        edits.net_devices.update({interface: interface for interface in interfaces})
        if not interfaces:
            findings.append(
                Finding("DISCOVERY_PART", f"{name} is written without a network interface: it has none here")
            )
    return findings


def _interfaces(tree: Tree, adapter: Adapter) -> list[str]:
    """The network interfaces of an adapter, without those that stand for virtual functions."""
    names = tree.names(f"{adapter.path}/net") if adapter.path else []
    ports = {name: tree.text(f"{adapter.path}/net/{name}/phys_port_name") for name in names}
    return [name for name, port in ports.items() if not _REPRESENTOR.fullmatch(port)]


def _entry(tree: Tree, ids: pci.PciIds, wish: Wish, adapter: Adapter, names: tuple[str, ...], edits: Edits) -> Device:
    """The entry of the inventory."""
    device = adapter.device
    return Device(
        adapter.name,
        "rdma",
        model=(ids.model(device) if device else "") or tree.text(f"{_ADAPTERS}/{adapter.name}/hca_type"),
        driver_version=pci.driver_version(tree, device.driver) if device else "",
        pci_address=device.address if device else "",
        numa_node=device.numa_node if device else -1,
        uuid=tree.text(f"{_ADAPTERS}/{adapter.name}/node_guid"),
        cdi_names=tuple(f"{wish.kind_of(KIND)}={name}" for name in names),
        nodes=tuple(node.host_path for node in edits.nodes.values()) if names else (),
    )
