"""`shim runtime`: register the launcher with an engine, check that, take it back; RuntimeClass manifests."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shim.base import files
from shim.base.findings import ERROR, CdiError
from shim.base.paths import reason
from shim.cli import completion, in_use, registration
from shim.cli.lazy import LazyGroup
from shim.cli.output import format_option, show_document, show_findings
from shim.engines import configure as recipe
from shim.engines import launcher, table, undo_records
from shim.engines import manifest as manifests
from shim.engines import remove as removal
from shim.engines.configure import Options, Outcome
from shim.host.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shim.engines.contract import Engine

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)

_engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", *table.ENGINES]),
    default="auto",
    show_default=True,
    help="auto: every engine that is installed or runs.",
)


def _checked_name(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter("it is made of letters, digits, - _ and ., and begins with a letter or digit")
    return name


_name_option = click.option(
    "--name", default="shim", show_default=True, callback=_checked_name, help="The runtime's name in the engine."
)
_drop_in_option = click.option(
    "--drop-in",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help="Where our keys go, for engines with drop-in files.",
)
_config_option = click.option(
    "--config",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help="The engine's main configuration file.",
)
_dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, as a diff, and write nothing.")


@click.group(cls=LazyGroup, lazy={"migrate": "shim.cli.migrate:command"})
def runtime() -> None:
    """Engines: register shim as a runtime with containerd, CRI-O, docker or podman, check that, take it back.

    \b
    Examples:
      shim runtime configure --dry-run
      shim runtime verify --engine containerd
    """


runtime.add_command(in_use.command)


@runtime.command()
@_engine_option
@_name_option
@click.option(
    "--path",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help="The launcher; by default that of this installation.",
)
@_config_option
@_drop_in_option
@click.option(
    "--low-level", default="", metavar="RUNTIME", help="runc, crun or a path; by default what the engine uses."
)
@click.option("--set-as-default", is_flag=True, help="Make it the default runtime, for every container of the engine.")
@click.option("--enable-cdi", is_flag=True, help="Switch on the engine's own CDI, with the spec directories of shim.")
@click.option("--hook", is_flag=True, help="podman: register the precreate hook instead of a runtime.")
@_dry_run_option
@format_option
def configure(
    engine: str,
    name: str,
    path: str,
    config: str,
    drop_in: str,
    low_level: str,
    set_as_default: bool,
    enable_cdi: bool,
    hook: bool,
    dry_run: bool,
    form: str,
) -> None:
    """Register shim with an engine, under a name of its own; the default runtime stays what it is.

    Only our keys are written; comments, order and everything else stay. The options of the runtime that the engine uses
    now are copied, and shim executes that runtime (/etc/shim/low-level). `remove` restores what was there. A second
    time nothing changes. Where it is refused, or the result has a new fault, nothing is changed and the status is 1.

    \b
    Examples:
      shim runtime configure --dry-run
      shim runtime configure --engine containerd
      shim runtime configure --engine docker --enable-cdi
      shim runtime configure --engine podman --low-level crun
    """
    _check_words(engine, config, drop_in)
    if hook and not (engine in table.ENGINES and table.ENGINES[engine].has_hooks):
        names = " or ".join(name for name, member in table.ENGINES.items() if member.has_hooks)
        raise click.UsageError(f"--hook goes with --engine {names}: no other engine has precreate hooks")
    path = str(Path(path).absolute()) if path else ""
    options = Options(
        name=name,
        path=path or _installed(),
        fixed=bool(path),
        config=_absolute(config),
        drop_in=_absolute(drop_in),
        low_level=low_level if "/" not in low_level else _absolute(low_level),
        default=set_as_default,
        cdi=enable_cdi,
        hook=hook,
        dry_run=dry_run,
    )
    _each(engine, lambda host, chosen: recipe.configure(host, chosen, options), options, form)


@runtime.command()
@_engine_option
@_name_option
@_config_option
@_drop_in_option
@_dry_run_option
@format_option
def remove(engine: str, name: str, config: str, drop_in: str, dry_run: bool, form: str) -> None:
    """Take shim out of an engine's configuration again.

    A file that was not changed since gets its former bytes. In one that was changed only our keys are removed.

    \b
    Examples:
      shim runtime remove --engine docker --dry-run
      shim runtime remove
    """
    _check_words(engine, config, drop_in)
    options = Options(name=name, config=_absolute(config), drop_in=_absolute(drop_in), dry_run=dry_run)
    _each(engine, lambda host, chosen: removal.remove(host, chosen, options), options, form)


@runtime.command()
@_engine_option
@_name_option
@_config_option
@_drop_in_option
@click.option(
    "--manifest",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help="Check this RuntimeClass or Pod as well; - for stdin.",
)
@format_option
def verify(engine: str, name: str, config: str, drop_in: str, manifest: str, form: str) -> None:
    """Report whether the runtime will work: what is registered, and every fault by its id with the remedy.

    The exit status is 1 where there is a finding of level ERROR. JSON and YAML are a list of engines.

    \b
    Examples:
      shim runtime verify
      shim runtime verify --engine containerd -o json
      shim runtime verify --engine crio --manifest runtimeclass.yaml
    """
    _check_words(engine, config, drop_in)
    host, files = Host(), (_absolute(config), _absolute(drop_in))
    text = _manifest_text(manifest) if manifest else ""
    reports = [
        registration.report(host, chosen, name, files, text, manifest) for chosen in _registered(host, engine, name)
    ]
    if form != "table":
        show_document(reports, form)
    else:
        for number, report in enumerate(reports):
            click.echo("\n" * bool(number), nl=False)
            registration.show_report(report)
    sys.exit(any(finding["level"] == ERROR for report in reports for finding in report["findings"]))


@runtime.command("class")
@click.option("--name", default="shim", show_default=True, help="Name of the RuntimeClass, by which Pods choose it.")
@click.option(
    "--handler", default="", metavar="NAME", help="The runtime's name in the engine; by default that of the class."
)
@click.option(
    "--node-selector", multiple=True, metavar="LABEL=VALUE", help="Its Pods come to nodes with this label only."
)
@click.option("--toleration", multiple=True, metavar="KEY[=VALUE][:EFFECT]", help="Its Pods put up with this taint.")
@click.option("--overhead", multiple=True, metavar="RESOURCE=QUANTITY", help="What a Pod costs besides its containers.")
@click.option("--pod", is_flag=True, help="Add an example Pod.")
@click.option("--resource", default="", metavar="VENDOR/NAME", help="The Pod asks a device plugin for one of these.")
def runtime_class(
    name: str,
    handler: str,
    node_selector: tuple[str, ...],
    toleration: tuple[str, ...],
    overhead: tuple[str, ...],
    pod: bool,
    resource: str,
) -> None:
    """Write a RuntimeClass, by which Pods choose the runtime, for `kubectl apply -f -`.

    Every node that its Pods can come to must have a runtime of that handler: `shim runtime configure` there, or
    --node-selector for the nodes that have it.

    \b
    Examples:
      shim runtime class
      shim runtime class --name gpu --handler shim --node-selector gpu=yes --toleration gpu:NoSchedule
      shim runtime class --pod --resource nvidia.com/gpu
    """
    if resource and not pod:
        raise click.UsageError("--resource is about the example Pod: add --pod")
    try:
        text = manifests.runtime_class(
            name,
            handler or name,
            _pairs("--node-selector", node_selector),
            [manifests.toleration(word) for word in toleration],
            _pairs("--overhead", overhead),
        )
        if pod:
            text += "---\n" + manifests.example_pod(name, resource)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(text, nl=False)


def _pairs(option: str, words: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} {word}: it has the form NAME=VALUE")
        pairs[key] = value
    return pairs


# --- configure and remove ---------------------------------------------------------------------------------------------


def _each(choice: str, act: Callable[[Host, Engine], Outcome], options: Options, form: str) -> None:
    """Call `act` for each engine, and print the results; after a refusal of an engine the others follow."""
    host, failed = Host(), False
    host = host.rehearsal() if options.dry_run else host  # an engine sees the changes of those before it
    documents: list[dict[str, Any]] = []
    engines = _chosen(host, choice)
    for engine in engines:
        try:
            outcome = act(host, engine)
        except CdiError as error:
            left_out = choice == "auto" and len(engines) > 1 and _is_without_cri(error)
            failed |= not left_out
            findings = [finding.to_json() for finding in error.findings]
            documents.append({"engine": engine.name, "changed": False, "findings": findings})
            if form == "table" and left_out:
                click.echo(f"{engine.name}: left out, its CRI plugin is switched off: it works for another engine")
            elif form == "table":
                click.echo(f"{engine.name}: nothing was changed", err=True)
                show_findings(error.findings)
            continue
        failed |= any(finding.level == ERROR for finding in outcome.findings)
        documents.append(registration.outcome_document(outcome, options))
        if form == "table":
            registration.show_outcome(outcome, options)
            show_findings(outcome.findings)
    if form != "table":
        show_document(documents, form)
    sys.exit(failed)


def _is_without_cri(error: CdiError) -> bool:
    """Whether the engine is the containerd of docker's packages, which no kubelet uses."""
    return {finding.id for finding in error.findings} == {"CRI_DISABLED"}


# --- verify -----------------------------------------------------------------------------------------------------------


def _manifest_text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else files.read(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--manifest {file}: it is not UTF-8: {error}") from None
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--manifest {file}: it cannot be read: {reason(error)}") from None


# --- which engines ----------------------------------------------------------------------------------------------------


def _chosen(host: Host, engine: str) -> Sequence[Engine]:
    return table.present(host) if engine == "auto" else [table.ENGINES[engine]]


def _registered(host: Host, engine: str, name: str) -> Sequence[Engine]:
    """The engines of this host that have the runtime; all its engines, when none has it."""
    engines = _chosen(host, engine)
    return [engine for engine in engines if _has(host, engine, name)] or engines


def _has(host: Host, engine: Engine, name: str) -> bool:
    try:
        location = engine.locate(host)
        return (
            undo_records.find(host, location.engine, location.config, name) is not None
            or name in engine.read(host, location).runtimes
        )
    except CdiError:
        return False


def _check_words(engine: str, config: str, drop_in: str) -> None:
    if engine == "auto" and (config or drop_in):
        raise click.UsageError("--config and --drop-in are files of one engine: name it with --engine")


def _installed() -> str:
    path = launcher.installed()
    if not path:
        raise click.UsageError("the launcher of this installation is not found: name it with --path")
    return path


def _absolute(path: str) -> str:
    return str(Path(path).absolute()) if path else ""
