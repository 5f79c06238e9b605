"""`shim node`: shim on a node of Kubernetes; each command is a module of its own."""

from __future__ import annotations

import click

from shim.cli.lazy import LazyGroup

_COMMANDS = {
    "install": "shim.cli.node_install:install",
    "labels": "shim.cli.node_labels:command",
    "plugin": "shim.cli.node_plugin:plugin",
    "uninstall": "shim.cli.node_install:uninstall",
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def node() -> None:
    """A node of Kubernetes: its devices as resources and labels, and shim installed on it.

    \b
    Examples:
      shim node install --host-root /host --dry-run
      shim node labels
      shim node plugin --dry-run
    """
