"""The table of `make test-matrix`: what is counted, and which rows are measured."""

from __future__ import annotations

import pytest
from matrix import older_glibc
from matrix.__main__ import HEAD, MARKS, ROWS, TOP, combined, counted


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
    ("before", "again", "cell"),
    [
        ("2 failed, 7 passed", "2 passed", "9 passed"),
        ("2 failed, 7 passed", "1 failed, 1 passed", "1 failed, 8 passed"),
        ("2 failed, 7 passed", "2 failed", "2 failed, 7 passed"),
        ("2 failed, 7 passed", "1 passed", "failed: 2 failed, 7 passed; again 1 passed"),
        ("2 failed, 7 passed", "1 passed, 1 skipped", "failed: 2 failed, 7 passed; again 1 passed, 1 skipped"),
        ("1 error", "1 passed", "failed: 1 error; again 1 passed"),
    ],
)
def test_what_was_run_again_counts_for_the_row(before: str, again: str, cell: str) -> None:
    assert combined(before, again) == cell


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


RESULTS = {
    "without": b"ls: error while loading shared libraries: libselinux.so.1: cannot open shared object file\n",
    "with": b"/opt/apart\n",
    "hook.list": b"1 libs found in cache\n\tlibselinux.so.1 (libc6,x86-64) => /opt/apart/libselinux.so.1\n",
    "ldconfig.list": b"1 libs found in cache\n\tlibselinux.so.1 (libc6,x86-64, OS ABI: Linux 3.2.0) => "
    b"/opt/apart/libselinux.so.1\n",
    "hook.cache": b"new",
    "ldconfig.cache": b"old",
}


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("as measured", {}, "its loader and `ldconfig -p` read the same 1 entries; as files they differ"),
        ("equal files", {"hook.cache": b"old"}, "the same 1 entries, byte for byte"),
        ("no positive control", {"without": b""}, "failed: the library is loaded without a cache"),
        ("a cache that is not read", {"with": b""}, "failed: the loader does not read the cache"),
        ("an entry less", {"hook.list": b"0 libs found in cache\n"}, "failed: 1 entries differ"),
    ],
)
def test_what_an_older_glibc_reads_is_judged(name: str, change: dict[str, bytes], expected: str) -> None:
    assert older_glibc.judged({**RESULTS, **change}) == expected, name


def test_the_table_of_the_readme_has_all_rows() -> None:
    """As `--write` wrote them, so that none is left out and none is written by hand."""
    table = (TOP / "README.md").read_text(encoding="utf-8").partition(MARKS[0])[2].partition(MARKS[1])[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    assert tuple(lines[0]) == HEAD
    assert [line[0] for line in lines[2:]] == [row.name for row in ROWS]
    assert [line for line in lines if "failed" in " ".join(line)] == []
