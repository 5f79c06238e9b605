"""Checks of `shim cdi validate`: a text, a file, a directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base import remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.cdi import advice, directories, spec, unresolved
from shim.create import static_rules
from shim.host.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.cdi.advice import Rules
    from shim.cdi.types import Served

    Check = Callable[[bytes, str], list[Finding]]


def file(path: str, counting: set[str], check: Check) -> list[Finding]:
    """Faults of a file.

    Arguments:
        path: of the file.
        counting: directories in which a file counts only where it is trusted.
        check: of its text: `text`, or with more rules.
    """
    try:
        findings = [*advice.misnamed(path), *check(spec.read_bytes(path), path)]
    except CdiError as error:
        return error.findings
    if os.path.realpath(Path(path).parent) in counting:
        objection = Trust().objection(str(Path(path).absolute()))
        findings += [Finding("SPEC_UNTRUSTED", f"it is not trusted: {objection}", path=path)] if objection else []
    return findings


def text(data: bytes, path: str, rules: Rules = static_rules.objections) -> list[Finding]:
    """Faults of a spec's text, or else warnings about it and what a create refuses of it.

    Arguments:
        data: the text.
        path: of the file.
        rules: for a text without faults.
    """
    faults = spec.faults(data, path)
    for finding in faults:
        if "shim cdi validate" in finding.remedy:  # the usual remedy, which is to run this check
            finding.remedy = "mend the file"
    return faults or advice.warnings(data, path, rules)


def directory(path: str, counting: set[str], check: Check) -> dict[str, list[Finding]]:
    """Path -> findings of each file that is named like a spec, conflicts included. Arguments: as of `file`."""
    checked: dict[str, list[Finding]] = {}
    try:
        entries = sorted(Path(path).iterdir())
    except OSError as error:
        text = f"the directory cannot be listed: {reason(error)}"
        return {path: [Finding("SPEC_DIR_UNREADABLE", text, remedies.to_read(error), path=path)]}
    for entry in entries:
        if advice.looks_like_spec(entry.name) and not entry.is_dir():
            checked[str(entry)] = file(str(entry), counting, check)
    for finding in conflicts(directories.read((path,)), each=True):
        checked.setdefault(finding.path, []).append(finding)
    return checked


def conflicts(found: Served, *, each: bool = False) -> list[Finding]:
    """One finding for all devices that the same files define.

    Arguments:
        found: the devices of directories.
        each: one for each of these files, not for the first alone.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, paths in found.conflicts.items():
        groups.setdefault(tuple(paths), []).append(name)
    findings = []
    for files, names in groups.items():
        for path in files if each else files[:1]:
            others = " and by ".join(other for other in files if other != path)
            them = "it" if len(names) == 1 else "them"
            text = f"{unresolved.subject(names)} also defined by {others}, so none of these files serves {them}"
            findings.append(Finding("SPEC_CONFLICT", text, path=path, rule="conflict"))
    return findings
