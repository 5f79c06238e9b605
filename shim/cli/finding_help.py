"""The explanation of a finding's id: its entry in docs/findings.md, which is installed beside this module."""

from __future__ import annotations

import re
from pathlib import Path

import click

from shim.base.findings import TABLE
from shim.base.nearest import nearest

_DOCUMENT = Path(__file__).with_name("findings.md")


def text(id: str) -> str:
    """The entry of a finding with its usual remedy.

    Arguments:
        id: a key of shim.base.findings.TABLE.
    Raises:
        click.UsageError: there is no such id.
    """
    if id not in TABLE:
        near = nearest(id, TABLE) or sorted(TABLE)[:3]
        raise click.UsageError(f"no finding has the id {id!r}; there are {', '.join(near)}")
    level, remedy = TABLE[id]
    document = _DOCUMENT.read_text(encoding="utf-8")
    entry = re.search(rf"^### {id} \(\w+\)\n(.*?)(?=^#|\Z)", document, re.MULTILINE | re.DOTALL)
    meaning = entry[1].strip() if entry else ""
    return f"{id} ({level})\n\n{meaning}\n\nUsual remedy: {remedy}\n"
