"""Spec, directory, trust: which files are there, which of them count, and which devices are hidden.

Everything is asked of the reader of the directories; `shim cdi validate` explains a single file with all its lines.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.cdi import advice
from shim.cdi.directories import MISSING, OK
from shim.create import static_rules
from shim.create.host_rules import HostRules
from shim.doctor.machine import moved
from shim.doctor.model import DIRECTORY, SPEC, TRUST, Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.doctor.hardware import Hardware
    from shim.doctor.machine import Machine

    Way = tuple[str | int, ...]

_LINKS = {"SPEC_UNTRUSTED": TRUST, "SPEC_DIR_UNREADABLE": DIRECTORY}
_OTHERS_READ = 0o004


def checks(machine: Machine, hardware: Hardware) -> Iterator[Check]:
    """One check for each directory, and for each spec in them."""
    served = machine.served
    directories = dict(served.searched)
    for directory, state in served.searched:
        findings = [*served.findings.get(directory, ()), *_misnamed(machine, directory)]
        link = next((_LINKS[finding.id] for finding in findings if finding.id in _LINKS), DIRECTORY)
        count = sum(spec.path.startswith(f"{directory}/") for spec in served.specs)
        specs = f"{count} spec{'s' * (count != 1)}"
        evidence = {OK: specs, MISSING: "missing, which is usual"}.get(state, state)
        yield Check(link, directory, evidence, findings)
    for path, findings in served.findings.items():
        if path not in directories:
            link = next((_LINKS[finding.id] for finding in findings if finding.id in _LINKS), SPEC)
            yield Check(link, path, "no device of it can be asked for", list(findings))
    hidden = _hidden(machine)
    for spec in {spec.path: spec for spec in served.specs}.values():
        if spec.path in served.findings:
            continue
        vendor = hardware.vendor_of(spec.kind)
        count = len(spec.devices)
        evidence = f"{spec.kind}, {count} device{'s' * (count != 1)}"
        judged = [hardware.refreshed(finding) for finding in _advice(machine, spec.path)]
        findings = [*_private(machine, spec.path), *judged, *hidden.get(spec.path, ())]
        yield Check(SPEC, spec.path, evidence, findings, (vendor,) if vendor else ())


def _hidden(machine: Machine) -> dict[str, list[Finding]]:
    """SPEC_SHADOWED, by the file whose devices another file hides."""
    found: dict[str, list[Finding]] = {}
    rows = sorted(machine.served.shadowed, key=lambda row: row[1:])
    for (loser, winner), group in groupby(rows, key=lambda row: row[1:]):
        names = [name for name, _, _ in group]
        which = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        text = f"{winner} serves {which}, since its directory is the more important: what this file has is not used"
        found.setdefault(loser, []).append(Finding("SPEC_SHADOWED", text, path=loser))
    return found


def _private(machine: Machine, path: str) -> list[Finding]:
    """SPEC_PRIVATE, for a spec that root alone can read."""
    status = machine.host.status(path) if machine.host.user == 0 else None
    if status is None or status.st_mode & _OTHERS_READ:
        return []
    text = (
        f"it has mode {status.st_mode & 0o7777:04o}: users without root cannot read it, and their engines know none of "
        "its devices"
    )
    return [Finding("SPEC_PRIVATE", text, f"chmod 0644 {path}", path=path)]


def _advice(machine: Machine, path: str) -> list[Finding]:
    """What create refuses of the spec or warns of, on this host, and what some engines do not take."""
    try:
        data = machine.host.real(path).read_bytes()
    except OSError:
        return []
    program = machine.launcher
    rules = HostRules(machine.world, program, rootful=machine.rootful, user=machine.host.user)

    def both(document: dict[str, Any], path: str) -> Iterator[tuple[Way, Finding]]:
        yield from static_rules.objections(document, path)
        yield from rules.objections(document, path)

    found = advice.warnings(data, path, both)
    return list({(finding.id, finding.text): finding for finding in found}.values())


def _misnamed(machine: Machine, directory: str) -> list[Finding]:
    """SPEC_NAME, for each file of a directory with an ending that no reader takes."""
    findings = advice.misnamed(str(machine.host.real(directory)))
    root = machine.host.root
    return [moved(finding, root) if root != "/" else finding for finding in findings]
