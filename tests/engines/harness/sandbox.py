"""Throw-away namespaces in which engines can leave nothing behind.

A sandbox is one `unshare` child (mount, pid, net, ipc, uts) that lives as long as the object; commands enter it with
nsenter, so the test itself stays an ordinary pytest test outside. Files below the scratch directory are the same on
both sides. Cgroup directories are the one thing that is not namespaced: everything is put below `cgroup`, which close()
removes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple

from . import inside, programs

USER = "shim-tests"  # no user of a machine has this name
UID = 4242

_NAMESPACES = ["--mount", "--pid", "--net", "--ipc", "--uts"]  # for unshare and nsenter alike


class Result(NamedTuple):
    """What a command left: exit status, standard output and standard error."""

    status: int
    out: str
    err: str

    def ok(self) -> str:
        """Standard output of a command that must have succeeded; raises AssertionError with everything otherwise."""
        assert self.status == 0, f"exit status {self.status}\n{self.out}\n{self.err}"
        return self.out


class Sandbox:
    """Private namespaces over the directory `scratch`.

    Arguments:
        cgroup_mode: "hybrid" leaves the host's hierarchies as they are, "v1" hides the unified one (crun).
    """

    def __init__(self, cgroup_mode: Literal["hybrid", "v1"] = "hybrid") -> None:
        programs.need_root()
        unshare, self._nsenter, _, _ = programs.find("unshare", "nsenter", "setpriv", "ip")
        # Short: dockerd puts sockets below it, and the name of a Unix socket has 107 bytes at most.
        self.scratch = Path(tempfile.mkdtemp(prefix="e", dir="/tmp"))
        self.scratch.chmod(0o755)
        for name in ("etc-cdi", "run-cdi", "etc-shim", "host", "home", "log", "tmp"):
            (self.scratch / name).mkdir()
        (self.scratch / "tmp").chmod(0o1777)
        self.cgroup = f"/shim-tests-{self.scratch.name}"
        first = [sys.executable, "-I", "-S", inside.__file__]
        arguments = [str(self.scratch), sys.prefix, cgroup_mode, f"{USER}:{UID}"]
        self._process = subprocess.Popen(
            [unshare, *_NAMESPACES, "--fork", "--kill-child=KILL", "--mount-proc", "--", *first, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment(),
            start_new_session=True,  # Ctrl-C in the terminal is pytest's: it closes the sandbox in its own order
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            self.close()
            raise RuntimeError("the sandbox could not be arranged; its messages stand above")
        pid = self._process.pid
        self._first = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").strip()

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The whole environment of commands inside: nothing of the developer's own gets in."""
        base = {
            "PATH": programs.SEARCH,
            "LANG": "C.UTF-8",
            "HOME": f"{self.scratch}/home",
            "TMPDIR": f"{self.scratch}/tmp",
        }
        return {**base, **(extra or {})}

    @property
    def venv(self) -> Path:
        """Where the environment under test is seen inside: a path of root's that every user may enter."""
        return inside.PRIVATE / "venv"

    @property
    def host(self) -> Path:
        """Where the directory `scratch/host` is seen inside: trusted files such as hooks, and the sources of mounts."""
        return inside.PRIVATE / "host"

    def command(self, *argv: str | Path, cwd: str | Path = "/", user: str | None = None) -> list[str]:
        """The argument list that runs argv inside, in the directory cwd, as root or as the user named."""
        enter = [self._nsenter, f"--target={self._first}", *_NAMESPACES, f"--wdns={cwd}"]
        change: list[str] = []
        if user is not None:
            # The bounding set stays: newuidmap is a set-user-id program and needs it.
            change = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all"]
        return [*enter, "--", *change, *(str(word) for word in argv)]

    def run(
        self,
        *argv: str | Path,
        cwd: str | Path = "/",
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout: float = 120,
    ) -> Result:
        """Run a command inside and wait for it; raises subprocess.TimeoutExpired after timeout seconds.

        Its output goes through files: a container or monitor that lives on would hold a pipe and be waited for.
        """
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            done = subprocess.run(
                self.command(*argv, cwd=cwd, user=user),
                stdin=given,
                stdout=out,
                stderr=err,
                env=self.environment(env),
                timeout=timeout,
                check=False,
            )
            out.seek(0)
            err.seek(0)
            return Result(done.returncode, out.read().decode(errors="replace"), err.read().decode(errors="replace"))

    def link_low_level(self, name: str, runtime: str) -> None:
        """Choose the low-level runtime of the launcher called `name`: the link /etc/shim/low-level/NAME."""
        link = self.scratch / "etc-shim/low-level" / name
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(runtime)

    def reset(self) -> None:
        """Empty the directories in which the shim looks for specs, links and settings."""
        for name in ("etc-cdi", "run-cdi", "etc-shim"):
            for entry in (self.scratch / name).iterdir():
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    def close(self) -> None:
        """End every process inside, then remove the scratch directory and the cgroups; raises if a cgroup stays."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        try:
            wait_until(self._no_cgroups, "the cgroups of the sandbox are gone")
        finally:
            shutil.rmtree(self.scratch)

    def _no_cgroups(self) -> bool:
        top = Path("/sys/fs/cgroup")
        places = [top / self.cgroup[1:], *(entry / self.cgroup[1:] for entry in top.iterdir() if entry.is_dir())]
        left = [place for place in places if place.is_dir()]
        for place in left:
            for directory, _, _ in os.walk(place, topdown=False):
                try:
                    Path(directory).rmdir()
                except OSError:  # a process in it is still on its way out
                    continue
        return not any(place.is_dir() for place in left)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Daemon:
    """A long-running program inside a sandbox, stopped by its own pid.

    Arguments:
        ready: asked again and again until it answers true.
    Raises RuntimeError with the end of its log when it ends before it is ready.
    """

    def __init__(self, sandbox: Sandbox, name: str, argv: list[str | Path], ready: Callable[[], bool]) -> None:
        self._sandbox = sandbox
        self._pid_file = sandbox.scratch / f"{name}.pid"
        self.log = sandbox.scratch / f"{name}.log"
        with self.log.open("wb") as log:
            # The shell writes the pid as seen inside and then becomes the daemon.
            self._process = subprocess.Popen(
                sandbox.command("/bin/sh", "-c", 'echo $$ > "$0"; exec "$@"', self._pid_file, *argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=sandbox.environment(),
                start_new_session=True,
            )
        wait_until(lambda: self._failed() or ready(), f"{name} is ready", seconds=60)
        if self._failed():
            raise RuntimeError(f"{name} ended early:\n{self.log.read_text(errors='replace')[-3000:]}")

    def pid(self) -> str:
        """Its process, as seen inside."""
        return self._pid_file.read_text(encoding="ascii").strip()

    def _failed(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> int:
        """Ask it to end, wait up to 30 seconds, then end it by force; its exit status."""
        pid = self.pid()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._failed():
                self._sandbox.run("/bin/kill", f"-{number.value}", pid)
            try:
                return self._process.wait(30)
            except subprocess.TimeoutExpired:
                continue
        raise RuntimeError(f"process {pid} does not end")


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Ask condition until it holds; raises TimeoutError that says what did not come."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} seconds until {what}")
        time.sleep(0.03)
