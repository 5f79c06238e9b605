"""The request scan never says "nothing" where Python's reader would find a request, and says it for real bundles."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from unit.native import calls

from shim.config.settings import Settings
from shim.hooks._core import ffi, lib

PREFIX = "cdi.k8s.io/"


def texts_of(config: bytes) -> list[str]:
    """Every string of a document that Python's reader takes, keys and values, however deep."""

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        for item in [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []:
            yield from walk(item)

    try:
        return list(walk(json.loads(config.decode("utf-8"))))
    except (ValueError, RecursionError):
        return []


def finds_request(config: bytes) -> bool:
    """A plain resolver: strict UTF-8, the standard JSON reader, any key with the prefix, however deep."""
    try:
        return _has_request(json.loads(config.decode("utf-8")))
    except (ValueError, RecursionError):
        return False


def _has_request(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key.startswith(PREFIX) or _has_request(item) for key, item in value.items())
    return isinstance(value, list) and any(_has_request(item) for item in value)


CASES: list[tuple[str, bytes, bool]] = [
    ("nothing", b"", False),
    ("an empty object", b"{}", False),
    ("an annotation", b'{"annotations":{"cdi.k8s.io/x":"a/b=c"}}', True),
    ("another annotation", b'{"annotations":{"k8s.io/cdi.":"a/b=c"}}', False),
    ("the key in a value errs towards Python", b'{"process":{"args":["echo","cdi.k8s.io/x"]}}', True),
    ("the key at the very end of a broken file", b'{"annotations":{"cdi.k8s.io/', True),
    ("the solidus has an escape of its own", b'{"cdi.k8s.io\\/x":""}', True),
    ("which counts wherever it stands", b'{"a":"b\\/c"}', True),
    ("a letter by its number", b'{"\\u0063di.k8s.io/x":""}', True),
    ("a solidus by its number in capitals", b'{"cdi.k8s.io\\u002Fx":""}', True),
    ("an escaped backslash is no escape", b'{"a":"\\\\u0063di"}', False),
    ("an escaped backslash in front of one", b'{"a":"\\\\\\u0063di"}', True),
    ("what Go escapes of itself", b'{"a":"\\u003c\\u003e\\u0026\\u2028\\u2029\\u0000\\u001b\\u007f"}', False),
    ("the same in capitals", b'{"a":"\\u003C\\u001B"}', False),
    ("short escapes", b'{"a":"\\" \\\\ \\b \\f \\n \\r \\t"}', False),
    ("a letter that no needle holds", b'{"a":"\\u0041"}', False),
    ("a surrogate pair", b'{"a":"\\ud83d\\ude00"}', False),
    ("four digits that are none count", b'{"a":"\\u00zz"}', True),
    ("so does an escape that is cut off", b'{"a":"\\u00', True),
    ("a backslash at the very end", b'{"a":"\\', False),
    ("bytes that are no text", b'\xff\xfe{"\x00c\x00d"}', False),
    ("a NUL in front hides nothing", b"\0cdi.k8s.io/", True),
]


@pytest.mark.parametrize(("config", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_bytes(config: bytes, expected: bool) -> None:
    assert calls.asks(config) is expected
    assert expected or not finds_request(config)


# needles, text, and what must come out
WITH_NEEDLES: list[tuple[str, list[str], str, bool]] = [
    ("no needle, no request", [], '{"cdi.k8s.io/x":"\\u00zz"}', False),
    ("one of several needles", ["cdi.k8s.io/", "GPUS", "/var/run/x"], '["GPUS=all"]', True),
    ("the last one, too", ["cdi.k8s.io/", "GPUS", "/var/run/x"], '["/var/run/x/0"]', True),
    ("none of several", ["cdi.k8s.io/", "GPUS"], '["GPU=all"]', False),
    ("the prefix is no needle by itself", ["GPUS"], '{"cdi.k8s.io/x":""}', False),
    ("a letter of the needle by its number", ["GPUS"], '["\\u0047PUS"]', True),
    ("a letter of another alphabet is nothing special", ["GPUS"], '["\\u0063di.k8s.io\\/"]', False),
    ("a solidus counts only where a needle has one", ["/x"], '["a\\/b"]', True),
    ("a quotation mark in a needle", ['a"b'], '["a\\"b"]', True),
    ("which is common where none is", ["ab"], '["a\\"b"]', False),
    ("a backslash in a needle", ["a\\b"], '["a\\\\b"]', True),
    ("a tab in a needle", ["a\tb"], '["a\\tb"]', True),
    ("a tab in a needle by its number", ["a\tb"], '["a\\u0009b"]', True),
    ("another short escape is nothing to it", ["a\tb"], '["a\\nb"]', False),
    ("a needle beyond ASCII as it is", ["gerät"], '["gerät"]', True),
    ("and by its number", ["gerät"], '["ger\\u00e4t"]', True),
    ("and by a pair of surrogates", ["\U0001f600"], '["\\ud83d\\ude00"]', True),
    ("numbers beyond ASCII are nothing to other needles", ["GPUS"], '["\\u00e4\\ud83d\\ude00"]', False),
    ("< is escaped by Go", ["a<b"], '["a\\u003cb"]', True),
]


@pytest.mark.parametrize(
    ("needles", "text", "expected"), [c[1:] for c in WITH_NEEDLES], ids=[c[0] for c in WITH_NEEDLES]
)
def test_needles(needles: list[str], text: str, expected: bool) -> None:
    assert calls.asks(text.encode(), [needle.encode() for needle in needles]) is expected


def test_the_needle_without_a_configuration_is_the_annotation_prefix() -> None:
    assert Settings().needles() == (PREFIX,)
    for text in ("{}", PREFIX, '"a\\/b"', '"\\u0063"', '"\\u0041"'):
        assert calls.asks(text.encode()) == calls.asks(text.encode(), [PREFIX.encode()])


def test_the_built_in_needles_are_those_of_every_source() -> None:
    every = Settings()
    every.environment = every.mounts = "any"
    assert [ffi.unpack(one.text, one.size).decode() for one in lib.built_in_needles] == list(every.needles())


# --- keys that are nearly requests ----------------------------------------------------------------------------------

# needles, text, and whether Python is to look
NEAR: dict[str, tuple[list[str], str, bool]] = {
    "no slash": ([PREFIX], '{"cdi.k8s.io":"a/b=c"}', True),
    "another letter in the place of the slash": ([PREFIX], '{"cdi.k8s.io_x":"a/b=c"}', True),
    "capital letters": ([PREFIX], '{"CDI.k8s.io/x":"a/b=c"}', True),
    "the last letter of the text": ([PREFIX], "cdi.k8s.io", True),
    "one letter less": ([PREFIX], "cdi.k8s.i", False),
    "a text of the same points": ([PREFIX], "abc.k8s.io cdi.k7s.io cdi.k8s.ios.", True),
    "others alone": ([PREFIX], "abc.k8s.io cdi.k7s.io cdi.k8s..io .k8s.io di.k8s.io", False),
    "a NUL in front": ([PREFIX], "\0cdi.k8s.io", True),
    "a prefix of the configuration": (["GPUS", "x.example/y/"], '{"X.Example/Y_z":""}', True),
    "a prefix of letters alone": (["devices/"], '{"xDevices":""}', True),
    "a prefix of letters alone, in capitals": (["devices/"], '{"DEVICES":""}', True),
    "a name of a variable is none": (["GPUS"], '["gpus=all"]', False),
    "slashes alone": (["/", "//"], '["/"]', False),
    "no needle": ([], '{"cdi.k8s.io":"a/b=c"}', False),
    "nothing": ([PREFIX], "", False),
}


@pytest.mark.parametrize(("needles", "text", "expected"), NEAR.values(), ids=NEAR.keys())
def test_b14_python_never_saw_a_key_that_nearly_asks(needles: list[str], text: str, expected: bool) -> None:
    assert calls.nearly_asks(text.encode(), [needle.encode() for needle in needles]) is expected


@settings(max_examples=1000, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("aB.8/-"), min_size=1, max_size=4), max_size=3),
    st.text(st.sampled_from("aAbB.8/-_\0"), max_size=12),
)
def test_the_search_for_near_keys_does_what_the_plainest_does(needles: list[str], text: str) -> None:
    stems = [needle.rstrip("/").lower() for needle in needles if needle.endswith("/")]
    expected = any(stem and stem in text.lower() for stem in stems)
    assert calls.nearly_asks(text.encode(), [needle.encode() for needle in needles]) is expected


@pytest.mark.engine
def test_a_bundle_fresh_from_runc_asks_for_nothing(tmp_path: Path) -> None:
    subprocess.run(["runc", "spec"], cwd=tmp_path, check=True)
    text = (tmp_path / "config.json").read_bytes()
    assert not calls.asks(text)
    assert not calls.nearly_asks(text)


# --- mutated configurations ---------------------------------------------------------------------------------------

ESCAPES = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def spelled(text: str) -> st.SearchStrategy[str]:
    """JSON strings for the text, each character as itself or by one of its escapes, as one byte a character decides."""
    size = len(text)
    return st.binary(min_size=size, max_size=size).map(lambda choice: '"' + "".join(map(_spell, text, choice)) + '"')


def _spell(char: str, choice: int) -> str:
    units = char.encode("utf-16-be").hex()
    spellings = [char] * 6 if char >= " " and char not in '"\\' else []
    spellings += [ESCAPES[char]] if char in ESCAPES else []
    numbers = [units[at : at + 4] for at in range(0, len(units), 4)]
    spellings += ["".join(f"\\u{number}" for number in numbers), "".join(f"\\u{number.upper()}" for number in numbers)]
    return spellings[choice % len(spellings)]


KEYS = st.sampled_from(
    [
        PREFIX + "x",
        PREFIX,
        PREFIX + "über",
        "cdi.k8s.io",
        "annotations",
        "Annotations",
        "a/b",
        "\\u0063di.k8s.io/",
        "<&>",
        "\t",
    ]
)
SPACE = st.sampled_from(["", "", " ", "\n\t", "\r\n  "])


@st.composite
def documents(draw: st.DrawFn, depth: int = 3, keys: st.SearchStrategy[str] = KEYS) -> str:
    """JSON text: keys that ask and keys that do not, doubled, in any order, with any escapes and space, nested."""
    kind = draw(st.sampled_from(["object", "object", "array", "string", "number"] if depth else ["string", "number"]))
    if kind == "number":
        return draw(st.sampled_from(["0", "-1.5e3", "true", "null", "NaN"]))
    if kind == "string":
        return draw(keys.flatmap(spelled))
    items = []
    for _ in range(draw(st.integers(0, 3))):
        item = draw(SPACE) + draw(documents(depth - 1, keys)) + draw(SPACE)
        items.append(draw(SPACE) + draw(keys.flatmap(spelled)) + draw(SPACE) + ":" + item if kind == "object" else item)
    opening, closing = "{}" if kind == "object" else "[]"
    return opening + ",".join(items) + closing


@st.composite
def mutated(draw: st.DrawFn, keys: st.SearchStrategy[str] = KEYS) -> bytes:
    """Bytes of such a document, perhaps with a byte order mark, in another encoding, or damaged somewhere."""
    text = draw(documents(keys=keys))
    data = draw(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"])) + text.encode(
        draw(st.sampled_from(["utf-8"] * 4 + ["utf-16-le"]))
    )
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data)))
        new = draw(st.sampled_from([b"", b"\\", b'"', b"\xff", b"u", b"/", b"\0", b"}"]))
        data = data[:at] + new + data[at + draw(st.integers(0, 1)) :]
    return data


@settings(max_examples=2000, deadline=None)
@given(mutated())
@example(b'{"annotations":{"cdi.k8s.io\\/x":""}}')
@example(b'{"\\u0063\\u0064\\u0069.\\u006b8s.io/":1}')
def test_the_scan_never_misses_what_python_finds(config: bytes) -> None:
    if finds_request(config):
        assert calls.asks(config)


NEEDLE_TEXT = st.text(
    st.sampled_from('aB/"\\.<\t\n\x01é\u2028\U0001f600Ω _-') | st.characters(codec="utf-8"), min_size=1, max_size=6
)


@settings(max_examples=2000, deadline=None)
@given(st.data(), st.lists(NEEDLE_TEXT, max_size=4))
def test_the_scan_misses_no_needle_however_it_is_spelled(data: st.DataObject, needles: list[str]) -> None:
    """Whatever characters needles are made of: what Python finds in a string of the document, the scan has seen."""
    around = st.tuples(
        st.sampled_from(["", "x", "\\"]), st.sampled_from([*needles, "other"]), st.sampled_from(["", "/y"])
    )
    config = data.draw(mutated(around.map("".join)))
    if any(needle in text for needle in needles for text in texts_of(config)):
        assert calls.asks(config, [needle.encode() for needle in needles])


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(st.text().filter(lambda t: PREFIX not in t), st.text().filter(lambda t: PREFIX not in t)))
def test_nothing_that_an_encoder_writes_asks_by_itself(annotations: dict[str, str]) -> None:
    """Python's encoder escapes all that is not ASCII, Go's < > & of what is: neither must cost a start of Python."""
    text = json.dumps({"annotations": annotations})
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    assert not calls.asks(text.encode())
