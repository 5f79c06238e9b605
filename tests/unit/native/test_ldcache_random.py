"""The ld.so.cache of random roots is, byte for byte, what glibc's ldconfig makes of them, and it is never empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.native import calls
from unit.native.random_trees import tree
from unit.native.test_ldcache import cache, ldconfig
from unit.native.trees import build, picture

from shim.host import ldcache

SEEDS = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_root_is_as_after_ldconfig(tmp_path: Path, seed: int) -> None:
    entries = tree(seed)
    reference, ours = (build(tmp_path / kind, entries) for kind in ("reference", "ours"))
    before = picture(ours)
    ldconfig(reference)
    calls.update_ldcache(str(ours), threads=1 + seed % 4)
    assert (ours / "etc/ld.so.cache").read_bytes() == (reference / "etc/ld.so.cache").read_bytes()
    assert picture(ours, ("var",)) == picture(reference, ("var",)) != before
    assert "libcertain.so.1" in [entry.key for entry in cache(ours).entries]


def test_random_roots_have_what_is_hard(tmp_path: Path) -> None:
    """Without this all could pass because each root holds but one library."""
    decoded: list[ldcache.Entry] = []
    for seed in range(SEEDS):
        root = build(tmp_path / str(seed), tree(seed))
        calls.update_ldcache(str(root))
        decoded += cache(root).entries
    assert len(decoded) > 10 * SEEDS
    assert {"", "power9", "empty"} <= {entry.hwcaps for entry in decoded}
    assert len({entry.flags for entry in decoded}) > 1
    assert tree(1) == tree(1) != tree(2)
