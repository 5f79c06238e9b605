"""Single keys of a TOML text change, every other byte stays, and a form that does not allow it is refused."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from shim.base.findings import CdiError
from shim.engines.texts import toml_edit, values

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RUNTIME = {"runtime_type": "io.containerd.runc.v2", "options": {"BinaryName": "/usr/local/bin/shim"}}
CONTAINERD = ("plugins", "io.containerd.grpc.v1.cri", "containerd", "runtimes", "shim")
OURS = (
    '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.shim]\n  runtime_type = "io.containerd.runc.v2"\n'
    '  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.shim.options]\n    BinaryName = "/usr/local/bin/shim"\n'
)
RUNC = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\nSystemdCgroup = true\n'


@pytest.mark.parametrize(
    ("before", "keys", "value", "after"),
    [
        ("", CONTAINERD, RUNTIME, OURS),
        (f"{RUNC}\n[debug]\n", CONTAINERD, RUNTIME, f"{RUNC}\n{OURS}\n[debug]\n"),
        (f"{RUNC}# BinaryName = ''\n\n[debug]\n", CONTAINERD, RUNTIME,
         f"{RUNC}# BinaryName = ''\n\n{OURS}\n[debug]\n"),
        (f"{RUNC}# of debug\n[debug]\n", CONTAINERD, RUNTIME, f"{RUNC}\n{OURS}# of debug\n[debug]\n"),
        ("a.b = 1\nc = 2\n[z]\n", ("a", "t"), {"x": 1}, "a.b = 1\nc = 2\n\n[a.t]\n  x = 1\n[z]\n"),
        ("x = 1\n\n\n", ("t",), {"a": 1}, "x = 1\n\n[t]\n  a = 1\n\n\n"),
        ("x = 1", ("t",), {"a": 1}, "x = 1\n\n[t]\n  a = 1"),
        ("[t]\r\n  a = 1\r\n", ("t", "b"), ["x"], '[t]\r\n  a = 1\r\n  b = ["x"]\r\n'),
        ("\ufeff[t]\n", ("version",), 2, "\ufeffversion = 2\n[t]\n"),
        ("# our head\n", ("version",), 2, "# our head\nversion = 2\n"),
        ("# what t is for\n[t]\n", ("version",), 2, "version = 2\n# what t is for\n[t]\n"),
        ("a = 'x' # why\n", ("a",), "y", 'a = "y" # why\n'),
        ("[t]\na = [ # why\n 1,\n]\n# end\n", ("t", "a"), [], "[t]\na = [ # why\n]\n# end\n"),
    ],
    ids=[
        "a missing file",
        "a table behind its neighbours",
        "a comment behind the last key belongs to that table",
        "a comment in front of a header belongs to what follows",
        "never between the keys of another table",
        "in front of the empty lines at the end",
        "no line break at the end stays so",
        "line breaks of Windows",
        "behind a byte order mark",
        "behind a text of comments alone",
        "a key outside of tables comes before the first header and its comment",
        "the comment behind a value stays",
        "a list over several lines keeps its lines",
    ],
)  # fmt: skip
def test_a_key_is_put_where_a_person_would(before: str, keys: tuple[str, ...], value: Any, after: str) -> None:
    assert toml_edit.put(before, keys, value) == after


@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        ("a = { b = 1 }\n", ("a", "c"), 2),
        ("[[a]]\nb = 1\n", ("a", "c"), 2),
        ("a = 1\n", ("a", "c"), 2),
        ("a = [{ b = 1 }]\n", ("a", "c"), {"x": 1}),
    ],
)
def test_a_form_to_which_nothing_can_be_added_is_refused(text: str, keys: tuple[str, ...], value: Any) -> None:
    with pytest.raises(CdiError) as caught:
        toml_edit.put(text, keys, value, "config.toml")
    assert [finding.id for finding in caught.value.findings] == ["ENGINE_CONFIG_SHAPE"]
    assert str(caught.value).startswith("config.toml: a.c cannot be set: ")


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("a = 1\nb = = 2\n", 2, "Invalid value"),
        ("a = 1\na = 2\n", 2, "Cannot overwrite a value"),
        ("a = 1\n[t\n", 2, "Expected ']' at the end of a table declaration"),
        ('a = 1\nb = """x\n', 3, "Unterminated string"),
    ],
)
def test_what_is_no_toml_is_refused_with_its_line(text: str, line: int, cause: str) -> None:
    with pytest.raises(CdiError) as caught:
        toml_edit.loads(text, "config.toml")
    assert caught.value.findings[0].id == "ENGINE_CONFIG_SYNTAX"
    assert str(caught.value) == f"config.toml:{line}: it is not valid TOML: {cause}"


def test_a_header_that_nothing_needs_goes_and_others_stay() -> None:
    text = "[a.b]\nx = 1\n\n[a]\n\n[c]\ny = 1\n"
    assert toml_edit.drop_header(text, ("a",)) == "[a.b]\nx = 1\n\n[c]\ny = 1\n"
    assert toml_edit.drop_header(text, ("c",)) == text


def test_how_a_value_is_written() -> None:
    text = "[t]\na = 'x' # why\nb = [\n 1, # one\n]\n"
    assert toml_edit.written(text, ("t", "a")) == "'x'"
    assert toml_edit.written(text, ("t", "b")) == "[\n 1, # one\n]"
    assert toml_edit.written(text, ("t",)) == ""
    assert toml_edit.put(text, ("t", "a"), "y", written="'y'") == text.replace("'x'", "'y'")


# --- for all texts ----------------------------------------------------------------------------------------------------

PARTS = ["a", "b", '"x.y"', "'q r'", '"#"', '"[z]"']
NAMES = {"a": "a", "b": "b", '"x.y"': "x.y", "'q r'": "q r", '"#"': "#", '"[z]"': "[z]"}
LITERALS = [
    "1",
    "true",
    "1979-05-27T07:32:00Z",
    '"x"',
    '"a # no comment [x] = \\" {"',
    "'it # is [x] = {'",
    '"""one\n[no.header]\nb = 1 # no comment ""\n"""',
    "'''one\n[no.header]''\n'''",
    '""""quoted""""',
    "[]",
    "[ 1, 2 ]",
    '[\n  "x", # ] a comment with [\n\n  "y",\n]',
    '[ "]", [ "#" ] ]',
    "{}",
    '{ a = 1, "x.y" = "}" }',
    "{ a.b = [\n 1,\n] }",
]
COMMENTS = ["", " # comment [x] = 1", "\t# \"'"]


@st.composite
def statements(draw: st.DrawFn) -> str:
    """One statement, comment or empty line, in any form that people use."""
    indent = draw(st.sampled_from(["", "", "  ", "\t"]))
    kind = draw(st.sampled_from(["header", "header", "array", "key", "key", "key", "comment", "empty"]))
    if kind == "comment":
        return f"{indent}# [a] b = 1\n"
    if kind == "empty":
        return f"{indent}\n"
    dot = draw(st.sampled_from([".", ".", " . "]))
    path = dot.join(draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3)))
    pad = draw(st.sampled_from(["", " "]))
    end = draw(st.sampled_from(COMMENTS))
    if kind == "header":
        return f"{indent}[{pad}{path}{pad}]{end}\n"
    if kind == "array":
        return f"{indent}[[{pad}{path}{pad}]]{end}\n"
    equals = draw(st.sampled_from([" = ", "=", "  =\t"]))
    return f"{indent}{path}{equals}{draw(st.sampled_from(LITERALS))}{end}\n"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A valid text; statements that would make it invalid are left out."""
    text = ""
    for one in draw(st.lists(statements(), max_size=12)):
        try:
            tomllib.loads(text + one)
        except ValueError:
            continue
        text += one
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    if draw(st.booleans()):
        shorter = text.rstrip("\r\n")
        try:
            tomllib.loads(shorter)
            text = shorter
        except ValueError:
            pass
    return draw(st.sampled_from(["", "", "\ufeff"])) + text


PATHS = st.lists(st.sampled_from(sorted(NAMES.values())), min_size=1, max_size=4).map(tuple)
SCALARS = st.sampled_from(["/usr/bin/x", 'q"\\\n', True, 7, ["a", "b"], []])
VALUES = (
    SCALARS
    | st.dictionaries(st.sampled_from(["a", "p.q"]), SCALARS, min_size=1, max_size=2)
    | st.just({"a": 1, "options": {"BinaryName": "x"}})
)


def _meaning(text: str) -> Any:
    return tomllib.loads(text.removeprefix("\ufeff"))


def _trimmed(value: Any, keys: tuple[str, ...]) -> Any:
    """Without empty tables on the way to a key: a header alone may stay."""
    if not keys or not isinstance(value, dict) or keys[0] not in value:
        return value
    inner = _trimmed(value[keys[0]], keys[1:])
    return {key: inner if key == keys[0] else one for key, one in value.items() if key != keys[0] or inner != {}}


def _lines_kept(old: str, new: str) -> bool:
    """Whether the lines of one text are all in the other, in their order."""
    rest = iter(new.splitlines())
    return all(any(line == other for other in rest) for line in old.splitlines())


def _put(text: str, keys: tuple[str, ...], value: Any) -> str | None:
    try:
        new = toml_edit.put(text, keys, value)
    except CdiError as error:
        assert error.findings[0].id == "ENGINE_CONFIG_SHAPE"
        event("refused")
        return None
    event("put")
    return new


def _absent(text: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The part of a path that leads to the first table or key that is missing; () when all is there."""
    here = _meaning(text)
    for number, key in enumerate(keys, 1):
        if not isinstance(here, dict):
            return ()
        if key not in here:
            return keys[:number]
        here = here[key]
    return ()


@settings(max_examples=300)
@given(texts(), PATHS, VALUES)
def test_put_sets_exactly_that_value_or_refuses(text: str, keys: tuple[str, ...], value: Any) -> None:
    new = _put(text, keys, value)
    if new is None:
        return
    expected = copy.deepcopy(_meaning(text))
    here = expected
    for key in keys[:-1]:
        here = here.setdefault(key, {})
    here[keys[-1]] = value
    assert values.same(_trimmed(_meaning(new), keys), _trimmed(expected, keys))
    assert toml_edit.put(new, keys, value) == new


@settings(max_examples=300)
@given(texts(), PATHS, VALUES)
def test_a_new_key_leaves_every_line_and_can_be_taken_out_without_a_trace(
    text: str, keys: tuple[str, ...], value: Any
) -> None:
    missing = _absent(text, keys)
    opened = dict(toml_edit.headers(text))
    if missing == keys and not isinstance(value, dict) and len(keys) > 1 and keys[:-1] not in opened:
        return  # the table was never opened and gets a header of its own: the edits take care of that
    new = _put(text, keys, value) if missing else None
    if new is None:
        return
    assert _lines_kept(text.removeprefix("\ufeff"), new.removeprefix("\ufeff"))
    assert toml_edit.drop(new, missing) == text


@settings(max_examples=300)
@given(texts(), PATHS)
def test_drop_takes_exactly_that_or_refuses(text: str, keys: tuple[str, ...]) -> None:
    try:
        new = toml_edit.drop(text, keys)
    except CdiError as error:
        assert error.findings[0].id == "ENGINE_CONFIG_SHAPE"
        return
    if new == text:
        assert values.get(_meaning(text), keys) is None
        return
    assert _lines_kept(new.removeprefix("\ufeff"), text.removeprefix("\ufeff"))
    expected = copy.deepcopy(_meaning(text))
    here = expected
    for key in keys[:-1]:
        here = here[key]
    del here[keys[-1]]
    assert values.same(_trimmed(_meaning(new), keys), _trimmed(expected, keys))


@settings(max_examples=300)
@given(texts(), PATHS)
def test_the_line_of_a_key_is_where_it_is_written(text: str, keys: tuple[str, ...]) -> None:
    line = toml_edit.line_of(text, keys)
    if not line:
        return
    written = text.removeprefix("\ufeff").splitlines()[line - 1]
    assert any(f in written for f, name in NAMES.items() if name == keys[-1])
    here = _meaning(text)
    for key in keys:
        here = here[-1] if isinstance(here, list) else here
        assert key in here or "[[" in text
        here = here.get(key, {})
