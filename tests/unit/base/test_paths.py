"""Paths as text, and system errors as words."""

from __future__ import annotations

import errno
import os
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.base.paths import clean, reason


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [
        ("", "."),
        (".", "."),
        ("/", "/"),
        ("//", "/"),
        ("//a//b", "/a/b"),
        ("/a/", "/a"),
        ("/a/../b/./c", "/b/c"),
        ("/../a", "/a"),
        ("../a/..", ".."),
        ("a/../..", ".."),
        ("./a", "a"),
    ],
)
def test_a_path_is_cleaned_as_text(path: str, cleaned: str) -> None:
    assert clean(path) == cleaned


@given(st.text(alphabet="/.ab", max_size=12))
def test_cleaning_agrees_with_normpath_except_for_two_leading_slashes(path: str) -> None:
    known = posixpath.normpath(path)
    assert clean(path) == (known[1:] if known.startswith("//") else known)
    assert clean(clean(path)) == clean(path)


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_no_reason_holds_words_that_an_engine_takes_for_another_failure(number: int) -> None:
    """It is a clause of its own: "cannot be read: is missing" is no sentence."""
    said = reason(OSError(number, os.strerror(number)))
    assert not said.startswith(("is ", "exists ", "cannot "))
    assert said
    for words in ("no such file or directory", "permission denied", "executable file not found"):
        assert words not in said.lower()


def test_a_value_error_and_an_error_without_a_number_have_a_reason() -> None:
    assert reason(ValueError("embedded null byte")) == "it cannot be the name of a file"
    assert reason(OSError("it is no regular file")) == "it is no regular file", "raised here, and worded here"
