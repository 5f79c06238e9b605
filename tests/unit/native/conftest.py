"""What all tests of the C parts stand on."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest

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
