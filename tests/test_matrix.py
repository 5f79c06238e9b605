"""The table of `make test-matrix`: what is counted, and which rows are measured."""

from __future__ import annotations

import pytest
from matrix.__main__ import ROWS, counted


@pytest.mark.parametrize(
    ("printed", "status", "cell"),
    [
        ("....\n4 passed in 1.00s\n", 0, "4 passed"),
        ("..F.\nFAILED a.py::b\n1 failed, 3 passed, 7 deselected in 1.00s\n", 1, "1 failed, 3 passed"),
        ("..s.\n3 passed, 1 skipped in 1.00s\n", 0, "3 passed, 1 skipped"),
        ("1 error in 0.20s\n", 2, "1 error"),
        ("....\n4 passed in 1.00s\n", 3, "4 passed, failed: status 3"),
        ("..", 137, "failed: status 137"),
        ("no tests ran in 0.01s\n", 5, "failed: status 5"),
        ("", 0, "failed: no test was run"),
    ],
)
def test_what_pytest_counted(printed: str, status: int, cell: str) -> None:
    assert counted(printed, status) == cell


@pytest.mark.parametrize(
    ("word", "keys"),
    [
        ("bookworm", ["bookworm"]),
        ("3.12", ["bookworm-3.12"]),
        ("Debian 12", ["bookworm-3.10", "bookworm", "bookworm-3.12"]),
        ("sarge", []),
    ],
)
def test_the_rows_of_a_word(word: str, keys: list[str]) -> None:
    assert [row.key for row in ROWS if row.chosen(word)] == keys
