"""A stage: a small system of its own, on which a hook believes to be on the host.

    STAGE/            the "host": everything below it, other than `container`, must stay as it is
      bin/shim        the launcher that is tested; it is static and needs nothing else
      etc usr lib …   a few files where hosts have theirs
      proc            the kernel's
      victim/         where the links of hostile images lead
      container/      bundle: config.json, rootfs

A process of the stage has it as root directory, so every file that it could reach is known, and all of them are
compared before and after: not only the canaries that somebody thought of. Paths read the same on both sides, because
the stage has a link from its own path to its root.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from unit.native.elves import library
from unit.native.trees import build

SHIM = Path(sys.executable).parent / "shim"
SECONDS = 30.0  # more than ten times what a hook may take: a command that is still there has hung
MEMORY = 64 << 20  # bytes that a hook may take, whatever the image holds

# What an image's author can set for a hook that a careless runtime starts
ENVIRONMENT = {
    "LD_PRELOAD": "./evil.so",
    "LD_LIBRARY_PATH": ".",
    "GLIBC_TUNABLES": "glibc.malloc.check=3",
    "PYTHONPATH": ".",
    "PYTHONSTARTUP": "./evil.py",
    "BASH_ENV": "./evil.sh",
    "ENV": "./evil.sh",
    "PATH": ".",
}


class Outcome(NamedTuple):
    """What a command left.

    Attributes:
        status: exit status, negative for a signal, None when it had to be ended.
        out, err: what it wrote.
        memory: bytes of its largest resident set.
    """

    status: int | None
    out: str
    err: str
    memory: int


class Stage:
    """See the module."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="s", dir="/var/tmp"))
        self.path.chmod(0o755)
        build(
            self.path / "host",
            {
                "etc/passwd": "root:x:0:0::/:/bin/sh\n",
                "etc/ld.so.conf": "/usr/lib\n",
                "etc/ld.so.cache": "the host's",
                "etc/ld.so.conf.d/host.conf": "/usr/lib\n",
                "usr/lib/libhost.so.1": library("libhost.so.1"),
                "lib/libhost.so.2": library("libhost.so.2"),
                "dev/null": "",
                "proc": None,
                "tmp": None,
                "victim": None,
            },
        )
        self.host = self.path / "host"
        (self.host / "bin").mkdir()
        shutil.copy2(SHIM, self.host / "bin/shim")
        self.alias = self.host / str(self.path)[1:]
        self.alias.mkdir(parents=True)
        (self.alias / "host").symlink_to("/")
        self.bundle = self.host / "container"
        self.root = self.bundle / "rootfs"
        self.victim = self.host / "victim"
        script = 'mount --make-rprivate / && mount -t proc proc "$1/proc" && exec "$2" -I -S "$3" "$1"'
        inside = Path(__file__).with_name("inside.py")
        self._process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script, "sh", self.host, "/usr/bin/python3", inside],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n", "a stage needs root's rights to mount"
        self.clear()

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        remove(self.path)

    @property
    def first(self) -> int:
        """The process that lives in the stage's mount namespace."""
        return self._process.pid

    def clear(self) -> None:
        """An empty bundle and no victim."""
        for path in (self.bundle, self.victim):
            remove(path)
            path.mkdir()

    def run(self, *argv: str, stdin: bytes = b"", cwd: str = "/", env: dict[str, str] | None = None) -> Outcome:
        """Run a program of the stage."""
        request = {
            "argv": argv,
            "stdin": base64.b64encode(stdin).decode(),
            "cwd": cwd,
            "env": ENVIRONMENT if env is None else env,
            "seconds": SECONDS,
        }
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Outcome(answer["status"], answer["out"], answer["err"], answer["memory"])

    def start_hook(self, words: Sequence[str], config: dict[str, object] | None = None) -> Outcome:
        """Run hooks as a runtime does: state on stdin, the image's environment, the root as working directory."""
        (self.bundle / "config.json").write_text(json.dumps({"root": {"path": "rootfs"}, **(config or {})}))
        state = {"ociVersion": "1.0.2", "id": "c", "pid": 1, "bundle": str(self.bundle)}
        cwd = str(self.root) if os.path.lexists(self.root) else "/"
        return self.run("/bin/shim", "hook", *words, stdin=json.dumps(state).encode(), cwd=cwd)

    def call_hook(self, words: Sequence[str]) -> Outcome:
        """Run hooks as a person does, on a tree."""
        return self.run("/bin/shim", "hook", *words, "--root", str(self.root))

    def picture(self) -> dict[str, object]:
        """Everything but the container: kind, mode, owner, contents, time of change of contents."""
        found: dict[str, object] = {}
        for folder, folders, files in os.walk(self.host):
            if Path(folder) == self.host:
                folders[:] = [name for name in folders if name not in {"container", "proc"}]
            for name in [*folders, *files]:
                path = Path(folder, name)
                status = path.lstat()
                what: object = None
                if path.is_symlink():
                    what = str(path.readlink())
                elif path.is_file():
                    what = path.read_bytes() if status.st_size < 1 << 20 else status.st_size
                who = (status.st_mode, status.st_uid, status.st_gid, status.st_rdev)
                found[str(path)] = (*who, status.st_mtime_ns, what)
        return found


def remove(path: Path) -> None:
    """Remove a tree that may hold immutable files and directories of mode 0."""
    if not os.path.lexists(path):
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        subprocess.run(["chattr", "-R", "-f", "-i", str(path)], check=False, capture_output=True)
        shutil.rmtree(path)
