"""The tests' own machine: what they leave stays in their namespace, and what lies on this machine stays outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ownmachine
import pytest

PLACES = ("/etc/shim", "/etc/cdi", "/run/shim", "/run/cdi", "/var/log")


@pytest.fixture
def files() -> Iterator[list[Path]]:
    """A file in each directory, as a machine with an installed shim has them; they are those of this session."""
    files = [Path(place, "test-ownmachine") for place in PLACES]
    missing = [file.parent for file in files if not file.parent.is_dir()]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("there")
    yield files
    for file in files:
        file.unlink()
    for directory in missing:
        directory.rmdir()


INSIDE = """
import sys
from pathlib import Path
import ownmachine

assert ownmachine.enter()
for path in map(Path, sys.argv[1:]):
    print(path.exists())
    path.parent.mkdir(exist_ok=True)
    path.write_text("changed")
print(Path("/etc/passwd").read_text() != "")
"""


def test_d12_tests_used_the_shim_that_was_installed_on_the_machine(files: list[Path]) -> None:
    """Two failed where one was: they read /usr/local/bin and /etc of the machine, and others left files there."""
    command = [sys.executable, "-c", INSIDE, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(ownmachine.__file__).parent)
    assert done.stdout.split() == ["False"] * len(files) + ["True"]
    assert [file.read_text() for file in files] == ["there"] * len(files)
