"""Where create puts mounts among those of config.json."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.base.findings import CdiError
from shim.base.paths import clean
from shim.cdi import edits
from shim.create import mounts

Json = dict[str, Any]


def _entries(*destinations: str, **more: str) -> list[Json]:
    return [{"destination": destination, **more} for destination in destinations]


def _with(present: Any, added: list[Json]) -> list[Any]:
    """The mounts of a config.json with new ones."""
    return mounts.placed(edits.without_first({"mounts": present}, "mounts", "destination", added), added)


def _put(present: list[str], added: list[str]) -> list[str]:
    """The destinations after the new ones, which are marked with a star, were put in."""
    result = _with(_entries(*present), _entries(*added, source="new"))
    return [entry["destination"] + ("*" if "source" in entry else "") for entry in result]


# present, added, result
CASES: dict[str, tuple[list[str], list[str], list[str]]] = {
    "at the end": (["/proc", "/dev", "/a/b"], ["/x"], ["/proc", "/dev", "/a/b", "/x*"]),
    "before the first below": (["/proc", "/a/b", "/c", "/a/d"], ["/a"], ["/proc", "/a*", "/a/b", "/c", "/a/d"]),
    "behind what would cover it": (["/a/b/c", "/a"], ["/a/b"], ["/a/b/c", "/a", "/a/b*"]),
    "behind what would cover it, and before what it would": (
        ["/a/b/c", "/a", "/a/b/d"],
        ["/a/b"],
        ["/a/b/c", "/a", "/a/b*", "/a/b/d"],
    ),
    "a mount that covers another on purpose": (["/data/x", "/data"], ["/dev/gpu0"], ["/data/x", "/data", "/dev/gpu0*"]),
    "new ones inside each other": (["/a/b/c"], ["/a/b", "/a"], ["/a*", "/a/b*", "/a/b/c"]),
    "new ones of one depth keep their order": ([], ["/b", "/a"], ["/b*", "/a*"]),
    "a name that only begins alike": (["/ab"], ["/a"], ["/ab", "/a*"]),
    "in place of the same text": (["/a", "/a", "/b"], ["/a"], ["/a", "/b", "/a*"]),
    "other texts of a path": (["//a//b/", "a/c"], ["/a"], ["/a*", "//a//b/", "a/c"]),
    "the root": (["/a"], ["/"], ["/*", "/a"]),
    "behind the root": (["/a", "/"], ["/a/b"], ["/a", "/", "/a/b*"]),
}


@pytest.mark.parametrize(("present", "added", "wanted"), CASES.values(), ids=CASES.keys())
def test_b24_what_is_there_keeps_its_order(present: list[str], added: list[str], wanted: list[str]) -> None:
    """All mounts were sorted by depth once a device came in: a tmpfs over /data then stood before /data/x.

    What it covered, a secret for example, was to be seen; runc's tests of the order of mounts failed with a device.
    """
    assert _put(present, added) == wanted


PATHS = st.lists(st.lists(st.sampled_from("ab"), max_size=3).map(lambda parts: "/" + "/".join(parts)), max_size=6)


@given(PATHS, PATHS)
def test_no_new_mount_is_covered_and_none_covers_what_was_to_be_seen(present: list[str], added: list[str]) -> None:
    added = list(dict.fromkeys(added))
    before = [path for path in present if path not in added]
    result = _put(before, added)
    assert [path for path in result if not path.endswith("*")] == before
    for index, path in enumerate(result):
        covering = [later for later in result[index + 1 :] if _is_at_or_above(later, path)]
        if path.endswith("*"):
            assert covering == []
        elif covering and all(later.endswith("*") for later in covering):
            raise AssertionError(f"{path} is covered by {covering}")


def _is_at_or_above(one: str, other: str) -> bool:
    above, below = clean(one.rstrip("*") or "/"), clean(other.rstrip("*") or "/")
    return f"{below}/".startswith(f"{above.rstrip('/')}/")


def test_items_that_are_no_mounts_stay() -> None:
    present = [3, {"destination": 4}, {"destination": "/a/b"}]
    assert _with(present, _entries("/a")) == [3, {"destination": 4}, {"destination": "/a"}, {"destination": "/a/b"}]
    with pytest.raises(CdiError, match="mounts must be a list"):
        _with({}, _entries("/a"))
