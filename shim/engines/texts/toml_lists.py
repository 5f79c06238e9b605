"""Items that come into a list of a TOML text which is written on several lines, or go: each other line stays.

Such a list often has comments behind its items. A new item gets a line of its own after the last item, with the same
indentation, and with a comma if the last item has one; an item is removed with its line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.engines.texts.toml_scan import items, line_end
from shim.engines.texts.values import same

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.engines.texts.values import Value


def edited(text: str, begin: int, old: list[Value], new: list[Value], write: Callable[[Value], str]) -> str:
    """The text with other items in a list.

    Arguments:
        text: valid TOML.
        begin: offset of the list's bracket.
        old: its items.
        new: those that it is to have.
        write: gives the text of an item.
    """
    kept = 0
    for item in old:
        if kept < len(new) and same(item, new[kept]):
            kept += 1
        else:
            text = _without(text, begin, kept)  # those before it that go are gone
    for item in new[kept:]:
        text = _with(text, begin, write(item))
    return text


def _with(text: str, begin: int, item: str) -> str:
    """The text with a further item, after the last."""
    spans = items(text, begin)
    line_break = "\r\n" if "\r\n" in text else "\n"
    if not spans:
        bracket = _closing(text, begin)
        start = text.rfind("\n", 0, bracket) + 1
        if text[start:bracket].strip():  # the bracket is not on a line of its own
            return text[:bracket] + item + text[bracket:]
        return f"{text[:start]}{text[start:bracket]}  {item}{line_break}{text[start:]}"
    start, stop = spans[-1]
    comma = _comma(text, stop)
    end = line_end(text, comma or stop)
    if _closing(text, begin) < end:  # the bracket is on the line of the last item
        return f"{text[:stop]}, {item}{text[comma or stop :]}"
    line = text[text.rfind("\n", 0, start) + 1 : start]
    indent = line if not line.strip() else " " * (len(line) - len(line.lstrip())) + "  "
    added = f"{indent}{item}{',' * bool(comma)}{line_break}"
    return f"{text[:stop]}{',' * (not comma)}{text[stop:end]}{added}{text[end:]}"


def _without(text: str, begin: int, number: int) -> str:
    """The text without an item: without its line, if the item is alone on it."""
    spans = items(text, begin)
    start, stop = spans[number]
    comma = _comma(text, stop)
    line, end = text.rfind("\n", 0, start) + 1, line_end(text, comma or stop)
    behind = text[comma or stop : end].strip()
    if not text[line:start].strip() and (not behind or behind.startswith("#")):
        start, stop = line, end
    elif comma:
        stop = comma + len(text[comma:]) - len(text[comma:].lstrip(" \t"))
    text = text[:start] + text[stop:]
    if not comma and number:  # it was the last, without a comma: so the item before it gets none either
        before = spans[number - 1][1]
        comma = _comma(text, before)
        text = text[:before] + text[comma:] if comma else text
    return text


def _comma(text: str, stop: int) -> int:
    """The offset behind the comma that follows an item, 0 when none does."""
    at = stop
    while text[at] in " \t\r\n#":
        at = line_end(text, at) if text[at] == "#" else at + 1
    return at + 1 if text[at] == "," else 0


def _closing(text: str, begin: int) -> int:
    """The offset of the closing bracket of a list."""
    spans = items(text, begin)
    at = spans[-1][1] if spans else begin + 1
    while text[at] != "]":
        at = line_end(text, at) if text[at] == "#" else at + 1
    return at
