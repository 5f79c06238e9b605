"""PCI devices of a host, as /sys/bus/pci shows them, and their names in the list of PCI ids.

A device reads each attribute when it is asked for first: a server has hundreds of PCI devices, of which a module needs
the vendor of all and the rest of a few.

Source: Linux, Documentation/ABI/testing/sysfs-bus-pci; pci.ids(5).
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from shim.host.tree import natural

if TYPE_CHECKING:
    from shim.host.tree import Tree

AMD, INTEL, NVIDIA, HABANA = 0x1002, 0x8086, 0x10DE, 0x1DA3  # vendors
VFIO_DRIVERS = frozenset({"vfio-pci", "xe-vfio-pci"})  # they hold a device for a virtual machine

_DEVICES = "/sys/bus/pci/devices"
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
_CARD = re.compile(r"card\d+")
_RENDER = re.compile(r"renderD\d+")
_IDS = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids")
_DISPLAY = 3  # base class of display controllers


class PciDevice:
    """A PCI function.

    Arguments:
        tree: the machine's own root.
        address: such as 0000:3b:00.0.
    Attributes:
        address: the same.
        path: its directory in /sys, without links.
    """

    def __init__(self, tree: Tree, address: str) -> None:
        self._tree = tree
        self.address = address
        self.path = tree.resolve(f"{_DEVICES}/{address}") or f"{_DEVICES}/{address}"

    @cached_property
    def vendor(self) -> int:
        """The id of its maker, -1 when unknown."""
        return number(self.text("vendor"))

    @cached_property
    def device(self) -> int:
        """The maker's id of the model, -1 when unknown."""
        return number(self.text("device"))

    @cached_property
    def klass(self) -> int:
        """Base class and subclass, 0x0300 for a VGA controller; -1 when unknown."""
        return number(self.text("class")) >> 8

    @property
    def is_display(self) -> bool:
        """Whether it is a display controller."""
        return self.klass >> 8 == _DISPLAY

    @cached_property
    def driver(self) -> str:
        """The driver that it is bound to, "" for none."""
        return self._last_of_link("driver")

    @cached_property
    def iommu_group(self) -> str:
        """The number of its IOMMU group, "" for none."""
        return self._last_of_link("iommu_group")

    @cached_property
    def numa_node(self) -> int:
        """The NUMA node that it is near to, -1 when unknown."""
        return number(self.text("numa_node"))

    @cached_property
    def drm(self) -> tuple[str, ...]:
        """Its DRM nodes by name, cards first: card1, renderD128."""
        return drm_names(self._tree, self.path)

    @property
    def dashed(self) -> str:
        """Address and model as Intel's programs name a device: 0000-03-00-0-0x56a0."""
        return f"{self.address.replace(':', '-').replace('.', '-')}-0x{self.device:04x}"

    def text(self, attribute: str) -> str:
        """The text of an attribute, "" when it is missing."""
        return self._tree.text(f"{self.path}/{attribute}")

    def names(self, directory: str) -> list[str]:
        """The names in a directory below that of the device; none when it is missing."""
        return self._tree.names(f"{self.path}/{directory}")

    def _last_of_link(self, name: str) -> str:
        return (self._tree.readlink(f"{self.path}/{name}") or "").rpartition("/")[2]


def devices(tree: Tree) -> list[PciDevice]:
    """The PCI devices of a machine, by address."""
    return [PciDevice(tree, address) for address in addresses(tree, _DEVICES)]


def addresses(tree: Tree, directory: str) -> list[str]:
    """The names in a directory that are PCI addresses, in the order of the bus: the numbers are hexadecimal."""
    return sorted((name for name in tree.names(directory) if is_address(name)), key=address_key)


def is_address(name: str) -> bool:
    """Whether a name is a PCI address, with a domain of four digits or more."""
    return _ADDRESS.fullmatch(name) is not None


def address_key(address: str) -> list[int]:
    """A key that sorts PCI addresses as numbers."""
    return [int(part, 16) for part in re.split("[:.]", address)]


def address_of(domain: int, location: int) -> str:
    """The address of a device by its domain and its number there: bus << 8 | device << 3 | function."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def drm_names(tree: Tree, path: str) -> tuple[str, ...]:
    """The names of the DRM nodes of a device, by its directory in /sys; cards first, connectors left out."""
    names = [name for name in tree.names(f"{path}/drm") if is_card(name) or is_render(name)]
    return tuple(sorted(names, key=lambda name: (is_render(name), natural(name))))


def is_card(name: str) -> bool:
    """Whether the name of a DRM node is that of a card; that of a connector, card0-DP-1, is not."""
    return _CARD.fullmatch(name) is not None


def is_render(name: str) -> bool:
    """Whether the name of a DRM node is that of a render node."""
    return _RENDER.fullmatch(name) is not None


def number(text: str) -> int:
    """A number of /sys, -1 for what is none: hexadecimal behind 0x, octal behind another 0, as in C."""
    digits = text.lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    try:
        return int(digits, base)
    except ValueError:
        return -1


def driver_version(tree: Tree, module: str) -> str:
    """The version of a kernel module; "" for those of the kernel's own source, which have none."""
    return tree.text(f"/sys/module/{module}/version") if module else ""


class PciIds:
    """Names of models, from the list of PCI ids that distributions install. It is read when it is asked first.

    Arguments:
        tree: the machine's own root.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._models: dict[int, dict[int, str]] = {}  # vendor -> device -> name

    def model(self, device: PciDevice) -> str:
        """The name of a device's model, "" when the list is missing or does not have it."""
        if device.vendor not in self._models:
            self._models[device.vendor] = _models(self._text, device.vendor)
        return self._models[device.vendor].get(device.device, "")

    @cached_property
    def _text(self) -> str:
        data = next((data for path in _IDS if (data := self._tree.read(path))), b"")
        return "\n" + data.decode("utf-8", "replace")


def _models(text: str, vendor: int) -> dict[int, str]:
    """The models of a vendor: lines `TAB device  name` behind the line `vendor  name`."""
    section = text.partition(f"\n{vendor:04x}  ")[2]
    models: dict[int, str] = {}
    for line in section.splitlines()[1:]:
        if line[:1] not in {"\t", "#", ""}:
            break
        if line[:1] == "\t" and line[1:2] != "\t":
            device, _, name = line[1:].partition("  ")
            models[number(f"0x{device}")] = name.strip()
    return models
