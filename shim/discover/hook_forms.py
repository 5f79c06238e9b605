"""Hooks of specs in the form of NVIDIA's programs, one process for each task, and in ours, one process for all. Pure.

    nvidia-cdi-hook create-symlinks --link A::B              shim hook create-symlinks update-ldcache
    nvidia-cdi-hook update-ldcache --folder /usr/lib            --link A::B --folder /usr/lib

Ours does its tasks in an order of its own: links, libraries of CUDA, then the cache. So only neighbours are joined that
agree in stage, environment and time limit, and that run in this order anyway; what is joined can be taken apart again.
A hook with a word that is not known stays as it is.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.cdi.relocate import blocks
from shim.config.settings import VENDOR_PROGRAMS
from shim.discover.document import HOOKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Json = dict[str, Any]

# Name of a hook -> its options, which all take a value (hook_options in hooks/hook.c)
_OPTIONS: dict[str, tuple[str, ...]] = {
    "create-symlinks": ("link",),
    "enable-cuda-compat": ("host-driver-version", "host-cuda-version", "cuda-compat-container-root"),
    "update-ldcache": ("folder", "ldconfig-path"),
    "disable-device-node-modification": (),
    "update-application-profile": (),
}
_LISTS = frozenset(("link", "folder"))  # options that may be given again
_ORDERED = HOOKS[:3]  # each of these reads what those before it have made


class _Call:
    """The command line of a hook program.

    Attributes:
        names: of the hooks.
        options: name of an option, and its words as they were given.
    """

    def __init__(self, names: list[str], options: list[tuple[str, list[str]]]) -> None:
        self.names, self.options = names, options

    def takes(self, other: _Call) -> bool:
        """Whether another call can be joined to this one without a change of what is done."""
        names = [name for name in [*self.names, *other.names] if name in _ORDERED]
        repeated = set(self.names) & set(other.names)
        is_single = any(option not in _LISTS for name in repeated for option in _OPTIONS[name])
        return names == sorted(names, key=_ORDERED.index) and not is_single


def to_shim(document: Json, program: str) -> tuple[Json, list[Finding]]:
    """The document with hooks of ours in place of those of NVIDIA's programs.

    Arguments:
        document: of a spec; not changed.
        program: the path of our launcher.
    Returns:
        the document, and HOOK_KEPT for each hook of those programs that stays as it is.
    """
    return _rewritten(document, _is_vendor, lambda hooks: _joined(hooks, program))


def to_vendor(document: Json, program: str) -> tuple[Json, list[Finding]]:
    """The document with hooks of one of NVIDIA's programs in place of ours; arguments and result as of `to_shim`.

    Arguments:
        program: a path that ends in nvidia-cdi-hook or nvidia-ctk.
    """
    return _rewritten(document, _is_ours, lambda hooks: [part for hook in hooks for part in _parts(hook, program)])


def _rewritten(
    document: Json, is_meant: Callable[[str], bool], rewrite: Callable[[list[tuple[Json, _Call]]], list[Json]]
) -> tuple[Json, list[Finding]]:
    made = copy.deepcopy(document)
    findings = []
    for edits in blocks(made):
        result: list[Json] = []
        run: list[tuple[Json, _Call]] = []
        for hook in edits.get("hooks", ()):
            name = hook["path"].rpartition("/")[2]
            call = _read(hook) if is_meant(name) else None
            if call:
                run.append((hook, call))
                continue
            if is_meant(name):
                words = " ".join(hook.get("args", ())[1:])
                findings.append(Finding("HOOK_KEPT", f"the hook {hook['path']} stays as it is: {words!r}"))
            result += [*rewrite(run), hook]
            run = []
        if edits.get("hooks"):
            edits["hooks"] = [*result, *rewrite(run)]
    return made, findings


def _joined(hooks: list[tuple[Json, _Call]], program: str) -> list[Json]:
    joined: list[tuple[Json, _Call]] = []
    for hook, call in hooks:
        if joined and _frame(joined[-1][0]) == _frame(hook) and joined[-1][1].takes(call):
            last = joined[-1][1]
            last.names += [name for name in call.names if name not in last.names]
            last.options += call.options
        else:
            joined.append((hook, call))
    return [
        {
            **hook,
            "path": program,
            "args": [program.rpartition("/")[2], "hook", *call.names, *(word for _, of in call.options for word in of)],
        }
        for hook, call in joined
    ]


def _parts(pair: tuple[Json, _Call], program: str) -> Iterator[Json]:
    hook, call = pair
    name_of_program = program.rpartition("/")[2]
    start = [name_of_program, *(["hook"] if name_of_program == "nvidia-ctk" else [])]
    ordered = iter(sorted((name for name in call.names if name in _ORDERED), key=_ORDERED.index))
    for name in [next(ordered) if name in _ORDERED else name for name in call.names]:
        words = [word for option, of in call.options if option in _OPTIONS[name] for word in of]
        yield {**hook, "path": program, "args": [*start, name, *words]}


def _frame(hook: Json) -> Json:
    """What of a hook is not its program and its arguments."""
    return {member: value for member, value in hook.items() if member not in ("path", "args")}


def _is_vendor(name: str) -> bool:
    return name in VENDOR_PROGRAMS


def _is_ours(name: str) -> bool:
    return name == "shim" or name.startswith("shim-")


def _read(hook: Json) -> _Call | None:
    """The call of a hook; None where it has a word that is not known."""
    words = list(hook.get("args", ())[1:])
    if hook["path"].rpartition("/")[2] != "nvidia-cdi-hook":
        if words[:1] != ["hook"]:
            return None
        words = words[1:]
    names: list[str] = []
    options: list[tuple[str, list[str]]] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            names.append(word)
            continue
        name, equals, _ = word.lstrip("-").partition("=")
        value = [] if equals else [next(rest, None)]
        if None in value:
            return None
        options.append((name, [word, *map(str, value)]))
    known = {option for name in names for option in _OPTIONS.get(name, ())}
    is_known = names and all(name in _OPTIONS for name in names) and len(set(names)) == len(names)
    return _Call(names, options) if is_known and all(name in known for name, _ in options) else None
