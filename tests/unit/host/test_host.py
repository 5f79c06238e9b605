"""A machine, and its fake: a directory, with files, links and processes that are to be taken as there."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.host import host as host_module
from shim.host.host import Daemon, Host
from shim.host.nodes import node_of

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start `sleep` under another name; it ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(program: Path, *, called: str = "", user: int = 0) -> subprocess.Popen[bytes]:
        argv = [called or str(program), "60"]
        started.append(subprocess.Popen(argv, executable=program, user=user or None))
        deadline = time.monotonic() + 20
        # an execve(2) that has closed our pipe has not set the arguments yet
        line = Path(f"/proc/{started[-1].pid}/cmdline")
        while not line.read_bytes().endswith(b"\x0060\x00") and time.monotonic() < deadline:
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


# --- files: below a directory as on the machine itself ------------------------------------------------------------


@pytest.fixture
def tree(trusted_path: Path) -> Path:
    """The files of a machine, below a directory that root alone can write."""
    for name, text in {"etc/a": "one\n", "sys/size": " 42 \n", "usr/bin/tool": "", "bin/other": ""}.items():
        (trusted_path / name).parent.mkdir(parents=True, exist_ok=True)
        (trusted_path / name).write_text(text)
    (trusted_path / "usr/bin/tool").chmod(0o755)
    (trusted_path / "etc/link").symlink_to("a")
    (trusted_path / "etc/dangling").symlink_to("/etc/none")
    return trusted_path


def test_files_are_read_below_the_root(tree: Path) -> None:
    host = Host(str(tree))
    assert (host.read("/etc/a"), host.read("/etc/link"), host.read("/etc/none")) == (b"one\n", b"one\n", None)
    assert (host.readlink("/etc/link"), host.readlink("/etc/a")) == ("a", None)
    assert [host.exists(path) for path in ("/etc/a", "/etc", "/etc/dangling")] == [True, True, False]
    assert host.modified("/etc/a") == (tree / "etc/a").stat().st_mtime
    assert host.modified("/etc/none") == 0.0


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/sys/size", "42"), ("/etc/none", ""), ("/etc", ""), ("/etc/dangling", ""), ("/etc/a\0", "")],
    ids=["a number of the kernel", "nothing", "a directory", "a link to nothing", "what can be no path"],
)
def test_a_small_text_is_empty_where_there_is_none(tree: Path, path: str, expected: str) -> None:
    assert Host(str(tree)).text(path) == expected


def test_what_is_no_file_or_too_large_is_an_error_and_not_taken_for_missing(tree: Path) -> None:
    os.mkfifo(tree / "etc/fifo")
    with (tree / "etc/large").open("wb") as file:
        file.truncate((4 << 20) + 1)
    for path in ("/etc", "/etc/fifo", "/etc/large"):
        with pytest.raises(CdiError) as caught:
            Host(str(tree)).read(path)
        assert (caught.value.findings[0].id, caught.value.findings[0].path) == ("ENGINE_CONFIG_UNREADABLE", path)


def test_one_file_with_two_paths_is_the_same(tree: Path) -> None:
    host = Host(str(tree))
    assert host.is_same_file("/etc/a", "/etc/link")
    assert not host.is_same_file("/etc/a", "/sys/size")
    assert not host.is_same_file("/etc/a", "/etc/dangling")


def test_trust_and_nodes_look_through_it(tree: Path) -> None:
    """Judged by the paths of the machine: those of the directory above the root do not count."""
    host = Host(str(tree))
    assert node_of(host.look.lstat("/etc/a"))[0] == "", "no device"
    assert stat.S_ISLNK(host.look.lstat("/etc/link").st_mode)
    assert host.objection("/etc/a") == ""
    (tree / "etc/a").chmod(0o666)
    assert "/etc/a" in host.objection("/etc/a")
    assert str(tree) not in host.objection("/etc/a")


def test_programs_are_found_where_they_can_be_executed(tree: Path) -> None:
    host = Host(str(tree), environment={"PATH": "/bin:relative"})
    assert host.find("none", "tool") == "/usr/bin/tool"
    assert host.find("other") == "", "it has no mode to execute"
    (tree / "bin/other").chmod(0o755)
    assert host.find("other") == "/bin/other"
    assert host.find("/usr/bin/tool") == "/usr/bin/tool"
    (tree / "bin/tool").hardlink_to(tree / "usr/bin/tool")
    assert host.every("tool") == ["/usr/bin/tool"], "each file once"


def test_no_program_of_another_root_is_started(tree: Path) -> None:
    (tree / "usr/bin/tool").write_text("#!/bin/sh\necho 1.2.3\n")
    host = Host(str(tree))
    assert (host.ask("/usr/bin/tool"), host.refusal("/usr/bin/tool"), host.version("/usr/bin/tool")) == (None, "", ())
    assert host.daemons("tool") == []
    assert Host().ask(str(tree / "usr/bin/tool")) == "1.2.3\n", "positive control"


def test_files_and_links_to_come_are_there_and_others_are_what_they_were(tree: Path) -> None:
    host = Host(str(tree)).with_files({"/etc/a": None, "/etc/new": b"two"}, {"/etc/link": "new"})
    assert (host.read("/etc/a"), host.exists("/etc/a"), host.read("/etc/new")) == (None, False, b"two")
    assert host.readlink("/etc/link") == "new"
    assert (host.is_overlaid("/etc/new"), host.is_overlaid("/sys/size"), host.text("/sys/size")) == (True, False, "42")
    assert not (tree / "etc/new").exists()


def test_processes_can_be_given() -> None:
    older, newer = Daemon(9, ("/usr/bin/x", "-c", "/c"), 1.0), Daemon(7, ("x", "--config=/d"), 2.0)
    host = Host("/nonexistent", daemons=[newer, older, Daemon(8, ("/usr/bin/y",), 0.0)])
    assert host.daemons("x") == [older, newer], "the oldest first"
    assert [one.option("-c", "--config") for one in (older, newer)] == ["/c", "/d"]


def test_c14_a_directory_of_path_that_cannot_be_looked_into_holds_no_program(tmp_path: Path) -> None:
    """Without root a PATH with a directory closed to the user ended `configure`, naming a file that does not exist."""
    too_long = "/" + "a" * 5000  # as closed to root as another user's directory is to a user
    host = Host(environment={"PATH": f"{too_long}:{tmp_path}"})
    assert host.find("shim-test-nothing") == ""
    assert host.every("shim-test-nothing") == []
    assert host.find_in("shim-test-nothing", too_long) == ""
    shutil.copy("/bin/true", tmp_path / "shim-test-nothing")
    assert host.find("shim-test-nothing") == str(tmp_path / "shim-test-nothing")


def test_processes_are_read_once_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[bool] = []

    def processes(*, of_every_user: bool) -> Iterator[Daemon]:
        reads.append(of_every_user)
        return iter([])

    monkeypatch.setattr(host_module, "_processes", processes)
    host = Host().at_once()
    for of_every_user in (False, True, False, True):
        host.daemons("x", of_every_user=of_every_user)
    assert reads == [False, True]
    Host().daemons("x")
    Host().daemons("x")
    assert len(reads) == 4
