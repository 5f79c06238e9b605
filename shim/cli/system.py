"""`shim system`: what a host lacks before its devices can be given to containers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from shim.base.findings import ERROR, CdiError, Finding
from shim.cli.cdi import open_dirs
from shim.cli.output import format_option, show_document, show_findings, show_table
from shim.discover.nvidia import device_files as nvidia
from shim.host import device_files
from shim.host.host import Host
from shim.host.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.host.device_files import Change

_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
_dev_root = click.option(
    "--dev-root", default="/", metavar="DIR", help="The root whose /dev is meant, such as that of a driver container."
)


@click.group()
def system() -> None:
    """Prepare the host: device nodes, and the links of /dev/char.

    \b
    Example:
      shim system create-dev-char-symlinks --dry-run
    """


@system.command()
@_dev_root
@click.option(
    "--control-devices", is_flag=True, help="Only nvidiactl, nvidia-modeset, nvidia-uvm and nvidia-uvm-tools."
)
@click.option("--load-kernel-modules", is_flag=True, help="Load the driver's modules first, by modprobe.")
@_dry_run
@format_option
def create_device_nodes(
    dev_root: str, control_devices: bool, load_kernel_modules: bool, dry_run: bool, form: str
) -> None:
    """Make the device nodes of NVIDIA's driver that are missing.

    The driver makes them when a program of its own starts as root; a machine that runs only containers may have none.
    Numbers come from /proc, mode and owner from the driver's parameters. Nodes that are right are left alone.

    \b
    Examples:
      shim system create-device-nodes --load-kernel-modules
      shim system create-device-nodes --dry-run -o json
    """
    host = Host()
    tree = _tree(host, dev_root)
    findings = _load(host, dry_run=dry_run) if load_kernel_modules else []
    nodes, missing = nvidia.wanted(host, control_only=control_devices)
    changes = device_files.node_changes(tree, nodes) if dry_run else device_files.make_nodes(tree, nodes)
    _show(changes, [*findings, *missing], form, dry_run=dry_run)


@system.command()
@click.argument("nodes", nargs=-1, metavar="[NODE]…")
@_dev_root
@click.option("--dev-char-path", default="/dev/char", metavar="DIR", help="The directory that gets the links.")
@_dry_run
@format_option
def create_dev_char_symlinks(
    nodes: tuple[str, ...], dev_root: str, dev_char_path: str, dry_run: bool, form: str
) -> None:
    """Make the links /dev/char/MAJOR:MINOR of device nodes, by which systemd finds them.

    Without NODE: of every node that a spec names. Where a link is missing and the cgroups are systemd's, containers
    lose the device at the next `systemctl daemon-reload`; CUDA then reports "Failed to initialize NVML: Unknown Error".

    \b
    Examples:
      shim system create-dev-char-symlinks
      shim system create-dev-char-symlinks /dev/nvidia0 /dev/nvidiactl
    """
    name = dev_char_path.rstrip("/").rpartition("/")
    if name[2] != "char" or not name[0].startswith("/"):
        raise click.BadParameter("it is an absolute path that ends in /char", param_hint="--dev-char-path")
    host = Host()
    tree = _tree(host, dev_root)
    absent = [path for path in nodes if tree.node(path) is None]
    if absent:
        text = f"{absent[0]} is no device node (a link is not followed)"
        raise CdiError([Finding("DEVICE_FILE", text, "name nodes that exist", path=absent[0])])
    paths = nodes or tuple(_named_by_specs())
    make = device_files.link_changes if dry_run else device_files.make_links
    _show(make(tree, paths, name[0]), [], form, dry_run=dry_run)


def _named_by_specs() -> list[str]:
    """The device nodes that specs name, as paths of the host."""
    served = open_dirs(())
    paths: dict[str, None] = {}
    for device in served.devices():
        spec, name = served.get(device) or (None, "")
        for edits in (spec.edits, spec.devices[name]) if spec else ():
            paths.update(dict.fromkeys(node.get("hostPath") or node["path"] for node in edits.get("deviceNodes") or ()))
    return list(paths)


def _load(host: Host, *, dry_run: bool) -> list[Finding]:
    """Load the driver's modules; a finding for each that cannot be loaded."""
    findings = []
    for name in nvidia.MODULES if not dry_run else ():
        answer = host.refusal("modprobe", name)
        if answer:
            text = f"the module {name} cannot be loaded: {answer}"
            findings.append(Finding("DISCOVERY_PART", text, "install the driver of this kernel"))
    return findings


def _tree(host: Host, root: str) -> Tree:
    tree = Tree(host, root)
    if not root.startswith("/") or not tree.exists:
        raise click.BadParameter(f"{root} is no directory", param_hint="--dev-root")
    return tree


def _show(changes: Sequence[Change], findings: list[Finding], form: str, *, dry_run: bool) -> None:
    done = (
        {"make": "would be made", "replace": "would be replaced"}
        if dry_run
        else {"make": "made", "replace": "replaced"}
    )
    rows = [(change.path, done.get(change.action, "is right"), change.what) for change in changes]
    if form == "table":
        show_table(("PATH", "STATE", "WHAT"), rows)
    else:
        show_document(
            {
                "dryRun": dry_run,
                "changes": [{"path": entry.path, "action": entry.action, "what": entry.what} for entry in changes],
                "findings": [finding.to_json() for finding in findings],
            },
            form,
        )
    show_findings(findings)
    sys.exit(1 if any(finding.level == ERROR for finding in findings) else 0)
