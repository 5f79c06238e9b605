"""Replace a small file of our own: index, needles, record, a cache in a bundle. HOT.

Whole or not at all: a temporary file, NAME.PID in the same directory, then rename. Mode 0600 whatever the umask is, no
link is followed, no fsync: none of these files outlives the boot. (shim.base.files writes files of the administrator.)
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def replace(path: str, data: bytes) -> None:
    """Write a file anew. Errors as of `put`.

    Arguments:
        path: the file; its directory must belong to us alone.
        data: its content.
    """
    put(path, lambda fd: _write(fd, data))


def put(path: str, fill: Callable[[int], None], mode: int = 0o600) -> None:
    """Make a file anew by a function that writes it.

    Arguments:
        path: the file; its directory must belong to us alone.
        fill: gets the descriptor of the new file; what it raises goes on, with the old file in place.
        mode: of the file, whatever the umask is.
    Raises:
        OSError: it could not be written; an old one is still there.
        ValueError: a NUL in the path.
    """
    temporary = f"{path}.{posix.getpid()}"
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_CLOEXEC
    fd = posix.open(temporary, flags, 0o600)
    try:
        try:
            posix.fchmod(fd, mode)
            fill(fd)
        finally:
            posix.close(fd)
        posix.rename(temporary, path)
    except OSError:
        posix.unlink(temporary)
        raise


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[posix.write(fd, view) :]


def is_left_over(name: str) -> bool:
    """Whether a file of such a directory is the temporary one of a process that is gone, for example killed.

    Arguments:
        name: the file's name, without the directory.
    """
    pid = name.rpartition(".")[2] if "." in name else ""
    return pid.isdigit() and not exists(f"/proc/{pid}")


def exists(path: str) -> bool:
    """Whether something lies at a path, a link in its last part followed; False also where that cannot be seen."""
    try:
        posix.stat(path)
    except (OSError, ValueError):
        return False
    return True


def sweep(directory: str) -> None:
    """Remove the temporary files that processes have left in a directory. Fails silently."""
    try:
        for name in posix.listdir(directory):
            if is_left_over(name):
                posix.unlink(f"{directory}/{name}")
    except OSError:
        pass
