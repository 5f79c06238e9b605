"""Watch: what a refresh depends on, looked at again and again, for hosts on which systemd does not do it.

Looked at are names, numbers and times, twice a second. That works in every file system, while inotify(7) shows nothing
of /proc and /sys, and fails where descriptors or watches are used up. A change counts once nothing has changed for half
a second, since a driver that is being loaded or installed changes much; so a refresh begins within two seconds.
"""

from __future__ import annotations

import os
import stat
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from shim.base.paths import parent
from shim.cdi import directories
from shim.discover import remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shim.discover.remembered import Remembered
    from shim.host.host import Host

    Seen = dict[str, object]

PAUSE = 0.5  # seconds between two looks
_LONGEST = 5.0  # seconds that changes may go on before they count all the same
_DEEPEST = 8  # levels: /proc/driver/nvidia/capabilities has six

# Directories of which the names count, with all below them
_TREES = ("/proc/driver/nvidia", "/dev/dri", "/dev/serial")
_NAMES = (
    "/sys/module",
    "/sys/class/drm",
    "/sys/class/infiniband",
    "/sys/class/accel",
    "/sys/class/kfd/kfd/topology/nodes",
)
_DRIVER_VERSION = "/proc/driver/nvidia/version"
# Of /dev: what comes and goes with storage and terminals
_UNRELATED = (
    "loop",
    "dm-",
    "nbd",
    "zd",
    "sd",
    "sr",
    "vcs",
    "pts",
    "shm",
    "mqueue",
    "char",
    "block",
    "disk",
    "mapper",
    "fd",
)
_LIBRARIES = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/wsl/drivers",
)


class Watch:
    """Waits for changes of a host.

    Arguments:
        host: the machine.
        pause: waits for a number of seconds; for tests.
    """

    def __init__(self, host: Host, pause: Callable[[float], object] = time.sleep) -> None:
        self._host = host
        self._pause = pause
        self._seen = look(host)

    def wait(self, longest: float | None = None) -> bool:
        """Wait until the host has changed and is quiet again.

        Arguments:
            longest: seconds to wait at most; for ever when not given.
        Returns:
            whether it has changed.
        """
        waited = 0.0
        while longest is None or waited < longest:
            self._pause(PAUSE)
            waited += PAUSE
            seen = look(self._host)
            if seen != self._seen:
                self._seen = self._settled(seen)
                return True
        return False

    def forgive(self, specs: Iterable[str]) -> None:
        """Take the specs that were just written for seen, and what has to be looked at for them from now on."""
        written = set(specs)
        seen = look(self._host)
        self._seen = {path: state if path in written else self._seen.get(path, state) for path, state in seen.items()}

    def _settled(self, seen: Seen) -> Seen:
        for _ in range(int(_LONGEST / PAUSE)):
            self._pause(PAUSE)
            before, seen = seen, look(self._host)
            if seen == before:
                break
        return seen


def look(host: Host) -> Seen:
    """What the specs of a host depend on: path -> names in a directory, or what tells whether a file has changed.

    Arguments:
        host: the machine.
    Raises:
        CdiError: DISCOVERY_STATE.
    """
    every = remembered.every(host)
    seen: Seen = {}
    for directory in _TREES:
        seen.update(_tree(host, directory, _DEEPEST))
    for directory in _NAMES:
        seen[directory] = _names(host, directory)
    for root in dict.fromkeys(["", *(kept.wish.dev_root or kept.wish.driver_root for kept in every)]):
        directory = f"{root.rstrip('/')}/dev"
        seen[directory] = _nodes(host, directory)
    seen[_DRIVER_VERSION] = host.text(_DRIVER_VERSION)
    for path in _files(host, every):
        seen[path] = _state(host, path)
    return seen


def _files(host: Host, every: Iterable[Remembered]) -> Iterator[str]:
    """The files and directories whose change counts: of libraries, rules, modules, and the specs themselves."""
    yield f"/lib/modules/{os.uname().release}/modules.dep"
    for kept in every:
        yield kept.path
        root = kept.wish.driver_root.rstrip("/")
        yield from (f"{root}{directory}" for directory in (*_LIBRARIES, *kept.wish.library_paths))
        yield from _directories_of(str(host.real(kept.path)), _state(host, kept.path))
        for directory in kept.wish.rules_dirs:
            yield directory
            yield from host.glob(f"{directory}/*.toml")
        yield from kept.wish.csv_files


@lru_cache(maxsize=64)  # a large spec takes longer to read than all the rest
def _directories_of(real: str, _state: object) -> list[str]:
    """The directories of the files that a spec mounts, for as long as it is the same file."""
    edits = [each for spec in directories.read((real,)).specs for each in (spec.edits, *spec.devices.values())]
    return sorted({parent(mount["hostPath"]) or "/" for each in edits for mount in each.get("mounts", ())})


def _tree(host: Host, directory: str, levels: int) -> Seen:
    names = _names(host, directory)
    seen: Seen = {directory: names}
    for name in names or ():
        path = f"{directory}/{name}"
        status = _lstat(host, path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            if levels:
                seen.update(_tree(host, path, levels - 1))
        elif status is not None:
            seen[path] = status.st_rdev
    return seen


def _nodes(host: Host, directory: str) -> dict[str, object]:
    """The names in a /dev, with numbers, mode and group; of directories with the time at which a name came or went."""
    nodes: dict[str, object] = {}
    for name in _names(host, directory) or ():
        if not name.startswith(_UNRELATED):
            status = _lstat(host, f"{directory}/{name}")
            if status is not None:
                changed = status.st_mtime_ns if stat.S_ISDIR(status.st_mode) else 0
                nodes[name] = (status.st_rdev, status.st_mode, status.st_gid, changed)
    return nodes


def _names(host: Host, directory: str) -> list[str] | None:
    try:
        return sorted(os.listdir(host.real(directory)))  # noqa: PTH208 (names alone, twice a second)
    except OSError:
        return None


def _state(host: Host, path: str) -> object:
    status = host.status(path)
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode) if status else None


def _lstat(host: Host, path: str) -> os.stat_result | None:
    try:
        return host.real(path).lstat()
    except OSError:
        return None
