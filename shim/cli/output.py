"""Printing: tables, JSON, YAML, findings. Control characters are never written to the terminal.

Levels, diffs and headers are styled on a terminal only (click and rich leave styles out of pipes and files), and not
where NO_COLOR is set to anything (https://no-color.org) or TERM is "dumb".
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shim.base.findings import ERROR, WARNING, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeVar

    from shim.base.findings import Finding

    Command = TypeVar("Command", bound=Callable[..., Any])

_WIDEST = 1_000_000  # columns of a table: none is cut
_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)  # at a line's end, before a style's end
_LONE_OPTION = re.compile(r"--\S+")
_BLANK = "\N{NO-BREAK SPACE}"  # replaces a blank at which no line may end
_INDENT = " " * 6  # of the further lines of a row
_COLOURS = {ERROR: "red", WARNING: "yellow"}
_OF_DIFFS = {"+": "green", "-": "red", "@": "cyan"}  # by the first letter of a line of a unified diff


def form_option(
    *more: str, text: str = "Form of the output.", names: tuple[str, ...] = ("-o", "--output")
) -> Callable[[Command], Command]:
    """The option -o of a command that prints a table, JSON or YAML, and the forms `more`.

    Arguments:
        more: further forms.
        text: of the help.
        names: of the option, where --output is another one.
    """
    forms = click.Choice(["table", *more, "json", "yaml"])
    return click.option(*names, "form", type=forms, default="table", help=text)


format_option = form_option()
wide_option = form_option("wide", text="Form of the output; wide: a line for each edit, however long it is.")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, whole: bool = False) -> None:
    """Print rows under a header, in their full width: a cut device name could not be copied.

    Arguments:
        columns: the header.
        rows: a cell for each column.
        whole: print each row on a single line also on a narrower terminal; otherwise it is printed cell by cell there.
    """
    cells = [[in_full(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    width = _columns()
    if not whole and sys.stdout.isatty() and sum(widths) + 2 * len(widths) - 2 > width:
        for row in [columns, *cells]:
            kept = [cell.replace(" ", _BLANK) if cell_len(_INDENT + cell) <= width else cell for cell in row if cell]
            for line in _folded("", "  ".join(kept), width):
                shown = line.replace(_BLANK, " ").rstrip()
                click.echo(_bold(shown) if row is columns else shown)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(width=_WIDEST, highlight=False)  # a narrow terminal folds lines itself
    with console.capture() as captured:
        console.print(table)
    text = _PADDING.sub(r"\1", captured.get())
    click.echo(text if _is_styled() else click.unstyle(text), nl=False)


def _columns() -> int:
    """The columns of the terminal, 80 where there is none or it does not know: shutil of Python 3.10 then gives 0."""
    return shutil.get_terminal_size().columns or 80


def show_groups(rows: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Print rows below the title of their group, folded to the terminal's width (80 columns in a pipe).

    Arguments:
        rows: (title, cells), in order; the last cell may be long, and no word of it is cut.
    """
    listed = [(title, [in_full(cell) for cell in cells]) for title, cells in rows]
    widths = [max(map(cell_len, column)) for column in zip(*(cells[:-1] for _, cells in listed), strict=True)]
    width = _columns()
    for title, group in groupby(listed, key=lambda row: row[0]):
        click.echo(in_full(title))
        for _, (*cells, text) in group:
            padded = [cell + " " * (wide - cell_len(cell)) for cell, wide in zip(cells, widths, strict=True)]
            for line in _folded("  ".join(["", *padded, ""]), text, width):
                click.echo(line)


def _folded(start: str, text: str, width: int, indent: str = _INDENT) -> list[str]:
    """Lines of at most `width` columns, the first behind `start`, the others indented.

    A longer word has a line of its own; an option and its value stay on the same line if that is wide enough.
    """
    pieces: list[str] = []
    for word in text.split(" "):
        pair = f"{pieces[-1]} {word}" if pieces and _LONE_OPTION.fullmatch(pieces[-1]) else ""
        if pair and not word.startswith("-") and cell_len(indent + pair) <= width:
            pieces[-1] = pair
        else:
            pieces.append(word)
    lines = [start + pieces[0]]
    for piece in pieces[1:]:
        if cell_len(lines[-1]) + 1 + cell_len(piece) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(indent + piece)
    return lines


def in_full(text: str) -> str:
    """The text for a terminal, without control characters, on a single line and not cut."""
    return one_line(text, len(text))


def show_document(value: Any, form: str) -> None:
    """Print plain values as JSON or YAML."""
    click.echo(as_text(value, form), nl=False)


def as_text(value: Any, form: str) -> str:
    """Plain values as JSON or YAML text, ended by a newline."""
    if form == "yaml":
        import yaml  # late: only for -o yaml

        return str(yaml.dump(value, sort_keys=False, allow_unicode=True, Dumper=yaml.CSafeDumper))
    return json.dumps(value, indent=2) + "\n"


def show_diff(text: str) -> None:
    """Print a unified diff."""
    for line in text.splitlines(keepends=True):
        colour = None if line.startswith(("+++ ", "--- ")) else _OF_DIFFS.get(line[:1])
        click.echo(_styled(line, colour), nl=False)


def show_findings(findings: Iterable[Finding]) -> None:
    """Print findings on stderr, with path, line and remedy: a line each, on a terminal folded to its width."""
    for finding in in_order(findings):
        lines = _lines("", f"{finding.level} {finding.id}: {finding}", sys.stderr)
        click.echo("\n".join([*_coloured(finding, lines), *_remedy_lines(finding.remedy)]), err=True)
    sys.stderr.flush()


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings grouped by file, in a file by line, those about the whole file last; files in order of appearance.

    The checks of a spec run in the order of the reference library, which is not the order of the lines; but a file is
    easier to correct from the top.
    """
    listed = list(findings)
    files = {path: number for number, path in enumerate(dict.fromkeys(finding.path for finding in listed))}
    return sorted(listed, key=lambda finding: (files[finding.path], finding.line or sys.maxsize))


def _coloured(finding: Finding, lines: list[str]) -> list[str]:
    """The lines of a finding, which begin with its level."""
    return [_styled(finding.level, _COLOURS.get(finding.level)) + lines[0][len(finding.level) :], *lines[1:]]


def _styled(text: str, colour: str | None) -> str:
    return click.style(text, fg=colour) if colour and _is_styled() else text


def _bold(text: str) -> str:
    return click.style(text, bold=True) if _is_styled() else text


def _is_styled() -> bool:
    """Whether styles are allowed on a terminal; click checks for each stream whether it is a terminal."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show_finding_table(findings: Iterable[Finding]) -> None:
    """Print findings on stdout below a header, with their levels and ids in columns; folded as `show_findings`."""
    listed = in_order(findings)
    level = max(map(len, ["LEVEL", *(finding.level for finding in listed)]))
    id = max(map(len, ["ID", *(finding.id for finding in listed)]))
    header = f"{'LEVEL':{level}}  {'ID':{id}}  FINDING"
    click.echo(_bold(header))
    for finding in listed:
        start = f"{finding.level:{level}}  {finding.id:{id}}  "
        lines = _coloured(finding, _lines(start, str(finding), sys.stdout))
        indent = "    " if sys.stdout.isatty() else " " * (len(start) + 2)
        click.echo("\n".join([*lines, *_remedy_lines(finding.remedy, indent, sys.stdout)]))


def _remedy_lines(remedy: str, indent: str = "    ", stream: TextIO | None = None) -> list[str]:
    """The lines of a remedy, which may contain lines for a file: all but the first line are never folded.

    Arguments:
        remedy: its text.
        indent: of each line.
        stream: where they are printed, stderr when not given.
    """
    first, *others = remedy.split("\n")
    return [
        *_lines(indent, first, stream or sys.stderr, indent),
        *(one_line(f"{indent}{line}") for line in others if line),
    ]


def show_text(text: str) -> None:
    """Print a text on stderr: on a single line, on a terminal folded to its width."""
    click.echo("\n".join(_lines("", text, sys.stderr, "")), err=True)


def _lines(start: str, text: str, stream: TextIO, indent: str = "  ") -> list[str]:
    """A text after a start: unchanged in a pipe, folded to the width of a terminal with an indent."""
    text = one_line(text)
    return _folded(start, text, _columns(), indent) if stream.isatty() else [start + text]
