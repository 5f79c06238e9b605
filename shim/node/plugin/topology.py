"""Where a unit is attached: its PCI device, the path to it through bridges, its NUMA node.

The inventory of shim.discover has the address of each device by its CDI names. Without one sysfs tells by the numbers
of a device node; drivers that register no class of devices, such as NVIDIA's, are not seen there.

Source: Documentation/ABI/testing/sysfs-dev and sysfs-bus-pci.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import CdiError
from shim.discover import inventory
from shim.node.plugin.presence import PCI

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.host.host import Host

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NUMBERED = re.compile(r"([bc]) (\d+:\d+)")
_DIRECTORIES = {"b": "block", "c": "char"}


@dataclass(frozen=True)
class Position:
    """Where a unit is attached.

    Attributes:
        address: of its PCI device, "" for none.
        path: the host bridge, the bridges and the device, from the root of the bus.
        numa: its NUMA node, -1 where unknown.
    """

    address: str = ""
    path: tuple[str, ...] = ()
    numa: int = -1


class Positions:
    """The positions of a host's devices.

    Arguments:
        host: the machine; its inventory is read once.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[str, tuple[str, int]] = {}
        try:
            known = inventory.read(host)
        except CdiError:  # it is only the second source, and the doctor reports it
            known = None
        for device in known.devices if known else ():
            self._known.update(dict.fromkeys(device.cdi_names, (device.pci_address.lower(), device.numa_node)))

    def of(self, name: str, hardware: Iterable[str]) -> Position:
        """The position of a unit.

        Arguments:
            name: its qualified name.
            hardware: as shim.grants.overlap has it.
        """
        address, numa = self._known.get(name, ("", -1))
        if not address:
            addresses = {found for item in hardware if (found := self._address(item))}
            address = addresses.pop() if len(addresses) == 1 else ""
        if not address:
            return Position(numa=numa)
        path = tuple(_parts(self._real(f"{PCI}/{address}"))) or (address,)
        text = self._host.text(f"{PCI}/{address}/numa_node")
        return Position(address, path, int(text) if text.lstrip("-").isdigit() else numa)

    def _address(self, item: str) -> str:
        """The PCI device of a node by its numbers, "c 226:0" for instance."""
        numbered = _NUMBERED.fullmatch(item)
        if not numbered:
            return ""
        parts = _parts(self._real(f"/sys/dev/{_DIRECTORIES[numbered[1]]}/{numbered[2]}"))
        return parts[-1] if parts else ""

    def _real(self, path: str) -> str:
        return os.path.realpath(self._host.real(path))


def _parts(path: str) -> list[str]:
    """The host bridge and the PCI devices on a path of /sys/devices, from the root of the bus."""
    return [part for part in path.split("/") if _ADDRESS.fullmatch(part) or part.startswith("pci")]
