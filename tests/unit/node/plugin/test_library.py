"""grpcio and protobuf: found in a distribution's directory, and named with a remedy where they are missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import shim
from shim.base.findings import CdiError
from shim.cli import node_plugin
from shim.host import privileges
from shim.node.plugin import library
from shim.node.plugin.journal import Journal


def test_without_grpc_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(CdiError) as refused:
        library.load()
    (finding,) = refused.value.findings
    assert finding.id == "PLUGIN_LIBRARY"
    assert "cdi-shim[node]" in finding.remedy


@pytest.mark.parametrize("command", [["node", "plugin", "--help"], ["node", "plugin", "--dry-run"], ["cdi", "list"]])
def test_grpc_is_loaded_to_serve_and_for_nothing_else(command: list[str], tmp_path: Path) -> None:
    """Whatever loads it writes a word, by a module of this name in front of all others."""
    (tmp_path / "grpc.py").write_text("import os\nos.write(2, b'LOADED')\n")
    modules = str(Path(shim.__file__).parent.parent)
    path = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {modules!r}]"
    code = f"{path}; from shim.cli import main; main(['shim', *{command!r}])"
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=False)
    assert "LOADED" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_distributions_directory_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Python is started without `site`, so what lies there is not on its path."""
    (tmp_path / "shim_test_library.py").write_text("")
    monkeypatch.setattr(library, "_MODULES", ("shim_test_library",))
    monkeypatch.setattr("site.getsitepackages", lambda prefixes: [str(tmp_path)])  # noqa: ARG005 - its interface
    monkeypatch.setattr(sys, "path", [*sys.path])
    library.load()
    assert "shim_test_library" in sys.modules
    assert sys.path[-1] == str(tmp_path), "behind all others"
    del sys.modules["shim_test_library"]


@pytest.mark.parametrize(
    ("error", "text"),
    [(ImportError("No module named 'prctl'"), "pip install python-prctl"), (PermissionError(1, "no"), "seccomp")],
)
def test_privileges_that_cannot_be_dropped_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, text: str
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(privileges, "drop", refuse)
    with (tmp_path / "log").open("wb") as log:
        node_plugin._drop(Journal(log.fileno()))
    event = json.loads((tmp_path / "log").read_text())
    assert event["id"] == "PLUGIN_PRIVILEGE"
    assert text in event["message"]
