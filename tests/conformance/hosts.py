"""Fake hosts: the entries of a vector's `root`, made below a directory.

    {"path", "kind": f | d | l | s | c | b | elf | ldcache, ...}

A missing directory above an entry is made. Sockets lie deeper than a socket's address can be long, so they are bound
by their name alone, from within their directory.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unit.native import elves

if TYPE_CHECKING:
    from collections.abc import Callable

    Entry = dict[str, Any]

_NODES = {"c": stat.S_IFCHR, "b": stat.S_IFBLK}
_ROLES = {"nvml": "libnvidia-ml.so.1", "dxcore": "libdxcore.so", "sandboxutils": "libnvidia-sandboxutils.so.1"}


def build(entries: list[Entry], top: Path, words: dict[str, str] | None = None) -> None:
    """Make the entries of a fake host.

    Arguments:
        entries: in order; those of kind `ldcache` are made last.
        top: an existing directory, the `/` of the host.
        words: placeholder -> text, for paths, targets and contents.
    """
    for entry in replaced(sorted(entries, key=lambda entry: entry["kind"] == "ldcache"), words or {}):
        path = top / entry.get("path", "/").lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        _MAKERS[entry["kind"]](path, entry, top)


def replaced(value: Any, words: dict[str, str]) -> Any:
    """A value with placeholders replaced in its texts, at any depth."""
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(word, text)
        return value
    if isinstance(value, list):
        return [replaced(item, words) for item in value]
    if isinstance(value, dict):
        return {replaced(key, words): replaced(item, words) for key, item in value.items()}
    return value


def _file(path: Path, entry: Entry, top: Path) -> None:  # noqa: ARG001 - the makers have one interface
    path.write_text(entry.get("content", ""), encoding="utf-8")
    path.chmod(int(entry.get("mode", "0644"), 8))


def _directory(path: Path, entry: Entry, top: Path) -> None:  # noqa: ARG001 - the makers have one interface
    path.mkdir(exist_ok=True)
    path.chmod(int(entry.get("mode", "0755"), 8))


def _link(path: Path, entry: Entry, top: Path) -> None:  # noqa: ARG001 - the makers have one interface
    path.symlink_to(entry["target"])


def _socket(path: Path, entry: Entry, top: Path) -> None:  # noqa: ARG001 - the makers have one interface
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def _node(path: Path, entry: Entry, top: Path) -> None:  # noqa: ARG001 - the makers have one interface
    mode = int(entry.get("mode", "0600"), 8)
    os.mknod(path, _NODES[entry["kind"]] | mode, os.makedev(entry["major"], entry.get("minor", 0)))
    os.chown(path, entry.get("uid", 0), entry.get("gid", 0))
    path.chmod(mode)  # whatever the umask left


def _library(path: Path, entry: Entry, top: Path) -> None:  # noqa: ARG001 - the makers have one interface
    soname = _ROLES.get(entry.get("role", ""), entry.get("soname"))
    is_wide = entry.get("bits", 64) == 64
    machine = elves.X86_64 if is_wide else elves.I386
    path.write_bytes(elves.library(*filter(None, [soname]), wide=is_wide, machine=machine))
    path.chmod(0o755)


def _cache(path: Path, entry: Entry, top: Path) -> None:  # noqa: ARG001 - the makers have one interface
    (top / "etc").mkdir(exist_ok=True)
    configuration = top / "ld.so.conf.conformance"
    configuration.write_text("".join(f"{directory}\n" for directory in entry["dirs"]), encoding="utf-8")
    argv = ["/usr/sbin/ldconfig", "-X", "-r", str(top), "-f", "/ld.so.conf.conformance", "-C", "/etc/ld.so.cache"]
    try:
        subprocess.run(argv, check=True, capture_output=True)
    finally:
        configuration.unlink()


_MAKERS: dict[str, Callable[[Path, Entry, Path], None]] = {
    "f": _file,
    "d": _directory,
    "l": _link,
    "s": _socket,
    "c": _node,
    "b": _node,
    "elf": _library,
    "ldcache": _cache,
}
