"""Fixtures of the installation tests: the image that `make install` takes, a machine for each module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from engines.harness.sandbox import Sandbox
from install.machine import IMAGE, Machine, make

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
