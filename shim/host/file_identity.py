"""What distinguishes a file from any other, and from its own later content. HOT.

The launcher compares the same numbers (native/needles.c).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.host.look import FileStatus

    Identity = tuple[int, int, int, int, int]


def identity(status: FileStatus) -> Identity:
    """Device, inode, size, and the times of modification and of the last change of status in nanoseconds."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
