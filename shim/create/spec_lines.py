"""Spec lines: where in its spec stands what a create refuses. Late: only a refusal needs the reader of YAML.

The index keeps no lines, so the spec is read again, through the World as everything else. Where it cannot be read, or
holds no such item any more, the finding stays as it is: it names the file in any case.
"""

from __future__ import annotations

from shim.cdi.yamltext import Document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from shim.base.findings import Finding
    from shim.create.world import World

# Kind of edits -> members of an item that a finding about it names
_NAMED: dict[str, tuple[str, ...]] = {
    "deviceNodes": ("path",),
    "mounts": ("hostPath", "containerPath"),
    "hooks": ("path",),
}
_FORBIDDEN: dict[str, tuple[str, ...]] = {"mounts": ("containerPath",)}  # a finding about a target alone


def add(findings: list[Finding], world: World) -> None:
    """Give findings about items of specs their lines.

    Arguments:
        findings: changed in place: `line` of those that have none.
        world: answers what a spec holds.
    """
    documents: dict[str, Document | None] = {}
    for finding in findings:
        if not finding.path or finding.line:
            continue
        if finding.path not in documents:
            documents[finding.path] = _read(finding.path, world)
        document = documents[finding.path]
        if document:
            finding.line = _line(document, finding.text)


def _read(path: str, world: World) -> Document | None:
    try:
        document = Document(world.read(path)[1].encode("utf-8", "surrogateescape"))
    except OSError:
        return None
    return None if document.faults else document  # such as one that is too long, and was cut


def _line(document: Document, text: str) -> int:
    for named in (_NAMED, _FORBIDDEN):
        for way, item, members in _items(document.value, named):
            if isinstance(item, dict) and all(str(item.get(member, "\n")) in text for member in members):
                return document.locate(way)
    return 0


def _items(
    spec: Any, named: dict[str, tuple[str, ...]]
) -> Iterator[tuple[tuple[str | int, ...], Any, tuple[str, ...]]]:
    """(way to an item, the item, the members that name it) of each item of a spec."""
    devices = spec.get("devices") if isinstance(spec, dict) else None
    blocks: list[tuple[tuple[str | int, ...], Any]] = [((), spec)]
    blocks += [
        (("devices", index), device) for index, device in enumerate(devices if isinstance(devices, list) else [])
    ]
    for way, block in blocks:
        edits = block.get("containerEdits") if isinstance(block, dict) else None
        for kind, members in named.items():
            listed = edits.get(kind) if isinstance(edits, dict) else None
            for index, item in enumerate(listed if isinstance(listed, list) else []):
                yield (*way, "containerEdits", kind, index), item, members
