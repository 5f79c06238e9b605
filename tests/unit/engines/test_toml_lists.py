"""Lists that are written on several lines: items come and go, and every other line stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.engines.model import Add, Edit
from shim.engines.texts import editing, json_edit, toml_edit, toml_lists

# a list as it is written, and what becomes of it with "new" behind its items
LISTS = {
    "a comment behind an item": (
        'imports = [\n  "a", # the first\n  "b" # and ours, "c"\n]\n',
        'imports = [\n  "a", # the first\n  "b", # and ours, "c"\n  "new"\n]\n',
    ),
    "a comma behind the last": (
        'imports = [\n    "a",\n    # between\n    "b",  # last\n    # behind\n]  # end\nx = 1\n',
        'imports = [\n    "a",\n    # between\n    "b",  # last\n    "new",\n    # behind\n]  # end\nx = 1\n',
    ),
    "the bracket behind the last": (
        'imports = ["a", # the first\n  "b"]\n',
        'imports = ["a", # the first\n  "b", "new"]\n',
    ),
    "a comma and the bracket behind the last": ('imports = [\n"a",]\n', 'imports = [\n"a", "new"]\n'),
    "the first beside the bracket": ('imports = ["a",\n]\n', 'imports = ["a",\n  "new",\n]\n'),
    "no item, and a comment": ("imports = [\n  # none\n]\n", 'imports = [\n  # none\n  "new"\n]\n'),
    "texts with brackets and commas": (
        'imports = [\n  \'a]#,\',\n  """b\n]""",\n]\n',
        'imports = [\n  \'a]#,\',\n  """b\n]""",\n  "new",\n]\n',
    ),
    "ends of lines of Windows": ('imports = [\r\n  "a"\r\n]\r\n', 'imports = [\r\n  "a",\r\n  "new"\r\n]\r\n'),
    "tabulators": ('imports = [ # why\n\t"a",\n]\n', 'imports = [ # why\n\t"a",\n\t"new",\n]\n'),
}
EDIT = Edit("/x", "toml", (Add(("imports",), ("new",)),))


@pytest.mark.parametrize(("text", "expected"), LISTS.values(), ids=LISTS)
def test_c12_an_item_comes_into_a_list_as_it_stands(text: str, expected: str) -> None:
    """A list of imports on several lines became one line, and the comments in it were gone."""
    after = editing.apply([EDIT], {"/x": text.encode()})["/x"].decode()
    assert after == expected
    assert editing.revert([EDIT], after.encode(), text.encode()) == text.encode()


def test_c12_what_was_added_since_stays_with_its_comments() -> None:
    """Taking ours back out of a list that the administrator had changed since put it on one line, too."""
    text = 'imports = [\n  "a", # the first\n  "b" # and ours\n]\n'
    after = editing.apply([EDIT], {"/x": text.encode()})["/x"].decode()
    changed = after.replace("[\n", '[\n  "site", # theirs\n')
    back = editing.revert([EDIT], changed.encode(), text.encode())
    assert back == text.replace("[\n", '[\n  "site", # theirs\n').encode()


THREE = 'k = [\n  "a", # 1\n  "b", # 2\n  "c" # 3\n]\n'


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (["a", "c"], 'k = [\n  "a", # 1\n  "c" # 3\n]\n'),
        (["b"], 'k = [\n  "b" # 2\n]\n'),
        (["a"], 'k = [\n  "a" # 1\n]\n'),
        (["b", "c", "d"], 'k = [\n  "b", # 2\n  "c", # 3\n  "d"\n]\n'),
        (["c", "a"], 'k = [\n  "c", # 3\n  "a"\n]\n'),
        ([], "k = [\n]\n"),
    ],
)
def test_c12_items_go_with_their_lines(new: list[str], expected: str) -> None:
    assert toml_edit.put(THREE, ("k",), [*new]) == expected
    assert toml_edit.loads(expected) == {"k": new}


@pytest.mark.parametrize(
    "text", ['k = [\n  "a", "b",\n  "c"]\n', 'k = ["a",\n  "b", "c",\n]\n', 'k = [\n["a"], {x = ["b"]},\n3]\n']
)
def test_c12_whatever_goes_the_rest_is_the_same(text: str) -> None:
    items = toml_edit.loads(text)["k"]
    assert isinstance(items, list)
    for number in range(len(items)):
        rest = [*items[:number], *items[number + 1 :]]
        assert toml_edit.loads(toml_edit.put(text, ("k",), rest)) == {"k": rest}
        assert "\n" in toml_edit.put(text, ("k",), rest).rstrip()


ITEMS = st.sampled_from(['"a"', "'b]#,'", '"""c\n,]"""', "[1, 2]", '{x = ["y"]}', "3"])
GAPS = st.sampled_from([", ", ",\n  ", ", # c, ]\n  ", "\n  , ", " # d\n , "])
BEGINS = st.sampled_from(["", " ", "\n  ", " # e\n"])
ENDS = st.sampled_from(["", ",", " # f\n", ",\n", "\n", ", # g\n"])


@given(st.lists(st.tuples(ITEMS, GAPS), max_size=4), BEGINS, ENDS, st.data())
def test_c12_whatever_the_form_the_list_means_what_it_should(
    written: list[tuple[str, str]], begin: str, end: str, data: st.DataObject
) -> None:
    """A list without items, whose bracket is on the line of its key, lost its text."""
    inner = "".join(item + gap for item, gap in written[:-1]) + "".join(item + end for item, _ in written[-1:])
    text = f"k = [{begin}{inner}]  # h\nz = 1\n"
    items = toml_edit.loads(text)["k"]
    assert isinstance(items, list)
    kept = [item for item in items if data.draw(st.booleans())]
    new = [*kept, *data.draw(st.lists(st.sampled_from(["n", "m"]), max_size=2))]
    after = toml_lists.edited(text, text.index("["), items, new, json.dumps)
    assert toml_edit.loads(after) == {"k": new, "z": 1}


@pytest.mark.parametrize(
    "text", ['{\n  "k": [\n    "a",\n    "b"\n  ],\n  "x": 1\n}\n', '{"x": {\r\n\t"y": 1\r\n}, "k": ["a", "b"]}\n']
)
def test_c12_a_list_of_json_keeps_its_form(text: str) -> None:
    """dockerd's cdi-spec-dirs on several lines became one, too."""
    after = json_edit.put(text, ("k",), ["a", "b", "c"])
    assert after == text.replace('"b"\n', '"b",\n    "c"\n').replace('"b"]', '"b", "c"]')
    assert json_edit.put(after, ("k",), ["a", "b"]) == text
