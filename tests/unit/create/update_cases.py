"""What update makes of resources: one table for Python (test_update_rules.py) and for the launcher (test_repeat.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

Json = dict[str, Any]

NODES: list[Json] = [
    {"path": "/dev/a", "type": "c", "major": 60, "minor": 7},
    {"path": "/dev/b", "type": "b", "major": 8, "minor": 1, "permissions": "r"},
    {"path": "/dev/same", "type": "c", "major": 60, "minor": 7},
    {"path": "/dev/closed", "type": "c", "major": 60, "minor": 8, "permissions": "none"},
    {"path": "/dev/pipe", "type": "p"},
]
# The rules of NODES
OURS: list[Json] = [
    {"allow": True, "type": "c", "major": 60, "minor": 7, "access": "rwm"},
    {"allow": True, "type": "b", "major": 8, "minor": 1, "access": "r"},
]
DENY: Json = {"allow": False, "access": "rwm"}
NULL: Json = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}
_NARROW = {**OURS[0], "access": "r"}
_SORTED = dict(sorted(OURS[0].items()))
_REST: Json = {"cpu": {"cpus": "0-1"}, "unknown": {"kept": ["\u00fc", None]}}


class Update(NamedTuple):
    """The rules that an engine gives, those that come out, and whether the launcher leaves them to Python."""

    given: Any
    wanted: Any
    is_unusual: bool = False
    rest: Json = _REST


UPDATES: dict[str, Update] = {
    "the engine's own list": Update([DENY, NULL], [DENY, NULL, *OURS]),
    "ours are there": Update([DENY, *OURS, NULL], [DENY, *OURS, NULL]),
    "one of ours is there": Update([DENY, OURS[1]], [DENY, OURS[1], OURS[0]]),
    "one is denied again": Update([OURS[0], DENY, OURS[1]], [OURS[0], DENY, OURS[1], OURS[0]]),
    "all are denied at the end": Update([*OURS, DENY], [*OURS, DENY, *OURS]),
    "a rule for all devices": Update([{"allow": True, "access": "rwm"}], [{"allow": True, "access": "rwm"}, *OURS]),
    "no rule at all": Update([], []),
    "rules that are null": Update(None, None, is_unusual=True),
    "rules that are no list": Update({"a": 1}, {"a": 1}, is_unusual=True),
    "a rule that is no object": Update([DENY, 3], [DENY, 3, *OURS], is_unusual=True),
    "ours with other access": Update([DENY, _NARROW], [DENY, _NARROW, *OURS], is_unusual=True),
    "ours with its members in another order": Update([DENY, _SORTED], [DENY, _SORTED, OURS[1]], is_unusual=True),
    "a fraction elsewhere": Update([DENY], [DENY, *OURS], is_unusual=True, rest={"unknown": 1.5}),
}

# Resources that stay as they are, byte for byte
KEPT: dict[str, bytes] = {
    "no rules": b'{"memory":  {"limit": 1}}',
    "rules that are null": b'{"devices":  null}',
    "rules that are no list": b'{"devices":  {"a": 1}}',
    "an empty list of rules": b'{"devices":  [ ]}',
    "an empty object": b" {} ",
    "a name twice": b'{"devices": [{"allow": false}], "devices": [{"allow": false}]}',
    "not JSON": b'{"devices": [{"allow": false}]',
    "not UTF-8": b'{"devices": [{"allow": false}], "a": "\xff"}',
    "a list": b"[]",
    "nothing": b"",
}
