"""The command lines of runc and crun once more, in another way: what the C grammar is compared with.

runc is modelled as its library works: Go's flag package for the global options; behind the verb first the known options
are moved in front of the operands, each together with the word behind it, then the flag package reads the result. Newer
runc (urfave/cli 3) reads from left to right instead; where the two part, as in `create -x id --bundle`, whose bundle is
"-x" for the old one and missing for the new one, the model does not answer. crun is modelled by Python's getopt, which
follows the same rules as the C library's, and behind exec, where an option may have a value, by hand. A model answers
only where the runtime would go on to open the bundle or to look for the container; everything that it refuses is None.
"""

from __future__ import annotations

import getopt
from dataclasses import dataclass, field

TRUE = {"1", "t", "T", "true", "TRUE", "True"}
FALSE = {"0", "f", "F", "false", "FALSE", "False"}

RUNC_GLOBAL = {
    "debug": False,
    "log": True,
    "log-format": True,
    "root": True,
    "criu": True,
    "systemd-cgroup": False,
    "rootless": True,
    "help": False,
    "h": False,
    "version": False,
    "v": False,
}
RUNC_CREATE = {
    "bundle": True,
    "b": True,
    "console-socket": True,
    "pid-file": True,
    "no-pivot": False,
    "no-new-keyring": False,
    "preserve-fds": True,
    "help": False,
    "h": False,
}
RUNC_RESTORE = {
    "bundle": True,
    "b": True,
    "console-socket": True,
    "image-path": True,
    "work-path": True,
    "tcp-established": False,
    "ext-unix-sk": False,
    "shell-job": False,
    "file-locks": False,
    "manage-cgroups-mode": True,
    "detach": False,
    "d": False,
    "pid-file": True,
    "no-subreaper": False,
    "no-pivot": False,
    "empty-ns": True,
    "auto-dedup": False,
    "lazy-pages": False,
    "lsm-profile": True,
    "lsm-mount-context": True,
    "help": False,
    "h": False,
}
CRUN_UPDATE = [
    *("resources", "blkio-weight", "cpu-period", "cpu-quota", "cpu-share", "cpu-rt-period", "cpu-rt-runtime"),
    *("cpuset-cpus", "cpuset-mems", "kernel-memory", "kernel-memory-tcp", "memory", "memory-reservation"),
    *("memory-swap", "pids-limit"),
]
# Debian's runc 1.1: all take a value
RUNC_UPDATE = dict.fromkeys(
    [*(set(CRUN_UPDATE) - {"kernel-memory", "kernel-memory-tcp"}), "r", "l3-cache-schema", "mem-bw-schema"], True
) | {"help": False, "h": False}
RUNC_VERBS = {
    "create": RUNC_CREATE,
    "run": RUNC_CREATE | {"detach": False, "d": False, "keep": False, "no-subreaper": False},
    "restore": RUNC_RESTORE,
    "update": RUNC_UPDATE,
}
RUNC_EXEC = {
    "console-socket": True,
    "cwd": True,
    "env": True,
    "e": True,
    "tty": False,
    "t": False,
    "user": True,
    "u": True,
    "additional-gids": True,
    "g": True,
    "process": True,
    "p": True,
    "detach": False,
    "d": False,
    "pid-file": True,
    "process-label": True,
    "apparmor": True,
    "no-new-privs": False,
    "cap": True,
    "c": True,
    "preserve-fds": True,
    "cgroup": True,
    "ignore-paused": False,
    "help": False,
    "h": False,
}

CRUN_GLOBAL = ["debug", "cgroup-manager=", "systemd-cgroup", "log=", "log-format=", "root=", "rootless=", "version"]
CRUN_CREATE = ["bundle=", "config=", "console-socket=", "preserve-fds=", "no-pivot", "pid-file=", "no-subreaper"]
CRUN_RESTORE = [
    *("bundle=", "image-path=", "work-path=", "tcp-established", "ext-unix-sk", "shell-job", "detach", "pid-file="),
    *("console-socket=", "file-locks", "manage-cgroups-mode="),
]
CRUN_ALWAYS = ["help", "usage", "program-name="]
CRUN_VERBS = {
    "create": ("b:f:?", [*CRUN_CREATE, "no-new-keyring", *CRUN_ALWAYS]),
    "run": ("b:f:d?", [*CRUN_CREATE, "no-new-keyring", "detach", *CRUN_ALWAYS]),
    "restore": ("b:d?", [*CRUN_RESTORE, *CRUN_ALWAYS]),
    "update": ("r:?", [*(f"{name}=" for name in CRUN_UPDATE), *CRUN_ALWAYS]),
}
# option -> its letter, and "" for no value, ":" for one, "::" for one that may stand in the same word
CRUN_EXEC = {
    "apparmor": ("", ":"),
    "cgroup": ("", ":"),
    "console-socket": ("", ":"),
    "cwd": ("", ":"),
    "cap": ("c", ":"),
    "detach": ("d", ""),
    "env": ("e", ":"),
    "no-new-privs": ("", ""),
    "pid-file": ("", ":"),
    "preserve-fds": ("", ":"),
    "process-label": ("", ":"),
    "process": ("p", ":"),
    "tty": ("t", "::"),
    "user": ("u", ":"),
    "help": ("?", ""),
    "usage": ("", ""),
    "program-name": ("", ":"),
}


@dataclass
class Accepted:
    """A create, run, restore, exec or update that the runtime goes on with."""

    verb: str
    at: int
    id: str = ""
    values: dict[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """The runtime stops with an error or a help text."""


def _go_flags(known: dict[str, bool], words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Go's flag package: values by option, and the words from the first operand on."""
    values: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest[0]
        if len(word) < 2 or word[0] != "-":
            break
        rest.pop(0)
        if word == "--":
            break
        name = word[2:] if word.startswith("--") else word[1:]
        if not name or name[0] in "-=":
            raise RefusedError(word)
        name, equals, value = name.partition("=")
        if name not in known:
            raise RefusedError(word)
        if not known[name]:
            value = value if equals else "true"
            if value not in TRUE | FALSE:
                raise RefusedError(word)
        elif not equals:
            if not rest:
                raise RefusedError(word)
            value = rest.pop(0)
        values[name] = value
    return values, rest


def _one_form_each(values: dict[str, str]) -> None:
    exec_only = ("process", "env", "tty", "user", "additional-gids", "cap")
    for long in ("bundle", "detach", "help", "version", "resources", *exec_only):
        if long in values and long[0] in values:
            raise RefusedError(long)
        if long[0] in values:
            values[long] = values.pop(long[0])


def _reordered(known: dict[str, bool], words: list[str]) -> list[str]:
    """The command library moves options in front of the operands, each with the word behind it if that is none."""

    def is_known(word: str) -> bool:
        return word[:1] == "-" and word not in {"-", "--"} and word.lstrip("-").partition("=")[0] in known

    moved: list[str] = []
    left: list[str] = []
    expects_value = False
    for index, word in enumerate(words):
        if expects_value and not is_known(word) and not word.startswith("-"):
            expects_value = False
            moved.append(word)
        elif word == "--":
            return moved + left + words[index:]
        elif is_known(word):
            moved.append(word)
            expects_value = "=" not in word
        else:
            left.append(word)
    return moved + left


def _from_left_to_right(known: dict[str, bool], words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The same for newer runc, which goes on behind an operand."""
    values: dict[str, str] = {}
    operands: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return values, operands + rest
        if word[:1] != "-" or word == "-":
            operands.append(word)
            continue
        takes_word = known.get(word.lstrip("-"), False)
        given, _ = _go_flags(known, [word, *rest[:1]] if takes_word else [word])
        values |= given
        rest = rest[takes_word:]
    return values, operands


def runc(argv: list[str]) -> Accepted | None:
    """What runc does with a command line."""
    try:
        values, rest = _go_flags(RUNC_GLOBAL, argv[1:])
        _one_form_each(values)
        if not rest or values.get("help") in TRUE or values.get("version") in TRUE:
            return None
        verb = rest[0]
        if verb == "exec":
            return _runc_exec(values, rest[1:], len(argv) - len(rest))
        if verb not in RUNC_VERBS:
            return None
        options, operands = _go_flags(RUNC_VERBS[verb], _reordered(RUNC_VERBS[verb], rest[1:]))
        if (options, operands) != _from_left_to_right(RUNC_VERBS[verb], rest[1:]):
            return None
        _one_form_each(options)
        number = options.get("preserve-fds", "0")
        if len(operands) != 1 or options.get("help") in TRUE or not number.isdigit():
            return None
    except RefusedError:
        return None
    return Accepted(verb, len(argv) - len(rest), operands[0], values | options)


def _runc_exec(values: dict[str, str], words: list[str], at: int) -> Accepted | None:
    """Here nothing is moved in front of the operands; without a process file they are the command, too."""
    options, operands = _go_flags(RUNC_EXEC, words)
    _one_form_each(options)
    number = options.get("preserve-fds", "0")
    if len(operands) < (1 if options.get("process") else 2) or options.get("help") in TRUE or not number.isdigit():
        return None
    return Accepted("exec", at, operands[0], values | options)


def _crun_exec(values: dict[str, str], words: list[str], at: int) -> Accepted | None:
    """argp in order: the first operand ends the options."""
    options: dict[str, str] = {}
    letters = {letter: (name, takes) for name, (letter, takes) in CRUN_EXEC.items() if letter}
    rest = list(words)

    def take(name: str, takes: str, joined: str | None) -> None:
        if takes == ":" and joined is None:
            if not rest:
                raise RefusedError(name)
            joined = rest.pop(0)
        if takes == "" and joined is not None:
            raise RefusedError(name)
        options[name] = joined or ""

    while rest and len(rest[0]) > 1 and rest[0][0] == "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word[1] == "-":
            name, equals, value = word[2:].partition("=")
            names = [name] if name in CRUN_EXEC else [known for known in CRUN_EXEC if known.startswith(name)]
            if len(names) != 1:
                raise RefusedError(word)
            take(names[0], CRUN_EXEC[names[0]][1], value if equals else None)
            continue
        cluster = word[1:]
        while cluster:
            if cluster[0] not in letters:
                raise RefusedError(word)
            name, takes = letters[cluster[0]]
            value, cluster = (cluster[1:], "") if takes else ("", cluster[1:])
            take(name, takes, value or None)
    if len(rest) < (1 if "process" in options else 2) or options.keys() & {"help", "usage"}:
        return None
    return Accepted("exec", at, rest[0], values | options)


def crun(argv: list[str]) -> Accepted | None:
    """What crun 1.8 does with a command line."""
    try:
        values, rest = getopt.getopt(argv[1:], "vV?", [*CRUN_GLOBAL, *CRUN_ALWAYS])
        if rest and rest[0] == "exec":
            said = {name.lstrip("-"): value for name, value in values}
            if said.keys() & {"help", "usage", "?", "version", "v", "V"}:
                return None
            return _crun_exec(said, rest[1:], len(argv) - len(rest))
        if not rest or rest[0] not in CRUN_VERBS:
            return None
        options, operands = getopt.getopt(rest[1:], *CRUN_VERBS[rest[0]])
    except (getopt.GetoptError, RefusedError):
        return None
    said = {name.lstrip("-"): value for name, value in values + options}
    if len(operands) != 1 or said.keys() & {"help", "usage", "?", "version", "v", "V"}:
        return None
    for name, value in options:  # the last one wins, whichever form it has
        long = {"-b": "bundle", "-f": "config", "-r": "resources"}.get(name, name[2:])
        if long in {"bundle", "config", "resources"}:
            said[long] = value
    return Accepted(rest[0], len(argv) - len(rest), operands[0], said)
