"""Mounts: where new mounts go among those that config.json has. Pure. HOT.

The order of config.json is its author's: a mount listed later may cover an earlier one on purpose, a tmpfs over a
directory with secrets for example. So none of it changes. A new mount goes behind the last one that lies at its
destination or above it, which would cover it, and then before the first that lies below it, which it would cover; or to
the end. The reference library sorts the whole list by depth instead (docs/deviations.md, mounts-in-place).
"""

from __future__ import annotations

from shim.base.paths import clean, parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]


def placed(present: list[Any], entries: list[Json]) -> list[Any]:
    """The mounts of config.json with new ones.

    Arguments:
        present: the list of config.json, without mounts that give way (shim.cdi.edits.without_first).
        entries: the new mounts, each with a destination of its own.
    """
    keys = [_key(entry["destination"]) for entry in entries]
    added = sorted(zip(keys, entries, strict=True), key=_depth)
    if not present:
        return [entry for _, entry in added]
    before: dict[int, list[Json]] = {}
    for index, (_, entry) in zip(_indexes(present, [key for key, _ in added]), added, strict=True):
        before.setdefault(index, []).append(entry)
    result: list[Any] = []
    for index, item in enumerate(present):
        result += before.get(index, ())
        result.append(item)
    return result + before.get(len(present), [])


def _depth(keyed: tuple[str, Json]) -> int:
    return keyed[0].count("/")


def _indexes(present: list[Any], keys: list[str]) -> list[int]:
    """For each new mount the index of the one that it stands before; the length of the list for the end.

    Arguments:
        present: the mounts of config.json.
        keys: the paths of the new mounts.
    """
    below: dict[str, list[int]] = {key: [] for key in keys}
    lengths = sorted({len(key) for key in keys})
    last: dict[str, int] = {}
    for index, item in enumerate(present):
        destination = item.get("destination") if isinstance(item, dict) else None
        if not isinstance(destination, str):
            continue  # the low-level runtime reports it
        path = _key(destination)
        last[path] = index
        for length in lengths:
            if len(path) > length and path[length] == "/" and path[:length] in below:
                below[path[:length]].append(index)
    indexes = []
    above: dict[str, int] = {}  # path -> the last mount at it or above it; many new mounts lie in one directory
    for key in keys:
        index = len(present)
        if below[key]:
            behind = _last_above(key, last, above)
            index = next((later for later in below[key] if later > behind), index)
        indexes.append(index)
    return indexes


def _last_above(path: str, last: dict[str, int], known: dict[str, int]) -> int:
    """The index of the last mount at a path or above it, -1 for none; `known` has the answers so far."""
    unknown = []
    while path not in known:
        unknown.append(path)
        if not path:
            break
        path = parent(path)
    index = known.get(path, -1)
    for above in reversed(unknown):
        index = known[above] = max(index, last.get(above, -1))
    return index


def _key(destination: str) -> str:
    """The cleaned path, "" for the root; a relative one begins at the root, as for runc and crun."""
    path = clean(destination if destination.startswith("/") else f"/{destination}")
    return "" if path == "/" else path
