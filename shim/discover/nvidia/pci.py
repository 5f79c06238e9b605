"""PCI addresses: as NVML writes them and as the kernel does, and what sysfs has about a GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shim.discover import pci
from shim.host.tree import Tree, natural

if TYPE_CHECKING:
    from shim.host.host import Host

_ADDRESS = re.compile(r"([0-9a-f]+):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
DEVICES = "/sys/bus/pci/devices"


def normal(address: str) -> str:
    """An address as sysfs has it: NVML's domain has eight digits, the kernel's at least four; "" for none."""
    match = _ADDRESS.fullmatch(address.strip())
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower() if match else ""


def numa_node(host: Host, address: str) -> int:
    """The NUMA node of a device; -1 when unknown."""
    return pci.PciDevice(Tree(host), address).numa_node if address else -1


def drm_names(host: Host, address: str) -> list[str]:
    """The names of a device's nodes in /dev/dri, those of older kernels too: card1, controlD64, renderD129."""
    return sorted(Tree(host).names(f"{DEVICES}/{address}/drm"), key=natural) if address else []


def gpus(host: Host) -> list[pci.PciDevice]:
    """NVIDIA's display controllers, by address; not those that VFIO holds for a virtual machine.

    Old chips for mainboards have the same vendor, and no GPU.
    """
    every = (device for device in pci.devices(Tree(host)) if device.vendor == pci.NVIDIA and device.is_display)
    return [device for device in every if device.driver not in pci.VFIO_DRIVERS]
