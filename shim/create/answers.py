"""Answers: a decision left as data, so that the launcher can repeat it without Python. HOT.

A create that asks for what was asked before, in an unchanged world, gets the same edits. So the first one leaves its
decision in /run/shim/answers, in a file that is named after the question, and the launcher takes it from there
(native/repeat.c). Rules stand in Python only: the launcher compares a text (the question, which it has put together
itself and handed over), asks the host the questions of the trace again, and inserts.

An answer is a line (native/answer.c), then fields in ASCII, each its size, a colon, and the text. A part is a field
that holds fields; a list has the number of its items before them.

    question    its text
    log         path of the log, "" for none
    probes      what the decision had to know about the host: kind, path, answer
    edits       what to insert, see native/insert.c
    record      a text with holes: the texts between them in turns with the names of the holes
    line        the same for the log

A decision is left only where it hangs on nothing else: the host's root, no source but annotations and `--device`, no
warnings, no interfaces, no hooks that are folded. A file that has changed in the last 0.1 s, or whose times are coarse
or lie in the future, could change again without a trace, so then no answer is left.
"""

from __future__ import annotations

import posix

from shim import __version__
from shim.base import fastjson
from shim.base.paths import clean
from shim.base.replace import replace
from shim.cdi import edits
from shim.cdi.annotations import PREFIX
from shim.cdi.plan import Plan
from shim.config.settings import AUTO, OFF
from shim.create import log, mounts, record
from shim.host.identity import make_directory, run_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from shim.create.invocation import Invocation
    from shim.create.merge import Entries
    from shim.create.question import Question
    from shim.create.recipe import Decision
    from shim.create.world import Trace
    from shim.host.look import FileStatus

    Json = dict[str, Any]

_PRIME = 2**60 - 93
_MAX_SIZE = 1024 * 1024  # bytes of an answer
_MAX_ANSWERS = 256
_SETTLED_NS, _COARSE_NS = 100_000_000, 2_000_000_000
_SECOND_NS = 1_000_000_000
_JUDGED = "judged"  # a line of the question: config.json has no hardware of its own (native/hardware.c)
_NOWHERE = (2, 20)  # ENOENT, ENOTDIR
_S_IFMT, _S_IFDIR, _S_IFREG, _S_IFLNK, _S_IFCHR, _S_IFBLK = 0o170000, 0o040000, 0o100000, 0o120000, 0o020000, 0o060000


class UnfitError(Exception):
    """A decision that the launcher cannot repeat."""


def leave(call: Invocation, question: Question, decision: Decision, began: int) -> None:
    """Leave a decision for the launcher. Silent: without it, the next create is decided again.

    Arguments:
        call: the create; its `question` is what the launcher will ask again, and `answer` where it will look.
        question, decision: what was decided.
        began: the time before anything was looked at, in nanoseconds since 1970.
    """
    directory = f"{run_dir()}/answers"
    try:
        data = encode(call, question, decision, began)
        if make_directory(run_dir()) and make_directory(directory):
            replace(f"{directory}/{call.answer}", data)
            _limit(directory)
    except (UnfitError, OSError, ValueError, TypeError):
        pass


def encode(call: Invocation, question: Question, decision: Decision, began: int) -> bytes:
    """The answer as bytes; arguments as of `leave`. Raises UnfitError, also ValueError, for one that is none."""
    _check(call, question, decision)
    entries = decision.entries
    if entries is None:
        raise UnfitError("nothing is injected")
    log_file = decision.settings.log_file
    variables = _variables(decision.plan)
    text = "".join(
        (
            _field(call.question),
            _field(log.SYSTEM_FILE if log_file is None else log_file),
            _field(_list(_probes(decision.trace, call.question, began))),
            _field(_edits(decision, entries, variables)),
            _field(_record(call, decision, entries, variables)),
            _field(_line(call, decision)),
        )
    )
    if len(text) > _MAX_SIZE - 128 or not text.isascii():
        raise UnfitError("too large, or with letters that are more than a byte")
    fields = text.encode("ascii")
    checksum = int.from_bytes(fields, "little") % _PRIME
    return b"shim-answer 1 %b %016x %08d\n%b" % (__version__.encode(), checksum, len(fields), fields)


def _check(call: Invocation, question: Question, decision: Decision) -> None:
    """Refuse a decision that hangs on more than its question and its trace, and a question that has changed since."""
    settings, plan = decision.settings, decision.plan
    uid, gid = edits.process_owner(question.config)
    lines = call.question.split("\n")
    names = [line.partition(" ")[2] for line in lines if line.startswith("device ")]
    has_hooks = plan and any(origin["edits"].get("hooks") for origin in plan.origins)
    may_fold = has_hooks and settings.fold != OFF and (settings.fold != AUTO or "readonly f" not in lines)
    if (
        plan is None
        or not question.rootful
        or decision.findings
        or decision.folds
        or may_fold
        or any(answer is True for kind, _, answer in decision.trace if kind == "readonly")
        or settings.annotation_prefixes != (PREFIX,)
        or (settings.environment, settings.mounts) != (OFF, OFF)
        or names != list(decision.requests)
        or f"process {uid}:{gid}" not in lines
        or any(origin["edits"].get("netDevices") for origin in plan.origins)
        or (settings.enforce and not _is_judged_alike(question, decision, lines))
    ):
        raise UnfitError("it hangs on more than its question")


def _is_judged_alike(question: Question, decision: Decision, lines: list[str]) -> bool:
    """Whether the grants give the same for every create of the question: the launcher checks for hardware itself.

    A device that is granted exclusively is reserved for each container.
    """
    from shim.create import grants_subject  # late: only where grants are enforced, and loaded then

    return (
        _JUDGED in lines
        and not decision.exclusive
        and not grants_subject.hangs_on_the_call(question, decision.settings)
    )


# --- what the decision had to know ------------------------------------------------------------------------------------

# They follow from the others, are in the question, or are looked at by the launcher for itself
_IMPLIED = frozenset({"index", "settings", "specs", "readonly", "digest", "locked", "grants", "hardware"})


def _probes(trace: Trace, question: str, began: int) -> Iterator[str]:
    """The trace as the launcher asks again: kind, path and answer of each question."""
    own = run_dir()
    examined = {argument for kind, argument, _ in trace if kind == "stat"}
    for kind, argument, answer in trace:
        if kind == "missing":  # most are, one for each mount
            if argument in examined:  # its status says more
                continue
            yield f"1:m{len(argument)}:{argument}1:{answer:d}"
        elif kind in _IMPLIED or (kind == "lstat" and argument == own):
            continue
        elif kind == "podman":
            _check_podman(trace, question)
        elif kind == "content":
            if not argument.startswith("/proc/"):
                raise UnfitError(f"the content of {argument}")
        else:
            letter, path, known = _probe(kind, argument, answer, began)
            yield f"1:{letter}{len(path)}:{path}{len(known)}:{known}"


def _check_podman(trace: Trace, question: str) -> None:
    """The question must name the podman whose version was looked up."""
    if not any(kind == "stat" and f"\npodman {path}\n" in question for kind, path, _ in trace):
        raise UnfitError("it is not certain which podman calls")


def _probe(kind: str, argument: Any, answer: Any, began: int) -> tuple[str, str, str]:
    """A question of the trace; its kinds are in native/answer.c."""
    if kind == "access":
        return "x", argument, str(int(answer))
    if kind == "environ":
        return "e", argument, answer
    if kind == "getxattr":
        path, name = argument
        return "a", f"{name} {path}", f"!{answer}" if isinstance(answer, int) else answer
    if isinstance(answer, int):
        if answer not in _NOWHERE or kind == "read":
            raise UnfitError(f"{kind} {argument}: error {answer}")
        return "s" if kind == "stat" else "l", argument, f"!{answer}"
    if kind == "readlink":
        return "r", argument, answer
    if kind == "read" and argument.startswith(("/proc/", "/sys/")):
        return "t", argument, answer[1]
    if kind in {"lstat", "stat", "read"}:
        status = answer[0] if kind == "read" else answer
        return "s" if kind == "stat" else "l", argument, _status(argument, status, kind == "stat", began)
    raise UnfitError(f"{kind} {argument}")


def _status(path: str, status: FileStatus, with_times: bool, began: int) -> str:
    """What must stay the same of a file, which hangs on its type (`describe` in native/answer.c)."""
    kind = status.st_mode & _S_IFMT
    known = f"{status.st_mode:o} {status.st_uid} {status.st_gid}"
    if kind in {_S_IFCHR, _S_IFBLK}:
        return f"{known} {status.st_rdev}"
    known += f" {status.st_dev} {status.st_ino}"
    if kind == _S_IFLNK:
        return f"{known} {posix.readlink(path)}"
    if kind == _S_IFDIR and not with_times:
        return known
    if kind not in {_S_IFDIR, _S_IFREG}:
        raise UnfitError(f"{path}: neither a file nor a directory")
    modified, changed = status.st_mtime_ns, status.st_ctime_ns
    if not (_is_settled(modified, began) and _is_settled(changed, began)):
        raise UnfitError(f"{path} has just changed")
    return f"{known} {status.st_size} {modified} {changed}"


def _is_settled(time: int, began: int) -> bool:
    age = began - time
    return age >= _SETTLED_NS and (age >= _COARSE_NS or time % _SECOND_NS != 0)


# --- what is inserted -------------------------------------------------------------------------------------------------


def _edits(decision: Decision, entries: Entries, variables: dict[str, str]) -> str:
    blocks = [origin["edits"] for origin in decision.plan.origins] if decision.plan else []
    stages: dict[str, list[Json]] = {}
    for item in entries.hooks:
        stages.setdefault(item["hookName"], []).append(edits.hook(item))
    rdt = edits.collect(blocks, "intelRdt")
    gids = dict.fromkeys(gid for gid in edits.collect(blocks, "additionalGids") if gid != 0)
    return "".join(
        (
            _list(_field(name) + _json(entry) for name, entry in variables.items()),
            _list(_field(_path(item, "path")) + _json(item) for item in entries.devices.values()),
            _list(_field(str(item["major"])) + _field(str(item["minor"])) + _json(item) for item in entries.rules),
            _list(
                _field(_path(item, "destination")) + _json(item)
                for item in mounts.placed([], list(entries.mounts.values()))
            ),
            _list(_field(stage) + _list(map(_hook, items)) for stage, items in stages.items()),
            _json(rdt[-1]) if rdt else _field(""),
            _list(map(_json, gids)),
        )
    )


def _variables(plan: Plan | None) -> dict[str, str]:
    """Name -> entry of each variable of a plan, where it stands first, with its last value (shim.cdi.edits.add_env)."""
    blocks = [origin["edits"] for origin in plan.origins] if plan else []
    return {entry.partition("=")[0]: entry for entry in edits.collect(blocks, "env")}


def _hook(item: Json) -> str:
    # one that has another environment or limit is the same; no entry has the text "" for its arguments
    args = _json(item["args"]) if item.get("args") else _field("")
    return _field(_path(item, "path")) + args + _json(item)


def _path(item: Json, member: str) -> str:
    path: str = item[member]
    if clean(path) != path:
        raise UnfitError(f"{path} is not in its shortest form")
    return path


# --- record and log ---------------------------------------------------------------------------------------------------


def _hole(name: str) -> str:
    """Stands in a text of JSON for one that the launcher puts there."""
    return f"\0{name}\0"


def _value(name: str) -> str:
    """Stands for a whole value of JSON."""
    return f"\0={name}=\0"


def _record(call: Invocation, decision: Decision, entries: Entries, variables: dict[str, str]) -> str:
    entry = record.content(
        call,
        decision,
        id=_hole("id"),
        config=_hole("config"),
        identity=_value("identity"),
        requests=_value("requests"),
        folded=[],
        rules=entries.rules,
        variables={
            name: [entry.partition("=")[2], _value(f"before {number}")]
            for number, (name, entry) in enumerate(variables.items())
        },
    )
    entry["repeated"] = True
    life = [_hole("bundle"), record.states(call, _hole("id")), _hole("mounts"), _value("pid"), _value("parent")]
    return _text(record.text(life, entry, decision.plan or Plan([])))


def _line(call: Invocation, decision: Decision) -> str:
    members = {
        "time": _hole("time"),
        "verb": call.verb,
        "id": _hole("id"),
        "bundle": _hole("given"),
        "outcome": "injected",
        "devices": _value("requests"),
        "specs": log.specs(decision.plan or Plan([])),
        "folded": [],
        "findings": [],
        "repeated": True,
    }
    return _text(fastjson.dumps(members) + "\n")


def _text(text: str) -> str:
    """A text with holes: its parts, each with the name of the hole behind it, "" at the end."""
    mark = fastjson.dumps("\0")[1:-1]
    parts = text.replace(f'"{mark}=', mark).replace(f'={mark}"', mark).split(mark)
    if len(parts) % 2 != 1:
        raise UnfitError("a NUL in a spec")
    parts.append("")
    return _list(_field(parts[i]) + _field(parts[i + 1]) for i in range(0, len(parts), 2))


# --- fields -----------------------------------------------------------------------------------------------------------


def _field(text: str) -> str:
    return f"{len(text)}:{text}"


def _json(value: Any) -> str:
    text = fastjson.dumps(value)
    return f"{len(text)}:{text}"


def _list(items: Iterable[str]) -> str:
    listed = list(items)
    return _field(str(len(listed))) + "".join(listed)


def _limit(directory: str) -> None:
    """Unlink the oldest answers where there are too many."""
    names = posix.listdir(directory)
    if len(names) <= _MAX_ANSWERS:
        return
    ages = sorted((posix.lstat(f"{directory}/{name}").st_mtime_ns, name) for name in names)
    for _, name in ages[: len(names) - _MAX_ANSWERS]:
        posix.unlink(f"{directory}/{name}")
