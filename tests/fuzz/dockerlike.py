"""A request as a Docker daemon understands it: Go's HTTP parser, moby's routes, and encoding/json into moby's types.

Written from documented rules and from what engines were seen to do; there is no Go where the tests run.

    heads    lines may end in a bare line feed; a line that begins with a blank continues the one before; equal lengths
             may be repeated; Transfer-Encoding counts before Content-Length
    routes   match the decoded path; the parts that a pattern leaves open may contain slashes
    names    of fields are compared under simple case folding, in which U+017F is an s and U+212A a k
    repeats  an object goes into the object that is there, and a list into the elements of the list that is there; null
             empties
    texts    bytes that are no UTF-8, and lone surrogates, become U+FFFD

Source: net/http (readRequest, readTransfer), encoding/json (Unmarshal), api/server/router of moby.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

TEXT, BOOL, INT, ANY = "text", "bool", "int", "any"


class Pairs(list[tuple[str, Any]]):
    """The members of an object, in their order, repeats kept."""


class Number(str):
    """The text of a number."""


@dataclass(frozen=True)
class Array:
    """A slice of a type."""

    item: Any


@dataclass(frozen=True)
class Map:
    """A map from texts to a type."""

    item: Any


class RefusedError(Exception):
    """The daemon refuses it."""


# --- JSON ---

_DRIVER = {"Name": TEXT, "Options": Map(TEXT)}
HOST: dict[str, Any] = {
    "Annotations": Map(TEXT),
    "Binds": Array(TEXT),
    "CapAdd": Array(TEXT),
    "Cgroup": TEXT,
    "CgroupParent": TEXT,
    "DeviceCgroupRules": Array(TEXT),
    "DeviceRequests": Array(
        {"Driver": TEXT, "Count": INT, "DeviceIDs": Array(TEXT), "Capabilities": ANY, "Options": Map(TEXT)}
    ),
    "Devices": Array({"PathOnHost": TEXT, "PathInContainer": TEXT, "CgroupPermissions": TEXT}),
    "IpcMode": TEXT,
    "MaskedPaths": Array(TEXT),
    "Mounts": Array(
        {
            "Type": TEXT,
            "Source": TEXT,
            "Target": TEXT,
            "ReadOnly": BOOL,
            "BindOptions": {"Propagation": TEXT},
            "VolumeOptions": {"DriverConfig": _DRIVER},
        }
    ),
    "NetworkMode": TEXT,
    "PidMode": TEXT,
    "Privileged": BOOL,
    "ReadonlyPaths": Array(TEXT),
    "Runtime": TEXT,
    "SecurityOpt": Array(TEXT),
    "Tmpfs": Map(TEXT),
    "UsernsMode": TEXT,
    "VolumeDriver": TEXT,
}
# Engines up to 26 read the fields of a HostConfig at the top of a create as well
BODIES: dict[str, dict[str, Any]] = {
    "create": {"Image": TEXT, "Env": Array(TEXT), "Volumes": Map(ANY), "HostConfig": HOST, **HOST},
    "update": {name: HOST[name] for name in ("DeviceCgroupRules", "DeviceRequests", "Devices", "CgroupParent")},
    "exec": {"Privileged": BOOL, "Cmd": ANY},
    "volume": {"Name": TEXT, "Driver": TEXT, "DriverOpts": Map(TEXT), "ClusterVolumeSpec": ANY},
}


def decode(kind: str, data: bytes) -> dict[str, Any]:
    """The fields that a daemon reads from a body; those without a value left out. Raises RefusedError."""
    reader = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_constant)
    try:
        value, _ = reader.raw_decode(data.decode("utf-8", "replace").lstrip(" \t\r\n"))
    except (ValueError, RecursionError) as error:
        raise RefusedError(str(error)) from error
    decoded: dict[str, Any] = _assign(BODIES[kind], {}, value) or {}
    return decoded


def _constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _fold(name: str) -> str:
    return "".join({"\u017f": "s", "\u212a": "k"}.get(char, char.lower() if char.isascii() else char) for char in name)


def _clean(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def _assign(kind: Any, old: Any, value: Any) -> Any:
    if kind == ANY:
        return value
    if isinstance(kind, (dict, Map, Array)):
        if value is None:
            return None
        if isinstance(kind, Array):
            _must(isinstance(value, list) and not isinstance(value, Pairs), value)
            reused = list(old or ())
            return [
                _assign(kind.item, reused[index] if index < len(reused) else None, item)
                for index, item in enumerate(value)
            ]
        _must(isinstance(value, Pairs), value)
        result = dict(old or {})
        fields = {_fold(field): field for field in kind} if isinstance(kind, dict) else {}
        for name, item in value:
            if isinstance(kind, Map):
                result[_clean(name)] = _assign(kind.item, None, item)
                continue
            field = fields.get(_fold(_clean(name)))
            if field is not None:
                result[field] = _assign(kind[field], result.get(field), item)
        return result
    if value is None:
        return old
    if kind == TEXT:
        _must(isinstance(value, str) and not isinstance(value, Number), value)
        return _clean(value)
    if kind == BOOL:
        _must(isinstance(value, bool), value)
        return value
    _must(isinstance(value, Number) and value.lstrip("-").isdecimal(), value)
    return int(value)


def _must(good: bool, value: Any) -> None:
    if not good:
        raise RefusedError(f"{value!r} has another type")


# --- HTTP ---


@dataclass
class Head:
    """What Go reads of a head."""

    method: str
    path: str
    query: str
    headers: dict[str, list[str]]
    length: int
    is_chunked: bool


def read_head(data: bytes) -> Head:
    """The head at the beginning of the bytes. Raises RefusedError."""
    lines: list[str] = []
    for raw in data.decode("latin-1").split("\n"):
        line = raw.removesuffix("\r")
        if lines and not line:
            break
        if lines and line[0] in " \t":
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise RefusedError(lines[0])
    headers: dict[str, list[str]] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise RefusedError(line)
        headers.setdefault(name.strip().lower(), []).append(value.strip(" \t"))
    target = re.sub(r"^[a-z]+://[^/]*", "", words[1])
    path, _, query = target.partition("?")
    lengths = set(headers.get("content-length", []))
    is_chunked = "chunked" in headers.get("transfer-encoding", [""])[0].lower()
    if len(lengths) > 1:
        raise RefusedError("two lengths")
    text = next(iter(lengths), "0")
    length = int(text) if text.isdecimal() and not is_chunked else 0
    return Head(words[0], unquote(path, "latin-1"), query, headers, length, is_chunked)


_ROUTES = (
    ("POST", r"/containers/create", "create"),
    ("POST", r"/containers/.*/update", "update"),
    ("POST", r"/containers/.*/start", "start"),
    ("POST", r"/containers/.*/restart", "start"),
    ("POST", r"/containers/.*/exec", "exec"),
    ("POST", r"/volumes/create", "volume"),
    ("POST", r"/exec/.*/start", "hijack-json"),
    ("POST", r"/build", "build"),
    ("POST", r"/grpc", "hijack-grpc"),
    ("POST", r"/session", "hijack-session"),
    ("POST", r"/plugins/.*", ""),
    ("DELETE", r"/plugins/.*", ""),
    ("POST", r"/(swarm|services|nodes|secrets|configs)/.*", ""),
    ("PUT", r"/volumes/.*", ""),
    ("POST", r"/containers/.*/checkpoints", ""),
    ("DELETE", r"/containers/.*/checkpoints/.*", ""),
    ("GET", r"/debug/.*", ""),
)


def route(head: Head) -> str | None:
    """The kind of route by which moby serves a request; "": a route that no gate passes; None: any other."""
    path = re.sub(r"^/v[0-9.]+(?=/)", "", re.sub("/{2,}", "/", head.path))
    for method, pattern, kind in _ROUTES:
        if head.method == method and re.fullmatch(pattern, path):
            return kind
    return None
