"""Execute a command as root in new user, mount and PID namespaces where every id is itself: `namespaces.py COMMAND`.

All that was started ends when this program does, however it ends.

A binfmt_misc file system belongs to its user namespace, so what is registered there holds for no other process of the
machine. `unshare` maps ids by newuidmap, which gives root no range of its own on most machines; root can write the map.

Source: user_namespaces(7), PR_SET_PDEATHSIG(2const), Documentation/admin-guide/binfmt-misc.rst (since Linux 6.7 an
instance for each namespace).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_NEWNS, _NEWUSER, _NEWPID = 0x00020000, 0x10000000, 0x20000000
_EVERY_ID = "0 0 4294967295"
_PR_SET_PDEATHSIG = 1


def _first(command: list[str]) -> int:
    """Process 1 of a PID namespace: the exit status of a command; orphans are taken until it ends."""
    child = os.fork()
    if child == 0:
        os.execvp(command[0], command)
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status) & 0xFF


def main(command: list[str]) -> int:
    """The exit status of the command."""
    ready, tell_ready = os.pipe()
    mapped, tell_mapped = os.pipe()
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_NEWUSER | _NEWNS | _NEWPID):
            sys.exit(f"namespaces: {os.strerror(ctypes.get_errno())}")
        os.write(tell_ready, b"x")
        os.read(mapped, 1)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of ids resets it
        first = os.fork()
        if first == 0:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os._exit(_first(command))
        os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
    os.close(tell_ready)
    if os.read(ready, 1):
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{name}").write_text(_EVERY_ID)
        os.write(tell_mapped, b"x")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
