"""`shim cdi generate`: specs of the devices that this host has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from shim.base.findings import ERROR
from shim.cli import completion
from shim.cli.files import diff
from shim.cli.output import form_option, in_full, show_diff, show_document, show_findings
from shim.cli.progress import shown
from shim.cli.wish_options import absolute, complete_engines, repeatable, wish, wish_options
from shim.discover import generate, vendors
from shim.discover.output import DIRECTORY, REFUSED, UNCHANGED, Target
from shim.engines import sources
from shim.host.host import Host

if TYPE_CHECKING:
    from typing import Literal

    from shim.discover.output import SpecFile

_STANDARD_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_NO_FILES = ("/dev/", "/proc/", "/sys/")  # what lies there is never replaced


@click.command()
@wish_options
@click.option(
    "--format",
    "form_of_spec",
    type=click.Choice(["yaml", "json"]),
    default=None,
    help="Form of the spec; by default that of the name of --output, else yaml.",
)
@click.option(
    "--output",
    "file",
    default="",
    metavar="FILE|-",
    shell_complete=completion.files,
    help="Write the one spec to this file, or to standard output.",
)
@click.option(
    "--spec-dir",
    default="",
    metavar="DIR",
    shell_complete=completion.folders,
    help=f"Write shim-VENDOR-CLASS.yaml into this directory.  [default: {DIRECTORY}]",
)
@repeatable(
    "--for",
    "engines",
    "ENGINE=VERSION",
    "Write what this engine can read: podman, docker, containerd, cri-o or buildah.",
    complete_engines,
)
@click.option("--allow-shrink", is_flag=True, help="Replace a spec that has more devices, nodes or libraries.")
@click.option(
    "--takeover",
    is_flag=True,
    help="Move files aside that serve devices of the same kind, and stop the units of systemd that write them; "
    "`shim device setup --undo` restores them.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, as a diff, and write nothing.")
@form_option(names=("-o",), text="Form of the report.")
def command(
    wanted: tuple[str, ...],
    file: str,
    spec_dir: str,
    form_of_spec: Literal["yaml", "json"] | None,
    engines: tuple[str, ...],
    allow_shrink: bool,
    takeover: bool,
    dry_run: bool,
    form: str,
    **options: Any,
) -> None:
    """Write specs of the devices of this host, one file for each kind of device.

    What is healthy is written; what is not is reported, and the exit status is 1 then. A spec that would lose devices
    is not replaced, and nothing is written beside another file that serves devices of the same kind. `shim cdi refresh`
    writes the specs anew, in the same way, when the host has changed.

    \b
    Examples:
      shim cdi generate --dry-run
      shim cdi generate
      shim cdi generate --vendor nvidia --driver-root /run/nvidia/driver
      shim cdi generate --vendor amd --for podman=4.9.3
      shim cdi generate --vendor nvidia --output - --format json
    """
    if file in _STANDARD_OUTPUT:
        file = "-"
    if absolute(file).startswith(_NO_FILES):
        raise click.UsageError(f"--output {file}: no file can be kept there; - is standard output")
    if file and spec_dir:
        raise click.UsageError("--output names a file and --spec-dir a directory: give one of them")
    if file == "-" and (dry_run or form != "table"):
        raise click.UsageError("--output - prints the spec: it goes neither with --dry-run nor with -o")
    host = Host()
    target = Target(
        directory=absolute(spec_dir) or DIRECTORY,
        file=file if file == "-" else absolute(file),
        format=_format(file, form_of_spec),
        engines=engines,
        spec_dirs=tuple(sources.settings_or_defaults(host).spec_dirs),
        may_shrink=allow_shrink,
        takes_over=takeover,
    )
    with shown() as show:
        outcome = generate.generate(
            host, wish(**options), target, wanted or (vendors.AUTO,), dry_run=dry_run, progress=show
        )
    if file == "-":
        for planned in outcome.specs:
            click.echo(planned.data, nl=False)
    elif form == "table":
        for planned in outcome.specs:
            show_spec(planned, outcome, dry_run=dry_run)
    else:
        show_document(report(outcome, dry_run=dry_run), form)
    show_findings(outcome.findings)
    sys.exit(1 if any(finding.level == ERROR for finding in outcome.findings) else 0)


def report(outcome: generate.Outcome, *, dry_run: bool) -> dict[str, Any]:
    """What was written, or would be, as plain values."""
    return {
        "specs": [
            {
                "vendor": planned.vendor,
                "kind": planned.kind,
                "path": planned.path,
                "state": state(planned, outcome, dry_run=dry_run),
                "cdiVersion": planned.document["cdiVersion"],
                "devices": planned.devices,
                "losses": planned.losses,
                "movedAside": planned.in_the_way if planned.state != REFUSED else [],
                **({"diff": changes(planned)} if dry_run else {}),
            }
            for planned in outcome.specs
        ],
        "findings": [finding.to_json() for finding in outcome.findings],
    }


def state(planned: SpecFile, outcome: generate.Outcome, *, dry_run: bool) -> str:
    """What became of a spec: written, unchanged, refused or would be written."""
    if planned.path in outcome.written:
        return "written"
    if planned.state in {REFUSED, UNCHANGED}:
        return planned.state
    return "would be written" if dry_run else REFUSED


def changes(planned: SpecFile) -> str:
    """What would change in the file of a spec, as a unified diff."""
    before = (planned.before or b"").decode("utf-8", "replace")
    return diff(
        before, planned.data.decode(), planned.path if planned.before is not None else "/dev/null", planned.path
    )


def show_spec(planned: SpecFile, outcome: generate.Outcome, *, dry_run: bool) -> None:
    """Print what became of a spec, and with `dry_run` what would change in its file."""
    count = len(planned.devices)
    devices = f"{count} device{'s' * (count != 1)}"
    click.echo(in_full(f"{planned.path}: {state(planned, outcome, dry_run=dry_run)}: {planned.kind}, {devices}"))
    if planned.state != REFUSED:
        for path in planned.in_the_way:
            click.echo(in_full(f"  {path}: {'would be ' * dry_run}moved aside"))
    if dry_run:
        show_diff(changes(planned))


def _format(file: str, chosen: Literal["yaml", "json"] | None) -> Literal["yaml", "json"]:
    suffix = Path(file).suffix[1:]
    if chosen and suffix in {"yaml", "json"} and suffix != chosen:
        raise click.UsageError(f"--output {file} is the name of a {suffix} file, but --format is {chosen}")
    return cast('Literal["yaml", "json"]', chosen or (suffix if suffix in {"yaml", "json"} else "yaml"))
