"""Who we are: host root, or somebody in a user namespace or without privileges. HOT.

Decided once, from /proc/self/uid_map: everything that depends on it (where the configuration lies, whom to trust)
asks here and nowhere else.
"""

from __future__ import annotations

import posix

_WHOLE_RANGE = [b"0", b"0", b"4294967295"]


def is_rootful(uid_map: str = "/proc/self/uid_map") -> bool:
    """Whether this process is the host's root: effective uid 0 and the identity mapping of user_namespaces(7).

    Arguments:
        uid_map: the file to read, for tests. Where it cannot be read there are no user namespaces.
    """
    if posix.geteuid() != 0:
        return False
    try:
        fd = posix.open(uid_map, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return True
    try:
        return posix.read(fd, 4096).split() == _WHOLE_RANGE
    finally:
        posix.close(fd)
