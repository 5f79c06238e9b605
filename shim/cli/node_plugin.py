"""`shim node plugin`: serves devices to the kubelet of this node, and shows what it would serve."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import ERROR, CdiError, Finding
from shim.base.paths import reason
from shim.cli import completion
from shim.cli.output import format_option, show_document, show_findings, show_table
from shim.engines.sources import settings_of
from shim.grants.reader import FILE as GRANTS
from shim.host import privileges, sockets
from shim.host.host import Host
from shim.node import settings as node_settings
from shim.node.plugin import form as forms
from shim.node.plugin import kubelet
from shim.node.plugin.journal import Journal
from shim.node.plugin.snapshot import Observer

if TYPE_CHECKING:
    from shim.config.settings import Settings
    from shim.node.plugin.form import Form
    from shim.node.plugin.snapshot import ResourceState, Snapshot, UnitState

_UMASK = 0o077  # of the sockets: the kubelet is root


@click.command()
@click.option(
    "--config",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help=f"Resources; default: {node_settings.FILE} of the host, which may be missing.",
)
@click.option(
    "--spec-dir",
    "spec_dirs",
    multiple=True,
    metavar="DIR",
    shell_complete=completion.files,
    help="Spec directory; repeatable, the later the more important. Default: the configuration's.",
)
@click.option(
    "--kubelet-dir",
    default=kubelet.DIRECTORY,
    show_default=True,
    metavar="DIR",
    shell_complete=completion.folders,
    help="Where the kubelet has kubelet.sock.",
)
@click.option("--kubelet-version", default="", metavar="VERSION", help="Of the kubelet, where its program is not seen.")
@click.option(
    "--host-root",
    default="/",
    metavar="DIR",
    shell_complete=completion.folders,
    help="The host's root, in a container. --config, --kubelet-dir and --metrics are paths here, the others there.",
)
@click.option(
    "--grants", default=GRANTS, metavar="FILE", help="The grants of the host: what is exclusive is not served."
)
@click.option("--metrics", default="", metavar="SOCK|HOST:PORT", help="Serve counters there, in Prometheus's format.")
@click.option("--dry-run", is_flag=True, help="Show resources, devices and what is left out; serve nothing.")
@format_option
def plugin(
    config: str,
    spec_dirs: tuple[str, ...],
    kubelet_dir: str,
    kubelet_version: str,
    host_root: str,
    grants: str,
    metrics: str,
    dry_run: bool,
    form: str,
) -> None:
    """Serve the devices of the specs to the kubelet, as extended resources, until SIGTERM.

    A pod that asks for `vendor.com/class: 1` in its limits gets a device of this kind. docs/kubernetes.md has the
    rest: which names are units, how they are shared, when a device is unhealthy. A line of JSON is written for each
    event. -o is the form of --dry-run.

    \b
    Examples:
      shim node plugin --dry-run
      shim node plugin --metrics 127.0.0.1:9410
    """
    host = Host(str(Path(host_root).absolute()))
    settings = node_settings.read(config or str(host.real(node_settings.FILE)), is_named=bool(config))
    ours = settings_of(host)
    dirs = tuple(str(Path(path).absolute()) for path in spec_dirs) or ours.spec_dirs
    observer = Observer(host, dirs, settings, str(Path(grants).absolute()))
    version = _version(kubelet_version)

    def decide() -> Form:
        return forms.decide(host, settings.form, dirs, version)

    if dry_run:
        _show(observer.look(), decide(), form)
        return
    _serve(ours, observer, decide, str(Path(kubelet_dir).absolute()), metrics)


def _serve(ours: Settings, observer: Observer, decide: Any, directory: str, metrics: str) -> None:
    """Open what needs privileges, give them up, load gRPC, serve."""
    os.umask(_UMASK)
    if not os.access(directory, os.W_OK | os.X_OK):
        why = "it cannot be written" if Path(directory).is_dir() else "it is no directory"
        raise CdiError([Finding("PLUGIN_SOCKET", f"the kubelet's directory cannot be used: {why}", path=directory)])
    listener = _listen(metrics) if metrics else None
    journal = Journal(sys.stdout.fileno())
    from shim.node.plugin import service  # late, like the next: --dry-run does without

    now = service.FormNow(decide)  # before privileges are given up, since it starts `kubelet --version`
    _drop(journal)
    from shim.node.plugin import endpoint, library, messages
    from shim.node.plugin.metrics import Metrics

    grpc = library.load()  # its threads have what privileges are left
    prefix = _prefix(ours)
    common = endpoint.Common(grpc, messages.Messages(), directory, prefix, lambda: now.form.form, journal, Metrics())
    server = service.Service(observer, now, common)
    server.handle_signals()
    if listener is not None:
        service.serve_metrics(listener, server.scrape)
    server.run()


def _prefix(ours: Settings) -> str:
    """The prefix of the annotation's key: the usual one, or the first that this node's shim reads. Raises CdiError."""
    prefixes = [prefix for prefix in ours.annotation_prefixes if prefix.endswith("/")]
    if not prefixes:
        text = "cdi.annotation-prefixes has no prefix that ends in a slash, so no annotation can ask for devices"
        raise CdiError([Finding("SETTINGS", text, path=ours.path)])
    return "cdi.k8s.io/" if "cdi.k8s.io/" in prefixes else prefixes[0]


def _drop(journal: Journal) -> None:
    """Keep no capability: the sockets, specs and grants are root's own. Where that fails, it is written down."""
    try:
        privileges.drop("shim-plugin")
    except (OSError, ImportError) as error:
        text = reason(error) if isinstance(error, OSError) else str(error)
        remedy = "" if isinstance(error, OSError) else privileges.install()
        journal.finding(Finding("PLUGIN_PRIVILEGE", f"privileges cannot be dropped: {text}", remedy))


def _listen(address: str) -> Any:
    try:
        return sockets.listen_at(address)
    except ValueError as error:
        raise click.UsageError(f"--metrics: {error}") from None
    except OSError as error:
        text = f"nothing can listen at {address} for metrics: {reason(error)}"
        raise CdiError([Finding("PLUGIN_SOCKET", text, "choose another address, or end what listens there")]) from None


def _version(text: str) -> tuple[int, ...]:
    """The numbers of a version such as v1.31.2; () for ""."""
    parts = text.removeprefix("v").partition("+")[0].partition("-")[0].split(".") if text else []
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts) == 1:
        raise click.UsageError(f"--kubelet-version {text}: a version is such as 1.31.2")
    return tuple(map(int, parts))


# --- --dry-run ----------------------------------------------------------------------------------------------------


def _show(snapshot: Snapshot, form: Form, output: str) -> None:
    findings = [*snapshot.findings, *form.findings]
    states = snapshot.resources.values()
    if output != "table":
        document = {
            "form": form.form,
            "why": form.why,
            "resources": [_document(state) for state in states],
            "findings": [finding.to_json() for finding in findings],
        }
        show_document(document, output)
    else:
        click.echo(f"form: {form.form} ({form.why})")
        rows = [row for state in states for row in _rows(state)]
        if rows:
            show_table(("RESOURCE", "DEVICE", "STATE", "NUMA", "PCI", "WHY"), rows)
        else:
            click.echo("no kind of the spec directories is a resource; `shim cdi list` shows what they have")
    show_findings(findings)
    sys.exit(any(finding.level == ERROR for finding in findings))


def _rows(state: ResourceState) -> list[tuple[str, ...]]:
    resource = state.resource
    shared = f" x {resource.replicas}" if resource.replicas > 1 else ""
    rows: list[tuple[str, ...]] = [
        (
            resource.name,
            f"{unit.unit.device}{shared}",
            _health(unit),
            str(unit.position.numa) if unit.position.numa >= 0 else "-",
            unit.position.address or "-",
            unit.fault,
        )
        for unit in state.units
    ]
    return rows + [(resource.name, device, "left out", "-", "-", why) for device, why in state.left_out.items()]


def _document(state: ResourceState) -> dict[str, Any]:
    resource = state.resource
    return {
        "name": resource.name,
        "kind": resource.kind,
        "replicas": resource.replicas,
        "devices": [
            {
                "name": unit.unit.name,
                "ids": [id for id, other in state.ids.items() if other is unit],
                "health": _health(unit),
                "numaNode": unit.position.numa,
                "pciAddress": unit.position.address,
                **({"why": unit.fault} if unit.fault else {}),
            }
            for unit in state.units
        ],
        "leftOut": [{"name": f"{resource.kind}={device}", "why": why} for device, why in state.left_out.items()],
    }


def _health(unit: UnitState) -> str:
    return "unhealthy" if unit.fault else "healthy"
