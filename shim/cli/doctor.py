"""`shim doctor`: what keeps containers from their devices."""

from __future__ import annotations

import sys

import click

from shim import doctor as doctors
from shim.base.findings import NOTE
from shim.cli import completion
from shim.cli.cdi import complete_devices
from shim.cli.output import format_option, show_document, show_finding_table, show_groups
from shim.doctor import archive
from shim.doctor.machine import Machine
from shim.doctor.model import Report
from shim.engines import table
from shim.host.host import Host


@click.command()
@click.option(
    "--device",
    default="",
    metavar="NAME",
    shell_complete=complete_devices,
    help="Why this device works here, or does not.",
)
@click.option(
    "--container",
    default="",
    metavar="NAME",
    shell_complete=completion.containers,
    help="What this container asked for, what it got, and what of that is missing now.",
)
@click.option(
    "--report",
    "file",
    default=None,
    metavar="FILE",
    shell_complete=completion.files,
    help="Save all evidence for a bug report, a .tar.gz with mode 0600, without what is personal.",
)
@click.option("--engine", type=click.Choice(list(table.ENGINES)), default=None, help="Look at this engine alone.")
@click.option("-v", "--verbose", is_flag=True, help="Also what is worth knowing and not wrong: findings of level NOTE.")
@format_option
def command(device: str, container: str, file: str | None, engine: str | None, verbose: bool, form: str) -> None:
    """Examine the whole chain from the kernel module to the container, and name each cause with its remedy.

    Looked at are the driver and its device nodes, the specs and who can change them, the engines' configuration, and
    what a create would make of each device. What only follows from another fault is a WARNING. Nothing is written.
    The exit status is 1 where there is an ERROR.

    \b
    Examples:
      shim doctor
      shim doctor --device nvidia.com/gpu=0
      shim doctor --engine docker -o json
      shim doctor --container my-container
      shim doctor --report report.tar.gz
    """
    if container and (device or engine):
        raise click.UsageError("--container goes without --device and --engine: a container has both")
    machine = Machine(Host().at_once())
    if container:
        report = doctors.examine_container(machine, container)
    else:
        report = doctors.examine(machine, device, engine or "")
    if file is not None:
        archive.write(machine, report, file)
        click.echo(f"{file}: written, without personal paths, names, UUIDs and addresses", err=True)
    if form != "table":
        show_document(report.to_json(), form)
    else:
        _show(report, has_notes=verbose or bool(container or device))
    sys.exit(report.is_broken)


def _show(report: Report, *, has_notes: bool) -> None:
    """Print the chain, and below it the findings."""
    show_groups((check.link, (check.state.lower(), check.subject, check.evidence)) for check in report.checks)
    shown = [finding for finding in report.findings if has_notes or finding.level != NOTE]
    click.echo()
    if shown:
        show_finding_table(shown)
    else:
        click.echo("nothing is wrong")
    notes = len(report.findings) - len(shown)
    if notes:
        click.echo(f"{notes} note{'s' * (notes != 1)}: see `shim doctor -v`")
