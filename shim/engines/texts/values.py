"""Values of a configuration by the path of their keys, the same for TOML and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shim.engines.model import Keys


def get(meaning: dict[str, Any], keys: Keys) -> Any:
    """The value at a key, None when there is none; TOML has no null, and to docker it is as good as nothing."""
    here: Any = meaning
    for key in keys:
        here = here.get(key) if isinstance(here, dict) else None
    return here


def put_in(meaning: dict[str, Any], keys: Keys, value: Any) -> int:
    """Set the value at a key, and make the tables on the way.

    Returns:
        0; otherwise how many of the keys lead to something that is no table, and then it is not set.
    """
    here: Any = meaning
    for number, key in enumerate(keys[:-1], 1):
        here = here.setdefault(key, {})
        if not isinstance(here, dict):
            return number
    here[keys[-1]] = value
    return 0


def take_out(meaning: dict[str, Any], keys: Keys) -> None:
    """Remove a key that is there."""
    for key in keys[:-1]:
        meaning = meaning[key]
    del meaning[keys[-1]]


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, of the same type: true is no 1, and no 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)
