"""The recipe of `shim node install`: place the files, register the runtime in engines, set up devices, restart engines.

    payload -> placed, checked by one start   -> engines configured -> specs, units -> engines restarted

It runs in the root of the host (host_root.py), and can be repeated: files that are there already stay, configure
changes nothing the second time, and an engine is restarted only where its configuration changed. A first installation
whose engines refuse is removed again. An installation that is replaced stays until the next one, so containers that are
created meanwhile, or run, do not notice (placement.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shim.base.findings import ERROR, WARNING, CdiError, Finding, from_json
from shim.engines import configure as recipe
from shim.engines import table
from shim.engines.configure import Options
from shim.node import host_root, machine, placement
from shim.node.payload import Payload
from shim.node.wish import AUTO, NONE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from shim.engines.configure import Outcome
    from shim.engines.contract import Engine
    from shim.host.host import Host
    from shim.node.wish import Wish

PLACED, PRESENT, WOULD_PLACE = "placed", "present", "would be placed"


@dataclass
class Installed:
    """What an installation came to.

    Attributes:
        files: PLACED, PRESENT or WOULD_PLACE.
        tree: the private directory, "" in a dry run.
        notes: sentences about files that stay as they are.
        engines: the changes in each engine, with the options of it.
        setup: the document of `shim device setup`, {} for none.
        restarted: commands by which engines were restarted, or would be.
        findings: of all of it.
    """

    files: str = PRESENT
    tree: str = ""
    notes: list[str] = field(default_factory=list)
    engines: list[tuple[Outcome, Options]] = field(default_factory=list)
    setup: dict[str, Any] = field(default_factory=dict)
    restarted: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether a finding is of level ERROR."""
        return any(finding.level == ERROR for finding in self.findings)


def install(wish: Wish) -> Installed:
    """Install shim on a host.

    Raises:
        CdiError: NODE_IMAGE, NODE_HOST_ROOT, NODE_PLACEMENT, ENGINE_MISSING; of a first installation also what
            configure raises. Nothing was changed then.
    """
    return host_root.call(wish.host_root, lambda top: _install(wish, top))


def _install(wish: Wish, top: Path) -> Installed:
    payload = Payload.at(top / wish.image.lstrip("/"), top)
    host = machine.host(dry_run=wish.dry_run)
    engines = _engines(host, wish)
    target = placement.Target(wish.prefix)
    installed = Installed()
    is_first = not target.trees()
    _place(wish, payload, target, installed)
    try:
        for engine in engines:
            _configure(wish, host, engine, installed)
    except CdiError:
        if is_first and not wish.dry_run and not any(outcome.changed for outcome, _ in installed.engines):
            placement.uninstall(target, force=True)
        raise
    if wish.setup and not wish.dry_run:
        _set_up(wish, installed)
    if wish.restart:
        _restart(wish, engines, installed)
    return installed


def _engines(host: Host, wish: Wish) -> Sequence[Engine]:
    if wish.engine == NONE:
        return []
    return table.present(host) if wish.engine == AUTO else [table.ENGINES[wish.engine]]


def _place(wish: Wish, payload: Payload, target: placement.Target, installed: Installed) -> None:
    if payload.is_placed(target):
        installed.tree = str(target.current())
        return
    if wish.dry_run:
        installed.files = WOULD_PLACE
        return
    try:
        tree = placement.install(payload.directory, target, payload, force=wish.force, note=installed.notes.append)
    except placement.Refusal as refusal:
        remedy = refusal.remedy or "install with --force"
        raise CdiError([Finding("NODE_PLACEMENT", str(refusal), remedy, path=wish.prefix)]) from None
    except OSError as error:
        text = f"{error.filename or wish.prefix} cannot be written: {error.strerror}"
        remedy = "name a directory of the host that can be written, for example --prefix /opt/shim"
        raise CdiError([Finding("NODE_PLACEMENT", text, remedy, path=wish.prefix)]) from None
    installed.files, installed.tree = PLACED, str(tree)


def _configure(wish: Wish, host: Host, engine: Engine, installed: Installed) -> None:
    """Register the runtime. With AUTO a containerd without CRI, which is docker's, is left out with a warning."""
    options = Options(
        name=wish.name,
        path=wish.launcher,
        low_level=wish.low_level,
        default=wish.as_default,
        cdi=wish.cdi,
        dry_run=wish.dry_run,
    )
    try:
        outcome = recipe.configure(host, engine, options)
    except CdiError as error:
        if wish.engine == AUTO and {finding.id for finding in error.findings} == {"CRI_DISABLED"}:
            installed.findings += [finding.as_warning() for finding in error.findings]
            return
        raise
    unplaced = wish.dry_run and installed.files == WOULD_PLACE
    installed.engines.append((outcome, options))
    # the launcher of a dry run is not there yet
    installed.findings += [
        finding for finding in outcome.findings if not (unplaced and finding.id == "RUNTIME_BINARY_MISSING")
    ]


def _set_up(wish: Wish, installed: Installed) -> None:
    words = ["device", "setup", *(["--no-units"] if not wish.units else [])]
    try:
        installed.setup = machine.ask_shim(wish.launcher, *words)
    except CdiError as error:
        installed.findings += error.findings
        return
    for members in installed.setup.pop("findings", ()):
        finding = from_json(members)
        installed.findings.append(finding.as_warning() if members["level"] == WARNING else finding)


def _restart(wish: Wish, engines: Sequence[Engine], installed: Installed) -> None:
    """Restart the engines whose configuration changed, or that were not restarted after an earlier change."""
    pending = [finding for finding in installed.findings if finding.id == "RESTART_NEEDED"]
    for outcome, _ in installed.engines:
        engine = next(engine for engine in engines if engine.name == outcome.location.engine)
        command = engine.restart_command(outcome.location)
        is_pending = any(finding.remedy.startswith(command) for finding in pending)
        if not (outcome.changed or is_pending) or command in installed.restarted or not _is_daemon(engine):
            continue
        failure = None if wish.dry_run else machine.restart(command)
        if failure:
            installed.findings.append(failure)
            continue
        installed.restarted.append(command)
        installed.findings = [finding for finding in installed.findings if not finding.remedy.startswith(command)]


def _is_daemon(engine: Engine) -> bool:
    """Whether the engine has a process that reads its configuration when it starts; podman has none."""
    return engine.name != "podman"
