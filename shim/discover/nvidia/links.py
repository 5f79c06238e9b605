"""Links to the driver's libraries: the names under which programs and the loader look for them.

Each link has one target. It is made beside its library in the container, whatever the driver's tree has: the loader's
names come from DT_SONAME, those of build tools (`.so`) from the tree, and a few that programs open from a table.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from shim.host.tree import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shim.discover.nvidia.libraries import Library
    from shim.host.tree import Tree

# Library of the driver's version -> links beside it; "" stands for the library itself
_FIXED = {
    "libcuda": {"libcuda.so.1": "", "libcuda.so": "libcuda.so.1"},
    "libGLX_nvidia": {"libGLX_indirect.so.0": ""},
    "libnvidia-opticalflow": {
        "libnvidia-opticalflow.so.1": "",
        "libnvidia-opticalflow.so": "libnvidia-opticalflow.so.1",
    },
}
# Mesa's libgbm loads a backend by the name of the kernel's driver, from the directory gbm
_GBM, _ALLOCATOR = "gbm/nvidia-drm_gbm.so", "libnvidia-allocator"


def links(tree: Tree, libraries: Iterable[Library], version: str, directories: Iterable[str]) -> dict[str, str]:
    """The links to libraries.

    Arguments:
        tree: the driver's files.
        libraries: that the container gets.
        version: of the driver.
        directories: in which the tree may have the link of Mesa's libgbm.
    Returns:
        path of a link in the container -> its text.
    """
    libraries = list(libraries)
    made: dict[str, str] = {}
    sources = (
        _aliases(libraries),
        _sonames(tree, libraries),
        _fixed(libraries, version),
        _unversioned(tree, libraries),
        _gbm(tree, libraries, version, directories),
    )
    files = {library.path for library in libraries}
    for source in sources:
        for link, text in source:
            if link not in files:
                made.setdefault(link, text)
    return made


def _aliases(libraries: list[Library]) -> Iterator[tuple[str, str]]:
    """Names that are links in the tree although programs look for a file there."""
    for library in libraries:
        link = f"{library.directory}/{library.name}"
        if link != library.path:
            yield link, posixpath.relpath(library.path, library.directory)


def _sonames(tree: Tree, libraries: list[Library]) -> Iterator[tuple[str, str]]:
    """The loader's names. Of two libraries with one name the tree's own choice counts, else the newer library."""
    claims: dict[str, list[Library]] = {}
    for library in libraries:
        if library.soname:
            claims.setdefault(f"{library.directory}/{library.soname}", []).append(library)
    for link, claimants in claims.items():
        choice = tree.resolve(link)
        yield link, max(claimants, key=lambda library: _rank(library, choice)).name


def _rank(library: Library, choice: str | None) -> tuple[bool, list[tuple[int, int, str]]]:
    return library.path == choice, natural(library.name)


def _fixed(libraries: list[Library], version: str) -> Iterator[tuple[str, str]]:
    for library in libraries:
        stem = library.name.removesuffix(f".so.{version}")
        for name, target in _FIXED.get(stem, {}).items():
            yield f"{library.directory}/{name}", target or library.name


def _unversioned(tree: Tree, libraries: list[Library]) -> Iterator[tuple[str, str]]:
    """The links `.so` that the tree has beside a library, if they lead to it."""
    for library in libraries:
        stem, _, _ = library.name.partition(".so.")
        link = f"{library.directory}/{stem}.so"
        text = tree.readlink(link)
        if text is None:
            continue
        names = [name for name in (library.soname, library.name) if name]
        if posixpath.basename(text) in names:
            yield link, posixpath.basename(text)
        elif tree.resolve(link) == library.path:
            yield link, names[0]


def _gbm(tree: Tree, libraries: list[Library], version: str, directories: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The backend of Mesa's libgbm: where the tree has its link, else beside the library that is the backend."""
    for library in libraries:
        if library.name != f"{_ALLOCATOR}.so.{version}":
            continue
        file = f"{library.directory}/{library.soname or library.name}"
        candidates = [f"{directory.rstrip('/')}/{_GBM}" for directory in directories]
        at = [link for link in candidates if _leads_to(tree, link, library)] or [f"{library.directory}/{_GBM}"]
        for link in at:
            yield link, posixpath.relpath(file, posixpath.dirname(link))


def _leads_to(tree: Tree, link: str, library: Library) -> bool:
    text = tree.readlink(link)
    if text is None:
        return False
    return tree.resolve(link) == library.path or posixpath.basename(text) in {library.soname, library.name}
