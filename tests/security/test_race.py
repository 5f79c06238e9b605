"""S02: an image that changes under a hook's hands. The only claim is that nothing escapes; all else may happen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from security import evilroot, race
from security.runners import RUNNERS, Runner
from security.stage import Stage
from unit.native.trees import build

PLACES = [
    "etc",
    "etc/ld.so.conf.d",
    "etc/ld.so.cache",
    "usr",
    "usr/lib",
    "usr/lib/liba.so.1",
    "usr/lib/glibc-hwcaps",
    "usr/local/cuda/compat",
    "opt/gpu",
    "dev",
]
RUNS = 20  # at each place, and in each way: two hundred of each way in all


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


def make_fresh(stage: Stage, place: str) -> None:
    stage.clear()
    build(stage.root, evilroot.IMAGE)
    (stage.root / place).parent.mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.__name__)
def test_nothing_escapes_by_an_exchange(stage: Stage, runner: Runner, place: str) -> None:
    make_fresh(stage, place)
    with race.flipping(stage, place):
        before = stage.picture()
        for _ in range(RUNS):
            assert runner(stage, list(evilroot.WORDS)).status in {0, 1}
        after = stage.picture()
    assert after == before


@pytest.mark.parametrize("place", PLACES)
def test_the_exchange_catches_who_joins_paths(stage: Stage, place: str) -> None:
    """The control: it looks first and then writes by the same name, and sooner or later it writes outside."""
    make_fresh(stage, place)
    with race.flipping(stage, place):
        before = stage.picture()
        while stage.picture() == before:
            path = stage.root / place
            if not path.is_symlink():
                evilroot.naive(stage.root, place)
