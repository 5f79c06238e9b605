"""Stale: why what a spec names is not on the host any more, and whether a refresh of the specs is under way. Late.

A spec names files and nodes as they were when it was written. An update of the driver gives its libraries other names,
a boot may give DRM nodes other numbers, and the low-level runtime would then refuse the container with the bare name of
a file. Here the host is asked what has taken the place of what is missing. Only a create that is refused in any case
comes here, so it may list directories; a create never writes a spec.
"""

from __future__ import annotations

import fcntl
import posix
import re
import time

from shim.base import fastjson
from shim.base.findings import CdiError, Finding
from shim.host.identity import run_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shim.cdi.plan import Block, NodeError
    from shim.create.world import World

DRIVER_VERSION = "/proc/driver/nvidia/version"
REFRESH_LOCK = "refresh.lock"  # in run_dir(); `shim cdi refresh` holds it (flock(2)) while it writes
_PATIENCE = 5.0  # seconds that a create waits for a refresh
_PAUSE = 0.05  # seconds between two looks at the lock

_VERSION = re.compile(r"\d+(?:\.\d+)+")
_DRM_NODE = re.compile(r"/dev/dri/(card|renderD)\d+")
# An address as sysfs has it, in a by-path link, and in the names of devices: 0000:03:00.0, 0000-03-00-0
_PCI_ADDRESS = re.compile(r"([0-9a-f]{4})[:-]([0-9a-f]{2})[:-]([0-9a-f]{2})[.-]([0-7])")


def missing_mount(source: str, target: str, spec: str, world: World) -> Finding:
    """Why the source of a mount is missing.

    Arguments:
        source, target: of the mount: paths on the host and in the container.
        spec: path of the spec.
        world: answers what the host has.
    Returns:
        SPEC_STALE where the host has the file in another version, else MOUNT_MISSING.
    """
    text = f"{source} is missing on the host, which the spec mounts at {target}"
    for there, version in _other_versions(source, world):
        running = f", and the kernel runs {version}" if version in driver_version(world).split() else ""
        return _stale(f"{text}; the host has {there}{running}", spec)
    return Finding("MOUNT_MISSING", text, path=spec)


def other_driver(source: str, version: str, spec: str, world: World) -> Finding:
    """SPEC_STALE for a library of NVIDIA's driver that is of another version than the driver in the kernel.

    Arguments: as of `missing_mount`; `version` is that of the file.
    """
    running = " ".join(_VERSION.findall(driver_version(world))[:1])
    text = f"{source} is of the driver {version}, and the kernel runs {running}: CUDA fails with such a pair"
    if any(version == running for _, version in _other_versions(source, world)):
        return _stale(f"{text}; the host has the files of {running}", spec)
    remedy = (
        f"load the module of the driver {version} (usually: restart the machine), or install the files of {running}"
    )
    return Finding("SPEC_STALE", text, remedy, path=spec)


def missing_node(error: NodeError, blocks: Iterable[Block], world: World) -> CdiError:
    """Why a device node cannot be used: SPEC_STALE for a DRM node whose card has another one now, else the error.

    Arguments:
        error: what was refused.
        blocks: the edits of the devices that were asked for; a PCI address in them tells which card is meant.
        world: answers what the host has.
    """
    node = _DRM_NODE.fullmatch(error.node)
    spec = error.findings[0].path
    if not node:
        return error
    for path, device, edits in blocks:
        nodes = edits.get("deviceNodes") or ()
        if path != spec or not any(error.node == (entry.get("hostPath") or entry["path"]) for entry in nodes):
            continue
        addresses = {":".join(found[:3]) + f".{found[3]}" for found in _addresses(device, edits)}
        for address in sorted(addresses) if len(addresses) == 1 else ():  # `all` names every card
            now = [name for name in _names(f"/sys/bus/pci/devices/{address}/drm", world) if name.startswith(node[1])]
            if now and f"/dev/dri/{now[0]}" != error.node:
                text = f"{error.node} is missing on the host; the card at {address} has /dev/dri/{now[0]} now"
                return CdiError([_stale(text, spec)])
    return error


def driver_version(world: World) -> str:
    """What NVIDIA's kernel driver reports of its version, "" where none is loaded."""
    try:
        return world.read(DRIVER_VERSION)[1]
    except OSError:
        return ""


def has_waited(refusal: CdiError) -> bool:
    """Wait for a refresh of the specs, if one is running.

    Arguments:
        refusal: why the create is refused; it is extended by the fact that the refresh did not end in time.
    Returns:
        whether a refresh was running and has ended: the create is to be decided anew.
    """
    if not _is_refreshing():
        return False
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        time.sleep(_PAUSE)
        if not _is_refreshing():
            return True
    refusal.args = (f"{refusal}; a refresh of the specs is running, and did not end within {_PATIENCE:.0f} s",)
    return False


def _is_refreshing() -> bool:
    directory = run_dir()
    if not directory:
        return False
    try:
        fd = posix.open(f"{directory}/{REFRESH_LOCK}", posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        posix.close(fd)
    return False


def _stale(text: str, spec: str) -> Finding:
    is_ours = spec.rpartition("/")[2].startswith("shim-")
    remedy = (
        "" if is_ours else "write the spec anew with the program that wrote it, or let `shim cdi generate` write it"
    )
    return Finding("SPEC_STALE", text, remedy, path=spec)


def _other_versions(path: str, world: World) -> Iterator[tuple[str, str]]:
    """(path, version) of what lies where `path` would with another version in place of the one in it."""
    for version in dict.fromkeys(reversed(_VERSION.findall(path))):
        before, _, after = path.partition(version)
        directory, _, start = before.rpartition("/")
        end = after.partition("/")[0]
        for name in _names(directory or "/", world):
            match = _VERSION.match(name, len(start)) if name.startswith(start) else None
            if match and name[match.end() :] == end and match[0] != version:
                candidate = path.replace(version, match[0])
                if not world.is_missing(candidate):
                    yield candidate, match[0]


def _addresses(device: str | None, edits: dict[str, object]) -> list[tuple[str, ...]]:
    return _PCI_ADDRESS.findall(f"{device or ''} {fastjson.dumps(edits)}")


def _names(directory: str, world: World) -> list[str]:
    try:
        return world.names(directory)
    except OSError:
        return []
