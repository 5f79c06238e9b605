"""The type of what answers questions about paths: the module posix itself, or a World that keeps its answers.

Only a type checker reads this, since `typing` costs 12 ms.
"""

from __future__ import annotations

from typing import Protocol


class FileStatus(Protocol):
    """What is asked about a file; members as in os.stat_result."""

    @property
    def st_mode(self) -> int:
        """Type and permission bits."""

    @property
    def st_ino(self) -> int:
        """The inode's number."""

    @property
    def st_dev(self) -> int:
        """The file system's number."""

    @property
    def st_uid(self) -> int:
        """The owner."""

    @property
    def st_gid(self) -> int:
        """The group."""

    @property
    def st_size(self) -> int:
        """Bytes."""

    @property
    def st_rdev(self) -> int:
        """The number of a device node."""

    @property
    def st_mtime_ns(self) -> int:
        """Time of the last modification."""

    @property
    def st_ctime_ns(self) -> int:
        """Time of the last change of status."""


class Look(Protocol):
    """Answers what lies at a path. Each raises OSError, and posix ValueError for what can be no path."""

    def lstat(self, path: str, /) -> FileStatus:
        """What lies there, a link not followed."""

    def stat(self, path: str, /) -> FileStatus:
        """What lies there, links followed."""

    def readlink(self, path: str, /) -> str:
        """The text of a symbolic link."""

    def getxattr(self, path: str, name: str, /) -> bytes:
        """An extended attribute of a file, links followed."""


class Reader(Look, Protocol):
    """Answers what a small file holds, too."""

    def read(self, path: str, /) -> tuple[FileStatus, str]:
        """Status and text of a small file, which is no link. Raises OSError."""
