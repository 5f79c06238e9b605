"""The recipe of remove: the files as they were before configure, and the low-level link unless containers need it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import launcher, refusals, table, transaction, undo_records
from shim.engines.configure import Options, Outcome
from shim.engines.model import Location, NewRuntime
from shim.engines.texts import editing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.engines.contract import Engine
    from shim.engines.model import Registry
    from shim.host.host import Host


def remove(host: Host, engine: Engine, options: Options) -> Outcome:
    """Take a runtime out of an engine's configuration again, and restore what was there before.

    Without a record of configure only the runtime itself is removed, and only if it is a launcher of ours. The record
    holds the path of the file; `config` chooses between several. A low-level link that running containers need stays,
    and the record with it, for a later call.

    Arguments:
        host, engine: as of `configure`.
        options: name, config, drop_in and dry_run count.
    Raises:
        CdiError: as `configure`; CONTAINERS_RUNNING where the engine would lose containers.
    """
    host = host.rehearsal() if options.dry_run and not host.is_rehearsal else host
    location = _location(host, engine, options)
    record = undo_records.find(host, location.engine, location.config, options.name)
    contents = transaction.restored(host, record) if record else _without(host, engine, location, options.name)
    running = table.under_launchers(host)
    entries = [_registry(machine, engine, location) for machine in (host, host.with_files(contents))]
    present, later = (registry.runtimes.get(options.name) if registry else None for registry in entries)
    refusals.check_entry(host, engine, [present, later], running)
    outcome = Outcome(location)
    outcome.before = {path: host.read(path) for path in contents if host.read(path) != contents[path]}
    outcome.after = {path: contents[path] for path in outcome.before}
    if record:
        targets = {link.path: host.readlink(link.path) for link in record.links}
        outcome.findings += refusals.kept(host, record, running)
        transaction.undo(host, record, refusals.used_links(host, record, running))
        outcome.released = {
            path: (target, host.readlink(path)) for path, target in targets.items() if host.readlink(path) != target
        }
    else:
        for path, data in outcome.after.items():
            transaction.put(host, path, data)
    if outcome.after:
        outcome.findings += _restart(engine, location, options.name)
    return outcome


def _location(host: Host, engine: Engine, options: Options) -> Location:
    """Where the runtime is registered; by a record if it has one: the engine may be gone, or its files broken."""
    records = [
        record
        for record in undo_records.every(host)
        if (record.engine, record.name) == (engine.name, options.name) and options.config in {"", record.config}
    ]
    if len(records) != 1:
        return engine.locate(host, options.config, options.drop_in)
    config = records[0].config
    with contextlib.suppress(CdiError):
        location = engine.locate(host)
        if location.config == config:
            return location
    return Location(engine.name, config)


def _registry(host: Host, engine: Engine, location: Location) -> Registry | None:
    try:
        return engine.read(host, location)
    except CdiError:
        return None


def _restart(engine: Engine, location: Location, name: str) -> list[Finding]:
    if not location.daemon:
        return []
    text = f"{engine.name} (process {location.daemon.pid}) knows the runtime {name} until it is restarted"
    return [Finding("RESTART_NEEDED", text, engine.restart_command(location), path=location.config)]


def _without(host: Host, engine: Engine, location: Location, name: str) -> Mapping[str, bytes | None]:
    """The files without a runtime of ours that has no record."""
    registry = engine.read(host, location)
    runtime = registry.runtimes.get(name)
    if runtime is None or not launcher.is_launcher(host, runtime.path):
        return {}
    edits = engine.edits(host, location, registry, NewRuntime(name, runtime.path))
    contents: dict[str, bytes | None] = {}
    for path in dict.fromkeys(edit.path for edit in edits):
        now = host.read(path)
        if now is not None:
            contents[path] = editing.revert([edit for edit in edits if edit.path == path], now, None)
    return contents
