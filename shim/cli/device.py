"""`shim device`: the devices of this host, and a machine's first set-up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import CdiError
from shim.cli.cdi import open_dirs
from shim.cli.output import form_option, in_full, show_document, show_findings, show_table
from shim.discover import inventory, vendors
from shim.discover.model import Wish
from shim.host.host import Host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.base.findings import Finding
    from shim.discover.model import Device

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
    rows = [(entry, [name for name in entry.cdi_names if name in served]) for entry in known.devices]
    if form in ("json", "yaml"):
        devices = [{**inventory.device_to_json(entry), "servedNames": names} for entry, names in rows]
        document: dict[str, Any] = {"time": known.time, "fresh": is_fresh, "devices": devices}
        show_document({**document, "findings": [finding.to_json() for finding in findings]}, form)
    elif form == "name":
        for name in dict.fromkeys(name for _, names in rows for name in names):
            click.echo(in_full(name))
    else:
        _show(rows, is_wide=form == "wide")
        age = "the host was looked at now" if is_fresh else f"the inventory is {_age(time.time() - known.time)} old"
        click.echo(f"{len(rows)} devices; {age}", err=True)
    show_findings(findings)


def _served() -> set[str]:
    """The qualified names that specs serve; none where the configuration is broken, which other commands report."""
    try:
        return set(open_dirs(()).devices())
    except CdiError:
        return set()


def _show(rows: Sequence[tuple[Device, list[str]]], *, is_wide: bool) -> None:
    columns = ("DEVICE", "VENDOR", "MODEL", "DRIVER", "MEMORY", "PCI", "NUMA", "NAMES")
    more = ("PLATFORM", "UUID", "NODES") if is_wide else ()
    table = []
    for entry, names in rows:
        shown = names if is_wide else names[:2] + ([f"and {len(names) - 2} more"] if len(names) > 2 else [])
        cells = [entry.name, entry.vendor, entry.model, entry.driver_version, _size(entry.memory), entry.pci_address]
        cells += [str(entry.numa_node) if entry.numa_node >= 0 else "", ", ".join(shown)]
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
