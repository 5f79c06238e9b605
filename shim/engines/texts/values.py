"""Values of a configuration by the path of their keys, the same for TOML and JSON."""

from __future__ import annotations

from datetime import date, time
from typing import Union

Keys = tuple[str, ...]  # path of a key through tables or objects, for example ("plugins", "cri", "enable_cdi")

# What a TOML or JSON text can hold; null is JSON's, dates and times (a datetime is a date) are TOML's
Value = Union[str, int, float, bool, None, date, time, list["Value"], dict[str, "Value"]]  # noqa: UP007 - quoted names
Table = dict[str, Value]


def get(table: Table, keys: Keys) -> Value:
    """The value at a key, None when it is missing: TOML has no null, and docker treats null as a missing key."""
    value: Value = table
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def table_at(table: Table, keys: Keys) -> Table:
    """The table at a key, {} when there is none, or another value."""
    value = get(table, keys)
    return value if isinstance(value, dict) else {}


def texts(value: Value) -> list[str]:
    """The texts in a list, [] for another value."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def put_in(table: Table, keys: Keys, value: Value) -> int:
    """Set the value at a key; missing tables on the way are created.

    Returns:
        0; otherwise the number of keys that lead to a value that is no table, and then nothing is set.
    """
    for number, key in enumerate(keys[:-1], 1):
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            return number
        table = inner
    table[keys[-1]] = value
    return 0


def take_out(table: Table, keys: Keys) -> None:
    """Remove a key that is there."""
    del table_at(table, keys[:-1])[keys[-1]]


def same(left: Value, right: Value) -> bool:
    """Whether two values are equal and of the same type: true is not 1, and 1 is not 1.0."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)
