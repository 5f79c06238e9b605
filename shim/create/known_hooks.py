"""Which hooks of a plan are known: hooks of ours, or of NVIDIA's hook programs, whose work create can do. HOT, late.

The table of hooks is in C (hooks/hook.c); shim.hooks.core has it for Python. A hook of another program is foreign: what
it does is unknown.
"""

from __future__ import annotations

from shim.config.settings import KNOWN, OFF, VENDOR_PROGRAMS
from shim.hooks import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.cdi.plan import Plan
    from shim.create.question import Question
    from shim.create.world import World

    Json = dict[str, Any]

STAGES = ("prestart", "createRuntime", "createContainer")  # as they run; later ones run in a container that is made
_RUNTIMES = ("runc", "crun")
_EARLY = tuple(hook for hook in core.HOOKS if hook.before != core.LATER)
_WITHOUT_LIBRARIES = frozenset(hook.name for hook in core.HOOKS if not hook.makes_libraries)


def read(item: Json, launcher: str, world: World, which: str) -> core.HookCall | None:
    """What a hook asks for, None for one that is not known.

    Arguments:
        item: a hook of a plan or of config.json.
        launcher: path of our program. Its hook is read by `args`, one of the vendor's programs by its path.
        world: answers what lies at a path.
        which: whose hooks, see Settings.fold.
    """
    path, args = item["path"], item.get("args") or [item["path"]]
    if which == OFF or not all(isinstance(word, str) for word in args):
        return None
    if world.is_same_file(path, launcher):
        call = core.read_hook(args)
    elif which == KNOWN and path.rpartition("/")[2] in VENDOR_PROGRAMS:
        call = core.read_hook([path, *args[1:]])
    else:
        return None
    return call if call and call.is_usual else None


def early(call: core.HookCall) -> list[core.Hook]:
    """The hooks of a command line that can be done before the container is made, in the order in which they run."""
    asked = set(call.names.values())
    return [hook for hook in _EARLY if hook.name in asked]


def make_no_libraries(names: Iterable[str]) -> bool:
    """Whether all hooks of these names are known to leave the container's libraries as they are."""
    return _WITHOUT_LIBRARIES.issuperset(names)


def is_foldable(item: Json, question: Question, world: World, which: str) -> bool:
    """Whether a hook of a plan is one whose work can be done here, as far as the hook itself shows; see read()."""
    call = read(item, question.launcher, world, which) if item["hookName"] in STAGES else None
    return call is not None and bool(early(call))


def obstacle(config: Json, low: str) -> str:
    """What keeps every hook of a container from being done here, "" for nothing.

    Arguments:
        config: the config.json.
        low: path of the low-level runtime.
    """
    name = low.rpartition("/")[2]
    for letter in "-._":
        name = name.partition(letter)[0]
    if name not in _RUNTIMES:
        return f"{low} is neither runc nor crun"
    root = config.get("root")
    path = root.get("path") if isinstance(root, dict) else None
    return "" if path and isinstance(path, str) else "config.json names no root"


def new(plan: Plan, config: Json) -> list[tuple[str, Json]]:
    """The plan's hooks of stages before the container is made that config.json does not have, each once."""
    hooks: list[tuple[str, Json]] = []
    for origin in plan.origins:
        for item in origin["edits"].get("hooks") or ():
            stage = item["hookName"]
            present = [*entries(config, stage), *(other for stage_of, other in hooks if stage_of == stage)]
            if stage in STAGES and not any(is_same(entry, item) for entry in present):
                hooks.append((stage, item))
    return hooks


def entries(config: Json, stage: str) -> list[Json]:
    """The hooks of a stage in config.json; what has no path, or another type, is left out."""
    section = config.get("hooks")
    listed = section.get(stage) if isinstance(section, dict) else None
    return [entry for entry in listed or () if isinstance(entry, dict) and isinstance(entry.get("path"), str)]


def is_same(hook: Json, other: Json) -> bool:
    """Whether two hooks are one: the same path and arguments."""
    return bool(hook["path"] == other["path"] and (hook.get("args") or []) == (other.get("args") or []))
