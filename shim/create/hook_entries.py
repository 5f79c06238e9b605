"""config.json without hooks whose work is done. Pure. HOT, late.

The entry of a hook that was done is not put into config.json; of an entry with several hooks the rest stays. Nothing
that stood in config.json before is removed: its hooks belong to the program that wrote them.
"""

from __future__ import annotations

from shim.cdi import edits
from shim.config.settings import KNOWN
from shim.create import known_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from shim.cdi.plan import Plan
    from shim.create.world import World
    from shim.hooks.core import HookCall

    Json = dict[str, Any]


def without_known(edited: Json, config: Json, plan: Plan, launcher: str, world: World) -> Json:
    """The config without the plan's known hooks: for a checkpoint, whose container has been started long ago.

    Arguments:
        edited: the config with the plan; not changed.
        config: the config without it.
        plan: what was injected.
        launcher: path of our program.
        world: answers what lies at a path.
    """
    for stage, item in known_hooks.new(plan, config):
        if known_hooks.read(item, launcher, world, KNOWN):
            edited = replaced(edited, config, stage, item, None)
    return edited


def rest(item: Json, call: HookCall, done: Collection[str]) -> Json | None:
    """A hook without the names that are done, None where all are.

    Arguments:
        item: a hook of a plan.
        call: its command line.
        done: names of hooks.
    """
    indexes = {index for index, name in call.names.items() if name in done}
    if len(indexes) == len(call.names):
        return None
    return {**item, "args": [word for index, word in enumerate(item["args"]) if index not in indexes]}


def is_rest_of(entry: Json, item: Json, call: HookCall) -> bool:
    """Whether a hook of config.json is what an earlier create left of `item`, a hook of the plan with this `call`."""
    names = set(call.names.values())
    of_entry, of_item = ([word for word in hook.get("args") or () if word not in names] for hook in (entry, item))
    return bool(entry["path"] == item["path"] and of_entry == of_item)


def replaced(edited: Json, config: Json, stage: str, item: Json, left: Json | None) -> Json:
    """The config with `left` in the place of a hook of the plan; a section that was made for the hook alone goes, too.

    Arguments:
        edited: the config with the plan; not changed.
        config: the config without it.
        stage: of the hook.
        item: the hook.
        left: what stays of it, see rest().
    """
    entries = []
    for entry in edited["hooks"][stage]:
        if not isinstance(entry, dict) or "path" not in entry or not known_hooks.is_same(entry, item):
            entries.append(entry)
        elif left and not any(known_hooks.is_same(other, left) for other in known_hooks.entries(config, stage)):
            entries.append(edits.hook(left))
    hooks = {**edited["hooks"], stage: entries}
    if not entries and stage not in (config.get("hooks") or {}):
        del hooks[stage]
    if hooks or "hooks" in config:
        return {**edited, "hooks": hooks}
    return {member: value for member, value in edited.items() if member != "hooks"}
