"""What stops configure and remove before anything is written.

* The engine would lose a runtime, or would not find ours (check_result).
* Containers that run would be lost: another low-level runtime behind their launcher does not know them (check_link),
  and some engines look for the runtime of a container by its name at each call (check_entry).
* The engine would not start with the result, or our own registration would have no effect (stopping). Any other fault
  that was there before is reported as a WARNING: it is not ours, and configure makes it no worse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import ERROR, CdiError, Finding
from shim.engines import in_use, launcher, transaction
from shim.engines.model import STOPS_ENGINE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from shim.engines.contract import Engine
    from shim.engines.in_use import Container
    from shim.engines.launcher import Choice
    from shim.engines.model import Location, NewRuntime, Registry, Runtime
    from shim.engines.undo_records import Link, Record
    from shim.host.host import Host

# Faults with which the engine does not start, or our registration has no effect, old or new
_USELESS = {
    *("ENGINE_CONFIG_UNREADABLE", "ENGINE_CONFIG_SYNTAX", "ENGINE_CONFIG_VERSION", "CRI_DISABLED", "CONFIG_FLAG"),
    *("HANDLER_MISSING", "RUNTIME_IGNORED", "LAUNCHER_UNTRUSTED", "LOWLEVEL_MISSING"),
    *("POD_REQUESTS", "PODMAN_HOOK", "PODMAN_CHANGED", "SETTINGS", "SETTINGS_UNTRUSTED"),
}


def stopping(after: Sequence[Finding], before: Sequence[Finding]) -> list[Finding]:
    """The findings for which a result must be undone.

    Arguments:
        after: of verify, about the result.
        before: of verify, about the former configuration.
    """
    known = {(finding.id, finding.text) for finding in before}
    errors = [finding for finding in after if finding.level == ERROR]
    return [
        error
        for error in errors
        if error.id in _USELESS or error.rule == STOPS_ENGINE or (error.id, error.text) not in known
    ]


def check_result(
    host: Host,
    engine: Engine,
    location: Location,
    pairs: list[tuple[Registry, Registry]],
    changes: Mapping[str, bytes | None],
    new: NewRuntime | None,
    *,
    may_lose: Collection[str] = (),
) -> None:
    """Refuse a result in which the engine would lose a runtime, would not find ours, or not start.

    Arguments:
        host, engine, location: the machine without our keys, the engine, and where its configuration is.
        pairs: the configuration before and after, as we read it; as the engine reads it is added.
        changes: the new files.
        new: the runtime that is registered, None for a hook.
        may_lose: runtimes that are meant to go.
    Raises:
        CdiError: ENGINE_CONFIG_SHAPE, RUNTIME_LOST, DROP_IN_UNUSED.
    """
    path = location.drop_in or location.config
    if changes:
        before, after = engine.preview(host, location, {}), engine.preview(host, location, changes)
        if before and not after:
            program = location.program or location.engine
            text = f"{program} takes its files as they are, and would refuse them with our keys"
            remedy = "nothing was written; please report this, with the output of --dry-run"
            raise CdiError([Finding("ENGINE_CONFIG_SHAPE", text, remedy, path=path)])
        if before and after:
            pairs.append((before, after))
    for before, after in pairs:
        lost = sorted(before.runtimes.keys() - after.runtimes.keys() - set(may_lose))
        if lost:
            text = f"with it, {location.engine} would lose the runtime{'s' * (len(lost) > 1)} {', '.join(lost)}"
            raise CdiError([Finding("RUNTIME_LOST", text, path=path)])
        if new and new.name not in after.runtimes:
            text = f"{location.engine} would not find the runtime {new.name}: {engine.unread}"
            raise CdiError([Finding("DROP_IN_UNUSED", text, path=path)])
    ours = pairs[0][1].runtimes.get(new.name) if new else None
    if new and ours and ours.path != new.path and not host.is_same_file(ours.path, new.path):
        text = f"a file that is read later makes {ours.path or 'another program'} the runtime {new.name}"
        remedy = f"take {new.name} out of that file, or choose another name with --name"
        raise CdiError([Finding("DROP_IN_UNUSED", text, remedy, path=ours.file or path, line=ours.line)])


def check_link(host: Host, choice: Choice, running: Collection[Container]) -> None:
    """Refuse another low-level runtime behind a launcher under which containers run.

    Raises:
        CdiError: CONTAINERS_RUNNING.
    """
    present = launcher.low_level_of(host, choice.path) if choice.is_new else ""
    under = [container for container in running if container.name == launcher.last_part(choice.path)]
    if present and under and not host.is_same_file(present, choice.low_level):
        effect = f"with {choice.low_level} instead of {present} behind it, their exec, stop and delete would fail"
        raise CdiError([in_use.finding(under, effect, "run this again")])


def check_entry(host: Host, engine: Engine, entries: Sequence[Runtime | None], running: Collection[Container]) -> None:
    """Refuse a change of a runtime's entry by which an engine loses its running containers.

    Arguments:
        host, engine: the machine, and the engine.
        entries: the runtime of ours as it is registered now, and as it would be; None for not at all.
        running: containers under any launcher.
    Raises:
        CdiError: CONTAINERS_RUNNING.
    """
    before, after = entries
    if not engine.finds_runtimes_by_name or not before:
        return
    of_engine = [container for container in running if container.engine == engine.name]
    under = in_use.under(host, host.find(before.path or before.name), of_engine)
    effect = _loss(host, engine, before, after) if under else ""
    if effect:
        raise CdiError([in_use.finding(under, effect, "run this again")])


def _loss(host: Host, engine: Engine, before: Runtime, after: Runtime | None) -> str:
    lookup = f"{engine.name} looks for the runtime of a container by its name at each exec, stop and delete"
    if not after:
        return f"{lookup}, and {before.name} would be gone"
    old, new = (launcher.low_level_of(host, runtime.path) for runtime in (before, after))
    if before.path != after.path and not host.is_same_file(old, new):
        return f"{lookup}, and {before.name} would execute {new} instead of {old}, which does not know them"
    old, new = (engine.state_directory(runtime) for runtime in (before, after))
    return f"{engine.name} would look for their state in {new or 'the default directory'}" if old != new else ""


def used_links(host: Host, record: Record, running: Collection[Container]) -> set[str]:
    """The links of a record that containers need: with the former target another runtime would get their calls."""
    return {link.path for link in record.links if _users(host, link, running)}


def kept(host: Host, record: Record, running: Collection[Container]) -> list[Finding]:
    """CONTAINERS_RUNNING as a WARNING, for each link of a record that stays because of them."""
    findings = []
    for link in record.links:
        users = _users(host, link, running)
        if users and not transaction.sharers(host, record, link.path):
            effect = f"{link.path} -> {link.target} stays for them, with the launcher"
            findings.append(in_use.finding(users, effect, "`shim runtime remove` again").as_warning())
    return findings


def _users(host: Host, link: Link, running: Collection[Container]) -> list[Container]:
    users = [container for container in running if container.name == launcher.last_part(link.path)]
    if users:
        path = users[0].launcher if "/" in users[0].launcher else launcher.installed()
        later = link.former or launcher.searched(host, path, launcher.last_part(link.path))
        if not host.is_same_file(later, link.target):
            return users
    return []
