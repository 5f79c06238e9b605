"""The headers: each function is documented, and what Python may call is taken from them."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
HEADERS = sorted((*(TOP / "native").glob("*.h"), *(TOP / "hooks").glob("*.h")))
PROTOTYPE = re.compile(r"^(?:static inline )?(?:const )?(?:struct |enum )?\w+ \*{0,2}\w+\(.*")

declarations: Callable[[str], str] = runpy.run_path(str(TOP / "native/build_core.py"))["declarations"]


def undocumented(header: str) -> list[str]:
    """Prototypes with no comment above them, or above the prototypes that they follow."""
    found: list[str] = []
    before = ""
    for line in header.splitlines():
        if PROTOTYPE.match(line) and not before.endswith("*/") and not before.endswith(";"):
            found.append(line)
        before = line
    return found


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_each_function_of_a_header_is_documented(header: Path) -> None:
    assert undocumented(header.read_text()) == []


def test_a_function_without_a_comment_is_found() -> None:
    assert undocumented("/* Says what. */\nint a(void);\nint b(void);\n\nint c(void);\n") == ["int c(void);"]


def test_declarations_are_what_stands_between_the_marks() -> None:
    header = (
        "#define A 1\n/* cffi: begin */\nint a;\n/* cffi: end */\nint b;\n/* cffi: begin */\nint c;\n/* cffi: end */\n"
    )
    assert declarations(header) == "int a;\n\nint c;\n"


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("int a;\n", id="there are no marks"),
        pytest.param("/* cffi: begin */\nint a;\n", id="a part has no end"),
        pytest.param("/* cffi: begin */\n/* cffi: begin */\n/* cffi: end */\n", id="a part begins in another"),
    ],
)
def test_a_header_with_wrong_marks_stops_the_build(header: str) -> None:
    with pytest.raises(ValueError, match="cffi"):
        declarations(header)
