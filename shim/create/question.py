"""Question: what a decision is about: a fixed projection of config.json, the call, and our identity. HOT, no I/O.

config.json is hostile and large, and most of it does not matter here. MEMBERS lists what a decision may depend on and
what it may change; nothing else of config.json reaches `recipe.decide`, and a question can be saved and asked again.

Source: OCI runtime specification, config.md and config-linux.md.
"""

from __future__ import annotations

import posix

from shim.base import fastjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from shim.create.bundle import Bundle, Input
    from shim.create.invocation import Invocation

    Json = dict[str, Any]

_STAGES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")

# Member -> None for all of it, or the members of it that count.
MEMBERS: Json = {
    "annotations": None,
    "process": {
        "env": None,
        "cwd": None,
        "user": {"uid": None, "gid": None, "additionalGids": None},
        "capabilities": {"bounding": None, "effective": None},
    },
    "root": {"path": None, "readonly": None},
    "mounts": None,
    "linux": {
        "devices": None,
        "resources": {"devices": None},
        "namespaces": None,
        "netDevices": None,
        "intelRdt": None,
        "uidMappings": None,
        "gidMappings": None,
        "mountLabel": None,
        "cgroupsPath": None,
    },
    "hooks": dict.fromkeys(_STAGES),
}


class Question:
    """One create.

    Attributes:
        verb, name, launcher, low, bundle, path, id, root, devices, unknown: of the call, see shim.create.invocation;
            `path` is that of config.json.
        rootful, user: whether we are the host's root (shim.host.identity), and our effective uid.
        config: the members of config.json in MEMBERS, as they were decoded; {} where it could not be.
        misspelt: (object, name, member) of each name that differs from one of MEMBERS by the case of its letters only.
        fault: why config.json could not be read, a text, "" when it could.
        unsure: why config.json must not be edited, a text, "" when it may.
        raw: what of it is not in `config` and may hold a request: all of it where it could not be decoded (as latin-1,
            escapes of JSON resolved), else the members that another one of the same name replaces, and those that are
            misspelt.
    """

    __slots__ = (
        "bundle",
        "config",
        "devices",
        "fault",
        "id",
        "launcher",
        "low",
        "misspelt",
        "name",
        "path",
        "raw",
        "root",
        "rootful",
        "unknown",
        "unsure",
        "user",
        "verb",
    )

    def __init__(self, call: Invocation, bundle: Bundle | Input, *, rootful: bool) -> None:
        """Put the question.

        Arguments:
            call: the create.
            bundle: its config.json, as it was read.
            rootful: whether we are the host's root.
        """
        self.verb, self.name, self.launcher, self.low = call.verb, call.name, call.launcher, call.low
        self.bundle, self.path, self.id, self.root = call.bundle, bundle.path, call.id, call.root
        self.devices, self.unknown = call.devices, call.unknown
        self.rootful, self.user = rootful, posix.geteuid()
        self.config: Json = _project(bundle.config, MEMBERS)
        misspelt = list(_misspelt(bundle.config, MEMBERS, ""))
        self.misspelt = [(where, name, member) for where, name, member, _ in misspelt]
        self.fault, self.unsure = bundle.fault, bundle.unsure
        self.raw = _text([*bundle.lost, *((name, item) for _, name, _, item in misspelt)], bundle)

    def to_json(self) -> Json:
        """The question as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, value: Json) -> Question:
        """The question that `to_json` gave. Raises ValueError when the value is none."""
        question = cls.__new__(cls)
        try:
            for name in cls.__slots__:
                if not isinstance(value[name], _TYPES.get(name, str)):
                    raise ValueError(f"{name} has another type")
                setattr(question, name, value[name])
            question.misspelt = [(str(where), str(name), str(member)) for where, name, member in value["misspelt"]]
            question.devices = [str(device) for device in value["devices"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no question: {error!r}") from error
        return question


# Of the members of a question that are no texts
_TYPES: dict[str, type] = {"config": dict, "devices": list, "misspelt": list, "rootful": bool, "user": int}


def _text(ignored: list[Any], bundle: Bundle | Input) -> str:
    """The member `raw` of a question."""
    if not bundle.fault and not ignored:
        return ""
    try:
        return _plain(fastjson.dumps(ignored) if not bundle.fault else bundle.raw.decode("latin-1"))
    except ValueError:  # nested too deeply
        return _plain(bundle.raw.decode("latin-1"))


def _plain(text: str) -> str:
    """A text in JSON with the escapes resolved by which ASCII letters can be written."""
    if "\\" not in text:
        return text
    first, *rest = text.replace("\\/", "/").split("\\u")
    parts = [first]
    for part in rest:
        try:
            parts.append(chr(int(part[:4], 16)) + part[4:])
        except ValueError:
            parts.append(part)
    return "".join(parts)


def _project(value: Any, members: Json) -> Any:
    """What counts of an object; a value of another type stays, for whoever edits it to refuse."""
    if not isinstance(value, dict):
        return value
    return {
        name: item if members[name] is None else _project(item, members[name])
        for name, item in value.items()
        if name in members
    }


def _misspelt(value: Any, members: Json, where: str) -> Iterator[tuple[str, str, str, Any]]:
    """Object, name, member and value of each name that differs from one that counts by the case of its letters only."""
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        if name not in members:
            member = _FOLDED.get(name.casefold())
            if member is not None and member in members:
                yield where, name, member, item
        elif members[name] is not None:
            yield from _misspelt(item, members[name], f"{where}.{name}" if where else name)


def _names(members: Json) -> list[str]:
    inner = [name for below in members.values() if below for name in _names(below)]
    return [*members, *inner]


_FOLDED = {name.casefold(): name for name in _names(MEMBERS)}
