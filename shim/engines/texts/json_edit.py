"""Change single keys of a JSON text, and leave every other byte as it is: for JSON what `toml_edit` is for TOML.

A new key is added behind the last key of its object and is written like its neighbours: on a line of its own with
their indentation, or beside them on the same line. Removing it restores the former text exactly, because a key is
removed with the comma and the blanks in front of it, and text behind the last key is never changed.

Source: RFC 8259
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines.texts.json_scan import BLANKS, Node, NotJson, line_at, scan
from shim.engines.texts.values import get, put_in, same, take_out

if TYPE_CHECKING:
    from shim.engines.texts.values import Keys, Table, Value

__all__ = ["drop", "line_of", "loads", "put", "written"]

_UNIT = "  "  # indentation in a file that has none
_INDENT = re.compile(r"\n([ \t]+)\Z")


def loads(text: str, path: str = "") -> Table:
    """The value of a text; a blank text has the value {}.

    Arguments:
        text: JSON.
        path: of the file it is from, for the finding.
    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX, with the line.
    """
    return copy.deepcopy(_table(_root(text, path)))


def line_of(text: str, keys: Keys) -> int:
    """The line, from 1, of a key; 0 when it is not there."""
    parents = _parents(_root(text, ""), keys)
    return line_at(text, parents[-1].members[keys[-1]].begin) if _is_there(parents, keys) else 0


def put(text: str, keys: Keys, value: Value, path: str = "", written: str = "") -> str:
    """The text with a value at a key.

    A value that is there already changes nothing. Else the old value is replaced where it is, or a new key is added
    behind the others of its object.

    Arguments:
        text: valid JSON, of which no other byte changes, or blank.
        keys: path of the key.
        value: whatever JSON can hold; a dict replaces the old object.
        path: of the file, for findings.
        written: how the value is to be written where it replaces another, our own way when "".
    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX; ENGINE_CONFIG_SHAPE when a key on the way has a value that is no object.
    """
    expected = loads(text, path)
    before = get(expected, keys)
    if before is not None and same(before, value):
        return text
    not_an_object = put_in(expected, keys, value)
    if not_an_object:
        raise _shape(keys, path, f"{'.'.join(keys[:not_an_object])} is no object there")
    text = text if text.strip() else "{\n}\n"
    root = _root(text, path)
    parents = _parents(root, keys)
    if _is_there(parents, keys):
        new = _replaced(text, parents, keys, written or _value(text, parents, keys, value))
    else:
        new = _extended(text, parents, keys, value)
    return _checked(new, expected, keys, path)


def written(text: str, keys: Keys) -> str:
    """How the value of a key is written in a text, "" when there is none."""
    parents = _parents(_root(text, ""), keys)
    if not _is_there(parents, keys):
        return ""
    node = parents[-1].members[keys[-1]].node
    return text[node.begin : node.stop]


def drop(text: str, keys: Keys, path: str = "") -> str:
    """The text without a key, and without the comma and the blanks that belong to it.

    Arguments: as of `put`. Raises: as `put`.
    """
    expected = loads(text, path)
    parents = _parents(_root(text, path), keys)
    if not _is_there(parents, keys):
        return text
    take_out(expected, keys)
    members = list(parents[-1].members.values())
    number = list(parents[-1].members).index(keys[-1])
    begin, stop = members[number].begin, members[number].node.stop
    if number + 1 < len(members):
        stop = members[number + 1].begin
    else:
        begin = members[number - 1].node.stop if number else parents[-1].begin + 1
    return _checked(text[:begin] + text[stop:], expected, keys, path)


# --- positions in a text ----------------------------------------------------------------------------------------------


def _root(text: str, path: str) -> Node:
    """The object of a text; an empty object for a blank text."""
    try:
        root = scan(text) if text.strip(BLANKS) else Node({}, 0, 0)
        if not isinstance(root.value, dict):
            raise NotJson("the configuration is no object, which has braces around it", root.begin)
    except NotJson as error:
        cause, line = f"it is not valid JSON: {error.cause}", line_at(text, error.at)
        raise CdiError([Finding("ENGINE_CONFIG_SYNTAX", cause, error.remedy, path=path, line=line)]) from None
    return root


def _table(node: Node) -> Table:
    return node.value if isinstance(node.value, dict) else {}


def _parents(root: Node, keys: Keys) -> list[Node]:
    """The existing objects on the way to a key, the outermost first."""
    parents = [root]
    for key in keys[:-1]:
        member = parents[-1].members.get(key)
        if not member or not isinstance(member.node.value, dict):
            break
        parents.append(member.node)
    return parents


def _is_there(parents: list[Node], keys: Keys) -> bool:
    return len(parents) == len(keys) and keys[-1] in parents[-1].members


def _gap(text: str, parent: Node, number: int) -> str:
    """The blanks in front of a key of an object, without the comma."""
    members = list(parent.members.values())
    begin = members[number - 1].node.stop if number else parent.begin + 1
    between = text[begin : members[number].begin]
    return between.partition(",")[2] if number else between


# --- new text ---------------------------------------------------------------------------------------------------------


def _replaced(text: str, parents: list[Node], keys: Keys, new: str) -> str:
    node = parents[-1].members[keys[-1]].node
    return text[: node.begin] + new + text[node.stop :]


def _value(text: str, parents: list[Node], keys: Keys, value: Value) -> str:
    """A value that replaces another: on several lines if the old value was, or could not have been."""
    node = parents[-1].members[keys[-1]].node
    is_line = isinstance(node.value, (dict, list)) and "\n" not in text[node.begin : node.stop]
    gap = "" if is_line else _gap(text, parents[-1], list(parents[-1].members).index(keys[-1]))
    style = _Style(text, parents[0], gap)
    if gap and isinstance(value, list) and isinstance(node.value, list):
        return style.lines(value)
    return style.value(value)


def _extended(text: str, parents: list[Node], keys: Keys, value: Value) -> str:
    """A new key in the innermost object that is there, with the objects that are missing on the way."""
    for key in reversed(keys[len(parents) :]):
        value = {key: value}
    root, parent, key = parents[0], parents[-1], keys[len(parents) - 1]
    if parent.members:
        offset = list(parent.members.values())[-1].node.stop
        gap = _gap(text, parent, len(parent.members) - 1)
        style = _Style(text, root, gap)
        if len(parent.members) == 1 and "\n" not in gap:
            gap = style.blank
        return f"{text[:offset]},{gap}{style.member(key, value)}{text[offset:]}"
    offset = parent.begin + 1
    gap = text[offset : parent.stop - 1]
    if "\n" in gap:  # braces on two lines: the key gets a line of its own, one step further in than the closing brace
        gap = gap[: gap.index("\n") + 1] + gap[gap.rindex("\n") + 1 :] + _unit(text, root)
    return f"{text[:offset]}{gap}{_Style(text, root, gap).member(key, value)}{text[offset:]}"


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

    def member(self, key: str, value: Value, depth: int = 0) -> str:
        """A key with its value, inside so many objects of the value that is written."""
        return f"{_plain(key)}:{self.blank}{self.value(value, depth)}"

    def value(self, value: Value, depth: int = 0) -> str:
        """A value, as `member`."""
        if isinstance(value, list):
            return f"[{f',{self.blank}'.join(self.value(item, depth) for item in value)}]"
        if not isinstance(value, dict) or not value:
            return _plain(value)
        inner = [self.member(key, item, depth + 1) for key, item in value.items()]
        if not self._lines:
            return "{" + f",{self.blank}".join(inner) + "}"
        line = self._break + self._indent + self._unit * depth
        return "{" + ",".join(f"{line}{self._unit}{member}" for member in inner) + line + "}"

    def lines(self, items: list[Value]) -> str:
        """A list with a line for each item."""
        line = self._break + self._indent
        return "[" + ",".join(f"{line}{self._unit}{self.value(item, 1)}" for item in items) + line * bool(items) + "]"


def _unit(text: str, root: Node) -> str:
    """One step of indentation: what is in front of the first key of the text."""
    indent = _INDENT.search(_gap(text, root, 0)) if root.members else None
    return indent[1] if indent else _UNIT


def _is_dense(text: str, root: Node) -> bool:
    """Whether no blank is behind the first colon."""
    return any(text[member.node.begin - 1] == ":" for member in list(root.members.values())[:1])


def _plain(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)


def _checked(text: str, expected: Table, keys: Keys, path: str) -> str:
    if not same(loads(text, path), expected):
        raise _shape(keys, path, "the result would mean something else")
    return text


def _shape(keys: Keys, path: str, text: str) -> CdiError:
    return CdiError([Finding("ENGINE_CONFIG_SHAPE", f"{'.'.join(keys)} cannot be set: {text}", path=path)])
