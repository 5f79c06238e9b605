"""Fixtures of the installation tests: the image that `make install` takes, a machine for each module."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from engines.harness.sandbox import Sandbox
from install.machine import IMAGE, TOP, Machine, make

from shim.node import placement


@pytest.fixture(scope="session", autouse=True)
def umask() -> Iterator[None]:
    """What the tests themselves write can be read by the unprivileged user."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def image() -> Path:
    """The image of the working tree, made if it is older than the tree."""
    make("build/image")
    return IMAGE


@pytest.fixture(scope="session")
def installer() -> ModuleType:
    return placement


@pytest.fixture(scope="module")
def machine(image: Path) -> Iterator[Machine]:
    """A machine that sees the image."""
    assert image.is_dir()
    with Sandbox() as sandbox:
        yield Machine(sandbox)


@pytest.fixture(scope="session")
def portable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make wheel` builds in a clean clone of the last commit, with the tools of this environment."""
    clone = tmp_path_factory.mktemp("wheel") / "clone"
    subprocess.run(["git", "clone", "-q", f"file://{TOP}", clone], check=True)
    tools = Path(sys.prefix)
    printed = make("wheel", f"VENV={tools}", "-o", f"{tools}/builder", cwd=clone)
    assert " bytes, unpacked " in printed
    return clone / "dist"
