"""Units: which device names of a kind are handed out, one for each piece of hardware.

A spec often names a card twice, by its index and its UUID, and names several at once, as `all` does. The kubelet counts
units, so two of them must never be the same hardware. Of names with common hardware (shim.grants.overlap) one is
chosen:

- `all` is a unit only where a kind has no other name;
- the name with the least hardware: a part rather than the whole;
- of names with the same hardware the one that stays the same when devices are counted anew: a UUID before an address
  of the bus, and that before any other; then the first in natural order.

The kubelet keeps the ids of running pods across restarts of itself and of the machine. A UUID then still means the same
card, an index may not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.paths import clean
from shim.grants import overlap
from shim.host.tree import natural
from shim.node.settings import ALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.cdi.directories import Directories
    from shim.host.look import Look
    from shim.node.settings import Resource, Settings

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_ADDRESS = re.compile(r"[0-9a-f]{4}[:-][0-9a-f]{2}[:-][0-9a-f]{2}[.-][0-7]", re.IGNORECASE)


@dataclass(frozen=True)
class Unit:
    """A device name that is handed out.

    Attributes:
        name: the qualified name, as the specs have it.
        device: the part behind the equals sign.
        hardware: of its own edits, as shim.grants.overlap has it.
    """

    name: str
    device: str
    hardware: frozenset[str]


class Sharing:
    """Finds names that have hardware in common with given hardware, without comparing each with each."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}
        self._hardware: dict[str, frozenset[str]] = {}

    def add(self, name: str, hardware: frozenset[str]) -> None:
        """Take in a name with its hardware."""
        self._hardware[name] = hardware
        for item in hardware:
            self._names.setdefault(item, []).append(name)

    def __contains__(self, name: str) -> bool:
        return name in self._hardware

    def of(self, hardware: Iterable[str]) -> list[str]:
        """The names that have hardware in common with this, other than the card of two partitions."""
        wanted = frozenset(hardware)
        near = dict.fromkeys(name for item in sorted(wanted) for name in self._names.get(item, ()))
        return [name for name in near if overlap.is_shared(wanted, self._hardware[name])]


def choose(
    resource: Resource, served: Directories, settings: Settings, taken: Sharing, look: Look
) -> tuple[list[Unit], dict[str, str]]:
    """The units of a resource, in natural order, and the other names of its kind, each with the reason.

    Arguments:
        resource: as configured.
        served: the devices of the specs.
        settings: of the node.
        taken: the units of the resources before; those of this one are added.
        look: its `stat` is used.
    """
    prefix = f"{resource.kind}="
    devices = [name.removeprefix(prefix) for name in served.devices() if name.startswith(prefix)]
    numbers = frozenset(overlap.numbers(path, look) for path in settings.control_nodes)
    left_out: dict[str, str] = {}
    candidates: list[tuple[frozenset[str], Unit]] = []
    for device in devices:
        objection = resource.objection(device)
        if not objection and device == ALL and len(devices) > 1:
            objection = "it stands for several devices"
        if not objection and prefix + device in taken:
            objection = "another resource has it"
        if objection:
            left_out[device] = objection
            continue
        hardware = overlap.of(prefix + device, served, look)
        own = _own(prefix + device, served, settings.control_nodes, look) - numbers
        candidates.append((own or hardware, Unit(prefix + device, device, hardware)))
    units = []
    for own, unit in sorted(candidates, key=lambda each: (len(each[0]), _preference(each[1].device))):
        others = taken.of(own)
        if others:
            same = f"it has hardware of {_listed(others)}"
            left_out[unit.device] = f"{same}; `except` in node.toml leaves the other name out"
        else:
            taken.add(unit.name, own)
            units.append(unit)
    return sorted(units, key=lambda unit: natural(unit.device)), left_out


def _own(name: str, served: Directories, control_nodes: frozenset[str], look: Look) -> frozenset[str]:
    """The hardware of a device, without control nodes and their numbers in the spec."""
    spec, device = served.get(name) or (None, "")
    edits = spec.devices[device] if spec else {}
    nodes = [
        node
        for node in edits.get("deviceNodes") or ()
        if clean(node.get("hostPath") or node["path"]) not in control_nodes
    ]
    return overlap.of_edits({**edits, "deviceNodes": nodes}, look) - control_nodes


def _preference(device: str) -> tuple[int, list[tuple[int, int, str]]]:
    rank = 0 if _UUID.search(device) else 1 if _ADDRESS.search(device) else 2
    return rank, natural(device)


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
