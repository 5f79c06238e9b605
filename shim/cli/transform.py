"""`shim cdi transform`: a spec with other paths, other hooks or another version, or several files as one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from shim.base import files
from shim.base.findings import CdiError, Finding
from shim.cdi import combine, relocate, spec, store, versions
from shim.cli import completion
from shim.cli.files import diff
from shim.cli.output import in_full, show_diff, show_findings
from shim.cli.wish_options import absolute, complete_engines, repeatable
from shim.config.settings import VENDOR_PROGRAMS
from shim.discover import engine_fit, engine_versions, hook_forms, hook_path
from shim.engines import launcher
from shim.host.host import Host
from shim.host.tree import Tree

if TYPE_CHECKING:
    from typing import Literal

    Json = dict[str, Any]

Command = TypeVar("Command", bound=Callable[..., Any])

_LOWEST = "lowest"
_VENDOR_PROGRAM = "/usr/bin/nvidia-cdi-hook"


@click.group()
def transform() -> None:
    """Rewrite specs: paths of another root, hooks of another program, another version, several files as one.

    The result is printed, or written by --output. It has what the specification knows: comments, the order of members
    and the layout of the file do not survive.

    \b
    Example:
      shim cdi transform root --from / --to /run/nvidia/driver nvidia.yaml
    """


def _output_options(command: Command) -> Command:
    """The options by which a result is written."""
    options = (
        click.option(
            "--output",
            "target",
            default="-",
            metavar="FILE|-",
            shell_complete=completion.files,
            help="Write the result to this file, which may be the input.  [default: standard output]",
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(["yaml", "json"]),
            default=None,
            help="Form of the result; by default that of the name of --output, else of the input.",
        ),
        click.option("--dry-run", is_flag=True, help="Show what would change, as a diff, and write nothing."),
    )
    return functools.reduce(lambda changed, option: option(changed), reversed(options), command)


_input = click.argument("path", metavar="FILE|-", shell_complete=completion.files)


@transform.command()
@_input
@click.option("--from", "old", required=True, metavar="DIR", shell_complete=completion.folders, help="The former root.")
@click.option("--to", "new", required=True, metavar="DIR", shell_complete=completion.folders, help="The new root.")
@click.option(
    "--relative-to",
    type=click.Choice([relocate.HOST, relocate.CONTAINER]),
    default=relocate.HOST,
    show_default=True,
    help="Whose paths are meant.",
)
@_output_options
def root(path: str, old: str, new: str, relative_to: str, **output: Any) -> None:
    """Move the paths of a spec below one directory to another, by whole components.

    Relative to the host: sources of mounts and device nodes, programs of hooks, and arguments of hooks that run outside
    of the container. Relative to the container: the paths there, and arguments of hooks that work on its tree; of A::B
    both parts.

    \b
    Examples:
      shim cdi transform root --from / --to /run/nvidia/driver nvidia.yaml
      shim cdi transform root --from /driver --to / --relative-to container --output new.yaml nvidia.yaml
    """
    for option, directory in (("--from", old), ("--to", new)):
        if not directory.startswith("/"):
            raise click.UsageError(f"{option} {directory}: it is not an absolute path")
    read = _read(path)
    _put(read, combine.raised(relocate.moved(read.document, old, new, relative_to)), **output)


@transform.command()
@_input
@click.option(
    "--to",
    "form_of_hooks",
    required=True,
    type=click.Choice(["shim", "vendor"]),
    help="shim: one hook of shim does all; vendor: a hook of NVIDIA's program for each task.",
)
@click.option(
    "--hook-path",
    "program",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help=f"The program that the hooks start; by default the launcher of this installation, or {_VENDOR_PROGRAM}.",
)
@_output_options
def hooks(path: str, form_of_hooks: str, program: str, **output: Any) -> None:
    """Replace hooks of NVIDIA's programs by hooks of shim, or the other way round. Hooks of other programs stay.

    \b
    Examples:
      shim cdi transform hooks --to shim /etc/cdi/nvidia.yaml
      shim cdi transform hooks --to vendor --hook-path /usr/bin/nvidia-ctk shim-nvidia.com-gpu.yaml
    """
    read = _read(path)
    is_ours = form_of_hooks == "shim"
    program = hook_path.checked(program or (launcher.installed() if is_ours else _VENDOR_PROGRAM))
    name = program.rpartition("/")[2]
    if is_ours != (name not in VENDOR_PROGRAMS) or (is_ours and name != "shim" and not name.startswith("shim-")):
        expected = "shim or shim-NAME" if is_ours else " or ".join(VENDOR_PROGRAMS)
        raise click.UsageError(f"--hook-path {program}: with --to {form_of_hooks} its name is {expected}")
    change = hook_forms.to_shim if is_ours else hook_forms.to_vendor
    document, findings = change(read.document, program)
    for finding in findings:
        finding.path = path
    _put(read, document, findings=findings, **output)


@transform.command("version")
@_input
@click.option(
    "--to",
    "version",
    default=None,
    metavar="VERSION",
    type=click.Choice([_LOWEST, *versions.KNOWN[2:]]),
    help=f"The version to write; {_LOWEST}: the lowest that has all of its members.",
)
@repeatable(
    "--for",
    "engines",
    "ENGINE=VERSION",
    "Lower it to what this engine reads: podman, docker, containerd, cri-o or buildah.",
    complete_engines,
)
@click.option(
    "--lossy",
    is_flag=True,
    help="Leave out what the version does not have, with a warning about what containers lose.",
)
@_output_options
def version_command(path: str, version: str | None, engines: tuple[str, ...], lossy: bool, **output: Any) -> None:
    """Write a spec for another version of CDI, if its content allows that; else each member that came later is named.

    With --for a version that the engine reads already stays.

    \b
    Examples:
      shim cdi transform version --to lowest vendor.yaml
      shim cdi transform version --for podman=4.9.3 --output vendor.yaml vendor.yaml
      shim cdi transform version --for podman=4.9.3 --lossy vendor.yaml
    """
    if bool(version) == bool(engines):
        raise click.UsageError("name a version with --to, or an engine with --for")
    read = _read(path, any_version=True)
    document, data = read.document, read.data
    findings: list[Finding] = []
    limit = engine_versions.limit(engines) if engines else version or ""
    if version == _LOWEST:
        limit = versions.minimum(document)
    elif lossy:
        document, findings = engine_versions.lowered(document, limit, Tree(Host()).node)
        data = store.encode(combine.raised(document))
    declared, needed = document["cdiVersion"].removeprefix("v"), versions.minimum(document)
    kept = max(declared, needed, key=versions.rank) if engines else limit
    for finding in findings:
        finding.path = path
    _put(read, engine_fit.as_version(data, path, min(kept, limit, key=versions.rank)), findings=findings, **output)


@transform.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE…", shell_complete=completion.files)
@_output_options
def merge(paths: tuple[str, ...], **output: Any) -> None:
    """Write several specs of one kind as one. Devices of which two files have different edits are named.

    Each device gives a container the same as before. What the files do not have in common for all their devices is
    written into each device, so its hooks run for each device that a container gets.

    \b
    Example:
      shim cdi transform merge --output vendor.yaml vendor-0.yaml vendor-1.yaml
    """
    reads = [_read(path) for path in paths]
    merged = combine.combined([spec.Spec(read.document, read.path) for read in reads])
    _put(reads[0], merged, **output)


class _Read:
    """A spec that was read.

    Attributes:
        path: "-" for standard input.
        data: its text.
        document: decoded and canonical.
        form: yaml or json.
    """

    def __init__(self, path: str, *, any_version: bool) -> None:
        self.path = path
        self.data = sys.stdin.buffer.read() if path == "-" else spec.read_bytes(path)
        document, faults = spec.examine(self.data, path)
        if faults and not (any_version and all(finding.rule == "version-too-low" for finding in faults)):
            raise spec.SpecError(faults)
        self.document = spec.canonical(document)
        is_json = path.endswith(".json") or (path == "-" and self.data.lstrip().startswith(b"{"))
        self.form = "json" if is_json else "yaml"


def _read(path: str, *, any_version: bool = False) -> _Read:
    """A spec. Raises CdiError for one with faults, but with `any_version` not for a version that is too low."""
    return _Read(path, any_version=any_version)


def _put(
    read: _Read,
    document: Json,
    *,
    target: str,
    form: str | None,
    dry_run: bool,
    findings: list[Finding] | None = None,
) -> None:
    """Print a result, write it, or show what would change; then the findings."""
    suffix = Path(target).suffix[1:] if target != "-" else ""
    named = suffix if suffix in {"yaml", "json"} else ""
    if form and named and form != named:
        raise click.UsageError(f"--output {target} is the name of a {named} file, but --format is {form}")
    chosen = cast('Literal["yaml", "json"]', form or named or read.form)
    data = store.encode(_plain(document), chosen)
    if dry_run:
        before, name = _before(read, target, chosen)
        show_diff(diff(before.decode("utf-8", "replace"), data.decode(), name, name if target == "-" else target))
    elif target == "-":
        click.echo(data, nl=False)
    else:
        path = absolute(target)
        with store.refusals(path, "written"):
            try:
                files.write(path, data)
            except ValueError as error:
                raise CdiError([Finding("SPEC_WRITE", str(error), path=path)]) from None
        click.echo(in_full(f"{target}: written"))
    show_findings(findings or [])


def _before(read: _Read, target: str, form: Literal["yaml", "json"]) -> tuple[bytes, str]:
    """What a result is compared with, and its name: the file that it would replace, else the input in its layout."""
    if target != "-" and Path(target).exists():
        return spec.read_bytes(target), target
    return store.encode(_plain({**read.document, "cdiVersion": _valid(read.document)}), form), read.path


def _valid(document: Json) -> str:
    """The version of a document, or where it is too low the lowest that is not."""
    return str(combine.raised(document)["cdiVersion"])


def _plain(document: Json) -> Json:
    """A document without the empty members that the reader adds."""
    return {name: value for name, value in document.items() if value or name != "containerEdits"}
