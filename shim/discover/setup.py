"""Set-up of a machine: the inventory, the specs, and the units that keep them fresh; and all of that undone.

    generate ──> inventory, specs        units ──> enabled, kept in a record

Undoing removes what shim wrote and restores what it moved aside. The units that were enabled before are left so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.discover import generate, inventory, remembered, state, takeover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shim.discover.model import Wish
    from shim.discover.output import Target
    from shim.host.host import Host

UNITS = ("shim-cdi-refresh.service", "shim-cdi-refresh.path")
ENABLED, WOULD_ENABLE, ALREADY, ABSENT = "enabled", "would be enabled", "is enabled", "not enabled"
DISABLED = "disabled"
_RUNNING = "/run/systemd/system"  # sd_booted(3)


@dataclass
class Outcome:
    """What a set-up came to.

    Attributes:
        generated: the specs.
        units: name of each unit -> what became of it.
        findings: of the specs and the units.
    """

    generated: generate.Outcome
    units: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


@dataclass
class Undone:
    """What undoing a set-up came to.

    Attributes:
        removed: paths of files that shim had written.
        restored: paths of files that a takeover had moved aside.
        units: name of each unit that the set-up had enabled -> what became of it.
        findings: what could not be undone.
    """

    removed: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def set_up(
    host: Host,
    wish: Wish,
    target: Target,
    wanted: Iterable[str],
    *,
    has_units: bool,
    dry_run: bool,
    progress: Callable[[str], object] = lambda _: None,
) -> Outcome:
    """Set up a machine.

    Arguments:
        host, wish, target, wanted, dry_run, progress: as of shim.discover.generate.
        has_units: whether the units are enabled.
    Returns:
        what came of it. A machine without devices is set up, too: the finding DISCOVERY_NOTHING is a warning here.
    """
    outcome = Outcome(generate.generate(host, wish, target, wanted, dry_run=dry_run, progress=progress))
    outcome.findings = [
        finding.as_warning() if finding.id == "DISCOVERY_NOTHING" else finding for finding in outcome.generated.findings
    ]
    if has_units:
        outcome.units, findings = enable(host, dry_run=dry_run)
        outcome.findings += findings
    return outcome


def undo(host: Host, *, dry_run: bool) -> Undone:
    """Undo `set_up`, and what `shim cdi generate` did. Raises CdiError: DISCOVERY_STATE."""
    undone = Undone()
    enabled = _record(host)
    if dry_run:
        undone.restored = [record.path for record in takeover.taken(host)]
        undone.removed = [entry.path for entry in remembered.every(host)]
        undone.removed += [inventory.path()] if host.exists(inventory.path()) else []
        undone.units = dict.fromkeys(enabled, "would be disabled")
        return undone
    # the units first: they would write the specs again
    undone.units, undone.findings = disable(host, enabled)
    back = takeover.undo_takeover(host)
    undone.restored, undone.removed, undone.findings = back.restored, back.removed, [*undone.findings, *back.findings]
    for entry in remembered.every(host):
        _remove(host, entry.path, undone)
        remembered.forget(host, entry.path)
    if host.exists(inventory.path()):
        _remove(host, inventory.path(), undone)
    return undone


def enable(host: Host, *, dry_run: bool) -> tuple[dict[str, str], list[Finding]]:
    """Enable the units that keep specs fresh, and keep in a record which of them were not enabled before.

    Arguments:
        host: the machine.
        dry_run: whether nothing is done.
    Returns:
        name of each unit -> what became of it; REFRESH_UNITS.
    Raises:
        CdiError: DISCOVERY_STATE.
    """
    if not host.exists(_RUNNING):
        text = "systemd does not run here, so nothing keeps the specs fresh"
        remedy = "let your init start `shim cdi refresh --watch`"
        return dict.fromkeys(UNITS, ABSENT), [Finding("REFRESH_UNITS", text, remedy)]
    enabled, units, findings = _record(host), {}, []
    for name in UNITS:
        if (host.ask("systemctl", "is-enabled", name) or "").strip() == "enabled":
            units[name] = ALREADY
            continue
        answer = "" if dry_run else host.refusal("systemctl", "enable", "--now", name)
        units[name] = WOULD_ENABLE if dry_run else ABSENT if answer else ENABLED
        if answer:
            findings.append(_unit_finding(name, "enabled", answer))
        elif not dry_run:
            enabled.append(name)
    if not dry_run:
        state.save(host, _path(), {"units": list(dict.fromkeys(enabled))})
    return units, findings


def disable(host: Host, names: Iterable[str]) -> tuple[dict[str, str], list[Finding]]:
    """Disable units that `enable` has enabled, and take them out of its record; results as of `enable`."""
    units, findings = {}, []
    for name in names:
        answer = host.refusal("systemctl", "disable", "--now", name)
        units[name] = DISABLED
        if answer:
            findings.append(_unit_finding(name, "disabled", answer))
    left = [name for name in _record(host) if name not in units]
    if left:
        state.save(host, _path(), {"units": left})
    else:
        state.forget(host, _path())
    return units, findings


def _unit_finding(name: str, what: str, answer: str) -> Finding:
    return Finding("REFRESH_UNITS", f"{name} cannot be {what}: {answer.splitlines()[-1]}")


def _record(host: Host) -> list[str]:
    """The units that an earlier set-up enabled. Raises CdiError: DISCOVERY_STATE."""
    if not host.exists(_path()):
        return []
    return state.load(host, _path(), lambda document: [str(name) for name in document["units"]])


def _path() -> str:
    return f"{state.directory('setup')}/units.json"


def _remove(host: Host, path: str, undone: Undone) -> None:
    try:
        host.real(path).unlink()
        undone.removed.append(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CdiError([Finding("DISCOVERY_STATE", f"it cannot be removed: {reason(error)}", path=path)]) from None
