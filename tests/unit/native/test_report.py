"""What the launcher writes stays on one line, is JSON, and tells the right time."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shim.base import paths
from shim.hooks._core import ffi, lib


def escaped(text: bytes, *, quotes: bool, room: int = 4096) -> bytes:
    out = ffi.new("char[]", b"\xaa" * room)
    lib.escape(out, room, ffi.new("char[]", text), quotes)
    written: bytes = ffi.string(out)
    assert len(written) < room
    return written


TEXTS = st.binary(max_size=40).filter(lambda text: b"\0" not in text) | st.text(
    st.characters(min_codepoint=1, codec="utf-8"), max_size=40
).map(str.encode)


@given(TEXTS)
@example(b"\xed\xa0\x80 a surrogate, \xc0\xaf too long, \xf4\x90\x80\x80 too high, \xe2\x82 cut off")
@example("é € 😀 \x7f".encode())
def test_it_is_the_inside_of_a_json_string(text: bytes) -> None:
    """Bytes that are no text become U+FFFD each; everything else comes back as it was."""
    back = json.loads(b'"' + escaped(text, quotes=True) + b'"')
    assert back == "".join(
        "\ufffd" if "\udc80" <= char <= "\udcff" else char for char in text.decode("utf-8", "surrogateescape")
    )


@given(TEXTS, st.booleans())
def test_no_control_character_comes_through(text: bytes, quotes: bool) -> None:
    written = escaped(text, quotes=quotes).decode("utf-8")
    assert not re.search("[\0-\x1f\x7f]", written)


@given(TEXTS, st.integers(1, 20))
def test_what_does_not_fit_is_cut_between_characters(text: bytes, room: int) -> None:
    written = escaped(text, quotes=True, room=room)
    json.loads(b'"' + written + b'"')
    assert escaped(text, quotes=True).startswith(written)


SECONDS = st.integers(0, (dt.datetime(9999, 12, 31) - dt.datetime(1970, 1, 1)).days * 86400)


@given(SECONDS)
@example(951868799)  # 29 February 2000, the last second
@example(4107542400)  # 1 March 2100, a year without a leap day
@example(1735689599)  # the last second of a leap year
def test_the_time_is_what_the_calendar_says(seconds: int) -> None:
    out = ffi.new("char[]", 21)
    lib.stamp(out, seconds)
    assert ffi.string(out).decode() == f"{dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("error", [*sorted(errno.errorcode), 0, 9999])
def test_no_reason_has_the_words_that_engines_look_for(error: int) -> None:
    reason = ffi.string(lib.problem(error)).decode()
    assert reason
    assert not re.search("no such file or directory|executable file not found|permission denied", reason, re.IGNORECASE)


def test_c_and_python_have_the_same_words_for_what_the_system_refuses() -> None:
    """One was told "this user is not allowed to" by the launcher and "it is not accessible to this user" by create."""
    in_python = {getattr(errno, name): words for name, words in paths._REASONS.items() if name != "EINVAL"}
    in_c = {error: ffi.string(lib.problem(error)).decode() for error in errno.errorcode}
    assert {error: in_c[error] for error in in_python} == in_python
    others = {error: words for error, words in in_c.items() if error not in in_python}
    assert {error: words for error, words in others.items() if words != os.strerror(error)} == {}
