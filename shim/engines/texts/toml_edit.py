"""Change single keys of a TOML text, and leave every other byte as it is.

The standard library reads TOML and gives no positions; libraries that keep the text reflow what is near a change. For
an administrator's file neither is enough: every comment has to stay where it is, and a finding needs a line. This
module knows where each statement of a text (a header, or a key with its value) begins and ends (toml_scan), and nothing
else about TOML. What a text *means* is always read by the standard library, also after a change: where that is not
exactly the old content with the new value, the change is refused (ENGINE_CONFIG_SHAPE).

Source: TOML 1.0.0, https://toml.io/en/v1.0.0
"""

from __future__ import annotations

import copy
import json
import re
import sys
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines.texts import toml_lists
from shim.engines.texts.toml_scan import Statement, line_end, statements
from shim.engines.texts.values import get, put_in, same, take_out

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from shim.engines.texts.values import Keys, Table, Value

__all__ = ["drop", "drop_header", "headers", "line_of", "loads", "put", "table", "written"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_POSITION = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")  # in the standard library's message


def loads(text: str, path: str = "") -> Table:
    """What a text means.

    Arguments:
        text: TOML.
        path: of the file it is from, for the finding.
    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX, with the line.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        position = _POSITION.search(str(error))
        line = int(position[1]) if position and position[1] else text.count("\n") + 1 if position else 0
        cause = f"it is not valid TOML: {_POSITION.sub('', str(error)).strip()}"
        raise CdiError([Finding("ENGINE_CONFIG_SYNTAX", cause, path=path, line=line)]) from None


def line_of(text: str, keys: Keys) -> int:
    """The line, from 1, of the statement that sets a key or opens a table; 0 when there is none."""
    exact = [statement for statement in statements(text) if statement.keys == keys]
    matching = exact or [statement for statement in statements(text) if statement.keys[: len(keys)] == keys]
    return _line(text, matching[0]) if matching else 0


def headers(text: str) -> list[tuple[Keys, int]]:
    """The tables that a text opens, each with its line, from 1."""
    return [(statement.keys, _line(text, statement)) for statement in statements(text) if statement.is_header]


def put(text: str, keys: Keys, value: Value, path: str = "", written: str = "") -> str:
    """The text with a value at a key.

    A value that is there already changes nothing. Else the old value is replaced where it is; a new key is added behind
    the others of its table, a new table behind its neighbours.

    Arguments:
        text: valid TOML, of which no other byte changes.
        keys: path of the key.
        value: text, number, boolean, list of these, or dict: a whole table, which replaces the old table.
        path: of the file, for findings.
        written: how the value is to be written where it replaces another, our own way when "".
    Raises:
        CdiError: ENGINE_CONFIG_SHAPE when the text is written in a form to which this cannot be added, for example an
            inline table; ENGINE_CONFIG_SYNTAX.
    """
    document = loads(text, path)
    if same(get(document, keys), value):
        return text
    expected = copy.deepcopy(document)
    not_a_table = put_in(expected, keys, value)
    if not_a_table:
        raise _shape(keys, path, f"{'.'.join(map(_key, keys[:not_a_table]))} is no table there")
    statement = next((entry for entry in statements(text) if entry.keys == keys and not entry.is_header), None)
    if isinstance(value, dict):
        without = drop(text, keys, path) if get(document, keys) is not None else text
        new = _with_table(without, keys, value)
    elif statement and not written and (edited := _with_items(text, statement, get(document, keys), value, expected)):
        return edited
    elif statement:
        new = text[: statement.value] + (written or _value(value)) + text[statement.stop :]
    else:
        new = _with_key(text, keys, value)
    return _checked(new, expected, keys, path)


def _with_items(text: str, statement: Statement, old: Value, new: Value, expected: Table) -> str:
    """The text with other items in a list of several lines, "" for another value, and where it cannot be done."""
    if not (isinstance(old, list) and isinstance(new, list) and "\n" in text[statement.value : statement.stop]):
        return ""
    edited = toml_lists.edited(text, statement.value, old, new, _value)
    try:
        return edited if same(tomllib.loads(edited.removeprefix("\ufeff")), expected) else ""
    except ValueError:
        return ""


def drop(text: str, keys: Keys, path: str = "") -> str:
    """The text without a key or table, and without the empty line in front of a table that goes.

    Arguments: as of `put`. Raises: as `put`.
    """
    document = loads(text, path)
    if get(document, keys) is None:
        return text
    expected = copy.deepcopy(document)
    take_out(expected, keys)
    statements_of_key = [statement for statement in statements(text) if statement.keys[: len(keys)] == keys]
    return _checked(_cut(text, statements_of_key), expected, keys, path)


def written(text: str, keys: Keys) -> str:
    """How the value of a key is written in a text, "" when there is none or it is a table with a header."""
    for statement in statements(text):
        if statement.keys == keys and not statement.is_header:
            return text[statement.value : statement.stop]
    return ""


def drop_header(text: str, keys: Keys, path: str = "") -> str:
    """The text without a header that is not needed: no key is under it, and its table has others inside it."""
    every = list(statements(text))
    for number, statement in enumerate(every, 1):
        is_empty = all(following.is_header for following in every[number : number + 1])
        if statement.is_header and statement.keys == keys and is_empty:
            return _checked(_cut(text, [statement]), loads(text, path), keys, path)
    return text


def table(keys: Keys, value: Table, indent: str = "") -> str:
    """A table and those inside it as text, each under its own header."""
    lines = [f"{indent}[{'.'.join(map(_key, keys))}]"]
    lines += [f"{indent}  {_key(key)} = {_value(item)}" for key, item in value.items() if not isinstance(item, dict)]
    inner = [table((*keys, key), item, f"{indent}  ") for key, item in value.items() if isinstance(item, dict)]
    if len(lines) == 1 and inner:
        return "".join(inner)
    return "".join(f"{line}\n" for line in lines) + "".join(inner)


# --- new text ---------------------------------------------------------------------------------------------------------


def _cut(text: str, gone: list[Statement]) -> str:
    """The text without some statements, and without the empty line in front of each header among them."""
    new, kept_from = "", 0
    for statement in gone:
        begin = statement.begin
        if statement.is_header and re.search(r"\n[ \t]*\r?\n\Z", text[kept_from:begin]):
            begin = text.rindex("\n", 0, begin - 1) + 1
        new += text[kept_from:begin]
        kept_from = statement.end
    if kept_from == len(text) and not text.endswith("\n"):
        new = new.removesuffix("\n").removesuffix("\r")  # the last line has no break, as before
    return new + text[kept_from:]


def _with_table(text: str, keys: Keys, value: Table) -> str:
    """A new table, behind the last statement of its nearest parent that is there."""
    offset, indent = line_end(text, len(text.rstrip())), ""
    for depth in range(len(keys) - 1, 0, -1):
        near = [statement for statement in statements(text) if statement.keys[:depth] == keys[:depth]]
        if near:
            offset = _behind_comments(text, _section_end(text, near[-1]))
            siblings = [statement for statement in near if statement.is_header and len(statement.keys) == len(keys)]
            indent = _indent(text, siblings[-1]) if siblings else ""
            break
    gap = "\n" if text[:offset].strip("\ufeff") else ""
    return _inserted(text, offset, gap + table(keys, value, indent))


def _with_key(text: str, keys: Keys, value: Value) -> str:
    parent = keys[:-1]
    header = next((entry for entry in statements(text) if entry.is_header and entry.keys == parent), None)
    if parent and not header:
        return _with_table(text, parent, {keys[-1]: value})
    begin = header.end if header else 0
    siblings = []  # the keys of this table, up to the next header
    for statement in statements(text):
        if statement.begin >= begin:
            if statement.is_header:
                break
            siblings.append(statement)
    if siblings:
        offset, indent = siblings[-1].end, _indent(text, siblings[-1])
    elif header:
        offset, indent = header.end, f"{_indent(text, header)}  "
    else:
        offset, indent = _top(text), ""
    return _inserted(text, offset, f"{indent}{_key(keys[-1])} = {_value(value)}\n")


def _inserted(text: str, offset: int, lines: str) -> str:
    """The text with more lines, which end as its own do; its last line has no break if it had none before."""
    line_break = "\r\n" if "\r\n" in text else "\n"
    lines = lines.replace("\n", line_break)
    if offset == len(text) and text.strip("\ufeff") and not text.endswith("\n"):
        lines = line_break + lines.removesuffix(line_break)
    return text[:offset] + lines + text[offset:]


def _section_end(text: str, statement: Statement) -> int:
    """The offset behind the last key of the table to which a statement belongs."""
    end = statement.end
    for following in statements(text):
        if following.begin >= end:
            if following.is_header:
                break
            end = following.end
    return end


def _behind_comments(text: str, offset: int) -> int:
    """The offset behind comments that follow directly and end at an empty line: these belong to what is above them."""
    at = offset
    while text[at : line_end(text, at)].lstrip(" \t").startswith("#"):
        at = line_end(text, at)
    return offset if text[at : line_end(text, at)].strip() else at


def _top(text: str) -> int:
    """The offset for the first key of a text that has keys in tables only: above the first header and its comment."""
    first = next((statement.begin for statement in statements(text)), -1)
    if first < 0:
        return len(text)
    while text[:first].endswith("\n") and text[:first].splitlines()[-1].lstrip().startswith("#"):
        first = text.rfind("\n", 0, first - 1) + 1
    return first or (1 if text.startswith("\ufeff") else 0)


def _indent(text: str, statement: Statement) -> str:
    line = text[statement.begin : statement.value]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line(text: str, statement: Statement) -> int:
    return text.count("\n", 0, statement.value) + 1


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _value(key)


def _value(value: Value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    # basic strings of TOML are those of JSON, except for DEL
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _checked(text: str, expected: Table, keys: Keys, path: str) -> str:
    """The text, if it means what it should. An empty table on the way to the key may be there or not."""
    document: Table
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))
    except ValueError:
        document = {}
    if not same(_trimmed(document, keys), _trimmed(expected, keys)):
        raise _shape(keys, path, "the file is written in a form to which nothing can be added, such as an inline table")
    return text


def _trimmed(document: Table, keys: Keys) -> Table:
    """A document without the empty tables on the way to a key."""
    for stop in range(len(keys), 0, -1):
        if get(document, keys[:stop]) == {}:
            take_out(document, keys[:stop])
    return document


def _shape(keys: Keys, path: str, text: str) -> CdiError:
    return CdiError([Finding("ENGINE_CONFIG_SHAPE", f"{'.'.join(map(_key, keys))} cannot be set: {text}", path=path)])
