"""`shim grant`: which subject may use which device."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from shim.base.findings import ERROR, CdiError, Finding
from shim.cli import files, grant_holders
from shim.cli.cdi import complete_devices, open_dirs
from shim.cli.output import format_option, in_full, show_diff, show_document, show_findings, show_table
from shim.cli.wish_options import repeatable
from shim.grants import audit, reader
from shim.grants.store import Outcome, Store
from shim.host.host import Host

if TYPE_CHECKING:
    from shim.cdi.types import Served
    from shim.cli.completion import Items
    from shim.cli.grant_holders import Holder


def _subjects(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The subjects that have grants, for shells."""
    try:
        subjects = dict.fromkeys(grant.subject for grant in reader.read().all)
    except CdiError:
        return []
    return [CompletionItem(subject) for subject in subjects if subject.startswith(incomplete)]


def _granted(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The devices of the subject on the command line, for shells."""
    try:
        names = sorted(reader.read().names(context.params.get("subject") or ""))
    except CdiError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


_subject = click.argument("subject", shell_complete=_subjects)
_dry_run = click.option("--dry-run", is_flag=True, help="Show the difference in the file, and change nothing.")
_stop = click.option("--stop", "stops", is_flag=True, help="Stop the running containers that have the device.")


@click.group()
def grant() -> None:
    """Grant devices to subjects, by exact name.

    A subject is a name of the operator's choice, for a repository or a team. What is granted counts from the next
    container on; nothing is restarted. The grants are in /etc/shim/grants.json, every change in
    /var/log/shim/audit.jsonl.

    \b
    Examples:
      shim grant add repo-a --device nvidia.com/gpu=0
      shim grant list
    """


@grant.command()
@_subject
@repeatable("--device", "devices", "KIND=NAME", "A device; repeatable: all are granted, or none.", complete_devices)
@click.option(
    "--exclusive/--shared",
    "exclusive",
    default=None,
    help="Reserve the hardware: no other subject may have it, by whatever name. Without either a grant stays as it is.",
)
@click.option("--name-only", is_flag=True, help="Compare the names with those of other subjects, not the hardware.")
@_dry_run
@format_option
def add(
    subject: str, devices: tuple[str, ...], exclusive: bool | None, name_only: bool, dry_run: bool, form: str
) -> None:
    """Grant devices to a subject.

    A name must be one that the specs of this host serve. What is granted already is no change. A pattern is not
    possible: `all` is a name of its own, and has the devices that its spec gives it.

    \b
    Examples:
      shim grant add repo-a --device nvidia.com/gpu=0 --device nvidia.com/gpu=1
      shim grant add repo-b --device nvidia.com/gpu=2 --exclusive
    """
    _check_devices(devices)
    outcome = Store().add(subject, devices, _specs, exclusive=exclusive, name_only=name_only, dry_run=dry_run)
    _report(outcome, "granted to", form, dry_run=dry_run)


@grant.command()
@_subject
@repeatable("--device", "devices", "KIND=NAME", "A device; repeatable: all are revoked, or none.", _granted)
@_stop
@_dry_run
@format_option
def revoke(subject: str, devices: tuple[str, ...], stops: bool, dry_run: bool, form: str) -> None:
    """Take devices from a subject.

    It counts from the next create or start on. Running containers keep the device; they are listed, and stopped with
    --stop, by the client of their engine.

    \b
    Examples:
      shim grant revoke repo-a --device nvidia.com/gpu=0
      shim grant revoke repo-a --device nvidia.com/gpu=0 --stop
    """
    _check_devices(devices)
    outcome = Store().revoke(subject, devices, dry_run=dry_run)
    _report(outcome, "revoked from", form, dry_run=dry_run, ends=True, stops=stops)


@grant.command()
@_subject
@_stop
@_dry_run
@format_option
def purge(subject: str, stops: bool, dry_run: bool, form: str) -> None:
    """Take everything from a subject, for example when its repository is removed.

    \b
    Example:
      shim grant purge repo-a --stop
    """
    outcome = Store().purge(subject, dry_run=dry_run)
    _report(outcome, "revoked from", form, dry_run=dry_run, ends=True, stops=stops)


@grant.command()
@_subject
@click.argument("new")
@_dry_run
@format_option
def rename(subject: str, new: str, dry_run: bool, form: str) -> None:
    """Move the grants of a subject to another name, which has none.

    There is no copy: a fork of a repository is another subject, and begins without grants.

    \b
    Example:
      shim grant rename repo-a team-a
    """
    outcome = Store().rename(subject, new, dry_run=dry_run)
    _report(outcome, f"moved to {new} from", form, dry_run=dry_run)


@grant.command("list")
@click.argument("subjects", nargs=-1, shell_complete=_subjects, metavar="[SUBJECT]...")
@format_option
def list_grants(subjects: tuple[str, ...], form: str) -> None:
    """List the grants, of all subjects or of some. SERVED is whether a spec serves the name now.

    \b
    Examples:
      shim grant list
      shim grant list repo-a -o json
    """
    grants = reader.read()
    listed = [one for one in grants.all if not subjects or one.subject in subjects]
    findings: list[Finding] = []
    try:
        names = set(_specs().devices())
    except CdiError as error:  # of the configuration; the grants can be listed all the same
        findings, names = error.findings, set()
    if form != "table":
        entries = [{**one.entry, "served": one.device in names} for one in listed]
        show_document({"serial": grants.serial, "grants": entries}, form)
    elif listed:
        rows = [
            (
                one.subject,
                one.device,
                ("exclusive" if one.is_exclusive else "shared") + ", by name" * one.is_by_name,
                "yes" if one.device in names else "no",
                str(one.entry.get("since", "")),
                str(one.entry.get("by", "")),
            )
            for one in listed
        ]
        show_table(("SUBJECT", "DEVICE", "USE", "SERVED", "SINCE", "BY"), rows)
    else:
        click.echo(f"nothing is granted{' to ' + ', '.join(subjects) if subjects else ''}", err=True)
    show_findings(findings)


@grant.command()
@click.argument("subjects", nargs=-1, shell_complete=_subjects, metavar="[SUBJECT]...")
@format_option
def log(subjects: tuple[str, ...], form: str) -> None:
    """Show the changes of the grants, and verify that no line of the log is missing.

    \b
    Examples:
      shim grant log
      shim grant log repo-a -o json
    """
    lines, findings = audit.read(audit.FILE)
    findings += audit.verify(lines, reader.read().serial, audit.FILE)
    shown = [line for line in lines if not subjects or {line.get("subject"), line.get("to")} & set(subjects)]
    if form != "table":
        show_document({"changes": shown, "findings": [finding.to_json() for finding in findings]}, form)
    elif shown:
        columns = ("SERIAL", "TIME", "BY", "CHANGE", "SUBJECT", "DEVICES")
        show_table(columns, [_line(line) for line in shown])
    else:
        click.echo("no change is logged", err=True)
    show_findings(findings)
    sys.exit(any(finding.level == ERROR for finding in findings))


def _line(line: dict[str, Any]) -> tuple[str, ...]:
    """The cells of a line of the log."""
    what = f"{line['op']} (of {line.get('of')})" if line["op"] == audit.ABANDONED else str(line["op"])
    if "exclusive" in line:
        what += " exclusive" if line["exclusive"] else " shared"
    subject = f"{line.get('subject', '')} -> {line['to']}" if "to" in line else str(line.get("subject", ""))
    devices = line.get("devices")
    names = " ".join(map(str, devices)) if isinstance(devices, list) else ""
    return str(line["serial"]), str(line.get("time", "")), str(line.get("by", "")), what, subject, names


def _specs() -> Served:
    return open_dirs(())


def _check_devices(devices: tuple[str, ...]) -> None:
    if not devices:
        raise click.UsageError("name a device: --device KIND=NAME, repeatable")


def _report(outcome: Outcome, did: str, form: str, *, dry_run: bool, ends: bool = False, stops: bool = False) -> None:
    """Print what a change did, and the containers that still have what was taken; exit.

    Arguments:
        outcome: of the store.
        did: what was done with each device, in front of the subject.
        form: of the output.
        dry_run: whether nothing was done.
        ends: whether grants ended.
        stops: whether containers that still have a device are stopped.
    """
    holders: list[Holder] = []
    if ends:
        devices = {device for _, device in outcome.changed}
        subject = next((subject for subject, _ in outcome.changed), "")
        holders = grant_holders.find(Host(), subject, devices, reader.parse(outcome.after.encode()))
    done = grant_holders.stop(holders) if stops and not dry_run else True
    if form != "table":
        changed = [{"subject": subject, "device": device} for subject, device in outcome.changed]
        document = {"dryRun": dry_run, "serial": outcome.serial, "changed": changed}
        show_document({**document, **({"running": [one.to_json() for one in holders]} if ends else {})}, form)
        sys.exit(not done)
    if dry_run:
        show_diff(files.diff(outcome.before, outcome.after, reader.FILE, reader.FILE))
    for subject, device in outcome.changed:
        click.echo(in_full(f"{device}: {'would be ' * dry_run}{did} {subject}"))
    if not outcome.changed:
        click.echo("nothing changes: it is granted already")
    if holders:
        _show_holders(holders, stops=stops, dry_run=dry_run)
    sys.exit(not done)


def _show_holders(holders: list[Holder], *, stops: bool, dry_run: bool) -> None:
    count = f"{len(holders)} running container{'s' * (len(holders) > 1)}"
    rest = "" if stops else "; stop with --stop, or by the commands below"
    click.echo(f"{count} keep{'s' * (len(holders) == 1)} the device until stopped{rest}:")
    rows = []
    for one in holders:
        name = f"{one.id} ({one.label})" if one.label else one.id
        state = one.result or ("would be stopped" if stops and dry_run else one.how)
        if not one.result and one.others:
            state += f" (or a container of {', '.join(one.others)})"
        rows.append((one.engine, name, " ".join(one.devices), state))
    show_table(("ENGINE", "CONTAINER", "DEVICES", "STOP"), rows)
