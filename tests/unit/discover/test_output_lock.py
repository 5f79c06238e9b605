"""Two writers of specs wait for each other, and a create can see that specs are being written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.create import stale
from shim.discover import lock
from shim.host.host import Host


def test_the_lock_is_the_one_that_a_create_looks_at(host: Host, top: Path) -> None:
    assert lock.NAME == stale.REFRESH_LOCK
    with lock.held(host):
        assert (top / "run/shim" / lock.NAME).stat().st_mode & 0o777 == 0o600
        assert (top / "run/shim").stat().st_mode & 0o777 == 0o700


def test_a_second_writer_waits_and_then_reports_it(host: Host) -> None:
    with lock.held(host), pytest.raises(CdiError, match="did not end within 0 s") as caught, lock.held(host, 0.1):
        pass
    assert caught.value.findings[0].id == "DISCOVERY_BUSY"
    with lock.held(host, 0.1):
        pass


def test_the_lock_of_others_does_not_count(host: Host, top: Path) -> None:
    (top / "run/shim").mkdir(mode=0o777)
    os.chmod(top / "run/shim", 0o777)
    with pytest.raises(CdiError, match="the directory is not ours alone"), lock.held(host):
        pass
