"""Recorded: a World that has only the answers of a trace, and traces as plain values. Cold.

With it a decision is made again anywhere: what was answered about the host then is answered again, and a question that
was not asked then is an error.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, from_json
from shim.config.settings import Settings
from shim.create.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.cdi.plan import Plan
    from shim.create.recipe import Decision
    from shim.create.world import Trace

    Json = dict[str, Any]


# Of a file, what is asked about it; in this order in a report
_STATUS = ("st_mode", "st_ino", "st_dev", "st_uid", "st_gid", "st_size", "st_rdev", "st_mtime_ns", "st_ctime_ns")


class Status:
    """The status of a file, see stat(2); members as in os.stat_result."""

    __slots__ = _STATUS

    st_mode: int
    st_ino: int
    st_dev: int
    st_uid: int
    st_gid: int
    st_size: int
    st_rdev: int
    st_mtime_ns: int
    st_ctime_ns: int

    def __init__(self, numbers: Sequence[int]) -> None:
        """Take the members in the order of _STATUS. Raises ValueError when there are more or fewer."""
        for name, number in zip(_STATUS, numbers, strict=True):
            setattr(self, name, number)


class UnrecordedError(BaseException):
    """A question that the trace does not answer: it belongs to another create, or to another version of shim.

    It is no Exception, so that `recipe.decide` does not take it for a defect and refuse the create.
    """


class Recorded(World):
    """The answers of a trace."""

    __slots__ = ()

    def __init__(self, trace: Trace) -> None:
        """Take the answers of `World.trace`, or of `trace_from_json`."""
        super().__init__()
        self._answers = {(kind, argument): answer for kind, argument, answer in trace}

    def _look(self, kind: str, argument: Any) -> Any:
        raise UnrecordedError(f"the trace has no answer to {kind} {argument!r}")


def trace_to_json(trace: Trace) -> list[list[Any]]:
    """A trace as plain values: [kind, argument, answer] each."""
    return [[kind, _plain(argument), _plain(answer)] for kind, argument, answer in trace]


def trace_from_json(value: Iterable[list[Any]]) -> Trace:
    """The trace that `trace_to_json` gave. Raises ValueError when the value is none."""
    try:
        trace = [(kind, _argument(argument), _answer(kind, answer)) for kind, argument, answer in value]
        hash(tuple((kind, argument) for kind, argument, _ in trace))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no trace: {error!r}") from error
    return trace


def error_to_json(error: CdiError | None) -> dict[str, Any] | None:
    """An error as plain values."""
    if error is None:
        return None
    return {"text": str(error), "findings": [finding.to_json() for finding in error.findings]}


def error_from_json(value: dict[str, Any] | None) -> CdiError | None:
    """The error that `error_to_json` gave. Raises KeyError or TypeError when the value is none."""
    if value is None:
        return None
    error = CdiError([from_json(finding) for finding in value["findings"]])
    error.args = (value["text"],)
    return error


def decision_to_json(decision: Decision) -> Json:
    """A decision as plain values, without its trace."""
    return {
        "settings": decision.settings.to_json(),
        "unreadable": error_to_json(decision.unreadable),
        "sandbox": decision.is_sandbox,
        "requests": decision.requests,
        "resolved": _plan(decision.resolved),
        "plan": _plan(decision.plan),
        "edits": decision.edits,
        "folds": decision.folds,
        "findings": [finding.to_json() for finding in decision.findings],
        "refusal": error_to_json(decision.refusal),
    }


def _plan(plan: Plan | None) -> Json | None:
    return plan.to_json() if plan else None


def _plain(value: Any) -> Any:
    if isinstance(value, os.stat_result | Status):
        return [getattr(value, name) for name in _STATUS]
    if isinstance(value, Settings):
        return value.to_json()
    if isinstance(value, CdiError):
        return {"error": error_to_json(value)}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _argument(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# Kind of question -> type of its answer, where that is no error
_TYPES: dict[str, type] = {
    "lstat": list,
    "stat": list,
    "readlink": str,
    "getxattr": str,
    "access": bool,
    "missing": bool,
    "readonly": bool,
    "idmap": bool,
    "ridmap": bool,
    "read": list,
    "content": bool,
    "digest": str,
    "locked": list,
    "names": list,
    "index": bool,
    "environ": str,
    "podman": list,
}


_LISTS = {"locked", "names", "podman"}  # whose answer is a list; another list is the status of a file


def _answer(kind: str, answer: Any) -> Any:
    if kind == "settings":
        settings, fault = answer
        return Settings.from_json(settings), error_from_json(fault and fault["error"])
    if kind in {"specs", "grants", "hardware"} and isinstance(answer, dict) and "error" in answer:
        return error_from_json(answer["error"])
    if kind in {"grants", "hardware"}:
        return answer
    if kind == "specs":
        return [(spec, device, edits) for spec, device, edits in answer]
    if not isinstance(answer, (_TYPES[kind], int)):
        raise ValueError(f"the answer to {kind} has another type")
    if isinstance(answer, list) and kind not in _LISTS:
        return (Status(answer[0]), answer[1]) if kind == "read" else Status(answer)
    return answer
