"""`shim cdi validate`: faults of specs by the specification, on this host, and for an engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import ERROR, CdiError, Finding
from shim.cdi import spec
from shim.cli import completion, spec_check
from shim.cli.cdi import open_dirs
from shim.cli.output import format_option, in_order, show_document, show_findings
from shim.cli.wish_options import complete_engines, repeatable
from shim.create import static_rules
from shim.create.host_rules import HostRules
from shim.create.world import World
from shim.discover import engine_fit, engine_versions
from shim.engines import launcher
from shim.host import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.cdi.advice import Rules
    from shim.cdi.decode import Path as Way


@click.command()
@click.argument("paths", nargs=-1, metavar="FILE…|DIR…|-", shell_complete=completion.files)
@click.option(
    "--host",
    is_flag=True,
    help="Check as well what this host lacks or has otherwise: nodes, numbers, owners, mounts, programs of hooks, the "
    "version of the driver. Without a FILE: in the configuration's directories.",
)
@repeatable(
    "--for",
    "engines",
    "ENGINE=VERSION",
    "Check as well what the CDI of this engine refuses: podman, docker, containerd, cri-o or buildah.",
    complete_engines,
)
@format_option
def command(paths: tuple[str, ...], host: bool, engines: tuple[str, ...], form: str) -> None:
    """Check spec files, all faults of a file at once, each with its line.

    What the CDI specification permits and a create refuses on every host is an error as well.

    A directory is checked as the runtime reads it: every spec in it, and conflicts between them. In a directory of the
    configuration owner and mode count as well, as in a create. `-` is standard input.

    \b
    Examples:
      shim cdi validate /etc/cdi
      shim cdi validate vendor.yaml other.json
      shim cdi validate --host
      shim cdi validate --for podman=4.9.3 vendor.yaml
      generate-spec | shim cdi validate -
    """
    if not paths and not host:
        raise click.UsageError("name a file or a directory; --host alone checks the configuration's directories")
    for engine in engines:
        engine_versions.highest(engine)  # refused before anything is read
    checked: dict[str, list[Finding]] = {}
    counting = _configured()
    check = _Check(_rules(host=host), engines)
    for path in paths or open_dirs(()).dirs:
        if not paths and not Path(path).exists():
            click.echo(f"{path}: missing", err=True)
        elif path == "-":
            checked["-"] = check(sys.stdin.buffer.read(), "-")
        elif Path(path).is_dir():
            specs = spec_check.directory(path, counting, check)
            checked.update(specs)
            if not specs and form == "table":
                click.echo(f"{path}: no file in it is named like a spec (*.yaml, *.json)", err=True)
        else:
            checked[path] = spec_check.file(path, counting, check)
    findings = [finding for of_file in checked.values() for finding in of_file]
    if form != "table":
        show_document(
            {path: [finding.to_json() for finding in in_order(of_file)] for path, of_file in checked.items()}, form
        )
    else:
        for path, of_file in checked.items():
            if not any(finding.level == ERROR or finding.id == "SPEC_NAME" for finding in of_file):
                click.echo(f"{path}: valid")
        show_findings(findings)
    sys.exit(1 if any(finding.level == ERROR for finding in findings) else 0)


class _Check:
    """The check of a spec's text.

    Arguments:
        rules: for a spec without faults.
        engines: words of --for.
    """

    def __init__(self, rules: Rules, engines: tuple[str, ...]) -> None:
        self._rules, self._engines = rules, engines

    def __call__(self, data: bytes, path: str) -> list[Finding]:
        findings = spec_check.text(data, path, self._rules)
        if self._engines and len(data) <= spec.MAX_SIZE:
            ours = [finding for engine in self._engines for finding in engine_fit.check(data, path, engine)]
            known = {(finding.id, finding.line) for finding in ours}  # warnings there, errors here
            findings = [finding for finding in findings if (finding.id, finding.line) not in known] + ours
        return findings


def _rules(*, host: bool) -> Rules:
    """The rules of every host, and with `host` those of this host."""
    if not host:
        return static_rules.objections
    user = os.geteuid()
    judge = HostRules(World(), launcher.installed() or sys.argv[0], rootful=identity.is_rootful(), user=user)

    def both(document: dict[str, Any], path: str) -> Iterator[tuple[Way, Finding]]:
        known = set()
        for way, finding in static_rules.objections(document, path):
            known.add((finding.id, finding.text))
            yield way, finding
        for way, finding in judge.objections(document, path):
            if (finding.id, finding.text) not in known:
                yield way, finding

    return both


def _configured() -> set[str]:
    """The directories of the configuration, without links; an empty set when it cannot be read."""
    try:
        return {os.path.realpath(path) for path in open_dirs(()).dirs}
    except CdiError:
        return set()
