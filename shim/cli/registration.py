"""The output of `shim runtime`: plain values for JSON and YAML, text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import CdiError, from_json
from shim.cli.files import diff
from shim.cli.output import in_order, show_diff, show_finding_table, show_table
from shim.engines import manifest as manifests
from shim.engines import verify as verifier

if TYPE_CHECKING:
    from shim.engines.configure import Options, Outcome
    from shim.engines.contract import Engine
    from shim.engines.model import Registry
    from shim.host.host import Host


def outcome_document(outcome: Outcome, options: Options) -> dict[str, Any]:
    """The changes of a command, or of a dry run, as plain values."""
    files = [{"path": path, "diff": _diff(outcome, path)} for path in outcome.after]
    released = [{"path": path, "before": old, "after": new} for path, (old, new) in outcome.released.items()]
    link = {"path": outcome.link, "before": outcome.linked, "after": outcome.low_level or None}
    return {
        "engine": outcome.location.engine,
        "name": options.name,
        "changed": outcome.changed and not options.dry_run,
        "files": files,
        **({"link": link} if outcome.link else {}),
        **({"released_links": released} if outcome.released else {}),
        **({"lost_requests": [lost.to_json() for lost in outcome.lost]} if outcome.lost else {}),
        "findings": [finding.to_json() for finding in outcome.findings],
    }


def show_outcome(outcome: Outcome, options: Options) -> None:
    """Print the changes; for a dry run the diff."""
    engine = outcome.location.engine
    if not outcome.changed:
        click.echo(f"{engine}: nothing to change")
    for path, data in outcome.after.items():
        if options.dry_run:
            show_diff(_diff(outcome, path))
        else:
            click.echo(f"{engine}: {path} {'removed' if data is None else 'written'}")
    if outcome.link:
        arrow = f"{outcome.link} -> {outcome.low_level}" if outcome.low_level else f"{outcome.link} removed"
        before = f" (before: {outcome.linked})" if outcome.linked else ""
        click.echo(f"{engine}: {'would be: ' * options.dry_run}{arrow}{before}")
    for path, (former, later) in outcome.released.items():
        arrow = f"{path} -> {later}" if later else f"{path} removed"
        click.echo(f"{engine}: {'would be: ' * options.dry_run}{arrow} (before: {former})")


def _diff(outcome: Outcome, path: str) -> str:
    before, after = outcome.before[path], outcome.after[path]
    names = (path if before is not None else "/dev/null", path if after is not None else "/dev/null")
    return diff(_text(before), _text(after), *names)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def report(host: Host, engine: Engine, name: str, files: tuple[str, str], text: str, file: str) -> dict[str, Any]:
    """The report of `verify` on one engine, as plain values.

    Arguments:
        name: the runtime.
        files: the engine's main file, and the file for our keys; "" for the default paths.
        text: a manifest to check, "" for none.
        file: the manifest's name.
    """
    try:
        location = engine.locate(host, *files)
        registry = engine.read(host, location)
        findings = verifier.findings(host, engine, location, name)
    except CdiError as error:
        return {"engine": engine.name, "findings": [finding.to_json() for finding in error.findings]}
    try:
        findings += manifests.check(text, host, engine, registry, file) if text else []
    except CdiError as error:
        findings += error.findings
    return {
        "engine": engine.name,
        "config": location.config,
        "files": registry.files,
        "registration": _registration(registry, name),
        "default": registry.default,
        "runtimes": [_runtime(registry, runtime) for runtime in registry.runtimes],
        "findings": [finding.to_json() for finding in in_order(findings)],
    }


def _registration(registry: Registry, name: str) -> dict[str, Any]:
    """The five facts of a registration, from the files; null for values that they do not set."""
    runtime = registry.runtimes.get(name)
    return {
        "config_version": registry.config_version or None,
        "runtime": runtime.path or None if runtime else None,
        "runtime_type": runtime.type or None if runtime else None,
        "systemd_cgroup": runtime.systemd_cgroup if runtime else None,
        "handler": name if runtime else None,
        **({"hook": registry.hook} if registry.hook else {}),
    }


def _runtime(registry: Registry, name: str) -> dict[str, Any]:
    runtime = registry.runtimes[name]
    option = {"option": runtime.option} if runtime.option else {}
    return {
        "name": name,
        "path": runtime.path,
        "type": runtime.type,
        "file": runtime.file,
        "line": runtime.line,
        **option,
    }


def show_report(report: dict[str, Any]) -> None:
    """Print a report: the five facts of the registration, the runtimes, the findings."""
    click.echo(f"# {report['engine']}: {report.get('config', 'not read')}")
    if "registration" in report:
        for key, value in report["registration"].items():
            click.echo(
                f"{key.upper()}={'' if value is None else str(value).lower() if isinstance(value, bool) else value}"
            )
        rows = [
            (
                f"{runtime['name']}{' (default)' * (runtime['name'] == report['default'])}",
                runtime["path"],
                runtime["type"],
                _where(runtime),
            )
            for runtime in report["runtimes"]
        ]
        show_table(("RUNTIME", "PROGRAM", "TYPE", "FILE"), rows)
    show_finding_table(map(from_json, report["findings"]))


def _where(runtime: dict[str, Any]) -> str:
    if "option" in runtime:
        return f"{runtime['option']} of the running daemon"
    return f"{runtime['file']}:{runtime['line']}" if runtime["line"] else str(runtime["file"] or "(built in)")
