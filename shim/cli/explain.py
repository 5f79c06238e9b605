"""`shim explain`: the edits that a create would make, or has made, each with its spec."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from shim import __version__
from shim.base.findings import ERROR, CdiError, Finding
from shim.cli import completion, containers, describe
from shim.cli.cdi import complete_devices
from shim.cli.output import show_document, show_findings, show_groups, show_table, wide_option
from shim.create import bug_report
from shim.create import explain as explaining
from shim.create.invocation import Invocation
from shim.hooks import core
from shim.host import identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.create.explain import Edit, Explanation

_TEXT = ("table", "wide")  # forms for people


@click.command()
@click.argument("container", required=False, metavar="[CONTAINER]", shell_complete=completion.containers)
@click.option(
    "-b",
    "--bundle",
    metavar="DIR",
    shell_complete=completion.folders,
    help="Explain what a create of this bundle would do.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_devices,
    help="Ask for it, too, as create --device would.",
)
@click.option("-l", "--list", "listed", is_flag=True, help="List the containers that have a record.")
@click.option("--root", metavar="DIR", help="The --root of the container, where its id alone does not tell which.")
@click.option("--name", metavar="NAME", help="What shim was called as: shim, shim-crun. As above.")
@click.option(
    "--report",
    metavar="FILE",
    shell_complete=completion.files,
    help="Save what the decision about the --bundle is made from, mode 0600.",
)
@click.option("--private", is_flag=True, help="--report without personal paths, and values that no source reads.")
@click.option(
    "--replay",
    metavar="FILE",
    shell_complete=completion.files,
    help="Decide again from such a report, on any machine; - for standard input.",
)
@wide_option
def explain(
    container: str | None,
    bundle: str | None,
    devices: tuple[str, ...],
    listed: bool,
    root: str | None,
    name: str | None,
    report: str | None,
    private: bool,
    replay: str | None,
    form: str,
) -> None:
    """Explain what shim would do to a bundle, or has done to a container. Writes nothing into either.

    For a bundle: who asks for which device, each edit with its spec, what create's rules make of it, what is there
    already, and what would be refused; requests by variables or mounts that do not count are named. For a CONTAINER
    (its id, or the beginning of it; of a CRI engine and nerdctl also its name, POD/NAME or NAMESPACE/POD/NAME): the
    record of its injection, what it warned of, and whether config.json still has it. The exit status is 1 where a
    create would be refused, the configuration is wrong, or there is no record.

    A --report holds the question, each answer of this host, and the decision: a bug report that --replay decides again
    anywhere, and says where another version of shim decides otherwise. It has the container's environment and paths,
    unless --private takes out what no device depends on. Engines remove a bundle soon after a create that failed, and
    after one that injected everything is in config.json already: save the report from a bundle made by hand.

    \b
    Examples:
      shim explain --bundle /tmp/bundle
      shim explain --bundle . --device nvidia.com/gpu=0 -o json
      shim explain --bundle . --report report.json --private
      shim explain --replay report.json
      shim explain --list
      shim explain 4f6c0c2b7d1e
      shim explain "$(docker inspect -f '{{.Id}}' NAME)"
    """
    if [bool(container), bool(bundle), bool(replay), listed].count(True) != 1:
        raise click.UsageError("name one of a CONTAINER, a --bundle and a report to --replay; or ask for the --list")
    if devices and not bundle:
        raise click.UsageError("--device goes with --bundle: a container or a report has what it has")
    if (root is not None or name is not None) and not container:
        raise click.UsageError("--root and --name go with a CONTAINER")
    if report is not None and not bundle:
        raise click.UsageError("--report goes with --bundle")
    if private and report is None:
        raise click.UsageError("--private goes with --report")
    if listed:
        _list_containers(form)
    elif container:
        _explain_container(container, root, name, form)
    elif bundle:
        _explain_bundle(bundle, devices, report, form, private=private)
    elif replay:
        _explain_report(replay, form)


def _explain_bundle(bundle: str, devices: Iterable[str], report: str | None, form: str, *, private: bool) -> None:
    explanation = explaining.bundle(_create(bundle, devices), rootful=identity.is_rootful())
    if report is not None:
        bug_report.write(bug_report.make(explanation, private=private), report)
        holds = "" if private else "; it holds the environment and the paths of the container (see --private)"
        click.echo(f"{report}: written{holds}", err=True)
    _show(explanation, explanation.to_json(), form)
    _end(explanation.findings)


def _explain_report(path: str, form: str) -> None:
    replay = bug_report.replay(bug_report.read(path), path)
    _show(replay.explanation, replay.to_json(), form)
    findings = [*replay.explanation.findings]
    if replay.differences:
        version = replay.report.version
        if form in _TEXT:
            show_table(
                ("MEMBER OF THE DECISION", f"IN THE REPORT ({version})", f"NOW ({__version__})"), replay.differences
            )
        text = f"this version ({__version__}) decides otherwise than version {version}, which wrote the report"
        findings.append(Finding("REPORT_DIFFERS", text, path=path))
    _end(findings)


def _show(explanation: Explanation, document: dict[str, Any], form: str) -> None:
    """Print an explanation, as a table or as a document."""
    if form not in _TEXT:
        show_document(document, form)
        return
    if explanation.refused:
        click.echo("A create of this bundle is refused.")
    elif explanation.decision.is_sandbox:
        click.echo("This is a pod's sandbox, which is left alone.")
    elif not explanation.decision.requests:
        click.echo("Nothing asks for a device: a create leaves this bundle alone.")
    if explanation.decision.requests:
        show_table(("DEVICE", "ASKED FOR BY"), explanation.decision.requests.items())
    _show_edits(explanation.edits, form)


def _end(findings: list[Finding]) -> NoReturn:
    """Print the findings; exit status 1 when any is an error."""
    show_findings(findings)
    sys.exit(1 if any(finding.level == ERROR for finding in findings) else 0)


def _list_containers(form: str) -> None:
    entries = containers.every()
    if form not in _TEXT:
        members = ("id", "label", "name", "root", "bundle", "wanted", "holds")
        show_document([{member: entry[member] for member in members} for entry in entries], form)
    elif entries:
        rows = [(entry["id"], entry["label"], ",".join(entry["wanted"])) for entry in entries]
        show_table(("CONTAINER", "NAME", "DEVICES"), rows)
    else:
        click.echo("No container has a record: shim has injected nothing into those that run.", err=True)


def _explain_container(container: str, root: str | None, name: str | None, form: str) -> None:
    entry = containers.find(container, root, name)
    try:
        edits = explaining.injected(entry)
    except CdiError as error:  # the container is gone, but its record still exists
        show_findings(error.findings)
        edits = explaining.recorded(entry)
    warned = explaining.warnings(entry)
    if form not in _TEXT:
        members = ("id", "name", "root", "bundle", "config", "holds", "wanted", "env")
        findings = [finding.to_json() for finding in warned]
        listed = [edit.to_json() for edit in edits]
        show_document({**{member: entry[member] for member in members}, "edits": listed, "findings": findings}, form)
        return
    show_table(("CONTAINER", "BUNDLE", "CALLED AS", "ROOT"), [_words(entry, "id", "bundle", "name", "root")])
    if not entry["holds"]:
        click.echo("Its config.json no longer has all of that: exec adds no variables.")
    show_table(("DEVICE", "ASKED FOR BY"), entry["wanted"].items())
    _show_edits(edits, form)
    show_findings(warned)


def _words(entry: dict[str, Any], *members: str) -> list[str]:
    return [entry[member] for member in members]


def _show_edits(edits: Iterable[Edit], form: str) -> None:
    """Print edits: in groups below their spec, or in a line each."""
    if form == "wide":
        rows = [(edit.state, _origin(edit), _changes(edit), *describe.edit(edit.kind, edit.item)) for edit in edits]
        if rows:
            show_table(("STATE", "FROM", "BY RULE", "EDIT", ""), rows, whole=True)
        return
    show_groups((_origin(edit), _cells(edit)) for edit in edits)


def _cells(edit: Edit) -> tuple[str, str, str]:
    label, text = describe.edit(edit.kind, edit.item)
    changes = _changes(edit)
    return edit.state, label, f"{text} [by rule: {changes}]" if changes else text


def _changes(edit: Edit) -> str:
    """The changes of an edit by create's rules, as text."""
    return ", ".join(edit.changed())


def _origin(edit: Edit) -> str:
    return f"{edit.spec}, {'all devices' if edit.device is None else f'device {edit.device}'}"


def _create(bundle: str, devices: Iterable[str]) -> Invocation:
    """The create that an engine would call."""
    launcher = shutil.which("shim") or sys.argv[0]
    low = core.low_level(launcher, "shim", path=os.environ.get("PATH", ""))
    words = [f"low={low}", "name=shim", f"self={launcher}", "verb=create", f"bundle={bundle}"]
    return Invocation([*words, *(f"device={device}" for device in devices), "--"])
