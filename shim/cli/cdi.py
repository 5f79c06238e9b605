"""`shim cdi`: reads, checks and applies specs, without a container."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import ERROR, Finding
from shim.base.nearest import nearest
from shim.cdi import advice, directories, edits, plan
from shim.cdi.directories import OK
from shim.cli import completion, describe, spec_check
from shim.cli.files import diff, read_config, replace
from shim.cli.lazy import LazyGroup
from shim.cli.output import (
    as_text,
    form_option,
    in_full,
    show_diff,
    show_document,
    show_findings,
    show_groups,
    show_table,
    show_text,
    wide_option,
)
from shim.create.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shim.cdi.types import Served

_PATTERN = frozenset("*?[")


def open_dirs(spec_dirs: Sequence[str]) -> Served:
    """The directories given on the command line, or else those of the configuration, as create sees them.

    Directories of the command line are the caller's own choice, so only those of the configuration must be trusted.
    """
    if spec_dirs:
        return directories.read(spec_dirs)
    world = World()
    served = world.served().whole()
    world.save()
    return served


complete_devices = completion.from_specs(lambda served: served.devices(), open_dirs)
_kinds = completion.from_specs(lambda served: served.kinds(), open_dirs)

spec_dir_option = click.option(
    "--spec-dir",
    "spec_dirs",
    multiple=True,
    metavar="DIR|FILE",
    shell_complete=completion.files,
    help="Spec directory, or one spec file; repeatable, the later the more important. Default: the configuration's.",
)


@click.group(
    cls=LazyGroup,
    lazy={
        "diff": "shim.cli.spec_diff:command",
        "generate": "shim.cli.generate:command",
        "lock": "shim.cli.lock:command",
        "refresh": "shim.cli.refresh:command",
        "transform": "shim.cli.transform:transform",
        "validate": "shim.cli.validate:command",
    },
)
def cdi() -> None:
    """Specs: list their devices, validate them, apply them to an OCI config.

    \b
    Example:
      shim cdi list -v
    """


@cdi.command("list")
@click.argument("kinds", nargs=-1, metavar="[KIND]…", shell_complete=_kinds)
@spec_dir_option
@click.option("-v", "--verbose", is_flag=True, help="Also shadowed and conflicting devices, and the directories.")
@form_option("name", text="Form of the output; name: device names only, one a line.")
def list_devices(kinds: tuple[str, ...], spec_dirs: tuple[str, ...], verbose: bool, form: str) -> None:
    """List the devices that can be asked for, those of each KIND (VENDOR/CLASS, or a pattern) where one is given.

    Files that were refused are named on stderr and make the exit status 1; their neighbours are listed all the same.

    \b
    Examples:
      shim cdi list
      shim cdi list nvidia.com/gpu -o name
      shim cdi list -v --spec-dir /etc/cdi
      shim cdi list -o json | jq -r '.devices[].name'
    """
    if verbose and form == "name":
        raise click.UsageError("-v and -o name exclude each other: names alone say no more of a device")
    available = open_dirs(spec_dirs)
    misnamed = [finding for path, state in available.searched if state == OK for finding in advice.misnamed(path)]
    findings = [*all_findings(available), *misnamed, *_unknown_kinds(kinds, available)]
    names = [name for name in available.devices() if _is_of(name, kinds)]
    if form == "name":
        for name in names:
            click.echo(in_full(name))
    elif form != "table":
        show_document(_listing(available, names, kinds, findings), form)
    elif verbose:
        show_table(("DEVICE", "STATE", "SPEC"), [row for row in _states(available) if _is_of(row[0], kinds)])
        show_table(("DIRECTORY", "STATE"), available.searched)
    elif names:
        show_table(("DEVICE", "SPEC"), ((name, _origin(available, name)) for name in names))
    if form in ("table", "name") and not available.devices():
        _show_search(available)
    show_findings(findings)
    sys.exit(_status(findings))


@cdi.command()
@click.argument("devices", nargs=-1, required=True, metavar="NAME…", shell_complete=complete_devices)
@spec_dir_option
@wide_option
def show(devices: tuple[str, ...], spec_dirs: tuple[str, ...], form: str) -> None:
    """Show what devices do to a container, as their specs say it, and which file says so.

    What a spec has for all its devices is shown once, before what each device has. Long lines are folded to the
    terminal's width; -o wide has one line for each edit. A NAME may be a pattern (quote it). Nothing of the host is
    looked at: `shim explain` shows what create makes of it.

    \b
    Examples:
      shim cdi show nvidia.com/gpu=0
      shim cdi show -o wide nvidia.com/gpu=0 | grep libcuda
      shim cdi show -o yaml 'vendor.com/nic=*'
    """
    available = open_dirs(spec_dirs)
    names = _matching(devices, available)
    served = [available.get(name) for name in names]
    if None in served:
        raise plan.UnresolvedError(
            [name for name, serving in zip(names, served, strict=True) if serving is None], available
        )
    shown = [
        {"name": name, "spec": serving[0].path, "edits": serving[0].devices[serving[1]], "specEdits": serving[0].edits}
        for name, serving in zip(names, served, strict=True)
        if serving
    ]
    if form == "table":
        show_groups(row for spec_path, group in _by_spec(shown).items() for row in _grouped(spec_path, group))
    elif form == "wide":
        show_table(("DEVICE", "SPEC", "EDIT", ""), [row for entry in shown for row in _edits(entry)], whole=True)
    else:
        show_document({"devices": shown}, form)


@cdi.command()
@click.argument("config", metavar="CONFIG|BUNDLE|-", shell_complete=completion.files)
@click.argument("devices", nargs=-1, required=True, metavar="NAME…", shell_complete=complete_devices)
@spec_dir_option
@click.option(
    "--to", "target", metavar="FILE", shell_complete=completion.files, help="Write to FILE instead of printing."
)
@click.option("--in-place", is_flag=True, help="Write back to CONFIG, atomically, mode and owner kept.")
@click.option("--dry-run", is_flag=True, help="Show what would change, as a diff, and write nothing.")
@click.option("-o", "--output", "form", type=click.Choice(["json", "yaml"]), default="json", help="Form of the result.")
def inject(
    config: str,
    devices: tuple[str, ...],
    spec_dirs: tuple[str, ...],
    target: str | None,
    in_place: bool,
    dry_run: bool,
    form: str,
) -> None:
    """Apply devices to an OCI config, and print the result: a plain config.json that runc takes.

    A NAME may be a pattern (quote it); one that matches nothing is an error. Nothing is printed or written unless all
    names are found.

    \b
    Examples:
      shim cdi inject config.json nvidia.com/gpu=0 > out.json
      shim cdi inject --in-place /tmp/bundle 'vendor.com/nic=*' other.com/fpga=1
      shim cdi inject --spec-dir ./vendor.yaml --dry-run config.json vendor.com/gpu=all
    """
    if in_place and (target or config == "-"):
        raise click.UsageError("--in-place writes back to CONFIG: it goes neither with --to nor with -")
    path, before = read_config(config)
    available = open_dirs(spec_dirs)
    resolved = plan.make(_matching(devices, available), available)
    text = as_text(edits.apply(resolved, before), form)
    show_findings(resolved.findings)
    destination = path if in_place else target
    if dry_run:
        show_diff(diff(as_text(before, form), text, path, destination or "result"))
    elif destination:
        replace(destination, text)
    else:
        click.echo(text, nl=False)


def _by_spec(shown: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for device in shown:
        groups.setdefault(device["spec"], []).append(device)
    return groups


def _grouped(path: str, devices: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Sequence[str]]]:
    """(title, cells) of the devices of a spec: the spec's own edits come first, in the order of application."""
    for words in describe.edits(devices[0]["specEdits"]):
        yield f"{path}, for all devices", words
    for device in devices:
        for words in describe.edits(device["edits"]):
            yield f"{path}, {device['name']}", words


def _edits(device: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Rows of a device, in the same order."""
    name, path = device["name"], device["spec"]
    rows = [(name, f"{path}, for all devices", *words) for words in describe.edits(device["specEdits"])]
    return rows + [(name, path, *words) for words in describe.edits(device["edits"])]


def _matching(wanted: Iterable[str], available: Served) -> list[str]:
    names: list[str] = []
    for word in wanted:
        matches = [name for name in available.devices() if fnmatchcase(name, word)] if _PATTERN & set(word) else []
        names.extend(name for name in matches or [word] if name not in names)
    return names


def all_findings(available: Served) -> list[Finding]:
    """What is wrong with specs and directories, a conflict once."""
    others = [
        finding for findings in available.findings.values() for finding in findings if finding.id != "SPEC_CONFLICT"
    ]
    return [*others, *spec_check.conflicts(available)]


def _status(findings: Iterable[Finding]) -> int:
    return 1 if any(finding.level == ERROR for finding in findings) else 0


def _origin(available: Served, name: str) -> str:
    served = available.get(name)
    return served[0].path if served else ""


def _states(available: Served) -> list[tuple[str, str, str]]:
    rows = [(name, "served", _origin(available, name)) for name in available.devices()]
    rows += [(name, f"shadowed by {winner}", loser) for name, loser, winner in available.shadowed]
    rows += [(name, "conflict", ", ".join(paths)) for name, paths in available.conflicts.items()]
    return sorted(rows)


def _show_search(available: Served) -> None:
    """Print which directories were searched and how to get specs; for the case that there are no devices."""
    click.echo("No spec serves a device. Searched:", err=True)
    for path, state in available.searched:
        click.echo(in_full(f"  {path}: {'no usable spec' if state == OK else state}"), err=True)
    show_text(
        "Write the specs of this host's devices: `shim device setup`. Or name other directories: --spec-dir here, "
        "spec-dirs below [cdi] in the configuration."
    )


def _is_of(name: str, kinds: Sequence[str]) -> bool:
    """Whether a qualified device name has any of the kinds, or patterns of kinds; True when none are given."""
    return not kinds or any(fnmatchcase(name.partition("=")[0], kind) for kind in kinds)


def _unknown_kinds(kinds: Sequence[str], available: Served) -> list[Finding]:
    """A finding for each kind that no spec has."""
    known = available.kinds()
    unknown = [kind for kind in kinds if not any(fnmatchcase(existing, kind) for existing in known)]
    return [Finding("DEVICE_UNKNOWN", _kind_text(kind, nearest(kind, known) or known[:3])) for kind in unknown]


def _kind_text(kind: str, others: Sequence[str]) -> str:
    return f"no spec has the kind {kind!r}" + (f"; there are {', '.join(others)}" if others else "")


def _listing(
    available: Served, names: Iterable[str], kinds: Sequence[str], findings: Iterable[Finding]
) -> dict[str, Any]:
    shadowed = [(name, loser, winner) for name, loser, winner in available.shadowed if _is_of(name, kinds)]
    conflicts = [(name, paths) for name, paths in available.conflicts.items() if _is_of(name, kinds)]
    return {
        "devices": [{"name": name, "spec": _origin(available, name)} for name in names],
        "shadowed": [{"name": name, "spec": loser, "by": winner} for name, loser, winner in shadowed],
        "conflicts": [{"name": name, "specs": paths} for name, paths in conflicts],
        "directories": [{"path": path, "state": state} for path, state in available.searched],
        "findings": [finding.to_json() for finding in findings],
    }
