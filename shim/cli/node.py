"""`shim node`: shim on a node of Kubernetes; each command is a module of its own."""

from __future__ import annotations

import click

from shim.cli.lazy import LazyGroup

_COMMANDS = {
    "labels": "shim.cli.node_labels:command",
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def node() -> None:
    """A node of Kubernetes: its devices as resources and labels, and shim installed on it.

    \b
    Example:
      shim node labels
    """
