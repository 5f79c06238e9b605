"""A migration undone: the last step first, each as far as it was carried out.

What cannot be undone stays in the journal, so that it can be tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.discover import inventory, remembered, setup, takeover, units
from shim.engines import configure, table, transaction, undo_records
from shim.engines import remove as removal
from shim.engines.configure import Options
from shim.migrate import journal as journals

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.host.host import Host
    from shim.migrate.journal import Journal


@dataclass
class Undone:
    """What undoing a migration came to, or would.

    Attributes:
        restored: paths of files that are as they were, in the order in which that was done.
        removed: paths of files that shim had written.
        engines: whose configuration is as it was.
        units: unit -> what became of it.
        findings: about what could not be undone.
        notes: about what is still to be done, such as the restart of an engine.
    """

    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


DISABLED, AS_BEFORE = "disabled", "as before"


def undo(host: Host, toolkit: str) -> Undone:
    """Undo a migration.

    Arguments:
        host: the machine.
        toolkit: name of the vendor.
    Raises:
        CdiError: MIGRATE_NOTHING where there was none; MIGRATE_ORDER where a later migration from another vendor's
            toolkit relies on this one; DISCOVERY_STATE.
    """
    journal, undone = _journal(host, toolkit), Undone()
    steps: tuple[Callable[[Host, Journal, Undone], None], ...] = (_units, _specs, _engines, _settings)
    for step in steps:
        try:
            step(host, journal, undone)
        except CdiError as error:
            undone.findings += error.findings
    if undone.findings:
        journals.save(host, journal)
    else:
        journals.forget(host, toolkit)
    return undone


def plan(host: Host, toolkit: str) -> Undone:
    """What `undo` would do. Raises as `undo`."""
    journal, undone = _journal(host, toolkit), Undone()
    undone.units = dict.fromkeys(journal.enabled, "would be disabled")
    undone.units |= {unit.name: "would be as before" for unit in journal.stopped}
    taken = [record for record in takeover.taken(host) if record.path in journal.taken]
    undone.restored = [record.path for record in taken]
    undone.units |= {unit.name: "would be as before" for record in taken for unit in record.units}
    for spec in journal.specs:
        (undone.removed if spec.before is None else undone.restored).append(spec.path)
    undone.engines = [engine.engine for engine in journal.engines]
    if journal.settings:
        (undone.removed if journal.settings.before is None else undone.restored).append(journal.settings.path)
    return undone


def _journal(host: Host, toolkit: str) -> Journal:
    journal = journals.find(host, toolkit)
    if journal is None:
        text = f"no migration from {toolkit} was carried out here, or it was undone"
        raise CdiError([Finding("MIGRATE_NOTHING", text, f"`shim runtime migrate --from {toolkit} --dry-run`")])
    first = {(entry.engine, entry.name) for entry in journal.engines if entry.earlier is None}
    for other in journals.every(host):
        shared = {(entry.engine, entry.name) for entry in other.engines} & first if other.toolkit != toolkit else set()
        if shared:
            engines = ", ".join(sorted(engine for engine, _ in shared))
            text = (
                f"the migration from {other.toolkit} came later, and its registration in {engines} is that of this one"
            )
            remedy = f"undo it first: `shim runtime migrate --from {other.toolkit} --undo`"
            raise CdiError([Finding("MIGRATE_ORDER", text, remedy)])
    return journal


def _units(host: Host, journal: Journal, undone: Undone) -> None:
    """Ours first: they would write the specs again."""
    if journal.enabled:
        disabled, findings = setup.disable(host, journal.enabled)
        undone.units |= disabled
        undone.findings += findings
        journal.enabled = []
    units.restore(host, journal.stopped)
    undone.units |= {unit.name: AS_BEFORE for unit in journal.stopped}
    journal.stopped = []


def _specs(host: Host, journal: Journal, undone: Undone) -> None:
    stopped = {unit.name for one in takeover.taken(host) if one.path in journal.taken for unit in one.units}
    back = takeover.undo_takeover(host, journal.taken)
    undone.restored += back.restored
    undone.findings += back.findings
    if back.findings:
        return
    undone.units |= dict.fromkeys(sorted(stopped), AS_BEFORE)
    undone.removed += back.removed
    journal.taken = []
    for spec in journal.specs:
        if spec.before is not None:
            transaction.put(host, spec.path, spec.before.encode("utf-8", "surrogateescape"))
            undone.restored.append(spec.path)
        elif remembered.text(host, spec.path):
            transaction.put(host, spec.path, None)
            undone.removed.append(spec.path)
        if spec.remembered:
            remembered.put_back(host, spec.path, spec.remembered)
        else:
            remembered.forget(host, spec.path)
    journal.specs = []
    if not journal.had_inventory and host.exists(inventory.path()) and not remembered.every(host):
        transaction.put(host, inventory.path(), None)
        undone.removed.append(inventory.path())


def _engines(host: Host, journal: Journal, undone: Undone) -> None:
    for entry in reversed(list(journal.engines)):
        engine, earlier = table.ENGINES[entry.engine], entry.options()
        try:
            if earlier is not None:
                undone.notes += configure.configure(host, engine, earlier).findings
            else:
                _remove(host, entry, undone)
        except CdiError as error:
            undone.findings += error.findings
            continue
        undone.engines.append(entry.engine)
        journal.engines.remove(entry)


def _remove(host: Host, entry: journals.Engine, undone: Undone) -> None:
    """Take shim out of an engine."""
    records = [one for one in undo_records.every(host) if (one.engine, one.name) == (entry.engine, entry.name)]
    if records:  # else it was removed in between
        done = removal.remove(host, table.ENGINES[entry.engine], Options(entry.name))
        undone.notes += done.findings


def _settings(host: Host, journal: Journal, undone: Undone) -> None:
    settings = journal.settings
    if settings is None:
        return
    file = settings.file()
    text = transaction.without(file, host.read(settings.path))
    transaction.put(host, settings.path, text)
    (undone.removed if text is None else undone.restored).append(settings.path)
    transaction.remove_directories(host, settings.made)
    journal.settings = None
