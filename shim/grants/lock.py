"""The lock of the grants: flock(2) on a file of its own, beside the grants.

Not on the grants themselves, which are replaced at each change: two writers would hold locks of different inodes. Not
fcntl(2) locks, which end as soon as any descriptor of the file is closed. The lock belongs to the open description and
ends with its process, also by SIGKILL; the file stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 10.0  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1


@contextlib.contextmanager
def held(path: str, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock.

    Arguments:
        path: of the lock file; it is made when missing, its directory too.
        patience: seconds to wait for another process.
    Raises:
        CdiError: GRANTS_BUSY, with the process that holds it; GRANTS_WRITE.
    """
    try:
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CdiError([Finding("GRANTS_WRITE", f"the lock cannot be taken: {reason(error)}", path=path)]) from None
    try:
        _take(fd, path, patience)
        with contextlib.suppress(OSError):  # the number is only for the message of others
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(fd)


def _take(fd: int, path: str, patience: float) -> None:
    end, pause = time.monotonic() + patience, _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
                text = f"process {holder or 'unknown'} holds the lock, and did not end within {patience:.0f} s"
                remedy = f"let it end (`ps {holder}`), then try again" if holder else ""
                raise CdiError([Finding("GRANTS_BUSY", text, remedy, path=path)]) from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
