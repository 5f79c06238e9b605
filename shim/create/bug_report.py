"""Bug report: a create saved to a file, and decided again from it on any machine. Cold.

The file is one JSON object:

    format, version    of the file; of the shim that wrote it
    private            whether personal paths and values were replaced (shim.create.redaction)
    question, trace    what a decision depends on, see shim.create.question and shim.create.world
    decision           what was decided, see shim.create.recorded.decision_to_json

The decision is made again from question and trace alone: nothing of this machine is looked at, so a difference comes
from another version of shim. A file may come from anybody; what cannot be understood is REPORT_INVALID.
"""

from __future__ import annotations

import json
import stat
import sys
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim import __version__
from shim.base import files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.create import redaction
from shim.create.explain import Explanation
from shim.create.question import Question
from shim.create.recipe import decide
from shim.create.recorded import Recorded, UnrecordedError, decision_to_json, trace_from_json, trace_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.create.recipe import Decision

    Json = dict[str, Any]

FORMAT = 1
MAX_SIZE = 256 * 1024 * 1024  # bytes; a config.json has at most 16 MiB, and its text is in here up to three times
_TYPES = {"question": dict, "trace": list, "decision": dict, "version": str, "private": bool}
_MISSING = object()


class BugReport:
    """A create, as plain values.

    Attributes:
        version: of the shim that decided.
        private: whether personal paths and values were replaced.
        question, trace, decision: as `Question.to_json`, `trace_to_json` and `decision_to_json` give them.
    """

    __slots__ = ("decision", "private", "question", "trace", "version")

    def __init__(self, question: Json, trace: list[Any], decision: Json, version: str, *, private: bool) -> None:
        self.question, self.trace, self.decision = question, trace, decision
        self.version, self.private = version, private

    def to_json(self) -> Json:
        """The report as plain values, in the order in which people read it."""
        names = ("version", "private", "question", "decision", "trace")
        return {"format": FORMAT, **{name: getattr(self, name) for name in names}}


class Replay:
    """A report that was decided again.

    Attributes:
        report: what was read.
        explanation: of the decision that this version makes.
        differences: (member of the decision, value in the report, value now) of each that differs; a value is JSON, ""
            where there is none.
    """

    __slots__ = ("differences", "explanation", "report")

    def __init__(self, report: BugReport, explanation: Explanation) -> None:
        self.report, self.explanation = report, explanation
        now = _plain(decision_to_json(explanation.decision))
        self.differences = list(_differences(report.decision, now, ""))

    def to_json(self) -> Json:
        """The explanation as plain values, and what it is made from."""
        differences = [{"member": member, "report": old, "now": new} for member, old, new in self.differences]
        report = {"version": self.report.version, "private": self.report.private, "differences": differences}
        return {**self.explanation.to_json(), "report": report}


def make(explanation: Explanation, *, private: bool) -> BugReport:
    """The report of an explained create.

    Arguments:
        explanation: of a bundle.
        private: replace personal paths, and values that no source reads and no edit sets.
    Raises:
        CdiError: REPORT_PRIVATE, when that would change what is decided.
    """
    decision = explanation.decision
    question: Json = _plain(explanation.question.to_json())
    trace: list[Any] = _plain(trace_to_json(decision.trace))
    if private:
        question, trace = redaction.redact(question, trace)
        decision = _decide_the_same(question, trace, explanation)
    return BugReport(question, trace, _plain(decision_to_json(decision)), __version__, private=private)


def _decide_the_same(question: Json, trace: list[Any], explanation: Explanation) -> Decision:
    """The decision from redacted values. Raises CdiError (REPORT_PRIVATE) when it is another one."""
    try:
        decision = _decide(question, trace)
        if redaction.shape(decision) == redaction.shape(explanation.decision):
            return decision
    except UnrecordedError:
        pass
    text = "what is decided depends on a path or a value that --private replaces"
    raise CdiError([Finding("REPORT_PRIVATE", text, path=explanation.question.path)])


def write(report: BugReport, path: str) -> None:
    """Write a report, with mode 0600: it may hold the environment of a container.

    Arguments:
        path: the file; an earlier report is replaced, and nothing else.
    Raises:
        CdiError: CONFIG_WRITE.
    """
    text = json.dumps(report.to_json(), indent=1) + "\n"
    try:
        old = files.status(path)
        if old:
            try:
                read(path)
            except CdiError:
                raise ValueError("it exists, and is no report of shim; name another file") from None
        files.write(path, text.encode("ascii"), mode=0o600, keep=False)
    except OSError as error:
        text = f"it cannot be written: {reason(error)}"
        raise CdiError([Finding("CONFIG_WRITE", text, remedies.to_write(error), path=path)]) from None
    except ValueError as error:
        raise CdiError([Finding("CONFIG_WRITE", str(error), path=path)]) from None


def read(path: str) -> BugReport:
    """Read a report.

    Arguments:
        path: the file, "-" for standard input.
    Raises:
        CdiError: REPORT_INVALID.
    """
    try:
        value = json.loads(_bytes(path).decode("utf-8"))
        if not isinstance(value, dict) or "format" not in value:
            raise ValueError("it is no report of `shim explain --report`")
        if value["format"] != FORMAT:
            raise ValueError(f"it has the format {value['format']!r}, and this version of shim reads {FORMAT}")
        for name, type_ in _TYPES.items():
            if not isinstance(value.get(name), type_):
                raise ValueError(f"{name} is missing or has another type")
    except OSError as error:
        raise _invalid(reason(error), path, remedies.to_read(error)) from None
    except RecursionError:  # whose text differs between versions of Python
        raise _invalid("it is nested too deeply", path) from None
    except ValueError as error:
        raise _invalid(str(error), path) from None
    return BugReport(value["question"], value["trace"], value["decision"], value["version"], private=value["private"])


def replay(report: BugReport, path: str) -> Replay:
    """Decide again.

    Arguments:
        report: what `read` gave.
        path: where it was read from, for findings.
    Raises:
        CdiError: REPORT_INVALID; REPORT_UNANSWERED, when this version asks what the trace does not answer.
    """
    try:
        decision = _decide(report.question, report.trace)
        return Replay(report, Explanation(Question.from_json(report.question), decision))
    except UnrecordedError as error:
        text = f"{error}: version {report.version} decided without it, and this version ({__version__}) does not"
        raise CdiError([Finding("REPORT_UNANSWERED", text, path=path)]) from None
    except Exception as error:  # the file may hold anything; a defect of a create itself is a part of its decision
        text = f"it is no create of this version ({__version__}), but of {report.version}"
        raise _invalid(f"{text}: {type(error).__name__}: {error}", path) from None


def _decide(question: Json, trace: list[Any]) -> Decision:
    """The decision from plain values. Raises ValueError when they are none, UnrecordedError, and what decide raises."""
    return decide(Question.from_json(question), Recorded(trace_from_json(trace)))


def _differences(old: Any, new: Any, member: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            below = f"{member}.{name}" if member else str(name)
            yield from _differences(old.get(name, _MISSING), new.get(name, _MISSING), below)
    elif isinstance(old, list) and isinstance(new, list):
        for index, (before, now) in enumerate(zip_longest(old, new, fillvalue=_MISSING)):
            yield from _differences(before, now, f"{member}[{index}]")
    elif old is _MISSING or new is _MISSING or (type(old), old) != (type(new), new):
        yield member, _written(old), _written(new)


def _written(value: Any) -> str:
    return "" if value is _MISSING else json.dumps(value)


def _plain(value: Any) -> Any:
    """A value as it comes back from a file: lists for tuples."""
    return json.loads(json.dumps(value))


def _bytes(path: str) -> bytes:
    """The content of a file. Raises OSError, and ValueError for what is no regular file or too large."""
    if path == "-":
        data = sys.stdin.buffer.read(MAX_SIZE + 1)
    else:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        with Path(path).open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    if len(data) > MAX_SIZE:
        raise ValueError(f"it has more than {MAX_SIZE // 1024**2} MiB")
    return data


def _invalid(text: str, path: str, remedy: str = "") -> CdiError:
    return CdiError([Finding("REPORT_INVALID", text, remedy, path="standard input" if path == "-" else path)])
