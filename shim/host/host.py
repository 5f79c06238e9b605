"""Host: a machine's files, links, programs and processes. Modules that are not hot reach the machine through it alone.

The fake is the same class: a test gives a directory as the root, the files, links and processes that are to be taken as
there, and no program is started. `with_files` is the same machine with other files, so that the result of a change is
read by the code that reads what is there; a `rehearsal` takes changes into memory, so that a dry run is the run itself.
Paths are those of the machine, absolute.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base import files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.host.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shim.host.look import Look

# Where the launcher searches a low-level runtime before PATH: `program_directories` in native/lowlevel.c, and a test
# compares the two
PROGRAM_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

_TIMEOUT = 20  # seconds for a program that is asked something
_LARGEST = 4 * 1024 * 1024  # bytes of a configuration file


@dataclass(frozen=True)
class Daemon:
    """A process that runs.

    Attributes:
        pid: its number.
        argv: its command line; the first word is the path of its program.
        started: when, in seconds since 1970.
        cwd: its working directory, to which paths on the command line are relative.
        path: its PATH, "" when unknown.
        user: its user, a user id of the machine.
    """

    pid: int
    argv: tuple[str, ...]
    started: float
    cwd: str = "/"
    path: str = ""
    user: int = 0

    def option(self, *names: str) -> str:
        """The value of an option such as `--config`, also in the form `--config=VALUE`; "" when it is not given."""
        return next(iter(self.options(*names)), "")

    def options(self, *names: str) -> list[str]:
        """The values of an option that may be given more than once, as `option`."""
        values = []
        for number, word in enumerate(self.argv[1:], 1):
            name, equals, value = word.partition("=")
            if name in names:
                values.append(value if equals else (self.argv[number + 1 : number + 2] or ("",))[0])
        return values


class Host:
    """A machine.

    Arguments:
        root: the directory that holds its files, "/" for the machine that this process runs on. Below another one no
            program is started.
        files: path -> content of files that are to be taken as read; None for one that is to be missing.
        daemons: the processes that run; found in /proc when not given, none below another root.
        user: an effective uid of the machine, for which questions about users are answered; by default that of this
            process, 0 below another root.
        environment: of that user; by default that of this process, empty below another root.
        links: path -> target of links that are to be taken as there; None for one that is to be missing.

    Attributes:
        is_rehearsal: whether changes go into memory, by `keep_file` and `keep_link`, and never to the disk.
    """

    def __init__(
        self,
        root: str = "/",
        files: Mapping[str, bytes | None] | None = None,
        daemons: Sequence[Daemon] | None = None,
        user: int | None = None,
        environment: Mapping[str, str] | None = None,
        links: Mapping[str, str | None] | None = None,
    ) -> None:
        self.root = root
        self.is_rehearsal = False
        self._files = dict(files or {})
        self._daemons = daemons
        self._links = dict(links or {})
        self._kept: dict[bool, list[Daemon]] | None = None
        ours = root == "/"
        self.user = user if user is not None else os.geteuid() if ours else 0
        self.environment = dict(environment if environment is not None else os.environ if ours else {})

    def with_files(self, files: Mapping[str, bytes | None], links: Mapping[str, str | None] | None = None) -> Host:
        """The same machine, on which these files have that content (None: are missing), and links lead there."""
        every = {**self._links, **(links or {})}
        return Host(self.root, {**self._files, **files}, self._daemons, self.user, self.environment, every)

    def at_once(self) -> Host:
        """The same machine, whose processes are read only once: for what is examined as it is at one moment."""
        host = self.with_files({})
        host._kept = {}
        return host

    def rehearsal(self) -> Host:
        """The same machine, on which nothing is written: changes are kept in memory, and read from there."""
        rehearsal = self.with_files({})
        rehearsal.is_rehearsal = True
        return rehearsal

    def keep_file(self, path: str, data: bytes | None) -> None:
        """In a rehearsal: this file has that content from now on, None: is missing."""
        self._files[path] = data

    def keep_link(self, path: str, target: str | None) -> None:
        """In a rehearsal: this link leads there from now on, None: is missing."""
        self._links[path] = target

    def real(self, path: str) -> Path:
        """The path by which this process reaches a file of the machine, for writing it."""
        return Path(self.root + path) if self.root != "/" else Path(path)

    def read(self, path: str) -> bytes | None:
        """The content of a file, None when it is missing.

        Raises:
            CdiError: ENGINE_CONFIG_UNREADABLE.
        """
        if path in self._files:
            return self._files[path]
        try:
            data = files.read(self.real(path), _LARGEST + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            text = f"it cannot be read: {reason(error)}"
            raise CdiError([Finding("ENGINE_CONFIG_UNREADABLE", text, remedies.to_read(error), path=path)]) from None
        if len(data) > _LARGEST:
            text = f"it has more than {_LARGEST // 1024 // 1024} MiB, which no configuration has"
            raise CdiError([Finding("ENGINE_CONFIG_UNREADABLE", text, path=path)])
        return data

    def text(self, path: str) -> str:
        """The text of a small file without white space around it, as in /sys and /proc; "" where it cannot be read."""
        try:
            return (self.read(path) or b"").decode("utf-8", "replace").strip()
        except CdiError:
            return ""

    @property
    def look(self) -> Look:
        """What lies at a path of the machine, for shim.host.trust and shim.host.nodes; not what `with_files` gave."""
        return _Look(self)

    def objection(self, path: str) -> str:
        """Why others than root, and than us, can change a file or a directory above it, "" when they cannot.

        Arguments:
            path: as the machine sees it; to one that is missing there is no objection.
        """
        try:
            return Trust(look=self.look).objection(path)
        except (OSError, ValueError):
            return ""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return self._files[path] is not None if path in self._files else self.real(path).exists()

    def readlink(self, path: str) -> str | None:
        """Where a link leads, None when there is none."""
        if path in self._links:
            return self._links[path]
        try:
            return str(self.real(path).readlink())
        except OSError:
            return None

    def glob(self, pattern: str) -> list[str]:
        """The files that a pattern with * ? [ in its parts matches, sorted; a path without those matches itself."""
        top = Path(self.root)
        paths = {"/" + str(path.relative_to(top)) for path in top.glob(pattern.lstrip("/")) if path.is_file()}
        paths |= {path for path in self._files if fnmatch.fnmatchcase(path, pattern)}
        return sorted(path for path in paths if self.exists(path) and path.count("/") == pattern.count("/"))

    def modified(self, path: str) -> float:
        """When a file was changed last, in seconds since 1970; 0.0 when it is missing."""
        if self._files.get(path) is not None:
            return time.time()
        try:
            return self.real(path).stat().st_mtime
        except OSError:
            return 0.0

    def status(self, path: str) -> os.stat_result | None:
        """The status of a file, see stat(2), None when it is missing; whatever `with_files` gave it."""
        try:
            return self.real(path).stat()
        except (OSError, ValueError):
            return None

    def is_same_file(self, path: str, other: str) -> bool:
        """Whether two paths lead to one file; False where one of them leads nowhere."""
        try:
            return self.real(path).samefile(self.real(other))
        except OSError:
            return False

    def is_overlaid(self, path: str) -> bool:
        """Whether `with_files` gave this file its content."""
        return path in self._files

    def every(self, name: str) -> list[str]:
        """The programs of this name in the launcher's six directories, then in our own PATH; each file once."""
        directories = dict.fromkeys([*PROGRAM_DIRECTORIES, *self.environment.get("PATH", "").split(":")])
        paths: dict[tuple[int, int], str] = {}
        for path in (f"{directory}/{name}" for directory in directories if directory.startswith("/")):
            status = self.status(path) if self._is_program(path) else None
            if status:
                paths.setdefault((status.st_dev, status.st_ino), path)
        return list(paths.values())

    def find(self, *names: str, path: str = "") -> str:
        """The first program of these names.

        Arguments:
            names: without directory; one with a directory stands for itself.
            path: directories that are searched first, in the form of PATH: those of a daemon, for instance.
        Returns:
            its path, "" when none is there. Else searched are the launcher's six directories, then our own PATH.
        """
        directories = [*path.split(":"), *PROGRAM_DIRECTORIES, *self.environment.get("PATH", "").split(":")]
        for name in names:
            for directory in [""] if "/" in name else directories:
                candidate = name if "/" in name else f"{directory}/{name}"
                if candidate.startswith("/") and self._is_program(candidate):
                    return candidate
        return ""

    def find_in(self, name: str, path: str) -> str:
        """The first program of a name in the directories of a PATH, those alone; "" when none is there."""
        candidates = (f"{directory}/{name}" for directory in path.split(":") if directory.startswith("/"))
        return next(filter(self._is_program, candidates), "")

    def ask(self, *argv: str) -> str | None:
        """The output of a program of the machine, None when it fails, is missing, or root is not "/"."""
        done = self._run(*argv)
        return done.stdout.decode("utf-8", "replace") if done and done.returncode == 0 else None

    def refusal(self, *argv: str) -> str:
        """The standard error of a program of the machine that fails; "" when it succeeds, or is not started."""
        done = self._run(*argv)
        return done.stderr.decode("utf-8", "replace").strip() if done and done.returncode else ""

    def _run(self, *argv: str) -> subprocess.CompletedProcess[bytes] | None:
        if self.root != "/":
            return None
        try:
            return subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=False, cwd="/"
            )
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None

    def version(self, program: str) -> tuple[int, ...]:
        """The version that `PROGRAM --version` names first, also as v1.6.20, (1, 6, 20) for instance; () for none."""
        match = re.search(r"(?<![\w.])v?(\d+(?:\.\d+)+)", self.ask(program, "--version") or "") if program else None
        return tuple(int(number) for number in match[1].split(".")) if match else ()

    def daemons(self, name: str, *, of_every_user: bool = False) -> list[Daemon]:
        """The processes whose program has this name, the oldest first.

        Arguments:
            name: the file name of the program.
            of_every_user: also those of other users than root and us. A user may run a program of root's with any
                command line, so nothing that such a process names may be written, or asked.
        """
        is_real = self._daemons is None and self.root == "/"
        every = self._processes(of_every_user=of_every_user) if is_real else self._daemons or ()
        ours = [daemon for daemon in every if daemon.argv and Path(daemon.argv[0]).name == name]
        return sorted(ours, key=lambda daemon: (daemon.started, daemon.pid))

    def _processes(self, *, of_every_user: bool) -> list[Daemon]:
        if self._kept is None:
            return list(_processes(of_every_user=of_every_user))
        if of_every_user not in self._kept:
            self._kept[of_every_user] = list(_processes(of_every_user=of_every_user))
        return self._kept[of_every_user]

    def _is_program(self, path: str) -> bool:
        real = str(self.real(path))
        # not Path.is_file: a directory of PATH may be closed to this user
        return os.path.isfile(real) and os.access(real, os.X_OK)


def _processes(*, of_every_user: bool) -> Iterator[Daemon]:
    """The processes of proc(5) that count: those of root and our own, each of a program that is trusted.

    A command line can hold anything. A container may run a `containerd` of its own with a `--config` of its choice, and
    so may another user; what it names would be asked and written to as root.
    """
    now, since_boot = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
    trust = Trust()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            argv = _words(entry / "cmdline")
            # field 22 of proc(5), stat: clock ticks after boot; the second field may hold blanks and parentheses
            ticks = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[19])
            user = entry.stat().st_uid
            program = _program(entry, argv[0]) if of_every_user or user in {0, os.geteuid()} else ""
            if not program or trust.objection(program):
                continue
        except (OSError, ValueError, IndexError):
            continue
        started = now - since_boot + ticks / os.sysconf("SC_CLK_TCK")
        yield Daemon(int(entry.name), (program, *argv[1:]), started, *_surroundings(entry), user)


class _Look:
    """Answers what lies at a path of a machine, see shim.host.look.Look."""

    def __init__(self, host: Host) -> None:
        self._real = host.real

    def lstat(self, path: str, /) -> os.stat_result:
        return self._real(path).lstat()

    def stat(self, path: str, /) -> os.stat_result:
        return self._real(path).stat()

    def readlink(self, path: str, /) -> str:
        return str(self._real(path).readlink())

    def getxattr(self, path: str, name: str, /) -> bytes:
        return os.getxattr(self._real(path), name)


def _program(entry: Path, called: str) -> str:
    """The program of a process by its path here, "" for one of another root or another pid namespace: a container's.

    It is the file that runs, under the name by which it was called: k3s is one file with many names.
    """
    try:
        exe = str((entry / "exe").readlink())
        is_contained = (entry / "ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()
    except PermissionError:  # root's, and we are not root
        return called if called.startswith("/") else ""
    if is_contained and entry.stat().st_uid == 0:  # one's own rootless docker may have its own, too
        return ""
    if exe.endswith(" (deleted)"):  # it was upgraded since
        return exe.removesuffix(" (deleted)") if (entry / "root").samefile("/") else ""
    name = called.rpartition("/")[2]
    for path in (called, f"{exe.rpartition('/')[0]}/{name}", exe):
        if path.startswith("/") and Path(path).exists() and Path(path).samefile(entry / "exe"):
            return path
    return ""


def _surroundings(entry: Path) -> tuple[str, str]:
    """Working directory and PATH of a process, as far as we may see them."""
    try:
        cwd = str((entry / "cwd").readlink())
        paths = [word[5:] for word in _words(entry / "environ") if word.startswith("PATH=")]
    except OSError:
        return "/", ""
    return cwd, paths[0] if paths else ""


def _words(file: Path) -> tuple[str, ...]:
    return tuple(os.fsdecode(word) for word in file.read_bytes().rstrip(b"\0").split(b"\0"))
