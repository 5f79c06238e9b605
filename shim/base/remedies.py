"""Remedies that follow from a system error: a missing file has no owner and mode to be checked. Cold."""

from __future__ import annotations

import errno
import posix

_MISSING = (errno.ENOENT, errno.ENOTDIR)
_MOST_LINKS = 40  # as many as Linux follows
_TO_READ = {
    errno.ENOENT: "name a file that exists",
    errno.ENOTDIR: "name a file that exists",
    errno.EISDIR: "name a file in it",
    errno.ELOOP: "let the link lead to a file",
    errno.EACCES: "run it as root or as the owner of the file, or let this user read it",
    errno.EPERM: "run it as root or as the owner of the file, or let this user read it",
}
_TO_WRITE = {
    errno.ENOENT: "make its directory first, or name a file in one that exists",
    errno.ENOTDIR: "make its directory first, or name a file in one that exists",
    errno.EEXIST: "name another file: there is a file where its directory should be",
    errno.EACCES: "run it as root, or name a file in a directory of this user",
    errno.EPERM: "run it as root, or name a file in a directory of this user",
    errno.EROFS: "name a file on a file system that can be written",
    errno.ENOSPC: "make space on its file system",
    errno.EDQUOT: "make space within the quota of this user",
}


def to_read(error: OSError | ValueError, path: str = "") -> str:
    """What helps where a file cannot be read; "" where the error says nothing more than the usual remedy.

    Arguments:
        error: of the system.
        path: the file; that of the error when not given.
    """
    if not path and isinstance(error, OSError) and isinstance(error.filename, str):
        path = error.filename
    target = missing_target(path) if path and isinstance(error, OSError) and error.errno in _MISSING else ""
    return f"remove the link, or restore its target {target}" if target else _of(error, _TO_READ)


def missing_target(path: str) -> str:
    """Where a link leads that keeps a file from being there: the file, or a directory above it; "" for no such link."""
    while path and not _is_there(path):
        path = path.rpartition("/")[0]
    target = ""
    for _ in range(_MOST_LINKS):
        try:
            to = posix.readlink(path)
        except (OSError, ValueError):
            break
        target = path = to if to.startswith("/") or "/" not in path else f"{path.rpartition('/')[0]}/{to}"
    return "" if not target or _is_there(target) else target


def _is_there(path: str) -> bool:
    """Whether there is something at a path; a link counts wherever it leads."""
    try:
        posix.lstat(path)
    except OSError as error:
        return error.errno not in _MISSING
    except ValueError:  # a NUL in it
        return False
    return True


def to_write(error: OSError | ValueError) -> str:
    """The same for a file that cannot be written, or a directory that cannot be made."""
    return _of(error, _TO_WRITE)


def _of(error: OSError | ValueError, table: dict[int, str]) -> str:
    return table.get(error.errno or 0, "") if isinstance(error, OSError) else ""
