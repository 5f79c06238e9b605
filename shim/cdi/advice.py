"""Advice: what is valid in a spec but does not work in every engine or runtime. Cold.

No reader refuses a spec for it, so `parse` does not check it; `shim cdi validate` prints warnings with lines.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.cdi.edits import lacks_bind
from shim.cdi.names import quoted, split_kind
from shim.cdi.spec import examine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Json = dict[str, Any]
    Path = tuple[str | int, ...]
    Rules = Callable[[Json, str], Iterable[tuple[Path, Finding]]]


def warnings(data: bytes, path: str = "", more: Rules | None = None) -> list[Finding]:
    """Warnings about a valid spec; an empty list for a spec with faults, which have to be corrected first.

    Arguments:
        data: the text of the spec file.
        path: the file it is from, for the findings.
        more: further rules: the findings about a decoded document and its path, each with the way to the item.
    """
    document, faults = examine(data, path)
    if faults:
        return []
    warnings = [(way, Finding(id, text, path=path)) for id, way, text in _warnings(document)]
    warnings += more(document, path) if more else ()
    if not warnings:
        return []
    from shim.cdi.yamltext import Document  # late: 19 ms, which a JSON spec without a warning shall not cost

    text_read = Document(data)
    for way, finding in warnings:
        finding.line = text_read.locate(way)
    return [finding for _, finding in warnings]


def _warnings(document: Json) -> Iterator[tuple[str, Path, str]]:
    """(id, way to the field, text) of each warning."""
    for what, name in zip(("vendor", "class"), split_kind(document["kind"]), strict=True):
        if len(name) == 1:
            text = f"the {what} {quoted(name)} has one letter, which CDI 1.1.0 in engines panics on"
            yield "KIND_SHORT", ("kind",), text
    yield from _mounts(document["containerEdits"], ("containerEdits",))
    for index, device in enumerate(document["devices"]):
        yield from _mounts(device["containerEdits"], ("devices", index, "containerEdits"))


def _mounts(edits: Json, way: Path) -> Iterator[tuple[str, Path, str]]:
    for index, mount in enumerate(edits.get("mounts", ())):
        is_of_host = mount["hostPath"].startswith("/")  # of anything else rbind makes no mount that is meant
        if is_of_host and lacks_bind(mount.get("type"), mount.get("options", ())):
            kind = f"type {quoted(mount['type'])}" if mount.get("type") else "no type"
            text = (
                f"the mount at {quoted(mount['containerPath'])} has {kind}, and neither bind nor rbind in its options"
            )
            yield "MOUNT_NOT_BOUND", (*way, "mounts", index), text


def misnamed(path: str) -> list[Finding]:
    """A finding for a file with an ending that no reader takes (.yml, .JSON); of a directory, one for each."""
    try:
        names = sorted(f"{path}/{name}" for name in os.listdir(path)) if os.path.isdir(path) else [path]
    except OSError:  # reported by whoever reads the directory
        return []
    why = "no reader of specs looks at a file with this ending"
    return [Finding("SPEC_NAME", why, path=name) for name in names if looks_like_spec(name) and not _is_named(name)]


def looks_like_spec(name: str) -> bool:
    """Whether a file is meant as a spec, by its name."""
    return name.casefold().endswith((".json", ".yaml", ".yml"))


def _is_named(name: str) -> bool:
    return name.endswith((".json", ".yaml"))
