"""Change single keys of a JSON text, and leave every other byte as it is. The twin of `toml_edit`.

A new key comes behind the last one of its object and is written as its neighbours are: on a line of its own with their
indentation, or beside them on the same line. Taking it out again restores the former text exactly, because a key goes
with the comma and the blanks in front of it, and what stood behind the last key is never touched.

Source: RFC 8259
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.engines.texts.json_scan import BLANKS, Node, NotJson, line_at, scan
from shim.engines.texts.values import get, put_in, same, take_out

if TYPE_CHECKING:
    from shim.engines.model import Keys

__all__ = ["drop", "get", "line_of", "loads", "put", "same", "written"]

_UNIT = "  "  # indentation of a file in which none is seen
_INDENT = re.compile(r"\n([ \t]+)\Z")


def loads(text: str, path: str = "") -> dict[str, Any]:
    """What a text means; one that is blank means the same as {}.

    Arguments:
        text: JSON.
        path: of the file it is from, for the finding.
    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX, with the line.
    """
    meaning: dict[str, Any] = copy.deepcopy(_root(text, path).value)
    return meaning


def line_of(text: str, keys: Keys) -> int:
    """The line, from 1, on which a key stands; 0 when it is not there."""
    way = _way(_root(text, ""), keys)
    return line_at(text, way[-1].members[keys[-1]].begin) if _there(way, keys) else 0


def put(text: str, keys: Keys, value: Any, path: str = "", written: str = "") -> str:
    """The text with a value at a key.

    A value that is there already changes nothing. Else the old value is replaced where it stands, or a new key comes
    behind the others of its object.

    Arguments:
        text: valid JSON, of which no other byte changes, or blank.
        keys: path of the key.
        value: whatever JSON can hold; a dict replaces the old object.
        path: of the file, for findings.
        written: how the value shall be written where it replaces another, our own way when "".
    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX; ENGINE_CONFIG_SHAPE when a key on the way holds something that is no object.
    """
    expected = loads(text, path)
    before = get(expected, keys)
    if before is not None and same(before, value):
        return text
    wrong = put_in(expected, keys, value)
    if wrong:
        raise _shape(keys, path, f"{'.'.join(keys[:wrong])} is no object there")
    text = text if text.strip() else "{\n}\n"
    root = _root(text, path)
    way = _way(root, keys)
    if _there(way, keys):
        new = _replaced(text, way, keys, written or _value(text, way, keys, value))
    else:
        new = _extended(text, way, keys, value)
    return _checked(new, expected, keys, path)


def written(text: str, keys: Keys) -> str:
    """How the value of a key is written in a text, "" when there is none."""
    way = _way(_root(text, ""), keys)
    if not _there(way, keys):
        return ""
    node = way[-1].members[keys[-1]].node
    return text[node.begin : node.stop]


def drop(text: str, keys: Keys, path: str = "") -> str:
    """The text without a key, and without the comma and the blanks that belong to it.

    Arguments: as of `put`. Raises: as `put`.
    """
    expected = loads(text, path)
    way = _way(_root(text, path), keys)
    if not _there(way, keys):
        return text
    take_out(expected, keys)
    members = list(way[-1].members.values())
    number = list(way[-1].members).index(keys[-1])
    begin, stop = members[number].begin, members[number].node.stop
    if number + 1 < len(members):
        stop = members[number + 1].begin
    else:
        begin = members[number - 1].node.stop if number else way[-1].begin + 1
    return _checked(text[:begin] + text[stop:], expected, keys, path)


# --- places in a text -------------------------------------------------------------------------------------------------


def _root(text: str, path: str) -> Node:
    """The object that a text holds; an empty one for a blank text."""
    try:
        root = scan(text) if text.strip(BLANKS) else Node({}, 0, 0)
        if not isinstance(root.value, dict):
            raise NotJson("the configuration is no object, which would stand in braces", root.begin)
    except NotJson as error:
        place = line_at(text, error.at)
        said = f"it is not valid JSON: {error.cause}"
        raise CdiError([Finding("ENGINE_CONFIG_SYNTAX", said, error.remedy, path=path, line=place)]) from None
    return root


def _way(root: Node, keys: Keys) -> list[Node]:
    """The objects that lead to a key, as far as they are there: one for each of its parts, the outermost first."""
    way = [root]
    for key in keys[:-1]:
        member = way[-1].members.get(key)
        if not member or not isinstance(member.node.value, dict):
            break
        way.append(member.node)
    return way


def _there(way: list[Node], keys: Keys) -> bool:
    return len(way) == len(keys) and keys[-1] in way[-1].members


def _gap(text: str, parent: Node, number: int) -> str:
    """The blanks in front of a key of an object, without the comma."""
    members = list(parent.members.values())
    begin = members[number - 1].node.stop if number else parent.begin + 1
    between = text[begin : members[number].begin]
    return between.partition(",")[2] if number else between


# --- new text ---------------------------------------------------------------------------------------------------------


def _replaced(text: str, way: list[Node], keys: Keys, new: str) -> str:
    node = way[-1].members[keys[-1]].node
    return text[: node.begin] + new + text[node.stop :]


def _value(text: str, way: list[Node], keys: Keys, value: Any) -> str:
    """A value that replaces another: spread over lines if the old one was, or could not have been."""
    node = way[-1].members[keys[-1]].node
    is_line = isinstance(node.value, (dict, list)) and "\n" not in text[node.begin : node.stop]
    gap = "" if is_line else _gap(text, way[-1], list(way[-1].members).index(keys[-1]))
    return _Style(text, way[0], gap).value(value)


def _extended(text: str, way: list[Node], keys: Keys, value: Any) -> str:
    """A new key in the innermost object that is there, which gets those that are missing on the way as well."""
    for key in reversed(keys[len(way) :]):
        value = {key: value}
    parent, key = way[-1], keys[len(way) - 1]
    if parent.members:
        place = list(parent.members.values())[-1].node.stop
        gap = _gap(text, parent, len(parent.members) - 1)
        style = _Style(text, way[0], gap)
        if len(parent.members) == 1 and "\n" not in gap:
            gap = style.blank
        return f"{text[:place]},{gap}{style.member(key, value)}{text[place:]}"
    place = parent.begin + 1
    gap = text[place : parent.stop - 1]
    if "\n" in gap:  # braces on two lines: the key has its own, one step further in than the closing one
        gap = gap[: gap.index("\n") + 1] + gap[gap.rindex("\n") + 1 :] + _unit(text, way[0])
    style = _Style(text, way[0], gap)
    return f"{text[:place]}{gap}{style.member(key, value)}{text[place:]}"


class _Style:
    """How values are written in a text.

    Arguments:
        text: the text.
        root: its outermost object.
        gap: the blanks in front of the key: with a line break in it objects are spread over lines.
    """

    def __init__(self, text: str, root: Node, gap: str) -> None:
        self._lines = "\n" in gap
        self._indent = gap[gap.rindex("\n") + 1 :] if self._lines else ""
        self._break = "\r\n" if "\r\n" in text else "\n"
        self._unit = _unit(text, root)
        self.blank = "" if _is_dense(text, root) and not self._lines else " "

    def member(self, key: str, value: Any, depth: int = 0) -> str:
        return f"{_plain(key)}:{self.blank}{self.value(value, depth)}"

    def value(self, value: Any, depth: int = 0) -> str:
        if isinstance(value, list):
            return f"[{f',{self.blank}'.join(self.value(item, depth) for item in value)}]"
        if not isinstance(value, dict) or not value:
            return _plain(value)
        inner = [self.member(key, one, depth + 1) for key, one in value.items()]
        if not self._lines:
            return "{" + f",{self.blank}".join(inner) + "}"
        line = self._break + self._indent + self._unit * depth
        return "{" + ",".join(f"{line}{self._unit}{one}" for one in inner) + line + "}"


def _unit(text: str, root: Node) -> str:
    """One step of indentation: what stands in front of the first key of the text."""
    found = _INDENT.search(_gap(text, root, 0)) if root.members else None
    return found[1] if found else _UNIT


def _is_dense(text: str, root: Node) -> bool:
    """Whether no blank stands behind the first colon."""
    return any(text[member.node.begin - 1] == ":" for member in list(root.members.values())[:1])


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _checked(text: str, expected: dict[str, Any], keys: Keys, path: str) -> str:
    if not same(loads(text, path), expected):
        raise _shape(keys, path, "the result would mean something else")
    return text


def _shape(keys: Keys, path: str, text: str) -> CdiError:
    return CdiError([Finding("ENGINE_CONFIG_SHAPE", f"{'.'.join(keys)} cannot be set: {text}", path=path)])
