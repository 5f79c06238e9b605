"""Nearest names: which of the names that exist was probably meant. Own small code: difflib costs 10 ms to import."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 256  # letters; longer words are not compared


def distance(word: str, other: str) -> int:
    """The Levenshtein distance: how many letters to insert, remove or change to make `other` of `word`.

    One step for each letter of `other`: a column of the usual table is a pair of integers, whose bits are where it
    grows and where it falls by one (Myers 1999, in the form of Hyyroe 2001).
    """
    if not word:
        return len(other)
    positions: dict[str, int] = {}
    for index, letter in enumerate(word):
        positions[letter] = positions.get(letter, 0) | 1 << index
    whole = (1 << len(word)) - 1
    last = 1 << (len(word) - 1)
    grows, falls, apart = whole, 0, len(word)
    for letter in other:
        same = positions.get(letter, 0)
        kept = same | falls
        across = (((same & grows) + grows) ^ grows) | same
        right, left = falls | ~(across | grows) & whole, grows & across
        if right & last:
            apart += 1
        elif left & last:
            apart -= 1
        right, left = right << 1 | 1, left << 1
        grows, falls = (left | ~(kept | right)) & whole, right & kept
    return apart


def nearest(word: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """Up to `limit` candidates, the nearest first, that differ from a word in at most a third of its letters (or two).

    Case counts for nothing. Equally near ones keep their order.
    """
    if len(word) > _LONGEST:
        return []
    allowed = max(2, len(word) // 3)
    ranked = sorted(
        (distance(word.lower(), candidate.lower()), index, candidate)
        for index, candidate in enumerate(candidates)
        if abs(len(word) - len(candidate)) <= allowed and len(candidate) <= _LONGEST
    )
    return [candidate for apart, _, candidate in ranked[:limit] if apart <= allowed]
