"""Decoding: plain values as a CDI document, by the type of each field.

The tables name every field of the specification (SPEC.md, "JSON Format"), in its order, with what reads it. As in the
reference a field's name matches without regard to case, null means absent, numbers and booleans become text where text
is wanted, and nothing else is converted. What comes out is canonical: members in the order of the tables, without those
that are empty, except where the reference always writes them.

Places are pairs (place of the container, key or index); they become a field path only when there is a fault.
"""

from __future__ import annotations

from shim.cdi.scalars import INT64, UINT32, text_of, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Place = tuple["Place", str | int] | None
    Reader = Callable[["Decoder", Any, Place], Any]
    Fields = dict[str, tuple[Reader | None, type | None]]
    Path = tuple[str | int, ...]


class Fault:
    """Something in a document that is refused.

    Arguments:
        path: keys and indices that lead to it, as the file spells them.
        rule: short code, for example "wrong-type".
        text: what is wrong, without the path.
        remedy: what would be right, "" when the text says it.
        late: the reference does not see it, so it comes behind what the reference reports.
    """

    __slots__ = ("late", "path", "remedy", "rule", "text")

    def __init__(self, path: Path, rule: str, text: str, remedy: str = "", *, late: bool = False) -> None:
        self.path = path
        self.rule = rule
        self.text = text
        self.remedy = remedy
        self.late = late


def fold(name: str) -> str:
    """A field name without regard to case, as Go's JSON decoder compares: long s and Kelvin sign are letters, too."""
    return name.lower().replace("\u017f", "s")


def path_of(place: Place) -> Path:
    """A place as a path."""
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return tuple(reversed(steps))


def kind_of(value: object) -> str:
    """What a value is called in a message."""
    if value is None:
        return "null"
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names[type(value)]


class Decoder:
    """Decodes one document and collects its faults.

    Arguments:
        json: the value was read as JSON; a number that overflowed is then a fault, as YAML would read it as text.
    """

    def __init__(self, *, json: bool = False) -> None:
        self.faults: list[Fault] = []
        self._json = json

    def document(self, value: object) -> dict[str, Any]:
        """The document that a value stands for; what is wrong is in `faults` and left out of it."""
        document = self.record(value, DOCUMENT, None)
        # The reference decodes the members of a mapping in the order of their names.
        self.faults.sort(key=lambda fault: (fault.late, fault.path))
        return document

    def record(self, value: Any, fields: Fields, place: Place) -> dict[str, Any]:
        """A mapping with known fields."""
        spelled: dict[str, str] = {}
        if value.__class__ is not dict:
            if value is not None:
                self.wrong(value, "a mapping", place)
            value = {}
        elif not fields.keys() >= value.keys():
            value, spelled = self._known(value, fields, place)
        found: dict[str, Any] = {}
        for name, (reader, empty) in fields.items():
            item = value.get(name)
            if reader is None:
                if item.__class__ is not str:
                    item = "" if item is None else self.text(item, (place, spelled.get(name, name)))
                if item or empty:
                    found[name] = item
            else:
                if item is not None:
                    item = reader(self, item, (place, spelled.get(name, name)))
                if item is not None:
                    found[name] = item
                elif empty:
                    found[name] = empty()
        return found

    def _known(self, value: dict[str, Any], fields: Fields, place: Place) -> tuple[dict[str, Any], dict[str, str]]:
        """The mapping with its fields as the tables spell them, and how the file spells them."""
        names = {fold(name): name for name in fields}
        found: dict[str, Any] = {}
        spelled: dict[str, str] = {}
        for key in sorted(value):
            name = key if key in fields else names.get(fold(key))
            if name is None:
                self._unknown(key, fields, place)
                continue
            if name in found:
                text = f"the field {name} is there already, as {spelled[name]!r}; case does not tell fields apart"
                self.faults.append(Fault(path_of((place, key)), "field-twice", text, "remove one of them", late=True))
            found[name] = value[key]
            spelled[name] = key
        return found, spelled

    def _unknown(self, key: str, fields: Fields, place: Place) -> None:
        from shim.cdi.nearest import nearest  # late: only for a fault

        close = nearest(key, fields)
        text = f"unknown field {key!r}" + (f"; the nearest is {close[0]!r}" if close else "")
        remedy = f"write {close[0]}, or remove it" if close else "remove it"
        self.faults.append(
            Fault(path_of((place, key)), "unknown-field", text, f"{remedy}; fields here are {', '.join(fields)}")
        )

    def wrong(self, value: object, wanted: str, place: Place) -> None:
        """Note that a value is of the wrong type."""
        text = f"is {kind_of(value)}, but must be {wanted}"
        self.faults.append(Fault(path_of(place), "wrong-type", text, f"write {wanted} here"))

    def text(self, value: Any, place: Place) -> str:
        """A text; numbers and booleans become one."""
        if value.__class__ is str:
            return str(value)
        if isinstance(value, (bool, int, float)) and not (self._json and value in _OVERFLOWN):
            return text_of(value)
        self.wrong(value, "a text", place)
        return ""


_OVERFLOWN = (float("inf"), float("-inf"))


def _texts(decoder: Decoder, value: Any, place: Place) -> list[str] | None:
    """A list of texts; a null item is an empty one."""
    if value.__class__ is not list:
        decoder.wrong(value, "a list of texts", place)
        return None
    return [
        item if item.__class__ is str else "" if item is None else decoder.text(item, (place, index))
        for index, item in enumerate(value)
    ] or None


def _schemata(decoder: Decoder, value: Any, place: Place) -> list[str] | None:
    """Like _texts, but an empty list stays until the version was checked: it needs 1.1.0."""
    return [] if value == [] else _texts(decoder, value, place)


def _integer(wanted: str, limits: tuple[int, int], *, zero: bool) -> Reader:
    """Reads an integer within limits; `zero` says whether 0 differs from absent."""

    def read(decoder: Decoder, value: Any, place: Place) -> int | None:
        number = value if value.__class__ is int and limits[0] <= value <= limits[1] else whole(value, limits)
        if number is None:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                text = f"is {value}, but must be {wanted}"
                decoder.faults.append(Fault(path_of(place), "wrong-type", text, f"write {wanted} here"))
            else:
                decoder.wrong(value, wanted, place)
        return number if number or zero else None

    return read


def _gids(decoder: Decoder, value: Any, place: Place) -> list[int] | None:
    """A list of group ids; a null item is 0."""
    if value.__class__ is not list:
        decoder.wrong(value, "a list of numbers", place)
        return None
    found = (0 if item is None else _ID(decoder, item, (place, index)) for index, item in enumerate(value))
    return [gid for gid in found if gid is not None] or None


def _flag(decoder: Decoder, value: Any, place: Place) -> bool | None:
    """A boolean; false is absent."""
    if value.__class__ is not bool:
        decoder.wrong(value, "true or false", place)
    return True if value is True else None


def _annotations(decoder: Decoder, value: Any, place: Place) -> dict[str, str] | None:
    """Texts by name; a null value is an empty text."""
    if value.__class__ is not dict:
        decoder.wrong(value, "a mapping of texts", place)
        return None
    return {name: "" if item is None else decoder.text(item, (place, name)) for name, item in value.items()} or None


def _one(fields: Fields) -> Reader:
    """Reads a mapping with known fields."""
    return lambda decoder, value, place: decoder.record(value, fields, place)


def _many(fields: Fields, *, null: bool = False) -> Reader:
    """Reads a list of mappings with known fields; `null`: an item may be null and is then an empty mapping."""

    def read(decoder: Decoder, value: Any, place: Place) -> list[dict[str, Any]] | None:
        if value.__class__ is not list:
            decoder.wrong(value, "a list of mappings", place)
            return None
        if None in value and not null:
            for index, item in enumerate(value):
                if item is None:
                    text = "is null, but must be a mapping"
                    fault = Fault(path_of((place, index)), "null-item", text, "remove the empty item", late=True)
                    decoder.faults.append(fault)
        return [decoder.record(item, fields, (place, index)) for index, item in enumerate(value)] or None

    return read


_ID = _integer("a whole number from 0 to 4294967295", UINT32, zero=True)
_NUMBER = _integer("a whole number of 64 bits", INT64, zero=False)
_SECONDS = _integer("a whole number of seconds", INT64, zero=True)

# name -> (what reads it; None: a text, what stands for it when it is absent; None: nothing)
NODE: Fields = {
    "path": (None, str),
    "hostPath": (None, None),
    "type": (None, None),
    "major": (_NUMBER, None),
    "minor": (_NUMBER, None),
    "fileMode": (_ID, None),
    "permissions": (None, None),
    "uid": (_ID, None),
    "gid": (_ID, None),
}
NET_DEVICE: Fields = {"hostInterfaceName": (None, str), "name": (None, str)}
HOOK: Fields = {
    "hookName": (None, str),
    "path": (None, str),
    "args": (_texts, None),
    "env": (_texts, None),
    "timeout": (_SECONDS, None),
}
MOUNT: Fields = {
    "hostPath": (None, str),
    "containerPath": (None, str),
    "options": (_texts, None),
    "type": (None, None),
}
RDT: Fields = {
    "closID": (None, None),
    "l3CacheSchema": (None, None),
    "memBwSchema": (None, None),
    "schemata": (_schemata, None),
    "enableMonitoring": (_flag, None),
}
EDITS: Fields = {
    "env": (_texts, None),
    "deviceNodes": (_many(NODE), None),
    "netDevices": (_many(NET_DEVICE), None),
    "hooks": (_many(HOOK), None),
    "mounts": (_many(MOUNT), None),
    "intelRdt": (_one(RDT), None),
    "additionalGids": (_gids, None),
}
DEVICE: Fields = {
    "name": (None, str),
    "annotations": (_annotations, None),
    "containerEdits": (_one(EDITS), dict),
}
DOCUMENT: Fields = {
    "cdiVersion": (None, str),
    "kind": (None, str),
    "annotations": (_annotations, None),
    "devices": (_many(DEVICE, null=True), list),
    "containerEdits": (_one(EDITS), dict),
}
