"""Compare: what changes for a container between two sets of specs. Pure.

The content is compared, not its form: files, their names, order of keys and YAML or JSON make no difference. Devices
are compared by qualified name, as they are served, so a shadowed definition is not compared. The edits that files
have for all their devices are compared for the kind as a whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.cdi.directories import Directories
    from shim.cdi.spec import Spec

    Json = dict[str, Any]


class Change:
    """What is different about one device, or about the edits of a kind for all its devices.

    Attributes:
        name: the qualified name; KIND for the edits for all devices.
        state: "added", "removed" or "changed".
        removed, added: kind of edit -> items, as the specs have them; all of them for a device that is new or gone.
        reordered: kinds of edit whose items are the same in another order.
    """

    __slots__ = ("added", "name", "removed", "reordered", "state")

    def __init__(self, name: str, old: Json | None, new: Json | None) -> None:
        self.name = name
        self.state = "added" if old is None else "removed" if new is None else "changed"
        self.removed: dict[str, list[Any]] = {}
        self.added: dict[str, list[Any]] = {}
        self.reordered: list[str] = []
        for kind in dict.fromkeys([*(old or {}), *(new or {})]):
            before, after = _items((old or {}).get(kind)), _items((new or {}).get(kind))
            gone, come = _without(before, after), _without(after, before)
            if gone:
                self.removed[kind] = gone
            if come:
                self.added[kind] = come
            if not gone and not come and before != after:
                self.reordered.append(kind)

    def __bool__(self) -> bool:
        return self.state != "changed" or bool(self.removed or self.added or self.reordered)

    def to_json(self) -> Json:
        """The change as plain values."""
        return {name: getattr(self, name) for name in ("name", "state", "removed", "added", "reordered")}


def compare(old: Directories, new: Directories) -> list[Change]:
    """All that is different, by name; nothing when a container would get the same from both."""
    before, after = _content(old), _content(new)
    changes = [Change(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
    return [change for change in changes if change]


def _content(directories: Directories) -> dict[str, Json]:
    """Name -> edits of each device, and of each kind for all its devices."""
    content: dict[str, Json] = {}
    for kind in directories.kinds():
        whole = [spec for spec in directories.specs if spec.kind == kind]
        content[kind] = _joined(whole)
    for name in directories.devices():
        served = directories.get(name)
        if served:
            spec, device = served
            content[name] = {**spec.devices[device], **_annotations(_device(spec, device))}
    return content


def _joined(specs: Iterable[Spec]) -> Json:
    """The edits that the specs of a kind have for all their devices, concatenated, and the versions of the specs."""
    joined: Json = {}
    for spec in specs:
        members = {"cdiVersion": spec.document["cdiVersion"], **spec.edits, **_annotations(spec.document)}
        for kind, value in members.items():
            items = joined.setdefault(kind, [])
            items += [item for item in _items(value) if kind != "cdiVersion" or item not in items]
    return joined


def _device(spec: Spec, name: str) -> Json:
    device_entry: Json = next(device for device in spec.document["devices"] if device["name"] == name)
    return device_entry


def _annotations(holder: Json) -> Json:
    given = holder.get("annotations") or {}
    return {"annotations": [f"{key}={value}" for key, value in given.items()]} if given else {}


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _without(items: list[Any], others: list[Any]) -> list[Any]:
    """The items that the others do not have; an item that they have fewer times is kept as often as they lack it."""
    left = [json.dumps(other, sort_keys=True) for other in others]
    kept = []
    for item in items:
        text = json.dumps(item, sort_keys=True)
        if text in left:
            left.remove(text)
        else:
            kept.append(item)
    return kept
