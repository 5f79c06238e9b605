"""The form is decided anew when the engine's files change, or its daemon is another process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.node.plugin.form import Form
from shim.node.plugin.service import FormNow


@pytest.fixture
def daemon() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_it_is_decided_again_when_something_changes(tmp_path: Path, daemon: subprocess.Popen[bytes]) -> None:
    file = tmp_path / "config.toml"
    file.write_text("")
    decided: list[Form] = []

    def decide() -> Form:
        name = "annotation" if not decided else "cdi"
        decided.append(Form(name, "", (), (str(file),), (daemon.pid,)))
        return decided[-1]

    now = FormNow(decide)
    assert (now.form.form, now.check(), len(decided)) == ("annotation", False, 1)
    file.write_text("enable_cdi = true\n")
    assert (now.check(), now.form.form, len(decided)) == (True, "cdi", 2)
    assert (now.check(), len(decided)) == (False, 2)
    file.unlink()
    assert (now.check(), len(decided)) == (False, 3), "decided, and the form is the same"
    daemon.kill()
    daemon.wait()
    assert (now.check(), len(decided)) == (False, 4)
    assert (now.check(), len(decided)) == (False, 4)
