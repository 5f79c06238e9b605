"""Read the record of an injection, for `exec`, `update` and `shim explain`. Late: no create needs it.

What it is and holds stands in shim.create.record_files.
"""

from __future__ import annotations

import posix

from shim.base import fastjson
from shim.create.record_files import FORMAT, key
from shim.host.file_identity import identity
from shim.host.identity import is_our_file, is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from shim.create.bundle import Bundle
    from shim.create.invocation import Invocation

    Json = dict[str, Any]

_HOOK = ("hookName", "path", "args")  # the members that identify a hook
_MAX_SIZE = 16 * 1024 * 1024


def read(directory: str, call: Invocation, earlier: Bundle | None = None) -> Json | None:
    """The record of a container, with the member `bundle` added, None where there is none that still holds.

    Arguments:
        directory: see shim.create.record_files.
        call: whose record; its key, name, root and id count.
        earlier: config.json as it was read before it was edited; looked up when not given.
    """
    try:
        if not _are_ours(directory):
            return None
        life, _, rest = read_file(f"{directory}/{call.key}", _MAX_SIZE).partition(b"\n")
        entry = fastjson.loads(rest.decode("ascii"))
        entry["bundle"] = first_line(life)[0]
        known = (entry["format"], entry["name"], entry["root"], entry["id"])
        if known != (FORMAT, call.name, call.root, call.id) or not _is_env(entry["env"]):
            return None
        if not (_is_of(entry, earlier) if earlier else _holds(entry)):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return entry if isinstance(entry, dict) else None


def entries(directory: str) -> Iterator[Json]:
    """Every record that can be read, to find a container by its id alone.

    Arguments:
        directory: see shim.create.record_files.
    Yields:
        the record, with members added: `bundle`; `states`, the directories of which the low-level runtime keeps one
        while the container exists; `holds`, whether config.json still has what was injected.
    """
    try:
        names = sorted(posix.listdir(directory)) if directory and _are_ours(directory) else []
    except OSError:
        names = []
    for name in names:
        try:
            life, _, rest = read_file(f"{directory}/{name}", _MAX_SIZE).partition(b"\n")
            entry = fastjson.loads(rest.decode("ascii"))
            whole = key(entry["name"], entry["root"], entry["id"]) == name and entry["format"] == FORMAT
            entry["bundle"], entry["states"], *_ = first_line(life)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if whole and _is_env(entry["env"]):
            yield {**entry, "holds": _holds(entry)}


def _holds(entry: Json) -> bool:
    try:
        if tuple(entry["identity"]) == identity(posix.lstat(entry["config"])):
            return True
    except (OSError, ValueError):
        return False
    from shim.create.bundle import Bundle  # late, like the next: an engine has saved config.json again

    return _is_of(entry, Bundle(entry["config"]))


def _is_of(entry: Json, bundle: Bundle) -> bool:
    """Whether a config.json is the one of a record, or has all edits of it but cgroup rules."""
    if tuple(entry["identity"]) == bundle.read_identity:
        return True
    from shim.cdi.plan import Plan
    from shim.create import merge

    folded = [[hook.get(member) for member in _HOOK] for hook in entry.get("folded") or ()]
    origins = []
    for origin in entry["origins"]:
        block = {kind: items for kind, items in origin["edits"].items() if kind != "netDevices"}  # moved by hooks
        if block.get("hooks"):
            block["hooks"] = [hook for hook in block["hooks"] if [hook.get(member) for member in _HOOK] not in folded]
        origins.append({**origin, "edits": block})
    try:
        edited = merge.add(Plan([], origins), bundle.config)
    except Exception:  # a record of another making, or a config.json of other types
        return False
    return not bundle.fault and _without_resources(edited) == _without_resources(bundle.config)


def _without_resources(config: Json) -> Json:
    linux = config.get("linux")
    kept = {name: value for name, value in linux.items() if name != "resources"} if isinstance(linux, dict) else {}
    return {**config, "linux": kept}


def _is_env(env: Json) -> bool:
    return all(
        isinstance(new, str) and (old is None or isinstance(old, str)) and "=" not in name
        for name, (new, old) in env.items()
    )


def _are_ours(directory: str) -> bool:
    return is_ours(directory.rpartition("/")[0]) and is_ours(directory)


def first_line(line: bytes) -> list[Any]:
    """The first line of a record, decoded. Raises ValueError."""
    life = fastjson.loads(line.decode("ascii"))
    return [life, [], "", 0, 0] if isinstance(life, str) else life


def read_file(path: str, size: int) -> bytes:
    """At most `size` bytes of a file of ours, none of another's. Raises OSError."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
    try:
        status = posix.fstat(fd)
        if not is_our_file(status):
            return b""
        return posix.read(fd, min(size, status.st_size))
    finally:
        posix.close(fd)
