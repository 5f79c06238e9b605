"""The feature file: labels as node feature discovery reads them, a line NAME=VALUE each.

    /etc/kubernetes/node-feature-discovery/features.d/shim

Its worker reads every file of the directory, but for hidden ones: the new file has a hidden name until it is whole, and
replaces the old one by rename. Files of other programs lie in the same directory; where one of them has labels below a
vendor's prefix, that vendor's own discovery is at work, and two sources would overwrite each other's labels.

Source: node feature discovery, "Local feature source", feature files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base import files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import parent, reason
from shim.host.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.host.host import Host

DIRECTORY = "/etc/kubernetes/node-feature-discovery/features.d"
FILE = f"{DIRECTORY}/shim"

_LARGEST = 1 << 20  # bytes of another program's file
# prefix of labels -> programs that write labels below it
_PROGRAMS = {
    "nvidia.com": ("gpu-feature-discovery",),
    "amd.com": ("k8s-node-labeller",),
}


def text(labels: Mapping[str, str]) -> str:
    """The content of the file, by names."""
    return "".join(f"{name}={value}\n" for name, value in sorted(labels.items()))


def read(host: Host, path: str) -> str:
    """The content of a file as it is; "" for none."""
    return (Tree(host).read(path, _LARGEST) or b"").decode("utf-8", "replace")


def write(host: Host, path: str, labels: Mapping[str, str]) -> None:
    """Write the file; its directory is made where it is missing. Raises CdiError: LABELS_WRITE."""
    try:
        Tree(host).make_directory(parent(path) or "/")
        files.write(host.real(path), text(labels).encode(), keep=False, follow=False)
    except (OSError, ValueError) as error:
        why = f"it cannot be written: {reason(error)}"
        raise CdiError([Finding("LABELS_WRITE", why, remedies.to_write(error), path=path)]) from None


def remove(host: Host, path: str) -> None:
    """Remove the file, so that the worker takes its labels off the node. Raises CdiError: LABELS_WRITE."""
    try:
        host.real(path).unlink(missing_ok=True)
    except OSError as error:
        why = f"it cannot be removed: {reason(error)}"
        raise CdiError([Finding("LABELS_WRITE", why, path=path)]) from None


def others(host: Host, path: str, machine: Host) -> dict[str, str]:
    """What else writes labels on this node.

    Arguments:
        host: the machine that has the feature files.
        path: of our own file.
        machine: whose processes are seen.
    Returns:
        prefix of labels, such as nvidia.com -> what writes them: a file beside ours, or a program that runs.
    """
    writers: dict[str, str] = {}
    tree = Tree(host)
    for directory in dict.fromkeys((parent(path) or "/", DIRECTORY)):
        for name in tree.names(directory):
            file = f"{directory}/{name}"
            if name.startswith(".") or file == path or not tree.is_file(file):
                continue
            for prefix in _prefixes(read(host, file)):
                writers.setdefault(prefix, f"the file {file}")
    for prefix, programs in _PROGRAMS.items():
        for program in programs:
            for process in machine.daemons(program, of_every_user=True)[:1]:
                writers.setdefault(prefix, f"{program} (process {process.pid})")
    return writers


def without_others(labels: Mapping[str, str], writers: Mapping[str, str]) -> tuple[dict[str, str], list[Finding]]:
    """The labels below prefixes of which nobody else writes any, and a finding for each of the other prefixes."""
    taken = {prefix: writer for name in labels for prefix, writer in writers.items() if name.startswith(f"{prefix}/")}
    left = {name: value for name, value in labels.items() if name.partition("/")[0] not in taken}
    findings = [
        Finding("LABELS_TAKEN", f"{writer} has labels below {prefix}/: none of ours are written there")
        for prefix, writer in taken.items()
    ]
    return left, findings


def _prefixes(content: str) -> list[str]:
    lines = (line.strip() for line in content.splitlines())
    names = (line.partition("=")[0] for line in lines if line and not line.startswith("#"))
    return list(dict.fromkeys(name.partition("/")[0] for name in names if "/" in name))
