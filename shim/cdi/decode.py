"""Decoding: plain values as a CDI document, by the type of each field.

The tables name every field of the specification (SPEC.md, "JSON Format") with what reads it. As in the reference a
field's name matches without regard to case, null means absent, numbers and booleans become text where text is wanted,
and nothing else is converted. What comes out is canonical: fields as the tables spell them, without those that are
empty, except where the reference always writes them.

Positions are pairs (position of the container, key or index); they become a field path only when there is a fault.
"""

from __future__ import annotations

from shim.cdi.names import quoted
from shim.cdi.scalars import INT64, UINT32, UINT64_MAX, text_of, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Position = tuple["Position", str | int] | None
    Reader = Callable[["Decoder", Any, Position], Any]
    Path = tuple[str | int, ...]


MAX_FAULTS = 1000  # described for one document; of further faults only the existence is noted


class Fault:
    """Something in a document that is refused.

    Arguments:
        path: keys and indices that lead to it, as the file spells them.
        rule: short code, for example "wrong-type".
        text: what is wrong, without the path.
        remedy: what would be right, "" when the text has it.
        late: the reference does not see it, so it comes after what the reference reports.
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


def path_of(position: Position) -> Path:
    """A position as a path."""
    steps: list[str | int] = []
    while position is not None:
        position, step = position
        steps.append(step)
    return tuple(reversed(steps))


def kind_of(value: object) -> str:
    """What a value is called in a message."""
    if value is None:
        return "null"
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names[type(value)]


class Fields:
    """The fields of a mapping.

    Arguments:
        readers: name -> what reads it, which gives None for what is left out.
        required: what stands for a field that is always written, when it is absent.
    """

    __slots__ = ("names", "readers", "required")

    def __init__(self, readers: dict[str, Reader], **required: type) -> None:
        self.readers = readers
        self.names = readers.keys()
        self.required = tuple(required.items())


class Decoder:
    """Decodes one document and collects its faults.

    Arguments:
        json: the value was read as JSON; what YAML would read otherwise is then a fault: a name of more than 1000
            letters, and a text written as a number beyond 64 bits.

    Attributes:
        faults: what was refused.
        members: how many members all mappings had, together; only right without faults.
    """

    def __init__(self, *, json: bool = False) -> None:
        self.faults: list[Fault] = []
        self.members = 0
        self._json = json

    def document(self, value: object) -> dict[str, Any]:
        """The document of a value; members that are wrong are listed in `faults` and left out."""
        document = self.record(value, DOCUMENT, None)
        # The reference decodes the members of a mapping in the order of their names.
        self.faults.sort(key=lambda fault: (fault.late, fault.path))
        return document

    def record(self, value: Any, fields: Fields, position: Position) -> dict[str, Any]:
        """A mapping with known fields."""
        spelled: dict[str, str] = {}
        if value.__class__ is not dict:
            if value is not None:
                self.wrong(value, "a mapping", position)
            value = {}
        elif not value.keys() <= fields.names:
            value, spelled = self._known(value, fields, position)
        self.members += len(value)
        result: dict[str, Any] = {}
        readers = fields.readers
        for name, item in value.items():
            reader = readers[name]
            if reader is _text and item.__class__ is str:
                if item:
                    result[name] = item
            elif item is not None:
                read = reader(self, item, (position, spelled.get(name, name)))
                if read is not None:
                    result[name] = read
        for name, empty in fields.required:
            if name not in result:
                result[name] = empty()
        return result

    def _known(
        self, value: dict[str, Any], fields: Fields, position: Position
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """The mapping with its fields as the tables spell them, and how the file spells them."""
        names = {fold(name): name for name in fields.readers}
        result: dict[str, Any] = {}
        spelled: dict[str, str] = {}
        for key in sorted(value):
            name = key if key in fields.readers else names.get(fold(key))
            if name is None:
                self._unknown(key, fields, position)
                continue
            if name in result:
                text = f"the field {name} is there already, as {spelled[name]}; case does not tell fields apart"
                self.fault((position, key), "field-twice", text, "remove one of them", late=True)
            result[name] = value[key]
            spelled[name] = key
        return result, spelled

    def _unknown(self, key: str, fields: Fields, position: Position) -> None:
        from shim.base.nearest import nearest  # late: only for a fault

        close = nearest(key, fields.readers) if len(self.faults) < MAX_FAULTS else []
        text = f"unknown field {quoted(key)}" + (f"; the nearest is {close[0]}" if close else "")
        remedy = f"write {close[0]}, or remove it" if close else "remove it"
        self.fault((position, key), "unknown-field", text, f"{remedy}; fields here are {', '.join(fields.readers)}")

    def wrong(self, value: object, wanted: str, position: Position) -> None:
        """Note that a value is of the wrong type."""
        text = f"is {kind_of(value)}, but must be {wanted}"
        self.fault(position, "wrong-type", text, f"write {wanted} here")

    def fault(self, position: Position, rule: str, text: str, remedy: str = "", *, late: bool = False) -> None:
        """Note a fault, unless there are too many to be read."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(path_of(position), rule, text, remedy, late=late))

    def name(self, name: str, position: Position) -> None:
        """Note that a name of free choice is too long for YAML."""
        if self._json and len(name) > _MAX_NAME:
            self.fault((position, name), "yaml-syntax", "the name is too long")

    def text(self, value: Any, position: Position) -> str:
        """A text; numbers and booleans are converted to text."""
        if value.__class__ is str:
            return str(value)
        if isinstance(value, (bool, int, float)) and not (self._json and not INT64[0] <= value <= UINT64_MAX):
            return text_of(value)
        self.wrong(value, "a text", position)
        return ""


_MAX_NAME = 1000  # YAML takes 1024 characters from the first quote to the colon


def _text(decoder: Decoder, value: Any, position: Position) -> str | None:
    """A text; an empty text counts as absent."""
    return decoder.text(value, position) or None


def _texts(decoder: Decoder, value: Any, position: Position) -> list[str] | None:
    """A list of texts; a null item is an empty text."""
    if value.__class__ is not list:
        decoder.wrong(value, "a list of texts", position)
        return None
    return [
        item if item.__class__ is str else "" if item is None else decoder.text(item, (position, index))
        for index, item in enumerate(value)
    ] or None


def _schemata(decoder: Decoder, value: Any, position: Position) -> list[str] | None:
    """Like _texts, but an empty list stays until the version was checked: it needs 1.1.0."""
    return [] if value == [] else _texts(decoder, value, position)


def _integer(wanted: str, limits: tuple[int, int], *, zero: bool) -> Reader:
    """Reads an integer within limits; `zero`: whether 0 differs from absent."""

    def read(decoder: Decoder, value: Any, position: Position) -> int | None:
        number = value if value.__class__ is int and limits[0] <= value <= limits[1] else whole(value, limits)
        if number is None:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                decoder.fault(position, "wrong-type", f"is {value}, but must be {wanted}", f"write {wanted} here")
            else:
                decoder.wrong(value, wanted, position)
        return number if number or zero else None

    return read


def _gids(decoder: Decoder, value: Any, position: Position) -> list[int] | None:
    """A list of group ids; a null item is 0."""
    if value.__class__ is not list:
        decoder.wrong(value, "a list of numbers", position)
        return None
    gids = (0 if item is None else _ID(decoder, item, (position, index)) for index, item in enumerate(value))
    return [gid for gid in gids if gid is not None] or None


def _flag(decoder: Decoder, value: Any, position: Position) -> bool | None:
    """A boolean; false is absent."""
    if value.__class__ is not bool:
        decoder.wrong(value, "true or false", position)
    return True if value is True else None


def _annotations(decoder: Decoder, value: Any, position: Position) -> dict[str, str] | None:
    """Texts by name; a null value is an empty text."""
    if value.__class__ is not dict:
        decoder.wrong(value, "a mapping of texts", position)
        return None
    decoder.members += len(value)
    for name in value:
        decoder.name(name, position)
    return {name: "" if item is None else decoder.text(item, (position, name)) for name, item in value.items()} or None


def _one(fields: Fields) -> Reader:
    """Reads a mapping with known fields."""
    return lambda decoder, value, position: decoder.record(value, fields, position)


def _many(fields: Fields, *, null: bool = False) -> Reader:
    """Reads a list of mappings with known fields; `null`: an item may be null and is then an empty mapping."""

    def read(decoder: Decoder, value: Any, position: Position) -> list[dict[str, Any]] | None:
        if value.__class__ is not list:
            decoder.wrong(value, "a list of mappings", position)
            return None
        if None in value and not null:
            for index, item in enumerate(value):
                if item is None:
                    text = "is null, but must be a mapping"
                    decoder.fault((position, index), "null-item", text, "remove the empty item", late=True)
        return [decoder.record(item, fields, (position, index)) for index, item in enumerate(value)] or None

    return read


_ID = _integer("a whole number from 0 to 4294967295", UINT32, zero=True)
_NUMBER = _integer("a whole number of 64 bits", INT64, zero=False)
_SECONDS = _integer("a whole number of seconds", INT64, zero=True)

NODE = Fields(
    {
        "path": _text,
        "hostPath": _text,
        "type": _text,
        "major": _NUMBER,
        "minor": _NUMBER,
        "fileMode": _ID,
        "permissions": _text,
        "uid": _ID,
        "gid": _ID,
    },
    path=str,
)
NET_DEVICE = Fields({"hostInterfaceName": _text, "name": _text}, hostInterfaceName=str, name=str)
HOOK = Fields(
    {"hookName": _text, "path": _text, "args": _texts, "env": _texts, "timeout": _SECONDS}, hookName=str, path=str
)
MOUNT = Fields(
    {"hostPath": _text, "containerPath": _text, "options": _texts, "type": _text}, hostPath=str, containerPath=str
)
RDT = Fields(
    {
        "closID": _text,
        "l3CacheSchema": _text,
        "memBwSchema": _text,
        "schemata": _schemata,
        "enableMonitoring": _flag,
    }
)
EDITS = Fields(
    {
        "env": _texts,
        "deviceNodes": _many(NODE),
        "netDevices": _many(NET_DEVICE),
        "hooks": _many(HOOK),
        "mounts": _many(MOUNT),
        "intelRdt": _one(RDT),
        "additionalGids": _gids,
    }
)
DEVICE = Fields(
    {"name": _text, "annotations": _annotations, "containerEdits": _one(EDITS)}, name=str, containerEdits=dict
)
DOCUMENT = Fields(
    {
        "cdiVersion": _text,
        "kind": _text,
        "annotations": _annotations,
        "devices": _many(DEVICE, null=True),
        "containerEdits": _one(EDITS),
    },
    cdiVersion=str,
    kind=str,
    devices=list,
    containerEdits=dict,
)
