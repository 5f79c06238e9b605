"""What exec makes of an environment: one table for Python (test_record.py) and for the launcher (test_repeat.py)."""

from __future__ import annotations

from typing import Any

# injected, in config.json before, environment of exec, what comes out
EXECS: dict[str, tuple[list[str], list[str], Any, Any]] = {
    "a variable that the engine does not know": (["A=1"], ["Z=9"], ["Z=9"], ["Z=9", "A=1"]),
    "one that it has from the image": (["A=1"], ["A=0"], ["A=0", "Z=9"], ["A=1", "Z=9"]),
    "one that the user gave": (["A=1"], ["A=0"], ["A=mine"], ["A=mine"]),
    "one that the user gave, which was not there before": (["A=1"], [], ["A=mine"], ["A=mine"]),
    "one that the user gave empty": (["A=1"], ["A=0"], ["A="], ["A="]),
    "one that is as it should be": (["A=1"], ["A=0"], ["A=1"], ["A=1"]),
    "one that stands there twice, the last counts": (["A=1"], ["A=0"], ["A=x", "A=0"], ["A=x", "A=1"]),
    "one without a value in the list": (["A=1"], ["A="], ["A"], ["A"]),
    "several, in their order": (["B=2", "A=1"], [], [], ["B=2", "A=1"]),
    "no list at all": (["A=1"], [], None, ["A=1"]),
    "a list of something else": (["A=1"], [], [3], [3]),
    "something else": (["A=1"], [], {"A": "0"}, {"A": "0"}),
}

# Those that the launcher leaves to Python
UNUSUAL = {
    "one that stands there twice, the last counts",
    "no list at all",
    "a list of something else",
    "something else",
}
