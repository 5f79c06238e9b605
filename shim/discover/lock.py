"""The lock that keeps two writers of specs apart, and that a create looks at (shim.create.stale).

It is a file in the directory of our files of this boot, locked by flock(2), so it goes with the process that holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.host import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.host.host import Host

NAME = "refresh.lock"  # as in shim/create/stale.py
PATIENCE = 120.0  # seconds: a driver that is being loaded takes some of them to answer
_PAUSE = 0.05


@contextlib.contextmanager
def held(host: Host, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock. Without a directory of this user's own there is none to hold.

    Arguments:
        host: the machine.
        patience: seconds to wait for another process that holds it.
    Raises:
        CdiError: DISCOVERY_BUSY where it is not given back in time; RUN_DIR_UNTRUSTED where others could hold it.
    """
    directory = identity.run_dir()
    if not directory:
        yield
        return
    real = str(host.real(directory))
    try:
        os.makedirs(os.path.dirname(real), exist_ok=True)  # noqa: PTH103, PTH120 (a fake machine may have no /run)
        if not identity.make_directory(real):
            text = "the directory is not ours alone, so others could keep specs from being written"
            raise CdiError([Finding("RUN_DIR_UNTRUSTED", text, path=directory)])
        fd = os.open(f"{real}/{NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        text = f"the lock cannot be taken: {reason(error)}"
        raise CdiError([Finding("DISCOVERY_STATE", text, path=f"{directory}/{NAME}")]) from None
    try:
        _take(fd, f"{directory}/{NAME}", patience)
        yield
    finally:
        os.close(fd)


def _take(fd: int, path: str, patience: float) -> None:
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:  # also for the moment in which a create looks at it
            if time.monotonic() >= end:
                text = f"another process is writing specs, and did not end within {patience:.0f} s"
                raise CdiError([Finding("DISCOVERY_BUSY", text, path=path)]) from None
            time.sleep(_PAUSE)
