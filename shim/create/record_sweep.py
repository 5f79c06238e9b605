"""Sweep: remove the records of deleted containers. Late.

shim is not called when a container is deleted, so a create that injects looks for such records, unless that was done in
the last minute: at up to 256 files, from another one on each time. So a record, or half of one by a killed writer, goes
with the first create that comes a minute after its container; where there are more than 256 files, with a later one.

A record is needed while its bundle is there, and has not become another container's: that of a later record.
"""

from __future__ import annotations

import posix

from shim.base.replace import exists, is_left_over
from shim.create.record_files import SWEPT
from shim.create.record_reader import first_line, read_file
from shim.host.identity import mount_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FILES = 256
_LONGEST_LINE = 6 * 3 * 4096  # three paths of PATH_MAX bytes, each of which may be written as \\uXXXX


def sweep(directory: str, mine: str) -> None:
    """Unlink records of deleted containers, and what killed writers left.

    Arguments:
        directory: that of the records.
        mine: name of the record of this create, which stays.
    Raises:
        OSError: the directory cannot be read, or the stamp cannot be written.
    """
    _stamp(f"{directory.rpartition('/')[0]}/{SWEPT}")
    names = sorted(posix.listdir(directory))
    first = posix.getpid() % max(1, len(names))
    lives: dict[str, list[Any]] = {}
    newest: dict[str, tuple[int, str]] = {}  # bundle -> when its latest record was written, and the name of that
    for name in (names[first:] + names[:first])[:_FILES]:
        life = _life(directory, name)
        if life is None:
            _unlink(directory, name)
        elif life:
            lives[name] = life
            written = _written(directory, name)
            newest[life[0]] = max(newest.get(life[0], (0, "")), (written, name))
    for name, life in lives.items():
        if name != mine and not _is_needed(life, is_newest=newest[life[0]][1] == name):
            _unlink(directory, name)


def _stamp(path: str) -> None:
    """Note the time, before the work: others that create at the same time need not do it as well."""
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC
    fd = posix.open(path, flags, 0o600)
    try:
        posix.utime(fd)
    finally:
        posix.close(fd)


def _life(directory: str, name: str) -> list[Any] | None:
    """The first line of a record; [] for what another process writes, None for what is of no use."""
    if "." in name:
        return None if is_left_over(name) else []
    try:
        life = first_line(read_file(f"{directory}/{name}", _LONGEST_LINE).partition(b"\n")[0])
        bundle, _, _, _, _ = life
        return life if isinstance(bundle, str) else None
    except OSError:
        return []  # another create has removed it, or it is none of ours
    except (ValueError, TypeError):
        return None


def _is_needed(life: list[Any], *, is_newest: bool) -> bool:
    """Whether a container may live.

    Arguments:
        life: the first line of its record.
        is_newest: of all records that name the same bundle.
    """
    bundle, states, mounts, pid, monitor = life
    if mounts not in {"", mount_namespace()}:
        return exists(bundle) or monitor == 0 or exists(f"/proc/{monitor}")  # 0: of an outer pid namespace
    if is_newest or not states:
        return exists(bundle)
    return exists(f"/proc/{pid}") or any(exists(state) for state in states)


def _written(directory: str, name: str) -> int:
    try:
        return posix.stat(f"{directory}/{name}").st_mtime_ns
    except OSError:
        return 0


def _unlink(directory: str, name: str) -> None:
    try:
        posix.unlink(f"{directory}/{name}")
    except OSError:
        pass
