"""`shim node install` and `shim node uninstall`."""

from __future__ import annotations

import re
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import CdiError
from shim.cli import completion
from shim.cli.output import format_option, show_document, show_findings
from shim.cli.registration import outcome_document, show_outcome
from shim.engines import table
from shim.node import install as installer
from shim.node import machine, payload
from shim.node import uninstall as remover
from shim.node.install import PLACED, PRESENT
from shim.node.wish import AUTO, NONE, PREFIX, Wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.engines.configure import Options, Outcome
    from shim.node.install import Installed
    from shim.node.uninstall import Uninstalled

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)

_host_root = click.option(
    "--host-root",
    default="/",
    show_default=True,
    metavar="DIR",
    shell_complete=completion.folders,
    help="Where the host's root is mounted.",
)
_prefix = click.option(
    "--prefix",
    default=PREFIX,
    show_default=True,
    metavar="DIR",
    help="Where the installation goes, as the host sees it.",
)
_restart = click.option("--restart", is_flag=True, help="Restart engines whose configuration changed.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")


def _checked_prefix(path: str) -> str:
    if not path.startswith("/"):
        raise click.UsageError("--prefix: it is an absolute path of the host")
    return path.rstrip("/")


@click.command()
@_host_root
@_prefix
@click.option(
    "--image",
    default=payload.DIRECTORY,
    show_default=True,
    metavar="DIR",
    help="The files for the host, in the image that this runs in.",
)
@click.option(
    "--engine",
    type=click.Choice([AUTO, NONE, *table.ENGINES]),
    default=AUTO,
    show_default=True,
    help="The engine to configure; auto: every engine of the host, none: place the files alone.",
)
@click.option("--name", default="shim", show_default=True, help="The runtime's name in the engine.")
@click.option("--low-level", default="", metavar="RUNTIME", help="As of runtime configure.")
@click.option("--set-as-default", is_flag=True, help="As of runtime configure.")
@click.option("--enable-cdi", is_flag=True, help="As of runtime configure.")
@_restart
@click.option("--setup", is_flag=True, help="Discover the host's devices and write their specs, as device setup does.")
@click.option("--no-units", is_flag=True, help="With --setup: leave systemd's units alone that keep specs fresh.")
@click.option("--force", is_flag=True, help="Also replace files that no installation put there.")
@click.option("--wait", "waits", is_flag=True, help="Stay until a signal, and keep the specs fresh meanwhile.")
@click.option("--uninstall-on-exit", is_flag=True, help="With --wait: uninstall when SIGTERM or SIGINT comes.")
@_dry_run
@format_option
def install(
    host_root: str,
    prefix: str,
    image: str,
    engine: str,
    name: str,
    low_level: str,
    set_as_default: bool,
    enable_cdi: bool,
    restart: bool,
    setup: bool,
    no_units: bool,
    force: bool,
    waits: bool,
    uninstall_on_exit: bool,
    dry_run: bool,
    form: str,
) -> None:
    """Install shim from this image on the host, and register it with the host's engines.

    The host needs no Python: the image brings one, with the C library that it needs. A second time nothing changes; a
    later image replaces the installation while containers are created and run. `node uninstall` takes all of it back.

    \b
    Examples:
      shim node install --host-root /host --dry-run
      shim node install --host-root /host --engine containerd --restart
      shim node install --host-root /host --restart --setup --no-units --wait
      shim node install --host-root /host --prefix /opt/shim --engine none
    """
    if not _NAME.fullmatch(name):
        raise click.UsageError("--name: it is made of letters, digits, - _ and ., and begins with a letter or digit")
    if no_units and not setup:
        raise click.UsageError("--no-units goes with --setup")
    if uninstall_on_exit and not waits:
        raise click.UsageError("--uninstall-on-exit goes with --wait")
    if waits and dry_run:
        raise click.UsageError("--wait does not go with --dry-run")
    wish = Wish(
        host_root=host_root,
        prefix=_checked_prefix(prefix),
        image=image,
        engine=engine,
        name=name,
        low_level=low_level,
        as_default=set_as_default,
        cdi=enable_cdi,
        restart=restart,
        setup=setup,
        units=not no_units,
        force=force,
        dry_run=dry_run,
    )
    end = _End() if waits else None  # before anything is done: a signal that comes meanwhile counts
    failed = _report(lambda: installer.install(wish), _install_document, _show_install, wish, form)
    if end is None or failed:
        sys.exit(failed)
    end.wait(wish)
    if uninstall_on_exit:
        failed = _report(lambda: remover.uninstall(wish), _uninstall_document, _show_uninstall, wish, form)
    sys.exit(failed)


@click.command()
@_host_root
@_prefix
@_restart
@click.option("--force", is_flag=True, help="Also while containers run under it, or files name it.")
@_dry_run
@format_option
def uninstall(host_root: str, prefix: str, restart: bool, force: bool, dry_run: bool, form: str) -> None:
    """Remove shim from the host, with all that it wrote there; engines get back the files from before.

    It is refused while containers run under it, which need it for exec, stop and delete. /etc/shim/config.toml, rules
    and grants stay, which the administrator wrote.

    \b
    Examples:
      shim node uninstall --host-root /host --dry-run
      shim node uninstall --host-root /host --restart
    """
    wish = Wish(host_root=host_root, prefix=_checked_prefix(prefix), restart=restart, force=force, dry_run=dry_run)
    sys.exit(_report(lambda: remover.uninstall(wish), _uninstall_document, _show_uninstall, wish, form))


# --- results ----------------------------------------------------------------------------------------------------------


def _report(
    act: Callable[[], Any],
    document: Callable[[Any, Wish], dict[str, Any]],
    show: Callable[[Any, Wish], None],
    wish: Wish,
    form: str,
) -> bool:
    """Do it and print the result; whether it failed."""
    try:
        outcome = act()
    except CdiError as error:
        if form == "table":
            raise
        show_document({"dryRun": wish.dry_run, "findings": [finding.to_json() for finding in error.findings]}, form)
        return True
    if form == "table":
        show(outcome, wish)
        show_findings(outcome.findings)
    else:
        show_document(document(outcome, wish), form)
    sys.stdout.flush()
    return bool(outcome.failed)


def _engines(changes: list[tuple[Outcome, Options]]) -> list[dict[str, Any]]:
    documents = [outcome_document(outcome, options) for outcome, options in changes]
    for document in documents:
        del document["findings"]  # all are in the list of the whole
    return documents


def _install_document(installed: Installed, wish: Wish) -> dict[str, Any]:
    return {
        "dryRun": wish.dry_run,
        "launcher": wish.launcher,
        "files": installed.files,
        "directory": installed.tree,
        "notes": installed.notes,
        "engines": _engines(installed.engines),
        **({"setup": installed.setup} if installed.setup else {}),
        "restarted": installed.restarted,
        "findings": [finding.to_json() for finding in installed.findings],
    }


def _show_install(installed: Installed, wish: Wish) -> None:
    click.echo(f"{wish.launcher}: {installed.files}{f', modules in {installed.tree}' if installed.tree else ''}")
    if installed.files in {PLACED, PRESENT}:
        for note in installed.notes:
            click.echo(note)
    for outcome, options in installed.engines:
        show_outcome(outcome, options)
    for spec in installed.setup.get("specs", ()):
        click.echo(f"{spec['path']}: {spec.get('state', 'written')}")
    for name, state in installed.setup.get("units", {}).items():
        click.echo(f"{name}: {state}")
    _show_restarts(installed.restarted, wish)


def _uninstall_document(outcome: Uninstalled, wish: Wish) -> dict[str, Any]:
    return {
        "dryRun": wish.dry_run,
        "launcher": wish.launcher,
        "installed": outcome.files,
        "notes": outcome.notes,
        "engines": _engines(outcome.engines),
        "removed": outcome.removed,
        "restored": outcome.restored,
        "restarted": outcome.restarted,
        "findings": [finding.to_json() for finding in outcome.findings],
    }


def _show_uninstall(outcome: Uninstalled, wish: Wish) -> None:
    would = "would be " * wish.dry_run
    for changes, options in outcome.engines:
        show_outcome(changes, options)
    for path in outcome.removed:
        click.echo(f"{path}: {would}removed")
    for path in outcome.restored:
        click.echo(f"{path}: {would}restored")
    for note in outcome.notes:
        click.echo(note)
    click.echo(f"{wish.launcher}: {f'{would}removed' if outcome.files else 'no installation is there'}")
    _show_restarts(outcome.restarted, wish)


def _show_restarts(commands: list[str], wish: Wish) -> None:
    for command in commands:
        click.echo(f"{command}: {'would be ' * wish.dry_run}done")


# --- waiting ----------------------------------------------------------------------------------------------------------


_PAUSE = 0.5  # seconds between two looks at what happened
_AGAIN = 30.0  # seconds after which a refresh that ended is started again


class _End:
    """The end of a wait, by SIGTERM or SIGINT."""

    def __init__(self) -> None:
        self._is_near = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, _number: int, _frame: object) -> None:
        self._is_near = True

    def wait(self, wish: Wish) -> None:
        """Wait for a signal; with `setup` and without units, refresh the specs meanwhile, in the host's root."""
        refresh, started = None, 0.0
        while not self._is_near:
            ended = refresh is None or refresh.poll() is not None
            if wish.setup and not wish.units and ended and time.monotonic() - started > _AGAIN * bool(started):
                refresh, started = machine.start(wish, "cdi", "refresh", "--watch"), time.monotonic()
            time.sleep(_PAUSE)
        if refresh is not None:
            refresh.terminate()
            refresh.wait()
