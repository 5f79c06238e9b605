"""What the machine says to the engines' modules, and whose word counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shim.host.host import Daemon, Host

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start `sleep` under another name; it ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(program: Path, *, called: str = "", user: int = 0) -> subprocess.Popen[bytes]:
        argv = [called or str(program), "60"]
        started.append(subprocess.Popen(argv, executable=program, user=user or None))
        deadline = time.monotonic() + 20
        while os.readlink(f"/proc/{started[-1].pid}/exe") != str(program) and time.monotonic() < deadline:
            time.sleep(0.01)
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def program(trusted_path: Path) -> Path:
    """A program of root's, which every user can start."""
    trusted_path.chmod(0o755)
    return Path(shutil.copy("/bin/sleep", trusted_path / "shim-test-daemon"))


def _seen() -> list[Daemon]:
    return Host().daemons("shim-test-daemon")


def test_a_daemon_of_roots_is_seen_with_its_start(start: Start, program: Path) -> None:
    before = time.time()
    process = start(program)
    (daemon,) = _seen()
    assert (daemon.pid, daemon.argv, daemon.user) == (process.pid, (str(program), "60"), 0)
    assert before - 1 < daemon.started < time.time() + 1
    assert daemon.cwd == os.getcwd()
    assert daemon.path == os.environ["PATH"]


def test_one_file_with_many_names_is_the_one_by_which_it_was_called(start: Start, program: Path) -> None:
    """k3s is its containerd, its kubelet and its kubectl."""
    link = program.with_name("shim-test-other")
    link.symlink_to(program.name)
    start(program, called="shim-test-other")
    (daemon,) = Host().daemons("shim-test-other")
    assert daemon.argv[0] == str(link)


def test_one_that_was_upgraded_since_is_still_seen(start: Start, program: Path) -> None:
    start(program)
    Path(shutil.copy("/bin/sleep", program.with_name("new"))).replace(program)
    (daemon,) = _seen()
    assert daemon.argv[0] == str(program)


def test_a_name_that_a_process_gives_itself_does_not_count(start: Start, program: Path) -> None:
    """Its `--config` would be written to, and its program asked for a version, as root."""
    start(Path(shutil.copy("/bin/sleep", program.with_name("something"))), called=str(program))
    assert _seen() == []


def test_a_program_that_others_can_write_does_not_count(start: Start, program: Path) -> None:
    program.chmod(0o777)
    start(program)
    assert _seen() == []


def test_a_process_of_another_user_does_not_count(start: Start, program: Path) -> None:
    start(program, user=4242)
    assert _seen() == []


def test_a_process_below_another_root_does_not_count(start: Start, program: Path, tmp_path: Path) -> None:
    """A container's own containerd: root's, and its path leads to another file here, or to none."""
    shutil.copy("/bin/sleep", tmp_path / program.name)
    script = f"mount --bind {tmp_path} {program.parent} && exec {program} 60"
    process = subprocess.Popen(["unshare", "--mount", "/bin/sh", "-c", script])
    try:
        deadline = time.monotonic() + 20
        while program.name not in os.readlink(f"/proc/{process.pid}/exe") and time.monotonic() < deadline:
            time.sleep(0.01)
        assert program.name in Path(f"/proc/{process.pid}/cmdline").read_text()
        assert _seen() == []
    finally:
        process.kill()
        process.wait()


def test_a_process_in_another_pid_namespace_does_not_count(program: Path) -> None:
    """A docker in docker that sees the machine's own files, as the engine tests have it."""
    process = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", program, "60"])
    try:
        deadline = time.monotonic() + 20
        while not _running(program) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert _running(program)
        assert _seen() == []
    finally:
        process.kill()
        process.wait()


def _running(program: Path) -> bool:
    return any(os.path.realpath(entry) == str(program) for entry in Path("/proc").glob("[0-9]*/exe"))


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1", (1, 6, 20)),
        ("containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7", (2, 1, 4)),
        ("Docker version 20.10.24+dfsg1, build 297e128", (20, 10, 24)),
        ("podman version 4.3.1", (4, 3, 1)),
        ("nothing", ()),
    ],
)
def test_the_version_of_a_program(tmp_path: Path, said: str, version: tuple[int, ...]) -> None:
    script = tmp_path / "program"
    script.write_text(f"#!/bin/sh\necho '{said}'\n")
    script.chmod(0o755)
    assert Host().version(str(script)) == version


def test_a_pattern_stays_in_its_directory_and_sees_files_to_come(tmp_path: Path) -> None:
    for name in ("d/b.toml", "d/a.toml", "d/x/c.toml", "d/a.conf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    host = Host(str(tmp_path)).with_files({"/d/new.toml": b"", "/d/a.toml": None})
    assert host.glob("/d/*.toml") == ["/d/b.toml", "/d/new.toml"]
