"""What every test stands on: the installed package, a machine of its own, and no silent skip in CI."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ownmachine
import pytest
from packagecopy import copy_package

import shim

OWN_MACHINE = pytest.StashKey[bool]()
LEFT_OUT = "left out: device nodes need root of the machine"
# marker -> what its tests do that needs root of the machine
PRIVILEGED = {
    "engine": "start a low-level runtime or an engine",
    "rootful": "are about what shim does as the host's root",
    "other_user": "become another user",
}
PRIVILEGED_COUNTS = pytest.StashKey[dict[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    """Leave the machine as it is, and whatever lies there out of account."""
    config.stash[OWN_MACHINE] = ownmachine.enter()
    # A shell starts what runs in the background with both ignored, and every program of a test would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if not ownmachine.is_root_of_the_machine():
        os.mknod = _mknod


def _mknod(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    mode: int = 0o600,
    device: int = 0,
    *,
    dir_fd: int | None = None,
    made: Any = os.mknod,
) -> None:
    """os.mknod where no device nodes can be made: in a user namespace, and for others than root."""
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        pytest.skip(LEFT_OUT)
    made(path, mode, device, dir_fd=dir_fd)


def pytest_report_header(config: pytest.Config) -> str:
    """Which /etc, /run and /var/log the tests see."""
    own = config.stash[OWN_MACHINE]
    return "machine: " + ("a mount namespace of this session" if own else "this one, with its /etc, /run and /var/log")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a run without root has left out, in numbers."""
    if ownmachine.is_root_of_the_machine():
        return
    skipped = len(terminalreporter.stats.get("skipped", []))
    counts = terminalreporter.config.stash[PRIVILEGED_COUNTS] | {"make device nodes": skipped}
    shown = ", ".join(f"{count} {reason}" for reason, count in counts.items())
    terminalreporter.write_line(f"without root of the machine {sum(counts.values())} tests were left out: {shown}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test ./shim instead of the installed package: the C core and the launcher exist only there."""
    if Path(shim.__file__).is_relative_to(session.config.rootpath / "shim"):
        raise pytest.UsageError("the tests must import the installed package: run them by `make test`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is no part of this run.

    What is too long for `make test`, unless `-m` names it, as `make nightly` does; and where this is not root of the
    machine, what needs that.
    """
    if "nightly" not in config.option.markexpr:
        _leave_out(config, items, "nightly")
    privileged = {} if ownmachine.is_root_of_the_machine() else PRIVILEGED
    config.stash[PRIVILEGED_COUNTS] = {reason: _leave_out(config, items, name) for name, reason in privileged.items()}


def _leave_out(config: pytest.Config, items: list[pytest.Item], marker: str) -> int:
    """Remove the tests with a marker. Returns how many there were."""
    left_out = [item for item in items if item.get_closest_marker(marker)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker(marker)]
    return len(left_out)


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
