"""`shim cdi diff`: two sets of specs, or specs and the host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shim.base.findings import ERROR
from shim.cdi import compare, directories, spec
from shim.cli import completion, describe
from shim.cli.cdi import all_findings
from shim.cli.output import format_option, in_full, show_document, show_findings
from shim.cli.progress import shown
from shim.cli.wish_options import absolute
from shim.discover.against_host import STALE, AgainstHost
from shim.engines import launcher, sources
from shim.host.host import Host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.cdi.compare import Change
    from shim.cdi.directories import Directories


@click.command()
@click.argument("paths", nargs=-1, metavar="A B | --host [FILE]…", shell_complete=completion.files)
@click.option(
    "--host",
    is_flag=True,
    help="Compare each FILE, or all specs of the configuration's directories, with what `shim cdi generate` would "
    "write now.",
)
@format_option
def command(paths: tuple[str, ...], host: bool, form: str) -> None:
    """Compare specs: which devices appear, disappear or change, edit by edit. A and B are files, directories or `-`.

    Only what a container would get is compared: file names, order of keys, YAML or JSON make no difference. The exit
    status is 0 when there is no difference and 1 when there is one, or when a file cannot be read.

    With --host a spec that shim wrote is generated anew as it was the first time; one of another program is compared
    with what shim discovers for its kind.

    \b
    Examples:
      shim cdi diff /etc/cdi/nvidia.yaml new.yaml
      shim cdi diff -o json /etc/cdi /var/run/cdi
      shim cdi diff --host
      shim cdi diff --host /etc/cdi/nvidia.yaml
    """
    if host:
        _against_host(paths, form)
    if len(paths) != 2:
        raise click.UsageError("name two files or directories, or --host")
    before, after = _specs(paths[0]), _specs(paths[1])
    changes = compare.compare(before, after)
    if form != "table":
        show_document({"changes": [change.to_json() for change in changes]}, form)
    else:
        _show(changes)
    findings = [*all_findings(before), *all_findings(after)]
    show_findings(findings)
    sys.exit(1 if changes or any(finding.level == ERROR for finding in findings) else 0)


def _against_host(paths: tuple[str, ...], form: str) -> None:
    """Print what generate would write now; ends the process."""
    machine = Host()
    with shown() as show:
        judge = AgainstHost(
            machine, sources.settings_or_defaults(machine).spec_dirs, launcher.installed() or "shim", show
        )
        compared = judge.compare(map(absolute, paths)) if paths else judge.every()
    if form != "table":
        specs = [
            {
                "path": one.path,
                "writtenByShim": one.is_ours,
                "state": one.state,
                "changes": [change.to_json() for change in one.changes],
            }
            for one in compared
        ]
        show_document({"specs": specs, "findings": [finding.to_json() for finding in judge.findings]}, form)
    else:
        for one in compared:
            click.echo(in_full(f"{one.path}: {one.state}"))
            _show(one.changes)
        if not compared:
            click.echo("no spec lies in the configuration's directories: `shim cdi generate` writes them", err=True)
    show_findings(judge.findings)
    is_bad = any(one.state == STALE for one in compared) or any(one.level == ERROR for one in judge.findings)
    sys.exit(1 if is_bad else 0)


def _show(changes: Iterable[Change]) -> None:
    for change in changes:
        click.echo(in_full(f"{change.state} {change.name}"))
        for sign, edits in (("-", change.removed), ("+", change.added)):
            for kind, text in describe.edits(edits):
                click.echo(in_full(f"  {sign} {kind} {text}"))
        for kind in change.reordered:
            click.echo(f"  ~ {kind} in another order")


def _specs(name: str) -> Directories:
    """The specs of a directory, of a file with any ending, or of standard input."""
    if Path(name).is_dir():
        return directories.read([name])
    served = directories.Directories([name])
    served.add([spec.parse(sys.stdin.buffer.read(), "-") if name == "-" else spec.read(name)])
    return served
