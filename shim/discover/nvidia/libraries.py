"""The driver's libraries: files of the driver's version, each with the name under which programs look for it.

A file counts when it is a library for this machine; its name alone does not make it one. It lies in the container
where it lies in the driver's tree without links, since links are made there anew (shim.discover.nvidia.links).
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.base.paths import reason
from shim.host import elf

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.discover.nvidia.search import Search

CUDA, MANAGEMENT = "libcuda", "libnvidia-ml"
_VDPAU = "vdpau"

# Libraries with versions of their own, which programs load beside those of the driver's version
_NVVM70 = "libnvidia-nvvm70"
EXPLICIT = (
    "libEGL",
    "libGL",
    "libGLESv1_CM",
    "libGLESv2",
    "libGLX",
    "libGLdispatch",
    "libOpenCL",
    "libOpenGL",
    "libnvidia-api",
    "libnvidia-egl-xcb",
    "libnvidia-egl-xlib",
)
PLATFORMS = tuple(f"libnvidia-egl-{name}" for name in ("gbm", "wayland", "wayland2", "xcb", "xlib"))

_NAME = re.compile(r"[A-Za-z0-9_.+-]+")  # what a hook's arguments can hold; no driver has another name
_DRIVER_VERSION = re.compile(rf"{CUDA}\.so\.([0-9]{{3,}}(?:\.[0-9]+)+)")  # not libcuda.so.1.1, which is that of WSL
_SHOWN = 8  # files in a message


@dataclass(frozen=True)
class Library:
    """A library.

    Attributes:
        directory: in which programs find it, without links.
        name: under which it was looked up there.
        path: of its file, without links.
        soname: its DT_SONAME, "" for none that can be a file's name.
    """

    directory: str
    name: str
    path: str
    soname: str


class Libraries:
    """The driver's libraries in a tree.

    Arguments:
        search: where they are looked up.
        version: of the driver.
    Attributes:
        taken: the libraries, each name once.
        left_out: path -> why a file that has the name of a library is none.
    """

    def __init__(self, search: Search, version: str) -> None:
        self._search = search
        self._suffix = f".so.{version}"
        self._version = version
        self.taken: dict[tuple[str, str], Library] = {}
        self.left_out: dict[str, str] = {}
        self._homes: dict[str, None] = {}
        self._unfit: dict[str, str] = {}  # path -> why the file of one of the first two names does not count

    @property
    def driver_directories(self) -> list[str]:
        """The directories that have libcuda or libnvidia-ml of this version, in the order of the search."""
        return list(self._homes)

    def take_driver(self, *, is_explicit: bool) -> None:
        """Take what a driver has in its directories, without its modules of X.

        Arguments:
            is_explicit: whether the libraries of EXPLICIT are taken, too.
        """
        beginnings = [f"{CUDA}.so", f"{MANAGEMENT}.so"]
        marks = [CUDA + self._suffix, MANAGEMENT + self._suffix]
        for directory in self._search.directories(*beginnings):
            there = {name: self._read(directory, name) for name in marks if self._is_there(directory, name)}
            homes = [library.directory for library in there.values() if isinstance(library, Library)]
            self._unfit.update({f"{directory}/{name}": why for name, why in there.items() if isinstance(why, str)})
            self._homes.update(dict.fromkeys(homes))
            # a directory of links, as on NixOS: all that it has is looked up there, and lies elsewhere
            if homes and directory not in homes:
                self._take_version(directory)
        for directory in self.driver_directories:
            self._take_version(directory)
            self._take_version(f"{directory}/{_VDPAU}")
            self._take_named(directory, (_NVVM70,))
        self._take_everywhere(PLATFORMS)
        self._take_everywhere(EXPLICIT if is_explicit else ())

    def take(self, directory: str, name: str) -> Library | None:
        """Take a library; None when there is none of that name, or the file is no library for this machine."""
        if not self._is_there(directory, name):
            return None
        library = self._read(directory, name)
        if isinstance(library, str):
            self.left_out[f"{directory}/{name}"] = library
            return None
        return self.taken.setdefault((library.directory, library.name), library)

    def findings(self) -> list[Finding]:
        """What is missing, of another version, or was left out."""
        findings = list(self._search.findings)
        cuda = CUDA + self._suffix
        if not any(name == cuda for _, name in self.taken):
            findings.append(self._other_version() or self._no_cuda(cuda))
        if self.left_out:
            files = [f"{self._search.tree.host_path(path)}: {why}" for path, why in self.left_out.items()]
            more = f", and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
            text = f"left out although named like libraries of the driver: {', '.join(files[:_SHOWN])}{more}"
            findings.append(
                Finding("DISCOVERY_PART", text, "install the driver's packages again, if they are its files")
            )
        return findings

    def _no_cuda(self, name: str) -> Finding:
        tree = self._search.tree
        below = f" below {tree.root}" if tree.root != "/" else ""
        unfit = {path: why for path, why in self._unfit.items() if path.endswith(f"/{name}")}
        files = "; ".join(f"{tree.host_path(path)}: {why}" for path, why in unfit.items())
        text = f"{name} is in no directory that was searched{below}: {', '.join(self._search.searched)}"
        text += f" ({files})" if files else ""
        remedy = "install the driver's libraries of this version, or name their directory: --library-search-path DIR"
        return Finding("DISCOVERY_INCOMPLETE", text, remedy)

    def _other_version(self) -> Finding | None:
        """That the files are of another version than the kernel's module; None when no version is there."""
        for directory in self._search.directories(f"{CUDA}.so"):
            matches = [match for match in map(_DRIVER_VERSION.fullmatch, self._search.names(directory)) if match]
            have = [match[1] for match in matches if isinstance(self._read(directory, match[0]), Library)]
            if have:
                at = self._search.tree.host_path(directory)
                text = f"the driver that runs is {self._version}, and the libraries in {at} are {', '.join(have)}"
                return Finding("DRIVER_MISMATCH", text)
        return None

    def _take_version(self, directory: str) -> None:
        for name in self._search.names(directory):
            if name.endswith(self._suffix):
                self.take(directory, name)

    def _take_named(self, directory: str, stems: Iterable[str]) -> None:
        """Take libraries with versions of their own; a link to such counts as the file."""
        for name in self._search.names(directory):
            stem, dot, _ = name.partition(".so.")
            path = self._search.tree.resolve(f"{directory}/{name}") if dot and stem in stems else None
            if path is not None:
                self.take(posixpath.dirname(path), posixpath.basename(path))

    def _take_everywhere(self, stems: tuple[str, ...]) -> None:
        if stems:
            for directory in self._search.directories(*(f"{stem}.so" for stem in stems)):
                self._take_named(directory, stems)

    def _is_there(self, directory: str, name: str) -> bool:
        return self._search.tree.lstat(f"{directory}/{name}") is not None

    def _read(self, directory: str, name: str) -> Library | str:
        """The library of a name, or why there is none."""
        tree = self._search.tree
        path = tree.resolve(f"{directory}/{name}")
        if path is None:
            return "a link that leads nowhere"
        if not _NAME.fullmatch(name) or not _NAME.fullmatch(posixpath.basename(path)):
            return "no name of a library"
        file = tree.open(path)
        if file is None:
            return "it cannot be read"
        try:
            with file:
                content = elf.read(file)
        except elf.NotAnElfError as error:
            return str(error)
        except OSError as error:
            return reason(error)
        if not content.fits(self._search.machine):
            return f"no library for {self._search.machine}"
        is_same = posixpath.basename(path) == name
        soname = content.soname if _NAME.fullmatch(content.soname) and content.soname.strip(".") else ""
        return Library(posixpath.dirname(path) if is_same else directory, name, path, soname)
