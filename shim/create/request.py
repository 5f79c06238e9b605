"""Request: which devices are asked for, and by what. HOT.

A request is not authority: it only names what is wanted. Sources are merged in a fixed order (command line, then
annotations by key); a name that was asked for already is dropped, so the first source is the one that is reported.

Requests that cannot be trusted or understood are refused:

    names     more than 128, or one of more than 256 letters
    config    a working directory below /proc, where a leaked descriptor leads out of the container (CVE-2024-21626); a
              member that differs from one that we edit by the case of its letters only: Go would read both
    options   one in front of the verb that is unknown, so that the verb is not certain
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding
from shim.base.paths import clean
from shim.cdi import names
from shim.cdi.annotations import parse as parse_annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from shim.create.question import Question

MAX_NAMES = 128
MAX_NAME = 256  # letters


def ask(
    annotations: dict[str, Any] | None, options: Iterable[str], prefixes: tuple[str, ...], default_kind: str
) -> dict[str, str]:
    """Collect the qualified names that are asked for.

    Arguments:
        annotations: those that count (shim.create.annotation_requests), None for none.
        options: values of --device; a bare name takes the default kind.
        prefixes: annotation keys that begin with one of these are requests (CDI specification, "Annotations").
        default_kind: VENDOR/CLASS for bare names.
    Returns:
        qualified name -> source ("--device" or "annotation KEY"), in the order of asking.
    Raises:
        CdiError: DEVICE_NAME or ANNOTATION_INVALID, naming what is wrong with which name.
    """
    wanted: dict[str, str] = {}
    for option in options:
        wanted.setdefault(_qualified(option, default_kind), "--device")
    try:
        listed = parse_annotations(annotations, prefixes)
    except names.BadName as bad:
        raise CdiError([Finding("ANNOTATION_INVALID", str(bad), rule=bad.rule)]) from None
    for key, devices in listed:
        for name in devices:
            wanted.setdefault(name, f"annotation {key}")
    return wanted


def _qualified(option: str, default_kind: str) -> str:
    bare = "/" not in option and "=" not in option
    name = f"{default_kind}={option}" if bare else option
    try:
        names.parse_qualified(name)
    except names.BadName as bad:
        raise CdiError([Finding("DEVICE_NAME", f"--device {option}: {bad}", rule=bad.rule)]) from None
    return name


# --- what is refused ----------------------------------------------------------------------------------------------


def check(question: Question, requests: dict[str, str]) -> None:
    """Refuse a create that asks for devices in a way that cannot be trusted or understood.

    Arguments:
        question: the create.
        requests: what `ask` gave.
    Raises:
        CdiError: OPTION_UNKNOWN, REQUEST_LIMIT, CWD_FORBIDDEN or CONFIG_JSON.
    """
    if question.unknown:
        text = f"{question.unknown} in front of the verb is unknown, so the command line is not certain"
        in_front = "put --device behind the verb, or " if "--device" in requests.values() else ""
        remedy = f"{in_front}leave the option out, and report it so that it can be known"
        raise CdiError([Finding("OPTION_UNKNOWN", text, remedy)])
    check_names(requests)
    check_spelling(question.misspelt)
    check_items(question.config)
    check_cwd(question.config)


def check_names(requests: Collection[str]) -> None:
    """Refuse more names, or longer ones, than any use needs. Raises CdiError (REQUEST_LIMIT)."""
    if len(requests) > MAX_NAMES:
        text = f"{len(requests)} devices are asked for, at most {MAX_NAMES} are given"
        raise CdiError([Finding("REQUEST_LIMIT", text)])
    for name in requests:
        if len(name) > MAX_NAME:
            text = f"the name {name[:64]}... has {len(name)} letters, at most {MAX_NAME} are taken"
            raise CdiError([Finding("REQUEST_LIMIT", text, "give the device a shorter name in its spec")])


def check_spelling(misspelt: Iterable[tuple[str, str, str]]) -> None:
    """Refuse a config.json that readers understand differently. Raises CdiError (CONFIG_JSON).

    Arguments:
        misspelt: of a Question.
    """
    for where, name, member in misspelt:
        text = f"config.json: {where or 'the top level'} has {name!r}, which some readers take for {member}"
        raise CdiError([Finding("CONFIG_JSON", text, rule="spelling")])


# Lists of config.json whose items are compared, replaced or sorted: the members of an item
_ITEMS = {
    ("mounts",): frozenset({"destination", "type", "source", "options", "uidMappings", "gidMappings"}),
    ("linux", "devices"): frozenset({"path", "type", "major", "minor", "fileMode", "uid", "gid"}),
    ("linux", "resources", "devices"): frozenset({"allow", "type", "major", "minor", "access"}),
    ("linux", "namespaces"): frozenset({"type", "path"}),
    ("linux", "uidMappings"): frozenset({"containerID", "hostID", "size"}),
    ("linux", "gidMappings"): frozenset({"containerID", "hostID", "size"}),
}


def check_items(config: dict[str, Any]) -> None:
    """Refuse a config.json with a member of a list's item in another spelling. Raises CdiError (CONFIG_JSON)."""
    for path, members in _ITEMS.items():
        items: Any = config
        for name in path:
            items = items.get(name) if isinstance(items, dict) else None
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, dict) or item.keys() <= members:
                continue
            folded = {member.casefold(): member for member in members}
            check_spelling(
                (".".join(path), name, folded[name.casefold()])
                for name in item
                if name not in members and name.casefold() in folded
            )


def check_cwd(config: dict[str, Any]) -> None:
    """Refuse a config.json whose process may start in a directory of the host. Raises CdiError (CWD_FORBIDDEN)."""
    process = config.get("process")
    cwd = process.get("cwd") if isinstance(process, dict) else None
    if isinstance(cwd, str) and _passes_through_proc(cwd):
        text = f"the working directory {cwd} of the container lies below /proc: it could be a directory of the host"
        raise CdiError([Finding("CWD_FORBIDDEN", text)])


def _passes_through_proc(path: str) -> bool:
    """Whether any prefix of the path is below /proc: `..` behind a link of /proc can lead anywhere."""
    here = ""
    for part in path.split("/"):
        here = clean(f"/{here}/{part}")
        if here.startswith("/proc/"):
            return True
    return False
