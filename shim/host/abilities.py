"""What a low-level runtime can do, known without starting it. `native_net_devices` is HOT.

`RUNTIME features` reports it, but the create path starts no process. So the set-up of shim asks once (`learn`) and the
answer is written down, bound to the runtime's file by device, inode, size and both times: replaced, upgraded or
downgraded, the file is another one and the answer does not count. The record only ever grants: no record, an odd one,
one that another user could have written, a runtime that is a script (its file does not show what it starts) all
mean "not known", which shim.create.netdevices treats as no.

The record is text: HEAD, then for each runtime that takes `linux.netDevices` one line "netDevices DEV INODE SIZE MTIME
CTIME PATH", times in nanoseconds.
"""

from __future__ import annotations

import posix

from shim.host.file_identity import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.host.look import FileStatus, Reader

RECORD = "/var/lib/shim/abilities"
HEAD = "shim abilities 1"
_CAP = 65536  # bytes


def native_net_devices(runtime: str, look: Reader, record: str = RECORD) -> bool:
    """Whether the low-level runtime is known to take `linux.netDevices` (OCI runtime specification 1.3).

    Arguments:
        runtime: path of its program.
        look: answers what lies at a path.
        record: the file that `learn` wrote.
    """
    try:
        return _line(runtime, look.stat(runtime)) in _lines(*look.read(record), {0})  # only root moves interfaces
    except (OSError, ValueError):
        return False


def learn(runtime: str, record: str = RECORD) -> bool:
    """Ask a low-level runtime and write its answer down. Not for the create path: it starts the runtime.

    Arguments:
        runtime: path of its program.
        record: the file to write; its directory is made when it is missing.
    Returns:
        whether it takes `linux.netDevices`.
    Raises:
        OSError: the runtime cannot be read or started, or the record cannot be written.
    """
    import os  # late, like the next: this function is not for the create path

    from shim.base import files

    line = _line(runtime, posix.stat(runtime))  # before it is asked: a runtime replaced meanwhile is then another one
    able = "\n" not in runtime and _is_elf(runtime) and _features(runtime)
    directory = os.path.dirname(record)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    try:
        known = [other for other in _read(record) if other.split(" ", 6)[-1] != runtime]
    except (OSError, ValueError):
        known = []
    text = "\n".join([HEAD, *known, *([line] if able else []), ""])
    files.write(record, text.encode("utf-8", "surrogateescape"), mode=0o600)
    return able


def _read(record: str) -> list[str]:
    """The lines of a record. Raises OSError or ValueError."""
    fd = posix.open(record, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOFOLLOW)
    try:
        text = posix.read(fd, _CAP).decode("utf-8", "surrogateescape")
        return _lines(posix.fstat(fd), text, {0, posix.geteuid()})
    finally:
        posix.close(fd)


def _lines(state: FileStatus, text: str, users: set[int]) -> list[str]:
    """The lines of a record that only one of these users can have written. Raises ValueError."""
    if state.st_mode & 0o170022 != 0o100000 or state.st_uid not in users:  # S_IFREG, not g+w, o+w
        raise ValueError("not a file of ours")
    lines = text.split("\n")
    if lines[0] != HEAD or lines[-1] != "":
        raise ValueError("another format, or not whole")
    return lines[1:-1]


def _line(runtime: str, state: FileStatus) -> str:
    """How a record says that this very file, behind links, takes network devices."""
    return f"netDevices {' '.join(str(number) for number in identity(state))} {runtime}"


def _is_elf(runtime: str) -> bool:
    with open(runtime, "rb") as file:
        return file.read(4) == b"\x7fELF"


def _features(runtime: str) -> bool:
    import json  # late, like the next: not for the create path
    import subprocess

    try:
        command = [runtime, "features"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
        return done.returncode == 0 and json.loads(done.stdout)["linux"]["netDevices"]["enabled"] is True
    except (subprocess.TimeoutExpired, ValueError, LookupError, TypeError):
        return False
