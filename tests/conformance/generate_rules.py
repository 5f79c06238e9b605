"""Whether what we write for a host is what the reference wrote, or differs by a named rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.base.findings import ERROR

from . import driver_rules, effects

if TYPE_CHECKING:
    from shim.base.findings import Finding
    from shim.host.tree import Tree

_SHOWN = 6  # differences in a message


def verdict(
    documents: list[dict[str, Any]],
    findings: list[Finding],
    expected: dict[str, Any],
    host: Tree,
    given: dict[str, Any],
) -> str | None:
    """None: the same. Else the id of a deviation, or what differs.

    Arguments:
        documents: that we write.
        findings: that we report.
        expected: what the reference did.
        host: the machine.
        given: the input of the case.
    """
    shown = "; ".join(f"{finding.id} {finding.text}" for finding in findings)
    errors = [finding for finding in findings if finding.level == ERROR]
    mine = {name: value for document in documents for name, value in effects.of_document(document, host).items()}
    scene = driver_rules.scene(given, host, mine)
    if expected["status"] != 0:
        found = None if errors else driver_rules.found_driver(scene, expected.get("error", ""))
        if documents and not found:
            return f"they refuse ({expected.get('error')}), we write; findings: {shown}"
        return found
    if not documents:
        return f"they write, we do not: {shown}"
    wanted: dict[str, effects.Effects] = {}
    for document in specs(expected):
        wanted.update(effects.of_document(document, host))
    rules: list[str] = []
    different = []
    for difference in effects.differences(mine, wanted):
        rule = driver_rules.rule_of(scene, difference)
        if rule is None:
            different.append(difference)
        else:
            rules.append(rule)
    if different:
        lines = (f"{name} {group} {key}: {ours} / {theirs}" for name, group, key, ours, theirs in different[:_SHOWN])
        return f"{len(different)}: {'; '.join(lines)} | {shown}"
    if errors:
        missing = driver_rules.missing_driver(scene, errors)
        return missing or f"same, but: {shown}"
    return rules[0] if rules else None


def specs(expected: dict[str, Any]) -> list[dict[str, Any]]:
    """The specs that the reference wrote; none where it failed."""
    if "files" in expected:
        return [file["spec"] for file in expected["files"].values() if "spec" in file]
    return expected.get("specs") or [expected["spec"]] if expected["status"] == 0 else []
