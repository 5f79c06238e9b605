"""docs/troubleshooting.md leads to findings and commands that exist, and has every finding of the doctor's own."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from shim.base.findings import TABLE
from shim.cli import shim

TOP = Path(__file__).parents[3]
TEXT = (TOP / "docs/troubleshooting.md").read_text(encoding="utf-8")
ROWS = [line.strip("|").replace(r"\|", "/").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")]
SYMPTOMS = [row for row in ROWS if len(row) == 4 and row[0].strip() != "symptom"]
DOCS = (TOP / "docs/findings.md").read_text(encoding="utf-8")
OWN = DOCS.partition("\n## The doctor\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("row", SYMPTOMS, ids=lambda row: row[0].strip()[:40])
def test_a_symptom_leads_to_a_finding(row: list[str]) -> None:
    symptom, command, finding, remedy = (cell.strip() for cell in row)
    named = re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", finding)
    assert named
    assert set(named) <= set(TABLE)
    assert command.startswith("`shim ")
    assert symptom
    assert remedy


def test_each_finding_of_the_doctor_is_led_to() -> None:
    own = re.findall(r"^### (\w+)", OWN, re.MULTILINE)
    assert len(own) > 10
    assert {id for id in own if id not in TEXT} == {"CONTAINER_UNKNOWN"}


def test_options_that_are_named_exist() -> None:
    command = shim.get_command(click.Context(shim), "doctor")
    assert command
    options = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"`shim doctor[^`]*?(--[a-z]+)", TEXT)) <= options
