"""A container: what it asked for, what it got, and what of that is missing now. Enters nothing; reads /proc.

Who asked is in the record of its create; without one create's own decision is made again about its config.json. What
it would get now is the decision of today, so a container that was started before its spec was written anew shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.base.findings import ERROR, CdiError, Finding
from shim.base.nearest import nearest
from shim.create import explain, record_files, record_reader
from shim.create.bundle import Bundle
from shim.create.invocation import Invocation
from shim.create.question import Question
from shim.create.recipe import decide
from shim.create.supposed_caller import SupposedCaller
from shim.doctor import devices, history
from shim.doctor.model import NODES, REGISTRATION, REQUEST, RESULT, SPEC, Check
from shim.engines import launcher, lookup, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shim.create.explain import Edit
    from shim.doctor.machine import Machine
    from shim.engines.model import KnownContainer

    Json = dict[str, Any]

_DELETED = "//deleted"  # of the source of a mount, proc_pid_mountinfo(5)
_SHOWN = 3


def checks(machine: Machine, word: str) -> Iterator[Check]:
    """The checks of a container.

    Arguments:
        machine: the machine.
        word: its name, its id or the beginning of that.
    """
    every = list(record_reader.entries(record_files.directory())) if machine.host.root == "/" else []
    entries = [entry for entry in every if entry["id"].startswith(word)]
    found = lookup.find(machine.host, word, table.ENGINES.values())
    if not found and entries:  # of a caller that is no engine
        found = [KnownContainer("", entry["id"], bundle=entry["bundle"]) for entry in entries]
    if len({one.id for one in found}) != 1:
        yield Check(REGISTRATION, word, "", [_unknown(machine, word, found)])
        return
    one = found[0]
    entry = next((entry for entry in every if entry["id"] == one.id), None)
    runs = f"process {one.pid}" if one.pid else "does not run"
    what = [one.engine or "no engine", one.name, f"called by {one.program}" if one.program else "", runs]
    yield Check(REGISTRATION, one.id[:12], ", ".join(filter(None, what)), _errors(machine, one))
    if entry:
        yield from _of_record(machine, one, entry)
    elif one.bundle and one.config:
        yield from _without_record(machine, one)
    else:
        yield Check(RESULT, one.id[:12], "its config.json is gone, and there is no record of an injection")


def _unknown(machine: Machine, word: str, found: list[KnownContainer]) -> Finding:
    if found:
        which = ", ".join(f"{one.id[:12]} ({one.engine} {one.name})" for one in found)
        return Finding("CONTAINER_UNKNOWN", f"{word!r} can be each of {which}", "name it by its whole id")
    every = lookup.known(machine.host, table.ENGINES.values())
    names = [one.name or one.id[:12] for one in every]
    near = nearest(word, names) or names[:_SHOWN]
    there = f"; there are {', '.join(near)}" if near else "; none is found here"
    return Finding("CONTAINER_UNKNOWN", f"no engine has a container {word!r}{there}")


def _errors(machine: Machine, one: KnownContainer) -> list[Finding]:
    """CONTAINER_FAILED and HOOK_FAILED, by the log, else by what the engine keeps."""
    found = history.refused(machine, one.id)
    if not found and one.error:
        found = [Finding("CONTAINER_FAILED", f"{one.engine} keeps of its last start: {one.error}")]
    return [*found, *history.failed_hooks(machine, one.id)]


# --- with a record ----------------------------------------------------------------------------------------------------


def _of_record(machine: Machine, one: KnownContainer, entry: Json) -> Iterator[Check]:
    wanted: dict[str, str] = entry["wanted"]
    asked = ", ".join(f"{name} ({source})" for name, source in wanted.items())
    yield Check(REQUEST, one.id[:12], f"asked for {asked}", explain.warnings(entry))
    try:
        edits = explain.injected(entry)
    except CdiError:  # the container is gone
        edits = explain.recorded(entry)
    lacking = [edit for edit in edits if edit.state == explain.MISSING]
    findings = []
    if lacking:
        which = ", ".join(_words(edit) for edit in lacking[:_SHOWN])
        text = f"its config.json no longer has {which}, which was injected: the engine has written it anew"
        findings.append(Finding("CONTAINER_LACKS", text, path=entry["config"]))
    yield Check(RESULT, one.id[:12], f"got {_count(edits)}", findings)
    yield from _now(machine, one, list(wanted), edits)


# --- without ----------------------------------------------------------------------------------------------------------


def _without_record(machine: Machine, one: KnownContainer) -> Iterator[Check]:
    words = [
        "verb=create",
        f"bundle={machine.host.real(one.bundle)}",
        f"id={one.id}",
        "name=shim",
        f"self={machine.launcher}",
    ]
    low = launcher.low_level_of(machine.host, machine.launcher)
    call = Invocation([*words, f"low={low}", "--"])
    question = Question(call, Bundle(call.config), rootful=machine.rootful)
    is_here = machine.host.root == "/"
    world = SupposedCaller(one.config.get("annotations")) if is_here else machine.world
    explanation = explain.Explanation(question, decide(question, world))
    requests = explanation.decision.requests
    if not requests:
        engine = table.ENGINES.get(one.engine)
        ways = _ways(machine, one) if engine else "ask by annotation or --device"
        text = "it asks for no device in a way that counts"
        findings = [Finding("CONTAINER_ASKS_NOTHING", text, ways), *explanation.findings]
        yield Check(REQUEST, one.id[:12], "asks for nothing", findings)
        return
    asked = ", ".join(f"{name} ({source})" for name, source in requests.items())
    yield Check(REQUEST, one.id[:12], f"asks for {asked}")
    there = [edit for edit in explanation.edits if edit.state == explain.THERE]
    lacking = [edit for edit in explanation.edits if edit.state in (explain.ADDED, explain.FOLDED, explain.REPLACES)]
    findings = []
    if lacking or explanation.refused:
        by = f"{one.program}, which is not shim" if not _is_ours(machine, one) else f"{one.program} without it"
        text = f"it asks for {', '.join(requests)} and has no such device: it was started by {by}"
        findings = [Finding("CONTAINER_LACKS", text), *_as_warnings(explanation.findings)]
    yield Check(
        RESULT, one.id[:12], f"got {_count(there)}, of the engine's own CDI" if there else "got nothing", findings
    )
    yield from _now(machine, one, list(requests), there)


def _as_warnings(findings: Iterable[Finding]) -> list[Finding]:
    return [finding.as_warning() if finding.level == ERROR else finding for finding in findings]


def _is_ours(machine: Machine, one: KnownContainer) -> bool:
    return bool(one.program) and launcher.is_launcher(machine.host, one.program)


def _ways(machine: Machine, one: KnownContainer) -> str:
    engine = table.ENGINES[one.engine]
    try:
        location = engine.locate(machine.host)
        return engine.ways_to_ask(location, engine.read(machine.host, location), "shim")
    except CdiError:
        return "ask by annotation or --device"


# --- now --------------------------------------------------------------------------------------------------------------


def _now(machine: Machine, one: KnownContainer, names: list[str], edits: list[Edit]) -> Iterator[Check]:
    """What of a container's devices is missing now, and what it would get if it were created today."""
    nodes = [edit.item for edit in edits if edit.kind == "deviceNodes"]
    found = [finding for node in nodes for finding in _node(machine, node)]
    yield Check(NODES, one.id[:12], f"{len(nodes)} of the host", found)
    if one.pid:
        lost = _lost_mounts(machine, one.pid, edits)
        rules = _lost_rules(machine, one.pid, nodes)
        shown = "as /proc shows it"
        if nodes and not _device_rules(machine, one.pid):
            shown += "; its device rules cannot be read (with cgroup v2 they are a program in the kernel)"
        yield Check(RESULT, f"process {one.pid}", shown, [*lost, *rules])
    today = [devices.explained(machine, name) for name in names]
    refused = [
        finding for explanation in today for finding in (explanation.refused.findings if explanation.refused else ())
    ]
    if refused:
        text = f"it would not be started again: {'; '.join(dict.fromkeys(map(str, refused)))}"
        yield Check(SPEC, one.id[:12], "", [Finding("CONTAINER_OUTDATED", text, refused[0].remedy)], (one.id[:12],))
        return
    before = {_words(edit) for edit in edits}
    after = {_words(edit) for explanation in today for edit in explanation.edits if edit.state != explain.LEFT_OUT}
    changed = sorted(before ^ after)
    findings = []
    if changed and before:
        which = ", ".join(f"{'without' if words in before else 'with'} {words}" for words in changed[:_SHOWN])
        text = f"a spec was written anew since it was created: today it would be {which}"
        findings.append(Finding("CONTAINER_OUTDATED", text))
    yield Check(SPEC, one.id[:12], "as it was when it was created" if not findings else "", findings)


def _node(machine: Machine, node: Json) -> Iterator[Finding]:
    path = node.get("hostPath") or node["path"]
    there = machine.world.node(path)
    numbers = (node.get("major"), node.get("minor"))
    if there is None or not there[0]:
        text = f"{path}, which it has as {numbers[0]}:{numbers[1]}, is no device node of the host any more"
        yield Finding("NODE_UNUSABLE", text, "check that the driver is loaded; then create the container anew")
    elif numbers != (None, None) and numbers != (there[1], there[2]):
        text = f"{path} is {there[1]}:{there[2]} now, and the container has {numbers[0]}:{numbers[1]}"
        yield Finding("DEVNUM_STALE", text, "create the container anew: another device may have that number by now")


def _lost_mounts(machine: Machine, pid: int, edits: Iterable[Edit]) -> Iterator[Finding]:
    """MOUNT_MISSING, for files that were removed on the host, and mounts that are not in the container."""
    lines = [line.split(" ") for line in machine.host.text(f"/proc/{pid}/mountinfo").splitlines()]
    mounted = {words[4]: words[3] for words in lines if len(words) > 4}
    targets = [edit.item["containerPath"] for edit in edits if edit.kind == "mounts"]
    for target in targets if mounted else ():
        if target in mounted and mounted[target].endswith(_DELETED):
            text = f"{target} is a file that was removed on the host: the container keeps the old one"
            remedy = "create the container anew, so that it gets the files of the present driver"
            yield Finding("MOUNT_MISSING", text, remedy).as_warning()


def _device_rules(machine: Machine, pid: int) -> list[str]:
    """The rules of the device cgroup of a process; none where it has cgroup v2, or is gone."""
    lines = machine.host.text(f"/proc/{pid}/cgroup").splitlines()
    path = next((line.split(":", 2)[2] for line in lines if "devices" in line.split(":", 2)[1].split(",")), "")
    return machine.host.text(f"/sys/fs/cgroup/devices{path}/devices.list").splitlines() if path else []


def _lost_rules(machine: Machine, pid: int, nodes: Iterable[Json]) -> Iterator[Finding]:
    """DEVICE_RULE_LOST, where the device cgroup of a process lacks the rule of a node (cgroup v1, devices.list)."""
    rules = _device_rules(machine, pid)
    for node in nodes:
        wanted = {f"{node.get('type', 'c')} {node.get('major')}:{minor}" for minor in (node.get("minor"), "*")}
        if rules and not any(rule.startswith("a ") or rule.rpartition(" ")[0] in wanted for rule in rules):
            text = f"the device cgroup of process {pid} does not allow {node['path']} any more"
            yield Finding("DEVICE_RULE_LOST", text)


def _count(edits: list[Edit]) -> str:
    counts: dict[str, int] = {}
    for edit in edits:
        if edit.state != explain.MISSING:
            counts[edit.kind] = counts.get(edit.kind, 0) + 1
    return ", ".join(f"{number} {kind}" for kind, number in counts.items()) or "nothing"


def _words(edit: Edit) -> str:
    """An edit in a few words, equal for edits that mean the same."""
    item = edit.item
    if not isinstance(item, dict):
        return f"{edit.kind} {item}"
    path = item.get("containerPath") or item.get("path") or item.get("name") or ""
    source = item.get("hostPath") or ""
    return f"{edit.kind} {path}" + (f" of {source}" if source and source != path else "")
