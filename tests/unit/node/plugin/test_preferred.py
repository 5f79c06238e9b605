"""Which free ids are preferred."""

from __future__ import annotations

import random

import pytest

from shim.node.plugin import preferred
from shim.node.plugin.topology import Position

# Two NUMA nodes with a host bridge each; below each two switches with two cards
CARDS = {
    f"{numa}{switch}{card}": Position(
        f"0000:{numa}{switch}:0{card}.0",
        (f"pci0000:{numa}0", f"0000:{numa}0:0{switch}.0", f"0000:{numa}{switch}:0{card}.0"),
        numa,
    )
    for numa in (0, 1)
    for switch in (0, 1)
    for card in (0, 1)
}


@pytest.mark.parametrize(
    ("available", "size", "must", "expected"),
    [
        pytest.param([*CARDS], 1, (), ["000"], id="any"),
        pytest.param([*CARDS], 2, (), ["000", "001"], id="below one switch"),
        pytest.param(["001", "010", "011", "100"], 2, (), ["010", "011"], id="the switch that has two"),
        pytest.param(["001", "010", "100", "110", "111"], 1, (), ["001"], id="of a small group"),
        pytest.param(["000", "100", "101", "110"], 3, (), ["100", "101", "110"], id="on one NUMA node"),
        pytest.param([*CARDS], 4, (), ["000", "001", "010", "011"], id="a whole NUMA node"),
        pytest.param([*CARDS], 8, (), [*CARDS], id="all"),
        pytest.param([*CARDS], 2, ("111",), ["111", "110"], id="beside one that is given"),
        pytest.param([*CARDS], 3, ("100",), ["100", "101", "110"], id="near one that is given"),
        pytest.param([*CARDS], 0, (), [], id="none"),
    ],
)
def test_whole_units_are_near_to_each_other(
    available: list[str], size: int, must: tuple[str, ...], expected: list[str]
) -> None:
    assert preferred.whole(available, must, size, CARDS) == expected


def test_a_single_one_leaves_pairs_whole() -> None:
    """Of the switches the one with a single free card gives it."""
    assert preferred.whole(["000", "001", "010", "100", "101", "110", "111"], (), 1, CARDS) == ["000"]
    positions = {"a": CARDS["000"], "b": CARDS["001"], "c": CARDS["010"]}
    assert preferred.whole(["a", "b", "c"], (), 1, positions) == ["a"]


def test_without_positions_the_order_is_natural() -> None:
    ids = [str(number) for number in range(20)]
    assert preferred.whole(ids, (), 3, dict.fromkeys(ids, Position())) == ["0", "1", "2"]


UNITS = {f"{unit}::{number}": unit for unit in ("a", "b", "c") for number in range(3)}


@pytest.mark.parametrize(
    ("available", "must", "size", "allocation", "expected"),
    [
        pytest.param([*UNITS], (), 1, "spread", ["a::0"], id="spread: the first of equals"),
        pytest.param(["a::2", "b::1", "b::2", "c::0"], (), 1, "spread", ["b::1"], id="spread: the most free"),
        pytest.param(["a::2", "b::1", "b::2"], (), 1, "packed", ["a::2"], id="packed: the fewest free"),
        pytest.param([*UNITS], (), 3, "spread", ["a::0", "b::0", "c::0"], id="different units first"),
        pytest.param([*UNITS], (), 3, "packed", ["a::0", "b::0", "c::0"], id="packed, too"),
        pytest.param(["a::0", "a::1", "b::0"], (), 3, "spread", ["a::0", "b::0", "a::1"], id="then again"),
        pytest.param([*UNITS], ("b::1",), 2, "spread", ["b::1", "a::0"], id="with one that is given"),
        pytest.param(["a::0", "a::1"], ("a::1",), 2, "packed", ["a::1", "a::0"], id="nothing else is free"),
    ],
)
def test_replicas(available: list[str], must: tuple[str, ...], size: int, allocation: str, expected: list[str]) -> None:
    assert preferred.replicas(available, must, size, UNITS, allocation) == expected


@pytest.mark.parametrize("seed", range(50))
def test_an_answer_is_always_as_large_as_wanted_and_of_what_is_free(seed: int) -> None:
    chance = random.Random(seed)
    for ids in ([*CARDS], [*UNITS]):
        available = chance.sample(ids, chance.randint(1, len(ids)))
        size = chance.randint(1, len(available))
        must = chance.sample(available, chance.randint(0, size))
        if ids == [*CARDS]:
            chosen = preferred.whole(available, must, size, CARDS)
        else:
            chosen = preferred.replicas(available, must, size, UNITS, chance.choice(["spread", "packed"]))
        assert len(chosen) == len(set(chosen)) == size
        assert set(must) <= set(chosen) <= set(available)
