"""Edits make new texts, and taking them back gives the old ones, also where somebody has changed the file since."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.base.findings import CdiError
from shim.engines.model import Add, Drop, Edit, Put
from shim.engines.texts import editing, json_edit, toml_edit

FILE = "/etc/engine"


def _edit(form: str, *steps: Put | Add | Drop, head: str = "") -> list[Edit]:
    return [Edit(FILE, form, steps, head)]


def _applied(made: list[Edit], before: bytes | None) -> bytes:
    return editing.apply(made, {FILE: before})[FILE]


@pytest.mark.parametrize(
    ("form", "before", "step", "after"),
    [
        ("toml", b"[t]\na = ['x']\n", Add(("t", "a"), ("x", "y")), b'[t]\na = ["x", "y"]\n'),
        ("toml", b"[t]\n", Add(("t", "a"), ("x",)), b'[t]\n  a = ["x"]\n'),
        ("json", b'{"a": ["x"]}', Add(("a",), ("y",)), b'{"a": ["x", "y"]}'),
        ("toml", None, Put(("t",), {"a": 1}), b"# head\n\n[t]\n  a = 1\n"),
        ("text", b"whatever", Put(("t",), 1), b"# head\n"),
        ("toml", b"a = 1\n\n[t]\nb = 2\n[t.u]\nc = 3\n", Drop(("t",)), b"a = 1\n"),
        ("toml", b"a = 1\n", Drop(("t", "u")), b"a = 1\n"),
        ("json", b'{"a": {"b": 1, "c": 2}}', Drop(("a", "b")), b'{"a": {"c": 2}}'),
    ],
)
def test_edits_make_new_texts(form: str, before: bytes | None, step: Put | Add | Drop, after: bytes) -> None:
    steps = () if form == "text" else (step,)
    head = "" if form == "json" else "# head\n"
    assert _applied([Edit(FILE, form, steps, head)], before) == after


def test_nothing_is_added_to_what_is_no_list() -> None:
    with pytest.raises(CdiError) as caught:
        _applied(_edit("json", Add(("a", "b"), ("y",))), b'{"a": {"b": "x"}}')
    assert caught.value.findings[0].id == "ENGINE_CONFIG_SHAPE"
    assert str(caught.value) == "/etc/engine: nothing can be added to a.b: it is no list"


def test_edits_of_one_file_are_made_one_after_the_other() -> None:
    made = [*_edit("json", Put(("a",), 1)), *_edit("json", Put(("b",), 2))]
    assert _applied(made, b"{}") == b'{"a": 1, "b": 2}'
    assert editing.revert(made, b'{"a": 1, "b": 2}', b"{}") == b"{}"


@pytest.mark.parametrize(
    ("form", "before", "step", "theirs", "left"),
    [
        ("toml", b"[t]\na = 'x' # why\n", Put(("t", "a"), "y"), (b"[t]", b"[t]\nb = 1"),
         b"[t]\nb = 1\na = 'x' # why\n"),
        ("toml", b"[t]\na = 'x'\n", Put(("t", "a"), "y"), (b'"y"', b'"z"'), b'[t]\na = "z"\n'),
        ("toml", b"[t.u]\n", Put(("t", "a"), 1), (b"[t.u]", b"# x\n[t.u]"), b"# x\n[t.u]\n"),
        ("toml", b"[t]\n[t.u]\n", Put(("t", "a"), 1), (b"[t.u]", b"# x\n[t.u]"), b"[t]\n# x\n[t.u]\n"),
        ("toml", None, Put(("t", "u"), {"a": 1}), (b"a = 1", b"a = 1\nb = 2"), None),
        ("toml", None, Put(("t", "a"), 1), (b"a = 1", b"a = 1\nb = 2"), b"[t]\nb = 2\n"),
        ("toml", b"a = ['x']\n", Add(("a",), ("y",)), (b'"y"', b'"y", "z"'), b'a = ["x", "z"]\n'),
        ("toml", b"a = [\n  'x', # why\n]\n", Add(("a",), ("y",)), (b"a =", b"b = 1\na ="),
         b"b = 1\na = [\n  'x', # why\n]\n"),
        ("toml", b"a = ['x']\n", Add(("a",), ("x",)), (b"a", b"b = 1\na"), b"b = 1\na = ['x']\n"),
        ("json", b'{"r": {"x": 1}}', Put(("r", "s"), {"p": 1}), (b'"x": 1', b'"x": 3'), b'{"r": {"x": 3}}'),
        ("json", b'{"d": 1}', Put(("r", "s"), {"p": 1}), (b'"d": 1', b'"d": 3'), b'{"d": 3}'),
        ("json", b'{"d":  1e0}', Put(("d",), 2), (b"{", b'{"e": 1, '), b'{"e": 1, "d":  1e0}'),
        ("toml", b"a = 1\n[t]\nb = 2\n", Drop(("t",)), (b"a = 1", b"a = 3"), b"a = 3\n\n[t]\n  b = 2\n"),
        ("toml", b"a = 1\n[t]\nb = 2\n", Drop(("t",)), (b"a", b"t.b = 7\na"), b"t.b = 7\na = 1\n"),
        ("json", b'{"r": {"x": 1, "y": 2}}', Drop(("r", "x")), (b"2", b"3"), b'{"r": {"y": 3, "x": 1}}'),
        ("json", None, Put(("r", "s"), {"p": 1}), (b"1", b"2"), None),
        ("json", None, Put(("r", "s"), {"p": 1}), (b'"r"', b'"x": 1,\n  "r"'), b'{\n  "x": 1\n}\n'),
    ],
)  # fmt: skip
def test_what_somebody_wrote_since_stays(
    form: str, before: bytes | None, step: Put | Add | Drop, theirs: tuple[bytes, bytes], left: bytes | None
) -> None:
    made = _edit(form, step)
    now = _applied(made, before)
    changed = now.replace(*theirs)
    assert changed != now
    assert editing.revert(made, changed, before) == left


def test_a_file_that_is_no_text_is_refused_with_its_line() -> None:
    with pytest.raises(CdiError) as caught:
        _applied(_edit("json", Put(("a",), 1)), b'{\n"b": "\xff"}')
    assert str(caught.value) == "/etc/engine:2: it is not UTF-8 text"
    assert caught.value.findings[0].id == "ENGINE_CONFIG_SYNTAX"


# --- for all edits ----------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "x.y"])
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)
SCALARS = st.sampled_from(["v", True, 7])
STEPS = st.one_of(
    st.builds(Put, PATHS, SCALARS),
    st.builds(Put, PATHS, st.dictionaries(KEYS, SCALARS, min_size=1, max_size=2)),
    st.builds(Add, PATHS, st.lists(st.sampled_from(["v", "w"]), min_size=1, unique=True).map(tuple)),
    st.builds(Drop, PATHS),
)
JSON = st.dictionaries(KEYS, st.recursive(SCALARS, lambda one: st.dictionaries(KEYS, one), max_leaves=5)).flatmap(
    lambda value: st.sampled_from([None, 2, "\t"]).map(lambda indent: json.dumps(value, indent=indent))
)
TOML = st.lists(
    st.sampled_from(
        ["[a]", "[a.b]", '[a."x.y"]', "[b]", "[[b]]", "# c", "", "a = 'v' # c", "b = [\n 'w', # c\n]", "b.a = 7",
         '"x.y" = {}']
    ),
    max_size=6,
    unique=True,
).map("\n".join)  # fmt: skip


@settings(max_examples=300)
@given(st.booleans(), TOML, JSON, st.lists(STEPS, min_size=1, max_size=3))
def test_taking_back_what_was_just_made_gives_the_old_meaning_and_mostly_the_old_bytes(
    is_toml: bool, toml: str, object: str, steps: list[Put | Add | Drop]
) -> None:
    form: Any
    form, text = (toml_edit, toml) if is_toml else (json_edit, object)
    made = _edit("toml" if is_toml else "json", *steps)
    try:
        meaning = form.loads(text)
        now = _applied(made, text.encode())
        after = editing.revert(made, now, text.encode())
    except CdiError:
        return
    assert after is not None
    distinct = len({step.keys[0] for step in steps}) == len(steps)
    if distinct:
        assert form.loads(after.decode()) == meaning
    if distinct and all(form.get(meaning, step.keys[:1]) is None for step in steps):
        assert after.decode() == text
