"""Whether two device names stand for the same hardware. HOT where grants are enforced.

The same card often has several names: an index, a UUID, and a share of `all`. What counts is the hardware of the edits
that belong to the device itself; those of its spec are common to all devices (a driver's control node, for example).
Hardware is device nodes, bind-mounted nodes and network interfaces. A node counts by its path on the host and, where
it exists, by its type and numbers as well: links to one node, or two paths with the same numbers, are one device.

Partitions of a card (MIG) share the node of their card, and each has nodes of its own below /dev/nvidia-caps. So two
names do not overlap where each has such a node that the other lacks.

Source: NVIDIA's documentation of MIG, device nodes ("nvidia-capabilities").
"""

from __future__ import annotations

import posix

from shim.base.paths import clean
from shim.host.nodes import node_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.cdi.types import Named
    from shim.host.look import Look

PARTITIONS = "/dev/nvidia-caps/"

_NUMBERED = ("b", "c")


def of(name: str, devices: Named, look: Look = posix) -> frozenset[str]:
    """The hardware of a device, as texts that can be compared; empty where no spec serves the name.

    Arguments:
        name: a qualified name.
        devices: what specs serve.
        look: its `stat` is used; module posix by default.
    """
    served = devices.get(name)
    return of_edits(served[0].devices[served[1]], look) if served else frozenset()


def of_edits(edits: dict[str, Any], look: Look = posix) -> frozenset[str]:
    """The hardware of container edits.

    Arguments:
        edits: of a device, as its spec has them.
        look: as of `of`.
    """
    hardware: set[str] = set()
    for node in edits.get("deviceNodes") or ():
        path = clean(node.get("hostPath") or node["path"])
        hardware.add(path)
        there = numbers(path, look)
        if there:
            hardware.add(there)
        elif node.get("type") in (*_NUMBERED, "u") and node.get("major"):
            kind = "b" if node["type"] == "b" else "c"
            hardware.add(f"{kind} {node['major']}:{node.get('minor') or 0}")
    for mount in edits.get("mounts") or ():
        path = clean(mount["hostPath"])
        there = numbers(path, look)
        if there:
            hardware |= {path, there}
    for interface in edits.get("netDevices") or ():
        hardware.add(f"interface {interface['hostInterfaceName']}")
    return frozenset(hardware)


def numbers(path: str, look: Look = posix) -> str:
    """Type and numbers of the node at a path, links followed, such as "c 195:0"; "" for whatever is no such node."""
    try:
        kind, major, minor, *_ = node_of(look.stat(path))
    except (OSError, ValueError):
        return ""
    return f"{kind} {major}:{minor}" if kind in _NUMBERED else ""


def is_shared(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two devices have hardware in common, other than the card of two partitions.

    Arguments:
        one, other: their hardware.
    """
    if not one & other:
        return False
    partitions, others = _partitions(one), _partitions(other)
    return not (partitions - others and others - partitions)


def _partitions(hardware: frozenset[str]) -> set[str]:
    return {item for item in hardware if item.startswith(PARTITIONS)}
