"""Apply edits to texts, and take them back. Pure: texts in, texts out.

Taking back needs no record of what the edits changed: each key gets the value that the older text has for it, or is
removed where that has none. So what an administrator wrote in between stays, and where nobody wrote anything, the
result is the older text itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from shim.base.findings import CdiError, Finding
from shim.engines.model import Add, Drop, Put
from shim.engines.texts import json_edit, template_edit, toml_edit, values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.engines.model import Edit
    from shim.engines.texts.values import Keys, Table, Value


class _Form(Protocol):
    """The functions of a module that edits texts of a format; see `toml_edit`."""

    def loads(self, text: str, path: str = "") -> Table: ...

    def put(self, text: str, keys: Keys, value: Value, path: str = "", written: str = "") -> str: ...

    def drop(self, text: str, keys: Keys, path: str = "") -> str: ...

    def written(self, text: str, keys: Keys) -> str: ...


_FORMS: dict[str, _Form] = {"toml": toml_edit, "json": json_edit, "template": template_edit}


def decoded(data: bytes | None, path: str) -> str:
    """The text of a file, "" if it is missing.

    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX when it is not UTF-8.
    """
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise CdiError([Finding("ENGINE_CONFIG_SYNTAX", "it is not UTF-8 text", path=path, line=line)]) from None


def apply(edits: Iterable[Edit], before: dict[str, bytes | None]) -> dict[str, bytes]:
    """The new content of the files that edits name.

    Arguments:
        edits: for one engine; several may name the same file.
        before: the content of each file that they name, None for a missing file.
    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX, ENGINE_CONFIG_SHAPE.
    """
    after: dict[str, bytes] = {}
    for edit in edits:
        content = after.get(edit.path, before[edit.path])
        text = decoded(content, edit.path) if content is not None and edit.form != "text" else edit.head
        for step in edit.steps:
            form = _FORMS[edit.form]
            if isinstance(step, Drop):
                text = form.drop(text, step.keys, edit.path)
                continue
            present = values.get(form.loads(text, edit.path), step.keys)
            text = form.put(text, step.keys, _new_value(step, present, edit.path), edit.path)
        after[edit.path] = text.encode("utf-8")
    return after


def revert(edits: Iterable[Edit], now: bytes, before: bytes | None) -> bytes | None:
    """The content of a file without the changes of edits, for a file that was changed since.

    Arguments:
        edits: those that name this file, as they were applied.
        now: its content.
        before: its content before they were applied, None when it was missing.
    Returns:
        the content that it should have; None when it should be missing.
    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX, ENGINE_CONFIG_SHAPE.
    """
    text, head = "", b""
    for edit in reversed(list(edits)):
        if edit.form == "text":
            return before
        form = _FORMS[edit.form]
        text = text or decoded(now, edit.path)
        older = decoded(before, edit.path) if before else ""
        form.loads(older, edit.path)
        for step in reversed(edit.steps):
            text = _reverted(form, text, step, older, edit.path)
        if before is None:
            head = edit.head.encode("utf-8")
    result = text.encode("utf-8")
    if before is None and b"".join(result.split()) in {b"".join(head.split()), b"", b"{}"}:
        return None  # configure created the file, and only blanks or an empty object are left of it
    return result


def _new_value(step: Put | Add, present: Value, path: str) -> Value:
    if isinstance(step, Put):
        return step.value
    items: Value = [] if present is None else present
    if not isinstance(items, list):
        text = f"nothing can be added to {'.'.join(step.keys)}: it is no list"
        raise CdiError([Finding("ENGINE_CONFIG_SHAPE", text, "make it a list", path=path)])
    return [*items, *(item for item in step.items if item not in items)]


def _reverted(form: _Form, text: str, step: Put | Add | Drop, older: str, path: str) -> str:
    """A text in which the key of a step has the value of the older text."""
    present = values.get(form.loads(text, path), step.keys)
    value, written = values.get(form.loads(older, path), step.keys), form.written(older, step.keys)
    if isinstance(step, Drop):
        is_back = value is None or present is not None  # it was written again since, which stays
        return text if is_back else form.put(text, step.keys, value, path, written)
    if isinstance(step, Add):
        former: list[Value] = value if isinstance(value, list) else []
        items: list[Value] = present if isinstance(present, list) else []
        rest = [item for item in items if item not in step.items or item in former]
        written = written if rest == value else ""
        value = rest if rest or value is not None else None
    elif not isinstance(step.value, dict) and not values.same(present, step.value):
        return text  # it was set to another value since, which stays
    if value is None:
        text = form.drop(text, step.keys, path)
    else:
        text = form.put(text, step.keys, value, path, written)
    return _without_empty_tables(form, text, step.keys[:-1], older, path)


def _without_empty_tables(form: _Form, text: str, keys: Keys, older: str, path: str) -> str:
    """A text without the tables that were created on the way to a key, if nothing else was put into them."""
    before = form.loads(older, path)
    while keys and values.get(before, keys) is None and values.get(form.loads(text, path), keys) == {}:
        text, keys = form.drop(text, keys, path), keys[:-1]
    if form is _FORMS["toml"] and keys not in dict(toml_edit.headers(older)):
        text = toml_edit.drop_header(text, keys, path)
    return text
