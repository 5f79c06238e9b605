"""What a change makes of the grants: pure functions, each from one state to the next and the line of the log.

A name is checked against the specs when it is granted: a misspelt name would be a grant that never counts, or counts
later for a device that nobody meant. Each change is checked whole before anything of it counts.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING, Any

from shim.base import subjects
from shim.base.findings import CdiError, Finding
from shim.base.nearest import nearest
from shim.cdi import unresolved
from shim.cdi.names import BadName, parse_qualified
from shim.grants import overlap
from shim.grants.reader import Grant, Grants

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.cdi.types import Served

    Entry = dict[str, Any]
    # the entries of the next state, and what the line of the log has; without "devices" there nothing changes
    Change = tuple[list[Entry], Entry]

_SHOWN = 8  # names in a message


def add(
    grants: Grants, served: Served, subject: str, devices: Sequence[str], *, exclusive: bool | None, name_only: bool
) -> Change:
    """Grant devices to a subject.

    Arguments:
        grants: the state before.
        served: the devices that specs serve.
        subject, devices, exclusive, name_only: as of shim.grants.store.Store.add.
    Raises:
        CdiError: GRANT_SUBJECT, DEVICE_NAME, DEVICE_UNKNOWN, SPEC_CONFLICT, GRANT_CONFLICT.
    """
    _check_subject(subject)
    _check_names(devices)
    unknown = [name for name in devices if served.get(name) is None]
    if unknown:
        raise CdiError([*unresolved.findings(unknown, served), *unresolved.refused(served.findings)])
    entries = {(entry["subject"], entry["device"]): entry for entry in grants.document["grants"]}
    changed = []
    for device in dict.fromkeys(devices):
        old = entries.get((subject, device))
        new = _entry(subject, device) if old is None else dict(old)
        if exclusive is not None:
            new["exclusive"] = exclusive
        if name_only:
            new["nameOnly"] = True
        conflicts = _conflicts(Grant(new), grants, served)
        if conflicts:
            raise CdiError(conflicts)
        if new != old:
            entries[subject, device] = new
            changed.append(device)
    more = {} if exclusive is None else {"exclusive": exclusive}
    more |= {"nameOnly": True} if name_only else {}
    return list(entries.values()), {"op": "add", "subject": subject, "devices": changed, **more}


def revoke(grants: Grants, subject: str, devices: Sequence[str]) -> Change:
    """Take devices from a subject.

    Arguments:
        grants: the state before.
        subject, devices: as of shim.grants.store.Store.revoke.
    Raises:
        CdiError: GRANT_UNKNOWN for what is not granted.
    """
    names = _names(grants, subject)
    missing = [device for device in dict.fromkeys(devices) if device not in names]
    if missing:
        raise CdiError([_not_granted(subject, device, names) for device in missing])
    kept = [
        entry for entry in grants.document["grants"] if entry["subject"] != subject or entry["device"] not in devices
    ]
    return kept, {"op": "revoke", "subject": subject, "devices": list(dict.fromkeys(devices))}


def purge(grants: Grants, subject: str) -> Change:
    """Take everything from a subject. Raises CdiError: GRANT_UNKNOWN when it has nothing."""
    names = _names(grants, subject)
    kept = [entry for entry in grants.document["grants"] if entry["subject"] != subject]
    return kept, {"op": "purge", "subject": subject, "devices": names}


def rename(grants: Grants, subject: str, new: str) -> Change:
    """Move the grants of a subject to another name. Raises CdiError: GRANT_SUBJECT, GRANT_UNKNOWN, GRANT_TAKEN."""
    _check_subject(new)
    names = _names(grants, subject)
    taken = sorted(grants.names(new))
    if taken:
        text = f"{new} has grants already ({', '.join(taken[:_SHOWN])}), and those of two subjects are not merged"
        raise CdiError([Finding("GRANT_TAKEN", text, f"`shim grant purge {new}` first, or choose another name")])
    entries = [
        {**entry, "subject": new} if entry["subject"] == subject else entry for entry in grants.document["grants"]
    ]
    return entries, {"op": "rename", "subject": subject, "to": new, "devices": names}


def now() -> str:
    """The time, as the file and the log have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def user() -> str:
    """Who makes the change."""
    return f"uid:{os.getuid()}"


def _entry(subject: str, device: str) -> Entry:
    return {
        "subject": subject,
        "device": device,
        "exclusive": False,
        "since": now(),
        "by": user(),
        "id": uuid.uuid4().hex[:16],
    }


def _names(grants: Grants, subject: str) -> list[str]:
    """The devices of a subject. Raises CdiError: GRANT_UNKNOWN when it has none."""
    names = sorted(grants.names(subject))
    if names:
        return names
    subjects = sorted({grant.subject for grant in grants.all})
    near = nearest(subject, subjects)
    known = f"nearest: {', '.join(near)}" if near else f"with grants: {', '.join(subjects[:_SHOWN]) or 'none'}"
    raise CdiError([Finding("GRANT_UNKNOWN", f"nothing is granted to {subject[:200]!r} ({known})")])


def _not_granted(subject: str, device: str, names: list[str]) -> Finding:
    near = nearest(device, names)
    known = f"nearest: {', '.join(near)}" if near else f"granted: {', '.join(names[:_SHOWN])}"
    return Finding("GRANT_UNKNOWN", f"{device[:200]!r} is not granted to {subject} ({known})")


def _check_subject(subject: str) -> None:
    wrong = subjects.objection(subject)
    if wrong:
        raise CdiError([Finding("GRANT_SUBJECT", f"{subject[:200]!r} is no name of a subject: {wrong}")])


def _check_names(devices: Iterable[str]) -> None:
    findings = []
    for device in dict.fromkeys(devices):
        try:
            parse_qualified(device)
        except BadName as error:
            findings.append(Finding("DEVICE_NAME", str(error), rule=error.rule))
    if findings:
        raise CdiError(findings)


def _conflicts(new: Grant, grants: Grants, served: Served) -> list[Finding]:
    """What keeps a grant out: an exclusive one of another subject, or, for an exclusive one, any of another subject."""
    hardware = overlap.of(new.device, served)
    findings = []
    for grant in grants.all:
        if grant.subject == new.subject or not (grant.is_exclusive or new.is_exclusive):
            continue
        same = ""
        if grant.device != new.device:
            theirs = overlap.of(grant.device, served)
            if grant.is_by_name or new.is_by_name or not overlap.is_shared(hardware, theirs):
                continue
            same = f", which has the same hardware ({', '.join(sorted(hardware & theirs))})"
        has = f"{grant.subject} has {grant.device}{' exclusively' if grant.is_exclusive else ''}{same}"
        how = " exclusively" if new.is_exclusive else ""
        text = f"{new.device} cannot be granted to {new.subject}{how}: {has}"
        remedy = f"`shim grant revoke {grant.subject} --device {grant.device}` first, or choose another device"
        findings.append(Finding("GRANT_CONFLICT", text, remedy))
    return findings
