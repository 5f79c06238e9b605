"""Which engines are on a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.engines import table
from shim.host.host import Daemon, Host


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path


def test_an_engine_is_there_when_it_is_installed_or_runs(root: Path) -> None:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/podman").touch(0o755)
    (root / "usr/bin/crio").touch(0o644)  # no program
    daemon = Daemon(7, ("/opt/docker/dockerd", "--debug"), 0.0)
    assert [engine.NAME for engine in table.found(Host(str(root), daemons=[daemon]))] == ["docker", "podman"]


def test_a_machine_without_any_is_told_which_were_looked_for(root: Path) -> None:
    with pytest.raises(CdiError, match="containerd, crio, dockerd, podman") as refused:
        table.found(Host(str(root), daemons=[]))
    assert [finding.id for finding in refused.value.findings] == ["ENGINE_MISSING"]
