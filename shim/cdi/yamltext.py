"""YAML text: reads the first document of a text into plain values, as strictly as the CDI reference.

It uses the events of libyaml, not PyYAML's loaders: these keep the last of several equal keys, resolve other words,
refuse a second anchor of the same name, and recurse. Here
* a plain word is resolved by the reference's table (no base 60, dates stay text, `0o17` and `1e3` are numbers);
* a key that occurs twice in a mapping, also through a merge (`<<`), is a fault, and keys become text;
* an alias is a reference to the value, so it costs nothing here; the expanded size is counted and limited;
* no function recurses, and nesting is limited.
All faults are collected with their lines; only a syntax error ends the reading. `locate` returns the line of a field.
"""

from __future__ import annotations

import binascii
import re

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from shim.cdi.decode import MAX_FAULTS, fold
from shim.cdi.jsontext import MAX_NODES
from shim.cdi.names import quoted
from shim.cdi.scalars import INT64, UINT64_MAX, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_DEPTH = 1000  # libyaml has the same limit from 0.2.6 on
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_NUMBER_FIRST = frozenset("+-.0123456789")
_NO_TEXT_FIRST = _NUMBER_FIRST | {word[:1] for word in _WORDS}  # first letters of words that are not text
_INTEGER = re.compile(r"([-+]?)(?:0([bB][01]+|[oO][0-7]+|[xX][0-9a-fA-F]+|[0-7]+)|(0|[1-9][0-9]*))").fullmatch
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?").fullmatch
_DOT_FLOAT = re.compile(r"\.[0-9](?:_?[0-9])*(?:[eE][-+]?[0-9](?:_?[0-9])*)?").fullmatch
_DATE = re.compile(r"[0-9]{4}-[01]?[0-9]-[0-3]?[0-9](?:[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}.*)?").fullmatch
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch
_BASES = {"b": 2, "o": 8, "x": 16}

_TAG = "tag:yaml.org,2002:"
# The type that a word must have under a tag; under other tags every word is text.
_TAGGED: dict[str, type | None] = {"bool": bool, "int": int, "float": float, "null": type(None), "timestamp": str}
LATE = 9
_MERGE = object()  # the key `<<`, until its value was read
_DROP = object()  # a key that is a fault
_ESCAPED_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/").search


class YamlFault(Exception):  # noqa: N818 - becomes a Finding
    """Something in the text that the reader refuses.

    Arguments:
        rule: "yaml-syntax", "yaml-alias-bomb", "too-many-nodes", "bad-map-key", "duplicate-key" or "trailing-text".
        text: what is wrong, a clause.
        line: counted from 1.
        order: in which of its steps the reference reports it: 0 syntax, tags and keys that are collections, 1 equal
            keys, 2 keys that are not text, LATE never.
    """

    def __init__(self, rule: str, text: str, line: int, order: int = 0) -> None:
        self.rule = rule
        self.text = text
        self.line = line
        self.order = order
        super().__init__(text)

    @property
    def late(self) -> bool:
        """Whether the reference does not report it."""
        return self.order == LATE


def resolve(word: str) -> bool | int | float | str | None:
    """The value of a plain word, which has no quotes and no tag."""
    first = word[:1]
    if first not in _NO_TEXT_FIRST:
        return word
    if word in _WORDS:
        return _WORDS[word]
    if first not in _NUMBER_FIRST:
        return word
    if first == ".":
        return _decimal(word) if _DOT_FLOAT(word) else word
    plain = word.replace("_", "")
    integer = _INTEGER(plain)
    if integer:
        sign, based, decimal = integer.groups()
        base = _BASES.get(based[0].lower(), 8) if based else 10
        number = _digits(decimal or (based if based[0].isdigit() else based[1:]), base)
        number = -number if sign == "-" else number
        if INT64[0] <= number <= (INT64[1] if sign else UINT64_MAX):
            return number
    # An integer beyond 64 bits, or with a leading 0 that is not octal (0888), is read as a decimal without a message.
    return _decimal(plain, word) if _FLOAT(plain) else word


def _digits(digits: str, base: int) -> int:
    # Python refuses to convert very long decimals; any number beyond 64 bits stands for these.
    return int(digits, base) if len(digits) <= 80 else UINT64_MAX + 1


def _decimal(plain: str, word: str = "") -> float | str:
    number = float(plain)
    return number if abs(number) != float("inf") else word or plain  # a float that overflows is not a number


class Document:
    """The first document of a YAML text.

    Attributes:
        value: dict, list, str, bool, int, float or None; keys are text. None when there is no document. With
            faults it differs from the text, but further checks may use it unless `broken`.
        faults: what was refused, in the order in which the reference reports it.
        broken: there is a syntax error, and the value is incomplete.
    """

    def __init__(self, data: bytes) -> None:
        self.value: Any = None
        self.faults: list[YamlFault] = []
        self.broken = False
        self._line = 1
        self._lines: dict[tuple[int, str | int], int] = {}  # by id of the container, and key or index
        self._containers: list[Any] = []  # kept, so that no id is used again
        self._mark = ""  # the letter that replaces U+FEFF, if the text has it after its first character
        self._source = ""  # the text, if it may have an escaped slash
        try:
            self._read(self._utf8(data))
        except YamlFault as fault:
            self.faults.insert(0, fault)
            self.broken = True
        except YAMLError as error:
            self.faults.insert(0, _syntax(error, self._line))
            self.broken = True
        self.faults.sort(key=lambda fault: fault.order)

    def locate(self, path: tuple[str | int, ...]) -> int:
        """The line, counted from 1, of a field; of the mapping or list around it when the field is missing."""
        container, line = self.value, self._line
        for wanted in path:
            step = wanted
            if container.__class__ is dict and wanted not in container:
                step = next((key for key in container if fold(key) == fold(str(wanted))), wanted)
            line_of_step = self._lines.get((id(container), step))
            if line_of_step is None:
                break
            container, line = container[step], line_of_step
        return line

    def _fault(self, rule: str, text: str, event: Any, order: int = 0) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(YamlFault(rule, text, event.start_mark.line + 1, order))

    def _utf8(self, data: bytes) -> bytes:
        """The text as UTF-8 without a byte order mark."""
        try:
            if data.startswith(b"\xff\xfe"):
                data = data[2:].decode("utf-16-le").encode()
            elif data.startswith(b"\xfe\xff"):
                data = data[2:].decode("utf-16-be").encode()
        except UnicodeError as error:
            raise YamlFault("yaml-syntax", f"broken UTF-16: {error}", 1) from None
        data = data.removeprefix(b"\xef\xbb\xbf")
        if b"\xef\xbb\xbf" in data:
            # libyaml skips the mark at the start of any line, the reference reads it as a letter: replaced
            self._mark = next(letter for letter in map(chr, range(0xE000, 0xF8FF)) if letter.encode() not in data)
            data = data.replace(b"\xef\xbb\xbf", self._mark.encode())
        if b"\\/" in data:
            self._source = data.decode("utf-8", "replace")
        return data

    def _read(self, data: bytes) -> None:
        next_event: Callable[[], Any] = CParser(data).get_event
        next_event()  # the start of the stream
        start = next_event()
        if start.__class__ is StreamEndEvent:
            return
        if start.version not in (None, (1, 1)):
            raise YamlFault("yaml-syntax", "the document asks for another YAML than 1.1", start.start_mark.line + 1)
        self._line = start.end_mark.line + 1
        self._build(next_event)
        end = next_event()
        try:
            while next_event().__class__ is not StreamEndEvent:  # the start of a further document
                node = next_event()
                if node.__class__ is not ScalarEvent or node.value or not node.implicit[0] or node.tag or node.anchor:
                    self._trailing(node.start_mark.line + 1)
                    return
                next_event()  # its end: an empty document behind a last "---" has no content that could be lost
        except YAMLError as error:
            self._trailing(_syntax(error, end.end_mark.line + 1).line)

    def _trailing(self, line: int) -> None:
        text = "there is text behind the first document, which readers of CDI specs do not look at"
        self.faults.append(YamlFault("trailing-text", text, line, LATE))

    def _build(self, next_event: Callable[[], Any]) -> None:
        """Build the values of the document, with a stack of the open containers instead of recursion."""
        lines = self._lines
        stack: list[tuple[Any, Any, int | None]] = []
        container: Any = None  # the innermost open container,
        pending: Any = None  # its key that waits for a value,
        number: int | None = None  # and the number of its anchor
        anchors: dict[str, int] = {}  # name -> number; a name may be used again
        values: list[Any] = []  # by number
        sizes: list[int] = []  # by number: how many nodes, aliases expanded; negative while the anchor is open
        count = aliased = 0
        while True:
            event = next_event()
            kind = event.__class__
            value: Any
            if count > MAX_NODES:
                text = f"more than {MAX_NODES} nodes, those behind aliases counted each time"
                raise YamlFault("too-many-nodes", text, event.start_mark.line + 1)
            if kind is ScalarEvent:
                count += 1
                value = event.value
                if (event.implicit[0] and value[:1] in _NO_TEXT_FIRST) or event.tag or self._source or self._mark:
                    value = self._scalar(event)
                if event.anchor:
                    anchors[event.anchor] = len(values)
                    values.append(value)
                    sizes.append(1)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                count += 1
                if len(stack) >= MAX_DEPTH:
                    raise YamlFault("yaml-syntax", f"nested deeper than {MAX_DEPTH}", event.start_mark.line + 1)
                if container.__class__ is list:
                    lines[id(container), len(container)] = event.start_mark.line + 1
                stack.append((container, pending, number))
                container, pending, number = ({} if kind is MappingStartEvent else []), None, None
                self._containers.append(container)
                if event.anchor:
                    anchors[event.anchor] = number = len(values)
                    values.append(container)
                    sizes.append(-count)
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                value = container
                if number is not None:
                    sizes[number] += count + 1
                container, pending, number = stack.pop()
            else:  # an alias
                count += 1
                named = anchors.get(event.anchor)
                if named is None:
                    raise YamlFault("yaml-syntax", f"unknown anchor {quoted(event.anchor)}", event.start_mark.line + 1)
                value = values[named]
                if sizes[named] < 0:
                    self._fault("yaml-syntax", f"anchor {quoted(event.anchor)} contains itself", event)
                    value = {}
                count += abs(sizes[named])
                aliased += abs(sizes[named])
                # The reference's rule: at most 99 % may come from aliases, less from 400000 nodes on.
                if aliased > 100 and count > 1000 and aliased / count > 0.99 - max(0, count - 400_000) * 0.89 / 3.6e6:
                    text = f"aliases stand for {aliased} of {count} nodes"
                    raise YamlFault("yaml-alias-bomb", text, event.start_mark.line + 1)

            if container.__class__ is list:
                if kind is ScalarEvent:
                    lines[id(container), len(container)] = event.start_mark.line + 1
                container.append(value)
            elif container is None:
                self.value = value
                return
            elif pending is None:
                pending = self._key(event, value, container)
            else:
                if pending is _MERGE:
                    self._merge(event, container, value)
                elif pending is not _DROP:
                    container[pending] = value
                pending = None

    def _key(self, event: Any, value: Any, container: dict[str, Any]) -> Any:
        """The key of a node: text, _MERGE, or _DROP for a fault."""
        line = event.start_mark.line + 1
        if not isinstance(value, str):
            if isinstance(value, (dict, list)):
                self._fault("bad-map-key", "a mapping or list cannot be a key", event)
                return _DROP
            if value is None or (type(value) is int and value > INT64[1]):
                self._fault("bad-map-key", f"{'null' if value is None else value} cannot be a key", event, 2)
                return _DROP
            value = _FLOAT_KEYS.get(text_of(value), text_of(value)) if isinstance(value, float) else text_of(value)
        elif value == "<<" and event.__class__ is ScalarEvent and (event.implicit[0] or event.tag == _TAG + "merge"):
            return _MERGE
        if value in container:
            self._twice(value, event, container)
        else:
            self._lines[id(container), value] = line
        return value

    def _twice(self, key: str, event: Any, container: dict[str, Any]) -> None:
        first = self._lines[id(container), key]
        self._fault("duplicate-key", f"key {quoted(key)} stands twice in one mapping, first on line {first}", event, 1)

    def _merge(self, event: Any, container: dict[str, Any], value: Any) -> None:
        """Add the members of the mapping that `<<` names. Unlike in other YAML readers, no key may override another."""
        for merged in value if isinstance(value, list) else [value]:
            if not isinstance(merged, dict):
                self._fault("yaml-syntax", "a merge (<<) takes a mapping or a list of mappings", event)
                continue
            for key, item in merged.items():
                line = self._lines.get((id(merged), key), event.start_mark.line + 1)
                if key in container:
                    self._twice(key, event, container)
                else:
                    container[key] = item
                    self._lines[id(container), key] = line

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if self._source and event.style == '"':
            source = self._source[event.start_mark.index : event.end_mark.index]
            if _ESCAPED_SLASH(source):
                text = "the escape \\/ is JSON but not YAML, and specs are read as YAML"
                raise YamlFault("yaml-syntax", text, event.start_mark.line + 1)
        if self._mark:
            text = text.replace(self._mark, "\ufeff")
        if event.tag is None:
            return resolve(text) if event.implicit[0] else text
        name = event.tag.removeprefix(_TAG) if event.tag.startswith(_TAG) else ""
        if name == "binary":
            return self._binary(event, text)
        if name not in _TAGGED:
            return text
        value = resolve(text)
        if name == "float" and type(value) is int and value <= INT64[1]:
            return float(value)
        if type(value) is not _TAGGED[name] or (name == "timestamp" and not _DATE(text)):
            self._fault("yaml-syntax", f"{quoted(text)} is no !!{name}", event)
        return value

    def _binary(self, event: Any, text: str) -> str:
        letters = text.replace("\n", "").replace("\r", "")
        if not _BASE64(letters):
            self._fault("yaml-syntax", "the text under !!binary is no base64", event)
            return ""
        return binascii.a2b_base64(letters).decode("utf-8", "replace")


_FLOAT_KEYS = {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}


def _syntax(error: YAMLError, line: int) -> YamlFault:
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        text = " ".join(part for part in (error.context, error.problem) if part)
        return YamlFault("yaml-syntax", text or "no YAML", mark.line + 1 if mark else line)
    if isinstance(error, ReaderError):
        return YamlFault("yaml-syntax", f"{error.reason} (at byte {error.position})", line)
    return YamlFault("yaml-syntax", str(error).replace("\n", " "), line)
