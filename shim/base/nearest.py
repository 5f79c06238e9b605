"""Nearest names: which of the names that exist was probably meant. Own small code: difflib costs 10 ms to import."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 256  # longer words are not compared: the work grows with the square


def distance(one: str, other: str) -> int:
    """The Levenshtein distance: how many letters to insert, remove or change to come from one word to the other."""
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, against in enumerate(other):
            current.append(min(current[column] + 1, above[column + 1] + 1, above[column] + (letter != against)))
        above = current
    return above[-1]


def nearest(word: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """Up to `limit` candidates, the nearest first, that differ from a word in at most a third of its letters (or two).

    Case counts for nothing. Equally near ones keep their order.
    """
    if len(word) > _LONGEST:
        return []
    allowed = max(2, len(word) // 3)
    ranked = sorted(
        (distance(word.lower(), candidate.lower()), place, candidate)
        for place, candidate in enumerate(candidates)
        if abs(len(word) - len(candidate)) <= allowed and len(candidate) <= _LONGEST
    )
    return [candidate for apart, _, candidate in ranked[:limit] if apart <= allowed]
