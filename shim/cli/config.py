"""`shim config`: shows the configuration in effect, and prints a file to begin with."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shim.base import files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.cli import completion
from shim.cli.files import diff, keep_copy, replace
from shim.cli.output import in_full, show_diff, show_document, show_findings, show_table
from shim.config import location, reader
from shim.config.keys import KEYS
from shim.create import log
from shim.host import identity
from shim.host.trust import Trust

if TYPE_CHECKING:
    from shim.config.reader import Configuration

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@click.group()
def config() -> None:
    """Configuration: what counts here and why, and a commented file to begin with.

    \b
    Example:
      shim config show
    """


@config.command()
@click.argument("path", required=False, metavar="[FILE]", shell_complete=completion.files)
@click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json", "yaml", "toml"]), default="table", help="Form."
)
def show(path: str | None, form: str) -> None:
    """Show every key with the value that counts and where it comes from.

    FILE is read in place of the file that counts here: a draft is checked wherever it lies, and whoever may write it.
    The exit status is 1 where the configuration is refused, which stops every create that asks for a device.

    \b
    Examples:
      shim config show
      shim config show -o json | jq '.keys["cdi.spec-dirs"].value'
      shim config show -o toml /etc/nvidia-container-runtime/config.toml
    """
    counting = location.find()
    path = str(Path(path).absolute()) if path else counting
    if path == counting:
        configuration = reader.read(path) if path else reader.Configuration()
    else:
        configuration = reader.parse(path, reader.read_text(path))
        objection = Trust().objection(path)
        if objection:
            click.echo(in_full(f"{path}: it would not count there: {objection}"), err=True)
    if form == "table":
        show_table(
            ("KEY", "VALUE", "FROM"), [(name, _written(value), origin) for name, value, origin in _rows(configuration)]
        )
    elif form == "toml":
        click.echo(_toml(configuration), nl=False)
    else:
        keys = {name: {"value": value, "from": origin} for name, value, origin in _rows(configuration)}
        findings = [finding.to_json() for finding in configuration.settings.warnings]
        show_document({"file": path, "searched": list(location.candidates()), "keys": keys, "findings": findings}, form)
    show_findings(configuration.settings.warnings)


@config.command()
@click.option("--write", is_flag=True, help="Write it to the place where it counts here.")
@click.option("--to", "target", metavar="FILE", shell_complete=completion.files, help="Write it to FILE.")
@click.option("--force", is_flag=True, help="Replace a file that exists; a copy stays beside it.")
@click.option("--dry-run", is_flag=True, help="Show what would change, as a diff, and write nothing.")
def default(write: bool, target: str | None, force: bool, dry_run: bool) -> None:
    """Print a configuration file that says what holds without one: every key, its meaning, its default as a comment.

    \b
    Examples:
      shim config default
      shim config default --write
      shim config default --to ./config.toml --dry-run
    """
    if write and target:
        raise click.UsageError("--write and --to exclude each other")
    text = _default_text()
    path = Path(target or _here()).absolute()
    if not (write or target):
        click.echo(text, nl=False)
    elif dry_run:
        before = _text(path) if path.exists() else ""
        show_diff(diff(before, text, str(path), str(path)))
    elif path.exists() and not force:
        remedy = "add --force, which replaces it and keeps a copy, or compare the two by --dry-run"
        raise CdiError([Finding("SETTINGS", "it exists and is left as it is", remedy, path=str(path))])
    else:
        if path.exists():
            click.echo(f"{keep_copy(str(path))}: copy of the old file", err=True)
        _make_directory(path.parent)
        replace(str(path), text)
        click.echo(f"{path}: written", err=True)
    sys.exit(0)


def _here() -> str:
    """The path at which a file counts for this user: of $SHIM_CONFIG, else the user's own, else the system's."""
    named, *others = location.candidates()
    return named if not others else location.own_file() or location.SYSTEM_FILE


def _text(path: Path) -> str:
    try:
        return files.read(path).decode("utf-8", "backslashreplace")
    except OSError as error:
        text = f"it cannot be read: {reason(error)}"
        raise CdiError([Finding("SETTINGS", text, remedies.to_read(error), path=str(path))]) from None


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        text = f"it cannot be made: {reason(error)}"
        raise CdiError([Finding("CONFIG_WRITE", text, remedies.to_write(error), path=str(path))]) from None


def _rows(configuration: Configuration) -> list[tuple[str, Any, str]]:
    """Name, value as plain JSON, and origin of each key."""
    values = configuration.settings.to_json()
    if values["log_file"] is None:
        values["log_file"] = log.find(identity.is_rootful())
    return [(key.name, values[key.attribute], configuration.origins[key.name]) for key in KEYS]


def _written(value: Any) -> str:
    """A value as TOML, on a single line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_written(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    # a basic string of TOML is written like a string of JSON, but TOML requires DEL to be escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _written(name)


def _toml(configuration: Configuration) -> str:
    lines: list[str] = []
    for name, value, origin in _rows(configuration):
        table, _, key = name.partition(".")
        if f"[{table}]" not in lines:
            lines += [""] if lines else []
            lines.append(f"[{table}]")
        lines.append(f"{key} = {_written(value)}  # {origin}")
    return "\n".join(lines) + "\n"


def _default_text() -> str:
    lines = ["# Configuration of shim; docs/configuration.md says more. What stands here as a comment is the default."]
    for key, (name, value, _) in zip(KEYS, _rows(reader.Configuration()), strict=True):
        table, _, member = name.partition(".")
        if f"[{table}]" not in lines:
            lines += ["", f"[{table}]"]
        lines += [f"# {key.meaning}", f"#   {key.form}", f"# {member} = {_written(value)}"]
    return "\n".join(lines) + "\n"
