"""The inventory: what devices a host has, as a file that any user may read.

It is written whenever devices are discovered by root, also empty: a host without devices is known to have none, which
is more than nothing known. Reading it starts no driver and needs no rights, so that lists, labels and checks are quick.

/var/lib/shim/inventory.json     (rootless: shim in $XDG_STATE_HOME)
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from shim.base import files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.discover import state
from shim.discover.model import Device
from shim.host.tree import natural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from shim.discover.model import Discovery
    from shim.host.host import Host

_FORMAT = 1
_MODE = 0o644

# member of Device -> member of the file
MEMBERS = {
    "name": "name",
    "vendor": "vendor",
    "model": "model",
    "driver_version": "driverVersion",
    "memory": "memoryBytes",
    "pci_address": "pciAddress",
    "numa_node": "numaNode",
    "platform": "platform",
    "uuid": "uuid",
    "cdi_names": "cdiNames",
    "nodes": "deviceNodes",
}


@dataclass(frozen=True)
class Inventory:
    """The devices of a host.

    Attributes:
        devices: by vendor and name, numbers sorted as numbers.
        time: when they were discovered, in seconds since 1970.
    """

    devices: tuple[Device, ...] = ()
    time: float = 0.0


def path() -> str:
    """The file of this user."""
    return state.directory("inventory.json")


def of(discoveries: Iterable[Discovery], now: float | None = None) -> Inventory:
    """The inventory that discoveries make.

    Arguments:
        discoveries: of all vendors that were asked.
        now: seconds since 1970; the clock's when not given.
    """
    devices = (device for discovery in discoveries for device in discovery.devices)
    return Inventory(_sorted(devices), time.time() if now is None else now)


def update(host: Host, asked: Collection[str], discoveries: Iterable[Discovery]) -> list[Finding]:
    """Write what was discovered, and keep what is known of vendors that were not asked, or whose driver is not ready.

    What is known is kept, too, where specs were discovered and no devices: those of NVIDIA's mode gds, for instance.

    Arguments:
        host: the machine.
        asked: names of the vendors that were asked.
        discoveries: of those of them that are present.
    Returns:
        DISCOVERY_STATE as a warning where it cannot be written: specs do not depend on it.
    """
    listed = list(discoveries)
    waiting = {
        discovery.vendor for discovery in listed if discovery.waits_for or (discovery.drafts and not discovery.devices)
    }
    try:
        known = read(host)
    except CdiError:  # a damaged one is written anew
        known = None
    kept = [
        device for device in (known or Inventory()).devices if device.vendor not in asked or device.vendor in waiting
    ]
    fresh = [device for discovery in listed for device in discovery.devices if discovery.vendor not in waiting]
    try:
        write(host, Inventory(_sorted([*kept, *fresh]), time.time()))
    except CdiError as error:
        return [finding.as_warning() for finding in error.findings]
    return []


def _sorted(devices: Iterable[Device]) -> tuple[Device, ...]:
    return tuple(sorted(devices, key=lambda device: (device.vendor, natural(device.name))))


def read(host: Host) -> Inventory | None:
    """The inventory that was written last, None when there is none.

    Raises CdiError: DISCOVERY_STATE where the file is damaged, or others could have written it.
    """
    if not host.exists(path()):
        return None
    objection = host.objection(path())
    if objection:
        text = f"it does not count: {objection}"
        raise CdiError([Finding("DISCOVERY_STATE", text, "write it again: `shim device setup`", path=path())])
    return state.load(host, path(), _from_json)


def write(host: Host, inventory: Inventory) -> None:
    """Write the inventory, readable by everybody. Raises CdiError: DISCOVERY_STATE."""
    document = to_json(inventory)
    try:
        real = host.real(path())
        state.make_directory(real.parent)
        data = json.dumps(document, indent=1).encode() + b"\n"
        files.write(real, data, mode=_MODE, keep=False, follow=False)
    except (OSError, ValueError) as error:
        text = f"it cannot be written: {reason(error)}"
        raise CdiError([Finding("DISCOVERY_STATE", text, remedies.to_write(error), path=path())]) from None


def to_json(inventory: Inventory) -> dict[str, Any]:
    """The inventory as the file has it: format, time, and devices with the members of MEMBERS."""
    return {
        "format": _FORMAT,
        "time": inventory.time,
        "devices": [device_to_json(device) for device in inventory.devices],
    }


def device_to_json(device: Device) -> dict[str, Any]:
    """A device with the members of MEMBERS."""
    values = asdict(device)
    return {MEMBERS[name]: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _from_json(document: dict[str, Any]) -> Inventory:
    if document["format"] != _FORMAT:
        raise ValueError("another version of shim wrote it")
    devices = []
    for entry in document["devices"]:
        values = {field.name: entry[MEMBERS[field.name]] for field in fields(Device)}
        values["cdi_names"], values["nodes"] = tuple(values["cdi_names"]), tuple(values["nodes"])
        devices.append(Device(**values))
    return Inventory(tuple(devices), float(document["time"]))
