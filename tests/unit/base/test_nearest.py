"""Nearest names: what was probably meant comes first, what was not does not come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.base.nearest import distance, nearest


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("", "", 0),
        ("abc", "abc", 0),
        ("", "abc", 3),
        ("kitten", "sitting", 3),
        ("hostPth", "hostPath", 1),
        ("ab", "ba", 2),
    ],
)
def test_distance_counts_letters_to_change(one: str, other: str, apart: int) -> None:
    assert distance(one, other) == apart


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_distance_is_one(one: str, other: str, third: str) -> None:
    assert (distance(one, other) == 0) == (one == other)
    assert distance(one, other) == distance(other, one)
    assert distance(one, other) <= distance(one, third) + distance(third, other)


def test_the_nearest_comes_first_and_the_far_not_at_all() -> None:
    fields = ["path", "hostPath", "containerPath", "type"]
    assert nearest("hostpaht", fields) == ["hostPath"]
    assert nearest("pat", fields) == ["path"]
    assert nearest("zebra", fields) == []
    assert nearest("x" * 1000, ["x" * 999]) == []


def test_equally_near_ones_keep_their_order_up_to_the_limit() -> None:
    assert nearest("gpu0", [f"gpu{n}" for n in (3, 1, 2, 5)]) == ["gpu3", "gpu1", "gpu2"]
