"""`shim version`: the installed versions."""

from __future__ import annotations

import platform
import sys

import click

from shim import __version__
from shim.cdi.versions import KNOWN
from shim.cli.output import format_option, show_document


@click.command()
@format_option
def version(form: str) -> None:
    """Show the version of shim, of its Python, and the CDI versions that it reads.

    The low-level runtime has its own: `shim --version` asks it.

    \b
    Example:
      shim version -o json
    """
    versions = {
        "version": __version__,
        "cdi": list(KNOWN),
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "modules": __file__.removesuffix("/shim/cli/version.py"),
    }
    if form != "table":
        show_document(versions, form)
        return
    click.echo(f"shim {__version__}")
    click.echo(f"CDI {KNOWN[0]} to {KNOWN[-1]}")
    click.echo(f"Python {versions['python']} ({versions['interpreter']}), modules in {versions['modules']}")
