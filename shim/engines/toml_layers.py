"""Layers: TOML files that an engine decodes in order, each into the result of those before it.

CRI-O and podman both do it with the same Go library, whose rules are these. A table of settings is merged key by key. A
map (of runtimes by name) keeps its other entries, and a repeated entry replaces the former entry as a whole. A list
replaces the former list. Keys of settings may be written in capitals or small letters. Unknown keys are ignored
without an error, and a value of another type stops the engine.

Source: https://github.com/BurntSushi/toml, decode.go (unifyStruct, unifyMap, unifySlice)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.engines.model import STOPS_ENGINE
from shim.engines.texts import editing, toml_edit
from shim.engines.texts.values import get

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from shim.engines.texts.values import Keys, Table, Value
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
        document: what the text means, keys of settings in small letters.
    """

    path: str
    text: str = ""
    document: Table = field(default_factory=dict)

    def line(self, keys: Keys) -> int:
        """The line, from 1, of a key or table; 0 when there is none, or it is written in other letters."""
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
    layers = []
    for path in paths:
        data = host.read(path)
        if data is not None:
            text = editing.decoded(data, path)
            layers.append(Layer(path, text, _folded(toml_edit.loads(text, path), (), maps)))
    return layers


def merge(layers: Iterable[Layer], maps: Collection[Keys]) -> Table:
    """All layers merged, the last the most important."""
    merged: Table = {}
    for layer in layers:
        _put_over(merged, layer.document, (), maps)
    return merged


def last(layers: Iterable[Layer], keys: Keys) -> Layer | None:
    """The last layer that has a key or table, None when no layer has it."""
    return next((layer for layer in reversed(list(layers)) if get(layer.document, keys) is not None), None)


def setting(host: Host, paths: Iterable[str], keys: Keys, maps: Collection[Keys]) -> Iterator[Layer]:
    """Files that have a key or table, of some that the engine does not read; those that are no TOML are left out."""
    for path in paths:
        try:
            layers = read(host, [path], maps)
        except CdiError:
            continue
        yield from (layer for layer in layers if get(layer.document, keys) is not None)


def outranked(layers: Iterable[Layer], path: str, keys: Iterable[Keys]) -> Iterator[Finding]:
    """DROP_IN_UNUSED, for keys of a file that have no effect, since a later file sets them as well.

    Arguments:
        layers: the files.
        path: the file.
        keys: of it.
    """
    layers = list(layers)
    for key in keys:
        winner = last(layers, key)
        if winner and winner.path != path:
            text = f"it sets {'.'.join(key)}, and is read after {path}, where it would have no effect"
            remedy = "take the key out of this file, or name a file that is read after it with --drop-in"
            yield Finding("DROP_IN_UNUSED", text, remedy, path=winner.path, line=winner.line(key))


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
                    text = (
                        f"{'.'.join(keys)} is {_described(value)} instead of a {_NAMES[kind]}: {engine} does not start"
                    )
                    yield Finding("CONFIG_TYPE", text, path=layer.path, line=layer.line(keys), rule=STOPS_ENGINE)


def tables_with(document: Table, key: str, path: Keys = ()) -> Iterator[Keys]:
    """The tables, at any depth, that have a key."""
    if key in document:
        yield path
    for name, value in document.items():
        if isinstance(value, dict):
            yield from tables_with(value, key, (*path, name))


def _folded(document: Table, path: Keys, maps: Collection[Keys]) -> Table:
    result: Table = {}
    for written, value in document.items():
        key = written if path in maps else written.lower()
        if key in result and key != written:
            continue  # the key in its own letters takes precedence
        result[key] = _folded(value, (*path, key), maps) if isinstance(value, dict) else value
    return result


def _put_over(merged: Table, new: Table, path: Keys, maps: Collection[Keys]) -> None:
    for key, value in new.items():
        if isinstance(value, dict):
            old = merged.get(key)
            table: Table = old if isinstance(old, dict) and path not in maps else {}
            merged[key] = table
            _put_over(table, value, (*path, key), maps)
        else:
            merged[key] = value


def _matches(value: Value, pattern: Keys, path: Keys = ()) -> Iterator[tuple[Keys, Value]]:
    if not pattern:
        yield path, value
    elif isinstance(value, dict):
        for key in value if pattern[0] == "*" else {pattern[0]} & value.keys():
            yield from _matches(value[key], pattern[1:], (*path, key))


def _is(value: Value, kind: Any) -> bool:
    if kind in {LIST, APPENDING}:
        items = (str, dict) if kind == APPENDING else (str,)
        return isinstance(value, list) and all(isinstance(item, items) for item in value)
    return isinstance(value, kind)


def _described(value: Value) -> str:
    kinds: dict[type, str] = {
        bool: "true or false", str: "the text", int: "the number", list: "a list", dict: "a table",
    }  # fmt: skip
    kind = kinds.get(type(value), "a value of another type")
    return f"{kind} {value!r}" if type(value) in {str, int} else kind
