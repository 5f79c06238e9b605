"""Nearest names: what was probably meant comes first, what was not does not come."""

from __future__ import annotations

from collections.abc import Iterator

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


def _by_the_table(one: str, other: str) -> int:
    """The distance as it is usually computed."""
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, against in enumerate(other):
            current.append(min(current[column] + 1, above[column + 1] + 1, above[column] + (letter != against)))
        above = current
    return above[-1]


@given(st.text("abc", max_size=40), st.text("abc", max_size=40))
def test_distance_is_that_of_the_usual_table(one: str, other: str) -> None:
    assert distance(one, other) == _by_the_table(one, other)


def test_distance_takes_one_step_a_letter() -> None:
    """128 unknown names of 220 letters took 2.4 seconds with 200 devices, one with 9000 long ones 14: by the table."""

    class Steps(str):
        taken = 0

        def __iter__(self) -> Iterator[str]:
            for letter in str(self):
                Steps.taken += 1
                yield letter

    assert distance("x" * 200, Steps("y" * 256)) == 256
    assert Steps.taken == 256


def test_the_nearest_comes_first_and_the_far_not_at_all() -> None:
    fields = ["path", "hostPath", "containerPath", "type"]
    assert nearest("hostpaht", fields) == ["hostPath"]
    assert nearest("pat", fields) == ["path"]
    assert nearest("zebra", fields) == []
    assert nearest("x" * 1000, ["x" * 999]) == []


def test_equally_near_ones_keep_their_order_up_to_the_limit() -> None:
    assert nearest("gpu0", [f"gpu{n}" for n in (3, 1, 2, 5)]) == ["gpu3", "gpu1", "gpu2"]
