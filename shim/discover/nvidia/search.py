"""Where the driver's libraries are looked up: the directories that are given, else the usual ones and the loader's.

All paths are those of the driver's tree, without links, so a directory that is reached in two ways is there once.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.host import ldcache
from shim.host.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The multiarch directories of both machines that NVIDIA has a driver for: whether a library fits is read from its file
_TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-gnu")
STANDARD = (
    "/usr/lib64",
    *(f"/usr/lib/{triple}" for triple in _TRIPLES),
    *(f"/usr/lib/{triple}/nvidia/current" for triple in _TRIPLES),
    "/lib64",
    *(f"/lib/{triple}" for triple in _TRIPLES),
    *(f"/lib/{triple}/nvidia/current" for triple in _TRIPLES),
    "/usr/lib",
    "/lib",
    "/run/opengl-driver/lib",
    "/",
)
CACHE = "/etc/ld.so.cache"

# uname(2) -> the second byte of an entry's flags (sysdeps/generic/ldconfig.h of glibc)
_CACHE_FLAGS = {"x86_64": 0x0300, "aarch64": 0x0A00, "ppc64le": 0x0500, "riscv64": 0x1000}
_CACHE_MASK = 0xFF00
_MAX_LINKS = 40  # as the kernel (path_resolution(7))


class Search:
    """The directories in which libraries are looked up.

    Arguments:
        tree: the driver's files.
        paths: directories that replace the usual ones and the loader's cache; each below the tree's root, or with that
            root before it.
        machine: as uname(2) names it.
    Attributes:
        tree: the driver's files.
        machine: as it was given.
        searched: the directories, as a message names them.
        findings: about a cache that cannot be read.
    """

    def __init__(self, tree: Tree, paths: tuple[str, ...], machine: str) -> None:
        self.tree = tree
        self.machine = machine
        self.findings: list[Finding] = []
        wanted = [below_root(tree, path) for path in paths] or list(STANDARD)
        self.searched = tuple(dict.fromkeys(wanted))
        self._directories = self._resolved(wanted)
        self._cached = [] if paths else self._entries()
        if self._cached:
            self.searched += (f"those of {CACHE}",)
        self._names: dict[str, list[str]] = {}

    def directories(self, *names: str) -> list[str]:
        """The directories that exist, in the order of the search.

        Arguments:
            names: beginnings of libraries' names, such as "libcuda.so": the cache adds directories that have such.
        """
        cached = (path for key, path in self._cached if key.startswith(names))
        above = (directory for path in cached for directory in self._chain(path))
        return list(dict.fromkeys([*self._directories, *self._resolved(above)]))

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted; each directory is listed once."""
        if directory not in self._names:
            self._names[directory] = self.tree.names(directory)
        return self._names[directory]

    def _resolved(self, paths: Iterable[str]) -> list[str]:
        resolved = (self.tree.resolve(path) for path in paths)
        return [path for path in dict.fromkeys(resolved) if path is not None]

    def _chain(self, path: str) -> Iterator[str]:
        """The directory of a path, and that of each link which it leads through."""
        for _ in range(_MAX_LINKS):
            directory = posixpath.dirname(path)
            yield directory
            text = self.tree.readlink(path)
            if text is None:
                return
            path = posixpath.join(directory, text)

    def _entries(self) -> list[tuple[str, str]]:
        """Name and path of the libraries that the loader's cache has for this machine."""
        data = self.tree.read(CACHE, ldcache.LIMIT + 1)
        if data is None:
            return []
        try:
            entries = ldcache.decode(data).entries
        except ldcache.NotACacheError as error:
            text = f"libraries were not looked up in {CACHE}: {error}"
            self.findings.append(Finding("DISCOVERY_PART", text, "run ldconfig, then generate again"))
            return []
        flags = _CACHE_FLAGS.get(self.machine)
        return [(entry.key, entry.value) for entry in entries if entry.flags & _CACHE_MASK == flags]


def below_root(tree: Tree, path: str) -> str:
    """The path in a tree of a path that has the tree's root before it, or has not.

    The root is recognized by what its components lead to on the machine, never as text.
    """
    if tree.root == "/":
        return path
    machine = Tree(tree.host)
    parts = [part for part in path.split("/") if part]
    for count in range(1, len(parts) + 1):
        if machine.resolve("/" + "/".join(parts[:count])) == tree.root:
            return "/" + "/".join(parts[count:])
    return path
