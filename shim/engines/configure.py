"""The recipe of configure and of its way back: find, read, describe, foresee, write, verify; or give everything back.

Nothing is written before the whole result is known: the engine's own rules are applied to the new files in memory, and
a runtime that was there and would not be there any more stops it (RUNTIME_LOST). What can be seen only on the disk is
verified afterwards; a fault that was not there before takes everything back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base.findings import ERROR, CdiError, Finding
from shim.engines import launcher, lost_requests, transaction, undo_records, vendors, verify
from shim.engines.launcher import Choice
from shim.engines.model import Location, Wanted
from shim.engines.texts import editing
from shim.host import abilities, identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.engines.contract import Engine
    from shim.engines.lost_requests import LostRequests
    from shim.engines.model import Registry
    from shim.engines.undo_records import Record
    from shim.host.host import Host


@dataclass(frozen=True)
class Order:
    """What the user asked for.

    Attributes:
        name: the runtime's name in the engine.
        path: absolute path of the launcher.
        fixed: whether `path` was named by the user.
        config: the engine's main file, "" to find it.
        drop_in: the file for our keys, "" to choose it.
        low_level: a runtime by name or path, "" for the one that the engine uses now.
        default: make it the engine's default runtime.
        cdi: switch on the engine's own CDI support.
        hook: register podman's precreate hook in place of a runtime.
        dry_run: find out what would change, and write nothing.
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
    """What was done, or would be.

    Attributes:
        location: where the configuration lies.
        before: path -> bytes that were there, for each file that changes; None for one that was missing.
        after: path -> bytes that are there now; None for one that is gone.
        link: the low-level link that changes, "" when none does.
        linked: where it led.
        low_level: where it leads now.
        lost: requests that the engine's present runtime, a vendor's, takes and shim does not.
        findings: what verify says about that, and those requests.
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
        """Whether anything is different from before."""
        return bool(self.after or self.link)


def configure(host: Host, engine: Engine, order: Order) -> Outcome:
    """Register a runtime in an engine.

    Arguments:
        host: the machine.
        engine: the engine.
        order: what is wanted.
    Raises:
        CdiError: it cannot be done, or did not hold; everything is then as it was.
    """
    location = engine.locate(host, order.config, order.drop_in)
    earlier = undo_records.find(host, location.engine, location.config, order.name)
    given_back = transaction.restored(host, earlier) if earlier else {}
    base = host.with_files(given_back)  # as if we had never been here: then once more comes to the same
    registry = engine.read(base, location)
    choice = _choice(host, registry, order)
    if order.hook or not order.dry_run:  # else verify says it below, beside the change
        launcher.check(host, choice.path)
    wanted = Wanted(order.name, choice.path, order.default, order.cdi, choice.low_level)
    describe = engine.hook_edits if order.hook else engine.edits
    steps = describe(base, location, registry, wanted)
    before = {edit.path: base.read(edit.path) for edit in steps}
    contents: dict[str, bytes | None] = {**given_back, **editing.apply(steps, before)}
    outcome = _outcome(host, location, contents, choice)
    later = host.with_files(contents, {choice.link: choice.low_level} if choice.link else None)
    _foresee(base, engine, location, [(registry, engine.read(later, location))], outcome, order)
    if not order.dry_run:
        if outcome.changed:
            files = [
                undo_records.File(
                    path, [edit for edit in steps if edit.path == path], old, undo_records.digest(contents[path])
                )
                for path, old in before.items()
            ]
            _carry_out(host, engine, location, _record(location, registry, wanted, choice, earlier, files), contents)
        if choice.low_level:
            _learn(host, choice.low_level)
    outcome.findings = verify.findings(later if order.dry_run else host, engine, location, order.name)
    if choice.low_level and not vendors.is_program(choice.low_level):  # else the vendor's program runs behind shim
        ways = engine.ways_to_ask(location, registry, order.name)
        outcome.lost = lost_requests.compare(base, engine.containers(base), registry, ways)
        outcome.findings += [lost.finding(vendors.program(registry)) for lost in outcome.lost]
    return outcome


def remove(host: Host, engine: Engine, order: Order) -> Outcome:
    """Take a runtime out of an engine's configuration again, and give back what was there before.

    Without a record of what was done, only the runtime itself goes, and only if it is a launcher of ours. The record
    says which file it was; `config` tells it from others.

    Arguments: as of `configure`; name, config, drop_in and dry_run count.
    Raises: as `configure`.
    """
    mine = [
        one
        for one in undo_records.every(host)
        if (one.engine, one.name) == (engine.name, order.name) and order.config in {"", one.config}
    ]
    if len(mine) == 1:  # nothing is read to find it: the engine may be gone, or its files broken
        location = Location(engine.name, mine[0].config)
    else:
        location = engine.locate(host, order.config, order.drop_in)
    record = undo_records.find(host, location.engine, location.config, order.name)
    outcome = Outcome(location)
    contents = transaction.restored(host, record) if record else _stripped(host, engine, location, order.name)
    outcome.before = {path: host.read(path) for path in contents if host.read(path) != contents[path]}
    outcome.after = {path: contents[path] for path in outcome.before}
    if record and transaction.is_ours_alone(host, record):
        outcome.link, outcome.linked, outcome.low_level = record.link, record.low_level, record.linked or ""
    if order.dry_run:
        return outcome
    if record:
        transaction.undo(host, record)
    else:
        for path, data in outcome.after.items():
            transaction.put(host, path, data)
    return outcome


def _choice(host: Host, registry: Registry, order: Order) -> Choice:
    if order.hook:
        return Choice(order.path, "")  # it edits config.json for podman's own runtime, and becomes none
    return launcher.choose(host, registry, order.path, order.low_level, fixed=order.fixed)


def _record(
    location: Location,
    registry: Registry,
    wanted: Wanted,
    choice: Choice,
    earlier: Record | None,
    files: list[undo_records.File],
) -> Record:
    linked = choice.linked
    if earlier and earlier.link == choice.link and linked == earlier.low_level:
        linked = earlier.linked  # the link is there because of us
    record = undo_records.Record(location.engine, location.config, wanted.name, registry.default, wanted.default)
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


def _foresee(
    host: Host,
    engine: Engine,
    location: Location,
    pairs: list[tuple[Registry, Registry]],
    outcome: Outcome,
    order: Order,
) -> None:
    """Refuse what would cost the engine a runtime, or its start: by our reading (before, after), and by its own."""
    if outcome.after:
        now, then = engine.preview(host, location, {}), engine.preview(host, location, outcome.after)
        if now and not then:
            program = location.program or location.engine
            text = f"{program} takes its files as they are, and would refuse them with our keys"
            remedy = "nothing was written; please report this, with what --dry-run prints"
            raise CdiError([Finding("ENGINE_CONFIG_SHAPE", text, remedy, path=location.drop_in or location.config)])
        if now and then:
            pairs.append((now, then))
    for now, then in pairs:
        lost = sorted(now.runtimes.keys() - then.runtimes.keys())
        if lost:
            text = f"with it, {location.engine} would lose the runtime{'s' * (len(lost) > 1)} {', '.join(lost)}"
            raise CdiError([Finding("RUNTIME_LOST", text, path=location.drop_in or location.config)])
        if order.name not in then.runtimes and not order.hook:
            text = f"{location.engine} would not see the runtime {order.name}: nothing that it reads imports this file"
            raise CdiError([Finding("DROP_IN_UNUSED", text, path=location.drop_in or location.config)])


def _carry_out(
    host: Host, engine: Engine, location: Location, record: Record, contents: Mapping[str, bytes | None]
) -> None:
    known = {_identity(finding) for finding in verify.findings(host, engine, location, record.name)}

    def check() -> None:
        found = verify.findings(host, engine, location, record.name)
        new = [finding for finding in found if finding.level == ERROR and _identity(finding) not in known]
        if new:
            raise CdiError(new)

    transaction.commit(host, record, contents, check)


def _identity(finding: Finding) -> tuple[str, str]:
    return finding.id, finding.text


def _stripped(host: Host, engine: Engine, location: Location, name: str) -> dict[str, bytes | None]:
    registry = engine.read(host, location)
    runtime = registry.runtimes.get(name)
    if runtime is None or not launcher.is_launcher(host, runtime.path):
        return {}
    steps = engine.edits(host, location, registry, Wanted(name, runtime.path))
    contents: dict[str, bytes | None] = {}
    for path in dict.fromkeys(edit.path for edit in steps):
        now = host.read(path)
        if now is not None:
            contents[path] = editing.revert([edit for edit in steps if edit.path == path], now, None)
    return contents


def _learn(host: Host, low_level: str) -> None:
    """Ask the low-level runtime once what it can do, so that no create has to."""
    if host.root == "/" and identity.is_rootful():
        try:
            abilities.learn(low_level, abilities.RECORD)
        except OSError:
            pass  # not known counts as no
