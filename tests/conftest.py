"""What every test stands on: the installed package, a machine of its own, and no silent skip in CI."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ownmachine
import pytest
from packagecopy import copy_package

import shim

OWN_MACHINE = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Leave the machine as it is, and whatever lies there out of account."""
    config.stash[OWN_MACHINE] = ownmachine.enter()


def pytest_report_header(config: pytest.Config) -> str:
    """Which /etc, /run and /var/log the tests see."""
    own = config.stash[OWN_MACHINE]
    return "machine: " + ("a mount namespace of this session" if own else "this one, with its /etc, /run and /var/log")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test ./shim instead of the installed package: the C core and the launcher exist only there."""
    if Path(shim.__file__).is_relative_to(session.config.rootpath / "shim"):
        raise pytest.UsageError("the tests must import the installed package: run them by `make test`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is too long for `make test` is no part of a run, unless `-m` names it, as `make nightly` does."""
    if "nightly" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A skipped test is a failure in CI: everything that the tests need is installed there."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped") and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def trusted_path() -> Iterator[Path]:
    """A temporary directory in which root's specs count: pytest's own lies below /tmp, which everybody can write."""
    with tempfile.TemporaryDirectory(prefix="shim-test-", dir="/var/lib") as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def launcher() -> Path:
    """The installed launcher."""
    return Path(sys.executable).parent / "shim"


@pytest.fixture(scope="session")
def modules() -> Path:
    """The directory that holds the installed package."""
    return Path(shim.__file__).parent.parent


@pytest.fixture
def copied(trusted_path: Path) -> Path:
    """A directory with a copy of the installed package, where root alone can write."""
    return copy_package(trusted_path).parent


@pytest.fixture
def installed(trusted_path: Path, launcher: Path, modules: Path) -> Path:
    """The launcher as `make install` places it, where root alone can write: wherever the tree under test lies.

    A hook of a spec counts only there, and a clone below /tmp is no such place.
    """
    for name in ("bin", "lib/shim"):
        (trusted_path / "installed" / name).mkdir(parents=True)
    (trusted_path / "installed/lib/shim/launch").write_text(f"{sys.executable}\n{modules}\n")
    return Path(shutil.copy(launcher, trusted_path / "installed/bin/shim"))
