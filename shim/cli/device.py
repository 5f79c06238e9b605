"""`shim device`: the devices of this host, and a machine's first set-up."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import ERROR, CdiError
from shim.cli import completion
from shim.cli.cdi import open_dirs
from shim.cli.generate import report, show_spec
from shim.cli.output import form_option, format_option, in_full, show_document, show_findings, show_table
from shim.cli.progress import shown
from shim.cli.wish_options import absolute, wish, wish_options
from shim.discover import inventory, vendors
from shim.discover import setup as machine_setup
from shim.discover.model import Wish
from shim.discover.output import DIRECTORY, Target
from shim.engines import sources
from shim.grants import reader
from shim.host.host import Host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.base.findings import Finding
    from shim.discover.model import Device
    from shim.grants.reader import Grant

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_AGES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@click.group()
def device() -> None:
    """The devices of this host.

    \b
    Example:
      shim device list
    """


@device.command("list")
@click.option("--fresh", is_flag=True, help="Look at the host now, instead of reading the inventory.")
@form_option("wide", "name", text="Form of the output; wide: every column; name: CDI names only, one a line.")
def list_devices(fresh: bool, form: str) -> None:
    """List the devices of this host, and the names by which containers can ask for them.

    Read from the inventory, which `shim device setup`, `shim cdi generate` and `shim cdi refresh` write; without one
    the host is looked at. NAMES are those that the specs of this host serve: a device without any has no spec yet.

    \b
    Examples:
      shim device list -o wide
      shim device list -o json | jq -r '.devices[] | .pciAddress'
    """
    host = Host()
    findings: list[Finding] = []
    known = None if fresh else inventory.read(host)
    is_fresh = known is None
    if known is None:
        discoveries = list(vendors.discover(host, Wish("")))
        findings = [finding for discovery in discoveries for finding in discovery.findings]
        known = inventory.of(discoveries)
    served = _served()
    granted = _granted(host, findings)
    rows = [(entry, [name for name in entry.cdi_names if name in served]) for entry in known.devices]
    if form in ("json", "yaml"):
        devices = [
            {**inventory.device_to_json(entry), "servedNames": names, "grants": _grants_of(entry, granted)}
            for entry, names in rows
        ]
        document: dict[str, Any] = {"time": known.time, "fresh": is_fresh, "devices": devices}
        show_document({**document, "findings": [finding.to_json() for finding in findings]}, form)
    elif form == "name":
        for name in dict.fromkeys(name for _, names in rows for name in names):
            click.echo(in_full(name))
    else:
        _show(rows, granted, is_wide=form == "wide")
        age = "the host was looked at now" if is_fresh else f"the inventory is {_age(time.time() - known.time)} old"
        click.echo(f"{len(rows)} devices; {age}", err=True)
    show_findings(findings)


@device.command()
@wish_options
@click.option("--spec-dir", default="", metavar="DIR", shell_complete=completion.folders, help="As of cdi generate.")
@click.option("--allow-shrink", is_flag=True, help="As of cdi generate.")
@click.option("--takeover", "takes_over", is_flag=True, help="As of cdi generate.")
@click.option("--no-units", is_flag=True, help="Leave the units alone that keep the specs fresh.")
@click.option("--undo", is_flag=True, help="Remove what shim wrote, and restore what it moved aside and stopped.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@format_option
def setup(
    wanted: tuple[str, ...],
    spec_dir: str,
    allow_shrink: bool,
    takes_over: bool,
    no_units: bool,
    undo: bool,
    dry_run: bool,
    form: str,
    **options: Any,
) -> None:
    """Set up this machine: discover its devices, write inventory and specs, and keep them fresh.

    On a machine without devices the inventory is empty, and specs are written once a driver comes. It can be done again
    at any time. The engine is configured by `shim runtime configure`.

    \b
    Examples:
      shim device setup --dry-run
      shim device setup --takeover
      shim device setup --undo
    """
    host = Host()
    if undo:
        _undo(host, form, dry_run=dry_run)
        return
    target = Target(
        directory=absolute(spec_dir) or DIRECTORY,
        spec_dirs=tuple(sources.settings_or_defaults(host).spec_dirs),
        may_shrink=allow_shrink,
        takes_over=takes_over,
    )
    with shown() as show:
        outcome = machine_setup.set_up(
            host,
            wish(**options),
            target,
            wanted or (vendors.AUTO,),
            has_units=not no_units,
            dry_run=dry_run,
            progress=show,
        )
    if form == "table":
        for one in outcome.generated.specs:
            show_spec(one, outcome.generated, dry_run=dry_run)
        count = len(outcome.generated.devices)
        click.echo(f"{inventory.path()}: {'would be ' * dry_run}written: {count} device{'s' * (count != 1)}")
        for name, what in outcome.units.items():
            click.echo(f"{name}: {what}")
    else:
        document = {
            "dryRun": dry_run,
            "inventory": {
                "path": inventory.path(),
                "devices": [inventory.device_to_json(entry) for entry in outcome.generated.devices],
            },
            "specs": report(outcome.generated, dry_run=dry_run)["specs"],
            "units": outcome.units,
            "findings": [finding.to_json() for finding in outcome.findings],
        }
        show_document(document, form)
    show_findings(outcome.findings)
    sys.exit(1 if any(finding.level == ERROR for finding in outcome.findings) else 0)


def _undo(host: Host, form: str, *, dry_run: bool) -> None:
    undone = machine_setup.undo(host, dry_run=dry_run)
    if form == "table":
        would = "would be " * dry_run
        for path in undone.removed:
            click.echo(in_full(f"{path}: {would}removed"))
        for path in undone.restored:
            click.echo(in_full(f"{path}: {would}restored"))
        for name, what in undone.units.items():
            click.echo(f"{name}: {what}")
        if not (undone.removed or undone.restored or undone.units):
            click.echo("nothing was set up here")
    else:
        show_document(
            {
                "dryRun": dry_run,
                "removed": undone.removed,
                "restored": undone.restored,
                "units": undone.units,
                "findings": [finding.to_json() for finding in undone.findings],
            },
            form,
        )
    show_findings(undone.findings)
    sys.exit(1 if undone.findings else 0)


def _served() -> set[str]:
    """The qualified names that specs serve; none where the configuration is broken, which other commands report."""
    try:
        return set(open_dirs(()).devices())
    except CdiError:
        return set()


def _granted(host: Host, findings: list[Finding]) -> list[Grant]:
    """The grants in force; a finding where the file does not count."""
    if not host.exists(reader.FILE):
        return []
    try:
        return reader.read(str(host.real(reader.FILE))).all
    except CdiError as error:
        findings += [finding.as_warning() for finding in error.findings]
        return []


def _grants_of(entry: Device, granted: Sequence[Grant]) -> list[dict[str, Any]]:
    """The grants of a device by any of its names."""
    return [
        {"subject": grant.subject, "device": grant.device, "exclusive": grant.is_exclusive}
        for grant in granted
        if grant.device in entry.cdi_names
    ]


def _show(rows: Sequence[tuple[Device, list[str]]], granted: Sequence[Grant], *, is_wide: bool) -> None:
    has_grants = any(_grants_of(entry, granted) for entry, _ in rows)
    columns = ("DEVICE", "VENDOR", "MODEL", "DRIVER", "MEMORY", "PCI", "NUMA", "NAMES", *(["GRANTED TO"] * has_grants))
    more = ("PLATFORM", "UUID", "NODES") if is_wide else ()
    table = []
    for entry, names in rows:
        shown = names if is_wide else names[:2] + ([f"and {len(names) - 2} more"] if len(names) > 2 else [])
        cells = [entry.name, entry.vendor, entry.model, entry.driver_version, _size(entry.memory), entry.pci_address]
        cells += [str(entry.numa_node) if entry.numa_node >= 0 else "", ", ".join(shown)]
        subjects = dict.fromkeys(grant["subject"] for grant in _grants_of(entry, granted))
        cells += [", ".join(subjects)] * has_grants
        table.append([*cells, *([entry.platform, entry.uuid, ", ".join(entry.nodes)] if is_wide else ())])
    show_table((*columns, *more), table)


def _size(memory: int) -> str:
    """Bytes as people read them, "" for none."""
    size = float(memory)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if memory else ""
        size /= 1024
    return ""


def _age(seconds: float) -> str:
    return next((f"{seconds // length:.0f} {unit}" for length, unit in _AGES if seconds >= length), "0 s")
