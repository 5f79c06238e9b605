"""Replace a small file of our own: index, needles, record. HOT.

Whole or not at all: a temporary file, NAME.PID in the same directory, then rename. Mode 0600 whatever the umask is, no
link is followed, no fsync: none of these files outlives the boot.
"""

from __future__ import annotations

import posix


def replace(path: str, data: bytes) -> None:
    """Write a file anew.

    Arguments:
        path: the file; its directory must belong to us alone.
        data: its content.
    Raises:
        OSError: it could not be written; an old one is still there.
        ValueError: a NUL in the path.
    """
    temporary = f"{path}.{posix.getpid()}"
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_CLOEXEC
    fd = posix.open(temporary, flags, 0o600)
    try:
        try:
            posix.fchmod(fd, 0o600)
            view = memoryview(data)
            while view:
                view = view[posix.write(fd, view) :]
        finally:
            posix.close(fd)
        posix.rename(temporary, path)
    except OSError:
        posix.unlink(temporary)
        raise


def is_left_over(name: str) -> bool:
    """Whether a file of such a directory is the temporary one of a process that is gone, for example killed.

    Arguments:
        name: the file's name, without the directory.
    """
    pid = name.rpartition(".")[2] if "." in name else ""
    return pid.isdigit() and not exists(f"/proc/{pid}")


def exists(path: str) -> bool:
    """Whether something lies at a path, a link in its last part followed; False also where nobody can tell."""
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
