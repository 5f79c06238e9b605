"""Redaction: a question and its trace without personal paths, and without values that no source reads and no edit sets.

    paths         each component outside of the system's directories becomes a word, the same one everywhere; names that
                  are usual (bin, cdi, config.json) and the names of programs stay
    variables     the value, except of those by which a source asks, and those that a spec sets
    annotations   the value, except of those that ask, and those by which an engine or a sandbox is known
    hooks         of config.json: variables and arguments, except of a program that a spec has a hook of
    config.json   that could not be decoded: all but the words by which it may ask

All of it works on plain values, as `Question.to_json` and `recorded.trace_to_json` give them. Since equal values stay
equal, and paths in one directory stay in one directory, the decision is the same; bug_report.make checks that.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from shim.base.paths import clean
from shim.cdi.annotations import PREFIX
from shim.config.settings import Settings
from shim.create.annotation_origin import MANAGER
from shim.create.annotation_requests import SANDBOX_KEYS, near_requests
from shim.create.engine_annotations import OWN
from shim.create.userns import KEEPS_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shim.create.recipe import Decision

    Json = dict[str, Any]

_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/proc", "/run", "/sbin"),
    *("/sys", "/usr", "/var/run", "/var/lib/shim"),
)
_PERSONAL = ("/run/user", "/run/media", "/var/run/user")  # in spite of that
_USUAL = {
    *("bin", "sbin", "lib", "lib64", "libexec", "local", "usr", "share", "etc", "var", "run", "opt", "home", "root"),
    *("tmp", "mnt", "media", "srv", "user", "log", "cache", "state", "config", "cdi", "shim", "containers", "docker"),
    *("storage", "overlay", "overlay2", "overlay-containers", "userdata", "merged", "rootfs", "config.json"),
    *("config.toml", "cdi.lock", "index", "runc", "crun", "nvidia-ctk", "nvidia-cdi-hook"),
    # sources of mounts that are no paths
    *("proc", "sysfs", "tmpfs", "devpts", "mqueue", "shm", "cgroup", "cgroup2", "none", "udev"),
}
_SUFFIXES = (".json", ".yaml", ".toml")

_PATH_KINDS = {"lstat", "stat", "readlink", "read", "content", "access", "missing", "names", "readonly", "index"} | {
    "idmap",
    "ridmap",
    "digest",
}
_PATH_MEMBERS = {"path", "hostPath", "containerPath", "source", "destination", "cwd", "spec_dirs", "log_file"}
_READ_ANNOTATIONS = {MANAGER, *SANDBOX_KEYS, KEEPS_GROUPS}

# A path in a text; in `TARGET::LINK`, `NAME=PATH` and `a:b` each one for itself
_IN_TEXT = re.compile(r"""(?<![\w.~+@%-])/[^\s"'`,;:()\[\]{}<>|=*?]*[^\s"'`,;:()\[\]{}<>|=*?.]""")


def redact(question: Json, trace: list[Any]) -> tuple[Json, list[Any]]:
    """A question and a trace without what is personal.

    Arguments: as plain values; not changed.
    """
    return _Redaction(question, trace).apply(question, trace)


def redactor(launcher: str) -> _Redaction:
    """What redacts texts and values that belong to no create, by `text`, `value` and `word`.

    Arguments:
        launcher: path of our program, whose name stays.
    """
    empty = {**dict.fromkeys(("bundle", "path", "root", "low"), ""), "launcher": launcher, "config": {}}
    return _Redaction(empty, [])


def shape(decision: Decision) -> Any:
    """What a redaction leaves as it is of a decision: equal for two decisions that differ by paths and values only."""
    refusal = decision.refusal.findings if decision.refusal else []
    plans = [
        [(origin["device"], {kind: len(items) for kind, items in origin["edits"].items()}) for origin in plan.origins]
        if plan
        else None
        for plan in (decision.resolved, decision.plan)
    ]
    edits = [
        (edit["path"], len(edit["value"]) if isinstance(edit.get("value"), list) else 0) for edit in decision.edits
    ]
    ids = [[finding.id for finding in findings] for findings in (decision.findings, refusal)]
    return decision.is_sandbox, list(decision.requests.items()), plans, edits, len(decision.folds), ids


class _Redaction:
    """The words that stand for what is personal, and what is to be kept."""

    def __init__(self, question: Json, trace: list[Any]) -> None:
        self._words: dict[str, str] = {}
        self._issued: set[str] = set()
        settings = next((answer[0] for kind, _, answer in trace if kind == "settings"), Settings().to_json())
        blocks = [
            edits for kind, _, answer in trace if kind == "specs" and isinstance(answer, list) for _, _, edits in answer
        ]
        hooks = [hook for edits in blocks for hook in edits.get("hooks") or ()]
        self._programs = {hook["path"] for hook in hooks} | {question["launcher"]}
        self._names = {_base(path) for path in (question["low"], *self._programs)}
        self._variables = {entry.partition("=")[0] for edits in blocks for entry in edits.get("env") or ()}
        self._variables |= {*settings["variables"], *settings["swarm_variables"], *Settings().variables}
        self._prefixes = (PREFIX, *settings["annotation_prefixes"])
        self._needles = Settings.from_json(settings).needles()
        # Paths that _IN_TEXT does not find whole: with a space in them, or relative
        paths = {path for path in _paths(question, trace) if not _IN_TEXT.fullmatch(path) and self.path(path) != path}
        odd = sorted(map(re.escape, paths), key=len, reverse=True)
        self._odd = re.compile(rf"(?<![\w./-])(?:{'|'.join(odd)})(?![\w-])") if odd else None

    def apply(self, question: Json, trace: list[Any]) -> tuple[Json, list[Any]]:
        """As redact."""
        redacted = {name: self.text(value) if isinstance(value, str) else value for name, value in question.items()}
        for name in ("bundle", "path", "root", "launcher", "low"):
            redacted[name] = self.path(question[name])
        redacted["config"] = self.config(question["config"])
        redacted["raw"] = " ".join(needle for needle in self._needles if needle in question["raw"])
        return redacted, [self.answer(*entry) for entry in trace]

    def answer(self, kind: str, argument: Any, answer: Any) -> list[Any]:
        """One question of the trace."""
        if kind == "readlink" and isinstance(answer, str):
            answer = self.path(answer, below=argument.rpartition("/")[0])
        else:
            answer = self.value(answer)
        if kind in _PATH_KINDS:
            argument = self.path(argument)
        elif kind == "locked":
            argument = [self.path(path) for path in argument]
        elif kind == "getxattr":
            argument = [self.path(argument[0]), *argument[1:]]
        return [kind, argument, answer]

    # --- values -------------------------------------------------------------------------------------------------------

    def value(self, value: Any, member: str = "") -> Any:
        """Any plain value: paths are replaced wherever they are."""
        if isinstance(value, str):
            return self.path(value) if member in _PATH_MEMBERS else self.text(value)
        if isinstance(value, list):
            return [self.value(item, member) for item in value]
        if isinstance(value, dict):
            return {name: self.value(item, name) for name, item in value.items()}
        return value

    def text(self, text: str) -> str:
        """A text, in which paths are replaced."""
        if self._odd:
            text = self._odd.sub(lambda match: self.path(match[0]), text)
        return _IN_TEXT.sub(lambda match: self.path(match[0]), text)

    def path(self, path: str, below: str = "") -> str:
        """A path, component by component.

        Arguments:
            path: as text; one that is relative counts as personal, unless `below` is the directory where it begins.
            below: the directory in which a symbolic link is.
        """
        here = "/" if path.startswith("/") else below or "?"
        parts = []
        for part in path.split("/"):
            here = clean(f"{here}/{part}")
            is_system = f"{here}/".startswith(tuple(f"{path}/" for path in _SYSTEM))
            is_personal = f"{here}/".startswith(tuple(f"{path}/" for path in _PERSONAL))
            keeps = part in {"", ".", ".."} or part in _USUAL or part in self._names
            parts.append(part if keeps or (is_system and not is_personal) else self.word(part))
        return "/".join(parts)

    def word(self, text: str) -> str:
        """The word that stands for a text, with its suffix where that is the type of a file."""
        if text in self._issued:
            return text
        if text not in self._words:
            suffix = next((suffix for suffix in _SUFFIXES if text.endswith(suffix)), "")
            self._words[text] = f"private{len(self._words) + 1}{suffix}"
            self._issued.add(self._words[text])
        return self._words[text]

    # --- config.json --------------------------------------------------------------------------------------------------

    def config(self, config: Json) -> Json:
        """The config of a question."""
        redacted: Json = self.value(config)
        if isinstance(annotations := config.get("annotations"), dict):
            requests = {name: value for name, value in annotations.items() if name.startswith(self._prefixes)}
            kept = _READ_ANNOTATIONS | {*requests, *near_requests(annotations, requests, self._prefixes)}
            redacted["annotations"] = {
                name: value if name in kept else self.annotation(name, value) for name, value in annotations.items()
            }
        process = config.get("process")
        if isinstance(process, dict) and isinstance(process.get("env"), list):
            redacted["process"]["env"] = [self.variable(entry) for entry in process["env"]]
        if isinstance(hooks := config.get("hooks"), dict):
            redacted["hooks"] = {
                stage: [self.hook(hook) for hook in entries] if isinstance(entries, list) else self.value(entries)
                for stage, entries in hooks.items()
            }
        return redacted

    def annotation(self, name: str, value: Any) -> Any:
        """The value of an annotation that asks for nothing."""
        if name == OWN:
            return self._own(value)
        return self.word(value) if isinstance(value, str) else value

    def _own(self, value: Any) -> Any:
        """CRI-O's annotations of a container alone, a JSON object in a text: those that ask."""
        try:
            own = json.loads(value)
        except (TypeError, ValueError):
            return self.word(str(value))
        if not isinstance(own, dict):
            return self.word(str(value))
        return json.dumps({name: value for name, value in own.items() if name.startswith(self._prefixes)})

    def variable(self, entry: Any) -> Any:
        """An entry of an environment."""
        if not isinstance(entry, str):
            return entry
        name, equals, value = entry.partition("=")
        if name in self._variables:
            return self.text(entry)
        return f"{name}={self.word(value) if value else ''}" if equals else self.word(entry)

    def hook(self, hook: Any) -> Any:
        """A hook of config.json."""
        redacted = self.value(hook)
        if not isinstance(hook, dict):
            return redacted
        if isinstance(env := hook.get("env"), list):
            redacted["env"] = [
                f"{entry.partition('=')[0]}={self.word(entry.partition('=')[2])}" if isinstance(entry, str) else entry
                for entry in env
            ]
        if isinstance(args := hook.get("args"), list) and hook.get("path") not in self._programs:
            redacted["args"] = [*redacted["args"][:1], *(self.word(str(word)) for word in args[1:])]
        return redacted


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _paths(question: Json, trace: Iterable[list[Any]]) -> Iterator[str]:
    """Every text that is known to be a path."""
    yield from (question[name] for name in ("bundle", "path", "root", "launcher", "low"))
    yield from _members(question["config"], "")
    for kind, argument, answer in trace:
        if kind in _PATH_KINDS:
            yield argument
        elif kind == "locked":
            yield from argument
        yield from _members(answer, "")


def _members(value: Any, member: str) -> Iterator[str]:
    if isinstance(value, str):
        if member in _PATH_MEMBERS and "/" in value:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _members(item, member)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _members(item, name)
