"""Explain: what a create would do to a bundle, or has done to a container, edit by edit. Cold; writes nothing.

What a create would do is a Decision (shim.create.recipe), which is described here and not made a second time. What the
rules make of a single edit is asked of the same functions, with the answers about the host that the decision was made
from (shim.create.recorded). Whether an edit is there already, and whether another one overrides it, is asked of the
function that injects it: an edit that changes nothing is there. Whether a hook is folded depends on the root of the
container as well, when create gets there.
"""

from __future__ import annotations

import posix
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding, from_json
from shim.cdi.plan import Plan
from shim.create import changes, image_requests, merge
from shim.create.bundle import Bundle
from shim.create.question import Question
from shim.create.recipe import decide, impose
from shim.create.recorded import Recorded
from shim.create.supposed_caller import SupposedCaller, supposed_id
from shim.host import identity, run_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.create.invocation import Invocation
    from shim.create.recipe import Decision
    from shim.create.world import World

    Json = dict[str, Any]

ADDED = "added"
REPLACES = "replaces"  # what config.json has under the same name
THERE = "there already"
OVERRIDDEN = "overridden"  # by a later edit of the plan
LEFT_OUT = "left out"
FOLDED = "folded"  # a hook whose work create does itself
REFUSED = "refused"
MISSING = "missing"  # injected once, and not in config.json any more


_HOOK = ("hookName", "path", "args")  # the members that identify a hook


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
    """What becomes of a bundle: a decision, described.

    Attributes:
        question, decision: what is described.
        edits: in the order of application.
        findings: what create would report, what asks in vain, and of a bundle what keeps creates slow.
        refused: what stops the create, None when nothing does.
    """

    __slots__ = ("decision", "edits", "findings", "question", "refused")

    def __init__(self, question: Question, decision: Decision) -> None:
        """Describe a decision; nothing is asked about the host that the decision did not ask."""
        self.question, self.decision = question, decision
        fault = CdiError([Finding("CONFIG_JSON", question.fault, path=question.path)]) if question.fault else None
        self.refused = decision.refusal or fault
        self.findings = _findings(question, decision, self.refused)
        self.edits = _judged(question, decision)

    def to_json(self) -> Json:
        """The explanation as plain values."""
        return {
            "config": self.question.path,
            "configuration": self.decision.settings.path,
            "sandbox": self.decision.is_sandbox,
            "devices": [{"name": name, "source": source} for name, source in self.decision.requests.items()],
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
    question = Question(call, Bundle(call.config), rootful=rootful)
    annotations = question.config.get("annotations")
    question.id = question.id or supposed_id(annotations, call.bundle)
    explanation = Explanation(question, decide(question, SupposedCaller(annotations)))
    explanation.findings += run_directory.findings(identity.run_dir(), posix, question.user)
    return explanation


def _findings(question: Question, decision: Decision, refused: CdiError | None) -> list[Finding]:
    found = list(decision.settings.warnings)
    if decision.unreadable and not decision.refusal:
        found += decision.unreadable.findings
    elif not decision.is_sandbox and not question.fault and not decision.unreadable:
        found += image_requests.ignored_requests(question.config, decision.settings)
    found += [*decision.findings, *(refused.findings if refused else ())]
    return list({(finding.id, str(finding)): finding for finding in reversed(found)}.values())[::-1]


def _judged(question: Question, decision: Decision) -> list[Edit]:
    """The edits of the plan, each with what becomes of it."""
    if decision.resolved is None:
        return []
    world = Recorded(decision.trace)
    edits = [_judge(edit, question, world) for edit in _edits(decision.resolved)]
    after = changes.make(question.config, decision.edits)
    folds = [[hook.get(name) for name in _HOOK] for hook in decision.folds]
    for edit in edits:
        if edit.kind == "hooks" and edit.state == ADDED and [edit.item.get(name) for name in _HOOK] in folds:
            edit.state = FOLDED
        elif not decision.refusal and edit.state in (ADDED, REPLACES, THERE) and not _is_in(after, edit):
            edit.state = OVERRIDDEN
    return edits


def injected(entry: Json) -> list[Edit]:
    """The edits of a record (shim.create.record), each THERE or MISSING in the container's config.json as it is now."""
    bundle = Bundle(entry["config"])
    if bundle.fault:
        raise CdiError([Finding("CONFIG_JSON", bundle.fault, path=bundle.path)])
    config = bundle.config
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


def warnings(entry: Json) -> list[Finding]:
    """What the create of a record warned of; none where an earlier version of shim wrote the record."""
    return [from_json(finding) for finding in entry.get("findings") or ()]


def _edits(plan: Plan) -> Iterator[Edit]:
    for origin in plan.origins:
        for kind, value in origin["edits"].items():
            for item in value if isinstance(value, list) else [value]:
                yield Edit(kind, item, item, origin, ADDED)


def _alone(edit: Edit) -> Plan:
    """A plan of this edit and nothing else."""
    item = edit.item if edit.kind == "intelRdt" else [edit.item]
    return Plan([], [{"spec": edit.spec, "device": edit.device, "edits": {edit.kind: item}}])


def _has(config: Json, edit: Edit) -> bool:
    return merge.add(_alone(edit), config) == config


def _judge(edit: Edit, question: Question, world: World) -> Edit:
    """Fill in what create's rules make of an edit, and whether config.json has it or cannot take it."""
    try:
        imposed = impose(_alone(edit), question, world)
        left = next(_edits(imposed), None)
        if left is None:
            edit.state = LEFT_OUT
            return edit
        edit.item = left.item
        is_there = _has(question.config, edit)
    except CdiError:
        edit.state = REFUSED
        return edit
    if is_there:
        edit.state = THERE
    elif edit.kind == "env" and edit.item.partition("=")[0] in _names(question.config):
        edit.state = REPLACES
    return edit


def _is_in(config: Json, edit: Edit) -> bool:
    """Whether a config that was edited has an edit; interfaces may be moved by hooks."""
    return edit.kind == "netDevices" or _has(config, edit)


def _names(config: Json) -> set[str]:
    env = (config.get("process") or {}).get("env") or []
    return {str(entry).partition("=")[0] for entry in env}
