"""Write the record of an injection, for `exec`, `update` and `shim explain`. HOT.

What it is and holds stands in shim.create.record_files. Everything here fails silently: without a record, exec and
update are what they would be without shim.
"""

from __future__ import annotations

import posix
import time

from shim.base import fastjson
from shim.base.paths import parent
from shim.base.replace import exists, replace
from shim.create.record_files import FORMAT, SWEPT
from shim.host.identity import is_ours, make_directory, mount_namespace, run_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.cdi.plan import Plan
    from shim.create.bundle import Bundle
    from shim.create.invocation import Invocation
    from shim.create.recipe import Decision

    Json = dict[str, Any]

_SWEEP_EVERY = 60  # seconds
_ORIGINS, _ORIGINS_TEXT = "\0", '"\\u0000"'  # stands for the origins in a record; no other text of it is a NUL alone


def write(
    directory: str,
    call: Invocation,
    decision: Decision,
    bundle: Bundle,
    edited: Json,
    folded: list[Json],
) -> None:
    """Leave a record of an injection, and clean up a little.

    Arguments:
        directory: that of the records (shim.create.record_files); with "" nothing happens.
        call: the create; nothing happens when it has no key.
        decision: what was decided; nothing happens when it has no plan.
        bundle: the bundle, edited: its `config` is what it was before.
        edited: its config as it is.
        folded: hooks of the plan that are not in it because they were done (shim.create.outcome.Outcome).
    """
    plan = decision.plan
    if not directory or not call.key or not plan:
        return
    try:
        if not (_is_there(parent(directory)) and _is_there(directory)):
            return
        entry = content(
            call,
            decision,
            id=call.id,
            config=_absolute(call.config),
            identity=list(bundle.identity),
            requests=decision.requests,
            folded=folded,
            rules=decision.entries.rules if decision.entries else [],
            variables=_changes(plan, bundle, edited, directory, call),
        )
        life = [_absolute(call.bundle), states(call, call.id), mount_namespace(), posix.getpid(), posix.getppid()]
        replace(f"{directory}/{call.key}", text(life, entry, plan).encode("ascii"))
        clean_up(directory, call.key)
    except (OSError, ValueError, TypeError):
        pass


def _is_there(directory: str) -> bool:
    """Whether a directory is ours, made where it is missing. Raises OSError."""
    return is_ours(directory) or make_directory(directory)


def clean_up(directory: str, mine: str) -> None:
    """Remove the records of deleted containers, unless that was done in the last minute. Raises OSError, ValueError.

    Arguments:
        directory: that of the records.
        mine: name of the record of this create.
    """
    if _is_time_to_sweep(f"{parent(directory)}/{SWEPT}"):
        from shim.create import record_sweep  # late: once in a while

        record_sweep.sweep(directory, mine)


def text(life: list[Any], entry: Json, plan: Plan) -> str:
    """A record. Raises ValueError or TypeError when it cannot be one.

    Arguments:
        life: its first line, as shim.create.record_files describes it.
        entry: its second line, as `content` gave it.
        plan: the plan, whose origins are encoded once for the record and for an answer.
    """
    return f"{fastjson.dumps(life)}\n{fastjson.dumps(entry).replace(_ORIGINS_TEXT, plan.text(), 1)}\n"


def content(
    call: Invocation,
    decision: Decision,
    *,
    id: str,
    config: str,
    identity: Any,
    requests: Any,
    folded: list[Json],
    rules: list[Json],
    variables: Json,
) -> Json:
    """The second line of a record; shim.create.answers puts holes in the place of what one container has of its own.

    Arguments:
        call, decision, folded: as for `write`.
        id: of the container.
        config: absolute path of its config.json.
        identity: of this file as it was written (shim.host.file_identity).
        requests: as in Decision.
        rules: the cgroup rules of the plan's nodes.
        variables: name -> [new value, value before us or None].
    """
    return {
        "format": FORMAT,
        "name": call.name,
        "root": call.root,
        "id": id,
        "config": config,
        "identity": identity,
        "wanted": requests,
        "origins": _ORIGINS,
        "folded": folded,
        "findings": [finding.to_json() for finding in decision.findings],
        "env": variables,
        "rules": rules,
        **({"subject": decision.subject} if decision.subject else {}),
    }


def _changes(plan: Plan, bundle: Bundle, edited: Json, directory: str, call: Invocation) -> Json:
    """Each variable of the plan: [new value, value before us or None].

    Where a record of an earlier create to the same file holds, the value before that one is the one before us.
    """
    old, new = _variables(bundle.config), _variables(edited)
    entries = (entry for origin in plan.origins for entry in origin["edits"].get("env") or ())
    names = dict.fromkeys(entry.partition("=")[0] for entry in entries)
    known: Json = {}
    if any(name in old for name in names) and exists(f"{directory}/{call.key}"):
        from shim.create import record_reader  # late: few bundles are created twice

        earlier = record_reader.read(directory, call, bundle)
        known = earlier["env"] if earlier else {}
    changes = {}
    for name in names:
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


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"


def states(call: Invocation, id: str) -> list[str]:
    """Where the low-level runtime may keep the state of a container; [] where that is not known.

    runc and crun make the directory ID below --root, by default below /run/NAME, without root $XDG_RUNTIME_DIR/NAME.
    """
    name = call.low.rpartition("/")[2]
    if name not in {"runc", "crun"}:
        return []
    roots = [_absolute(call.root)] if call.root else [f"/run/{name}", f"{run_dir().removesuffix('/shim')}/{name}"]
    return [f"{root}/{id}" for root in roots]


def _is_time_to_sweep(stamp: str) -> bool:
    """Whether the records were last cleaned up a while ago, by the time of a file."""
    try:
        return abs(time.time() - posix.stat(stamp).st_mtime) > _SWEEP_EVERY  # abs: the clock may have been put back
    except OSError:
        return True
