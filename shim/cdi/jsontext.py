"""JSON text: reads a spec that is strict JSON by the C scanner, 20 times faster than as YAML and without PyYAML.

The reference reads every spec as YAML 1.1, JSON or not, so this reader may only be used where both give the same
result. Text with a possible difference is refused here and read as YAML: bytes beyond ASCII, two escapes, long or
spread-out keys, tabs around the braces, equal keys.
"""

from __future__ import annotations

from shim.base.fastjson import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Patterns that a text must not contain, each with a byte of the pattern that is quicker to search: `\/` and surrogate
# pairs are not YAML escapes, DEL is not a YAML character, and a key and its colon must be adjacent.
_FOREIGN = (
    (b"\\", (b"\\/", b"\\ud", b"\\uD")),
    (b"\x7f", (b"\x7f",)),
    (b"\r", (b"\r:",)),
    (b"\t", (b"\t:",)),
    (b"\n", (b"\n:",)),
    (b" ", (b" :",)),
)


MAX_NODES = 500_000  # for both readers; nodes behind an alias count each time. A spec with 1000 devices has 30000


class NotStrict(Exception):  # noqa: N818 - no error: another reader takes over
    """The text is not JSON, or JSON that a YAML reader would read differently."""


def load(data: bytes) -> dict[str, Any]:
    """The object that a JSON text holds; of equal keys the last (see `members`).

    Raises:
        NotStrict: the text has to be read as YAML.
    """
    if not data.isascii():
        raise NotStrict
    for byte, wrong in _FOREIGN:
        if byte in data:
            for letters in wrong:
                if letters in data:
                    raise NotStrict
    # Each node follows any of these characters, so their number is an upper limit; the YAML reader counts exactly.
    if len(data) > MAX_NODES and sum(map(data.count, (b",", b":", b"[", b"{"))) >= MAX_NODES:
        raise NotStrict
    text = data.decode("ascii").strip(" \r\n")
    if not text.startswith("{") or not text.endswith("}"):
        raise NotStrict
    try:
        value: dict[str, Any] = loads(text)
    except ValueError:
        raise NotStrict from None
    return value


def members(data: bytes) -> int:
    """An upper limit of the number of members in all objects of a JSON text that `load` accepted.

    A quote directly before a colon ends the name of a member (`load` refuses a blank between them). A text may contain
    such a pair, too, with a backslash before the quote, and is counted as well. If the decoded objects have fewer
    members, the text has equal names or such a pair, and is read as YAML. Asking the scanner for pairs instead would
    take as long as all the rest.
    """
    return data.count(b'":')
