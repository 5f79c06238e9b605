"""Each finding has an entry in docs/findings.md, a test that provokes it, and a place that makes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shim.base.findings import ERROR, NOTE, TABLE, WARNING, CdiError, Finding

TOP = Path(__file__).parent.parent


def _texts(*directories: str) -> str:
    files = (path for name in directories for path in (TOP / name).rglob("*") if path.suffix in {".py", ".c", ".h"})
    return "\n".join(path.read_text() for path in files if path.name not in {"findings.py", "test_findings.py"})


SOURCES = _texts("shim")
TESTS = _texts("tests")
DOCS = (TOP / "docs" / "findings.md").read_text()


@pytest.mark.parametrize("id", TABLE)
def test_the_finding_is_documented_with_its_level(id: str) -> None:
    assert re.search(rf"^### {id} \({TABLE[id][0]}\)$", DOCS, re.MULTILINE)


@pytest.mark.parametrize("id", TABLE)
def test_the_finding_is_made_somewhere_and_provoked_by_a_test(id: str) -> None:
    assert re.search(rf"\b{id}\b", SOURCES), "nothing makes it"
    assert re.search(rf"\b{id}\b", TESTS), "no test provokes it"


def test_nothing_else_is_documented() -> None:
    assert set(re.findall(r"^### (\w+)", DOCS, re.MULTILINE)) == set(TABLE)


def test_levels_and_remedies_are_there() -> None:
    assert {level for level, _ in TABLE.values()} <= {ERROR, WARNING, NOTE}
    assert all(remedy for _, remedy in TABLE.values())


def test_a_finding_says_where_and_what() -> None:
    finding = Finding("SPEC_INVALID", "text", path="/etc/cdi/x.yaml", line=3, rule="env")
    assert str(finding) == "/etc/cdi/x.yaml:3: text"
    assert finding.to_json() == {
        "id": "SPEC_INVALID",
        "level": "ERROR",
        "rule": "env",
        "path": "/etc/cdi/x.yaml",
        "line": 3,
        "text": "text",
        "remedy": TABLE["SPEC_INVALID"][1],
    }
    assert str(CdiError([finding, Finding("INTERNAL", "more")])) == "/etc/cdi/x.yaml:3: text; more"
