"""Findings that the modules of several vendors report in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.discover.edits import Edits
    from shim.host.tree import Tree


def add_nodes(
    edits: Edits, tree: Tree, device: str, required: Iterable[str], optional: Iterable[str] = ()
) -> list[Finding]:
    """Add the nodes of a device to its edits.

    Arguments:
        edits: of the device.
        tree: with the device nodes.
        device: its name in the text of a finding.
        required: paths of nodes without which the device is of no use.
        optional: paths of further nodes that the kernel shows.
    Returns:
        a finding for each node that is missing. After one of level ERROR the device is not to be written.
    """
    absent = [path for path in required if not edits.add_node(tree, path)]
    findings = [left_out(device, _absence(tree, path), tree.host_path(path)) for path in absent]
    for path in optional:
        if not edits.add_node(tree, path):
            text = f"{device} is written without it: {_absence(tree, path)}"
            findings.append(Finding("DISCOVERY_PART", text, path=tree.host_path(path)))
    return findings


def left_out(device: str, cause: str, path: str = "") -> Finding:
    """The finding about a device that cannot be written."""
    return Finding("DISCOVERY_DEVICE", f"{device} was left out: {cause}", path=path)


def is_writable(findings: Iterable[Finding]) -> bool:
    """Whether a device with these findings can be written."""
    return all(finding.id != "DISCOVERY_DEVICE" for finding in findings)


def _absence(tree: Tree, path: str) -> str:
    return "the device node is missing" if tree.lstat(path) is None else "this is no device node"
