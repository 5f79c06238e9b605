"""A machine with devices of the vendor of tests, and nothing wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.discover import acme
from unit.doctor.hosts import Patient

from shim.discover import vendors


@pytest.fixture
def patient(trusted_path: Path, launcher: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    """The healthy machine; its vendor alone is known."""
    monkeypatch.setattr(vendors, "MODULES", {"acme": acme.MODULE})
    monkeypatch.setenv("PATH", "/nowhere")
    return Patient(trusted_path, launcher)
