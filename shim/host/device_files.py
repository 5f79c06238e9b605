"""Device files that a driver or udev has not made: nodes, and the links of /dev/char to them.

    Wanted ──> changes ──> make

What is right already is left alone, so that everything can be done again at any time. A node of other numbers is
replaced by rename, never removed first: a program that looks meanwhile sees the old node or the new.

Links: systemd resolves a rule of a device cgroup by /dev/char/MAJOR:MINOR or /dev/block/MAJOR:MINOR. Drivers that make
nodes themselves, such as NVIDIA's, leave these out, and a `systemctl daemon-reload` then takes the device away from
running containers (systemd.resource-control(5), DeviceAllow; runc before 1.1.7 writes such rules).
"""

from __future__ import annotations

import os
import posixpath
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shim.host.tree import Tree

_TYPES = {"c": stat.S_IFCHR, "b": stat.S_IFBLK}
_DIRECTORIES = {"c": "char", "b": "block"}
_DIRECTORY_MODE = 0o755


@dataclass(frozen=True)
class WantedNode:
    """A device node as it should be: path in the tree, type c or b, numbers, permission bits, owner."""

    path: str
    kind: str
    major: int
    minor: int
    mode: int = 0o666
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True)
class Change:
    """What is done about a path.

    Attributes:
        path: in the tree.
        action: make, replace, or keep.
        what: what is there afterwards, such as "c 195:0" or "-> ../nvidia0".
    """

    path: str
    action: str
    what: str

    @property
    def changes(self) -> bool:
        """Whether anything is done."""
        return self.action != "keep"


def node_changes(tree: Tree, wanted: Iterable[WantedNode]) -> list[Change]:
    """What has to be done for nodes to be there.

    Mode and owner of a node with the right numbers are left as an administrator has set them.

    Raises CdiError: DEVICE_FILE where something else than a device node is in the place of one.
    """
    changes = []
    for node in wanted:
        status, there = tree.lstat(node.path), tree.node(node.path)
        if status and not there:
            raise _refused(node.path, "it is there, and is no device node")
        is_right = there is not None and there[:3] == (node.kind, node.major, node.minor)
        action = "keep" if is_right else "replace" if there else "make"
        changes.append(Change(node.path, action, f"{node.kind} {node.major}:{node.minor}"))
    return changes


def make_nodes(tree: Tree, wanted: Iterable[WantedNode]) -> list[Change]:
    """Make nodes that are not there; what was done. Raises CdiError: DEVICE_FILE."""
    listed = list(wanted)
    changes = node_changes(tree, listed)
    for node, change in zip(listed, changes, strict=True):
        if change.changes:
            with _refusals(node.path):
                _make_node(tree, node)
    return changes


def link_changes(tree: Tree, paths: Iterable[str], top: str = "/dev") -> list[Change]:
    """What has to be done for nodes to be reached by their numbers.

    Arguments:
        tree: the root in which they lie.
        paths: of device nodes; what is none is left out.
        top: the directory that has, or gets, `char` and `block`.
    Raises:
        CdiError: DEVICE_FILE where something else than a link is in the place of one.
    """
    changes: dict[str, Change] = {}
    for path in paths:
        node = tree.node(path)
        if node is None or node[0] not in _DIRECTORIES:
            continue
        link = f"{top}/{_DIRECTORIES[node[0]]}/{node[1]}:{node[2]}"
        target = posixpath.relpath(path, posixpath.dirname(link))
        status, there = tree.lstat(link), tree.readlink(link)
        if status and there is None:
            raise _refused(link, "it is there, and is no symbolic link")
        leads = tree.resolve(link)
        is_right = there is not None and leads is not None and tree.node(leads) == node
        action = "keep" if is_right else "replace" if there is not None else "make"
        changes.setdefault(link, Change(link, action, f"-> {there if is_right else target}"))
    return list(changes.values())


def make_links(tree: Tree, paths: Iterable[str], top: str = "/dev") -> list[Change]:
    """Make links that are not there; what was done. Arguments and errors: as `link_changes`."""
    changes = link_changes(tree, paths, top)
    for change in changes:
        if change.changes:
            with _refusals(change.path):
                _make_link(tree, change)
    return changes


@contextmanager
def _refusals(path: str) -> Iterator[None]:
    """Makes what the system answers a finding (DEVICE_FILE)."""
    try:
        yield
    except OSError as error:
        raise _refused(path, f"it cannot be made: {reason(error)}") from None


def _make_node(tree: Tree, node: WantedNode) -> None:
    temporary = _temporary(tree, node.path)
    os.mknod(temporary, _TYPES[node.kind] | 0o600, os.makedev(node.major, node.minor))
    try:
        os.chown(temporary, node.uid, node.gid)
        os.chmod(temporary, node.mode)  # not by mknod: the umask would take bits away
        os.rename(temporary, _place(tree, node.path))
    except OSError:
        os.unlink(temporary)
        raise


def _make_link(tree: Tree, change: Change) -> None:
    temporary = _temporary(tree, change.path)
    os.symlink(change.what.removeprefix("-> "), temporary)
    os.rename(temporary, _place(tree, change.path))


def _place(tree: Tree, path: str) -> str:
    """Where this process makes a file; its directory is made first, within the tree."""
    directory, _, name = path.rpartition("/")
    return f"{tree.make_directory(directory, _DIRECTORY_MODE)}/{name}"


def _temporary(tree: Tree, path: str) -> str:
    place = _place(tree, path)
    directory, _, name = place.rpartition("/")
    temporary = f"{directory}/.{name}-{os.getpid()}"
    if os.path.lexists(temporary):  # of a process of this number that was killed
        os.unlink(temporary)
    return temporary


def _refused(path: str, text: str) -> CdiError:
    return CdiError([Finding("DEVICE_FILE", text, path=path)])
