"""Which of the free ids are preferred: a pure function of ids and positions.

Whole units: those that are nearest to each other, so that one NUMA node and one PCI switch have them all, and of
equally near ones those that leave the fewest others in that part of the tree, so that large requests still fit later.

Replicas: different units first. "spread" takes the units that have the most free replicas, so that few containers share
each; "packed" those with the fewest, so that whole units stay free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.host.tree import natural
from shim.node.settings import PACKED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shim.node.plugin.topology import Position


def whole(available: Sequence[str], must: Sequence[str], size: int, positions: Mapping[str, Position]) -> list[str]:
    """The preferred ids of whole units.

    Arguments:
        available: the free ids.
        must: those of them that are part of the answer.
        size: how many are wanted.
        positions: id -> where its unit is attached.
    """
    if must:
        return _nearest_to(must, available, size, positions)
    paths = {id: _path(positions[id]) for id in available}
    ordered = sorted(available, key=lambda each: (paths[each], natural(each)))
    if not 0 < size <= len(ordered):
        return ordered[: max(size, 0)]
    # In this order the ids of each subtree stand side by side, so the nearest are a run of neighbours
    sizes: dict[tuple[str, ...], int] = {}
    for path in paths.values():
        for depth in range(len(path) + 1):
            sizes[path[:depth]] = sizes.get(path[:depth], 0) + 1
    best, rank = 0, (0, 0)
    for start in range(len(ordered) - size + 1):
        common = _common(paths[ordered[start]], paths[ordered[start + size - 1]])
        found = (-len(common), sizes[common])
        if start == 0 or found < rank:
            best, rank = start, found
    return ordered[best : best + size]


def replicas(
    available: Sequence[str], must: Sequence[str], size: int, units: Mapping[str, str], allocation: str
) -> list[str]:
    """The preferred ids of replicas.

    Arguments:
        available, must, size: as of `whole`.
        units: id -> its unit, for all ids of the resource.
        allocation: "spread" or "packed".
    """
    free: dict[str, list[str]] = {}
    for id in sorted(available, key=natural):
        if id not in must:
            free.setdefault(units[id], []).append(id)
    chosen = list(must)[:size]
    used = {units[id] for id in chosen}
    sign = 1 if allocation == PACKED else -1
    while len(chosen) < size and free:
        unit = min(free, key=lambda name: (name in used, sign * len(free[name]), natural(name)))
        chosen.append(free[unit].pop(0))
        used.add(unit)
        if not free[unit]:
            del free[unit]
        if used >= free.keys():
            used = set()  # every unit has given one: the next round begins
    return chosen


def _nearest_to(
    must: Sequence[str], available: Sequence[str], size: int, positions: Mapping[str, Position]
) -> list[str]:
    chosen = list(must)[:size]
    kept = [_path(positions[id]) for id in chosen]
    rest = [id for id in available if id not in set(chosen)]
    depth = {id: sum(len(_common(_path(positions[id]), path)) for path in kept) for id in rest}
    return chosen + sorted(rest, key=lambda each: (-depth[each], natural(each)))[: size - len(chosen)]


def _path(position: Position) -> tuple[str, ...]:
    """The NUMA node is above the host bridges."""
    return (f"{position.numa}", *position.path)


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    count = 0
    for part, same in zip(one, other, strict=False):
        if part != same:
            break
        count += 1
    return one[:count]
