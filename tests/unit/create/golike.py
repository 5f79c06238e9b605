"""config.json as runc reads it: Go's encoding/json into the structs of the OCI runtime specification.

Written from Go's documented rules; there is no Go where the tests run. What differs from Python's reader:

    names       of struct fields: the exact one first, else one that is equal under simple case folding, in which U+017F
                is an s and U+212A a k; keys of maps are as they are
    repeats     are assigned one after the other: an object goes into the struct or map that is there (so two objects
                merge), an array begins anew, of all else the last counts; null empties a pointer, map or array and
                leaves anything else as it is
    texts       bytes that are no UTF-8, and lone surrogates, become U+FFFD
    the end     runc's Decoder reads the first value; what follows it is not looked at
    types       a value of another type is skipped, and an error at the end: runc starts no such container

Source: pkg.go.dev/encoding/json (Unmarshal, Decoder); unicode.SimpleFold; specs-go/config.go of the OCI runtime
specification.
"""

from __future__ import annotations

import json
from typing import Any

Json = Any


class RefusedError(Exception):
    """runc starts no container with this."""


class Pairs(list[tuple[str, Any]]):
    """The members of an object, in their order, repeats kept."""


class Number(str):
    """The text of a number."""


TEXT, BOOL, INT, UINT32, ANY = "text", "bool", "int", "uint32", "any"


class Array:
    """A slice of a type."""

    def __init__(self, item: Any) -> None:
        self.item = item


class Map:
    """A map from texts to a type."""

    def __init__(self, item: Any) -> None:
        self.item = item


MAPPINGS = Array({"containerID": UINT32, "hostID": UINT32, "size": UINT32})
HOOKS = Array({"path": TEXT, "args": Array(TEXT), "env": Array(TEXT), "timeout": INT})
# The fields that shim may read or change, of the type that they have in specs-go; objects are structs.
SPEC: dict[str, Any] = {
    "ociVersion": TEXT,
    "process": {
        "terminal": BOOL,
        "user": {"uid": UINT32, "gid": UINT32, "additionalGids": Array(UINT32)},
        "args": Array(TEXT),
        "env": Array(TEXT),
        "cwd": TEXT,
        "capabilities": {"bounding": Array(TEXT), "effective": Array(TEXT)},
    },
    "root": {"path": TEXT, "readonly": BOOL},
    "hostname": TEXT,
    "mounts": Array({"destination": TEXT, "type": TEXT, "source": TEXT, "options": Array(TEXT)}),
    "hooks": dict.fromkeys(("prestart", "createRuntime", "createContainer", "startContainer", "poststop"), HOOKS),
    "annotations": Map(TEXT),
    "linux": {
        "uidMappings": MAPPINGS,
        "gidMappings": MAPPINGS,
        "devices": Array({"path": TEXT, "type": TEXT, "major": INT, "minor": INT, "uid": UINT32, "gid": UINT32}),
        "namespaces": Array({"type": TEXT, "path": TEXT}),
        "resources": {
            "devices": Array({"allow": BOOL, "type": TEXT, "major": INT, "minor": INT, "access": TEXT}),
        },
        "mountLabel": TEXT,
    },
}


def decode(data: bytes) -> dict[str, Any]:
    """The container that runc makes of a config.json: struct fields by their names, those without a value left out.

    Raises:
        RefusedError: none.
    """
    text = data.decode("utf-8", "replace").lstrip(" \t\r\n")
    reader = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_constant)
    try:
        value, _ = reader.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError(str(error)) from error
    if value is None:
        return {}
    decoded: dict[str, Any] = _assign(SPEC, None, value)
    return decoded


def _constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def fold(name: str) -> str:
    """A name under the folding by which fields are compared, as far as it leads to ASCII."""
    return "".join({"\u017f": "s", "\u212a": "k"}.get(char, char.lower() if char.isascii() else char) for char in name)


_FIELDS: dict[int, dict[str, str]] = {}


def _field(struct: dict[str, Any], name: str) -> str | None:
    if name in struct:
        return name
    folded = _FIELDS.setdefault(id(struct), {fold(field): field for field in struct})
    return folded.get(fold(name))


def _assign(kind: Any, old: Any, value: Any) -> Any:
    """What a variable of a type holds after a value was assigned. None: it is nil, or was never set."""
    if kind == ANY:
        return value
    if isinstance(kind, dict):
        return _into_struct(kind, old, value)
    if isinstance(kind, Map):
        if value is None:
            return None
        _must(isinstance(value, Pairs), "an object", value)
        result = dict(old or {})
        for name, item in value:
            result[_clean(name)] = "" if item is None else _assign(kind.item, None, item)
        return result
    if isinstance(kind, Array):
        if value is None:
            return None
        _must(isinstance(value, list) and not isinstance(value, Pairs), "an array", value)
        return [_zero(kind.item) if item is None else _assign(kind.item, None, item) for item in value]
    return old if value is None else _scalar(kind, value)


def _into_struct(struct: dict[str, Any], old: Any, value: Any) -> Any:
    if value is None:
        return None if struct is not SPEC else old
    _must(isinstance(value, Pairs), "an object", value)
    result = dict(old or {})
    for name, item in value:
        field = _field(struct, _clean(name))
        if field is None:
            continue
        assigned = _assign(struct[field], result.get(field), item)
        if assigned is None:
            result.pop(field, None)
        else:
            result[field] = assigned
    return result


def _zero(kind: Any) -> Any:
    return {} if isinstance(kind, dict) else {TEXT: "", BOOL: False}.get(kind, 0)


def _scalar(kind: str, value: Any) -> Any:
    if kind == TEXT:
        _must(isinstance(value, str) and not isinstance(value, Number), "a text", value)
        return _clean(value)
    if kind == BOOL:
        _must(isinstance(value, bool), "true or false", value)
        return value
    _must(isinstance(value, Number) and value.lstrip("-").isdecimal(), "a whole number", value)
    number = int(value)
    low, high = (0, 1 << 32) if kind == UINT32 else (-1 << 63, 1 << 63)
    _must(low <= number < high, "a number in its range", value)
    return number


def _clean(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def _must(good: bool, what: str, value: Any) -> None:
    if not good:
        raise RefusedError(f"{value!r} is not {what}")
