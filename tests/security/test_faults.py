"""Whatever goes wrong around a create, nothing is lost.

Afterwards config.json is the engine's or an edited one, a container that asks does not start without its device, and
the next create is as if nothing had happened.

The control is a careless program that writes config.json in its place: the same checks find what it loses.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from security import faults
from security.faults import PLACES, Yard

pytestmark = pytest.mark.rootful

CARELESS = """#!{python}
import json, os, sys, time
bundle = sys.argv[sys.argv.index("--bundle") + 1]
path = bundle + "/config.json"
config = json.load(open(path))
config["process"]["env"].append("GPU=0")
text = json.dumps(config, indent=1)
with open(path, "w") as file:
    for at in range(0, len(text), 500):
        file.write(text[at : at + 500])
        file.flush()
        time.sleep(0.001)
"""


@pytest.fixture
def yard(trusted_path: Path, installed: Path) -> Iterator[Yard]:
    made = Yard(trusted_path, installed)
    yield made
    made.close()


def _forget_index() -> None:
    """The next create reads the specs themselves."""
    for index in Path("/run/shim").glob("index*"):
        index.unlink()


def _problems(yard: Yard, kind: str) -> list[str]:
    """What is wrong after a create under a fault that stays for its time, and with the next one."""
    yard.write()
    done = yard.create()
    return [f"{kind}: {text}" for text in yard.verdict(done)]


def test_f15_a_create_that_is_killed_loses_nothing(yard: Yard) -> None:
    assert [wrong for wrong in faults.kills(yard, 12, seed=1) if wrong] == []


@pytest.mark.nightly
def test_f15_two_hundred_creates_that_are_killed_lose_nothing(yard: Yard) -> None:
    assert [wrong for wrong in faults.kills(yard, 200, seed=time.time_ns()) if wrong] == []


def test_f15_the_checks_find_what_a_careless_program_loses(trusted_path: Path, installed: Path) -> None:
    yard = Yard(trusted_path, installed)
    try:
        careless = trusted_path / "careless"
        careless.write_text(CARELESS.replace("{python}", sys.executable))
        careless.chmod(0o755)
        yard.program = careless
        lost = []
        for part in range(1, 20):
            yard.write()
            yard.kill(part * 0.01)
            lost += yard.verdict(None)
        assert any("neither" in text for text in lost)
        with faults.full(yard, "bundle", 1):
            yard.config.unlink()
            yard.config.write_bytes(yard.original[: faults.PAGE])
        yard.write()
        assert "a container that asks" in " ".join(_problems(yard, "the careless one"))
    finally:
        yard.close()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("left", [0, 1, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(2, 16))])
def test_f15_a_full_file_system_loses_nothing(yard: Yard, place: str, left: int) -> None:
    """With so many pages left, so that each of the writes is the one that fails."""
    yard.write()
    with faults.full(yard, place, left):
        wrong = yard.verdict(yard.create())
        _forget_index()
        wrong += yard.verdict(yard.create())
    assert wrong + yard.recover() == []


@pytest.mark.parametrize("place", PLACES)
def test_f15_a_read_only_file_system_loses_nothing(yard: Yard, place: str) -> None:
    yard.write()
    with faults.read_only(yard, place):
        wrong = yard.verdict(yard.create())
    assert wrong + yard.recover() == []


SHORT = [
    "ulimit -n 8",
    "ulimit -n 5",
    "ulimit -n 4",  # the launcher took a config.json that it could not open for one in which nothing asks
    "ulimit -v 46080",
    "ulimit -v 51200",
    "exec <&-",
    "exec >&-",
    "exec 2>&-",
    "exec <&- >&- 2>&-",
]
MORE = [
    *(f"ulimit -n {count}" for count in (3, 6, 7, 9, 10, 11, 12)),
    *(f"ulimit -v {size * 512}" for size in range(88, 200)),
]  # KiB: below 44 MiB the kernel does not execute the launcher, whose buffers are so large, and nothing is changed


@pytest.mark.parametrize("limit", [*SHORT, *(pytest.param(limit, marks=pytest.mark.nightly) for limit in MORE)])
def test_f15_short_resources_lose_nothing(yard: Yard, limit: str) -> None:
    yard.write()
    assert yard.verdict(yard.create(limit)) + yard.recover() == []


@pytest.mark.parametrize("days", [-400, -1, 1, 400])
@pytest.mark.parametrize("what", ["specs", "index", "both"])
def test_f15_a_clock_that_jumps_brings_nothing_old_back(yard: Yard, what: str, days: int) -> None:
    """What was written before has times of another age then; the spec is changed, and its new content counts."""
    moment = time.time() + days * 86400
    if what != "index":
        os.utime(yard.specs / "x.json", (moment, moment))
    yard.write()
    assert yard.create().returncode == 0
    if what != "specs":
        for index in Path("/run/shim").glob("index*"):
            os.utime(index, (moment, moment))
    yard.publish("1")
    if what != "index":
        os.utime(yard.specs / "x.json", (moment, moment))
    yard.write()
    assert yard.create().returncode == 0
    assert b"GPU=1" in yard.config.read_bytes()
    yard.publish("0")
    assert yard.recover() == []
