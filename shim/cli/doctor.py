"""`shim doctor`: what keeps containers from their devices."""

from __future__ import annotations

import sys

import click

from shim import doctor as doctors
from shim.cli import completion
from shim.cli.cdi import complete_devices
from shim.cli.output import format_option, show_document, show_finding_table, show_table
from shim.doctor import archive
from shim.doctor.machine import Machine
from shim.doctor.model import OK, Report
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
@format_option
def command(device: str, container: str, file: str | None, engine: str | None, form: str) -> None:
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
    machine = Machine(Host())
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
        _show(report)
    sys.exit(report.is_broken)


def _show(report: Report) -> None:
    rows = [(check.link, check.state.lower(), check.subject, check.evidence) for check in report.checks]
    show_table(("LINK", "STATE", "WHAT", "EVIDENCE"), rows)
    if report.findings:
        click.echo()
        show_finding_table(report.findings)
    elif all(check.state == OK for check in report.checks):
        click.echo("\nnothing is wrong")
