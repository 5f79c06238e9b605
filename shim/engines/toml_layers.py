"""Layers: TOML files that an engine decodes one over the other, each into what the former have left.

CRI-O and podman both do it with the same Go library, whose rules are these. A table of settings is merged key by key. A
map (of runtimes by name) keeps its other entries, and an entry that comes again replaces the former one whole. A list
replaces the former list. Keys of settings count in any case of letters. What is unknown is passed over without a word,
and a value of another type stops the engine.

Source: https://github.com/BurntSushi/toml, decode.go (unifyStruct, unifyMap, unifySlice)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.engines.texts import editing, toml_edit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from shim.engines.model import Keys
    from shim.host.host import Host

LIST = "list of texts"
APPENDING = "list of texts, with or without {append = true}"
_NAMES = {str: "text", bool: "true or false", LIST: LIST, APPENDING: APPENDING, dict: "table"}


@dataclass
class Layer:
    """A file of the configuration.

    Attributes:
        path: the file.
        text: its content.
        document: what that means, keys of settings in small letters.
    """

    path: str
    text: str = ""
    document: dict[str, Any] = field(default_factory=dict)

    def line(self, keys: Keys) -> int:
        """The line, from 1, on which a key or table is; 0 when there is none, or it is written in other letters."""
        return toml_edit.line_of(self.text, keys)


def read(host: Host, paths: Iterable[str], maps: Collection[Keys]) -> list[Layer]:
    """The files that exist.

    Arguments:
        host: the machine.
        paths: in the order in which the engine decodes them.
        maps: tables whose keys are names, of any letters.
    Raises:
        CdiError: ENGINE_CONFIG_UNREADABLE, ENGINE_CONFIG_SYNTAX.
    """
    found = []
    for path in paths:
        data = host.read(path)
        if data is not None:
            text = editing.decoded(data, path)
            found.append(Layer(path, text, _folded(toml_edit.loads(text, path), (), maps)))
    return found


def merge(layers: Iterable[Layer], maps: Collection[Keys]) -> dict[str, Any]:
    """What the layers come to, the last the most important."""
    merged: dict[str, Any] = {}
    for layer in layers:
        _over(merged, layer.document, (), maps)
    return merged


def last(layers: Iterable[Layer], keys: Keys) -> Layer | None:
    """The layer that has the last word on a key or table, None when no layer has it."""
    return next((one for one in reversed(list(layers)) if toml_edit.get(one.document, keys) is not None), None)


def setting(host: Host, paths: Iterable[str], keys: Keys, maps: Collection[Keys]) -> Iterator[Layer]:
    """Files that have a key or table, of some that the engine does not read; those that are no TOML do not count."""
    for path in paths:
        try:
            found = read(host, [path], maps)
        except CdiError:
            continue
        yield from (layer for layer in found if toml_edit.get(layer.document, keys) is not None)


def mistyped(layers: Iterable[Layer], types: dict[Keys, Any], engine: str) -> Iterator[Finding]:
    """Values of a type at which the engine stops.

    Arguments:
        layers: the files.
        types: keys -> str, bool, dict, LIST or APPENDING; "*" stands for any name.
        engine: its name, for the text.
    """
    for layer in layers:
        for pattern, kind in types.items():
            for keys, value in _matches(layer.document, pattern):
                if not _is(value, kind):
                    text = f"{'.'.join(keys)} is {_said(value)} instead of a {_NAMES[kind]}: {engine} does not start"
                    yield Finding("CONFIG_TYPE", text, path=layer.path, line=layer.line(keys))


def tables_with(document: dict[str, Any], key: str, path: Keys = ()) -> Iterator[Keys]:
    """The tables, at any depth, that have a key."""
    if key in document:
        yield path
    for name, value in document.items():
        if isinstance(value, dict):
            yield from tables_with(value, key, (*path, name))


def _folded(document: dict[str, Any], path: Keys, maps: Collection[Keys]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for written, value in document.items():
        key = written if path in maps else written.lower()
        if key in result and key != written:
            continue  # the key in its own letters comes first
        result[key] = _folded(value, (*path, key), maps) if isinstance(value, dict) else value
    return result


def _over(merged: dict[str, Any], new: dict[str, Any], path: Keys, maps: Collection[Keys]) -> None:
    for key, value in new.items():
        if isinstance(value, dict):
            is_entry = path in maps or not isinstance(merged.get(key), dict)
            merged[key] = {} if is_entry else merged[key]
            _over(merged[key], value, (*path, key), maps)
        else:
            merged[key] = value


def _matches(document: Any, pattern: Keys, path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    if not pattern:
        yield path, document
    elif isinstance(document, dict):
        for key in document if pattern[0] == "*" else {pattern[0]} & document.keys():
            yield from _matches(document[key], pattern[1:], (*path, key))


def _is(value: Any, kind: Any) -> bool:
    if kind in {LIST, APPENDING}:
        items = (str, dict) if kind == APPENDING else (str,)
        return isinstance(value, list) and all(isinstance(one, items) for one in value)
    return isinstance(value, kind)


def _said(value: Any) -> str:
    kinds = {bool: "true or false", str: "the text", int: "the number", list: "a list", dict: "a table"}
    kind = kinds.get(type(value), "a value of another type")
    return f"{kind} {value!r}" if type(value) in {str, int} else kind
