"""The last step: execute the low-level runtime, in the same process, with everything as the engine gave it. HOT.

What Python changed in the process is put back: the environment comes from the bytes of /proc/self/environ, where the
launcher has only renamed some variables and added a last one (native/python.c), and signals that Python ignores by
itself get their old disposition.

Builtin modules only: shim.broken ends here, too, when other modules of ours are damaged.
"""

from __future__ import annotations

# the builtin half of `signal`, which costs 5 ms because of enum
import _signal  # type: ignore[import-not-found]  # typeshed knows `signal` only
import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import NoReturn

_KEPT, _ADDED = b"SHIM_KEEP_", b"LC_ALL=C"
_CHUNK = 16 * 1024  # bytes: the memory for more than most environments need would cost more than the reading
_IGNORED_BY_PYTHON = {"PIPE": _signal.SIGPIPE, "XFSZ": _signal.SIGXFSZ}


class Environment:
    """An environment with order and duplicates kept, in the shape that execve takes for a mapping."""

    __slots__ = ("_names", "_values")

    def __init__(self, block: bytes) -> None:
        """Read the environment of a process.

        Arguments:
            block: `NAME=VALUE` strings, each ended by NUL (proc(5), /proc/pid/environ). A string without `=`, which no
                execve of Python can pass on, is left out.
        """
        self._names: list[bytes] = []
        self._values: list[bytes] = []
        entries = block.split(b"\0")
        if entries[-2:] == [_ADDED, b""]:
            del entries[-2:]
        for entry in entries:
            name, equals, value = entry.partition(b"=")
            if name and equals:
                self._names.append(name.removeprefix(_KEPT))
                self._values.append(value)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: bytes) -> bytes:
        return self._values[self._names.index(name)]

    def keys(self) -> list[bytes]:
        """All names, duplicates included."""
        return self._names

    def values(self) -> list[bytes]:
        """The values, one for each of keys()."""
        return self._values


def let_interrupts_through() -> None:
    """End at SIGINT as the low-level runtime would, without a traceback: the launcher has held it since its start."""
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])


def execute(program: str, argv: list[str], ignored: Collection[str]) -> NoReturn:
    """Execute a program with the environment that the launcher was started with.

    Arguments:
        program: its path.
        argv: its command line, argv[0] included.
        ignored: names of signals (without SIG) that were ignored when the launcher started.
    Raises:
        OSError: it cannot be executed.
    """
    for name, number in _IGNORED_BY_PYTHON.items():
        if name not in ignored:
            _signal.signal(number, _signal.SIG_DFL)
    posix.execve(program, argv, _environment())


def _environment() -> Mapping[bytes, bytes]:
    parts = []
    fd = posix.open("/proc/self/environ", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        while part := posix.read(fd, _CHUNK):
            parts.append(part)
    finally:
        posix.close(fd)
    return Environment(b"".join(parts))  # type: ignore[return-value]  # execve asks for keys() and values() only
