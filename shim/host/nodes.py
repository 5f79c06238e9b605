"""Device nodes of the host, by lstat alone.

HOT: imports only the builtin `posix`; file type bits are literals because `stat` costs a millisecond.
A node is never opened: opening a device can block, rewind a tape or wake a driver, and the create path promises not to.
Links are not followed, as the reference library does not follow them: a link is not a device.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.host.look import FileStatus

    # (type, major, minor, mode, uid, gid): type is "b", "c" or "p", "" for whatever is no device;
    # mode holds the twelve permission bits only.
    Node = tuple[str, int, int, int, int, int]
    Lookup = Callable[[str], Node | None]

# S_IFMT and the three types that CDI knows, from inode(7).
_TYPE_MASK = 0o170000
_TYPES = {0o020000: "c", 0o060000: "b", 0o010000: "p"}
_MODE_MASK = 0o7777


def lookup(path: str) -> Node | None:
    """Say what stands at `path`.

    Arguments:
        path: absolute, or relative to the working directory; a link in its last part is not followed.

    Returns (type, major, minor, mode, uid, gid), or None when there is nothing or it cannot be seen.
    Source: lstat(2), inode(7).
    """
    try:
        return node_of(posix.lstat(path))
    except (OSError, ValueError):  # ValueError: a NUL or an unpaired surrogate, which no path can hold
        return None


def node_of(status: FileStatus) -> Node:
    """The node that lstat(2) describes, as `lookup` gives it."""
    kind = _TYPES.get(status.st_mode & _TYPE_MASK, "")
    device = status.st_rdev if kind in ("b", "c") else 0
    mode = status.st_mode & _MODE_MASK
    return (kind, posix.major(device), posix.minor(device), mode, status.st_uid, status.st_gid)
