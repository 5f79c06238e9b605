"""Whether what we write for a host is what the reference wrote, or differs by a named rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.base.findings import ERROR

from . import effects

if TYPE_CHECKING:
    from shim.base.findings import Finding
    from shim.host.tree import Tree

_SHOWN = 6  # differences in a message


def verdict(
    documents: list[dict[str, Any]],
    findings: list[Finding],
    expected: dict[str, Any],
    host: Tree,
) -> str | None:
    """None: the same. Else the id of a deviation, or what differs."""
    theirs = specs(expected)
    shown = "; ".join(f"{finding.id} {finding.text}" for finding in findings)
    if expected["status"] != 0:
        return None if not documents else f"they refuse ({expected.get('error')}), we write; findings: {shown}"
    if not documents:
        return f"they write, we do not: {shown}"
    mine = {name: value for document in documents for name, value in effects.of_document(document, host).items()}
    wanted = {name: value for document in theirs for name, value in effects.of_document(document, host).items()}
    different = effects.differences(mine, wanted)
    if not different:
        return f"same, but: {shown}" if any(finding.level == ERROR for finding in findings) else None
    return (
        f"{len(different)}: " + "; ".join(f"{n} {g} {k}: {a} / {b}" for n, g, k, a, b in different[:6]) + f" | {shown}"
    )


def specs(expected: dict[str, Any]) -> list[dict[str, Any]]:
    """The specs that the reference wrote; none where it failed."""
    if "files" in expected:
        return [file["spec"] for file in expected["files"].values() if "spec" in file]
    return expected.get("specs") or [expected["spec"]] if expected["status"] == 0 else []
