"""Relocate: the paths of a spec moved from one root to another. Pure.

The files of a driver in a container of its own lie below a root such as /run/nvidia/driver; a spec that was written
there, or for a host on which they lie elsewhere, has to name other paths. A path belongs to the host or to the
container, and hooks have arguments of either, by where they run:

    host        sources of mounts and nodes, programs of hooks, arguments of hooks that run outside of the container
    container   paths of mounts and nodes, arguments of createContainer and startContainer hooks, which work on the
                container's tree, and the programs of the latter

A prefix counts by whole components: /run/nvidia is none of /run/nvidia-x.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from shim.base.paths import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    Json = dict[str, Any]

HOST, CONTAINER = "host", "container"
_INSIDE = "startContainer"
_ON_THE_TREE = ("createContainer", _INSIDE)
_PAIR = "::"  # between target and link in arguments of create-symlinks


def moved(document: Json, old: str, new: str, relative_to: str) -> Json:
    """A document whose paths below one root lie below another.

    Arguments:
        document: of a spec; not changed.
        old, new: the roots, absolute paths.
        relative_to: HOST or CONTAINER: whose paths.
    """
    made = copy.deepcopy(document)
    prefix = _Prefix(clean(old), clean(new))
    for edits in blocks(made):
        for node in edits.get("deviceNodes", ()):
            _move_node(node, prefix, relative_to)
        for mount in edits.get("mounts", ()):
            member = "hostPath" if relative_to == HOST else "containerPath"
            mount[member] = prefix.move(mount[member])
        for hook in edits.get("hooks", ()):
            _move_hook(hook, prefix, relative_to)
    return made


def blocks(document: Json) -> Iterator[Json]:
    """The container edits of a spec, then those of each device."""
    yield document.get("containerEdits") or {}
    for device in document["devices"]:
        yield device.get("containerEdits") or {}


class _Prefix:
    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old.rstrip("/"), new.rstrip("/")

    def move(self, path: str) -> str:
        """A path below the new root, or as it was."""
        if not path.startswith("/"):
            return path
        short = clean(path)
        if short != (self._old or "/") and not short.startswith(f"{self._old}/"):
            return path
        is_plain = path.startswith(self._old) and ".." not in path.split("/")
        return self._new + (path if is_plain else short)[len(self._old) :] or "/"

    def word(self, word: str) -> str:
        """An argument: a path, two paths with :: between them, or an option with either as its value."""
        name, equals, value = word.partition("=")
        if equals and name.startswith("-"):
            return f"{name}={self.word(value)}"
        return _PAIR.join(map(self.move, word.split(_PAIR)))


def _move_node(node: Json, prefix: _Prefix, relative_to: str) -> None:
    path, source = node["path"], node.get("hostPath") or node["path"]
    if relative_to == HOST:
        source = prefix.move(source)
    else:
        path = prefix.move(path)
    if (path, source) == (node["path"], node.get("hostPath") or node["path"]):
        return
    node["path"] = path
    node.pop("hostPath", None)
    if source != path:
        node["hostPath"] = source


def _move_hook(hook: Json, prefix: _Prefix, relative_to: str) -> None:
    program, stage, words = hook["path"], hook["hookName"], hook.get("args")
    moves_program = (stage == _INSIDE) == (relative_to == CONTAINER)
    moves_words = (stage in _ON_THE_TREE) == (relative_to == CONTAINER)
    if moves_program:
        hook["path"] = prefix.move(program)
    if words:
        first = hook["path"] if words[0] == program else prefix.word(words[0]) if moves_words else words[0]
        hook["args"] = [first, *(prefix.word(word) if moves_words else word for word in words[1:])]
