"""What all tests of the C parts stand on."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.native.repeat_host import DIRECTORY, LINK, SPECS, Host

_M_PERTURB = -6  # malloc.h


@pytest.fixture(scope="session", autouse=True)
def freed_memory_is_overwritten() -> Iterator[None]:
    """What the C core reads after it was freed, or before it was written, is noise at once, not what once stood there.

    The name of a lent directory was read from the listing of a directory that had been closed: every test passed, since
    the memory was as it had been, and only `make sanitize` told. With this the test of that mount fails.
    """
    libc = ctypes.CDLL(None)
    # a sanitizer has its own malloc, which knows better and takes no option
    assert libc.mallopt(_M_PERTURB, 0xA5) == 1 or "SANITIZER" in os.environ
    yield
    libc.mallopt(_M_PERTURB, 0)


@pytest.fixture
def host(trusted_path: Path, launcher: Path) -> Iterator[Host]:
    """A host whose creates are repeated; nothing was decided yet."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    host = Host(trusted_path, launcher)
    yield host
    for path in (host.spec, LINK):
        path.unlink(missing_ok=True)
    for path in (Path("/etc/shim/config.toml"), SPECS / "more.json"):
        path.unlink(missing_ok=True)
