"""The recipe of a migration: look at everything, show it as a plan, carry it out, or change nothing.

    sources ──> engines ──> specs ──> units

The plan is made as a dry run of every step. Where any step would fail nothing is done. The journal is saved before each
step (shim.migrate.journal); a step that fails all the same is undone, with those before it.
"""

from __future__ import annotations

import posixpath
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from shim.base.findings import ERROR, CdiError, Finding
from shim.cdi import directories, spec
from shim.discover import generate, generators, inventory, output, remembered, setup, shrink, units
from shim.discover.output import REFUSED
from shim.engines import transaction, undo_records
from shim.engines.configure import options_of
from shim.migrate import journal as journals
from shim.migrate import needed_sources, registrations, toolkits, undo
from shim.migrate.journal import Journal, Settings, Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shim.discover.model import Wish
    from shim.discover.output import Target
    from shim.engines.contract import Engine
    from shim.engines.model import Edit
    from shim.host.host import Host
    from shim.migrate.needed_sources import Source
    from shim.migrate.registrations import Registration, Use
    from shim.migrate.toolkits import Toolkit


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        toolkit: that is migrated from.
        path: the launcher.
        wish, target: of the specs; `target.takes_over` is set.
        engines: that are looked at.
        name: of our runtime.
        writes_sources: whether needed sources are switched on in our configuration.
        removes: whether the entries of the vendor's runtimes go.
        has_units: whether the units that keep specs fresh are enabled.
        dry_run: whether the plan is all.
    """

    toolkit: Toolkit
    path: str
    wish: Wish
    target: Target
    engines: Sequence[Engine]
    name: str = "shim"
    writes_sources: bool = False
    removes: bool = False
    has_units: bool = True
    dry_run: bool = False


@dataclass
class Outcome:
    """What a migration came to, or would.

    Attributes:
        is_done: whether it was carried out.
        sources: lines that our configuration needs.
        settings: path, former and new bytes of our configuration; None where it stays as it is.
        registrations: what became of each engine.
        generated: the specs.
        units: unit -> what became of it, the vendor's and ours.
        findings: of all steps.
    """

    is_done: bool = False
    sources: list[Source] = field(default_factory=list)
    settings: tuple[str, bytes | None, bytes] | None = None
    registrations: list[Registration] = field(default_factory=list)
    generated: generate.Outcome = field(default_factory=generate.Outcome)
    units: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


_SHOWN = 8  # losses, or containers, that a message names
STOPPED, WOULD_STOP = "stopped and disabled", "would be stopped and disabled"


def migrate(host: Host, request: Request, progress: Callable[[str], object] = lambda _: None) -> Outcome:
    """Make the plan of a migration, and unless it is a dry run, or would fail, carry it out.

    Arguments:
        host: the machine.
        request: what is asked for.
        progress: is called with what is being done.
    Raises:
        CdiError: MIGRATE_NOTHING where there is nothing of the toolkit; DISCOVERY_WISH, DISCOVERY_STATE; whatever a
            step failed with that did not fail in the plan, when everything is as it was again.
    """
    progress(f"looking for the toolkit of {request.toolkit.maker}")
    uses, unread = registrations.uses(host, request.toolkit, request.engines, request.name)
    if not uses and not _is_present(host, request):
        programs = " or ".join(request.toolkit.programs)
        text = f"there is nothing of the toolkit of {request.toolkit.maker} here: no {programs}, no runtime and no spec"
        raise CdiError([Finding("MIGRATE_NOTHING", text)])
    plan, change = _plan(host, request, uses, progress)
    plan.findings = [*unread, *plan.findings]
    if request.dry_run or _stops(plan):
        return plan
    earlier = journals.find(host, request.toolkit.name)
    journal = earlier or Journal(request.toolkit.name, had_inventory=host.exists(inventory.path()))
    try:
        done = _carry_out(host, request, uses, plan, change, journal, progress)
    except CdiError as error:
        if earlier:
            text = "an earlier migration is kept as it was, with what this one did before it failed"
            remedy = f"`shim runtime migrate --from {request.toolkit.name} --undo` undoes both"
            raise CdiError([*error.findings, Finding("MIGRATE_LEFT", text, remedy)]) from None
        raise CdiError([*error.findings, *undo.undo(host, request.toolkit.name).findings]) from None
    done.findings = [*unread, *done.findings]
    return done


def _is_present(host: Host, request: Request) -> bool:
    toolkit = request.toolkit
    return (
        any(host.find(program) for program in toolkit.programs)
        or bool(_specs(host, request))
        or bool(generators.units_of(host, toolkit.spec, toolkit.kind))
        or journals.find(host, toolkit.name) is not None
    )


def _stops(plan: Outcome) -> bool:
    """Whether a step would fail. Of the devices that are discovered each is on its own, and none stops the others."""
    specs = any(one.state == REFUSED for one in plan.generated.specs)
    findings = [*plan.findings, *(finding for one in plan.registrations for finding in one.outcome.findings)]
    about_devices = set(map(id, plan.generated.findings))
    return specs or any(finding.level == ERROR and id(finding) not in about_devices for finding in findings)


# --- the plan ---------------------------------------------------------------------------------------------------------


def _plan(
    host: Host, request: Request, uses: list[Use], progress: Callable[[str], object]
) -> tuple[Outcome, Edit | None]:
    """The plan, and the change of our configuration."""
    plan, change, trial = Outcome(), None, host.rehearsal()
    try:
        used, requests = needed_sources.used(host, uses)
        is_nvidia = request.toolkit.name == "nvidia"
        plan.sources = needed_sources.merged(needed_sources.explicit(host) if is_nvidia else [], used)
        plan.findings += requests
        if request.writes_sources and plan.sources:
            change = needed_sources.edit(plan.sources)
            plan.settings = (change.path, host.read(change.path), needed_sources.applied(host, change))
            trial.keep_file(change.path, plan.settings[2])
    except CdiError as error:
        plan.findings += error.findings
    for use in uses:
        try:
            done = registrations.register(trial, use, request.path, removes=request.removes, dry_run=True)
            plan.registrations.append(done)
            plan.findings += _notes(done)
        except CdiError as error:
            plan.findings += error.findings
    progress(f"looking for devices of {request.toolkit.name}")
    plan.generated = generate.generate(host, request.wish, request.target, [request.toolkit.name], dry_run=True)
    for one in plan.generated.specs:
        lost = _losses(host, one, request.target)
        one.findings += lost
        plan.generated.findings += lost
    _take_spec_findings(host, request, plan)
    if plan.generated.specs:
        plan.units = dict.fromkeys(_their_units(host, request.toolkit, plan.generated), WOULD_STOP)
        if request.has_units:
            ours, findings = setup.enable(host, dry_run=True)
            plan.units |= ours
            plan.findings += findings
    plan.findings += toolkits.leftovers(host, request.toolkit)
    return plan, change


def _take_spec_findings(host: Host, request: Request, outcome: Outcome) -> None:
    """The findings about devices and specs, and about specs of the vendor that stay."""
    outcome.generated.findings = [
        finding.as_warning() if finding.id == "DISCOVERY_NOTHING" else finding for finding in outcome.generated.findings
    ]
    outcome.findings += outcome.generated.findings
    moved = {path for one in outcome.generated.specs for path in one.in_the_way}
    for path, kind, program in _specs(host, request):
        if path not in moved:
            hooks = f"; its hooks start {program}, which must stay for it" if program else ""
            text = f"it serves {kind}, of which shim discovered no device here, and stays{hooks}"
            if request.toolkit.kind != kind:
                text = f"it serves {kind}, which no spec of shim replaces here, and stays{hooks}"
            remedy = "remove it when nothing asks for its devices any more, or keep the vendor's toolkit installed"
            outcome.findings.append(Finding("MIGRATE_LEFT", text, remedy, path=path))


def _specs(host: Host, request: Request) -> list[tuple[str, str, str]]:
    """The specs of the vendor that shim did not write: path, kind, and a program of their hooks, "" for none."""
    ours = {kept.path for kept in remembered.every(host)}
    found = []
    for directory in dict.fromkeys((*request.target.spec_dirs, request.target.directory)):
        for one in directories.read((str(host.real(directory)),)).specs:
            path = f"{directory}/{posixpath.basename(one.path)}"
            if request.toolkit.owns_kind(one.kind) and path not in ours:
                hooks = (one.document.get("containerEdits") or {}).get("hooks") or []
                found.append((path, one.kind, next((str(hook["path"]) for hook in hooks), "")))
    return found


def _losses(host: Host, one: output.SpecFile, target: Target) -> list[Finding]:
    """SPEC_SHRINKS, for each file that is moved aside and has what the new spec lacks."""
    findings = []
    for path in one.in_the_way:
        try:
            old = spec.parse(spec.read_bytes(str(host.real(path)))).document
        except CdiError:
            continue  # no engine reads it either
        lost = [*shrink.losses(old, one.document)]
        if lost and not target.may_shrink:
            shown = ", ".join(lost[:_SHOWN]) + f" and {len(lost) - _SHOWN} more" * (len(lost) > _SHOWN)
            text = f"{one.path}, which takes its place, would lose {shown}"
            findings.append(Finding("SPEC_SHRINKS", text, path=path))
    return findings


def _their_units(host: Host, toolkit: Toolkit, generated: generate.Outcome) -> list[str]:
    """The units of the vendor that write specs which shim writes from now on."""
    files = [(path, one.kind) for one in generated.specs for path in one.in_the_way]
    every = [unit for path, kind in (*files, (toolkit.spec, toolkit.kind)) for unit in _units(host, path, kind)]
    return [*dict.fromkeys(every)]


def _units(host: Host, path: str, kind: str) -> list[str]:
    return [unit for unit in generators.units_of(host, path, kind) if unit not in setup.UNITS]


def _notes(done: Registration) -> list[Finding]:
    """MIGRATE_LEFT, where an engine gives containers to the vendor's runtime as before, or has some that need it."""
    use, notes = done.use, []
    if done.left and use.is_default:
        name = use.registry.default
        text = f"{name} stays the default runtime of {use.engine.name}, for containers that name no runtime"
        remedy = f"let containers name the runtime {use.name}; --remove makes {use.name} the default in its place"
        notes.append(Finding("MIGRATE_LEFT", text, remedy, path=use.location.config))
    if use.containers:
        shown = ", ".join(container.id[:12] for container in use.containers[:_SHOWN])
        more = f" and {len(use.containers) - _SHOWN} more" if len(use.containers) > _SHOWN else ""
        text = f"containers of {use.engine.name} run under {use.containers[0].program}: {shown}{more}"
        remedy = "let them end before the toolkit is uninstalled: their exec, stop and delete call that program"
        notes.append(Finding("MIGRATE_LEFT", text, remedy))
    return notes


# --- carrying it out --------------------------------------------------------------------------------------------------


def _carry_out(
    host: Host,
    request: Request,
    uses: list[Use],
    plan: Outcome,
    change: Edit | None,
    journal: Journal,
    progress: Callable[[str], object],
) -> Outcome:
    done = Outcome(is_done=True, sources=plan.sources, settings=plan.settings)
    in_plan = {id(finding) for one in plan.generated.specs for finding in one.findings}
    about_devices = {id(finding) for finding in plan.generated.findings} | in_plan
    done.findings = [finding for finding in plan.findings if id(finding) not in about_devices]
    if change and plan.settings:
        _write_settings(host, change, plan.settings, journal)
    for use in uses:
        progress(f"registering {use.name} in {use.engine.name}")
        _remember(host, use, journal)
        registered = registrations.register(host, use, request.path, removes=request.removes, dry_run=False)
        done.registrations.append(registered)
    if not plan.generated.specs:
        done.generated = plan.generated
        done.findings += plan.generated.findings
        journals.save(host, journal)
        return done
    _remember_specs(host, plan, journal)
    done.generated = generate.generate(host, request.wish, request.target, [request.toolkit.name], progress=progress)
    if any(one.state == REFUSED for one in done.generated.specs):
        raise CdiError([finding for one in done.generated.specs for finding in one.findings])
    done.findings += done.generated.findings
    stopped = _stop_units(host, request, journal)
    done.units = {name: STOPPED for name, what in plan.units.items() if what == WOULD_STOP}
    done.units |= dict.fromkeys(stopped, STOPPED)
    if request.has_units:
        would = [name for name, what in plan.units.items() if what == setup.WOULD_ENABLE]
        journal.enabled = [*dict.fromkeys((*journal.enabled, *would))]
        journals.save(host, journal)
        ours, _ = setup.enable(host, dry_run=False)
        done.units |= ours
    return done


def _write_settings(host: Host, change: Edit, settings: tuple[str, bytes | None, bytes], journal: Journal) -> None:
    path, before, after = settings
    if before == after:
        return
    steps = [(list(step.keys), getattr(step, "value", None)) for step in change.steps]
    earlier = journal.settings
    text = None if before is None else before.decode()
    made = transaction.missing_directories(host, [path])
    journal.settings = Settings(path, text, undo_records.digest(after), steps, made)
    if earlier:  # the text before the first change stays what is restored
        journal.settings.before, journal.settings.made = earlier.before, earlier.made
        journal.settings.steps = [*earlier.steps, *steps]
    journals.save(host, journal)
    transaction.put(host, path, after)


def _remember(host: Host, use: Use, journal: Journal) -> None:
    """Note in the journal how an engine was before."""
    if any((one.engine, one.name) == (use.engine.name, use.name) for one in journal.engines):
        return
    earlier = options_of(host, use.engine, use.location, use.name)
    journal.engines.append(journals.Engine(use.engine.name, use.name, asdict(earlier) if earlier else None))
    journals.save(host, journal)


def _remember_specs(host: Host, plan: Outcome, journal: Journal) -> None:
    """Note in the journal which specs are written and moved aside."""
    known = {one.path for one in journal.specs}
    for one in plan.generated.specs:
        if one.path not in known:
            before = None if one.before is None else one.before.decode("utf-8", "surrogateescape")
            journal.specs.append(Spec(one.path, before, remembered.text(host, one.path)))
        journal.taken = [*dict.fromkeys((*journal.taken, *one.in_the_way))]
    journals.save(host, journal)


def _stop_units(host: Host, request: Request, journal: Journal) -> list[str]:
    """Stop the units of the vendor that the specs did not lead to: they would write a second spec at the next boot."""
    names = _units(host, request.toolkit.spec, request.toolkit.kind)
    found = units.look(host, names)
    journal.stopped += found
    journals.save(host, journal)
    units.stop(host, found)
    return names
