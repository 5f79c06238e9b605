"""`shim node labels`: what a node has, as labels for the scheduler."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from shim.base.findings import ERROR, CdiError
from shim.cli import completion
from shim.cli.files import diff
from shim.cli.output import as_text, form_option, in_full, show_diff, show_document, show_findings
from shim.cli.wish_options import absolute, complete_vendors, repeatable
from shim.host.host import Host
from shim.node import settings, vendor_config
from shim.node.labels import feature_file, watch
from shim.node.labels.collect import collect
from shim.node.labels.model import MACHINE, MIG_STRATEGIES, SOURCES
from shim.node.labels.request import request
from shim.node.labels.sharing import configured

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.base.findings import Finding
    from shim.node.labels.sharing import Sharing

_INTERVAL = 60.0  # seconds
_STANDARD_OUTPUT = "-"
_STAMP = "gfd.timestamp"


@click.command()
@click.option("--oneshot", is_flag=True, help="Write the feature file once, and leave it there.")
@click.option(
    "--watch",
    "watches",
    is_flag=True,
    help="Write it, again at each change of the host, and remove it at the end (SIGTERM). SIGHUP reads the "
    "configuration again.",
)
@click.option(
    "--output-file",
    default=None,
    metavar="FILE|-",
    shell_complete=completion.files,
    help=f"The feature file; - is standard output.  [default: {feature_file.FILE}]",
)
@repeatable(
    "--vendor",
    "wanted",
    "NAME",
    "Whose devices: nvidia, amd, intel, drm, habana, rdma, rules, or auto for all that are there (default). One that "
    "is named is labelled, or reported, in any case.",
    complete_vendors,
)
@click.option(
    "--mig-strategy",
    type=click.Choice(MIG_STRATEGIES),
    default=None,
    help="MIG devices have no labels, those of GPUs, or labels of their own.  [default: none]",
)
@click.option(
    "--device-discovery-strategy",
    "source",
    type=click.Choice(SOURCES),
    default=None,
    help="What describes NVIDIA's GPUs; vfio: those that are kept for virtual machines.  [default: auto]",
)
@click.option("--allow-missing-driver", is_flag=True, help="Go on where NVIDIA's driver cannot be asked.")
@click.option("--no-timestamp", is_flag=True, help="Write no label with the time.")
@click.option(
    "--machine-type-file",
    default=None,
    metavar="FILE",
    shell_complete=completion.files,
    help=f"Names the machine.  [default: {MACHINE}]",
)
@click.option(
    "--config",
    "settings_file",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help=f"The configuration of `shim node plugin`, for sharing; default: {settings.FILE}, which may be missing.",
)
@click.option(
    "--vendor-config",
    "config_file",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help="The configuration of NVIDIA's device plugin: sharing, and flags for which no option is given.",
)
@click.option(
    "--host-root",
    default="/",
    show_default=True,
    metavar="DIR",
    shell_complete=completion.folders,
    callback=lambda _context, _parameter, path: absolute(path),
    help="Where the host's root is mounted: the driver's files and the feature file lie below it.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=1),
    default=None,
    metavar="SECONDS",
    help=f"With --watch: look again after this time, too.  [default: {_INTERVAL:g}]",
)
@click.option("--keep", is_flag=True, help="With --watch: leave the file at the end.")
@click.option("--force", is_flag=True, help="Write labels also below a prefix where another program writes some.")
@click.option("--dry-run", is_flag=True, help="With --oneshot: show what would change in the file, and write nothing.")
@form_option(names=("-o",))
def command(
    oneshot: bool,
    watches: bool,
    output_file: str | None,
    interval: float | None,
    keep: bool,
    dry_run: bool,
    form: str,
    **options: Any,
) -> None:
    """Label this node by its devices: how many, which model, memory, driver, MIG devices, how they are shared.

    NVIDIA's labels have the names of GPU feature discovery (nvidia.com/gpu.product); those of others are named alike
    (amd.com/gpu.count), beside the names that their vendors use. They are printed, or written into a file from which
    node feature discovery labels the node. Nothing is written below a vendor's prefix while that vendor's own
    discovery writes there.

    \b
    Examples:
      shim node labels
      shim node labels -o json
      shim node labels --oneshot --dry-run
      shim node labels --watch --mig-strategy mixed
    """
    _check(oneshot=oneshot, watches=watches, interval=interval, keep=keep, dry_run=dry_run)
    labeller = _Labeller(output_file, form, options)
    if watches:
        watch.block()
        sys.exit(_watched(labeller, interval, keep=keep))
    labels, findings = labeller.labels()
    is_whole = not any(finding.level == ERROR for finding in findings)
    if not oneshot or labeller.path == _STANDARD_OUTPUT:
        _show(labels, findings, form)
    elif is_whole:
        labeller.write(labels, dry_run=dry_run)
    show_findings(findings)
    sys.exit(0 if is_whole else 1)


class _Labeller:
    """Collects the labels of this node and writes them; the configuration is read each time.

    Arguments:
        output_file: the option.
        form: of a report.
        options: of the request.
    Attributes:
        path: the feature file, as the host sees it.
        interval: as the configuration has it, None where it is silent.
    """

    def __init__(self, output_file: str | None, form: str, options: dict[str, Any]) -> None:
        self._output_file = output_file
        self._form = form
        self._options = options
        self._files = Host(options["host_root"])
        self._config = self._read()
        self.path = self._path()
        self.interval = self._config.interval

    def labels(self) -> tuple[dict[str, str], list[Finding]]:
        """The labels that are to be written, and what there is to report."""
        self._config = self._read()
        self.path, self.interval = self._path(), self._config.interval
        options = self._options
        host = Host()
        asked = request(
            self._config,
            vendors=options["wanted"],
            mig_strategy=options["mig_strategy"],
            source=options["source"],
            machine_file=options["machine_type_file"],
            may_lack_driver=True if options["allow_missing_driver"] else None,
            has_timestamp=False if options["no_timestamp"] else None,
            sharing=self._sharing(),
            driver_root=options["host_root"],
        )
        collected = collect(host, asked)
        labels, findings = dict(collected.values), [*self._config.findings, *collected.findings]
        if not options["force"]:
            labels, more = feature_file.without_others(labels, feature_file.others(self._files, self.path, host))
            findings += more
        return labels, findings

    def write(self, labels: dict[str, str], *, dry_run: bool = False) -> None:
        """Write the file, or show what would change in it. Raises CdiError."""
        before = feature_file.read(self._files, self.path)
        changes = diff(before, feature_file.text(labels), self.path if before else "/dev/null", self.path)
        if not dry_run:
            feature_file.write(self._files, self.path, labels)
        if self._form != "table":
            document = {"path": self.path, "written": not dry_run, "labels": labels}
            show_document({**document, "diff": changes} if dry_run else document, self._form)
            return
        would = "would be " * dry_run
        click.echo(in_full(f"{self.path}: {would}written: {len(labels)} label{'s' * (len(labels) != 1)}"))
        if dry_run:
            show_diff(changes)

    def is_there(self) -> bool:
        """Whether the file is there and has labels."""
        return feature_file.read(self._files, self.path) != ""

    def remove(self) -> None:
        """Remove the file. Raises CdiError."""
        feature_file.remove(self._files, self.path)

    def _read(self) -> vendor_config.VendorConfig:
        path = self._options["config_file"]
        return vendor_config.read(Host(), absolute(path)) if path else vendor_config.VendorConfig()

    def _sharing(self) -> Sharing:
        named = self._options["settings_file"]
        path = absolute(named) or str(self._files.real(settings.FILE))  # by default the host's
        return configured(settings.read(path, is_named=bool(named)))

    def _path(self) -> str:
        named = self._output_file if self._output_file is not None else self._config.output
        if named is None:
            return feature_file.FILE
        return _STANDARD_OUTPUT if named in {"", _STANDARD_OUTPUT} else absolute(named)


def _check(*, oneshot: bool, watches: bool, interval: float | None, keep: bool, dry_run: bool) -> None:
    """Refuse options that have no effect together."""
    if oneshot and watches:
        raise click.UsageError("--oneshot ends and --watch goes on: give one of them")
    if dry_run and not oneshot:
        raise click.UsageError("--dry-run goes with --oneshot; without either nothing is written")
    if (interval is not None or keep) and not watches:
        raise click.UsageError("--interval and --keep go with --watch")


def _watched(labeller: _Labeller, interval: float | None, *, keep: bool) -> int:
    """Write at each change until a signal comes; the exit status."""
    if labeller.path == _STANDARD_OUTPUT:
        raise click.UsageError("--watch keeps a file: standard output cannot be removed at the end")
    update = _updater(labeller)
    watch.repeat(Host(), update, interval or labeller.interval or _INTERVAL)
    if not keep:
        labeller.remove()
    return 0


def _updater(labeller: _Labeller) -> Callable[[], None]:
    """A function that writes the labels when they have changed, and reports findings when these have."""
    before: list[Any] = [None, None]

    def update() -> None:
        labels: dict[str, str] = {}
        try:
            labels, findings = labeller.labels()
            is_whole = not any(finding.level == ERROR for finding in findings)
            stable = {name: value for name, value in labels.items() if not name.endswith(_STAMP)}
            if is_whole and (stable != before[0] or (labels and not labeller.is_there())):
                labeller.write(labels)
                before[0] = stable
        except CdiError as error:
            findings = list(error.findings)
        report = json.dumps([finding.to_json() for finding in findings])
        if report != before[1]:
            show_findings(findings)
            before[1] = report
        sys.stdout.flush()

    return update


def _show(labels: dict[str, str], findings: list[Finding], form: str) -> None:
    if form == "table":
        click.echo("".join(f"{in_full(line)}\n" for line in feature_file.text(labels).splitlines()), nl=False)
    else:
        document = {"labels": dict(sorted(labels.items())), "findings": [each.to_json() for each in findings]}
        click.echo(as_text(document, form), nl=False)
