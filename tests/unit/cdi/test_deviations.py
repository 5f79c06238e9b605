"""docs/deviations.md says what the table says."""

from __future__ import annotations

import re
from pathlib import Path

from shim.cdi.deviations import TABLE

DOCS = (Path(__file__).parents[3] / "docs" / "deviations.md").read_text()


def test_the_documentation_holds_the_table_in_its_order() -> None:
    entries = re.findall(r"^### (\S+)\n(.*?)(?=\n\n###|\Z)", DOCS, re.MULTILINE | re.DOTALL)
    assert [(rule, " ".join(text.split())) for rule, text in entries] == [
        (rule, " ".join(reason.split())) for rule, reason in TABLE.items()
    ]
