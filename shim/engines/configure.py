"""The recipe of configure: locate, read, describe, rehearse in memory, write, verify.

Nothing is written before the whole result is known: everything is done in memory first (Host.rehearsal), with the
engine's own rules applied to the new files; what stops it is in shim.engines.refusals. A dry run ends there, so it
shows what the run itself does. What shows on the disk only is verified afterwards; a fault that was not there before
restores every file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base.findings import ERROR, CdiError, Finding
from shim.engines import launcher, lost_requests, refusals, replaced, table, transaction, undo_records, vendors, verify
from shim.engines.launcher import Choice
from shim.engines.model import Drop, Location, NewRuntime, Put
from shim.engines.texts import editing
from shim.host import abilities, identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.engines.contract import Engine
    from shim.engines.lost_requests import LostRequests
    from shim.engines.model import Edit, Registry
    from shim.engines.undo_records import Record
    from shim.host.host import Host


# By which the engines' own CDI support is switched on, and gets directories
_CDI_KEYS = {"enable_cdi", "cdi", "cdi_spec_dirs", "cdi-spec-dirs"}


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
        replaces: runtimes of a vendor whose entries go.
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
    replaces: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What was changed, or would be in a dry run.

    Attributes:
        location: where the configuration is.
        before: path -> former bytes, for each file that changes; None for a file that was missing.
        after: path -> new bytes; None for a file that is removed.
        link: the low-level link that changes, "" when none does.
        linked: its former target.
        low_level: its new target.
        released: link -> its former and its new target, for each link of an earlier configure that is given back.
        lost: requests that the engine's present runtime, a vendor's, takes and shim does not.
        findings: of verify about the result, and those about such requests.
    """

    location: Location
    before: dict[str, bytes | None] = field(default_factory=dict)
    after: dict[str, bytes | None] = field(default_factory=dict)
    link: str = ""
    linked: str | None = None
    low_level: str = ""
    released: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    lost: list[LostRequests] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything differs from before."""
        return bool(self.after or self.link or self.released)


def configure(host: Host, engine: Engine, options: Options) -> Outcome:
    """Register a runtime in an engine.

    Arguments:
        host: the machine. Several dry runs see each other's changes where they get the same rehearsal of it.
        engine: the engine.
        options: what is wanted.
    Raises:
        CdiError: it cannot be done, or the result has a new fault; everything is then as it was. Of a dry run such
            faults are among the findings, beside the changes.
    """
    host = host.rehearsal() if options.dry_run and not host.is_rehearsal else host
    location = engine.locate(host, options.config, options.drop_in)
    earlier = undo_records.find(host, location.engine, location.config, options.name)
    restored = transaction.restored(host, earlier) if earlier else {}
    base = host.with_files(restored)  # as before the first configure, so that a second call has the same result
    registry = engine.read(base, location)
    choice = _choice(host, registry, options, earlier)
    if options.hook or not options.dry_run:  # else verify reports it below, beside the change
        launcher.check(host, choice.path)
    new = NewRuntime(options.name, choice.path, options.default, options.cdi, choice.low_level)
    edits = (engine.hook_edits if options.hook else engine.edits)(base, location, registry, new)
    edits += replaced.edits(base, engine, location, registry, options.replaces)
    before = {edit.path: base.read(edit.path) for edit in edits}
    contents: dict[str, bytes | None] = {**restored, **editing.apply(edits, before)}
    later = host.with_files(contents, {choice.link: choice.low_level} if choice.link else None)
    after, present = engine.read(later, location), engine.read(host, location)
    running = table.under_launchers(host)
    outcome = _outcome(host, location, contents, choice)
    refusals.check_result(
        base,
        engine,
        location,
        [(registry, after)],
        outcome.after,
        None if options.hook else new,
        may_lose=options.replaces,
    )
    refusals.check_link(host, choice, running)
    refusals.check_entry(host, engine, [present.runtimes.get(new.name), after.runtimes.get(new.name)], running)
    files = [_file(path, edits, old, contents[path]) for path, old in before.items()]
    record = _record(location, registry, new, choice, earlier, files)
    used = refusals.used_links(host, earlier, running) if earlier else set()
    outcome.findings = _carry_out(host, engine, outcome, record, contents, used, options)
    outcome.findings += _notes(host, engine, location, registry, present, options)
    if choice.low_level and not options.dry_run:
        _learn_abilities(host, choice.low_level)
    if choice.low_level and not vendors.is_program(choice.low_level):  # else the vendor's program runs behind shim
        ways = engine.ways_to_ask(location, registry, options.name)
        outcome.lost = lost_requests.compare(base, engine.containers(base), registry, ways)
        outcome.findings += [lost.finding(vendors.program(registry)) for lost in outcome.lost]
    return outcome


def options_of(host: Host, engine: Engine, location: Location, name: str) -> Options | None:
    """The options by which a runtime is registered now, as far as its record has them; None where it has no record.

    Arguments:
        host, engine, location: the machine, the engine, and where its configuration is.
        name: of the runtime.
    Raises:
        CdiError: CONFIG_BACKUP; what reading the configuration raises.
    """
    record = undo_records.find(host, location.engine, location.config, name)
    runtime = engine.read(host, location).runtimes.get(name)
    if not record or not record.is_registered or not runtime:
        return None
    steps = [step for file in record.files for edit in file.edits for step in edit.steps]
    gone = dict.fromkeys(step.keys[-1] for step in steps if isinstance(step, Drop))
    cdi = any(step.keys[-1] in _CDI_KEYS for step in steps if isinstance(step, Put))
    return Options(
        name,
        runtime.path,
        fixed=True,
        low_level=record.low_level if record.link else "",
        default=record.as_default,
        cdi=cdi,
        replaces=tuple(gone),
    )


def _choice(host: Host, registry: Registry, options: Options, earlier: Record | None) -> Choice:
    if options.hook:
        return Choice(options.path, "")  # it edits config.json for the engine's own runtime, and executes none
    links = earlier.links if earlier else []
    own = [link.path for link in links if earlier and transaction.owns_link(host, earlier, link.path)]
    return launcher.choose(host, registry, options.path, options.low_level, fixed=options.fixed, own=own)


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
    for link in earlier.links if earlier else ():
        if (link.path, link.target) == (choice.link, choice.linked):
            linked = link.former  # the present link is that of the earlier configure
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


def _carry_out(
    host: Host,
    engine: Engine,
    outcome: Outcome,
    record: Record,
    contents: Mapping[str, bytes | None],
    used: set[str],
    options: Options,
) -> list[Finding]:
    """Write everything in memory, and if nothing stops it, on disk. Returns the findings of verify about the result."""
    location = outcome.location
    earlier = undo_records.find(host, record.engine, record.config, record.name)
    links = {link.path: host.readlink(link.path) for link in earlier.links} if earlier else {}

    def verify_on(machine: Host) -> list[Finding]:
        return verify.findings(machine, engine, location, record.name)

    before, trial = verify_on(host), host.rehearsal()
    if outcome.changed or _gives_back(earlier, record, used):
        transaction.commit(trial, record, contents, used)
        outcome.released = {
            path: (target, trial.readlink(path))
            for path, target in links.items()
            if path != record.link and trial.readlink(path) != target
        }
    result = verify_on(trial)
    stopping = refusals.stopping(result, before)
    if stopping and not options.dry_run:
        raise CdiError(stopping)
    if outcome.changed and not stopping:

        def check() -> None:
            if new := refusals.stopping(verify_on(host), before):
                raise CdiError(new)

        transaction.commit(host, record, contents, used, check)
        result = verify_on(host)
    return [
        finding.as_warning() if finding.level == ERROR and finding not in stopping else finding for finding in result
    ]


def _gives_back(earlier: Record | None, record: Record, used: set[str]) -> bool:
    """Whether a link that was kept for containers is needed no more."""
    return bool(earlier) and any(link.path not in {record.link, *used} for link in earlier.kept) if earlier else False


def _notes(
    host: Host, engine: Engine, location: Location, registry: Registry, present: Registry, options: Options
) -> list[Finding]:
    """Effects that people may not expect: ENGINE_ABSENT, RUNTIME_REPLACED."""
    notes = []
    if not location.program and not location.daemon and not options.config:
        text = f"{engine.name} is not installed here: there is no {engine.program}"
        notes.append(Finding("ENGINE_ABSENT", text, path=location.drop_in or location.config))
    former = registry.runtimes.get(options.name)
    program = host.find(former.path or former.name) if former and not options.hook else ""
    if former and program and not launcher.is_launcher(host, program):
        text = f"the runtime {options.name} of {engine.name} was {program}: whatever uses it runs under shim now"
        notes.append(Finding("RUNTIME_REPLACED", text, path=former.file))
    ours = present.runtimes.get(options.name)
    if options.hook and ours and launcher.is_launcher(host, ours.path):
        text = f"the runtime {options.name} is no longer registered: the hook takes its place"
        remedy = f"without --hook `shim runtime configure --engine {engine.name}` registers it again"
        notes.append(Finding("RUNTIME_REPLACED", text, remedy, path=ours.file))
    return notes


def _learn_abilities(host: Host, low_level: str) -> None:
    """Record what the low-level runtime can do, so that no create has to start it for that."""
    if host.root == "/" and identity.is_rootful():
        try:
            abilities.learn(low_level, abilities.RECORD)
        except OSError:
            pass  # an unknown ability counts as missing
