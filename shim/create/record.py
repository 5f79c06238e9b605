"""The record of an injection, for `exec`, `update` and `shim explain`: /run/shim/c/KEY. HOT.

Engines take the environment of `exec` from records of their own, not from config.json, so what a device sets there is
not seen. So each create that injects leaves a record, and each exec looks for one: where there is none, which costs one
failed open, exec is passed on as it is. An update of resources looks for it, too, for the rules of the devices.

KEY names a container as the runtime's caller does; it is the short name (shim.host.identity) of these bytes:

    last part of the launcher's argv[0], NUL, the value of --root as it was given ("" without one), NUL, the id

The launcher computes the same (native/places.c), and hands it over as `key`.

A record is one line of JSON about the container's life, then one of JSON with the rest: format, the three texts of
the key (two containers may share one), path and identity of the config.json that we wrote, who asked for what, the
origins of the plan, the warnings, the hooks that create did itself, and for each variable its new and old value. It
counts while config.json has that identity, or was saved again and still holds all that was injected but the cgroup
rules: `podman update` does that, and replaces linux.resources. The first line stands alone so that cleaning up need
not decode the rest: nobody tells us when a container is deleted, so each injecting create looks at up to 16 records
and unlinks those of deleted containers: the bundle is gone, or has become another container's.

The first line is a list: bundle, directories of which the low-level runtime keeps one while the container exists ([]:
unknown), mount namespace, process id of the create and of its parent. Where the bundle lies in another mount namespace
nobody can see here whether it is gone; then the parent counts, which under an engine is the container's monitor.
(Version 0.1.0 wrote the bundle alone, a text.)

Everything here fails silently: without a record, exec and update are what they would be without shim.
"""

from __future__ import annotations

import posix

from shim.base import fastjson
from shim.base.replace import exists, is_left_over, replace
from shim.host.file_identity import identity
from shim.host.identity import is_our_file, is_ours, make_directory, run_dir, short_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from shim.cdi.plan import Plan
    from shim.create.bundle import Bundle
    from shim.create.invocation import Invocation
    from shim.create.recipe import Decision

    Json = dict[str, Any]

FORMAT = 1
_HOOK = ("hookName", "path", "args")  # what tells one hook from another
_SWEPT = 16  # records looked at by one create
_MAX_SIZE = 16 * 1024 * 1024
_LONGEST_LINE = 6 * 3 * 4096  # three paths of PATH_MAX bytes, each of which may be written as \\uXXXX


def key(name: str, root: str, id: str) -> str:
    """The name of a container's record, see above.

    Arguments:
        name: last part of the launcher's argv[0].
        root: the value of --root, "" without one.
        id: the container's id.
    """
    return short_name("\0".join((name, root, id)))


def directory() -> str:
    """Where records lie: /run/shim/c, and for others than host root $XDG_RUNTIME_DIR/shim/c; "" for nowhere."""
    base = run_dir()
    return f"{base}/c" if base else ""


# --- writing --------------------------------------------------------------------------------------------------------


def write(
    place: str,
    call: Invocation,
    decision: Decision,
    bundle: Bundle,
    edited: Json,
    folded: list[Json],
) -> None:
    """Leave a record of an injection, and clean up a little.

    Arguments:
        place: what directory() says; with "" nothing happens.
        call: who is created; nothing happens when it has no key.
        decision: what was decided; nothing happens when it has no plan.
        bundle: the bundle, edited: its `config` is what it was before.
        edited: its config as it is.
        folded: hooks of the plan that are not in it because they were done (shim.create.outcome.Outcome).
    """
    plan = decision.plan
    if not place or not call.key or not plan:
        return
    try:
        if not _make_directories(place):
            return
        entry = {
            "format": FORMAT,
            "name": call.name,
            "root": call.root,
            "id": call.id,
            "config": _absolute(call.config),
            "identity": list(bundle.identity),
            "wanted": decision.requests,
            "origins": plan.origins,
            "folded": folded,
            "findings": [finding.to_json() for finding in decision.findings],
            "env": _changes(plan, bundle.config, edited, read(place, call, bundle)),
        }
        own_bundle = _absolute(call.bundle)
        life = [own_bundle, _states(call), _mounts(), posix.getpid(), posix.getppid()]
        replace(f"{place}/{call.key}", f"{fastjson.dumps(life)}\n{fastjson.dumps(entry)}\n".encode("ascii"))
        _sweep(place, call.key, own_bundle)
    except (OSError, ValueError, TypeError):
        pass


def _changes(plan: Plan, before: Json, after: Json, earlier: Json | None) -> Json:
    """Each variable of the plan: [new value, value before us or None].

    Where a record of an earlier create to the same file holds, the value before that one is the one before us.
    """
    old, new = _variables(before), _variables(after)
    known = earlier["env"] if earlier else {}
    changes = {}
    for origin in plan.origins:
        for entry in origin["edits"].get("env") or ():
            name = entry.partition("=")[0]
            known_new, known_old = known.get(name, (None, None))
            value = old.get(name)
            changes[name] = [new[name], known_old if value is not None and value == known_new else value]
    return changes


def _variables(config: Json) -> dict[str, str]:
    """The environment of a config.json or of a process file; of a variable that stands there twice the last value."""
    process = config.get("process")
    given = process.get("env") if isinstance(process, dict) else None
    pairs = (entry.partition("=") for entry in given or () if isinstance(entry, str))
    return {name: value for name, _, value in pairs}


def _make_directories(place: str) -> bool:
    """Make the directory and its parent where they are missing; whether both are ours."""
    return make_directory(place.rpartition("/")[0]) and make_directory(place)


def _are_ours(place: str) -> bool:
    return is_ours(place.rpartition("/")[0]) and is_ours(place)


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"


def _states(call: Invocation) -> list[str]:
    """Where the low-level runtime may keep the state of the container; [] where that is not known.

    runc and crun make the directory ID below --root, by default below /run/NAME, without root $XDG_RUNTIME_DIR/NAME.
    """
    name = call.low.rpartition("/")[2]
    if name not in {"runc", "crun"}:
        return []
    roots = [_absolute(call.root)] if call.root else [f"/run/{name}", f"{run_dir().removesuffix('/shim')}/{name}"]
    return [f"{root}/{call.id}" for root in roots]


def _mounts() -> str:
    """What names our mount namespace, "" where that cannot be found out."""
    try:
        return posix.readlink("/proc/self/ns/mnt")
    except OSError:
        return ""


def _sweep(place: str, mine: str, bundle: str) -> None:
    """Unlink records of deleted containers among a few of the files; others look at others, as their pids differ."""
    names = posix.listdir(place)
    first = posix.getpid() % len(names)
    for name in (names[first:] + names[:first])[:_SWEPT]:
        try:
            if name != mine and not _is_needed(place, name, bundle):
                posix.unlink(f"{place}/{name}")
        except OSError:
            pass


def _is_needed(place: str, name: str, own_bundle: str) -> bool:
    """Whether a container may live whose record has this name, or a process that writes one."""
    if "." in name:
        return not is_left_over(name)
    line, _, _ = _read(f"{place}/{name}", _LONGEST_LINE).partition(b"\n")
    try:
        bundle, states, mounts, pid, parent = _life(line)
        if mounts not in {"", _mounts()}:
            return exists(bundle) or parent == 0 or exists(f"/proc/{parent}")  # 0: of an outer pid namespace
        if bundle != own_bundle or not states:
            return exists(bundle)
        return exists(f"/proc/{pid}") or any(exists(state) for state in states)
    except (ValueError, TypeError):
        return False


def _life(line: bytes) -> list[Any]:
    """The first line of a record. Raises ValueError."""
    life = fastjson.loads(line.decode("ascii"))
    return [life, [], "", 0, 0] if isinstance(life, str) else life


# --- reading --------------------------------------------------------------------------------------------------------


def read(place: str, call: Invocation, earlier: Bundle | None = None) -> Json | None:
    """The record of a container, with the member `bundle` added, None where there is none that still holds.

    Arguments:
        place: what directory() says.
        call: whose record; its key, name, root and id count.
        earlier: config.json as it was read before it was edited; looked up when not given.
    """
    try:
        if not _are_ours(place):
            return None
        life, _, rest = _read(f"{place}/{call.key}", _MAX_SIZE).partition(b"\n")
        entry = fastjson.loads(rest.decode("ascii"))
        entry["bundle"] = _life(life)[0]
        known = (entry["format"], entry["name"], entry["root"], entry["id"])
        if known != (FORMAT, call.name, call.root, call.id) or not _is_env(entry["env"]):
            return None
        if not (_is_of(entry, earlier) if earlier else _holds(entry)):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return entry if isinstance(entry, dict) else None


def entries(place: str) -> Iterator[Json]:
    """Every record that can be read, for people who know a container by its id only.

    Arguments:
        place: what directory() says.
    Yields:
        the record, with the members `bundle` and `holds` added: whether config.json still has what was injected.
    """
    try:
        names = sorted(posix.listdir(place)) if place and _are_ours(place) else []
    except OSError:
        names = []
    for name in names:
        try:
            life, _, rest = _read(f"{place}/{name}", _MAX_SIZE).partition(b"\n")
            entry = fastjson.loads(rest.decode("ascii"))
            whole = key(entry["name"], entry["root"], entry["id"]) == name and entry["format"] == FORMAT
            entry["bundle"] = _life(life)[0]
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


def _read(path: str, size: int) -> bytes:
    fd = posix.open(path, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
    try:
        status = posix.fstat(fd)
        if not is_our_file(status):
            return b""
        return posix.read(fd, min(size, status.st_size))
    finally:
        posix.close(fd)
