"""Whether what we write for a host is what the reference wrote, or differs by a named rule."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from shim.cdi import spec

from . import device_rules, driver_rules, effects

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
    faults = [str(fault) for document in documents for fault in spec.faults(json.dumps(document).encode())]
    if faults:
        return f"no valid spec: {faults[0]}"
    mine, wanted = (_effects(written, host) for written in (documents, specs(expected)))
    scene = driver_rules.scene(given, host, mine)
    devices = device_rules.devices(given, host, findings, mine, wanted)
    errors = device_rules.others(devices)
    if expected["status"] != 0:
        if not documents:
            return None
        error = expected.get("error", "")
        rule = device_rules.healthy(devices, error) or (None if errors else driver_rules.found_driver(scene, error))
        return rule or f"they refuse ({error}), we write; findings: {shown}"
    if not documents:
        return device_rules.refusal(devices) or f"they write, we do not: {shown}"
    rules: list[str] = []
    different = []
    for difference in effects.differences(mine, wanted):
        rule = driver_rules.rule_of(scene, difference) or device_rules.rule_of(devices, difference)
        if rule is None:
            different.append(difference)
        else:
            rules.append(rule)
    if different:
        lines = (f"{name} {group} {key}: {ours} / {theirs}" for name, group, key, ours, theirs in different[:_SHOWN])
        return f"{len(different)}: {'; '.join(lines)} | {shown}"
    if errors:
        missing = driver_rules.missing_driver(scene, errors) or device_rules.missing_control(devices)
        return missing or f"same, but: {shown}"
    return rules[0] if rules else None


def _effects(documents: list[dict[str, Any]], host: Tree) -> dict[str, effects.Effects]:
    return {name: value for document in documents for name, value in effects.of_document(document, host).items()}


def specs(expected: dict[str, Any]) -> list[dict[str, Any]]:
    """The specs that the reference wrote; none where it failed."""
    if "files" in expected:
        written = [file.get("spec") for file in expected["files"].values()]
        return [document for document in written if document and "devices" in document]
    return expected.get("specs") or [expected["spec"]] if expected["status"] == 0 else []
