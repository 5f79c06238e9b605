"""The stored pins: for each family of cases a file of JSON lines, compressed, in data/.

The first line says what they were made with. A line with `world` holds files that stay for the cases behind it. Every
other line is a case with what came of its steps: `id`, `files`, `steps`, `made`.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Json = dict[str, Any]
DATA = Path(__file__).parent / "data"


def write(family: str, lines: Iterable[Json], directory: Path = DATA, preset: int = 9) -> None:
    """Store a family."""
    directory.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (directory / f"{family}.xz").write_bytes(lzma.compress(text.encode(), preset=preset))


def read(family: str, directory: Path = DATA) -> Iterator[Json]:
    """The lines of a family."""
    with lzma.open(directory / f"{family}.xz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def families(directory: Path = DATA) -> list[str]:
    """The families that are stored."""
    return sorted(path.stem for path in directory.glob("*.xz"))
