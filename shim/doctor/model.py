"""What the doctor's checks return, and how what only follows from another fault is recognised."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from shim.base.findings import ERROR, WARNING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.base.findings import Finding

# The links of the chain, in its order
MODULE, NODES, LIBRARY = "module", "nodes", "library"
SPEC, DIRECTORY, TRUST = "spec", "directory", "trust"
REGISTRATION, DEFAULT, REQUEST = "registration", "default", "request"
GRANT, RESULT = "grant", "result"
LINKS = (MODULE, NODES, LIBRARY, SPEC, DIRECTORY, TRUST, REGISTRATION, DEFAULT, REQUEST, GRANT, RESULT)

OK = "ok"


@dataclass
class Check:
    """What was looked at, and what is wrong with it.

    Attributes:
        link: of the chain, of LINKS.
        subject: what was looked at: a vendor, a spec, an engine, a device.
        evidence: what is there, a clause.
        findings: what is wrong.
        after: the subjects on which this one depends: where a check of one of them has an ERROR, the errors of this
            check follow from it, and are warnings.
    """

    link: str
    subject: str
    evidence: str = ""
    findings: list[Finding] = field(default_factory=list)
    after: tuple[str, ...] = ()

    @property
    def is_broken(self) -> bool:
        """Whether a finding is an ERROR."""
        return any(finding.level == ERROR for finding in self.findings)

    def softened(self) -> Check:
        """The same without an ERROR: a fault of something that is not needed here, or that follows from another."""
        findings = [finding.as_warning() if finding.level == ERROR else finding for finding in self.findings]
        return replace(self, findings=findings)

    @property
    def state(self) -> str:
        """ERROR, WARNING or OK."""
        levels = {finding.level for finding in self.findings}
        return next((level for level in (ERROR, WARNING) if level in levels), OK)

    def to_json(self) -> dict[str, Any]:
        """The check as plain values."""
        findings = [finding.to_json() for finding in self.findings]
        return {
            "link": self.link,
            "subject": self.subject,
            "state": self.state,
            "evidence": self.evidence,
            "findings": findings,
        }


class Report:
    """The checks of a host.

    Arguments:
        checks: causes first: a check comes after those on which it depends.

    Attributes:
        checks: in the order of the chain; each fact is in one finding only, and what follows from an earlier ERROR is a
            WARNING.
    """

    def __init__(self, checks: Iterable[Check]) -> None:
        made = list(checks)
        _demote(made)
        _unite(made)
        self.checks = sorted(made, key=lambda check: LINKS.index(check.link))

    @property
    def findings(self) -> list[Finding]:
        """All findings, errors first, otherwise in the order of the chain."""
        every = [finding for check in self.checks for finding in check.findings]
        order = {ERROR: 0, WARNING: 1}
        return sorted(every, key=lambda finding: order.get(finding.level, 2))

    @property
    def is_broken(self) -> bool:
        """Whether a finding is an ERROR."""
        return any(check.is_broken for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {"ok": not self.is_broken, "checks": [check.to_json() for check in self.checks]}


def _demote(checks: list[Check]) -> None:
    """Make what follows from an earlier check's ERROR a warning: by `after`, or since it names what is broken."""
    broken: set[str] = set()
    for check in checks:
        follows = bool(broken.intersection(check.after))
        check.findings = [
            finding.as_warning() if finding.level == ERROR and (follows or _names(finding, broken)) else finding
            for finding in check.findings
        ]
        if check.is_broken:
            broken.add(check.subject)


def _names(finding: Finding, broken: set[str]) -> bool:
    """Whether a finding is about something else because of a file or directory that is broken itself."""
    paths = (subject for subject in broken if subject.startswith("/") and subject != finding.path)
    return any(re.search(rf"{re.escape(path)}(?![\w./-])", finding.text) for path in paths)


def _unite(checks: list[Check]) -> None:
    """Leave each fact in the first check that has it."""
    known: set[tuple[str, str, str]] = set()
    for check in checks:
        kept = []
        for finding in check.findings:
            key = (finding.id, finding.path, finding.text)
            if key not in known:
                known.add(key)
                kept.append(finding)
        check.findings = kept


def devices_of(path: str) -> str:
    """What the check of the devices of a spec is about."""
    return f"devices of {path}"
