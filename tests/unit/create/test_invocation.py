"""The words by which the launcher hands a call over: one table in C, and its counterpart in Python."""

from __future__ import annotations

import pytest

from shim.create.invocation import TEXTS, Invocation
from shim.hooks._core import ffi, lib
from shim.hooks.core import _rows

ALWAYS = ["low=/usr/bin/runc", "name=shim", "self=/usr/bin/shim"]


def test_the_texts_are_those_of_the_launcher() -> None:
    """A new option whose value Python needs is a row in C and a line here; neither can be forgotten."""
    assert [ffi.string(row.name).decode() for row in _rows(lib.call_texts)] == list(TEXTS)


def test_each_text_of_the_launcher_is_a_text_of_struct_call() -> None:
    fields = dict(ffi.typeof("struct call").fields)
    texts = {fields[name].offset: name for name in fields if fields[name].type is ffi.typeof("char *")}
    assert [texts[row.member].replace("_", "-") for row in _rows(lib.call_texts)] == list(TEXTS)


@pytest.mark.parametrize("word", TEXTS)
def test_each_word_is_an_attribute(word: str) -> None:
    call = Invocation([*ALWAYS, f"{word}=x=y z", "--", "runc", "create"])
    assert getattr(call, word.replace("-", "_")) == ("./x=y z" if word == "config" else "x=y z")
    assert call.argv == ["runc", "create"]


def test_without_words_the_defaults_hold() -> None:
    call = Invocation([*ALWAYS, "--", "runc"])
    assert (call.bundle, call.config, call.log_format, call.id) == (".", "./config.json", "text", "")
    assert (call.devices, call.ignored, call.may_ask) == ([], [], True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["bundle=/b"], "/b/config.json", id="that of the bundle"),
        pytest.param(["bundle=/b", "config=/c/d.json"], "/c/d.json", id="a path"),
        pytest.param(["bundle=/b", "config=config.json"], "./config.json", id="a name is one in the working directory"),
    ],
)
def test_where_config_json_is(words: list[str], expected: str) -> None:
    assert Invocation([*ALWAYS, *words, "--"]).config == expected


def test_a_word_that_is_not_known_is_passed_over() -> None:
    """During an installation the launcher may be another version than the modules."""
    assert Invocation([*ALWAYS, "of-tomorrow=1", "--"]).low == "/usr/bin/runc"
