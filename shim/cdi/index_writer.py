"""Writing the index: done by the first create without a valid index, and by cached.open. Cold.

Its form is that of shim.cdi.index.
"""

from __future__ import annotations

import posix
import time

from shim import __version__
from shim.base import fastjson
from shim.base.replace import replace, sweep
from shim.cdi.index import FORMAT, MAGIC, PREAMBLE, state, way
from shim.host.identity import make_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.cdi.directories import Directories
    from shim.host.look import Look

    Json = dict[str, Any]

_FRESH_NS = 100_000_000


class Inputs:
    """The identities of what an index is made from, taken before anything is read."""

    __slots__ = ("_known", "_look", "_started")

    def __init__(self, look: Look = posix) -> None:
        """Begin; `look` is used for the status of an input before it is read."""
        self._look = look
        self._started = time.time_ns()
        self._known: dict[str, list[int] | None] = {}

    def note(self, path: str) -> None:
        """Take the identity of a path that will be read next, or that is missing."""
        self._known[path] = state(path, self._look)

    def settled(self) -> list[tuple[str, list[int] | None]] | None:
        """All identities; None when an input changed since, or so recently that a further change may not be visible."""
        for path, known in self._known.items():
            if state(path) != known or (known and max(known[3:]) > self._started - _FRESH_NS):
                return None
        return list(self._known.items())


def write(path: str, inputs: Inputs, ways: Iterable[str], settings: Json, directories: Directories) -> bool:
    """Write an index; failure is silent, since the next create without an index writes it.

    Arguments:
        path: the file; its directory is created when missing; a directory that is not ours is left alone.
        inputs: noted before the files were read.
        ways: directories and links on the way to the inputs, as Trust checked them.
        settings: the configuration as plain values.
        directories: the specs and devices that they serve.
    Returns:
        whether it was written.
    """
    settled = inputs.settled()
    if settled is None:
        return False
    data = _encode(settled, [(path_of, way(path_of)) for path_of in ways], settings, directories)
    try:
        if not make_directory(path.rpartition("/")[0]):
            return False
        replace(path, data)
        sweep(path.rpartition("/")[0])
    except (OSError, ValueError):
        return False
    return True


def _encode(inputs: Any, ways: Any, settings: Json, directories: Directories) -> bytes:
    records: list[bytes] = []
    end = 0

    def record(value: Json) -> tuple[int, int]:
        nonlocal end
        data = fastjson.dumps(value).encode("ascii")
        records.append(data)
        start, end = end, end + len(data)
        return start, len(data)

    numbers = {id(spec): number for number, spec in enumerate(directories.specs)}
    specs = [(spec.path, spec.kind, *record(spec.edits)) for spec in directories.specs]
    lines = []
    for name in directories.devices():
        spec, device = directories.get(name) or (None, "")
        if spec:
            offset, length = record(spec.devices[device])
            lines.append(f"{name}\t{numbers[id(spec)]}\t{offset}\t{length}\n")
    names = "\n".join(("", "".join(lines))).encode("utf-8", "surrogateescape")
    rest_members = {
        "findings": {path: [finding.to_json() for finding in those] for path, those in directories.findings.items()},
        "conflicts": directories.conflicts,
        "shadowed": directories.shadowed,
    }
    rest = fastjson.dumps(rest_members).encode("ascii")
    header = {
        "version": __version__,
        "inputs": inputs,
        "ways": ways,
        "settings": settings,
        "dirs": directories.dirs,
        "searched": directories.searched,
        "specs": specs,
        "size": 0,
    }
    total = PREAMBLE + len(names) + len(rest) + end
    size = total + len(fastjson.dumps(header))
    for _ in range(3):  # the number of digits of the size is a part of the size
        header["size"] = size
        size = total + len(fastjson.dumps(header))
    text = fastjson.dumps(header).encode("ascii")
    preamble = b"%b %04d %08x %08x %08x\n" % (MAGIC, FORMAT, len(text), len(names), len(rest))
    return b"".join((preamble, text, names, rest, *records))
