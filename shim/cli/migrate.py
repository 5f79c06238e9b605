"""`shim runtime migrate`: from a vendor's container toolkit to shim, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import ERROR
from shim.cli import completion, registration
from shim.cli.files import diff
from shim.cli.generate import report, show_spec
from shim.cli.output import format_option, in_full, show_diff, show_document, show_findings
from shim.cli.progress import shown
from shim.discover import hook_path
from shim.discover.model import Wish
from shim.discover.output import Target
from shim.engines import launcher, sources, table
from shim.host.host import Host
from shim.migrate import recipe, registrations, undo
from shim.migrate.toolkits import TOOLKITS, driver_root

if TYPE_CHECKING:
    from shim.migrate.needed_sources import Source
    from shim.migrate.recipe import Outcome, Request
    from shim.migrate.registrations import Registration


@click.command()
@click.option(
    "--from", "vendor", type=click.Choice([*TOOLKITS]), required=True, help="Whose toolkit this machine has now."
)
@click.option(
    "--engine",
    type=click.Choice(["auto", *table.ENGINES]),
    default="auto",
    show_default=True,
    help="auto: every engine that has the vendor's runtime.",
)
@click.option("--name", default="shim", show_default=True, help="The name of our runtime in the engines.")
@click.option(
    "--path",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help="The launcher; by default that of this installation.",
)
@click.option(
    "--driver-root",
    "root",
    default="",
    metavar="DIR",
    shell_complete=completion.folders,
    help="Where the driver's files lie; by default where the vendor's configuration has them.",
)
@click.option(
    "--sources",
    "writes_sources",
    is_flag=True,
    help="Switch on in our configuration what the vendor's allows and what running containers need.",
)
@click.option(
    "--remove", "removes", is_flag=True, help="Take the vendor's runtimes out of the engines; a default becomes ours."
)
@click.option("--allow-shrink", is_flag=True, help="Replace a spec that has more devices, nodes or libraries.")
@click.option("--no-units", is_flag=True, help="Do not enable the units that keep our specs fresh.")
@click.option("--undo", "undoes", is_flag=True, help="Undo all of it, byte for byte.")
@click.option("--dry-run", is_flag=True, help="Show the plan, with diffs, and change nothing.")
@format_option
def command(
    vendor: str,
    engine: str,
    name: str,
    path: str,
    root: str,
    writes_sources: bool,
    removes: bool,
    allow_shrink: bool,
    no_units: bool,
    undoes: bool,
    dry_run: bool,
    form: str,
) -> None:
    """Take over what a vendor's container toolkit does on this machine.

    Our specs take the place of the vendor's, whose units are stopped; shim is registered in each engine that has the
    vendor's runtime, which stays beside it until --remove. Sources of requests that the vendor's runtime takes, and
    shim does not, are listed. Where a step would fail nothing is changed, and the status is 1. Restart the engines
    afterwards.

    \b
    Examples:
      shim runtime migrate --from nvidia --dry-run
      shim runtime migrate --from nvidia
      shim runtime migrate --from nvidia --sources --remove
      shim runtime migrate --from amd --undo
    """
    host = Host()
    if undoes:
        _undo(host, vendor, form, dry_run=dry_run)
        return
    toolkit = TOOLKITS[vendor]
    path = str(Path(path).absolute()) if path else launcher.installed()
    if not path:
        raise click.UsageError("the launcher of this installation is not found: name it with --path")
    root = str(Path(root).absolute()) if root else driver_root(host, toolkit)
    request = recipe.Request(
        toolkit=toolkit,
        path=path,
        wish=Wish(hook_path.checked(path), driver_root=root),
        target=Target(
            spec_dirs=tuple(sources.settings_or_defaults(host).spec_dirs), may_shrink=allow_shrink, takes_over=True
        ),
        engines=registrations.present(host) if engine == "auto" else [table.ENGINES[engine]],
        name=name,
        writes_sources=writes_sources,
        removes=removes,
        has_units=not no_units,
        dry_run=dry_run,
    )
    with shown() as show:
        outcome = recipe.migrate(host, request, show)
    findings = [*outcome.findings, *(one for done in outcome.registrations for one in done.outcome.findings)]
    findings = list({(one.id, one.text, one.path): one for one in findings}.values())
    if form == "table":
        _show(outcome, request)
    else:
        document = _document(outcome, request)
        show_document({**document, "findings": [finding.to_json() for finding in findings]}, form)
    show_findings(findings)
    is_failed = any(finding.level == ERROR for finding in findings)
    if form == "table" and not outcome.is_done and not dry_run:
        click.echo("nothing was changed", err=True)
    sys.exit(1 if is_failed else 0)


def _document(outcome: Outcome, request: Request) -> dict[str, Any]:
    is_plan = not outcome.is_done
    return {
        "from": request.toolkit.name,
        "dryRun": request.dry_run,
        "done": outcome.is_done,
        "sources": [
            {
                "key": source.key,
                "value": source.value,
                "containers": source.containers,
                "path": source.path,
                "line": source.line,
                "written": outcome.settings is not None and outcome.is_done,
            }
            for source in outcome.sources
        ],
        **(
            {"configuration": {"path": outcome.settings[0], "diff": _diff(outcome.settings)}}
            if outcome.settings
            else {}
        ),
        "engines": [
            {
                **registration.outcome_document(done.outcome, done.options),
                "stays": done.left,
                "removed": _gone(done),
            }
            for done in outcome.registrations
        ],
        "specs": report(outcome.generated, dry_run=is_plan)["specs"],
        "units": outcome.units,
    }


def _show(outcome: Outcome, request: Request) -> None:
    is_plan = not outcome.is_done
    would = "would be " * is_plan
    for source in outcome.sources:
        click.echo(in_full(_source_line(source, outcome, would)))
    if outcome.settings and is_plan:
        show_diff(_diff(outcome.settings))
    for done in outcome.registrations:
        registration.show_outcome(done.outcome, done.options)
        for name in _gone(done):
            click.echo(f"{done.use.engine.name}: the runtime {name}: {would}removed")
        for name in done.left:
            click.echo(f"{done.use.engine.name}: the runtime {name}: stays, beside {request.name}")
    if not outcome.registrations:
        click.echo(f"no engine has a runtime of {request.toolkit.maker}")
    for one in outcome.generated.specs:
        show_spec(one, outcome.generated, dry_run=is_plan)
    for name, what in outcome.units.items():
        click.echo(f"{name}: {what}")


def _source_line(source: Source, outcome: Outcome, would: str) -> str:
    value = ", ".join(source.value) if isinstance(source.value, list) else source.value
    reasons = []
    if source.path:
        line = f":{source.line}" if source.line else ""
        reasons.append(f"of {source.path}{line}")
    if source.containers:
        reasons.append(f"for {', '.join(id[:12] for id in source.containers)}")
    what = f"{would}written into {outcome.settings[0]}" if outcome.settings else "--sources writes it"
    return f"{source.key} = {value}: needed, {' and '.join(reasons)}: {what}"


def _gone(done: Registration) -> list[str]:
    return [name for name in done.use.runtimes if name in done.options.replaces]


def _diff(settings: tuple[str, bytes | None, bytes]) -> str:
    path, before, after = settings
    text = (before or b"").decode("utf-8", "replace")
    return diff(text, after.decode(), path if before is not None else "/dev/null", path)


def _undo(host: Host, vendor: str, form: str, *, dry_run: bool) -> None:
    undone = (undo.plan if dry_run else undo.undo)(host, vendor)
    would = "would be " * dry_run
    findings = [*undone.findings, *undone.notes]
    if form == "table":
        for name, what in undone.units.items():
            click.echo(f"{name}: {what}")
        for path in undone.restored:
            click.echo(in_full(f"{path}: {would}restored"))
        for path in undone.removed:
            click.echo(in_full(f"{path}: {would}removed"))
        for name in undone.engines:
            click.echo(f"{name}: {would}configured as before")
    else:
        document = {
            "from": vendor,
            "dryRun": dry_run,
            "restored": undone.restored,
            "removed": undone.removed,
            "engines": undone.engines,
            "units": undone.units,
            "findings": [finding.to_json() for finding in findings],
        }
        show_document(document, form)
    show_findings(findings)
    sys.exit(1 if undone.findings else 0)
