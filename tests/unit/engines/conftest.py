"""What the tests of engines' configuration stand on: a launcher that root alone can write, and a state directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.engines import trees

from shim.engines import undo_records
from shim.host.host import Host


@pytest.fixture
def shim_path(trusted_path: Path, launcher: Path) -> Path:
    """A launcher with an interpreter and modules, as `make install` places them; with links for both runtimes."""
    top = trusted_path / "usr"
    (top / "bin").mkdir(parents=True)
    for name in ("shim", "empty"):
        (top / "lib/shim/1-1" / name).mkdir(parents=True)
    (top / "lib/shim/1-1/shim/module.py").write_text("")
    (top / "lib/shim/launch").write_text(f"/usr/bin/python3\n{top}/lib/shim/1-1\n")
    shutil.copy(launcher, top / "bin/shim")
    for name in ("shim-runc", "shim-crun"):
        (top / "bin" / name).symlink_to("shim")
    return top / "bin/shim"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Records lie in a directory of the test's own."""
    place = tmp_path / "state"
    monkeypatch.setattr(undo_records, "SYSTEM_DIRECTORY", str(place))
    yield place


@pytest.fixture
def stub_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of the trees in tests/configs have the versions that they would say."""
    monkeypatch.setattr(Host, "version", trees.stub_version)
