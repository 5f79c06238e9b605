"""Tree: a directory of a machine that is worked on as a root, such as that of a driver container.

Paths are absolute within the tree. Every link is resolved here, component by component, as openat2(2) does it with
RESOLVE_IN_ROOT: an absolute target begins at the tree's root again, and `..` stops there. So the same files are seen
however the root was written (through a link, with `..`, with a slash at its end), and nothing outside is ever reached.
Paths are data: no character of one is a pattern.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from typing import TYPE_CHECKING

from shim.base import files
from shim.host import nodes

if TYPE_CHECKING:
    from typing import BinaryIO

    from shim.host.host import Host
    from shim.host.nodes import Node

_MAX_LINKS = 40  # as the kernel (path_resolution(7))
_LARGEST = 4 * 1024 * 1024  # bytes of a file that is read


class Tree:
    """A directory of a machine as a root.

    Arguments:
        host: the machine; what its `with_files` gave is not seen.
        root: an absolute path on the machine; links in it are followed.
    Attributes:
        host: the machine.
        root: where the tree lies on the machine, without links; "/" when it is the machine's own root.
        exists: whether the root is a directory.
    """

    def __init__(self, host: Host, root: str = "/") -> None:
        self.host = host
        self._links: dict[str, str | None] = {}  # directory as it was asked for -> without links
        self._machine: Tree | None = None  # of the machine's own root, when it is needed
        self._base = host.root.rstrip("/")
        self.root = "/"
        self.exists = True
        if posixpath.normpath(root).strip("/"):
            # `..` after a directory that is missing takes it back, as it does for whoever reads the path
            resolved = self.resolve(root) or self.resolve(posixpath.normpath(root))
            self.exists = resolved is not None
            # a root that is missing holds nothing: the path is kept for messages
            self.root = resolved or "/" + posixpath.normpath(root).strip("/")
            self._links = {}
            self._base += self.root if self.root != "/" else ""

    def host_path(self, path: str) -> str:
        """Where a path of the tree lies on the machine; links in it are not followed."""
        return path if self.root == "/" else self.root + path

    def source(self, path: str) -> str:
        """Where a path of the tree lies on the machine, for the source of a mount.

        The kernel follows its links from the machine's root. Those that lead to the same file from there are kept,
        since they outlive a change of what they lead to; otherwise it is the file's path without links.
        """
        real = self.resolve(path)
        if self.root == "/" or real is None:
            return self.host_path(path)
        if self._machine is None:
            self._machine = Tree(self.host)
        is_same = self._machine.resolve(self.host_path(path)) == self.host_path(real)
        return self.host_path(path if is_same else real)

    def real(self, path: str) -> str:
        """The path by which this process reaches a path of the tree, which must be without links (`resolve`)."""
        return self._base + path

    def resolve(self, path: str) -> str | None:
        """The path in the tree, without links, of what a path leads to; None when it leads nowhere."""
        return self._walk(path, follow=True)

    def status(self, path: str) -> os.stat_result | None:
        """The status of what a path leads to; None when it leads nowhere."""
        return self._status(self.resolve(path))

    def lstat(self, path: str) -> os.stat_result | None:
        """The status of what lies at a path, a link not followed; None for nothing."""
        return self._status(self._walk(path, follow=False))

    def readlink(self, path: str) -> str | None:
        """The text of the symbolic link at a path; None when there is none."""
        at = self._walk(path, follow=False)
        try:
            return os.readlink(self.real(at)) if at is not None else None
        except (OSError, ValueError):
            return None

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted, numbers as numbers; none when it cannot be listed."""
        at = self.resolve(path)
        try:
            return sorted(os.listdir(self.real(at)), key=natural) if at is not None else []
        except (OSError, ValueError):
            return []

    def is_file(self, path: str) -> bool:
        """Whether a path leads to a regular file."""
        status = self.status(path)
        return status is not None and stat.S_ISREG(status.st_mode)

    def is_directory(self, path: str) -> bool:
        """Whether a path leads to a directory."""
        status = self.status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def is_socket(self, path: str) -> bool:
        """Whether a path leads to a socket."""
        status = self.status(path)
        return status is not None and stat.S_ISSOCK(status.st_mode)

    def read(self, path: str, limit: int = _LARGEST) -> bytes | None:
        """The first bytes of a regular file, at most `limit`; None when it cannot be read."""
        at = self.resolve(path)
        try:
            return files.read(self.real(at), limit) if at is not None else None
        except (OSError, ValueError):
            return None

    def open(self, path: str) -> BinaryIO | None:
        """A regular file, opened for reading; None when it cannot be. The caller closes it."""
        at = self.resolve(path)
        try:
            return files.open_regular(self.real(at)) if at is not None else None
        except (OSError, ValueError):
            return None

    def text(self, path: str) -> str:
        """The text of a small file without white space around it, as in /sys and /proc; "" where it cannot be read."""
        return (self.read(path) or b"").decode("utf-8", "replace").strip()

    def node(self, path: str) -> Node | None:
        """The device node at a path (shim.host.nodes.Node), None for whatever is none. It is not opened.

        A link in the last part is not followed: a link is no device.
        """
        at = self._walk(path, follow=False)
        node = nodes.lookup(self.real(at)) if at is not None else None
        return node if node and node[0] else None

    def make_directory(self, path: str, mode: int = 0o755) -> str:
        """Make a directory and those above it that are missing; links stay within the tree.

        Returns the path by which this process reaches it. Raises OSError: something else is there, or it is refused.
        """
        at = self.resolve(path)
        if at is None:
            above, _, name = path.rstrip("/").rpartition("/")
            parent = self.make_directory(above, mode)
            os.mkdir(f"{parent}/{name}", mode)
            self._links.clear()
            at = self.resolve(path)
        if at is None or not self.is_directory(at):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return self.real(at)

    def _status(self, at: str | None) -> os.stat_result | None:
        try:
            return os.lstat(self.real(at)) if at is not None else None
        except (OSError, ValueError):
            return None

    def _walk(self, path: str, *, follow: bool) -> str | None:
        """The path without links in its directories, and without one in its last part if that is followed."""
        directory, _, name = path.rstrip("/").rpartition("/")
        if not follow and name not in {"", ".", ".."}:
            above = self._directory(directory)
            at = f"{above.rstrip('/')}/{name}" if above is not None else None
            return at if self._status(at) else None
        return self._follow(path)

    def _directory(self, path: str) -> str | None:
        """`_follow`, remembered: thousands of files lie in a few directories."""
        if path not in self._links:
            self._links[path] = self._follow(path)
        return self._links[path]

    def _follow(self, path: str) -> str | None:
        ahead = [part for part in reversed(path.split("/")) if part not in {"", "."}]
        at, links = "", 0
        while ahead:
            part = ahead.pop()
            if part == "..":
                at = at.rpartition("/")[0]
                continue
            try:
                status = os.lstat(f"{self._base}{at}/{part}")
                if not stat.S_ISLNK(status.st_mode):
                    if ahead and not stat.S_ISDIR(status.st_mode):
                        return None
                    at = f"{at}/{part}"
                    continue
                target = os.readlink(f"{self._base}{at}/{part}")
            except (OSError, ValueError):
                return None
            links += 1
            if links > _MAX_LINKS:
                return None
            at = "" if target.startswith("/") else at
            ahead += [name for name in reversed(target.split("/")) if name not in {"", "."}]
        return at or "/"


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts names with numbers in them as people count: card2 before card10."""
    parts: list[tuple[int, int, str]] = []
    text = ""
    for letter in [*name, ""]:
        if text and (letter == "" or letter.isdecimal() != text[-1].isdecimal()):
            is_number = text.isdecimal()
            parts.append((0, int(text), text) if is_number else (1, 0, text))
            text = ""
        text += letter
    return parts
