"""Presence: whether everything that a unit needs is on the host now. Nothing is opened, and no hardware is woken.

Looked at are lstat(2) of device nodes, stat(2) of the sources of mounts, and links and cached attributes of sysfs and
procfs. Opening a device node, or reading a device's `config` in sysfs, would wake hardware that sleeps.

Source: Documentation/ABI/testing/sysfs-bus-pci and sysfs-driver-habanalabs; the procfs files of NVIDIA's driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shim.base.paths import clean
from shim.host.nodes import node_of

if TYPE_CHECKING:
    from shim.cdi.spec import Spec
    from shim.host.host import Host

PCI = "/sys/bus/pci/devices"
_NVIDIA = "/proc/driver/nvidia"
_NVIDIA_NODE = re.compile(r"/dev/nvidia\d+")
_REFRESH = "`shim cdi refresh` writes the spec anew"
_HABANA = "habanalabs"
_WORKS = "operational"


@dataclass(frozen=True)
class Node:
    """A device node that a spec demands: path, type c, b or p ("" for any), and numbers, None where left open."""

    path: str
    kind: str = ""
    numbers: tuple[int, int] | None = None


@dataclass(frozen=True)
class Needs:
    """What a unit needs.

    Attributes:
        nodes: device nodes, of its own and of its spec.
        mounts: paths that are mounted.
        address: of its PCI device, "" where it has none.
    """

    nodes: tuple[Node, ...] = ()
    mounts: tuple[str, ...] = ()
    address: str = ""


def needs(spec: Spec, device: str, address: str) -> Needs:
    """What a device of a spec needs.

    Arguments:
        spec: the spec.
        device: the name in it.
        address: of its PCI device, "" for none.
    """
    nodes: dict[Node, None] = {}
    mounts: dict[str, None] = {}
    for edits in (spec.devices[device], spec.edits):
        nodes.update(dict.fromkeys(map(_node, edits.get("deviceNodes") or ())))
        mounts.update(dict.fromkeys(clean(mount["hostPath"]) for mount in edits.get("mounts") or () if _is_bind(mount)))
    return Needs(tuple(nodes), tuple(mounts), address)


@dataclass
class Look:
    """The host at one moment: each path is looked at once, however many units need it."""

    host: Host
    _faults: dict[object, str] = field(default_factory=dict)

    def fault(self, needed: Needs) -> str:
        """Why a unit cannot be used, with the remedy where there is one; "" when nothing is missing."""
        for node in needed.nodes:
            if fault := self._once(node, self._node):
                return fault
        for path in needed.mounts:
            if fault := self._once(path, self._mount):
                return fault
        if not needed.address:
            return ""
        if any(_NVIDIA_NODE.fullmatch(node.path) for node in needed.nodes):
            return self._once(("nvidia", needed.address), lambda key: self._nvidia(key[1]))
        return self._once(("pci", needed.address), lambda key: self._pci(key[1]))

    def _once(self, key: Any, ask: Any) -> str:
        if key not in self._faults:
            self._faults[key] = ask(key)
        return self._faults[key]

    def _node(self, node: Node) -> str:
        try:
            kind, major, minor = node_of(self.host.look.lstat(node.path))[:3]
        except (OSError, ValueError):
            return f"{node.path} is missing"
        if not kind:
            return f"{node.path} is no device node"
        if node.kind and kind != node.kind:
            return f"{node.path} is of type {kind}, not {node.kind} as the spec has it ({_REFRESH})"
        if node.numbers and node.numbers != (major, minor):
            wanted = ":".join(map(str, node.numbers))
            return f"{node.path} is {major}:{minor}, not {wanted} as the spec has it ({_REFRESH})"
        return ""

    def _mount(self, path: str) -> str:
        try:
            self.host.look.stat(path)
        except (OSError, ValueError):
            return f"{path} is missing, which the spec mounts ({_REFRESH})"
        return ""

    def _pci(self, address: str) -> str:
        """The device is on its bus, a driver has it, and the driver does not report a failure."""
        if not self._leads(f"{PCI}/{address}"):
            return f"PCI device {address} is gone from the bus"
        driver = self.host.readlink(f"{PCI}/{address}/driver")
        if driver is None:
            return f"PCI device {address} has no driver"
        if driver.rpartition("/")[2] == _HABANA:
            status = self.host.text(f"{PCI}/{address}/status")
            if status and status.lower() != _WORKS:
                return f"the driver reports of PCI device {address}: {status}"
        return ""

    def _nvidia(self, address: str) -> str:
        """NVIDIA's driver lists the devices that it has initialized; without it /proc has no such directory."""
        if not self.host.exists(f"{_NVIDIA}/version"):
            return "NVIDIA's driver is not loaded"
        if fault := self._pci(address):
            return fault
        # The driver writes a domain of at least four digits, as sysfs does
        if not self.host.exists(f"{_NVIDIA}/gpus/{address}"):
            return f"NVIDIA's driver does not list PCI device {address}"
        return ""

    def _leads(self, path: str) -> bool:
        return self.host.status(path) is not None


def _node(node: dict[str, Any]) -> Node:
    kind = "c" if node.get("type") == "u" else node.get("type") or ""
    known = (node["major"], node.get("minor") or 0) if node.get("major") else None
    return Node(clean(node.get("hostPath") or node["path"]), kind, known)


def _is_bind(mount: dict[str, Any]) -> bool:
    """Whether the source is a path of the host, which must exist then (mount(8), bind)."""
    options = mount.get("options") or ()
    return mount.get("type", "") in {"", "none", "bind"} or "bind" in options or "rbind" in options
