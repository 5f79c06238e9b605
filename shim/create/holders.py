"""Holders: the container that has an exclusively granted device. Late: only where grants are enforced.

An exclusive grant is for a single container at a time. The create reserves its hardware under a lock, so that of many
at once a single one gets it. A holder is named as the low-level runtime's caller does: launcher name, --root, id; so a
container that is started again keeps its device.

A reservation ends with its container, and shim is not notified of that: it counts no longer when the bundle is gone,
when the state of the low-level runtime names a process that is gone (or another process has its number now), when there
is no state 60 s after the create (a container that was never started, or that podman stopped and keeps the bundle of),
or when it is of an earlier boot. Of a low-level runtime whose states are not known only the bundle counts.

The file is /run/shim/holders: a list of objects, one a reservation.

Source: runc, libcontainer/container.go (BaseState); crun, src/libcrun/status.c; proc_pid_stat(5), field 22.
"""

from __future__ import annotations

import fcntl
import posix
import time

from shim.base import fastjson
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.base.replace import exists, replace
from shim.create import record
from shim.grants import overlap
from shim.host.identity import is_our_file, make_directory, run_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.create.invocation import Invocation
    from shim.create.recipe import Decision
    from shim.create.world import World

    Json = dict[str, Any]

_NAME = "holders"
_PATIENCE = 10.0  # seconds
_PAUSE = 0.005
_WITHOUT_STATE = 60.0  # seconds
_LARGEST = 4 * 1024 * 1024
_MEMBERS = frozenset(("name", "root", "id", "bundle", "states", "time", "boot", "device", "hardware"))
_BOOT = "/proc/sys/kernel/random/boot_id"
# (file of the state, member with the process, member with its start)
_STATES = (("state.json", "init_process_pid", "init_process_start"), ("status", "pid", "process-start-time"))


def reserve(call: Invocation, decision: Decision, world: World) -> None:
    """Reserve the exclusively granted devices of a create for its container.

    Arguments:
        call, decision: the create, and what was decided.
        world: answers what the hardware of a device is.
    Raises:
        CdiError: GRANT_HELD, or GRANTS_BUSY where it cannot be reserved.
    """
    names = decision.exclusive
    if not names:
        return
    devices = world.given("hardware", "")
    mine = {"name": call.name, "root": call.root, "id": call.id}
    bundle = call.bundle if call.bundle.startswith("/") else f"{posix.getcwd()}/{call.bundle}"
    entry: Json = {**mine, "bundle": bundle, "states": record.states(call, call.id)}
    entry |= {"time": time.monotonic(), "boot": _boot()}
    directory = run_dir()
    path = f"{directory}/{_NAME}"
    try:
        if not make_directory(directory):
            raise OSError(13, "")
        fd = posix.open(f"{path}.lock", posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC, 0o600)
        try:
            _lock(fd)
            held = [holder for holder in living() if _key(holder) != _key(entry)]
            for name in names:
                _check(name, devices.get(name, [[], []])[0], held)
            held += [{**entry, "device": name, "hardware": devices.get(name, [[], []])[0]} for name in names]
            replace(path, fastjson.dumps(held).encode("ascii"))
        finally:
            posix.close(fd)
    except OSError as error:
        text = f"{', '.join(names)} cannot be reserved for this container: {reason(error)}"
        raise CdiError([Finding("GRANTS_BUSY", text, path=path)]) from None


def living() -> list[Json]:
    """The reservations that count now. Raises OSError: the file cannot be read, is damaged, or is not ours."""
    return [holder for holder in _read(f"{run_dir()}/{_NAME}") if _lives(holder)]


def _lock(fd: int) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)


def _read(path: str) -> list[Json]:
    """The reservations of the file, which is ours; a file that is damaged is an error. Raises OSError."""
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        if not is_our_file(posix.fstat(fd)):
            raise PermissionError(13, "")
        holders = fastjson.loads(posix.read(fd, _LARGEST).decode("ascii"))
    except ValueError:
        raise OSError(22, "") from None
    finally:
        posix.close(fd)
    if not isinstance(holders, list) or not all(
        isinstance(holder, dict) and set(holder) >= _MEMBERS for holder in holders
    ):
        raise OSError(22, "")
    return holders


def _check(name: str, hardware: list[str], held: Iterable[Json]) -> None:
    for holder in held:
        is_same = holder["device"] == name
        if is_same or overlap.is_shared(frozenset(hardware), frozenset(holder["hardware"])):
            which = "" if is_same else f" as {holder['device']}"
            text = f"{name} is granted exclusively, and the container {holder['id']} has it{which}"
            remedy = f"stop the container first (`{holder['name']} --root '{holder['root']}' state {holder['id']}`)"
            raise CdiError([Finding("GRANT_HELD", text, remedy)])


def _key(holder: Json) -> tuple[Any, ...]:
    return holder["name"], holder["root"], holder["id"]


def _lives(holder: Json) -> bool:
    """Whether a reservation counts."""
    if not exists(holder["bundle"]) or holder["boot"] != _boot():
        return False
    if not holder["states"]:
        return True
    states = [state for state in holder["states"] if exists(state)]
    if not states:
        return bool(0 <= time.monotonic() - holder["time"] < _WITHOUT_STATE)
    return any(_runs(state) for state in states)


def _boot() -> str:
    """The id of this boot of the machine. Raises OSError."""
    fd = posix.open(_BOOT, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return posix.read(fd, 64).decode("ascii").strip()
    finally:
        posix.close(fd)


def _runs(directory: str) -> bool:
    """Whether the process of a state runs; True also where that cannot be seen."""
    for name, pid, start in _STATES:
        try:
            fd = posix.open(f"{directory}/{name}", posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
        except OSError:
            continue
        try:
            state = fastjson.loads(posix.read(fd, _LARGEST).decode("utf-8"))
            return _start(int(state[pid])) == int(state[start])
        except (OSError, ValueError, KeyError, TypeError):
            return True
        finally:
            posix.close(fd)
    return True


def _start(pid: int) -> int:
    """When a process started, in ticks after the boot; -1 for one that is gone, or a zombie."""
    try:
        fd = posix.open(f"/proc/{pid}/stat", posix.O_RDONLY | posix.O_CLOEXEC)
    except FileNotFoundError:
        return -1
    try:
        words = posix.read(fd, 4096).rpartition(b")")[2].split()
    except ProcessLookupError:
        return -1
    finally:
        posix.close(fd)
    return -1 if words[0] in (b"Z", b"X") else int(words[19])
