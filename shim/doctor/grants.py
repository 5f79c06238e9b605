"""Grants: whether creates are judged by them, and what of them cannot work; of a device, who has it.

What a device gives is examined as if grants were not enforced (shim.doctor.machine): to which subject a container would
belong is known at its create alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.create import holders
from shim.doctor.model import GRANT, Check
from shim.grants import audit, overlap, reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.config.settings import Settings
    from shim.doctor.machine import Machine
    from shim.grants.reader import Grants

_SUBJECT = "grants"
_SHOWN = 3


def checks(machine: Machine, device: str = "") -> Iterator[Check]:
    """The check of the grants, none where there are none and no create is judged by them.

    Arguments:
        machine: the machine.
        device: the qualified name that alone matters, "" for all.
    """
    enforced = machine.settings.enforce and machine.rootful
    path = str(machine.host.real(reader.FILE))
    try:
        grants = reader.read(path, machine.trust)
    except CdiError as error:
        yield Check(GRANT, _SUBJECT, "nothing counts as granted", error.findings)
        return
    if not enforced and not grants.all:
        return
    findings = [*_unserved(machine, grants, device)]
    if device:
        evidence = _owners(grants, device)
        findings += _ungranted(grants, device) if enforced else []
        findings += _held(machine, device) if enforced else []
    else:
        evidence = f"{len(grants.all)} grant{'s' * (len(grants.all) != 1)}"
        findings += [*_logged(machine, grants), *(_subjects(machine.settings, grants) if enforced else ())]
    by = "enforced at each create" if enforced else "not enforced at create, but by gates"
    yield Check(GRANT, _SUBJECT, f"{evidence}; {by}", findings)


def _owners(grants: Grants, device: str) -> str:
    """Which subjects have a device."""
    owners = [grant.subject + " (exclusively)" * grant.is_exclusive for grant in grants.all if grant.device == device]
    return f"{device} is granted to {', '.join(owners) or 'no subject'}"


def _ungranted(grants: Grants, device: str) -> Iterator[Finding]:
    """GRANT_MISSING, where no container can have the device."""
    if not any(grant.device == device for grant in grants.all):
        text = f"{device} is granted to no subject, so no container gets it"
        yield Finding("GRANT_MISSING", text, f"`shim grant add SUBJECT --device {device}`")


def _held(machine: Machine, device: str) -> Iterator[Finding]:
    """GRANT_HELD as a warning, where a container has the device now: no other one gets it."""
    if machine.host.root != "/":
        return
    hardware = overlap.of(device, machine.served)
    try:
        for holder in holders.living():
            if holder["device"] == device or overlap.is_shared(hardware, frozenset(holder["hardware"])):
                text = f"{device} is granted exclusively, and the container {holder['id']} has it now"
                yield Finding("GRANT_HELD", text).as_warning()
    except OSError:  # another user's: only root creates by it
        return


def _unserved(machine: Machine, grants: Grants, device: str) -> Iterator[Finding]:
    """GRANT_UNSERVED, for all names that no spec serves."""
    every = [grant for grant in grants.all if not device or grant.device == device]
    lost = [f"{grant.device} (of {grant.subject})" for grant in every if not machine.served.get(grant.device)]
    if lost:
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        yield Finding("GRANT_UNSERVED", f"no spec serves what is granted: {', '.join(lost[:_SHOWN])}{more}")


def _subjects(settings: Settings, grants: Grants) -> Iterator[Finding]:
    """GRANT_MISSING, where no container has a subject; as a warning, where nothing is granted to one that has a key."""
    tables = (settings.runtimes, settings.bundles, settings.cgroups, settings.pod_namespaces, settings.namespaces)
    named = sorted({subject for table in tables for subject in table.values()})
    if not named and not settings.default_subject:
        text = "grants are enforced, and the configuration names no subject: no container gets a device"
        remedy = "name one in the configuration: default-subject, or a table of subjects, below [grants]"
        yield Finding("GRANT_MISSING", text, remedy, path=settings.path)
    for subject in named:
        if not grants.of(subject):
            text = f"nothing is granted to {subject}, which the configuration names as a subject"
            remedy = f"`shim grant add {subject} --device KIND=NAME`, or correct the name"
            yield Finding("GRANT_MISSING", text, remedy, path=settings.path).as_warning()


def _logged(machine: Machine, grants: Grants) -> Iterator[Finding]:
    """GRANTS_AUDIT, where the log of changes lacks a line; it is for root alone."""
    if machine.host.user != 0:
        return
    path = str(machine.host.real(audit.FILE))
    try:
        lines, findings = audit.read(path)
    except CdiError as error:
        yield from error.findings
        return
    yield from findings
    yield from audit.verify(lines, grants.serial, path)
