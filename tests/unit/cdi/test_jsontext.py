"""JSON text: the fast way and the YAML way give the same document for every text that both take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.cdi import jsontext, spec
from shim.cdi.decode import Decoder
from shim.cdi.yamltext import Document

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors" / "specs.json"


def fast(text: bytes) -> dict[str, Any] | None:
    """The document by the fast way; None when it leaves the text to the YAML reader."""
    try:
        value = jsontext.load(text)
    except jsontext.NotStrict:
        return None
    decoder = Decoder(json=True)
    document = decoder.document(value)
    return document if not decoder.faults and decoder.members == jsontext.members(text) else None


def slow(text: bytes) -> dict[str, Any]:
    """The document by the YAML reader, which must take what the fast way takes."""
    read = Document(text)
    assert [(fault.text, fault.line) for fault in read.faults] == []
    decoder = Decoder()
    document = decoder.document(read.value)
    assert [(fault.path, fault.text) for fault in decoder.faults] == []
    return document


NAMES = st.text(max_size=6) | st.sampled_from(["a", '"', '":', "\\", "/", "\n", "\x7f", "x" * 1100, "\u2028", "0", "y"])
TEXTS = NAMES | st.integers(-(2**66), 2**66) | st.floats(allow_nan=False) | st.booleans() | st.none()
NUMBERS = st.integers(-5, 2**33) | st.floats(allow_nan=False, allow_infinity=False) | st.none()
LISTS = st.lists(TEXTS, max_size=3) | st.none()
EDITS = st.fixed_dictionaries(
    {},
    optional={
        "env": LISTS,
        "deviceNodes": st.lists(
            st.fixed_dictionaries({"path": TEXTS}, optional={"major": NUMBERS, "uid": NUMBERS, "type": TEXTS}),
            max_size=2,
        ),
        "hooks": st.lists(st.fixed_dictionaries({}, optional={"args": LISTS, "timeout": NUMBERS}), max_size=2),
        "mounts": st.lists(st.fixed_dictionaries({"hostPath": TEXTS}, optional={"options": LISTS}), max_size=2),
        "intelRdt": st.fixed_dictionaries({}, optional={"schemata": LISTS, "enableMonitoring": st.booleans()}),
        "additionalGids": st.lists(NUMBERS, max_size=3),
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {"cdiVersion": TEXTS, "kind": TEXTS},
    optional={
        "annotations": st.dictionaries(NAMES, TEXTS, max_size=3) | st.none(),
        "containerEdits": EDITS,
        "devices": st.lists(st.fixed_dictionaries({"name": TEXTS, "containerEdits": EDITS}), max_size=3),
    },
)


@given(
    DOCUMENTS,
    st.booleans(),
    st.sampled_from([None, 0, 2, "\t"]),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]),
)
def test_both_ways_give_the_same_document(
    document: Any, plain: bool, indent: int | str | None, separators: tuple[str, str]
) -> None:
    text = json.dumps(document, ensure_ascii=plain, indent=indent, separators=separators).encode("utf-8", "replace")
    found = fast(text)
    if found is not None:
        assert json.dumps(found) == json.dumps(slow(text))


@given(st.data())
def test_both_ways_agree_on_mutated_texts(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SPECS))
    at = data.draw(st.integers(0, len(text)))
    piece = data.draw(
        st.sampled_from([b"", b'"', b" ", b"\t", b"\n", b",", b":", b"{}", b"null", b"1e999", b"\\", b"-", b"0"])
    )
    text = text[:at] + piece + text[at + data.draw(st.integers(0, 2)) :]
    found = fast(text)
    if found is not None:
        assert json.dumps(found) == json.dumps(slow(text))


SPECS = [
    case["input"]["text"].encode()
    for case in json.loads(VECTORS.read_text())["cases"]
    if case["input"].get("text", "").startswith("{") and len(case["input"]["text"]) < 1500
]
GOOD = b'{"cdiVersion":"1.1.0","kind":"a/b","devices":[{"name":"d","containerEdits":{"env":["A=1"]}}]}'


def test_most_json_specs_take_the_fast_way() -> None:
    assert fast(GOOD) == slow(GOOD)
    assert sum(fast(text) is not None for text in SPECS) > len(SPECS) / 3


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((b"A=1", b"A=\\/"), "an escape that YAML has not"),
        ((b"A=1", b"A=\\ud83d\\ude00"), "a pair of escapes"),
        ((b"A=1", b"A=\xc3\xa9"), "a letter beyond ASCII, some of which YAML folds or refuses"),
        ((b"A=1", b"A=\x7f"), "a control character that JSON allows"),
        ((b'"kind":', b'"kind" :'), "a blank before the colon, of which there may be too many"),
        ((b'"kind":', b'"kind"\n:'), "a colon on another line"),
        ((b'{"cdi', b'\t{"cdi'), "a tab before the first brace"),
        ((b']}}]}', b']}}]}\n\t\n'), "a tab behind the last brace"),
        ((b'"kind":', b'"kind":"a/b","kind":'), "a key that stands twice"),
        ((b'"d"', b"1" + b"0" * 30), "a number beyond 64 bits where text is wanted"),
        ((b'"d"', b"1e999"), "a number that overflows, which YAML reads as text"),
        ((b"A=1", b'A=\\":'), "what looks like one more key"),
        ((b'"kind":', b'"annotations":{"%s":""},"kind":' % (b"k" * 1022)), "a key that is too long for YAML"),
    ],
)  # fmt: skip
def test_what_yaml_reads_otherwise_is_left_to_it(change: tuple[bytes, bytes], why: str) -> None:
    assert GOOD.replace(*change) != GOOD, why
    assert fast(GOOD.replace(*change)) is None, why


def test_a_json_spec_is_read_without_yaml_and_re() -> None:
    code = (
        "import sys; before = set(sys.modules); from shim.cdi import spec; spec.parse(sys.argv[1].encode());"
        "print(*sorted(set(sys.modules) - before))"
    )
    # -I -S as the create path runs; the package's directory is handed over, since site is off
    modules = str(Path(spec.__file__).parent.parent.parent)
    run = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {modules!r}); {code}", GOOD.decode()]
    loaded = set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    assert "shim.cdi.spec" in loaded
    assert not loaded & {"yaml", "re", "json", "enum", "typing", "collections", "functools", "shim.cdi.yamltext"}
