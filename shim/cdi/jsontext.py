"""JSON text: a spec that is strict JSON, read by the C scanner, 20 times faster than as YAML and without PyYAML.

The reference reads every spec as YAML 1.1, JSON or not, so this way may only be taken where both give the same. What
differs is turned away here and goes to the YAML reader: bytes beyond ASCII, two escapes, long or spread-out keys, tabs
around the braces. So do equal keys.
"""

from __future__ import annotations

from shim.base.fastjson import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What a text must not hold, by a byte that has to be there for it and is quicker to look for: `\/` and surrogate pairs
# are no YAML escapes, DEL is no YAML character, and a key stands beside its colon.
_FOREIGN = (
    (b"\\", (b"\\/", b"\\ud", b"\\uD")),
    (b"\x7f", (b"\x7f",)),
    (b"\r", (b"\r:",)),
    (b"\t", (b"\t:",)),
    (b"\n", (b"\n:",)),
    (b" ", (b" :",)),
)


MAX_NODES = 500_000  # for both readers; behind aliases each counted again. A spec with 1000 devices has 30000


class NotStrict(Exception):  # noqa: N818 - no error: another reader takes over
    """The text is not JSON, or JSON that YAML reads otherwise."""


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
    # Each node stands behind one of these, so there are not more of them; the YAML reader counts exactly.
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
    """How many members the objects of a JSON text that `load` took have at most, together.

    A quote before a colon ends the name of a member, as no blank stands there; inside a text a quote has a backslash.
    A text that holds such a quote, and a colon behind it, is counted in. An object of Python that has fewer members
    was written with equal names, or has to be read as YAML just in case. Asking the scanner for pairs would take as
    long as all the rest.
    """
    return data.count(b'":')
