"""The family of labels can fail, and takes a deviation only for what it states."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from conformance import runner

VECTORS = Path(__file__).parent / "vectors"
CASES = {case["id"]: case for case in runner.read_cases(VECTORS / "labels-nvidia.json")}


def verdict(case: dict[str, Any]) -> str:
    outcome = runner.run_cases("labels-nvidia", [case])
    return outcome.failed[0][1] if outcome.failed else next(iter(outcome.deviations), "passed")


def changed(name: str, **labels: str | None) -> dict[str, Any]:
    case = copy.deepcopy(CASES[name])
    for key, value in labels.items():
        label = f"nvidia.com/{key.replace('__', '.')}"
        case["expect"]["labels"].pop(label, None)
        if value is not None:
            case["expect"]["labels"][label] = value
    return case


def test_a_label_that_differs_fails() -> None:
    assert verdict(changed("one-a100", gpu__count="1")) == "passed"
    assert "expected" in verdict(changed("one-a100", gpu__count="2"))
    assert "expected" in verdict(changed("one-a100", gpu__count=None))
    assert "expected" in verdict(changed("one-a100", gpu__more="1"))


def test_a_status_that_differs_fails() -> None:
    case = changed("one-a100")
    case["expect"] = {"status": 1, "labels": None, "error": "error creating labeler: something"}
    assert "status 0, expected 1" in verdict(case)
    case = changed("gpu-lost")
    case["expect"] = {"status": 0, "labels": {}}
    assert verdict(case).startswith("status 1: ")


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("name-long", "labels-value"),
        ("two-models-three", "labels-models"),
        ("driver-version-3", "labels-version"),
        ("vgpu-record-length-0", "labels-vgpu"),
        ("mode-other-class", "labels-class"),
        ("missing-memory", "labels-library"),
        ("strategy-vfio-half", "labels-vfio"),
        ("nfd-api-default", "labels-file"),
        ("mode-domain-wide", "pci-domain"),
    ],
)
def test_deviations(name: str, rule: str) -> None:
    assert verdict(CASES[name]) == rule


def test_a_key_that_stands_twice_in_a_configuration_is_a_deviation() -> None:
    case = changed("config-no-version")
    case["input"]["config"] = "flags: {migStrategy: single}\nflags: {migStrategy: single}\n"
    assert verdict(case) == "labels-config"


def test_beside_a_deviation_nothing_else_may_differ() -> None:
    assert "expected" in verdict(changed("name-long", gpu__count="2"))
    assert "expected" in verdict(changed("strategy-vfio-half", gpu__count="2"))
    case = changed("mig-none-two-models", mig__capable="false")
    assert "expected" in verdict(case)
