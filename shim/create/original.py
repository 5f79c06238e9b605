"""The config.json of a bundle as it was before `run --device`: a later `run` begins from it. Late: for `run` alone.

Engines call `create`, and write config.json anew for each start. A person runs one bundle again and again, and an
option of one command line must not hold for the next. So what `run --device` replaces is kept beside it, in the file
config.json.shim-original: one line of JSON (its length, process and pid namespace of that run), its bytes, and the
bytes that were written instead.

A later `run` puts it back where all of this holds, and else goes on with what is there:

    config.json    has exactly the bytes that were written: it was not edited since
    the run        has ended: in the foreground its process becomes the low-level runtime, which reads the file later
    containers     of this bundle with a record are gone: exec and update of one need the file that was made for it

Whatever a hook did to the container's root stays. Nothing here ends a run: a copy that cannot be kept is none.
"""

from __future__ import annotations

import posix

from shim.base import fastjson
from shim.base.replace import exists
from shim.create.bundle import MAX_SIZE, Bundle
from shim.create.record_files import directory
from shim.create.record_reader import entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

ENDING = ".shim-original"  # in C: has_original in native/launcher.c
_S_IFMT, _S_IFREG = 0o170000, 0o100000


def keep(bundle: Bundle, edited: Json) -> None:
    """Keep the file of a bundle that is about to be replaced.

    Arguments:
        bundle: as it was read.
        edited: its new config.
    """
    written = fastjson.dumps(edited).encode("ascii")
    original = bundle.raw
    try:
        _, earlier, replaced = _read(bundle)
        if replaced == original:  # another run of the same bundle has kept what was before both
            original = earlier
    except Exception:  # noqa: S110  # what is there is no such file, and is replaced
        pass
    try:
        head = fastjson.dumps([len(original), posix.getpid(), posix.readlink("/proc/self/ns/pid")])
        bundle.write_beside(bundle.path + ENDING, b"\n".join((head.encode("ascii"), original + written)))
    except (OSError, ValueError):
        pass


def give_back(path: str) -> None:
    """Put the kept file back where that is right.

    Arguments:
        path: path of the config.json.
    """
    if not exists(path + ENDING):
        return
    bundle = Bundle(path)
    try:
        head, original, written = _read(bundle)
        is_edited = written != bundle.raw
        if is_edited or (not _runs(head) and not _has_containers(path) and bundle.replace(original)):
            posix.unlink(path + ENDING)
    except Exception:  # noqa: S110  # whatever it is: the run goes on with the file that is there
        pass


def _read(bundle: Bundle) -> tuple[list[Any], bytes, bytes]:
    """Head, original and what was written instead; empty where there is no file.

    Raises:
        OSError, ValueError: it cannot be read, or is nothing that `keep` wrote.
    """
    try:
        fd = posix.open(bundle.path + ENDING, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except FileNotFoundError:
        return [], b"", b""
    try:
        status = posix.fstat(fd)
        if status.st_mode & _S_IFMT != _S_IFREG or not bundle.is_of_owner(status) or status.st_size > 3 * MAX_SIZE:
            raise ValueError("it is none of ours")
        line, _, rest = posix.read(fd, status.st_size).partition(b"\n")
    finally:
        posix.close(fd)
    head = fastjson.loads(line.decode("ascii"))
    return head, rest[: head[0]], rest[head[0] :]


def _runs(head: list[Any]) -> bool:
    """Whether the run that kept the file may go on: its process is there, or one of another pid namespace."""
    _, pid, namespace = head
    return namespace != posix.readlink("/proc/self/ns/pid") or exists(f"/proc/{pid}")


def _has_containers(path: str) -> bool:
    """Whether a container may live that got something by this config.json."""
    own = path if path.startswith("/") else f"{posix.getcwd()}/{path}"  # as a record has it
    return any(
        entry["config"] == own and (not entry["states"] or any(exists(state) for state in entry["states"]))
        for entry in entries(directory())
    )
