"""Replace a small file of our own: index, needles, record. HOT.

Whole or not at all: a temporary file in the same directory, then rename. Mode 0600 whatever the umask is, no link is
followed, no fsync: none of these files outlives the boot.
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
