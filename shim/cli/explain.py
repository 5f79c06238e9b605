"""`shim explain`: what would be, or was, injected into a container, each edit with where it comes from."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import ERROR, CdiError, Finding, one_line
from shim.cli import describe
from shim.cli.output import format_option, show_document, show_findings, show_table
from shim.create import explain as explaining
from shim.create import record
from shim.create.invocation import Invocation
from shim.hooks import core
from shim.host import identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.create.explain import Edit, Explanation


@click.command()
@click.argument("container", required=False, metavar="[CONTAINER]")
@click.option("-b", "--bundle", metavar="DIR", help="Explain what a create of this bundle would do.")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="Ask for it, too, as create --device would.")
@click.option("--root", metavar="DIR", help="The --root of the container, where its id alone does not tell which.")
@click.option("--name", metavar="NAME", help="What shim was called as: shim, shim-crun. As above.")
@format_option
def explain(
    container: str | None, bundle: str | None, devices: tuple[str, ...], root: str | None, name: str | None, form: str
) -> None:
    """Explain what shim would do to a bundle, or has done to a container. Writes nothing into either.

    For a bundle: who asks for which device, each edit with its spec, what create's rules make of it, what is there
    already, and what would be refused; requests by variables or mounts that do not count are named. For a CONTAINER
    (its id, or the beginning of it): the record of its injection, and whether config.json still has all that. The exit
    status is 1 where a create would be refused, the configuration is wrong, or there is no record.

    \b
    Examples:
      shim explain --bundle /tmp/bundle
      shim explain --bundle . --device nvidia.com/gpu=0 -o json
      shim explain 4f6c0c2b7d1e
    """
    if (not container) == (not bundle):
        raise click.UsageError("name either a CONTAINER or a --bundle")
    if container:
        if devices:
            raise click.UsageError("--device goes with --bundle: a container has what it has")
        _explain_container(container, root, name, form)
    elif bundle:
        if root is not None or name is not None:
            raise click.UsageError("--root and --name go with a CONTAINER")
        _explain_bundle(bundle, devices, form)


def _explain_bundle(bundle: str, devices: Iterable[str], form: str) -> None:
    told = explaining.bundle(_create(bundle, devices), rootful=identity.is_rootful())
    if form != "table":
        show_document(told.to_json(), form)
    else:
        _say(told)
        if told.decision.wanted:
            show_table(("DEVICE", "ASKED FOR BY"), told.decision.wanted.items())
        _show_edits(told.edits)
    show_findings(told.findings)
    sys.exit(1 if any(finding.level == ERROR for finding in told.findings) else 0)


def _say(told: Explanation) -> None:
    if told.refused:
        click.echo("A create of this bundle is refused.")
    elif told.decision.is_sandbox:
        click.echo("This is a pod's sandbox, which is left alone.")
    elif not told.decision.wanted:
        click.echo("Nothing asks for a device: a create leaves this bundle alone.")


def _explain_container(container: str, root: str | None, name: str | None, form: str) -> None:
    entry = _find(container, root, name)
    try:
        edits = explaining.injected(entry)
    except CdiError as error:  # the container is gone, and its record not yet
        show_findings(error.findings)
        edits = explaining.recorded(entry)
    if form != "table":
        members = ("id", "name", "root", "bundle", "config", "holds", "wanted", "env")
        show_document({**{one: entry[one] for one in members}, "edits": [edit.to_json() for edit in edits]}, form)
        return
    show_table(("CONTAINER", "BUNDLE", "CALLED AS", "ROOT"), [_words(entry, "id", "bundle", "name", "root")])
    if not entry["holds"]:
        click.echo("Its config.json was written again since: exec adds no variables.")
    show_table(("DEVICE", "ASKED FOR BY"), entry["wanted"].items())
    _show_edits(edits)


def _find(container: str, root: str | None, name: str | None) -> dict[str, Any]:
    """The record of a container. Raises CdiError."""
    there = [
        entry
        for entry in record.entries(record.directory())
        if entry["id"].startswith(container) and root in (None, entry["root"]) and name in (None, entry["name"])
    ]
    found = [entry for entry in there if entry["id"] == container] or there
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(f"{one['id']} (--name {one['name']} --root '{one['root']}')" for one in found)
        raise CdiError([Finding("RECORD_MISSING", f"{container!r} can be each of {which}", "say which is meant")])
    where = record.directory() or "a directory below $XDG_RUNTIME_DIR, which is not set"
    text = f"there is no record of a container {container!r} in {where}: shim has injected nothing into it"
    raise CdiError([Finding("RECORD_MISSING", text)])


def _words(entry: dict[str, Any], *members: str) -> list[str]:
    return [entry[member] for member in members]


def _show_edits(edits: Iterable[Edit]) -> None:
    rows = [(edit.state, *describe.one(edit.kind, edit.item), _changes(edit), _origin(edit)) for edit in edits]
    if rows:
        show_table(("STATE", "EDIT", "", "BY RULE", "FROM"), rows)


def _changes(edit: Edit) -> str:
    """What create's rules have changed about an edit."""
    return ", ".join(edit.changed())


def _origin(edit: Edit) -> str:
    return f"{edit.spec}, {'all devices' if edit.device is None else f'device {one_line(edit.device)}'}"


def _create(bundle: str, devices: Iterable[str]) -> Invocation:
    """The create that an engine would call."""
    launcher = shutil.which("shim") or sys.argv[0]
    low = core.low_level(launcher, "shim", path=os.environ.get("PATH", ""))
    words = [f"low={low}", "name=shim", f"self={launcher}", "verb=create", f"bundle={bundle}"]
    return Invocation([*words, *(f"device={device}" for device in devices), "--"])
