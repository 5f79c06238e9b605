"""Which annotation keys containerd passes on: Go's path.Match, and which keys with a given beginning it may match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.engines.containerd.patterns import can_match, matches, of_prefix

KEY = "cdi.k8s.io/gpu"
# pattern -> whether it matches KEY, and whether it matches some key that begins with cdi.k8s.io/
PATTERNS = {
    "cdi.k8s.io/*": (True, True),
    "cdi.k8s.io/gpu": (True, True),
    "cdi.k8s.io/gp?": (True, True),
    "*/*": (True, True),
    "*.io/g*": (True, True),
    "c*.k8s*/*u": (True, True),
    "*cdi*k8s*io/gpu": (True, True),
    "cdi.k8s.io[/]gpu": (True, True),
    "cdi.k8s.io[^a-z]gpu": (True, True),
    "[a-d]di.k8s.io/*": (True, True),
    "[xc]di.k8s.io/*": (True, True),
    r"cdi\.k8s\.io\/\g\p\u": (True, True),
    r"[\a-\d]di.k8s.io/*": (True, True),
    "cdi.k8s.io/": (False, True),
    "cdi.k8s.io/gpu0": (False, True),
    "cdi.k8s.io/*/*": (False, True),
    "cdi.k8s.io/]": (False, True),
    "*": (False, False),
    "**": (False, False),
    "cdi*": (False, False),
    "cdi.k8s.io?gpu": (False, False),
    "*gpu": (False, False),
    "*.*": (False, False),
    "cdi.k8s.io": (False, False),
    "CDI.k8s.io/*": (False, False),
    "[^c]di.k8s.io/*": (False, False),
    "[d-z]di.k8s.io/*": (False, False),
    "cdi.k8s.io//*": (False, True),
    "/*": (False, False),
    "": (False, False),
    "nvidia.cdi.k8s.io/*": (False, False),
    # malformed: nothing matches
    "cdi.k8s.io/[": (False, False),
    "cdi.k8s.io/[]gpu": (False, False),
    "cdi.k8s.io/[^]*": (False, False),
    "cdi.k8s.io/[a-]*": (False, False),
    "cdi.k8s.io/[-a]*": (False, False),
    "cdi.k8s.io/[a": (False, False),
    "cdi.k8s.io/*\\": (False, False),
}


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS.items(), ids=PATTERNS)
def test_a_pattern_matches_as_in_go(pattern: str, expected: tuple[bool, bool]) -> None:
    assert (matches(pattern, KEY), can_match(pattern, "cdi.k8s.io/")) == expected


@pytest.mark.parametrize(
    ("prefix", "pattern", "expected"),
    [
        ("cdi.k8s.io", "cdi*", True),  # a prefix without a slash also stands at the beginning of cdi.k8s.iox
        ("cdi.k8s.io", "cdi.k8s.io", True),
        ("cdi.k8s.io", "cdi.k8s", False),
        ("", "[^a]*", True),
    ],
)
def test_a_prefix_need_not_end_in_a_slash(prefix: str, pattern: str, expected: bool) -> None:
    assert can_match(pattern, prefix) == expected


_PATTERNS = st.text("ab/*?[]^-\\", max_size=8)
_KEYS = st.text("ab/", max_size=6)


@given(_PATTERNS, _KEYS)
def test_who_matches_a_key_can_match_each_of_its_beginnings(pattern: str, key: str) -> None:
    if matches(pattern, key):
        assert all(can_match(pattern, key[:stop]) for stop in range(len(key) + 1))


@given(st.text("ab/*?[]^-\\", min_size=1, max_size=8), st.text("ab", max_size=3))
def test_the_patterns_of_a_prefix_match_every_key_of_one_slash(prefix: str, rest: str) -> None:
    keys = [f"{prefix}{rest}"] if "/" in prefix else [f"{prefix}{rest}", f"{prefix}{rest}/{rest}"]
    assert all(any(matches(pattern, key) for pattern in of_prefix(prefix)) for key in keys)
