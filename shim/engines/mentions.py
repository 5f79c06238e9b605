"""The lines in engines' files that name a launcher: an engine that reads such a line starts it for its next container.

Files are read as text, line by line, so that a broken one counts as well. Looked at are the usual files of each engine,
those that it reads on this machine, and those that `shim runtime configure` wrote, wherever they are.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError
from shim.cdi import DEFAULT_DIRS
from shim.engines import sources, table, undo_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shim.host.host import Host

_PATH = re.compile(r"/[^\s\"',\]}]+")


@dataclass(frozen=True)
class Mention:
    """A line that names a launcher.

    Attributes:
        path: the file.
        line: its number, from 1.
        text: the line without white space around it.
    """

    path: str
    line: int
    text: str

    def to_json(self) -> dict[str, Any]:
        """The line as plain values."""
        return asdict(self)


def of(host: Host, launcher: str) -> list[Mention]:
    """The lines that name a launcher, by whatever link; comments do not count.

    Arguments:
        host: the machine.
        launcher: its path.
    """
    return [mention for file in _files(host) for mention in _in_file(host, launcher, file)]


def in_specs(host: Host, launcher: str, directories: Iterable[str] = ()) -> list[Mention]:
    """The specs whose hooks name a launcher, each by the first such line: every engine's own CDI starts it as root.

    Arguments:
        host: the machine.
        launcher: its path.
        directories: further ones than those of shim and of the engines.
    """
    specs: dict[object, str] = {}
    for directory in (*DEFAULT_DIRS, *sources.settings_or_defaults(host).spec_dirs, *_engines_dirs(host), *directories):
        for path in (path for suffix in ("json", "yaml") for path in host.glob(f"{directory.rstrip('/')}/*.{suffix}")):
            status = host.status(path)
            specs.setdefault((status.st_dev, status.st_ino) if status else path, path)
    return [mention for path in specs.values() for mention in _in_file(host, launcher, path)[:1]]


def _engines_dirs(host: Host) -> Iterator[str]:
    for engine in table.ENGINES.values():
        try:
            yield from engine.read(host, engine.locate(host)).spec_dirs
        except CdiError:
            continue  # broken, or not on this machine


def _in_file(host: Host, launcher: str, file: str) -> list[Mention]:
    try:
        data = host.read(file) or b""
    except CdiError:
        return []  # not a regular file, or not readable
    same: dict[str, bool] = {}
    lines = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not line.lstrip().startswith("#"):
            words = _PATH.findall(line.replace("\\/", "/"))  # JSON may write \/
            for word in words:
                if word not in same:
                    same[word] = host.is_same_file(word, launcher)
            if any(same[word] for word in words):
                lines.append(Mention(file, number, line.strip()))
    return lines


def _files(host: Host) -> list[str]:
    """The files that may name a runtime, each once, by whatever path it is reached."""
    known: dict[object, str] = {}
    for path in _every_path(host):
        status = host.status(path)
        known.setdefault((status.st_dev, status.st_ino) if status else path, path)
    return list(known.values())


def _every_path(host: Host) -> Iterator[str]:
    for engine in table.ENGINES.values():
        for pattern in engine.usual_files:
            yield from host.glob(pattern)
        try:
            yield from engine.read(host, engine.locate(host)).files
        except CdiError:
            continue  # its files are among the usual ones, or it is none of this machine
    yield from undo_records.named_files(host)
