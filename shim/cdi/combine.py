"""Combine: several specs of one kind as one. Pure.

What the files have for all their devices stays so as far as they agree, from the beginning of each list; the rest goes
into the devices of its file, in front of their own edits. So each device gives a container the same, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.cdi import versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.cdi.spec import Spec

    Json = dict[str, Any]


def combined(specs: Sequence[Spec]) -> Json:
    """The document of a spec with the devices of all.

    Arguments:
        specs: at least one, in order.
    Raises:
        CdiError: SPEC_CONFLICT, for each kind, device and annotation of which there are two.
    """
    first = specs[0]
    findings = [_other_kind(first, spec) for spec in specs if spec.kind != first.kind]
    common = _common([spec.edits for spec in specs])
    devices: dict[str, tuple[Json, str]] = {}
    annotations: dict[str, tuple[str, str]] = {}
    for spec in specs:
        rest = {kind: _rest(value, common.get(kind)) for kind, value in spec.edits.items()}
        for device in spec.document["devices"]:
            entry = {**device, "containerEdits": _joined(rest, device["containerEdits"])}
            findings += _shared_names(entry, spec.path)
            there, path = devices.setdefault(device["name"], (entry, spec.path))
            if there != entry:
                findings.append(_conflict(f"the device {device['name']}", spec.path, path))
        for name, text in spec.document.get("annotations", {}).items():
            known, path = annotations.setdefault(name, (text, spec.path))
            if known != text:
                findings.append(_conflict(f"the annotation {name}", spec.path, path))
    if findings:
        raise CdiError(findings)
    declared = max((spec.document["cdiVersion"] for spec in specs), key=versions.rank)
    made: Json = {"cdiVersion": declared, "kind": first.kind}
    if annotations:
        made["annotations"] = {name: text for name, (text, _) in annotations.items()}
    made["devices"] = [entry for entry, _ in devices.values()]
    if common:
        made["containerEdits"] = common
    return raised(made)


def raised(document: Json) -> Json:
    """The document, with a later version where its members need that."""
    needed = versions.minimum(document)
    is_low = versions.rank(document["cdiVersion"]) < versions.rank(needed)
    return {**document, "cdiVersion": needed} if is_low else document


def _common(every: Iterable[Json]) -> Json:
    """What all have: of lists the items at the beginning that are equal, of other values equal ones."""
    first, *others = every
    common: Json = {}
    for kind, value in first.items():
        if isinstance(value, list):
            length = min(_equal(value, other.get(kind) or []) for other in [first, *others])
            if length:
                common[kind] = value[:length]
        elif all(other.get(kind) == value for other in others):
            common[kind] = value
    return common


def _equal(items: Sequence[Any], others: Sequence[Any]) -> int:
    """How many items at the beginning of two lists are equal."""
    count = 0
    for item, other in zip(items, others, strict=False):
        if item != other:
            break
        count += 1
    return count


def _rest(value: Any, common: Any) -> Any:
    if isinstance(value, list):
        return value[len(common or ()) :]
    return None if value == common else value


def _joined(rest: Json, edits: Json) -> Json:
    """Edits of a file and of a device; a value that is no list is the device's where it has one, as in a plan."""
    joined: Json = {}
    for kind in dict.fromkeys([*rest, *edits]):
        own = edits.get(kind)
        if isinstance(rest.get(kind), list) or isinstance(own, list):
            value: Any = [*_without_repeats(kind, rest.get(kind) or (), own or ()), *(own or ())]
        else:
            value = own if own is not None else rest.get(kind)
        if value:
            joined[kind] = value
    return joined


def _without_repeats(kind: str, items: Iterable[Any], own: Iterable[Any]) -> list[Any]:
    """The items of a file that its device does not replace: a list must not name an interface twice."""
    names = {item["hostInterfaceName"] for item in own} if kind == "netDevices" else ()
    return [item for item in items if not names or item["hostInterfaceName"] not in names]


def _shared_names(device: Json, path: str) -> list[Finding]:
    """A finding where a device would bring two interfaces under one name, which a spec must not say."""
    names = [item["name"] for item in device["containerEdits"].get("netDevices", ())]
    text = f"the device {device['name']} and its file name two interfaces {{}} in the container"
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    return [Finding("SPEC_CONFLICT", text.format(name), "rename one of them", path=path) for name in repeated]


def _other_kind(first: Spec, spec: Spec) -> Finding:
    text = f"it has the kind {spec.kind}, and {first.path} has {first.kind}"
    return Finding("SPEC_CONFLICT", text, "merge the files of each kind by themselves", path=spec.path)


def _conflict(what: str, path: str, other: str) -> Finding:
    remedy = "take it out of one of the files, or rename it there"
    return Finding("SPEC_CONFLICT", f"{what} is otherwise in {other}", remedy, path=path)
