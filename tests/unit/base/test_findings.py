"""Findings: one printable line each. Their table is tested in tests/test_findings.py."""

from __future__ import annotations

import pytest

from shim.base.findings import Finding, from_json


def test_an_unknown_id_is_a_defect() -> None:
    with pytest.raises(KeyError):
        Finding("NO_SUCH_ID", "x")


@pytest.mark.parametrize(
    ("path", "line", "said"),
    [("", 0, "x"), ("", 3, "x"), ("/a", 0, "/a: x"), ("/a", 3, "/a:3: x"), ("/a\n\udcff", 0, "/a\\n\\udcff: x")],
)
def test_the_place_stands_before_the_text(path: str, line: int, said: str) -> None:
    assert str(Finding("INTERNAL", "x", path=path, line=line)) == said


def test_a_text_is_one_printable_line_of_bounded_length() -> None:
    assert Finding("INTERNAL", "a\nb\x1b[2J\udcff\u2028é").text == "a\\nb\\x1b[2J\\udcff\\u2028é"
    assert Finding("INTERNAL", "x" * 5_000_000).text == "x" * 997 + "..."


@pytest.mark.parametrize("lowered", [False, True])
def test_a_finding_that_is_kept_as_json_keeps_its_level(lowered: bool) -> None:
    """The index of specs and the inventory of a node keep findings; a lowered one was an ERROR when read again."""
    finding = Finding("INTERNAL", "x", path="/a", line=3)
    kept = finding.as_warning() if lowered else finding
    assert from_json(kept.to_json()).to_json() == kept.to_json()
