"""Edits of a draft: what a device, or all devices of a spec, add to a container.

Everything is kept by its path in the container, so nothing is there twice: the first entry of a path stays. Links
and directories of libraries are kept as such; which hook does the work is decided when the document is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shim.host.nodes import Node
    from shim.host.tree import Tree

READ_ONLY = ("ro", "nosuid", "nodev", "rbind", "rprivate")  # options of a driver's files
SOCKET = ("nosuid", "nodev", "rbind", "rprivate", "noexec")  # options of a daemon's socket


@dataclass(frozen=True)
class DeviceNode:
    """A device node.

    Attributes:
        path: in the container.
        host_path: on the host.
        node: type, numbers, mode and owner on the host when it was discovered.
    """

    path: str
    host_path: str
    node: Node


@dataclass(frozen=True)
class Mount:
    """A bind mount: paths in the container and on the host, and its options."""

    path: str
    host_path: str
    options: tuple[str, ...] = READ_ONLY


@dataclass
class Edits:
    """Edits of a draft, in the order in which they were added.

    Attributes:
        nodes: path in the container -> device node.
        mounts: path in the container -> mount.
        env: name -> value.
        links: path of a symbolic link in the container -> its text.
        folders: directories of libraries in the container, in the order of the search.
        hooks: name -> further arguments of one of our hooks, such as enable-cuda-compat.
        net_devices: name of a network interface of the host -> its name in the container.
        foreign_hooks: CDI hook objects of other programs, as rules give them.
        has_gids: whether the groups of restricted nodes become additional groups of the container.
    """

    nodes: dict[str, DeviceNode] = field(default_factory=dict)
    mounts: dict[str, Mount] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: dict[str, None] = field(default_factory=dict)
    hooks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    net_devices: dict[str, str] = field(default_factory=dict)
    foreign_hooks: list[dict[str, object]] = field(default_factory=list)
    has_gids: bool = True

    def add_node(self, tree: Tree, path: str, container_path: str = "") -> bool:
        """Add a device node of a tree; False when no device node is there.

        Arguments:
            path: of the node in the tree.
            container_path: in the container, by default the same.
        """
        node = tree.node(path)
        if node is None:
            return False
        inside = container_path or path
        self.nodes.setdefault(inside, DeviceNode(inside, tree.source(path), node))
        return True

    def add_mount(self, tree: Tree, path: str, container_path: str = "", options: tuple[str, ...] = READ_ONLY) -> None:
        """Add a bind mount of a path in a tree, by default to the same path in the container."""
        inside = container_path or path
        self.mounts.setdefault(inside, Mount(inside, tree.source(path), options))

    def add_link(self, link: str, target: str) -> None:
        """Add a symbolic link; a link that is there already keeps its target."""
        self.links.setdefault(link, target)

    def add_folder(self, path: str) -> None:
        """Add a directory of libraries, which the container's ld.so.cache gets."""
        self.folders.setdefault(path)

    def add(self, other: Edits) -> None:
        """Add all edits of another."""
        for mine, theirs in self._tables(other):
            for key, value in theirs.items():
                mine.setdefault(key, value)
        self.foreign_hooks += [hook for hook in other.foreign_hooks if hook not in self.foreign_hooks]

    def without(self, common: Edits) -> Edits:
        """These edits without those that are common to all devices of the spec."""
        rest = Edits(has_gids=self.has_gids)
        for (mine, theirs), (target, _) in zip(self._tables(common), rest._tables(common), strict=True):
            target.update({key: value for key, value in mine.items() if theirs.get(key, _MISSING) != value})
        rest.foreign_hooks = [hook for hook in self.foreign_hooks if hook not in common.foreign_hooks]
        return rest

    def __bool__(self) -> bool:
        return bool(self.foreign_hooks) or any(mine for mine, _ in self._tables(self))

    def _tables(self, other: Edits) -> list[tuple[dict[str, object], dict[str, object]]]:
        names = ("nodes", "mounts", "env", "links", "folders", "hooks", "net_devices")
        return [(getattr(self, name), getattr(other, name)) for name in names]


_MISSING = object()
