"""`shim cdi refresh`: the specs that shim wrote, kept as the host is."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import CdiError
from shim.cli.generate import changes
from shim.cli.output import as_text, format_option, in_full, show_diff, show_document, show_findings
from shim.cli.progress import shown
from shim.discover import refresh
from shim.discover.refresh import FAILED, FRESH, NOTHING, STALE, WAITING, WRITTEN, Outcome
from shim.discover.watch import Watch
from shim.engines import sources
from shim.host.host import Host

if TYPE_CHECKING:
    from shim.discover.refresh import Refreshed

_RETRY = 30.0  # seconds after which --watch tries again what failed or waits
_NOT_READY = 3  # exit status


@click.command()
@click.option("--require", is_flag=True, help="End with status 3 where a driver is not there yet.")
@click.option("--watch", is_flag=True, help="Go on, and refresh whenever the host has changed, within two seconds.")
@click.option(
    "--allow-shrink", is_flag=True, help="Let a spec lose devices, nodes or libraries that the host still has."
)
@click.option("--dry-run", is_flag=True, help="Show what would change, as a diff, and write nothing.")
@format_option
def command(require: bool, watch: bool, allow_shrink: bool, dry_run: bool, form: str) -> None:
    """Write the specs anew that `shim cdi generate` wrote and that the host has outdated; the others stay untouched.

    Each is generated as it was the first time. Where a driver is not there yet its spec stays, and the exit status is
    0: the units that shim ships start this again when the driver comes. Devices that the host no longer has are taken
    out of their spec, with a warning. With --watch and -o json there is one line of JSON for each refresh.

    \b
    Examples:
      shim cdi refresh
      shim cdi refresh --dry-run
      shim cdi refresh --require -o json
      shim cdi refresh --watch
    """
    if watch and (dry_run or require):
        raise click.UsageError("--watch goes on for ever: it goes neither with --dry-run nor with --require")
    host = Host()
    if watch:
        _watch(host, form, may_shrink=allow_shrink)
    with shown() as show:
        outcome = _refresh(host, may_shrink=allow_shrink, dry_run=dry_run, progress=show)
    if form != "table":
        show_document(report(outcome, dry_run=dry_run), form)
    elif outcome.state == NOTHING:
        click.echo("shim wrote no spec here: `shim cdi generate` does")
    for refreshed in outcome.specs if form == "table" else ():
        _show(refreshed)
        if dry_run and refreshed.spec is not None:
            show_diff(changes(refreshed.spec))
    show_findings(outcome.findings)
    sys.exit(1 if outcome.state == FAILED else _NOT_READY if require and outcome.state == WAITING else 0)


def _refresh(host: Host, **options: Any) -> Outcome:
    return refresh.refresh(host, sources.settings_or_defaults(host).spec_dirs, **options)


def _watch(host: Host, form: str, *, may_shrink: bool) -> None:
    """Refresh at each change of the host, until a signal ends this process."""
    watch = Watch(host)
    reported: dict[str, Any] = {}
    while True:
        try:
            outcome = _refresh(host, may_shrink=may_shrink)
        except CdiError as error:  # another process writes specs, for instance
            outcome = Outcome(findings=error.findings)
        watch.forgive(refreshed.path for refreshed in outcome.specs)
        document = report(outcome, dry_run=False)
        if document != reported or outcome.state == WRITTEN:
            reported = document
            if form == "table":
                for refreshed in outcome.specs:
                    if refreshed.state != FRESH:
                        _show(refreshed)
                show_findings(outcome.findings)
            else:
                click.echo(json.dumps(document) if form == "json" else f"---\n{as_text(document, form)}".rstrip())
            sys.stdout.flush()
        watch.wait(_RETRY if outcome.state in {FAILED, WAITING} else None)


def report(outcome: Outcome, *, dry_run: bool) -> dict[str, Any]:
    """What was refreshed, or would be, as plain values."""
    return {
        "state": outcome.state,
        "specs": [
            {
                "path": refreshed.path,
                "vendor": refreshed.vendor,
                "kind": refreshed.kind,
                "state": refreshed.state,
                **({"waitsFor": refreshed.waits_for} if refreshed.waits_for else {}),
                **({"losses": refreshed.spec.losses} if refreshed.spec and refreshed.spec.losses else {}),
                **({"diff": changes(refreshed.spec)} if refreshed.spec and dry_run else {}),
            }
            for refreshed in outcome.specs
        ],
        "findings": [finding.to_json() for finding in outcome.findings],
    }


def _show(refreshed: Refreshed) -> None:
    state = "would be written" if refreshed.state == STALE else refreshed.state
    cause = f" ({refreshed.waits_for})" if refreshed.waits_for else ""
    click.echo(in_full(f"{refreshed.path}: {state}{cause}"))
