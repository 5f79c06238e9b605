"""The figures as a document: a table between two marks of docs/benchmarks.md, and a plot beside it.

The plot is SVG written as text: one bar a figure on a logarithmic scale, the spread as a line on it, and a mark where
the peer was measured.
"""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from bench.clock import Figure, Taken, ratio

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

# NVIDIA Container Toolkit 1.20 in cdi mode, medians of 60 rounds interleaved with 6022cb0 in one run on two idle cores.
# It is no part of `make bench`: these are the figures of that run.
PEER = {
    "pass-through (state)": 7.6,
    "create, nothing asked": 10.4,
    "create, one of 8 GPUs": 15.0,
    "create, one of 1000": 152.0,
}
PEER_VERSION = "NVIDIA Container Toolkit 1.20, cdi mode"


class Row(NamedTuple):
    """A figure: what was timed, in units of what, the ratio, and that of the peer, 0 where it has none."""

    name: str
    unit: str
    figure: Figure
    peer: float


def rows(taken: Taken, pairs: list[tuple[str, str]]) -> list[Row]:
    """The rows of a group: its comparisons, or each thing that was timed in units of T where it has none."""
    if pairs:
        return [Row(one, two, ratio(taken, one, two), 0) for one, two in pairs]
    return [Row(name, "T", ratio(taken, name, "T"), PEER.get(name, 0)) for name in taken if name not in "TP"]


def write(directory: Path, groups: dict[str, list[Row]], command: str) -> None:
    """Put the table into benchmarks.md of a directory, and write benchmarks.svg."""
    document = directory / "benchmarks.md"
    before, _, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text(f"{before}{BEGIN}\n{table(groups, command)}{END}{after}", encoding="utf-8")
    (directory / "benchmarks.svg").write_text(plot(groups), encoding="utf-8")


def table(groups: dict[str, list[Row]], command: str) -> str:
    """The figures as Markdown."""
    cores, load = os.cpu_count(), os.getloadavg()[1]
    lines = [
        f"Made by `{command}` on Linux {platform.release()} with {cores} cores, load {load:.1f}, Python"
        f" {platform.python_version()}.",
        "",
        "| | in units of | median (8 of 10 rounds) | peer |",
        "|---|---|---|---|",
    ]
    for name, found in groups.items():
        lines.append(f"| **{name}** | | | |")
        lines += [f"| {row.name} | {row.unit} | {row.figure} | {row.peer or ''} |" for row in found]
    return "\n".join([*lines, ""])


LEFT, WIDTH, LINE = 430, 420, 20  # of the names, of the bars, and the height of a line
COLOURS = {"bar": "#4c78a8", "peer": "#e45756", "spread": "#222222", "grid": "#dddddd"}


def plot(groups: dict[str, list[Row]]) -> str:
    """The figures as a picture."""
    every = [row for found in groups.values() for row in found]
    values = [value for row in every for value in (*row.figure, row.peer) if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(value: float) -> float:
        return LEFT + WIDTH * (math.log10(max(value, 10.0**low)) - low) / max(high - low, 1)

    height = LINE * (len(every) + len(groups) + 3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 70}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{LINE}" y2="{height - LINE}" stroke="{COLOURS["grid"]}"/>')
        parts.append(_text(at, LINE - 6, f"{10.0**power:g}", "middle"))
    y = LINE
    for name, found in groups.items():
        y += LINE
        parts.append(_text(8, y, name, "start", ' font-weight="bold"'))
        for row in found:
            y += LINE
            middle, start, end = y - 4, x(10.0**low), x(row.figure.median)
            parts.append(_text(LEFT - 8, y, f"{row.name}, in units of {row.unit}", "end", ' font-size="10"'))
            parts.append(
                f'<rect x="{start:.1f}" y="{y - 11}" width="{end - start:.1f}" height="13" fill="{COLOURS["bar"]}"/>'
            )
            parts.append(
                f'<line x1="{x(row.figure.low):.1f}" x2="{x(row.figure.high):.1f}" y1="{middle}" y2="{middle}"'
                f' stroke="{COLOURS["spread"]}" stroke-width="2"/>'
            )
            if row.peer:
                parts.append(f'<circle cx="{x(row.peer):.1f}" cy="{middle}" r="5" fill="{COLOURS["peer"]}"/>')
            right = max(end, x(row.figure.high), x(row.peer) if row.peer else 0)
            parts.append(_text(right + 8, y, f"{row.figure.median:.2f}", "start"))
    note = f"bars: medians; lines: 8 of 10 rounds; dots: {PEER_VERSION}"
    parts += [_text(8, height - 6, note, "start"), "</svg>", ""]
    return "\n".join(parts)


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}"{more}>{escape(text)}</text>'
