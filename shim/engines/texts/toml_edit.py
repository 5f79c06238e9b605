"""Change single keys of a TOML text, and leave every other byte as it is.

The standard library reads TOML and gives no positions; libraries that keep the text reflow what is near a change. An
administrator's file wants less and more than that: every comment stays where it stands, and a finding has a line. So
this module knows where each statement of a text (a header, or a key with its value) begins and ends, and nothing else
about TOML. What a text *means* is always asked of the standard reader, also after a change: where that is not exactly
the old content with the new value, the change is refused (ENGINE_CONFIG_SHAPE).

Source: TOML 1.0.0, https://toml.io/en/v1.0.0
"""

from __future__ import annotations

import copy
import json
import re
import sys
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.engines.texts.toml_scan import Statement, line_end, statements
from shim.engines.texts.values import get, put_in, same, take_out

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from shim.engines.model import Keys

__all__ = [
    "drop", "drop_header", "get", "headers", "line_of", "loads", "put", "same", "table", "unquoted_header", "written",
]  # fmt: skip

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PLACE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
# An unquoted name with dots in a header, as people paste it: [plugins.io.containerd.grpc.v1.cri.containerd]
_UNQUOTED = re.compile(r"\bio\.containerd\.[a-z0-9]+\.v\d+(\.[a-z0-9-]+)?")


def loads(text: str, path: str = "") -> dict[str, Any]:
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
        said = _PLACE.search(str(error))
        line = int(said[1]) if said and said[1] else text.count("\n") + 1 if said else 0
        cause = _PLACE.sub("", str(error)).strip()
        text = f"it is not valid TOML: {cause}"
        raise CdiError([Finding("ENGINE_CONFIG_SYNTAX", text, path=path, line=line)]) from None


def line_of(text: str, keys: Keys) -> int:
    """The line, from 1, of the statement that sets a key or opens a table; 0 when there is none."""
    found = [one for one in statements(text) if one.keys == keys]
    found = found or [one for one in statements(text) if one.keys[: len(keys)] == keys]
    return text.count("\n", 0, found[0].value) + 1 if found else 0


def headers(text: str) -> list[tuple[Keys, int]]:
    """The tables that a text opens, each with its line, from 1."""
    return [(one.keys, text.count("\n", 0, one.value) + 1) for one in statements(text) if one.is_header]


def put(text: str, keys: Keys, value: Any, path: str = "", written: str = "") -> str:
    """The text with a value at a key.

    A value that is there already changes nothing. Else the old value is replaced where it stands; a new key comes
    behind the others of its table, a new table behind its neighbours.

    Arguments:
        text: valid TOML, of which no other byte changes.
        keys: path of the key.
        value: text, number, boolean, list of these, or dict: a whole table, which replaces the old one.
        path: of the file, for findings.
        written: how the value shall be written where it replaces another, our own way when "".
    Raises:
        CdiError: ENGINE_CONFIG_SHAPE when the text is written in a form to which this cannot be added, for example an
            inline table; ENGINE_CONFIG_SYNTAX.
    """
    meaning = loads(text, path)
    if same(get(meaning, keys), value):
        return text
    expected = copy.deepcopy(meaning)
    wrong = put_in(expected, keys, value)
    if wrong:
        raise _shape(keys, path, f"{'.'.join(map(_key, keys[:wrong]))} is no table there")
    statement = next((one for one in statements(text) if one.keys == keys and not one.is_header), None)
    if isinstance(value, dict):
        new = _with_table(drop(text, keys, path) if get(meaning, keys) is not None else text, keys, value)
    elif statement:
        new = text[: statement.value] + (written or _value(value)) + text[statement.stop :]
    else:
        new = _with_key(text, keys, value)
    return _checked(new, expected, keys, path)


def drop(text: str, keys: Keys, path: str = "") -> str:
    """The text without a key or table, and without the empty line in front of a table that goes.

    Arguments: as of `put`. Raises: as `put`.
    """
    meaning = loads(text, path)
    if get(meaning, keys) is None:
        return text
    expected = copy.deepcopy(meaning)
    take_out(expected, keys)
    gone = [one for one in statements(text) if one.keys[: len(keys)] == keys]
    return _checked(_cut(text, gone), expected, keys, path)


def written(text: str, keys: Keys) -> str:
    """How the value of a key is written in a text, "" when there is none or it is a table with a header."""
    found = [one for one in statements(text) if one.keys == keys and not one.is_header]
    return text[found[0].value : found[0].stop] if found else ""


def drop_header(text: str, keys: Keys, path: str = "") -> str:
    """The text without a header that nothing needs: no key stands under it, and its table has others inside it."""
    every = list(statements(text))
    for number, one in enumerate(every, 1):
        if one.is_header and one.keys == keys and all(behind.is_header for behind in every[number : number + 1]):
            return _checked(_cut(text, [one]), loads(text, path), keys, path)
    return text


def unquoted_header(text: str) -> tuple[int, str, str] | None:
    """A header in which the name of a containerd plugin lacks its quotes, so that each dot opens a table.

    Returns:
        its line, from 1, the header, and what it should be; None when there is none.
    """
    for one in statements(text):
        header = text[one.value : one.stop]
        name = _UNQUOTED.search(header) if one.is_header else None
        if name and '"' not in header and "'" not in header:
            right = header.replace(name[0], f'"{name[0]}"', 1)
            return text.count("\n", 0, one.value) + 1, header, right
    return None


def table(keys: Keys, value: dict[str, Any], indent: str = "") -> str:
    """A table and those inside it as text, each under its own header."""
    lines = [f"{indent}[{'.'.join(map(_key, keys))}]"]
    lines += [f"{indent}  {_key(key)} = {_value(one)}" for key, one in value.items() if not isinstance(one, dict)]
    inner = [table((*keys, key), one, f"{indent}  ") for key, one in value.items() if isinstance(one, dict)]
    if len(lines) == 1 and inner:
        return "".join(inner)
    return "".join(f"{line}\n" for line in lines) + "".join(inner)


# --- new text ---------------------------------------------------------------------------------------------------------


def _cut(text: str, gone: list[Statement]) -> str:
    """The text without some statements, and without the empty line in front of each header among them."""
    new, kept_from = "", 0
    for one in gone:
        begin = one.begin
        if one.is_header and re.search(r"\n[ \t]*\r?\n\Z", text[kept_from:begin]):
            begin = text.rindex("\n", 0, begin - 1) + 1
        new += text[kept_from:begin]
        kept_from = one.end
    if kept_from == len(text) and not text.endswith("\n"):
        new = new.removesuffix("\n").removesuffix("\r")  # the last line has no break, as before
    return new + text[kept_from:]


def _with_table(text: str, keys: Keys, value: dict[str, Any]) -> str:
    """A new table, behind the last statement below its parents, as near as they are there."""
    place, indent = line_end(text, len(text.rstrip())), ""
    for depth in range(len(keys) - 1, 0, -1):
        near = [one for one in statements(text) if one.keys[:depth] == keys[:depth]]
        if near:
            place = _behind_comments(text, _section_end(text, near[-1]))
            beside = [one for one in near if one.is_header and len(one.keys) == len(keys)]
            indent = _indent(text, beside[-1]) if beside else ""
            break
    gap = "\n" if text[:place].strip("\ufeff") else ""
    return _inserted(text, place, gap + table(keys, value, indent))


def _with_key(text: str, keys: Keys, value: Any) -> str:
    parent = keys[:-1]
    header = next((one for one in statements(text) if one.is_header and one.keys == parent), None)
    if parent and not header:
        return _with_table(text, parent, {keys[-1]: value})
    begin = header.end if header else 0
    beside = []  # the keys of this table, up to the next header
    for one in statements(text):
        if one.begin >= begin:
            if one.is_header:
                break
            beside.append(one)
    if beside:
        place, indent = beside[-1].end, _indent(text, beside[-1])
    elif header:
        place, indent = header.end, f"{_indent(text, header)}  "
    else:
        place, indent = _top(text), ""
    return _inserted(text, place, f"{indent}{_key(keys[-1])} = {_value(value)}\n")


def _inserted(text: str, place: int, lines: str) -> str:
    """The text with more lines, which end as its own do; its last line has no break if it had none before."""
    line_break = "\r\n" if "\r\n" in text else "\n"
    lines = lines.replace("\n", line_break)
    if place == len(text) and text.strip("\ufeff") and not text.endswith("\n"):
        lines = line_break + lines.removesuffix(line_break)
    return text[:place] + lines + text[place:]


def _section_end(text: str, statement: Statement) -> int:
    """Behind the last key of the table to which a statement belongs."""
    end = statement.end
    for one in statements(text):
        if one.begin >= end:
            if one.is_header:
                break
            end = one.end
    return end


def _behind_comments(text: str, place: int) -> int:
    """Behind the comments that follow directly, where these end at an empty line: then they belong to what is above."""
    at = place
    while text[at : line_end(text, at)].lstrip(" \t").startswith("#"):
        at = line_end(text, at)
    return place if text[at : line_end(text, at)].strip() else at


def _top(text: str) -> int:
    """Where the first key of a text without keys outside of tables goes: above the first header and its comment."""
    first = next((one.begin for one in statements(text)), -1)
    if first < 0:
        return len(text)
    while text[:first].endswith("\n") and text[:first].splitlines()[-1].lstrip().startswith("#"):
        first = text.rfind("\n", 0, first - 1) + 1
    return first or (1 if text.startswith("\ufeff") else 0)


def _indent(text: str, statement: Statement) -> str:
    line = text[statement.begin : statement.value]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
    # basic strings of TOML are those of JSON, DEL aside
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _checked(text: str, expected: dict[str, Any], keys: Keys, path: str) -> str:
    """The text, if it means what it should. An empty table on the way to the key may be there or not."""
    try:
        meaning = tomllib.loads(text.removeprefix("\ufeff"))
    except ValueError:
        meaning = {}
    if not same(_trimmed(meaning, keys), _trimmed(expected, keys)):
        raise _shape(keys, path, "the file is written in a form to which nothing can be added, such as an inline table")
    return text


def _trimmed(meaning: dict[str, Any], keys: Keys) -> dict[str, Any]:
    for stop in range(len(keys), 0, -1):
        if get(meaning, keys[:stop]) == {}:
            take_out(meaning, keys[:stop])
    return meaning


def _shape(keys: Keys, path: str, text: str) -> CdiError:
    return CdiError([Finding("ENGINE_CONFIG_SHAPE", f"{'.'.join(map(_key, keys))} cannot be set: {text}", path=path)])
