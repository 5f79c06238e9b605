"""JSON without the `json` package: the C scanner and encoder of CPython, called directly.

`import json` costs 6 ms because of `re`, more than reading and writing a config.json. The two C functions are stable
since 3.10 but private, so anything unexpected about them falls back to `json`; a test compares both. HOT.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BLANK = " \t\n\r"


class _Context:
    """What the C scanner asks of its decoder object (Modules/_json.c, scanner_new)."""

    strict = True
    object_hook = None
    parse_int = int

    def __init__(self, pairs_hook: Any) -> None:
        self.object_pairs_hook = pairs_hook
        self.memo: dict[str, str] = {}

    @staticmethod
    def parse_float(text: str) -> float:
        return _number(text)

    @staticmethod
    def parse_constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float:
    """A number with a fraction or an exponent. Raises ValueError where no float holds it: it could not be written."""
    value = float(text)
    if value - value != 0:  # infinite
        raise ValueError(f"the number {text[:20]} is out of range")
    return value


def loads(text: str) -> Any:
    """Decode one JSON value (RFC 8259), strictly: no NaN, no raw control characters, nothing behind the value.

    Arguments:
        text: the document; white space around the value is allowed, a byte order mark is not.
    Raises:
        ValueError: the text is not JSON, or is nested too deeply to be read.
    """
    return _decode(text, None)


def _decode(text: str, pairs_hook: Any) -> Any:
    """Decode a value; pairs_hook is called with the list of (name, value) of each object."""
    stripped = text.lstrip(_BLANK)
    start = len(text) - len(stripped)
    try:
        try:
            value, end = _scanner(_Context(pairs_hook))(text, start)
        except SystemError:
            # Up to Python 3.12 the scanner finds its exception only where `json` is loaded, and else raises nothing.
            import json.decoder  # noqa: F401  # late: 9 ms, and only for a text that is wrong

            value, end = _scanner(_Context(pairs_hook))(text, start)
    except StopIteration as stop:
        raise ValueError(f"a JSON value is missing at character {stop.value}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text[end:].strip(_BLANK):
        raise ValueError(f"something follows the JSON value at character {end}")
    return value


def loads_noting(text: str) -> tuple[Any, list[tuple[str, Any]]]:
    """Decode JSON, and notice a name that stands twice in one object: readers understand that differently.

    Arguments:
        text: the JSON text.
    Returns:
        the value, of equal names with the last one's; and each name and value that an equal name behind it replaces.
    Raises:
        ValueError: as `loads`.
    """
    replaced: list[tuple[str, Any]] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            last = {name: index for index, (name, _) in enumerate(pairs)}
            replaced.extend(pair for index, pair in enumerate(pairs) if last[pair[0]] != index)
        return value

    return _decode(text, members), replaced


def dumps(value: Any) -> str:
    """Encode plain values as JSON in its shortest form, all ASCII, members in their order.

    Raises:
        ValueError: a float that JSON does not know, or nesting too deep.
        TypeError: a value of a type that JSON does not know.
    """
    try:
        return "".join(_encode(value, 0))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not a JSON type")


try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    def _scanner(context: _Context) -> Any:
        return make_scanner(context)  # type: ignore[arg-type]  # typeshed wants a JSONDecoder, which is `json`

    # markers, default, string encoder, indent, key separator, item separator, sort_keys, skipkeys, allow_nan. Without
    # markers a circle is not noticed as such: it is nested too deeply.
    _encode: Any = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)

    _scanner(_Context(None))
except (ImportError, TypeError):  # another Python than CPython, or a later one with another signature
    from json import JSONDecoder, JSONEncoder

    def _scanner(context: _Context) -> Any:
        decoder = JSONDecoder(
            object_pairs_hook=context.object_pairs_hook,
            parse_constant=context.parse_constant,
            parse_float=context.parse_float,
        )
        return decoder.scan_once  # type: ignore[attr-defined]  # the same function as above, by its only other way

    _encode = JSONEncoder(separators=(",", ":"), allow_nan=False, default=_refuse, check_circular=False).iterencode
