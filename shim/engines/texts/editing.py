"""Edits become new texts, and are taken back again. Pure: texts in, texts out.

Taking back needs no memory of what the edits did: each key gets the value that the older text has for it, or goes where
that has none. So what an administrator wrote meanwhile stays, and where nobody did, the old text itself is restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.engines.model import Add, Put
from shim.engines.texts import json_edit, template_edit, toml_edit, values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.engines.model import Edit, Keys

_FORMS: dict[str, Any] = {"toml": toml_edit, "json": json_edit, "template": template_edit}


def decoded(data: bytes | None, path: str) -> str:
    """The text of a file, "" for one that is missing.

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
        before: the content of each file that they name, None for one that is missing.
    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX, ENGINE_CONFIG_SHAPE.
    """
    after: dict[str, bytes] = {}
    for edit in edits:
        old = after.get(edit.path, before[edit.path])
        text = decoded(old, edit.path) if old is not None else edit.head
        if edit.form == "text":
            text = edit.head
        for step in edit.steps:
            form = _FORMS[edit.form]
            wanted = _wanted(step, form.get(form.loads(text, edit.path), step.keys), edit.path)
            text = form.put(text, step.keys, wanted, edit.path)
        after[edit.path] = text.encode("utf-8")
    return after


def revert(edits: Iterable[Edit], now: bytes, before: bytes | None) -> bytes | None:
    """A file without what edits did to it, for one that somebody changed since.

    Arguments:
        edits: those that name this file, as they were applied.
        now: its content.
        before: its content before they were applied, None when it was missing.
    Returns:
        the content that it should have; None when it should be missing.
    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX, ENGINE_CONFIG_SHAPE.
    """
    text, left = "", b""
    for edit in reversed(list(edits)):
        if edit.form == "text":
            return before
        form = _FORMS[edit.form]
        text = text or decoded(now, edit.path)
        old = decoded(before, edit.path) if before else ""
        form.loads(old, edit.path)
        for step in reversed(edit.steps):
            text = _reverted(form, text, step, old, edit.path)
        if before is None:
            left = edit.head.encode("utf-8")
    result = text.encode("utf-8")
    if before is None and b"".join(result.split()) in {b"".join(left.split()), b"", b"{}"}:
        return None  # blanks and an empty object are what is left of a file that we made
    return result


def _wanted(step: Put | Add, there: Any, path: str) -> Any:
    if isinstance(step, Put):
        return step.value
    there = [] if there is None else there
    if not isinstance(there, list):
        text = f"nothing can be added to {'.'.join(step.keys)}: it is no list"
        raise CdiError([Finding("ENGINE_CONFIG_SHAPE", text, "make it a list", path=path)])
    return [*there, *(item for item in step.items if item not in there)]


def _reverted(form: Any, text: str, step: Put | Add, old: str, path: str) -> str:
    there = form.get(form.loads(text, path), step.keys)
    value, written = form.get(form.loads(old, path), step.keys), form.written(old, step.keys)
    if isinstance(step, Add):
        kept = value or []
        there = there if isinstance(there, list) else []
        rest = [item for item in there if item not in step.items or item in kept]
        written = written if rest == value else ""
        value = rest if rest or value is not None else None
    elif not isinstance(step.value, dict) and not values.same(there, step.value):
        return text  # somebody has set it to something else since: that is theirs
    if value is None:
        text = form.drop(text, step.keys, path)
    else:
        text = form.put(text, step.keys, value, path, written)
    return _without_empty(form, text, step.keys[:-1], old, path)


def _without_empty(form: Any, text: str, keys: Keys, old: str, path: str) -> str:
    """Tables that were made on the way to a key go with it, when nothing else came into them."""
    before = form.loads(old, path)
    while keys and form.get(before, keys) is None and form.get(form.loads(text, path), keys) == {}:
        text, keys = str(form.drop(text, keys, path)), keys[:-1]
    if form is toml_edit and keys not in dict(toml_edit.headers(old)):
        text = toml_edit.drop_header(text, keys, path)
    return text
