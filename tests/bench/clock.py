"""Timing: commands in turn, round by round, so that a slow moment is slow for all of them."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SHIM = str(Path(sys.executable).parent / "shim")

Taken = dict[str, list[float]]  # what was timed -> seconds of each round


def spawn(*command: str, stdin: str = "", env: dict[str, str] | None = None) -> float:
    """Seconds that a command takes from spawn to exit; it must succeed. stdin: a file that it reads."""
    actions = [(os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0)] if stdin else []
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ if env is None else env, file_actions=actions)
    _, status = os.waitpid(child, 0)
    took = time.perf_counter() - start
    if status:
        sys.exit(f"{' '.join(command)}: status {status}")
    return took


def measure(commands: dict[str, Callable[[], float]], rounds: int) -> Taken:
    """Time all commands in turn, round by round, after one round that does not count."""
    taken: Taken = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, run in commands.items():
            took = run()
            if number:
                taken[name].append(took)
    return taken


class Figure(NamedTuple):
    """A ratio: its median over the rounds, and between which values eight of ten rounds lie."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def ratio(taken: Taken, one: str, two: str) -> Figure:
    """How often two goes into one: the medians, and the spread of the first against the median of the second."""
    unit = statistics.median(taken[two])
    tenths = statistics.quantiles(taken[one], n=10, method="inclusive")
    return Figure(statistics.median(taken[one]) / unit, tenths[0] / unit, tenths[-1] / unit)


def show(taken: Taken) -> None:
    """One line a figure: milliseconds, and ratios to T and to P."""
    print(f"{'':46} {'ms':>7} {'to T (8 of 10)':>24} {'to P (8 of 10)':>20}")
    for name, times in taken.items():
        to_t, to_p = str(ratio(taken, name, "T")), str(ratio(taken, name, "P"))
        print(f"{name:46} {statistics.median(times) * 1000:7.2f} {to_t:>24} {to_p:>20}")


def compare(taken: Taken, pairs: list[tuple[str, str]]) -> None:
    """One line a comparison: the first in units of the second."""
    for one, two in pairs:
        print(f"{ratio(taken, one, two)!s:>22}  {one} / {two}")
