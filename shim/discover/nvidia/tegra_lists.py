"""The lists of files that a Tegra system (Jetson) has for containers: CSV files, a line `KIND, PATH` each.

    dev, /dev/nvhost-*
    lib, /usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1
    sym, /usr/lib/aarch64-linux-gnu/tegra/libcuda.so
    dir, /usr/share/nvpmodel

A part of a path is a pattern (* ? [...]); a library may be named without a directory. The lists are the same for many
boards, so entries that are not on this one are usual. Empty lines and lines that begin with # count for nothing.

Source: the files of JetPack's package nvidia-l4t-init.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.host.tree import Tree

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.host import Host

DIRECTORY = "/etc/nvidia-container-runtime/host-files-for-container.d"
FILES = tuple(f"{DIRECTORY}/{name}.csv" for name in ("devices", "drivers", "l4t"))
DEVICE, FOLDER, LIBRARY, LINK = "dev", "dir", "lib", "sym"
_KINDS = (DEVICE, FOLDER, LIBRARY, LINK)
_PATTERN = set("*?[")
_DEEP = "**"
_TRUST = "name a file that root owns and nobody else can write (chown root FILE, chmod go-w FILE), as its directories"


@dataclass(frozen=True)
class Entry:
    """A line of a list.

    Attributes:
        kind: DEVICE, FOLDER, LIBRARY or LINK.
        path: absolute, or the name of a library; may be a pattern.
        file: the list, on the machine.
        line: counted from 1.
    """

    kind: str
    path: str
    file: str
    line: int


def read(host: Host, wish: Wish, driver: Tree) -> tuple[list[Entry], list[Finding]]:
    """The entries of all lists, without the links that are to be ignored.

    Arguments:
        host: the machine, on which the lists lie.
        wish: names the lists and the ignored links.
        driver: the root of the driver's files; it has the usual lists where the machine has none of them.
    Returns:
        the entries, DISCOVERY_PART for each line that is none, and for a pattern that ignores nothing, and
        DISCOVERY_INCOMPLETE for a usual list that others than root can change: it is not read.
    Raises:
        CdiError: DISCOVERY_WISH for a list that is named and is not there, or that others than root can change.
    """
    machine = Tree(host)
    for path in wish.csv_files:
        objection = host.objection(path) if machine.is_file(path) else "there is no such file"
        if objection:
            raise CdiError([Finding("DISCOVERY_WISH", f"--csv-file {path}: {objection}", _TRUST)])
    tree = machine if wish.csv_files or any(map(machine.is_file, FILES)) else driver
    entries: list[Entry] = []
    findings: list[Finding] = []
    for path in wish.csv_files or FILES:
        objection = host.objection(tree.host_path(path)) if tree.is_file(path) else ""
        if objection:
            # its entries become mounts of any file of the host
            text = f"the list is not read: {objection}"
            findings.append(Finding("DISCOVERY_INCOMPLETE", text, _TRUST, path=tree.host_path(path)))
            continue
        for number, line in enumerate((tree.read(path) or b"").decode("utf-8", "replace").splitlines(), 1):
            kind, _, name = (part.strip() for part in line.partition(","))
            if kind in _KINDS and name and (name.startswith("/") or _is_library_name(kind, name)):
                entries.append(Entry(kind, name, tree.host_path(path), number))
            elif line.strip() and not line.strip().startswith("#"):
                text = f"the line {line.strip()!r} is no entry: an entry is `{'|'.join(_KINDS)}, PATH`"
                findings.append(
                    Finding("DISCOVERY_PART", text, "correct the line", path=tree.host_path(path), line=number)
                )
    return _without_ignored(entries, wish, findings), findings


def _is_library_name(kind: str, name: str) -> bool:
    return kind == LIBRARY and "/" not in name


def _without_ignored(entries: list[Entry], wish: Wish, findings: list[Finding]) -> list[Entry]:
    links = [entry for entry in entries if entry.kind == LINK]
    ignored = set()
    for pattern in wish.csv_ignored:
        matches = [entry for entry in links if is_match(pattern, entry.path)]
        if not matches:
            text = f"--csv-ignore {pattern} ignores nothing: it matches no `{LINK}` entry"
            findings.append(Finding("DISCOVERY_PART", text, "give a name, a whole path, or **/ and the end of a path"))
        ignored.update(matches)
    return [entry for entry in entries if entry not in ignored]


def is_match(pattern: str, path: str) -> bool:
    """Whether a pattern matches a path.

    Arguments:
        pattern: of a whole path, in which ** stands for any directories; one without / is of the last part.
        path: absolute.
    """
    if "/" not in pattern:
        return fnmatchcase(path.rpartition("/")[2], pattern)
    return _is_match(pattern.lstrip("/").split("/"), path.lstrip("/").split("/"))


def _is_match(patterns: list[str], parts: list[str]) -> bool:
    if not patterns or not parts:
        return not parts and all(pattern == _DEEP for pattern in patterns)
    if patterns[0] == _DEEP:
        return _is_match(patterns[1:], parts) or _is_match(patterns, parts[1:])
    return fnmatchcase(parts[0], patterns[0]) and _is_match(patterns[1:], parts[1:])


def expand(tree: Tree, path: str) -> list[str]:
    """The paths of a tree that an entry's path stands for, sorted; none where nothing is there."""
    if tree.lstat(path):
        return [path]
    if not _PATTERN & set(path):
        return []
    above = [""]
    for part in path.strip("/").split("/"):
        above = [f"{directory}/{name}" for directory in above for name in _matching(tree, directory, part)]
    return [path for path in above if tree.lstat(path)]


def _matching(tree: Tree, directory: str, pattern: str) -> list[str]:
    if not _PATTERN & set(pattern):
        return [pattern]
    return [name for name in tree.names(directory or "/") if fnmatchcase(name, pattern)]
