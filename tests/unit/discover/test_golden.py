"""What is generated for fake hosts is what is expected, and is valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from unit.discover.golden_hosts import DIRECTORY, HOSTS, golden

import shim.cli


@pytest.mark.parametrize("name", HOSTS)
def test_the_specs_of_a_host_are_the_golden_specs(name: str, tmp_path: Path) -> None:
    documents, findings = HOSTS[name].generate(tmp_path)
    assert documents == golden(name)
    assert [finding.id for finding in findings] == list(HOSTS[name].reported)


@pytest.mark.parametrize("name", [name for name in HOSTS if golden(name)])
def test_the_golden_specs_are_valid(name: str, tmp_path: Path) -> None:
    """In a directory, where two specs of one host must not conflict either."""
    for number, text in enumerate((DIRECTORY / f"{name}.yaml").read_text().split("\n---\n")):
        (tmp_path / f"{number}.yaml").write_text(text)
    done = CliRunner().invoke(shim.cli.shim, ["cdi", "validate", str(tmp_path)])
    assert done.exit_code == 0, done.output


def test_each_golden_file_belongs_to_a_host() -> None:
    assert {path.stem for path in DIRECTORY.iterdir()} == set(HOSTS)
