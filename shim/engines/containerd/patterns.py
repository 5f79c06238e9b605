"""Patterns of `pod_annotations` and `container_annotations`: which annotation keys containerd passes on.

containerd compares each pattern with the whole key by Go's path.Match, in all releases: `*` and `?` do not match a
slash, a class in brackets does, a backslash makes the character behind it literal, and a malformed pattern matches
nothing. So `*` passes no key of CDI on, while `*/*` does, and so does `cdi.*/gpu`.

Sources: containerd, internal/cri/util/util.go (GetPassthroughAnnotations; 1.x: pkg/cri/server/helpers.go);
https://pkg.go.dev/path#Match
"""

from __future__ import annotations

from collections.abc import Callable

_Matcher = Callable[[str], bool]
_STAR = object()


def matches(pattern: str, key: str) -> bool:
    """Whether containerd passes on an annotation of this key."""
    terms = _terms(pattern)
    return terms is not None and len(terms) in _positions(terms, key)


def can_match(pattern: str, prefix: str) -> bool:
    """Whether containerd passes on some annotation whose key begins with a prefix.

    Arguments:
        pattern: as it is written in the configuration.
        prefix: of keys that ask for devices, such as "cdi.k8s.io/".
    """
    terms = _terms(pattern)
    # for any rest of the pattern behind the prefix, the rest of a key can be chosen to match it
    return terms is not None and bool(_positions(terms, prefix))


def of_prefix(prefix: str) -> dict[str, str]:
    """Patterns that together pass on each annotation whose key begins with a prefix; each with a key that it matches.

    Arguments:
        prefix: of keys that ask for devices. A key has at most one slash, in it or behind it.
    """
    written = "".join(f"\\{letter}" if letter in "*?[\\" else letter for letter in prefix)
    patterns = {f"{written}*": f"{prefix}shim"}
    return patterns if "/" in prefix else {**patterns, f"{written}*/*": f"{prefix}shim/shim"}


def _positions(terms: list[object], text: str) -> set[int]:
    """The numbers of terms that a text can match: every possibility, none where the text does not match."""
    here = _behind_stars(terms, {0})
    for letter in text:
        after = set()
        for position in here:
            term = terms[position] if position < len(terms) else None
            if term is _STAR:
                after |= {position} if letter != "/" else set()
            elif callable(term) and term(letter):
                after.add(position + 1)
        here = _behind_stars(terms, after)
    return here


def _behind_stars(terms: list[object], positions: set[int]) -> set[int]:
    """These positions, and those after a `*` that matches the empty text."""
    reached = set(positions)
    for position in positions:
        while position < len(terms) and terms[position] is _STAR:
            position += 1  # noqa: PLW2901 - one star after the other
            reached.add(position)
    return reached


def _terms(pattern: str) -> list[object] | None:
    """The parts of a pattern: _STAR, or a test of a letter. None for a malformed pattern."""
    terms: list[object] = []
    rest = pattern
    while rest:
        first, rest = rest[0], rest[1:]
        if first == "*":
            terms.append(_STAR)
        elif first == "?":
            terms.append(lambda letter: letter != "/")
        elif first == "[":
            term_and_rest = _class(rest)
            if term_and_rest is None:
                return None
            term, rest = term_and_rest
            terms.append(term)
        else:
            if first == "\\":
                if not rest:
                    return None
                first, rest = rest[0], rest[1:]
            terms.append(_equal(first))
    return terms


def _equal(wanted: str) -> _Matcher:
    return lambda letter: letter == wanted


def _class(rest: str) -> tuple[_Matcher, str] | None:
    """A class, whose opening bracket was consumed, and the rest of the pattern. None for a malformed class."""
    negated = rest.startswith("^")
    rest = rest.removeprefix("^")
    ranges: list[tuple[str, str]] = []
    while not (ranges and rest.startswith("]")):
        low, rest = _letter(rest)
        high = low
        if rest.startswith("-"):
            high, rest = _letter(rest[1:])
        if not low or not high:
            return None
        ranges.append((low, high))
    return lambda letter: any(low <= letter <= high for low, high in ranges) != negated, rest[1:]


def _letter(rest: str) -> tuple[str, str]:
    """A letter of a class and the rest, which cannot be empty; "" when there is no letter."""
    escaped = rest.startswith("\\")
    rest = rest.removeprefix("\\")
    if len(rest) < 2 or (not escaped and rest[0] in "-]"):
        return "", ""
    return rest[0], rest[1:]
