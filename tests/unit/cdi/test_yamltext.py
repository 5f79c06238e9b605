"""YAML text: where PyYAML and the reference differ, the reference is followed; lines are found again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shim.cdi.yamltext import MAX_DEPTH, Document


def read(text: str | bytes) -> Any:
    document = Document(text.encode() if isinstance(text, str) else text)
    assert [fault.text for fault in document.faults] == []
    return document.value


def rules(text: str | bytes) -> list[tuple[str, int]]:
    document = Document(text.encode() if isinstance(text, str) else text)
    return [(fault.rule, fault.line) for fault in document.faults]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("---\n", None),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("a: &x {p: 1}\nb: {<<: *x, q: 2}\n", {"a": {"p": 1}, "b": {"p": 1, "q": 2}}),
        ("a: {<<: {p: 1}, <<: {q: 2}}\n", {"a": {"p": 1, "q": 2}}),
        ("a: {<<: [{p: 1}, {q: 2}]}\n", {"a": {"p": 1, "q": 2}}),
        ("a: <<\nb: =\n", {"a": "<<", "b": "="}),
        ("'<<': 1\n", {"<<": 1}),
        ("!!merge <<: {a: 1}\n", {"a": 1}),
        ("{1: a, true: b, 1.5: c, .inf: d, 0x10: e}", {"1": "a", "true": "b", "1.5": "c", ".inf": "d", "16": "e"}),
        ("a: !local 5\nb: !!python/name:os.system\nc: ! 5\nd: !!str 5\n", {"a": "5", "b": "", "c": "5", "d": "5"}),
        ("a: !!float 5\nb: !!int '010'\nc: !!null ''\nd: !!bool 'on'", {"a": 5.0, "b": 8, "c": None, "d": True}),
        ("a: !!timestamp 2001-01-01\nb: 2001-01-01", {"a": "2001-01-01", "b": "2001-01-01"}),
        ("a: !!binary dzA=\nb: !!binary /w==", {"a": "w0", "b": "\ufffd"}),
        ("a: !!omap [b: 1]", {"a": [{"b": 1}]}),
        ("\ufeffa: 1", {"a": 1}),
        ("a: 1\n\ufeffb: \ufeff2", {"a": 1, "\ufeffb": "\ufeff2"}),
        ("a: 1".encode("utf-16"), {"a": 1}),
        (b"\xfe\xff" + "a: 1".encode("utf-16-be"), {"a": 1}),
        ("a: 1\x85b: 2\u2028c: 3\rd: 4\r\n", {"a": 1, "b": 2, "c": 3, "d": 4}),
        ('a: "\\\\/"', {"a": "\\/"}),  # an escaped backslash and a slash
        ("a: '\\/'", {"a": "\\/"}),
        ("a: \\/", {"a": "\\/"}),
        ("%YAML 1.1\n---\na: 1", {"a": 1}),
        ("a: 1\n---\n---\n", {"a": 1}),
    ],
)
def test_a_text_is_read_as_the_reference_reads_it(text: str | bytes, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1\nb: 2\na: 3\nb: 4\n", [("duplicate-key", 3), ("duplicate-key", 4)]),
        ("{1: a, 0x1: b}", [("duplicate-key", 1)]),
        ("{1: a, '1': b}", [("duplicate-key", 1)]),
        ("a: &x {p: 1}\nb:\n  p: 2\n  <<: *x\n", [("duplicate-key", 4)]),
        ("a: &x {p: 1}\nb:\n  <<: *x\n  p: 2\n", [("duplicate-key", 4)]),
        ("a: &x {p: 1}\nb: {<<: [*x, *x]}\n", [("duplicate-key", 2)]),
        ("<<: x\n", [("yaml-syntax", 1)]),
        ("<<: [{a: 1}, x]\n", [("yaml-syntax", 1)]),
        ("a: &x\n  <<: *x\n", [("yaml-syntax", 2)]),
        ("a: &x [[*x]]\n", [("yaml-syntax", 1)]),
        ("a: *x\n", [("yaml-syntax", 1)]),
        ("~: 1\n[a]: 2\n", [("bad-map-key", 2), ("bad-map-key", 1)]),  # a list is refused while decoding, null later
        ("18446744073709551615: 1\n", [("bad-map-key", 1)]),
        ("%YAML 1.2\n---\na: 1\n", [("yaml-syntax", 1)]),
        ('a:\n- "\\/"\n', [("yaml-syntax", 2)]),
        ('a: "\\\\\\/"', [("yaml-syntax", 1)]),
        ("a: !!binary '*'", [("yaml-syntax", 1)]),
        ("a: !!int x\nb: !!bool 1\n", [("yaml-syntax", 1), ("yaml-syntax", 2)]),
        ("a: !!float 18446744073709551615\n", [("yaml-syntax", 1)]),
        ("a: !!timestamp x\n", [("yaml-syntax", 1)]),
        (b"\xff\xfea\0\x00\xd8", [("yaml-syntax", 1)]),
        ("a: 1\n---\nb: 2\n", [("trailing-text", 3)]),
        ("a: 1\n...\n[\n", [("trailing-text", 3)]),
        ("a: 1\na: 2\n---\nb: 2\n", [("duplicate-key", 2), ("trailing-text", 4)]),
        ("a: 1\na: 2\nb: [\n", [("yaml-syntax", 4), ("duplicate-key", 2)]),
    ],
)
def test_faults_come_in_the_order_of_the_reference_each_with_its_line(
    text: str | bytes, found: list[tuple[str, int]]
) -> None:
    assert rules(text) == found


def test_nesting_is_limited() -> None:
    depth = MAX_DEPTH - 1
    value = read("a: " + "[" * depth + "]" * depth)["a"]
    for _ in range(depth - 1):
        [value] = value
    assert value == []
    assert rules("a: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)) == [("yaml-syntax", 1)]


def test_the_line_of_a_field_is_found_through_aliases_and_merges() -> None:
    text = b"""\
one: &a
  p: 1
  q: [x,
      y]
two: *a
three:
  <<: *a
  r: 3
"""
    document = Document(text)
    for place, line in {
        (): 1, ("one",): 1, ("one", "q", 1): 4, ("two", "p"): 2, ("three", "r"): 8, ("three", "p"): 2,
        ("THREE", "R"): 8, ("three", "none"): 6, ("none",): 1, ("two",): 5,
    }.items():  # fmt: skip
        assert document.locate(place) == line, place


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans(), st.booleans())
def test_what_a_yaml_writer_quotes_is_read_back(value: Any, unicode: bool, flow: bool) -> None:
    """Quoted, since PyYAML leaves texts plain that are a boolean or number to the reference, for example `y`."""
    text = yaml.dump({"v": value}, Dumper=Quoting, allow_unicode=unicode, default_flow_style=flow)
    assert read(text) == {"v": value}


class Quoting(yaml.SafeDumper):
    """PyYAML's writer with every text in quotes."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
