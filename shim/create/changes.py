"""Changes: how the config of a decision differs from that of its question, as plain values. HOT, no I/O.

A decision is made from a projection of config.json (shim.create.question). It carries its changes, which are then made
in the whole of config.json. Only members that an edit can change are compared.
"""

from __future__ import annotations

from shim.cdi.edits import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Json = dict[str, Any]

_EDITED = tuple(path for _, paths in KINDS.values() for path in paths)
_HOOKS = ("hooks",)


def between(before: Json, after: Json) -> list[Json]:
    """The changes that make one projection of another.

    Arguments:
        before: a question's config.
        after: the same with devices.
    Returns:
        {"path": names from the top level down, "value": the new value} for each member that differs, hooks stage by
        stage; without "value" for a member that is removed.
    """
    changes: list[Json] = []
    is_new = before.get("process") is None and after.get("process") is not None
    if is_new:  # as a whole: it holds what every process must have (shim.cdi.edits)
        changes.append({"path": ["process"], "value": after["process"]})
    for path in _EDITED:
        old, new = _member(before, path), _member(after, path)
        if old is new or (is_new and path[0] == "process"):
            continue
        if path == _HOOKS and isinstance(old or {}, dict) and isinstance(new, dict):
            changes += _stages(old or {}, new)
        elif old != new:
            changes.append({"path": list(path)} if new is _MISSING else {"path": list(path), "value": new})
    return changes


def make(config: Json, changes: Sequence[Json]) -> Json:
    """A config.json with changes.

    Arguments:
        config: the decoded config.json; not changed, the result shares members with it.
        changes: of `between`.
    """
    result = dict(config)
    copied: dict[tuple[str, ...], Json] = {(): result}
    for change in changes:
        *sections, name = change["path"]
        section = result
        for depth, member in enumerate(sections, 1):
            key = tuple(sections[:depth])
            if key not in copied:
                copied[key] = dict(section.get(member) or {})
                section[member] = copied[key]
            section = copied[key]
        if "value" in change:
            section[name] = change["value"]
        else:
            section.pop(name, None)
    return result


class _Missing:
    """Stands for a member that is not there."""


_MISSING = _Missing()


def _member(config: Json, path: tuple[str, ...]) -> Any:
    value: Any = config
    for name in path:
        value = value.get(name, _MISSING) if isinstance(value, dict) else _MISSING
    return value


def _stages(old: Json, new: Json) -> list[Json]:
    """The changes of the hooks, one for each stage: config.json may have stages that no edit changes."""
    changes: list[Json] = []
    for stage in [*new, *(stage for stage in old if stage not in new)]:
        if stage not in new:
            changes.append({"path": ["hooks", stage]})
        elif old.get(stage) is not new[stage] and (stage not in old or old[stage] != new[stage]):
            changes.append({"path": ["hooks", stage], "value": new[stage]})
    return changes
