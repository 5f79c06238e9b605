"""Texts as values of labels."""

from __future__ import annotations

import pytest

from shim.node.labels import values


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("  NVIDIA   RTX  A6000 ", "NVIDIA-RTX-A6000"),
        ("RTX™ 5000 (Ti)/ö+x,y_z.1", "RTX-5000-Tixy_z.1"),
        ("one\ttwo\nthree", "onetwothree"),
        ("(®)", ""),
    ],
)
def test_a_name_is_cleaned(text: str, cleaned: str) -> None:
    assert values.cleaned(text) == cleaned


@pytest.mark.parametrize("text", ["", "a", "570.86.10", "x" * 63, "NVIDIA-A10_b.c"])
def test_values_that_kubernetes_takes_stay(text: str) -> None:
    assert values.is_value(text)
    assert values.value(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("Gert-", "Gert"), ("570.86.", "570.86"), ("-x", "x"), ("y" * 64, "y" * 63), ("a b", "a-b"), ("a+b", "ab")],
)
def test_other_texts_become_values(text: str, value: str) -> None:
    assert not values.is_value(text)
    assert values.value(text) == value


def test_what_marks_a_model_survives_a_long_name() -> None:
    value = values.value("NVIDIA-" + "long-" * 20, "-MIG-1g.5gb-SHARED")
    assert value.startswith("NVIDIA-long-") and value.endswith("long-lon-MIG-1g.5gb-SHARED")
    assert values.is_value(value)


def test_a_mark_without_a_name_is_a_value() -> None:
    assert values.value("", "-SHARED") == "SHARED"


def test_the_name_of_a_label_of_a_model_is_short_enough() -> None:
    assert values.model_name("gpu", "NVIDIA A10") == "gpu.model.NVIDIA-A10"
    assert values.is_value(values.model_name("gpu", "long " * 30) + ".memory")
