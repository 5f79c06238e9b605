"""What a spec would lose if it were written anew. Pure.

A generator that runs while a driver is half there writes a spec with less in it, and the containers that start then go
without a device or fail. So a new document is compared with that of the file: names of devices, device nodes and the
libraries without which no container can use the driver.

Nodes are compared by how many of a sort a device has, since a renumbered node (renderD128, renderD129) is none lost.
The device `all` has what the others have, and is compared by its name alone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from shim.discover.document import ALL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Json = dict[str, Any]

# Without these no program can use the driver: of CUDA, of NVML, of WSL
_REQUIRED = ("libcuda.so", "libnvidia-ml.so", "libdxcore.so")
_NUMBERS = re.compile(r"\d+")


def losses(old: Json, new: Json) -> list[str]:
    """What the new document of a spec lacks: qualified names, nodes of devices, libraries.

    Arguments:
        old, new: documents of one kind.
    """
    return [*(f"{old['kind']}={name}" for name in _lost_names(old, new)), *_lost_parts(old, new)]


def is_followed(old: Json, new: Json) -> bool:
    """Whether what is lost are devices which the host no longer has, and nothing else.

    A device that is there under fewer names was discovered in part only. One of which all names are gone is gone, as
    a MIG instance is after a GPU was divided anew, or the GPU itself when it is divided; and where the same nodes have
    as many names as before, they are those of another instance.
    """
    if _lost_parts(old, new) or ALL in _lost_names(old, new):
        return False
    now, after = _by_nodes(new), _devices(new)
    for nodes, names in _by_nodes(old).items():
        kept = [name for name in names if name in after]
        if len(now[nodes]) < len(names) if nodes in now else 0 < len(kept) < len(names):
            return False
    return True


def _lost_names(old: Json, new: Json) -> list[str]:
    after = _devices(new)
    return [name for name in _devices(old) if name not in after]


def _lost_parts(old: Json, new: Json) -> list[str]:
    """The nodes that devices of both documents have no more, and the libraries."""
    after, common = _devices(new), _nodes(new.get("containerEdits"))
    # what was common may be of each device now, and the other way round
    lost = _fewer(_nodes(old.get("containerEdits")), [*common, *_every_node(new)])
    for name, nodes in _devices(old).items():
        if name != ALL and name in after:
            lost += [f"{path} of {old['kind']}={name}" for path in _fewer(nodes, [*after[name], *common])]
    libraries = _libraries(new)
    return lost + [library for library in _libraries(old) if library not in libraries]


def _by_nodes(document: Json) -> dict[tuple[str, ...], list[str]]:
    """The nodes of a device -> its names."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, nodes in _devices(document).items():
        if name != ALL:
            groups.setdefault(tuple(sorted(nodes)), []).append(name)
    return groups


def _devices(document: Json) -> dict[str, list[str]]:
    return {device["name"]: _nodes(device.get("containerEdits")) for device in document["devices"]}


def _nodes(edits: Json | None) -> list[str]:
    return [str(node.get("hostPath") or node["path"]) for node in (edits or {}).get("deviceNodes") or ()]


def _every_node(document: Json) -> list[str]:
    every = [path for nodes in _devices(document).values() for path in nodes]
    return [*every, *_nodes(document.get("containerEdits"))]


def _fewer(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """The nodes of the sorts of which there are fewer, as far as they are gone."""
    listed, now = list(dict.fromkeys(before)), set(after)
    counts, present = Counter(map(_sort, listed)), Counter(map(_sort, now))
    return [path for path in listed if path not in now and present[_sort(path)] < counts[_sort(path)]]


def _sort(path: str) -> str:
    return _NUMBERS.sub("#", path)


def _libraries(document: Json) -> list[str]:
    """The names of required libraries that a spec mounts, without versions."""
    holders = [document.get("containerEdits"), *(device.get("containerEdits") for device in document["devices"])]
    names = {
        str(mount["containerPath"]).rpartition("/")[2]
        for edits in holders
        for mount in (edits or {}).get("mounts") or ()
    }
    return [
        library for library in _REQUIRED if any(name == library or name.startswith(f"{library}.") for name in names)
    ]
