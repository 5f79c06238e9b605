"""The scene of a cache or inject case: files, links, pipes, sockets and nodes below a directory, with their modes."""

from __future__ import annotations

import base64
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.host import nodes
from shim.host.fakenodes import FakeNodes

if TYPE_CHECKING:
    from collections.abc import Iterator

# What the reference does instead of giving a result -> our deviation.
FATAL = {"crash": "null-item", "hang": "not-regular"}
NO_DEVICE = ("", 0, 0, 0)
TOKEN = "{DIR}"  # noqa: S105 - the vectors' word for the directory of the case


def placed(value: Any, directory: str) -> Any:
    """The value with the directory of the case in every text."""
    if isinstance(value, str):
        return value.replace(TOKEN, directory)
    if isinstance(value, list):
        return [placed(item, directory) for item in value]
    if isinstance(value, dict):
        return {placed(key, directory): placed(item, directory) for key, item in value.items()}
    return value


@contextmanager
def scene(entries: list[dict[str, Any]], directory: str) -> Iterator[dict[str, tuple[str, int, int, int]]]:
    """Make the entries; afterwards every directory can be entered again, so that it can be removed.

    Yields the device nodes that could not be made here, for a fake: path -> (type, major, minor, mode).
    """
    missing = {}
    locked = []
    for entry in entries:
        path = Path(directory, entry["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _make(path, entry, directory)
        except PermissionError:
            if entry.get("type") not in ("char", "block"):
                raise
            mode = int(entry.get("mode", "600"), 8)
            missing[str(path)] = (entry["type"][0], entry["major"], entry["minor"], mode)
    for entry in reversed(entries):
        path = Path(directory, entry["path"])
        if "mode" in entry and str(path) not in missing:
            if entry.get("type") == "dir":
                locked.append(path)
            path.chmod(int(entry["mode"], 8))
    try:
        yield missing
    finally:
        for path in reversed(locked):
            path.chmod(0o700)


def _make(path: Path, entry: dict[str, Any], directory: str) -> None:
    kind = entry.get("type", "file")
    if kind == "file":
        if "content_b64" in entry:
            path.write_bytes(base64.b64decode(entry["content_b64"]))
        else:
            path.write_bytes(placed(entry.get("content", ""), directory).encode())
    elif kind == "dir":
        path.mkdir(exist_ok=True)
    elif kind == "symlink":
        path.symlink_to(placed(entry["target"], directory))
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    elif kind in ("char", "block"):
        device = os.makedev(entry["major"], entry["minor"])
        os.mknod(path, (stat.S_IFCHR if kind == "char" else stat.S_IFBLK) | 0o600, device)
    else:
        raise ValueError(f"{entry['path']}: unknown type {kind}")


def host(facts: dict[str, dict[str, Any]], missing: dict[str, tuple[str, int, int, int]]) -> FakeNodes:
    """The nodes of this machine, and a fake for each path about which the case says something else."""
    table: dict[str, tuple[str, int, int, int] | None] = dict(missing)
    for path, fact in facts.items():
        wanted = None
        if fact["exists"]:
            kind = fact["type"] if fact["type"] in ("b", "c", "p") else ""
            wanted = (kind, fact.get("major", 0), fact.get("minor", 0), fact.get("fileMode", 0)) if kind else NO_DEVICE
        real = nodes.lookup(path)
        seen = real and (real[:4] if real[0] else NO_DEVICE)
        if seen != wanted:
            table[path] = wanted
    return FakeNodes(table, otherwise=nodes.lookup)


def pruned(value: Any) -> Any:
    """The value without members that are null, an empty list or an empty map, as the vectors ask."""
    if isinstance(value, dict):
        members = {key: pruned(item) for key, item in value.items()}
        return {key: item for key, item in members.items() if item is not None and item not in ({}, [])}
    if isinstance(value, list):
        return [pruned(item) for item in value]
    return value


def difference(got: Any, expected: Any, where: str = "") -> str | None:
    """The first place in which two values differ, in words."""
    if isinstance(got, dict) and isinstance(expected, dict):
        for key in sorted({*got, *expected}, key=str):
            if key not in got or key not in expected:
                side, value = ("missing", expected[key]) if key not in got else ("too much", got[key])
                return f"{where}/{key}: {side}: {value!r}"
            found = difference(got[key], expected[key], f"{where}/{key}")
            if found:
                return found
        return None
    if isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        for place, pair in enumerate(zip(got, expected, strict=True)):
            found = difference(*pair, f"{where}[{place}]")
            if found:
                return found
        return None
    if type(got) is type(expected) and got == expected:
        return None
    return f"{where or '/'}: {got!r} instead of {expected!r}"
