"""Names of subjects, to which devices are granted. HOT where grants are enforced."""

from __future__ import annotations

LONGEST = 128

_LETTERS_AND_DIGITS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_INNER = _LETTERS_AND_DIGITS | frozenset("._-")


def objection(subject: str) -> str:
    """What is wrong with the name of a subject, a clause, "" for nothing."""
    if not subject or len(subject) > LONGEST:
        return f"it must have 1 to {LONGEST} characters"
    if subject[0] not in _LETTERS_AND_DIGITS:
        return "it must begin with a letter or digit"
    wrong = next((letter for letter in subject if letter not in _INNER), "")
    return f"it contains {wrong!r}; allowed are letters, digits, '.', '_' and '-'" if wrong else ""
