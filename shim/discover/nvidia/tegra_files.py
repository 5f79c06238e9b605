"""The files of a Tegra system that its lists name: libraries, links and directories for every container.

A file lies in the container where it lies in the driver's tree without links. A link of the lists keeps its own text,
and so does each link that it leads through; so programs meet the same chain as on the host. Beside a library are the
links of the loader and of build tools that the tree has, unless the lists have a link of that name.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.nvidia import options, tegra_lists
from shim.discover.nvidia.search import Search
from shim.discover.nvidia.tegra_lists import FOLDER, LIBRARY, LINK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.discover.edits import Edits
    from shim.discover.model import Wish
    from shim.discover.nvidia.tegra_lists import Entry
    from shim.host.tree import Tree

_CUDA = "libcuda.so."
_MAX_LINKS = 40  # as the kernel (path_resolution(7))
_SHOWN = 8  # entries in a message


def driver_edits(tree: Tree, wish: Wish, entries: list[Entry], machine: str) -> tuple[Edits, list[Entry]]:
    """The edits for what lists have beside device nodes.

    Arguments:
        tree: the driver's files.
        wish: directories in which libraries without a directory are searched.
        entries: of the lists.
        machine: as uname(2) names it.
    Returns:
        the edits, and the entries of which nothing is there.
    """
    files = _Files(tree, Search(tree, wish.library_paths, machine), options.common_edits(wish))
    # links first: theirs are the texts that count
    for kind in (LINK, FOLDER, LIBRARY):
        for entry in entries:
            if entry.kind == kind and not files.add(entry):
                files.missing.append(entry)
    files.add_links()
    return files.edits, files.missing


def findings(missing: list[Entry]) -> list[Finding]:
    """What entries of lists that are not on the host mean: an error for libcuda, a warning for others of a list."""
    made = []
    for file in dict.fromkeys(entry.file for entry in missing):
        every = sorted((entry for entry in missing if entry.file == file), key=lambda entry: entry.line)
        shown = ", ".join(f"{entry.path} (line {entry.line})" for entry in every[:_SHOWN])
        more = f" and {len(every) - _SHOWN} more" if every[_SHOWN:] else ""
        text = f"entries that are not on this host: {shown}{more}"
        made.append(Finding("DISCOVERY_PART", text, "nothing is to do if this board has no such part", path=file))
    for entry in missing:
        if entry.kind == LIBRARY and posixpath.basename(entry.path).startswith(_CUDA):
            text = f"{entry.path} is missing, without which no program can use the GPU"
            remedy = "install JetPack's package nvidia-l4t-cuda, then generate again"
            made.append(Finding("DISCOVERY_INCOMPLETE", text, remedy, path=entry.file, line=entry.line))
    return made


@dataclass
class _Files:
    """The files of a tree that are added to edits."""

    tree: Tree
    search: Search
    edits: Edits
    libraries: list[str] = field(default_factory=list)
    missing: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> bool:
        """Add what an entry names; False when nothing of it is there."""
        add = {LINK: self._add_link, FOLDER: self._add_folder, LIBRARY: self._add_library}[entry.kind]
        added = [add(path) for path in self._paths(entry.path)]
        return any(added)

    def _paths(self, path: str) -> Iterable[str]:
        if path.startswith("/"):
            return tegra_lists.expand(self.tree, path)
        stem = path.partition(".so")[0].rstrip("*?[")
        every = [tegra_lists.expand(self.tree, f"{at.rstrip('/')}/{path}") for at in self.search.directories(stem)]
        return next(filter(None, every), [])

    def _add_link(self, path: str) -> bool:
        """Add a link and those that it leads through, if it leads anywhere."""
        if self.tree.resolve(path) is None or self.tree.readlink(path) is None:
            return False
        for _ in range(_MAX_LINKS):
            text = self.tree.readlink(path)
            directory = self.tree.resolve(posixpath.dirname(path))
            if text is None or directory is None:
                break
            self.edits.add_link(posixpath.join(directory, posixpath.basename(path)), text)
            path = posixpath.join(directory, text)
        return True

    def _add_folder(self, path: str) -> bool:
        directory = self.tree.resolve(path)
        if directory is None or not self.tree.is_directory(directory):
            return False
        self.edits.add_mount(self.tree, directory)
        return True

    def _add_library(self, path: str) -> bool:
        file = self.tree.resolve(path)
        if file is None or not self.tree.is_file(file):
            return False
        self.edits.add_mount(self.tree, file)
        if _is_library(posixpath.basename(file)):
            self.libraries.append(file)
            self.edits.add_folder(posixpath.dirname(file))
        return True

    def add_links(self) -> None:
        """Add the links beside libraries: those of libcuda in any case, others where the tree has them."""
        files = set(self.libraries)
        names = {directory: self.search.names(directory) for directory in map(posixpath.dirname, self.libraries)}
        for file in self.libraries:
            directory, name = posixpath.split(file)
            if name.startswith(_CUDA) and name != f"{_CUDA}1":
                self.edits.add_link(f"{directory}/{_CUDA}1", name)
                self.edits.add_link(f"{directory}/{_CUDA.rstrip('.')}", f"{_CUDA}1")
        for directory, every in names.items():
            for link in (f"{directory}/{name}" for name in every if _is_library(name)):
                text = self.tree.readlink(link)
                if text is not None and self.tree.resolve(link) in files:
                    self.edits.add_link(link, text)


def _is_library(name: str) -> bool:
    return name.endswith(".so") or ".so." in name
