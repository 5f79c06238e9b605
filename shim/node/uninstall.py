"""The recipe of `shim node uninstall`: the way back of install.py, after which nothing of shim is on the host.

    nobody needs the launcher -> engines as before -> specs, units as before -> files, then the state of shim

It is refused while a container runs under the launcher, or a file that shim did not write names it: a container needs
its launcher for exec, stop and delete. With `force` it is removed all the same. What the administrator wrote stays:
/etc/shim/config.toml, rules and grants.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base.findings import ERROR, CdiError, Finding
from shim.discover import setup as machine_setup
from shim.engines import in_use, mentions, table, undo_records
from shim.engines import remove as removal
from shim.engines.configure import Options
from shim.node import host_root, machine, placement

if TYPE_CHECKING:
    from shim.engines.configure import Outcome
    from shim.host.host import Host
    from shim.node.wish import Wish

# What shim writes when it runs, as the Debian package removes it on purge (debian/postrm.in)
_STATE = ("/var/lib/shim", "/run/shim", "/etc/shim/low-level")
_FILES = ("/etc/shim/grants.lock",)
_LOGS = ("/var/log", "shim.log*")
_NAMED = 5  # lines that a message names


@dataclass
class Uninstalled:
    """What an uninstallation came to.

    Attributes:
        files: whether an installation was there.
        notes: sentences about files that stay.
        engines: the changes in each engine, with the options of it.
        removed: specs and other files that shim had written.
        restored: files that a takeover had moved aside.
        restarted: commands by which engines were restarted, or would be.
        findings: of all of it.
    """

    files: bool = False
    notes: list[str] = field(default_factory=list)
    engines: list[tuple[Outcome, Options]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether a finding is of level ERROR."""
        return any(finding.level == ERROR for finding in self.findings)


def uninstall(wish: Wish) -> Uninstalled:
    """Remove shim from a host.

    Arguments:
        wish: host_root, prefix, restart, force and dry_run count.
    Raises:
        CdiError: NODE_HOST_ROOT, CONTAINERS_RUNNING, NODE_NEEDED, and what `shim runtime remove` raises.
    """
    return host_root.call(wish.host_root, lambda _: _uninstall(wish))


def _uninstall(wish: Wish) -> Uninstalled:
    host = machine.host(dry_run=wish.dry_run)
    target = placement.Target(wish.prefix)
    outcome = Uninstalled(files=bool(target.trees()))
    if not wish.force:
        _refuse_running(host, wish)
        _refuse_mentions(wish)
    _remove_registrations(host, wish, outcome)
    undone = machine_setup.undo(host, dry_run=wish.dry_run)
    outcome.removed, outcome.restored = undone.removed, undone.restored
    outcome.findings += undone.findings
    if wish.restart:
        _restart(wish, outcome)
    if wish.dry_run:
        return outcome
    if outcome.files:
        placement.uninstall(target, force=True, note=outcome.notes.append)
    if not any(Path(prefix, "bin/shim").exists() for prefix in ("/usr", "/usr/local", wish.prefix)):
        outcome.removed += _remove_state()
    return outcome


def _refuse_running(host: Host, wish: Wish) -> None:
    running = in_use.under(host, wish.launcher, table.under_launchers(host))
    if running:
        effect = "their exec, stop and delete need it"
        raise CdiError([in_use.finding(running, effect, "`shim node uninstall` again, or with --force now")])


def _remove_registrations(host: Host, wish: Wish, outcome: Uninstalled) -> None:
    """Restore the files of engines that configure changed for this launcher."""
    for record in undo_records.every(host):
        engine = table.ENGINES[record.engine]
        registered = _registered(host, record)
        if registered and registered != wish.launcher and not host.is_same_file(registered, wish.launcher):
            continue  # another installation's
        options = Options(name=record.name, config=record.config, dry_run=wish.dry_run)
        outcome.engines.append((removed := removal.remove(host, engine, options), options))
        outcome.findings += removed.findings


def _registered(host: Host, record: undo_records.Record) -> str:
    """The program of a record's runtime, "" where its configuration cannot be read or lacks it."""
    engine = table.ENGINES[record.engine]
    try:
        runtime = engine.read(host, engine.locate(host, record.config)).runtimes.get(record.name)
    except CdiError:
        return ""
    return runtime.path if runtime else ""


def _refuse_mentions(wish: Wish) -> None:
    """Refuse where a file would still name the launcher, by a rehearsal. Raises CdiError: NODE_NEEDED."""
    host, outcome = machine.host(dry_run=True), Uninstalled()
    _remove_registrations(host, replace(wish, dry_run=True), outcome)
    outcome.removed = machine_setup.undo(host, dry_run=True).removed
    lines = [*mentions.of(host, wish.launcher), *mentions.in_specs(host, wish.launcher)]
    left = [line for line in lines if line.path not in outcome.removed]
    if left:
        named = "; ".join(f"{line.path}:{line.line}: {line.text}" for line in left[:_NAMED])
        more = f"; and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        raise CdiError([Finding("NODE_NEEDED", f"files name {wish.launcher}: {named}{more}", path=left[0].path)])


def _restart(wish: Wish, outcome: Uninstalled) -> None:
    for removed, _ in outcome.engines:
        engine = table.ENGINES[removed.location.engine]
        command = engine.restart_command(removed.location)
        if not removed.changed or command in outcome.restarted or engine.name == "podman":
            continue
        failure = None if wish.dry_run else machine.restart(command)
        if failure:
            outcome.findings.append(failure)
            continue
        outcome.restarted.append(command)
        outcome.findings = [finding for finding in outcome.findings if not finding.remedy.startswith(command)]


def _remove_state() -> list[str]:
    """Remove what shim wrote when it ran; the paths."""
    directory, pattern = _LOGS
    paths = [Path(path) for path in (*_STATE, *_FILES)] + sorted(Path(directory).glob(pattern))
    there = [path for path in paths if path.exists()]
    for path in there:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    try:
        Path("/etc/shim").rmdir()
    except OSError:
        pass  # it is missing, or the administrator's files are in it
    return list(map(str, there))
