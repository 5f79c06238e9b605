"""docs/configuration.md holds each key of the table, with its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shim.config.keys import KEYS, Key
from shim.config.settings import Settings

DOCS = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
SECTIONS = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##)", DOCS, re.MULTILINE | re.DOTALL))


def test_the_documented_keys_are_those_of_the_table_in_its_order() -> None:
    assert list(SECTIONS) == [key.name for key in KEYS]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_the_documented_default_is_the_default(key: Key) -> None:
    value = getattr(Settings(), key.attribute)
    text = " ".join(SECTIONS[key.name].split())
    if isinstance(value, dict):
        said = dict(re.findall(r'`(\w+) = "([^"]+)"`', text.partition("the default, which is")[2].partition(". ")[0]))
        assert said == value or (not value and "empty by default" in text)
    elif value is None:
        assert "Default: `/var/log/shim.log`" in text
    else:
        written = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
        literal = written or str(list(value) if isinstance(value, tuple) else f'"{value}"').replace("'", '"')
        assert f"Default: `{literal}`" in text
