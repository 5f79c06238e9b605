"""Read JSON as Go's encoding/json does, with the offsets of every value, and the exact cause where a text is no JSON.

The reader of the standard library gives no offsets, accepts NaN, and of two equal keys keeps the last without an error.
People write daemon.json by hand: with comments, a comma too many, quotes of another language, or the same key twice.
Each of these has its own message here.

Sources: RFC 8259; Go, src/encoding/json/scanner.go and decode.go.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shim.engines.texts.values import Value

BLANKS = " \t\r\n"  # between values; no other
_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None}
_DEEPEST = 100  # objects and lists inside each other; no configuration comes near that

# What people write that is no JSON, and what it is
_HABITS = (
    ("//", "a comment; JSON has none"),
    ("/*", "a comment; JSON has none"),
    ("#", "a comment; JSON has none"),
    ("\ufeff", "a byte order mark; dockerd takes it since version 23 only"),
    ("'", "a single quote; texts have double ones around them"),
    ("\u201c", "a typographic quote; texts have straight double ones around them"),
    ("\u201d", "a typographic quote; texts have straight double ones around them"),
    ("\u00a0", "a no-break space, as from a web page; only ordinary blanks may be between values"),
)
_FOREIGN = {
    "True": "true is written in small letters",
    "False": "false is written in small letters",
    "None": "JSON has null for None",
    "yes": "JSON has true for it",
    "no": "JSON has false for it",
    "on": "JSON has true for it",
    "off": "JSON has false for it",
}


class NotJson(Exception):  # noqa: N818 - raised inside of json_edit alone
    """A text is no JSON.

    Attributes:
        cause: what is wrong, for people.
        at: offset of what is wrong.
        remedy: "" for the usual remedy.
    """

    def __init__(self, cause: str, at: int, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.at = at
        self.remedy = remedy


@dataclass(frozen=True)
class Member:
    """A key of an object with its value: where the key begins and ends, and the value."""

    begin: int
    stop: int
    node: Node


@dataclass
class Node:
    """A value and its offsets.

    Attributes:
        value: what it means.
        begin: offset of its first letter.
        stop: offset behind its last.
        members: of an object, by key, in the order of the text.
    """

    value: Value
    begin: int
    stop: int
    members: dict[str, Member] = field(default_factory=dict)


def scan(text: str) -> Node:
    """The value of a text.

    Raises:
        NotJson: it is not valid, or has an equal key twice in an object.
    """
    node = _value(text, _skip(text, 0), 0)
    at = _skip(text, node.stop)
    if at < len(text):
        raise _unexpected(text, at, "nothing more", "more text behind the end of the configuration")
    return node


def line_at(text: str, at: int) -> int:
    """The line, from 1, on which an offset lies."""
    return text.count("\n", 0, at) + 1


def _skip(text: str, at: int) -> int:
    blanks = _BLANK.match(text, at)
    return blanks.end() if blanks else at


def _value(text: str, at: int, depth: int) -> Node:
    letter = text[at : at + 1]
    if letter in ("{", "["):
        if depth == _DEEPEST:
            raise NotJson(f"more than {_DEEPEST} objects and lists inside each other", at)
        return _object(text, at, depth + 1) if letter == "{" else _list(text, at, depth + 1)
    if letter == '"':
        value, stop = _string(text, at)
        return Node(value, at, stop)
    word = _WORD.match(text, at)
    if word and word[0] in _WORDS:
        return Node(_WORDS[word[0]], at, word.end())
    number = _NUMBER.match(text, at)
    if number and word and number.end() == word.end():
        return Node(_number(number, at), at, number.end())
    raise _unexpected(text, at, "a value")


def _number(match: re.Match[str], at: int) -> int | float:
    if not match[1] and not match[2]:
        if len(match[0]) > 400:
            raise NotJson("a number that is too large", at)
        return int(match[0])
    value = float(match[0])
    if value in (float("inf"), float("-inf")):
        raise NotJson("a number that is too large", at)
    return value


def _string(text: str, at: int) -> tuple[str, int]:
    match = _STRING.match(text, at)
    if not match:
        raise _broken_string(text, at)
    value = str(json.loads(match[0]))
    # Go replaces half of a pair of surrogates by U+FFFD
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), match.end()


def _broken_string(text: str, begin: int) -> NotJson:
    at = begin + 1
    while at < len(text):
        if text[at] == "\\":
            if not _STRING.match(f'"{text[at : at + (6 if text[at + 1 : at + 2] == "u" else 2)]}"'):
                return NotJson(f"{text[at : at + 2]} is no escape of JSON; a backslash is written twice", at)
            at += 1
        elif text[at] < " ":
            what = "a line break" if text[at] in "\r\n" else "a control character"
            return NotJson(f"{what} in a text: its closing quote is missing, or it should be an escape", begin)
        at += 1
    return NotJson("the closing quote of a text is missing", begin)


def _object(text: str, begin: int, depth: int) -> Node:
    members: dict[str, Member] = {}
    at = _skip(text, begin + 1)
    while text[at : at + 1] != "}":
        if members:
            at = _behind_comma(text, at, "}")
        if text[at : at + 1] != '"':
            raise _unexpected(text, at, "a key in double quotes")
        key, stop = _string(text, at)
        if key in members:
            raise _twice(text, key, members[key].begin, at)
        colon = _skip(text, stop)
        if text[colon : colon + 1] != ":":
            raise _unexpected(text, colon, f"a colon behind the key {key}")
        node = _value(text, _skip(text, colon + 1), depth)
        members[key] = Member(at, stop, node)
        at = _skip(text, node.stop)
    values: dict[str, Value] = {key: member.node.value for key, member in members.items()}
    return Node(values, begin, at + 1, members)


def _list(text: str, begin: int, depth: int) -> Node:
    items: list[Node] = []
    at = _skip(text, begin + 1)
    while text[at : at + 1] != "]":
        if items:
            at = _behind_comma(text, at, "]")
        items.append(_value(text, at, depth))
        at = _skip(text, items[-1].stop)
    values: list[Value] = [item.value for item in items]
    return Node(values, begin, at + 1)


def _behind_comma(text: str, at: int, end: str) -> int:
    if text[at : at + 1] != ",":
        hint = "the comma in front of it is missing" if text[at : at + 1] in tuple('"{[') else ""
        raise _unexpected(text, at, f"a comma or {end}", hint)
    behind = _skip(text, at + 1)
    if text[behind : behind + 1] == end:
        raise NotJson(f"a comma with nothing behind it but {end}", at)
    return behind


def _twice(text: str, key: str, first: int, second: int) -> NotJson:
    return NotJson(
        f"the key {key} is there twice, on line {line_at(text, first)} and on line {line_at(text, second)}",
        second,
        "merge the two, or remove one: the engine takes it for valid, and which counts depends on its version",
    )


def _unexpected(text: str, at: int, wanted: str, hint: str = "") -> NotJson:
    """The error for a text that is not expected at an offset."""
    if at >= len(text):
        return NotJson(f"it ends where {wanted} is expected: a closing bracket or quote is missing", at)
    for begin, cause in _HABITS:
        if text.startswith(begin, at):
            return NotJson(cause, at)
    word = _WORD.match(text, at)
    actual = word[0] if word else text[at]
    shown = actual if actual.isprintable() and actual.isascii() else f"U+{ord(actual[0]):04X}"
    hint = _FOREIGN.get(actual, hint)
    return NotJson(f"{shown} where {wanted} is expected" + (f": {hint}" if hint else ""), at)
