"""The log of changes of grants: a JSON object a line, with serial numbers without gaps.

A line is written, and on the disk, before its change is in force: then no change is ever in force without a line. A
writer that is killed between the two leaves a line whose change did not happen; the next writer closes it with a line
`abandoned`, so that the log always states what happened:

    {"serial": 7, "time": "…", "op": "add", "subject": "repo-a", "devices": ["nvidia.com/gpu=0"], …}
    {"serial": 8, "time": "…", "op": "abandoned", "of": 7, …}

Each line is a single write(2) with O_APPEND. A crash of the machine may leave a part of a line; the next writer begins
a line of its own behind it, and `verify` reports the part.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.base import files
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = "/var/log/shim/audit.jsonl"
ABANDONED = "abandoned"

_MODE = 0o640
_TAIL = 256 * 1024  # bytes that are read at first to see the last lines


class Audit:
    """The log, open for a writer that holds the lock of the grants.

    Arguments:
        path: the file; it is made when missing, its directory too.
    Raises:
        CdiError: GRANTS_WRITE.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            directory = Path(path).parent
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            is_new = not Path(path).exists()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._fd = os.open(path, flags, _MODE)
            if is_new:
                files.sync(directory)
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def last_lines(self, serial: int) -> list[dict[str, Any]]:
        """The lines behind that of a serial, in order; what is no line is left out.

        Arguments:
            serial: that of the last change in force.
        """
        size = os.fstat(self._fd).st_size
        length = _TAIL
        while True:
            start = max(0, size - length)
            lines = os.pread(self._fd, size - start, start).split(b"\n")
            read = [line for line in map(_decoded, lines[1:] if start else lines) if line]
            if not start or (read and read[0]["serial"] <= serial):
                return [line for line in read if line["serial"] > serial]
            length *= 4

    def append(self, line: dict[str, Any]) -> None:
        """Write a line, and have it on the disk. Raises CdiError: GRANTS_WRITE."""
        try:
            size = os.fstat(self._fd).st_size
            is_torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"
            data = b"\n" * is_torn + json.dumps(line).encode() + b"\n"
            if os.write(self._fd, data) != len(data):
                raise CdiError([Finding("GRANTS_WRITE", "its file system is full", path=self._path)])
            os.fsync(self._fd)
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> CdiError:
        text = f"the log of changes cannot be written, so nothing is changed: {reason(error)}"
        return CdiError([Finding("GRANTS_WRITE", text, path=self._path)])


def read(path: str) -> tuple[list[dict[str, Any]], list[Finding]]:
    """The lines of a log, and what is wrong with them; none of a missing file.

    Arguments:
        path: the file.
    Raises:
        CdiError: GRANTS_AUDIT, when it cannot be read.
    """
    try:
        data = files.read(path)
    except FileNotFoundError:
        data = b""
    except OSError as error:
        text = f"the log cannot be read: {reason(error)}"
        raise CdiError([Finding("GRANTS_AUDIT", text, "run it as root", path=path)]) from None
    lines: list[dict[str, Any]] = []
    findings = []
    last = 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        line = _decoded(raw)
        if line is None:
            if raw:
                findings.append(Finding("GRANTS_AUDIT", "this is no line of the log", path=path, line=number))
            continue
        if lines and line["serial"] != last + 1:
            gap = f"serial {line['serial']} follows {last}: lines are missing, or were changed"
            findings.append(Finding("GRANTS_AUDIT", gap, path=path, line=number))
        last = line["serial"]
        lines.append(line)
    return lines, findings


def verify(lines: Iterable[dict[str, Any]], serial: int, path: str) -> list[Finding]:
    """Whether the last change in force is the last of the log.

    Arguments:
        lines: of the log.
        serial: of the grants file.
        path: of the log.
    """
    listed = list(lines)
    abandoned = {line.get("of") for line in listed if line["op"] == ABANDONED}
    changes = [line["serial"] for line in listed if line["op"] != ABANDONED and line["serial"] not in abandoned]
    last = changes[-1] if changes else 0
    if last == serial:
        return []
    if last > serial:
        text = f"change {last} is not in force: its writer was killed; the next change closes its line"
        return [Finding("GRANTS_AUDIT", text, path=path).as_warning()]
    text = f"change {serial} is in force and has no line here: the log was cut, or the grants were written without shim"
    return [Finding("GRANTS_AUDIT", text, path=path)]


def _decoded(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(line, dict) and isinstance(line.get("serial"), int) and isinstance(line.get("op"), str)
    return line if whole else None
