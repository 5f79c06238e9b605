"""Offsets of the statements of a TOML text: where each header, or key with its value, begins and ends.

The text has to be valid.

Source: TOML 1.0.0, https://toml.io/en/v1.0.0
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.engines.texts.values import Keys, Value


@dataclass(frozen=True)
class Statement:
    """A header or a key of a text.

    Attributes:
        keys: its full path.
        is_header: whether it is a header, [table] or [[array]].
        begin: offset of the line on which it begins.
        value: offset of the value; of the header itself for a header.
        stop: offset behind the value or the closing bracket.
        end: offset behind its last line, line break included.
    """

    keys: Keys
    is_header: bool
    begin: int
    value: int
    stop: int
    end: int


def statements(text: str) -> Iterator[Statement]:
    """The statements of a valid text, in its order."""
    table: Keys = ()
    at = mark = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        begin = max(text.rfind("\n", 0, at) + 1, mark)
        if text[at] in " \t\r\n":
            at += 1
        elif text[at] == "#":
            at = line_end(text, at)
        elif text[at] == "[":
            stop = _value_stop(text, at)
            inside = text[at:stop].strip("[]")
            table = _path(inside)
            yield Statement(table, True, begin, at, stop, at := line_end(text, stop))
        else:
            equals = _equals(text, at)
            value = equals + 1 + len(text[equals + 1 :]) - len(text[equals + 1 :].lstrip(" \t"))
            stop = _value_stop(text, value)
            yield Statement((*table, *_path(text[at:equals])), False, begin, value, stop, at := line_end(text, stop))


def items(text: str, at: int) -> list[tuple[int, int]]:
    """The offsets of the items of a list, each with that behind it.

    Arguments:
        text: valid.
        at: offset of the list's bracket.
    """
    spans: list[tuple[int, int]] = []
    depth, begin, last = 0, -1, at
    while True:
        at += 1
        letter = text[at]
        if letter == "#":
            at = line_end(text, at) - 1
        elif depth == 0 and letter in ",]":
            if begin >= 0:
                spans.append((begin, last))
            if letter == "]":
                return spans
            begin = -1
        elif letter not in " \t\r\n":
            begin = at if begin < 0 else begin
            if letter in "\"'":
                at = _string_stop(text, at) - 1
            depth += (letter in "[{") - (letter in "]}")
            last = at + 1


def line_end(text: str, at: int) -> int:
    """The offset behind the line on which an offset lies, line break included."""
    line_break = text.find("\n", at)
    return len(text) if line_break < 0 else line_break + 1


def _equals(text: str, at: int) -> int:
    """The offset of the `=` behind a key; a quoted part of the key may hold one, too."""
    while text[at] != "=":
        at = _string_stop(text, at) if text[at] in "\"'" else at + 1
    return at


def _value_stop(text: str, at: int) -> int:
    """The offset behind a value that begins here: the end of the line, or of its strings and brackets."""
    depth, last = 0, at
    while at < len(text):
        letter = text[at]
        if letter in "\"'":
            at = last = _string_stop(text, at)
            continue
        if letter == "#":
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        if letter == "\n" and depth == 0:
            break
        depth += (letter in "[{") - (letter in "]}")
        at += 1
        if letter not in " \t\r\n":
            last = at
    return last


def _string_stop(text: str, at: int) -> int:
    """The offset behind a string that begins here."""
    quote = text[at]
    fence = quote * 3 if text.startswith(quote * 3, at) else quote
    at += len(fence)
    while not text.startswith(fence, at):
        at += 2 if text[at] == "\\" and quote == '"' else 1
    at += len(fence)
    while len(fence) == 3 and text.startswith(quote, at):  # one or two quotes may stand before the closing three
        at += 1
    return at


def _path(key: str) -> Keys:
    """The parts of a key as it is written, quotes and dots understood."""
    value: Value = tomllib.loads(f"{key.strip()} = 0")
    parts = []
    while isinstance(value, dict):
        part, value = next(iter(value.items()))
        parts.append(part)
    return tuple(parts)
