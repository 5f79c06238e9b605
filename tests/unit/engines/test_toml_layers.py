"""Files that are decoded one over the other, as CRI-O's and podman's TOML library does it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.base.findings import CdiError
from shim.engines import toml_layers
from shim.host.host import Host

MAPS = (("a", "runtimes"),)


def read(*texts: str) -> list[toml_layers.Layer]:
    files = {f"/{number}": text.encode() for number, text in enumerate(texts)}
    return toml_layers.read(Host("/nonexistent", files, daemons=[]), [*files, "/missing"], MAPS)


@pytest.mark.parametrize(
    ("texts", "merged"),
    [
        (["[a]\nx = 1\ny = 1", "[a]\ny = 2"], {"a": {"x": 1, "y": 2}}),
        (["[a]\nx = [1, 2]", "[a]\nx = [3]"], {"a": {"x": [3]}}),
        (
            ["[a.runtimes.n]\nx = 1\n[a.runtimes.m]", "[a.runtimes.n]\ny = 2"],
            {"a": {"runtimes": {"n": {"y": 2}, "m": {}}}},
        ),
        (["[A]\nX = 1", "[a]\nx = 2"], {"a": {"x": 2}}),
        (["[a]\nx = 1\nX = 2"], {"a": {"x": 1}}),  # the key in its own letters comes first
        (["[a.runtimes.N]\n[a.runtimes.n]"], {"a": {"runtimes": {"N": {}, "n": {}}}}),
        (["a = 1", "[a]\nx = 1"], {"a": {"x": 1}}),
        (["[a]\nx = 1", "a = 1"], {"a": 1}),
        ([], {}),
    ],
)
def test_what_files_come_to(texts: list[str], merged: dict[str, Any]) -> None:
    assert toml_layers.merge(read(*texts), MAPS) == merged


_VALUES = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from(["a", "runtimes", "n"]), inner, max_size=3)
)
_DOCUMENTS = st.lists(st.dictionaries(st.sampled_from(["a", "b"]), _VALUES, max_size=2), max_size=4)


@given(_DOCUMENTS)
def test_merging_leaves_the_files_as_they_are_and_the_last_word_counts(documents: list[dict[str, Any]]) -> None:
    found = [toml_layers.Layer(str(number), "", document) for number, document in enumerate(documents)]
    before = repr(documents)
    merged = toml_layers.merge(found, MAPS)
    assert repr(documents) == before
    for key, value in (documents[-1] if documents else {}).items():
        assert not isinstance(value, int) or merged[key] == value


def test_the_file_that_has_the_last_word_and_its_line() -> None:
    found = read("[a]\nx = 1", "[a]\n\nx = 2", "[a]\ny = 1")
    layer = toml_layers.last(found, ("a", "x"))
    assert layer is not None
    assert (layer.path, layer.line(("a", "x"))) == ("/1", 3)
    assert toml_layers.last(found, ("a", "z")) is None


def test_a_file_that_is_no_toml_is_refused_where_it_is_read_and_passed_over_where_it_is_not() -> None:
    host = Host("/nonexistent", {"/1": b"[a", "/2": b"[a]\nx = 1"}, daemons=[])
    with pytest.raises(CdiError):
        toml_layers.read(host, ["/1", "/2"], MAPS)
    assert [one.path for one in toml_layers.setting(host, ["/1", "/2", "/3"], ("a", "x"), MAPS)] == ["/2"]
