"""JSON of which two decoders cannot read different values.

Go's decoder folds case, merges repeated objects, and reads the elements of a repeated list into those of the first; it
replaces what is no UTF-8. So a request body is read by the strictest rules, and the daemon gets a fresh encoding of the
value that was judged.

Source: encoding/json of Go, Unmarshal; RFC 8259 sections 4 and 8.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from shim.gate.judge.messages import Denied

MAX_DEPTH = 500  # of lists and objects; Python has a limit of its own, another in each version, or none
_ZEROS: tuple[object, ...] = (None, False, 0, "", [], {})


class _DuplicateKeyError(ValueError):
    pass


def parse(body: bytes) -> Any:
    """The value of a body.

    Raises Denied: json-invalid (no JSON, no UTF-8, NaN, numbers beyond every type, lone surrogates, deep nesting, text
    behind the value) or json-duplicate-key.
    """
    try:
        text = body.decode("utf-8")
        value = _DECODER.decode(text)
        if text.count("[") + text.count("{") > MAX_DEPTH:
            _check_depth(value)
        if "\\ud" in text or "\\uD" in text:
            encode(value)  # a lone surrogate cannot be encoded
    except _DuplicateKeyError as error:
        raise Denied("json-duplicate-key", what=f"the key {error} appears twice in an object") from None
    except UnicodeDecodeError:
        raise Denied("json-invalid", what="it is not UTF-8") from None
    except RecursionError:
        raise Denied("json-invalid", what="it is nested too deeply") from None
    except ValueError as error:
        raise Denied("json-invalid", what=f"it is not JSON: {error}" if body else "it is empty") from None
    return value


def encode(value: Any) -> bytes:
    """The value as compact JSON. Raises Denied: json-invalid, for values that JSON or UTF-8 cannot carry."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise Denied("json-invalid", what="a \\u escape stands for half a character") from None
    except RecursionError:
        raise Denied("json-invalid", what="it is nested too deeply") from None
    except ValueError:
        raise Denied("json-invalid", what="a number is beyond every type") from None


def is_zero(value: Any) -> bool:
    """Whether Go's decoder leaves a field as if it were not there: null, false, 0, "", [] or {}."""
    return any(value is zero or (type(value) is type(zero) and value == zero) for zero in _ZEROS)


def quoted(text: object) -> str:
    """Text of a client as a message can hold it: printable, at most 100 letters, in quotes."""
    written = json.dumps(text if len(str(text)) <= 100 else str(text)[:97] + "...")
    return written if isinstance(text, str) else written.strip('"')


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for parent in level
            if isinstance(parent, (list, dict))
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise RecursionError


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(quoted(key))
            seen.add(key)
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)
