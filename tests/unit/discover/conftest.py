"""A vendor of tests that alone is known, and a machine with two of its devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.discover import acme

from shim.discover import vendors
from shim.host.host import Host


@pytest.fixture
def only_acme(monkeypatch: pytest.MonkeyPatch) -> None:
    """No vendor but the one of tests."""
    monkeypatch.setattr(vendors, "MODULES", {"acme": acme.MODULE})


@pytest.fixture
def top(trusted_path: Path) -> Path:
    """The root of a machine, where root alone can write: what lies below it is trusted."""
    return trusted_path


@pytest.fixture
def host(top: Path) -> Host:
    """A machine with the devices 0 and 1."""
    return acme.machine(top, "0", "1")
