"""Container edits as text for people: a line for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Json = dict[str, Any]


def edits(items_of_kinds: Json) -> Iterator[tuple[str, str]]:
    """(kind of edit, its effect as text) for each item, in the order of the specification.

    Arguments:
        items_of_kinds: container edits of a spec or of a plan; kinds beyond the specification are written as they are.
    """
    for kind, value in items_of_kinds.items():
        for item in value if isinstance(value, list) else [value]:
            yield edit(kind, item)


def edit(kind: str, item: Any) -> tuple[str, str]:
    """(kind of edit, its effect as text) for an item."""
    label, write = _WORDS.get(kind, (kind, str))
    return label, write(item)


def _node(item: Json) -> str:
    origin = f" from {item['hostPath']}" if item.get("hostPath") not in (None, "", item["path"]) else ""
    numbers = f" {item['type']}" if item.get("type") else ""
    if item.get("major"):
        numbers += f" {item['major']}:{item.get('minor', 0)}"
    access = f" {item['permissions']}" if item.get("permissions") else ""
    mode = f" mode {item['fileMode']:04o}" if item.get("fileMode") is not None else ""
    owner = "".join(f" {owner_id} {item[owner_id]}" for owner_id in ("uid", "gid") if item.get(owner_id) is not None)
    return f"{item['path']}{origin}{numbers}{access}{mode}{owner}"


def _mount(item: Json) -> str:
    origin = f" from {item['hostPath']}" if item["hostPath"] != item["containerPath"] else ""
    options = f" ({','.join(item['options'])})" if item.get("options") else ""
    return f"{item['containerPath']}{origin}{options}"


def _hook(item: Json) -> str:
    words = [item["hookName"], item["path"], *(item.get("args") or [])[1:]]
    env = f" with {' '.join(item['env'])}" if item.get("env") else ""
    timeout = f", at most {item['timeout']} s" if item.get("timeout") is not None else ""
    return " ".join(words) + env + timeout


def _net_device(item: Json) -> str:
    return f"{item['hostInterfaceName']} as {item['name']}"


def _intel_rdt(item: Json) -> str:
    return " ".join(f"{name}={value}" for name, value in item.items())


_WORDS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "env": ("variable", str),
    "deviceNodes": ("node", _node),
    "netDevices": ("interface", _net_device),
    "mounts": ("mount", _mount),
    "hooks": ("hook", _hook),
    "additionalGids": ("group", str),
    "intelRdt": ("RDT", _intel_rdt),
    "annotations": ("annotation", str),
    "cdiVersion": ("version", str),
}
