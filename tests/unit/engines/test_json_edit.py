"""Single keys of a JSON text change, every other byte stays, and a text that is no JSON is refused with its cause."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.base.findings import CdiError
from shim.engines.texts import json_edit, values

ENTRY: values.Table = {"path": "/usr/local/bin/shim"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "runtimes": {\n    "shim": {\n      "path": "/usr/local/bin/shim"\n    }\n  }\n}\n'),
        ("{}", '{"runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}'),
        ("{ }\n", '{ "runtimes": {"shim": {"path": "/usr/local/bin/shim"}} }\n'),
        ("{\n}", '{\n  "runtimes": {\n    "shim": {\n      "path": "/usr/local/bin/shim"\n    }\n  }\n}'),
        ('{"a":1}', '{"a":1,"runtimes":{"shim":{"path":"/usr/local/bin/shim"}}}'),
        ('{"a": 1}\n', '{"a": 1, "runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}\n'),
        (
            '{\n\t"a": 1\n}\n',
            '{\n\t"a": 1,\n\t"runtimes": {\n\t\t"shim": {\n\t\t\t"path": "/usr/local/bin/shim"\n\t\t}\n\t}\n}\n',
        ),
        (
            '{\r\n    "a": 1\r\n}',
            '{\r\n    "a": 1,\r\n    "runtimes": {\r\n        "shim": {\r\n'
            '            "path": "/usr/local/bin/shim"\r\n        }\r\n    }\r\n}',
        ),
        (
            '{\n  "runtimes": {\n    "crun": {"path": "crun"}\n  },\n  "debug": true\n}\n',
            '{\n  "runtimes": {\n    "crun": {"path": "crun"},\n    "shim": {\n      "path": "/usr/local/bin/shim"\n'
            '    }\n  },\n  "debug": true\n}\n',
        ),
        (
            '{\n  "runtimes": {},\n  "debug": true\n}\n',
            '{\n  "runtimes": {"shim": {"path": "/usr/local/bin/shim"}},\n  "debug": true\n}\n',
        ),
    ],
    ids=[
        "a missing file is written in lines",
        "an object on one line stays on one line",
        "blanks inside of empty braces are kept",
        "empty braces on two lines get lines between them",
        "a dense text stays dense",
        "a text with blanks gets blanks",
        "tabs are tabs",
        "line breaks of Windows, and none at the end",
        "behind the last of its neighbours, on a line of its own",
        "empty braces within a spread-out text",
    ],
)
def test_a_new_key_is_written_as_its_neighbours_are(before: str, after: str) -> None:
    assert json_edit.put(before, ("runtimes", "shim"), ENTRY) == after


@pytest.mark.parametrize(
    ("before", "keys", "value", "after"),
    [
        ('{"a": [1,  2], "b" :0}', ("b",), True, '{"a": [1,  2], "b" :true}'),
        ('{\n "a": {\n  "b": "x"\n }}', ("a", "b"), ["y", "z"], '{\n "a": {\n  "b": ["y", "z"]\n }}'),
        ('{\n  "a": {"b": 1}\n}', ("a",), {"c": 2}, '{\n  "a": {"c": 2}\n}'),
        ('{\n  "a": {\n    "b": 1\n  }\n}', ("a",), {"c": 2}, '{\n  "a": {\n    "c": 2\n  }\n}'),
        ('{"a": null}', ("a",), None, '{"a": null}'),
    ],
)
def test_an_old_value_is_replaced_where_it_stands(before: str, keys: Any, value: Any, after: str) -> None:
    assert json_edit.put(before, keys, value) == after


@pytest.mark.parametrize(
    ("before", "keys", "after"),
    [
        ('{"a": 1, "b": 2, "c": 3}', ("a",), '{"b": 2, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', ("b",), '{"a": 1, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3 }', ("c",), '{"a": 1, "b": 2 }'),
        ('{\n  "a": 1\n}\n', ("a",), "{\n}\n"),
        ('{"a": {"b": 1}}', ("a", "b"), '{"a": {}}'),
        ('{"a": {"b": 1}}', ("a", "c"), '{"a": {"b": 1}}'),
        ('{"a": 1}', ("a", "b", "c"), '{"a": 1}'),
        ("", ("a",), ""),
    ],
)
def test_a_key_goes_with_its_comma(before: str, keys: Any, after: str) -> None:
    assert json_edit.drop(before, keys) == after


def test_a_key_below_something_that_is_no_object_is_refused() -> None:
    with pytest.raises(CdiError) as caught:
        json_edit.put('{"runtimes": ["shim"]}', ("runtimes", "shim", "path"), "/x", "/etc/docker/daemon.json")
    finding = caught.value.findings[0]
    assert finding.id == "ENGINE_CONFIG_SHAPE"
    assert str(finding) == ("/etc/docker/daemon.json: runtimes.shim.path cannot be set: runtimes is no object there")


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ('{\n  "a": 1,\n  "a": 2\n}', 3, "the key a is there twice, on line 2 and on line 3"),
        ('{"r": {\n"x": 1, "y": 2,\n"x": 3}}', 3, "the key x is there twice, on line 2 and on line 3"),
        ('{\n  // ours\n  "a": 1\n}', 2, "a comment; JSON has none"),
        ('{\n  "a": 1 /* ours */\n}', 2, "a comment; JSON has none"),
        ('# ours\n{"a": 1}', 1, "a comment; JSON has none"),
        ('\ufeff{"a": 1}', 1, "a byte order mark; dockerd takes it since version 23 only"),
        ('{\n  "a": 1,\n}', 2, "a comma with nothing behind it but }"),
        ('{"a": [\n1,\n2,\n]}', 3, "a comma with nothing behind it but ]"),
        ("{'a': 1}", 1, "a single quote; texts have double ones around them"),
        ('{"a": \u201cx\u201d}', 1, "a typographic quote; texts have straight double ones around them"),
        ('{\n\u00a0"a": 1}', 2, "a no-break space, as from a web page; only ordinary blanks may be between values"),
        ('{"a": NaN}', 1, "NaN where a value is expected"),
        ('{"a": -Infinity}', 1, "-Infinity where a value is expected"),
        ('{"a": True}', 1, "True where a value is expected: true is written in small letters"),
        ('{"a": 0x10}', 1, "0x10 where a value is expected"),
        ('{"a": 01}', 1, "01 where a value is expected"),
        ('{"a": 1e999}', 1, "a number that is too large"),
        ('{\n"a": 1\n"b": 2}', 3, '" where a comma or } is expected: the comma in front of it is missing'),
        ('{"a" 1}', 1, "1 where a colon behind the key a is expected"),
        ("{a: 1}", 1, "a where a key in double quotes is expected"),
        ('{"a": "x\n"}', 1, "a line break in a text: its closing quote is missing, or it should be an escape"),
        ('{"a": "C:\\dir"}', 1, "\\d is no escape of JSON; a backslash is written twice"),
        ('{\n"a": "x}', 2, "the closing quote of a text is missing"),
        ('{\n"a": {', 2, "it ends where a key in double quotes is expected: a closing bracket or quote is missing"),
        ('{"a": 1}\n}', 2, "} where nothing more is expected: more text behind the end of the configuration"),
        ('\n["a"]', 2, "the configuration is no object, which has braces around it"),
        ("null", 1, "the configuration is no object, which has braces around it"),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", 1, "more than 100 objects and lists inside each other"),
    ],
)
def test_what_is_no_json_is_refused_with_line_and_cause(text: str, line: int, cause: str) -> None:
    with pytest.raises(CdiError) as caught:
        json_edit.loads(text, "daemon.json")
    finding = caught.value.findings[0]
    assert finding.id == "ENGINE_CONFIG_SYNTAX"
    assert str(finding) == f"daemon.json:{line}: it is not valid JSON: {cause}"


def test_of_a_key_that_is_there_twice_the_remedy_says_that_the_engine_does_not_mind() -> None:
    with pytest.raises(CdiError) as caught:
        json_edit.loads('{"a": 1, "a": 1}')
    assert caught.value.findings[0].remedy.startswith("merge the two, or remove one: the engine takes it")


@pytest.mark.parametrize("text", ["", " \r\n\t", "{}"])
def test_a_blank_text_means_the_same_as_an_empty_object(text: str) -> None:
    assert json_edit.loads(text) == {}
    assert json_edit.line_of(text, ("a",)) == 0


def test_half_of_a_surrogate_pair_is_what_go_makes_of_it() -> None:
    assert json_edit.loads('{"a": "x\\ud800y\\ud83d\\ude00"}') == {"a": "x\ufffdy\U0001f600"}


def test_the_line_of_a_key() -> None:
    text = '{\n "a": {"x": 1,\n  "y": 2},\n "b":\n   3}'
    assert [json_edit.line_of(text, keys) for keys in [("a",), ("a", "y"), ("b",), ("c",), ("a", "y", "z")]] == [
        2, 3, 4, 0, 0,
    ]  # fmt: skip


# --- for all texts ----------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "c.d", "runtimes", '\u00e4"\\', ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
BLANKS = st.sampled_from(["", " ", "\n", "\n  ", "\n\t", "\r\n    ", "\n\n"])


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value as somebody might write it: any blanks between any two parts."""

    def blank() -> str:
        return draw(BLANKS)

    def text(one: Any) -> str:
        if isinstance(one, dict):
            parts = [
                f"{blank()}{json.dumps(key)}{blank()}:{blank()}{text(inner)}{blank()}" for key, inner in one.items()
            ]
            return "{" + (",".join(parts) or blank()) + "}"
        if isinstance(one, list):
            return "[" + (",".join(f"{blank()}{text(inner)}{blank()}" for inner in one) or blank()) + "]"
        return json.dumps(one, ensure_ascii=draw(st.booleans()))

    return blank() + text(value) + blank()


OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)


@given(OBJECTS.flatmap(written), PATHS, VALUES)
def test_put_sets_exactly_that_value(text: str, keys: tuple[str, ...], value: Any) -> None:
    before = json.loads(text)
    assert values.same(json_edit.loads(text), before)
    try:
        after = json_edit.loads(json_edit.put(text, keys, value))
    except CdiError as error:
        assert error.findings[0].id == "ENGINE_CONFIG_SHAPE"
        return
    here = before
    for key in keys[:-1]:
        here = here.setdefault(key, {})
    here[keys[-1]] = value
    assert values.same(after, before)


@given(OBJECTS.flatmap(written), PATHS, VALUES)
def test_what_is_put_where_nothing_was_can_be_taken_out_without_a_trace(
    text: str, keys: tuple[str, ...], value: Any
) -> None:
    meaning: Any = json.loads(text)
    absent = 0  # how many of the keys are there
    for key in keys:
        if not isinstance(meaning, dict):
            return
        if key not in meaning:
            break
        meaning, absent = meaning[key], absent + 1
    if absent == len(keys):
        return
    assert json_edit.drop(json_edit.put(text, keys, value), keys[: absent + 1]) == text


@given(OBJECTS.flatmap(written), PATHS, VALUES)
def test_putting_twice_is_putting_once(text: str, keys: tuple[str, ...], value: Any) -> None:
    try:
        once = json_edit.put(text, keys, value)
    except CdiError:
        return
    assert json_edit.put(once, keys, value) == once


@given(st.text(alphabet="{}[]\",:\\/*#\n \ufeff'0a-tru", max_size=30))
def test_what_is_json_is_so_for_the_standard_reader_too(text: str) -> None:
    try:
        valid = isinstance(json.loads(text), dict)
    except ValueError:
        valid = not text.strip(" \t\r\n")
    try:
        json_edit.loads(text)
        taken = True
    except CdiError as error:
        taken = "is there twice" in str(error)
    assert taken == valid
