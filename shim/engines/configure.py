"""The recipes of configure (locate, read, describe, check the result in memory, write, verify) and of remove.

Nothing is written before the whole result is known: the engine's own rules are applied to the new files in memory, and
a runtime that would be lost stops it (RUNTIME_LOST). What shows on the disk only is verified afterwards; a fault that
was not there before restores every file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base.findings import ERROR, CdiError, Finding
from shim.engines import launcher, lost_requests, transaction, undo_records, vendors, verify
from shim.engines.launcher import Choice
from shim.engines.model import Location, NewRuntime
from shim.engines.texts import editing
from shim.host import abilities, identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.engines.contract import Engine
    from shim.engines.lost_requests import LostRequests
    from shim.engines.model import Edit, Registry
    from shim.engines.undo_records import Record
    from shim.host.host import Host


@dataclass(frozen=True)
class Options:
    """What the user wants, as on the command line.

    Attributes:
        name: the runtime's name in the engine.
        path: absolute path of the launcher.
        fixed: whether `path` was named by the user.
        config: the engine's main file, "" to find it.
        drop_in: the file for our keys, "" to choose it.
        low_level: a runtime by name or path, "" for the one that the engine uses now.
        default: make it the engine's default runtime.
        cdi: switch on the engine's own CDI support.
        hook: register a precreate hook instead of a runtime.
        dry_run: determine what would change, and write nothing.
    """

    name: str = "shim"
    path: str = ""
    fixed: bool = False
    config: str = ""
    drop_in: str = ""
    low_level: str = ""
    default: bool = False
    cdi: bool = False
    hook: bool = False
    dry_run: bool = False


@dataclass
class Outcome:
    """What was changed, or would be in a dry run.

    Attributes:
        location: where the configuration is.
        before: path -> former bytes, for each file that changes; None for one that was missing.
        after: path -> new bytes; None for a file that is removed.
        link: the low-level link that changes, "" when none does.
        linked: its former target.
        low_level: its new target.
        lost: requests that the engine's present runtime, a vendor's, takes and shim does not.
        findings: of verify about the result, and those about such requests.
    """

    location: Location
    before: dict[str, bytes | None] = field(default_factory=dict)
    after: dict[str, bytes | None] = field(default_factory=dict)
    link: str = ""
    linked: str | None = None
    low_level: str = ""
    lost: list[LostRequests] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything differs from before."""
        return bool(self.after or self.link)


def configure(host: Host, engine: Engine, options: Options) -> Outcome:
    """Register a runtime in an engine.

    Arguments:
        host: the machine.
        engine: the engine.
        options: what is wanted.
    Raises:
        CdiError: it cannot be done, or the result has a new fault; everything is then as it was.
    """
    location = engine.locate(host, options.config, options.drop_in)
    earlier = undo_records.find(host, location.engine, location.config, options.name)
    restored = transaction.restored(host, earlier) if earlier else {}
    base = host.with_files(restored)  # as before the first configure, so that a second one has the same result
    registry = engine.read(base, location)
    choice = _choice(host, registry, options)
    if options.hook or not options.dry_run:  # else verify reports it below, beside the change
        launcher.check(host, choice.path)
    new = NewRuntime(options.name, choice.path, options.default, options.cdi, choice.low_level)
    edits = (engine.hook_edits if options.hook else engine.edits)(base, location, registry, new)
    before = {edit.path: base.read(edit.path) for edit in edits}
    contents: dict[str, bytes | None] = {**restored, **editing.apply(edits, before)}
    outcome = _outcome(host, location, contents, choice)
    later = host.with_files(contents, {choice.link: choice.low_level} if choice.link else None)
    _check_result(base, engine, location, [(registry, engine.read(later, location))], outcome, options)
    if not options.dry_run:
        if outcome.changed:
            files = [_file(path, edits, old, contents[path]) for path, old in before.items()]
            _carry_out(host, engine, location, _record(location, registry, new, choice, earlier, files), contents)
        if choice.low_level:
            _learn_abilities(host, choice.low_level)
    outcome.findings = verify.findings(later if options.dry_run else host, engine, location, options.name)
    if choice.low_level and not vendors.is_program(choice.low_level):  # else the vendor's program runs behind shim
        ways = engine.ways_to_ask(location, registry, options.name)
        outcome.lost = lost_requests.compare(base, engine.containers(base), registry, ways)
        outcome.findings += [lost.finding(vendors.program(registry)) for lost in outcome.lost]
    return outcome


def remove(host: Host, engine: Engine, options: Options) -> Outcome:
    """Take a runtime out of an engine's configuration again, and restore what was there before.

    Without a record of configure only the runtime itself is removed, and only if it is a launcher of ours. The record
    holds the path of the file; `config` chooses between several.

    Arguments: as of `configure`; name, config, drop_in and dry_run count.
    Raises: as `configure`.
    """
    records = [
        record
        for record in undo_records.every(host)
        if (record.engine, record.name) == (engine.name, options.name) and options.config in {"", record.config}
    ]
    if len(records) == 1:  # no file is read to find it: the engine may be gone, or its files broken
        location = Location(engine.name, records[0].config)
    else:
        location = engine.locate(host, options.config, options.drop_in)
    record = undo_records.find(host, location.engine, location.config, options.name)
    outcome = Outcome(location)
    contents = transaction.restored(host, record) if record else _without(host, engine, location, options.name)
    outcome.before = {path: host.read(path) for path in contents if host.read(path) != contents[path]}
    outcome.after = {path: contents[path] for path in outcome.before}
    if record and transaction.owns_link(host, record):
        outcome.link, outcome.linked, outcome.low_level = record.link, record.low_level, record.linked or ""
    if options.dry_run:
        return outcome
    if record:
        transaction.undo(host, record)
    else:
        for path, data in outcome.after.items():
            transaction.put(host, path, data)
    return outcome


def _choice(host: Host, registry: Registry, options: Options) -> Choice:
    if options.hook:
        return Choice(options.path, "")  # it edits config.json for the engine's own runtime, and executes none
    return launcher.choose(host, registry, options.path, options.low_level, fixed=options.fixed)


def _file(path: str, edits: list[Edit], before: bytes | None, after: bytes | None) -> undo_records.File:
    of_file = [edit for edit in edits if edit.path == path]
    return undo_records.File(path, of_file, before, undo_records.digest(after))


def _record(
    location: Location,
    registry: Registry,
    new: NewRuntime,
    choice: Choice,
    earlier: Record | None,
    files: list[undo_records.File],
) -> Record:
    linked = choice.linked
    if earlier and earlier.link == choice.link and linked == earlier.low_level:
        linked = earlier.linked  # the present link is that of the earlier configure
    record = undo_records.Record(location.engine, location.config, new.name, registry.default, new.default)
    record.link, record.low_level, record.linked, record.files = choice.link, choice.low_level, linked, files
    return record


def _outcome(host: Host, location: Location, contents: Mapping[str, bytes | None], choice: Choice) -> Outcome:
    outcome = Outcome(location, low_level=choice.low_level)
    for path, data in contents.items():
        now = host.read(path)
        if now != data:
            outcome.before[path], outcome.after[path] = now, data
    if choice.is_new:
        outcome.link, outcome.linked = choice.link, choice.linked
    return outcome


def _check_result(
    host: Host,
    engine: Engine,
    location: Location,
    pairs: list[tuple[Registry, Registry]],
    outcome: Outcome,
    options: Options,
) -> None:
    """Refuse a result in which the engine would lose a runtime, or not start.

    Arguments:
        host, engine, location: the machine without our keys, the engine, and where its configuration is.
        pairs: the configuration before and after, as we read it; as the engine reads it is added.
        outcome: with the new files.
        options: what is wanted.
    """
    path = location.drop_in or location.config
    if outcome.after:
        before, after = engine.preview(host, location, {}), engine.preview(host, location, outcome.after)
        if before and not after:
            program = location.program or location.engine
            text = f"{program} takes its files as they are, and would refuse them with our keys"
            remedy = "nothing was written; please report this, with the output of --dry-run"
            raise CdiError([Finding("ENGINE_CONFIG_SHAPE", text, remedy, path=path)])
        if before and after:
            pairs.append((before, after))
    for before, after in pairs:
        lost = sorted(before.runtimes.keys() - after.runtimes.keys())
        if lost:
            text = f"with it, {location.engine} would lose the runtime{'s' * (len(lost) > 1)} {', '.join(lost)}"
            raise CdiError([Finding("RUNTIME_LOST", text, path=path)])
        if options.name not in after.runtimes and not options.hook:
            text = f"{location.engine} would not find the runtime {options.name}: {engine.unread}"
            raise CdiError([Finding("DROP_IN_UNUSED", text, path=path)])


def _carry_out(
    host: Host, engine: Engine, location: Location, record: Record, contents: Mapping[str, bytes | None]
) -> None:
    before = {_identity(finding) for finding in verify.findings(host, engine, location, record.name)}

    def check() -> None:
        after = verify.findings(host, engine, location, record.name)
        new = [finding for finding in after if finding.level == ERROR and _identity(finding) not in before]
        if new:
            raise CdiError(new)

    transaction.commit(host, record, contents, check)


def _identity(finding: Finding) -> tuple[str, str]:
    return finding.id, finding.text


def _without(host: Host, engine: Engine, location: Location, name: str) -> dict[str, bytes | None]:
    """The files without a runtime of ours that no record is about."""
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


def _learn_abilities(host: Host, low_level: str) -> None:
    """Record what the low-level runtime can do, so that no create has to start it for that."""
    if host.root == "/" and identity.is_rootful():
        try:
            abilities.learn(low_level, abilities.RECORD)
        except OSError:
            pass  # an ability that is not known is taken for missing
