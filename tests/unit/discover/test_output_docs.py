"""The table of docs/specs.md is that of the code."""

from __future__ import annotations

from pathlib import Path

from shim.discover import engine_versions

DOCUMENT = Path(__file__).parents[3] / "docs/specs.md"


def test_the_documented_versions_are_those_of_the_code() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in DOCUMENT.read_text().splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]
    engines = [name.lower() for name in rows[0][1:]]
    documented: dict[str, dict[str, str]] = {engine: {} for engine in engines}
    for version, *cells in rows[1:]:
        for engine, since in zip(engines, cells, strict=True):
            if since:
                documented[engine][since] = version
    for engine, known in engine_versions.TABLE.items():
        for number, version in known:
            since = ".".join(map(str, number))
            written = {text: read for text, read in documented[engine].items() if text in {since, f"{since}.0"}}
            # docker 25.0.17 has a later library than 26.0, which no table with a row for each version can show
            assert list(written.values()) == [version] or since in {"25.0.17", "26"}, (engine, since)
