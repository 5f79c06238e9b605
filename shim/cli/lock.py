"""`shim cdi lock`: the specs and their files as they are now, for creates that refuse anything else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shim.base import files, remedies
from shim.base.findings import ERROR, CdiError, Finding
from shim.base.paths import reason
from shim.cdi import directories
from shim.cli.cdi import all_findings
from shim.cli.files import diff
from shim.cli.output import format_option, in_full, show_diff, show_document, show_findings, show_text
from shim.config import location
from shim.create import lock_file, lock_writer
from shim.host.trust import Trust

if TYPE_CHECKING:
    from shim.config.settings import Settings

    Json = dict[str, Any]


@click.command()
@click.option("--check", is_flag=True, help="Compare with the lock that is there, and write nothing.")
@click.option("--dry-run", is_flag=True, help="Show what would change, as a diff, and write nothing.")
@format_option
def command(check: bool, dry_run: bool, form: str) -> None:
    """Write down every spec of the configuration's directories, each program of a hook and each source of a mount.

    With `[cdi] locked = true` in the configuration a create refuses whatever is not as it was then. The lock is
    cdi.lock beside the configuration file: /etc/shim/cdi.lock. A create compares size, times and inode of a file, and
    reads it only where these differ.

    \b
    Examples:
      shim cdi lock
      shim cdi lock --check
      shim cdi lock --dry-run
    """
    if check and dry_run:
        raise click.UsageError("--check compares and --dry-run shows a diff: give one of them")
    settings = location.load()
    path = lock_file.path_of(settings.path)
    served = directories.read(settings.spec_dirs, Trust())
    findings = all_findings(served)
    old, fault = _old(path)
    if check:
        if old is None:
            raise CdiError([fault])
        findings += lock_writer.differences(old, served.specs)
        state = "differs" if any(finding.level == ERROR for finding in findings) else "as it was locked"
        lock = old
    else:
        lock = _made(served)
        before, after = _text(path), lock_writer.encode(lock)
        state = "unchanged" if before == after else "would be written" if dry_run else "written"
        if state == "written":
            _write(path, after)
    if form != "table":
        counts = {"specs": len(lock["specs"]), "files": len(lock["files"]), "locked": settings.locked}
        listed = [finding.to_json() for finding in findings]
        show_document({"path": path, "state": state, **counts, "findings": listed}, form)
    else:
        counts_text = f"{_count(len(lock['specs']), 'spec')}, {_count(len(lock['files']), 'file')}"
        click.echo(in_full(f"{path}: {state}: {counts_text}"))
        if dry_run:
            show_diff(diff(before, after, path if before else "/dev/null", path))
        _advise(settings, lock if check else None)
    show_findings(findings)
    sys.exit(1 if any(finding.level == ERROR for finding in findings) else 0)


def _old(path: str) -> tuple[Json | None, Finding]:
    """The lock that is there; None with a finding where there is none."""
    remedy = "`shim cdi lock` writes it"
    try:
        objection = Trust().objection(path)
        if objection:
            return None, Finding("SPEC_UNLOCKED", f"the lock is not trusted: {objection}", remedy, path=path)
        return lock_file.read(path), Finding("SPEC_UNLOCKED", "")
    except (OSError, ValueError) as error:
        return None, Finding("SPEC_UNLOCKED", f"the lock cannot be used: {_reason(error)}", remedy, path=path)


def _reason(error: OSError | ValueError) -> str:
    return reason(error) if isinstance(error, OSError) else str(error)


def _made(served: directories.Directories) -> Json:
    try:
        return lock_writer.make(served.specs)
    except OSError as error:
        text = f"it cannot be read, so nothing was locked: {reason(error)}"
        raise CdiError(
            [Finding("SPEC_UNLOCKED", text, remedies.to_read(error), path=str(error.filename or ""))]
        ) from None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    """Write the lock, whole or not at all, readable by everybody. Raises CdiError."""
    try:
        Path(path).parent.mkdir(mode=0o755, exist_ok=True)
        files.write(path, text.encode(), keep=False, follow=False)
    except (OSError, ValueError) as error:
        text = f"the lock cannot be written: {_reason(error)}"
        remedy = remedies.to_write(error) if isinstance(error, OSError) else ""
        raise CdiError([Finding("CONFIG_WRITE", text, remedy, path=path)]) from None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _advise(settings: Settings, checked: Json | None) -> None:
    """What makes the lock count, and what makes creates quick."""
    if not settings.locked:
        show_text(
            f"no create compares with it: set locked = true below [cdi] in {settings.path or location.SYSTEM_FILE}"
        )
    moved = lock_writer.renewed(checked) if checked and settings.locked else []
    if moved:
        show_text(
            f"{_count(len(moved), 'file')} with the locked content and new times or inodes: creates read their content "
            "until `shim cdi lock` is run again"
        )
