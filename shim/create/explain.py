"""Explain: what a create would do to a bundle, or has done to a container, edit by edit. Cold; writes nothing.

Each edit is taken through create's own rules by itself, so that what is said here is what create does, and so that all
refusals are told and not the first alone. Whether an edit is there already, and whether another one overrides it, is
asked of the same function that injects it: an edit that changes nothing is there. Whether a hook is folded is told by
what it is; the rest decides itself on the container's root, when create gets there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim import create
from shim.base.findings import CdiError
from shim.cdi.plan import Plan
from shim.config.settings import Settings
from shim.create import fold, image_requests, merge, request, rules, unreadable
from shim.create.bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.base.findings import Finding
    from shim.create.invocation import Invocation

    Json = dict[str, Any]

ADDED = "added"
REPLACES = "replaces"  # what config.json has under the same name
THERE = "there already"
OVERRIDDEN = "overridden"  # by a later edit of the plan
LEFT_OUT = "left out"
FOLDED = "folded"  # a hook whose work create does itself
REFUSED = "refused"
MISSING = "missing"  # injected once, and not in config.json any more


_HOOK = ("hookName", "path", "args")  # what tells one hook from another


class Edit:
    """One edit and what becomes of it.

    Attributes:
        kind: member of the container edits, for example "mounts".
        asked: the item as the plan has it, numbers of nodes filled in.
        item: the item as it is injected, under create's rules.
        spec, device: where it comes from; device None for the edits that a spec has for all its devices.
        state: one of the words above.
    """

    __slots__ = ("asked", "device", "item", "kind", "spec", "state")

    def __init__(self, kind: str, asked: Any, item: Any, origin: Json, state: str) -> None:
        self.kind = kind
        self.asked = asked
        self.item = item
        self.spec: str = origin["spec"]
        self.device: str | None = origin["device"]
        self.state = state

    def changed(self) -> list[str]:
        """Members of the item that create's rules have changed or added; ["value"] for an item without members."""
        if self.item == self.asked or self.state in (LEFT_OUT, REFUSED):
            return []
        if not isinstance(self.item, dict):
            return ["value"]
        return [name for name in self.item if self.item[name] != self.asked.get(name)]

    def to_json(self) -> Json:
        """The edit as plain values."""
        return {name: getattr(self, name) for name in ("kind", "item", "asked", "spec", "device", "state")}


class Explanation:
    """What becomes of a bundle.

    Attributes:
        config: path of the config.json.
        settings: the configuration that counts.
        sandbox: whether it is a pod's sandbox, which is left alone.
        wanted: qualified name -> who asks for it.
        edits: in the order of application.
        findings: what create would say, and what asks in vain.
        refused: what would stop the create, None when nothing does.
    """

    __slots__ = ("config", "edits", "findings", "refused", "sandbox", "settings", "wanted")

    def __init__(self, config: str) -> None:
        self.config = config
        self.settings = Settings()
        self.sandbox = False
        self.wanted: dict[str, str] = {}
        self.edits: list[Edit] = []
        self.findings: list[Finding] = []
        self.refused: CdiError | None = None

    def to_json(self) -> Json:
        """The explanation as plain values."""
        return {
            "config": self.config,
            "configuration": self.settings.path,
            "sandbox": self.sandbox,
            "devices": [{"name": name, "source": source} for name, source in self.wanted.items()],
            "edits": [edit.to_json() for edit in self.edits],
            "refused": self.refused is not None,
            "findings": [finding.to_json() for finding in self.findings],
        }


def bundle(call: Invocation, *, rootful: bool) -> Explanation:
    """What a create would do.

    Arguments:
        call: the create.
        rootful: whether we are the host's root (shim.host.identity).
    """
    told = Explanation(call.config)
    try:
        _explain(told, call, rootful)
    except CdiError as error:
        told.refused = error
        told.findings += error.findings
    return told


def _explain(told: Explanation, call: Invocation, rootful: bool) -> None:
    told.settings, served, trouble = create.what_is_known()
    told.findings += told.settings.warnings
    config = Bundle(call.config).config()
    told.sandbox = request.is_sandbox(config)
    if told.sandbox:
        return
    if trouble:
        told.wanted = unreadable.requests(config, call.devices, told.settings, trouble)
        if told.wanted:
            raise trouble
        told.findings += trouble.findings
        return
    told.wanted = request.ask(config, call.devices, told.settings.annotation_prefixes, told.settings.default_kind)
    heard = create.hear(config, told.settings, told.wanted)
    told.findings += image_requests.unheard(config, told.settings)
    if not told.wanted:
        return
    made = create.resolve(list(told.wanted), served, heard.driver_only if heard else ())
    told.edits = [_judge(edit, config, call, rootful) for edit in _edits(made)]
    rules.check_call(call.unknown, told.wanted, config)
    imposed = create.impose(made, config, call, rootful)
    told.findings += imposed.findings
    edited = create.edit(config, imposed, call, rootful, heard)
    for edit in told.edits:
        if edit.state in (ADDED, REPLACES, THERE) and edit.kind != "netDevices" and not _has(edited, edit):
            edit.state = OVERRIDDEN
    if fold.obstacle(edited, call.low):
        return
    for edit in told.edits:
        is_new = edit.kind == "hooks" and edit.state == ADDED
        if is_new and fold.is_foldable(edit.item, call.launcher, told.settings.fold):
            edit.state = FOLDED


def injected(entry: Json) -> list[Edit]:
    """The edits of a record (shim.create.record), each THERE or MISSING in the container's config.json as it is now."""
    config = Bundle(entry["config"]).config()
    edits = recorded(entry)
    for edit in edits:
        if edit.state == FOLDED:
            continue
        edit.state = THERE if edit.kind == "netDevices" or _has(config, edit) else MISSING
    return edits


def recorded(entry: Json) -> list[Edit]:
    """The edits of a record as they were injected, wherever the container is now."""
    edits = list(_edits(Plan(entry["wanted"], entry["origins"])))
    folded = [[hook.get(name) for name in _HOOK] for hook in entry.get("folded") or ()]
    for edit in edits:
        if edit.kind == "hooks" and [edit.item.get(name) for name in _HOOK] in folded:
            edit.state = FOLDED
    return edits


def _edits(made: Plan) -> Iterator[Edit]:
    for origin in made.origins:
        for kind, value in origin["edits"].items():
            for item in value if isinstance(value, list) else [value]:
                yield Edit(kind, item, item, origin, ADDED)


def _alone(edit: Edit) -> Plan:
    """A plan of this edit and nothing else."""
    item = edit.item if edit.kind == "intelRdt" else [edit.item]
    return Plan([], [{"spec": edit.spec, "device": edit.device, "edits": {edit.kind: item}}])


def _has(config: Json, edit: Edit) -> bool:
    return merge.add(_alone(edit), config) == config


def _judge(edit: Edit, config: Json, call: Invocation, rootful: bool) -> Edit:
    """Fill in what create's rules make of an edit, and whether config.json has it."""
    try:
        imposed = create.impose(_alone(edit), config, call, rootful)
    except CdiError:
        edit.state = REFUSED
        return edit
    left = next(_edits(imposed), None)
    if left is None:
        edit.state = LEFT_OUT
        return edit
    edit.item = left.item
    if _has(config, edit):
        edit.state = THERE
    elif edit.kind == "env" and edit.item.partition("=")[0] in _names(config):
        edit.state = REPLACES
    return edit


def _names(config: Json) -> set[str]:
    env = (config.get("process") or {}).get("env") or []
    return {str(entry).partition("=")[0] for entry in env}
