"""GPUs that VFIO holds for virtual machines: what sysfs has about them, since no driver of NVIDIA answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.discover import pci
from shim.discover.nvidia.facts import Facts, GpuFacts
from shim.host.tree import Tree

if TYPE_CHECKING:
    from shim.host.host import Host


def take(host: Host) -> Facts:
    """The GPUs of NVIDIA that are bound to a driver of VFIO, by address; the model is that of the PCI ids."""
    tree = Tree(host)
    ids = pci.PciIds(tree)
    held = [
        device
        for device in pci.devices(tree)
        if device.vendor == pci.NVIDIA and device.is_display and device.driver in pci.VFIO_DRIVERS
    ]
    gpus = (
        GpuFacts(index, ids.model(device) or f"{device.device:04x}", device.address)
        for index, device in enumerate(held)
    )
    return Facts("vfio", gpus=tuple(gpus))
