"""The podman programs of this host whose version is known, without starting one. Late: only podman's creates need it.

Podman before 4.6 copies the annotations of an image's manifest into config.json, where they look like those of
the command line (podman's commit 2c0f404826 ended it). So the create path must know the version of the podman that
calls it, and it starts no process. `shim runtime configure` asks each podman once and records the answer, bound to the
program's file by device, inode, size and time of modification: after an upgrade the file is another one, and nothing is
known about it until configure has run again.

The record is a text file, mode 0644, one line a program, the time in nanoseconds since 1970:

    DEV INO SIZE MTIME_NS VERSION PATH

for example `2049 131612 42184328 1715170312000000000 5.4.2 /usr/bin/podman`. A line in another form is passed over.

There is one for the system, and one for each user who runs podman without root. A record counts only where nobody but
root (shim.host.trust), or that user, could have written it: a line in it lets annotations of that podman count.
"""

from __future__ import annotations

import posix

from shim.host.file_identity import identity
from shim.host.identity import is_our_file, is_ours, user_directory
from shim.host.trust import Trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.host.look import FileStatus, Look

SYSTEM_FILE = "/var/lib/shim/podman-programs"
TAKES_NO_IMAGE_ANNOTATIONS = (4, 6)  # first version that leaves out the annotations of an image's manifest
_CAP = 65536  # bytes of a record
_S_IFMT, _S_IFREG = 0o170000, 0o100000


class Program:
    """One line of a record.

    Attributes:
        dev, ino, size, mtime_ns: identity of the program's file, as stat(2) gives it.
        version: its version, (5, 4, 2) for instance.
        path: where it was when its version was recorded.
    """

    __slots__ = ("dev", "ino", "mtime_ns", "path", "size", "version")

    def __init__(self, status: FileStatus, version: tuple[int, ...], path: str) -> None:
        self.dev, self.ino, self.size, self.mtime_ns = _identity(status)
        self.version = version
        self.path = path

    def is_file(self, status: FileStatus) -> bool:
        """Whether a file with this status is the program."""
        return (self.dev, self.ino, self.size, self.mtime_ns) == _identity(status)

    @classmethod
    def parse(cls, line: str) -> Program:
        """The program of a line. Raises ValueError for one in another form."""
        *numbers, version, path = line.split(" ", 5)
        if len(numbers) != 4 or not path.startswith("/"):
            raise ValueError("not a line of a record")
        program = cls.__new__(cls)
        program.dev, program.ino, program.size, program.mtime_ns = map(int, numbers)
        program.version = tuple(int(number) for number in version.split("."))
        program.path = path
        return program

    def __str__(self) -> str:
        return f"{self.dev} {self.ino} {self.size} {self.mtime_ns} {version_text(self.version)} {self.path}"


def version_text(version: tuple[int, ...]) -> str:
    """(5, 4, 2) as 5.4.2."""
    return ".".join(map(str, version))


def user_file(environ: dict[bytes, bytes] | None = None) -> str:
    """The record of a user without root, "" when no variable names an absolute path.

    Arguments:
        environ: the environment as bytes; the process's own when not given.
    """
    home = user_directory(b"XDG_STATE_HOME", ".local/state", environ)
    return f"{home}/shim/podman-programs" if home else ""


def records(*, rootful: bool, environ: dict[bytes, bytes] | None = None) -> tuple[str, ...]:
    """The records that count for this process, the more important first; `configure` writes the first of them.

    Arguments:
        rootful: whether we are the host's root (shim.host.identity).
        environ: the environment as bytes, for tests; the process's own when not given.
    """
    if rootful:
        return (SYSTEM_FILE,)
    own = user_file(environ)
    return (own, SYSTEM_FILE) if own else (SYSTEM_FILE,)


def read(file: str, look: Look = posix, trust: Trust | None = None) -> list[Program]:
    """The programs of a record, none where it is missing, cannot be read, or could have been written by others.

    Arguments:
        file: the record.
        look: answers what lies at a path.
        trust: judges the system's record; by default for whoever we are.
    """
    try:
        return parse(_read(file)) if _counts(file, look, trust or Trust(look=look)) else []
    except (OSError, ValueError):
        return []


def text(programs: Iterable[Program]) -> str:
    """The content of a record. Raises ValueError for a program whose path no line can hold."""
    lines = [str(program) for program in programs]
    for line in lines:
        if "\n" in line or str(Program.parse(line)) != line:
            raise ValueError(f"{line!r} cannot be recorded")
    return "".join(f"{line}\n" for line in lines)


def parse(content: str) -> list[Program]:
    """The programs in the content of a record; lines in another form are passed over."""
    programs = []
    for line in content.split("\n"):
        try:
            programs.append(Program.parse(line))
        except ValueError:
            continue
    return programs


def _identity(status: FileStatus) -> tuple[int, int, int, int]:
    return identity(status)[:4]  # not the last change of status, which a hard link makes, for example


def _counts(file: str, look: Look, trust: Trust) -> bool:
    """Whether only root, or the user whose record it is, could have written the file. Raises OSError."""
    if file == SYSTEM_FILE:
        return trust.objection(file) == ""
    look.lstat(file)
    return is_ours(file.rpartition("/")[0], look)  # `shim` in the user's state directory, which others may pass through


def _read(file: str) -> str:
    fd = posix.open(file, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC | posix.O_NOCTTY)
    try:
        status = posix.fstat(fd)
        is_record = status.st_mode & _S_IFMT == _S_IFREG if file == SYSTEM_FILE else is_our_file(status)
        if not is_record:
            raise ValueError("no record, or another user's")
        return posix.read(fd, _CAP).decode("utf-8", "surrogateescape")
    finally:
        posix.close(fd)
