"""Findings: one printable line each, with a level and a remedy from the table."""

from __future__ import annotations

import pytest

from shim.cdi.findings import ERROR, NOTE, TABLE, WARNING, CdiError, Finding


@pytest.mark.parametrize("id_", sorted(TABLE))
def test_every_id_has_a_level_and_a_remedy(id_: str) -> None:
    finding = Finding(id_, "x")
    assert finding.level in (ERROR, WARNING, NOTE)
    assert finding.remedy
    assert Finding(id_, "x", "do this").remedy == "do this"


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


def test_an_error_says_all_its_findings() -> None:
    error = CdiError([Finding("INTERNAL", "one"), Finding("INTERNAL", "two", path="/a")])
    assert str(error) == "one; /a: two"


def test_as_plain_values_members_without_content_are_left_out() -> None:
    assert Finding("INTERNAL", "x", "y").to_json() == {"id": "INTERNAL", "level": "ERROR", "text": "x", "remedy": "y"}
    full = Finding("INTERNAL", "x", "y", path="/a", line=2, rule="r").to_json()
    assert full["path"] == "/a"
    assert full["line"] == 2
    assert full["rule"] == "r"
