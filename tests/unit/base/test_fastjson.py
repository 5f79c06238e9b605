"""The JSON reader and writer of the create path, against `json`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shim.base import fastjson

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_json_itself_stays_unloaded_because_the_scanner_in_c_is_there() -> None:
    assert type(fastjson._scanner(fastjson._Context(None))).__module__ == "_json"


@given(VALUES)
def test_texts_are_read_as_json_reads_them(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=3, ensure_ascii=False), f" \n\t{json.dumps(value)}\r\n"):
        assert fastjson.loads(text) == json.loads(text)


@given(VALUES)
def test_values_are_written_as_json_writes_them(value: Any) -> None:
    assert fastjson.dumps(value) == json.dumps(value, separators=(",", ":"))


@example("1E310")
@given(st.text(alphabet='{}[]",:0123456789eE+-.truefalsn\\u \n'))
def test_what_json_refuses_is_refused_and_the_rest_is_equal(text: str) -> None:
    def finite(number: str) -> float:
        value = float(number)
        if value in {float("inf"), float("-inf")}:
            raise ValueError(number)  # it could not be written again
        return value

    try:
        wanted = json.loads(text, parse_float=finite)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            fastjson.loads(text)
    else:
        assert fastjson.loads(text) == wanted


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}'])
def test_constants_that_only_python_knows_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        fastjson.loads(text)


def test_nesting_without_end_is_an_error_and_no_crash() -> None:
    with pytest.raises(ValueError, match="too deep"):
        fastjson.loads("[" * 1_000_000)
    deep: list[Any] = []
    for _ in range(1_000_000):  # Python 3.14 writes 20,000, as long as the stack lasts
        deep = [deep]
    with pytest.raises(ValueError, match="too deep"):
        fastjson.dumps(deep)


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        fastjson.dumps({"a": {1}})
    with pytest.raises(ValueError, match=r"."):
        fastjson.dumps(float("nan"))


def test_a_wrong_text_is_an_error_where_json_was_never_loaded(modules: Path) -> None:
    """A create refused a cut config.json with "SystemError: returned NULL without setting an exception"."""
    script = f"import sys; sys.path.insert(0, {str(modules)!r}); from shim.base.fastjson import loads; loads('{{')"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert "Expecting property name" in done.stderr


@pytest.mark.parametrize(
    ("text", "value", "replaced"),
    [
        ('{"a": 1, "b": 2}', {"a": 1, "b": 2}, []),
        ('{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}, [("a", 1)]),
        ('{"a": 1, "b": 2, "a": 3, "b": 4, "a": 5}', {"a": 5, "b": 4}, [("a", 1), ("b", 2), ("a", 3)]),
        ('[{"a": {"c": 1, "c": 2}}, {"b": 1, "b": 2}]', [{"a": {"c": 2}}, {"b": 2}], [("c", 1), ("b", 1)]),
        ('{"": 1, "": 2}', {"": 2}, [("", 1)]),  # the first such name was returned, and "" meant none
        ('{"a": 1, "A": 2}', {"a": 1, "A": 2}, []),
    ],
)
def test_a_name_that_stands_twice_in_an_object_is_noticed(text: str, value: object, replaced: object) -> None:
    assert fastjson.loads_noting(text) == (value, replaced)


def test_a_name_that_stands_twice_among_many_is_found_by_one_look_at_each() -> None:
    """Each name was counted in the list of all: with 60,000 members it took half a minute."""
    members = ", ".join(f'"m{number}": 0' for number in range(60_000))
    assert fastjson.loads_noting(f'{{{members}, "m59999": 1}}')[1] == [("m59999", 0)]
