"""Labels again at each change of the host, until a signal comes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.base.findings import CdiError, Finding
from shim.discover import remembered
from shim.host.host import Host
from shim.node.labels import watch


@pytest.fixture(autouse=True)
def blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    watch.block()
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def repeated(tmp_path: Path, *signals: int, interval: float = 60.0) -> int:
    """How often labels are written when signals arrive, each at the next pause."""
    coming = list(signals)
    updates = []

    def wait(_seconds: float) -> None:
        os.kill(os.getpid(), coming.pop(0))
        watch.pause(5)

    watch.repeat(Host(str(tmp_path)), lambda: updates.append(1), interval, wait)
    assert coming == []
    return len(updates)


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(tmp_path: Path, ends: int) -> None:
    assert repeated(tmp_path, ends) == 1


def test_a_hangup_does_it_again(tmp_path: Path) -> None:
    assert repeated(tmp_path, signal.SIGHUP, signal.SIGHUP, signal.SIGTERM) == 3


def test_it_is_done_again_after_the_interval_and_at_a_change(tmp_path: Path) -> None:
    updates: list[int] = []
    pauses = iter(range(100))

    def wait(_seconds: float) -> None:
        number = next(pauses)
        if number == 3:  # behind the two pauses of the first interval
            (tmp_path / "sys/class/drm/card0").mkdir(parents=True)
        if number == 12:
            os.kill(os.getpid(), signal.SIGTERM)
            watch.pause(5)

    watch.repeat(Host(str(tmp_path)), lambda: updates.append(1), 1.0, wait)
    assert len(updates) >= 3


def test_a_damaged_memory_of_specs_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(_host: Host) -> list[Any]:
        raise CdiError([Finding("DISCOVERY_STATE", "it is damaged")])

    monkeypatch.setattr(remembered, "every", damaged)
    assert repeated(tmp_path, signal.SIGHUP, signal.SIGTERM) == 2


def test_a_pause_without_a_signal_ends() -> None:
    watch.pause(0.01)
