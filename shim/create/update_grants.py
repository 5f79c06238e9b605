"""update: device rules for hardware that is not granted are refused. Late: only for update, as update_rules.

An engine gives new limits as a whole `linux.resources`, with device rules in it. crun obeys these rules, and some
versions of runc do; so where grants are enforced, they are judged like those of config.json (shim.create.grants_rule).
An update that opens what is not granted is refused whole: without such a rule the container would lose a device that it
may have under another name, and its engine would not know.

The update names only the container. Its bundle, from which the subject may come, and which has the config.json with the
rules that are open already, is known from the low-level runtime's state, else from the record. Where it is known from
neither, the subject comes from what is left (the launcher's name, --root, the default).

The launcher starts this for each update whose rules may open hardware (native/updaterules.c).

Source: runc, libcontainer/state_linux.go (State) and utils.SearchLabels; crun, src/libcrun/status.c.
"""

from __future__ import annotations

import posix

from shim.base import fastjson
from shim.base.findings import CdiError, Finding
from shim.create import grants_hardware, record, record_files, record_reader, update_rules
from shim.create.bundle import Bundle, Input
from shim.create.invocation import Invocation
from shim.create.question import Question
from shim.create.recipe import Decision
from shim.create.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.create.outcome import Outcome

    Json = dict[str, Any]

_S_IFMT, _S_IFREG = 0o170000, 0o100000
_LARGEST = 16 * 1024 * 1024
_BUNDLE_LABEL = "bundle="


def judge(call: Invocation, outcome: Outcome, *, rootful: bool) -> None:
    """Refuse an update that opens hardware that is not granted to the container's subject.

    Arguments:
        call: the update.
        outcome: gets the refusal: GRANT_MISSING, GRANTS_UNREADABLE, or CONFIG_JSON for resources that readers
            understand differently; and a decision with the configuration that counts.
        rootful: whether we are the host's root (shim.host.identity): grants are enforced for it alone.
    """
    if not call.resources or not rootful:
        return
    world = World()
    settings, _ = world.settings()
    world.save()  # so that the launcher knows whether grants are enforced
    if not settings.enforce:
        return
    outcome.decision = decision = Decision(settings)
    try:
        rules = _rules(call)
        if grants_hardware.allowing(rules)[1]:
            from shim.create import grants_rule, grants_subject  # late: few updates bring such rules

            question = _question(call)
            decision.subject = grants_subject.subject_of(question, settings)
            grants_rule.check_rules(rules, question, settings, world)
    except CdiError as error:
        outcome.refusal = error


def _rules(call: Invocation) -> list[Json]:
    """The device rules of the update. Raises CdiError: CONFIG_JSON."""
    try:
        data = update_rules.replace_input(lambda given: given) if call.resources == "-" else _read(call.resources)
    except OSError:
        return []  # the low-level runtime cannot read them either, and reports it
    try:
        resources, twice = fastjson.loads_noting(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _unsure(call, str(error)) from None
    if twice:
        raise _unsure(call, f"the member {twice[0][0][:40]!r} stands twice in one object")
    if not isinstance(resources, dict):
        raise _unsure(call, "they are no JSON object")
    for name in resources:
        if name != "devices" and name.casefold() == "devices":
            raise _unsure(call, f"{name!r} differs from 'devices' only by the case of its letters")
    rules = resources.get("devices")
    listed = [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    fault = next((text for rule in listed if (text := grants_hardware.misspelt(rule))), "")
    if fault:
        raise _unsure(call, fault)
    return listed


def _read(path: str) -> bytes:
    """The file of resources. Raises OSError where it cannot be read, CdiError where it cannot be judged."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC)
    try:
        status = posix.fstat(fd)
        if status.st_mode & _S_IFMT != _S_IFREG or status.st_size > _LARGEST:
            text = "the resources are no regular file of at most 16 MiB, so their device rules cannot be judged"
            raise CdiError([Finding("CONFIG_JSON", text, "give them in a file, or on standard input", path=path)])
        parts = []
        while part := posix.read(fd, _LARGEST):
            parts.append(part)
        return b"".join(parts)
    finally:
        posix.close(fd)


def _unsure(call: Invocation, why: str) -> CdiError:
    text = f"the resources of the update are understood differently by their readers: {why}; and grants are enforced"
    path = "" if call.resources == "-" else call.resources
    return CdiError([Finding("CONFIG_JSON", text, "write them as JSON with each name once, as specified", path=path)])


# --- the container ----------------------------------------------------------------------------------------------------


def _question(call: Invocation) -> Question:
    """The question of the create that made the container, as far as it is known now."""
    bundle = _bundle(call)
    words = [f"low={call.low}", f"name={call.name}", f"self={call.launcher}", f"verb={call.verb}", f"id={call.id}"]
    container = Invocation([*words, f"root={call.root}", f"bundle={bundle or '.'}", "--"])
    return Question(container, Bundle(container.config) if bundle else Input(b"{}"), rootful=True)


def _bundle(call: Invocation) -> str:
    """The absolute path of the container's bundle, "" where it is not known."""
    for directory in record.states(call, call.id):
        bundle = _bundle_of_runc(f"{directory}/state.json") or _bundle_of_crun(f"{directory}/status")
        if bundle.startswith("/"):
            return bundle
    directory = record_files.directory()
    entry = record_reader.read(directory, call) if directory and call.key else None
    return str(entry["bundle"]) if entry else ""


def _bundle_of_runc(path: str) -> str:
    labels = _state(path).get("config", {}).get("labels")
    texts = [str(label) for label in labels] if isinstance(labels, list) else []
    return next((text[len(_BUNDLE_LABEL) :] for text in texts if text.startswith(_BUNDLE_LABEL)), "")


def _bundle_of_crun(path: str) -> str:
    return str(_state(path).get("bundle") or "")


def _state(path: str) -> Json:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except OSError:
        return {}
    try:
        state = fastjson.loads(posix.read(fd, _LARGEST).decode("utf-8"))
    except (OSError, ValueError):
        return {}
    finally:
        posix.close(fd)
    is_whole = isinstance(state, dict) and isinstance(state.get("config", {}), dict)
    return state if is_whole else {}
