"""`shim runtime in-use`: what would fail without the launcher. Used by `make uninstall` and the Debian package."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from shim.base.findings import CdiError
from shim.base.paths import parent
from shim.cli.output import format_option, show_document, show_table
from shim.discover import remembered, takeover
from shim.engines import in_use, launcher, mentions, table
from shim.host.host import Host


@click.command("in-use")
@click.option("--path", default="", metavar="FILE", help="The launcher; by default that of this installation.")
@format_option
def command(path: str, form: str) -> None:
    """List what needs the launcher: engines' files and specs that name it, and containers that run under it.

    A container needs it for exec, stop and delete, also after `shim runtime remove`. The hooks of a spec are started by
    every engine. Files of other generators that --takeover moved aside are listed, too: only shim can restore them. The
    exit status is 1 where there is anything.

    \b
    Examples:
      shim runtime in-use
      shim runtime in-use --path /usr/local/bin/shim -o json
    """
    path = str(Path(path).absolute()) if path else launcher.installed()
    if not path:
        raise click.UsageError("the launcher of this installation is not found: name it with --path")
    host = Host()
    lines = mentions.of(host, path)
    specs = mentions.in_specs(host, path, _generated(host))
    taken = _taken(host)
    containers = in_use.under(host, path, table.under_launchers(host))
    if form != "table":
        users = {
            "lines": [line.to_json() for line in lines],
            "specs": [spec.to_json() for spec in specs],
            "movedAside": [{"path": record.path, "kept": record.kept} for record in taken],
            "containers": [container.to_json() for container in containers],
        }
        show_document({"launcher": path, **users}, form)
    elif lines or specs or taken or containers:
        rows = [("configuration", f"{line.path}:{line.line}", line.text) for line in lines]
        rows += [("spec", f"{spec.path}:{spec.line}", spec.text) for spec in specs]
        rows += [("moved aside", record.path, record.kept) for record in taken]
        rows += [
            (f"{container.engine} container".lstrip(), container.id, container.evidence) for container in containers
        ]
        show_table(("USER", "WHERE OR WHICH", "EVIDENCE"), rows)
    else:
        click.echo(f"nothing needs {path}")
    sys.exit(bool(lines or specs or taken or containers))


def _generated(host: Host) -> list[str]:
    """The directories of the specs that shim wrote."""
    try:
        return [parent(kept.path) for kept in remembered.every(host)]
    except CdiError:
        return []  # damaged: the usual directories are searched all the same


def _taken(host: Host) -> list[takeover.Taken]:
    """The files that were moved aside."""
    try:
        return takeover.taken(host)
    except CdiError:
        return []  # damaged: there is nothing that could be restored
