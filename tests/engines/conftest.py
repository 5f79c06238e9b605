"""Fixtures of the engine tests: the launcher under test, a sandbox for each module, the fake device."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness.device import FakeDevice
from engines.harness.sandbox import Sandbox


@pytest.fixture(scope="session", autouse=True)
def umask() -> Iterator[None]:
    """What the tests write can be read by the unprivileged user, whatever the developer's own umask is."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox that sees the host's cgroup hierarchies as they are."""
    with Sandbox() as box:
        yield box


@pytest.fixture(scope="module")
def shim(sandbox: Sandbox) -> Path:
    """The launcher of the environment that runs these tests, by its path inside the sandbox."""
    installed = Path(sys.executable).parent / "shim"
    assert installed.is_file(), f"{installed} is missing: install the project into this environment first"
    return sandbox.venv / "bin/shim"


@pytest.fixture(autouse=True)
def device(sandbox: Sandbox) -> FakeDevice:
    """The fake device with its spec in /etc/cdi; nothing else in the directories that the shim reads.

    Every test begins with it, used or not: what a test leaves in those directories is gone for the next.
    """
    sandbox.reset()
    fake = FakeDevice(sandbox)
    fake.publish()
    return fake
