"""Remedies that follow from a system error: a missing file has no owner and mode to be checked. Cold."""

from __future__ import annotations

import errno

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


def to_read(error: OSError | ValueError) -> str:
    """What helps where a file cannot be read; "" where the error says nothing more than the usual remedy."""
    return _of(error, _TO_READ)


def to_write(error: OSError | ValueError) -> str:
    """The same for a file that cannot be written, or a directory that cannot be made."""
    return _of(error, _TO_WRITE)


def _of(error: OSError | ValueError, table: dict[int, str]) -> str:
    return table.get(error.errno or 0, "") if isinstance(error, OSError) else ""
