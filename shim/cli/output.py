"""How things are printed: tables, JSON, YAML, findings. Control characters never reach the terminal."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shim.base.findings import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.base.findings import Finding

format_option = click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the output."
)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a header, as wide as they are: a cut device name could not be copied."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    Console(width=10_000, highlight=False).print(table)  # a narrow terminal folds lines itself


def show_document(value: Any, form: str) -> None:
    """Print plain values as JSON or YAML."""
    click.echo(as_text(value, form), nl=False)


def as_text(value: Any, form: str) -> str:
    """Plain values as JSON or YAML text, ended by a newline."""
    if form == "yaml":
        import yaml  # late: only when asked for

        return str(yaml.dump(value, sort_keys=False, allow_unicode=True, Dumper=yaml.CSafeDumper))
    return json.dumps(value, indent=2) + "\n"


def show_findings(findings: Iterable[Finding]) -> None:
    """Print findings on stderr, each with its place and its remedy."""
    for finding in findings:
        click.echo(one_line(f"{finding.level} {finding.id}: {finding}"), err=True)
        click.echo(one_line(f"    {finding.remedy}"), err=True)
    sys.stderr.flush()
