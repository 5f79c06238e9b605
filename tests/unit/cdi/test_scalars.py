"""Scalars: numbers that become text, values that stand for integers, and words that are none of both."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.cdi.scalars import INT64, UINT32, text_of, whole
from shim.cdi.yamltext import resolve


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("0660", 0o660), ("0o660", 0o660), ("0O17", 15), ("0x1F", 31), ("-0x1", -1), ("0b11", 3), ("-0b11", -3),
        ("1_000", 1000), ("0_0", 0), ("432_", 432), ("+5", 5), ("-010", -8), ("-0", 0), ("00", 0),
        ("08", 8.0), ("0888", 888.0), ("1.", 1.0), (".5", 0.5), (".5_0", 0.5), ("1e3", 1000.0), ("4.32e2", 432.0),
        ("18446744073709551615", 2**64 - 1), ("18446744073709551616", 2.0**64), ("+9223372036854775808", 2.0**63),
        ("-9223372036854775809", -(2.0**63)), (".inf", math.inf), ("-.INF", -math.inf),
        ("y", True), ("On", True), ("n", False), ("~", None), ("", None), ("Null", None),
        ("yEs", "yEs"), ("0x", "0x"), ("0xZZ", "0xZZ"), ("0b2", "0b2"), ("_1", "_1"), ("._5", "._5"), (".5_", ".5_"),
        ("1e1000", "1e1000"), (".5e400", ".5e400"), ("0x1" + "0" * 16, "0x1" + "0" * 16), ("9" * 5000, "9" * 5000),
        ("12:30:45", "12:30:45"), ("2001-01-01", "2001-01-01"), ("1.2.3", "1.2.3"), ("-", "-"), ("+", "+"), (".", "."),
        ("..", ".."), ("1e", "1e"), ("e3", "e3"), ("=", "="), ("<<", "<<"), ("inf", "inf"), ("nan", "nan"),
        ("\u0661", "\u0661"), ("-.5", -0.5), ("+1.5", 1.5), ("1\n", "1\n"),
    ],
)  # fmt: skip
def test_a_plain_word_means_what_the_reference_reads(word: str, meaning: Any) -> None:
    found = resolve(word)
    assert (type(found), found) == (type(meaning), meaning)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"), (False, "false"), (7, "7"), (-1, "-1"), (2**64 - 1, "18446744073709551615"),
        (1.0, "1"), (1.5, "1.5"), (1.10, "1.1"), (1000.0, "1000"), (999999.0, "999999"), (1e6, "1e+06"),
        (1234567.0, "1.234567e+06"), (123456789.0, "1.2345679e+08"), (0.0001, "0.0001"), (0.00001, "1e-05"),
        (-0.0, "-0"), (0.1, "0.1"), (2.0**64, "1.8446744e+19"), (1e300, "+Inf"), (-1e300, "-Inf"), (1e-300, "0"),
        (math.inf, "+Inf"), (math.nan, "NaN"), (16777217.0, "1.6777216e+07"),
    ],
)  # fmt: skip
def test_a_number_becomes_text_with_seven_digits(value: float, text: str) -> None:
    assert text_of(value) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_is_the_same_float_in_single_precision(number: float) -> None:
    text = text_of(number)
    assert struct.unpack("f", struct.pack("f", float(text)))[0] == number
    assert len(text.lstrip("-").partition("e")[0].replace(".", "").strip("0")) <= 9


@pytest.mark.parametrize(
    ("value", "limits", "integer"),
    [
        (432.0, UINT32, 432), (432.5, UINT32, None), (2**32 - 1, UINT32, 2**32 - 1), (2**32, UINT32, None),
        (-1, UINT32, None), (-1, INT64, -1), (-0.0, UINT32, None), (-0.0, INT64, 0), (0.0, UINT32, 0),
        (1e18, INT64, 10**18), (1e19, INT64, None), (1e21, INT64, None), (2**63 - 1, INT64, 2**63 - 1),
        (2**63, INT64, None), (True, INT64, None), ("7", INT64, None), (None, INT64, None), ([], INT64, None),
        (1234567890123456789.0, INT64, 1234567890123456800),  # the digits that are written, not the exact value
        (math.inf, INT64, None), (math.nan, INT64, None), (1e-7, INT64, None),
    ],
)  # fmt: skip
def test_an_integer_is_what_is_whole_and_within_limits(
    value: Any, limits: tuple[int, int], integer: int | None
) -> None:
    assert whole(value, limits) == integer


@given(st.integers(min_value=INT64[0], max_value=INT64[1]))
def test_every_integer_is_itself(number: int) -> None:
    assert resolve(str(number)) == number
    assert whole(number, INT64) == number
    assert text_of(number) == str(number)
