"""The target of a request: decoded once, in a single canonical form, with the version of the API taken off.

Go matches routes against the decoded path, so `%2F` is a slash there; it redirects paths with empty or dot segments. A
path that is not canonical after decoding is refused, and the daemon gets the decoded one. The query is encoded anew
from the decoded pairs, since Go drops a pair with a semicolon.

Source: net/url and net/http of Go; RFC 9112 section 3.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from shim.gate.judge.messages import Denied

HIGHEST_API = (1, 56)
MAX_TARGET = 8192

_PRINTABLE = re.compile(r"[!-~]+")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PATH = re.compile(r"[A-Za-z0-9_.:/@+~-]+")
_VERSIONED = re.compile(r"/(v[0-9][^/]*)(/.*)?")
_VERSION = re.compile(r"v(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})")


@dataclass(frozen=True)
class Target:
    """A target in its canonical form.

    Attributes:
        path: decoded, without the version.
        prefix: of the version, for example "/v1.47"; "" for none.
        version: of the API, None for none.
        query: pairs, decoded to bytes.
    """

    path: str
    prefix: str
    version: tuple[int, int] | None
    query: tuple[tuple[bytes, bytes], ...]

    def encoded(self) -> str:
        """What the daemon receives."""
        pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.query)
        return f"{self.prefix}{self.path}{'?' if pairs else ''}{pairs}"

    def values(self, name: str) -> list[bytes]:
        """The values of a parameter of the query that are not empty."""
        return [value for key, value in self.query if key == name.encode() and value]


def parse(target: str, lowest: tuple[int, int]) -> Target:
    """The canonical form of a target.

    Arguments:
        target: as received.
        lowest: version of the API that is served.

    Raises Denied: http-target, path-form or api-version.
    """
    if not target.startswith("/"):
        raise Denied("http-target", what="its target is not a path")
    if len(target) > MAX_TARGET or not _PRINTABLE.fullmatch(target):
        raise Denied("http-target", what=f"its target is no printable ASCII of at most {MAX_TARGET} letters")
    path, _, query = target.partition("?")
    if ";" in query:
        raise Denied("http-target", what="its query has a semicolon")
    if _BROKEN_ESCAPE.search(query):
        raise Denied("http-target", what="its query has an incomplete % escape")
    path = _decoded_path(path)
    prefix, version, path = _without_version(path, lowest)
    return Target(path, prefix, version, _pairs(query))


def check_highest(target: Target, lowest: tuple[int, int]) -> None:
    """Refuse a version of the API whose fields are unknown here. Raises Denied: api-version."""
    if target.version is not None and target.version > HIGHEST_API:
        raise _version_refused(target.prefix[1:], lowest)


def _decoded_path(path: str) -> str:
    if _BROKEN_ESCAPE.search(path):
        raise Denied("path-form", what="its path has an incomplete % escape")
    decoded = unquote_to_bytes(path).decode("latin-1")
    if not _PATH.fullmatch(decoded):
        raise Denied("path-form", what="its decoded path has letters other than A-Z a-z 0-9 _ . : / @ + ~ -")
    segments = decoded.split("/")[1:]
    if "" in segments[:-1] or "." in segments or ".." in segments:
        raise Denied("path-form", what="its path has an empty segment, . or ..")
    return decoded


def _without_version(path: str, lowest: tuple[int, int]) -> tuple[str, tuple[int, int] | None, str]:
    match = _VERSIONED.fullmatch(path)
    if match is None:
        return "", None, path
    text, rest = match[1], match[2] or "/"
    numbers = _VERSION.fullmatch(text)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    if version < lowest:
        raise _version_refused(text, lowest)
    return f"/{text}", version, rest


def _version_refused(text: str, lowest: tuple[int, int]) -> Denied:
    name = "{}.{}".format
    return Denied("api-version", version=text.removeprefix("v"), lowest=name(*lowest), highest=name(*HIGHEST_API))


def _pairs(query: str) -> tuple[tuple[bytes, bytes], ...]:
    pairs = (pair.partition("=") for pair in query.replace("+", " ").split("&") if pair)
    return tuple((unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in pairs)
