"""What is being done, while it takes time: a line that changes on a terminal, and nothing in a pipe or a file."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CLEAR = "\r\x1b[K"


@contextmanager
def shown() -> Iterator[Callable[[str], None]]:
    """A function that shows what is being done, on stderr; what it showed is gone at the end."""
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def show(text: str) -> None:
        if is_terminal:
            click.echo(f"{_CLEAR}{text}…", err=True, nl=False)

    try:
        yield show
    finally:
        if is_terminal:
            click.echo(_CLEAR, err=True, nl=False)
