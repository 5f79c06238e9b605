"""Compares what two builds make of a case, line by line, and lets differences.toml name what is meant.

A part of a result becomes lines: JSON one line for each value, with the way to it (`process.env[] = "A=1"`), everything
else its own lines. So an entry of differences.toml says precisely what may go and what may come.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .normal import normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Json = dict[str, Any]
DIFFERENCES = Path(__file__).parent / "differences.toml"
_PATTERNS = ("gone", "new", "moved", "given", "told")
_LOGS = ("log", "runtime-log", "file:/log/ours")
_KEYS = {"cases", "parts", "reason", "becomes", *_PATTERNS}


@dataclass
class Difference:
    """A part of a step that is not as it was.

    Attributes:
        where: id of the case, `#`, name of the step.
        part: of the result.
        gone: lines that were there.
        new: lines that are there instead.
        given: the config.json that the case begins with, and the environment of the step.
        told: what the step says now: stderr, its log lines and standard output.
    """

    where: str
    part: str
    gone: list[str]
    new: list[str]
    given: str = field(default="", repr=False)
    told: str = field(default="", repr=False)

    def __str__(self) -> str:
        lines = [f"- {line}" for line in self.gone] + [f"+ {line}" for line in self.new]
        return "\n".join([f"{self.where} {self.part}", *(f"    {line}" for line in lines)])


@dataclass
class Entry:
    """One intended difference.

    Attributes:
        reason: the issue, or the fault that it mends.
        cases: patterns of `ID#STEP`.
        parts: patterns of parts.
        gone: what a line that goes must match as a whole, None: no line goes.
        new: the same of lines that come.
        becomes: what comes for each line that matches `gone`, with \\1 for its groups; "": nothing need come.
        moved: what a line that goes in one place and comes in another must match as a whole, None: none does.
        given: what must stand in the config.json that the case begins with, or in the environment of the step (a line
            each), None: that does not matter.
        told: the same of what the step says now.
        used: how many lines it explained.
    """

    reason: str
    cases: list[str]
    parts: list[str]
    gone: re.Pattern[str] | None
    new: re.Pattern[str] | None
    becomes: str = ""
    moved: re.Pattern[str] | None = None
    given: re.Pattern[str] | None = None
    told: re.Pattern[str] | None = None
    used: int = field(default=0, compare=False)

    def explains(self, found: Difference) -> tuple[list[str], list[str]]:
        """The lines of a difference that are not meant by this entry: those that go, those that come."""
        if not _matches(found.where, self.cases) or not _matches(found.part, self.parts):
            return found.gone, found.new
        for pattern, text in ((self.given, found.given), (self.told, found.told)):
            if pattern and not pattern.search(text):
                return found.gone, found.new
        if self.becomes and self.gone:
            gone, new = _turned(found.gone, found.new, self.gone, self.becomes)
        else:
            both = Counter(found.gone) & Counter(found.new) if self.moved else Counter[str]()
            gone = _left(found.gone, self.gone, self.moved, both.copy())
            new = _left(found.new, self.new, self.moved, both)
        self.used += len(found.gone) - len(gone) + len(found.new) - len(new)
        return gone, new


def _turned(gone: list[str], new: list[str], meant: re.Pattern[str], becomes: str) -> tuple[list[str], list[str]]:
    """The lines without those that go, for which the line comes that is to come."""
    rest = list(new)
    left = []
    for line in gone:
        match = meant.fullmatch(line)
        if match and match.expand(becomes) in rest:
            rest.remove(match.expand(becomes))
        else:
            left.append(line)
    return left, rest


def _left(
    lines: list[str], meant: re.Pattern[str] | None, moved: re.Pattern[str] | None, elsewhere: Counter[str]
) -> list[str]:
    """The lines that are not meant; `elsewhere` are those that stand on the other side as well."""
    found = []
    for line in lines:
        if moved and elsewhere[line] and moved.fullmatch(line):
            elsewhere[line] -= 1
        elif not (meant and meant.fullmatch(line)):
            found.append(line)
    return found


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def load(path: Path = DIFFERENCES) -> list[Entry]:
    """The entries of differences.toml. Raises ValueError, naming the entry, where one is not as it should be."""
    entries = []
    for number, table in enumerate(tomllib.loads(path.read_text()).get("difference", []), 1):
        if not _KEYS >= table.keys() >= {"cases", "parts", "reason"} or not table.keys() & {"gone", "new", "moved"}:
            raise ValueError(f"{path.name}, entry {number}: it has cases, parts, reason, and gone, new or moved")
        patterns = {name: re.compile(table[name]) for name in _PATTERNS if name in table}
        fixed = {name: table[name] for name in ("reason", "cases", "parts", "becomes") if name in table}
        entries.append(Entry(**{"gone": None, "new": None, **fixed, **patterns}))
    return entries


# --- parts as lines -------------------------------------------------------------------------------------------------


def lines(text: str) -> list[str]:
    """A part of a result as lines."""
    head, _, rest = text.partition("\n")
    for before, body in (([], text), ([head], rest)):  # the latter: mode and owner of a file stand above what is in it
        values = _values(body)
        if values is not None and _values(head) is None:
            return [*before, *values]
    found: list[str] = []
    for line in text.splitlines():
        found += _values(line) or [line]
    return found


def _values(text: str) -> list[str] | None:
    """The values of a text that is a JSON object or list, None for any other."""
    if not text.startswith(("{", "[")):
        return None
    try:
        value = json.loads(text, object_pairs_hook=_Members, parse_float=_Number, parse_int=_Number)
    except (ValueError, RecursionError):
        return None
    return list(_flat(value, ""))


class _Members(list[tuple[str, Any]]):
    """The members of an object, in order, duplicates kept."""


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _flat(value: Any, way: str) -> Iterator[str]:
    if isinstance(value, _Members) and value:
        for name, item in value:
            yield from _flat(item, f"{way}.{name}" if way else name)
    elif isinstance(value, list) and value and not isinstance(value, _Members):
        for item in value:
            if isinstance(item, _Members):
                yield f"{way}[]:"
            yield from _flat(item, f"{way}[]")
    elif isinstance(value, _Number):
        yield f"{way} = {value}"
    else:
        empty = "{}" if isinstance(value, _Members) else json.dumps(value, ensure_ascii=False)
        yield f"{way} = {empty}"


# --- differences ----------------------------------------------------------------------------------------------------


def differences(pinned: Json, made: Json, without: Iterable[str] = ()) -> Iterator[Difference]:
    """What is not the same in a case.

    Arguments:
        pinned: the case as it is stored.
        made: the case as a build makes it.
        without: parts that are not compared.
    """
    configs = [file["text"] for file in pinned.get("files", ()) if file["path"].endswith("/config.json")]
    environments = {step["name"]: step.get("env", []) for step in pinned.get("steps", ())}
    olds, news = _appended(pinned["made"]), _appended(made["made"])
    for step, before in olds.items():
        after = news[step]
        given = "\n".join([*configs, *environments.get(step, [])])
        told = "".join(after.get(part, "") for part in ("stderr", *_LOGS, "stdout"))
        for part in dict.fromkeys([*before, *after]):
            # what is stored may be older than a rule of pins.normal
            old, new = normal(part, before[part]) if part in before else None, after.get(part)
            if old != new and part not in without:
                yield Difference(f"{pinned['id']}#{step}", part, *_changed(old, new), given, told)


def _appended(made: Json) -> Json:
    """The steps, with what each of them appended to a log in place of the whole log."""
    found = {}
    known: dict[str, str] = {}
    for step, parts in made.items():
        grown = {part: text.removeprefix(known.get(part, "")) for part, text in parts.items() if part in _LOGS}
        known |= {part: parts[part] for part in grown}
        found[step] = {**parts, **grown}
    return found


def _changed(old: str | None, new: str | None) -> tuple[list[str], list[str]]:
    before = [] if old is None else lines(old) or ["(empty)"]
    after = [] if new is None else lines(new) or ["(empty)"]
    if before == after:
        assert old is not None
        assert new is not None
        return _bytes(old, new)
    gone: list[str] = []
    come: list[str] = []
    for _, first, last, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if before[first:last] != after[start:end]:
            gone += before[first:last]
            come += after[start:end]
    return gone, come


def _bytes(old: str, new: str) -> tuple[list[str], list[str]]:
    """The first place in which texts of the same values differ."""
    at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    cut = slice(max(at - 30, 0), at + 30)
    return [f"bytes: {old[cut]!r}"], [f"bytes: {new[cut]!r}"]


def explain(found: Iterable[Difference], entries: list[Entry]) -> list[Difference]:
    """The differences, or the lines of them, that no entry names; entries count what they explained."""
    left = []
    for one in found:
        rest = replace(one)
        for entry in entries:
            rest.gone, rest.new = entry.explains(rest)
        if rest.gone or rest.new:
            left.append(rest)
    return left


def report(left: list[Difference], entries: list[Entry], most: int = 4, groups: int = 60) -> list[str]:
    """What is wrong, in words: differences that no entry names, grouped, and entries that match nothing.

    Arguments:
        left: of explain().
        entries: all, after explain().
        most: cases that are named for one and the same difference.
        groups: differences that are told at length.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for one in left:
        body = "\n".join([*(f"    - {line}" for line in one.gone), *(f"    + {line}" for line in one.new)])
        alike.setdefault((one.part, body), []).append(one.where)
    told = []
    for (part, body), where in sorted(alike.items(), key=lambda group: -len(group[1])):
        names = ", ".join(where[:most]) + (f" and {len(where) - most} more" if len(where) > most else "")
        told.append(f"{part} of {names}\n{body}")
    if len(told) > groups:
        told[groups:] = [f"{len(told) - groups} more; PINS='case' shows those of one case"]
    told += [f"differences.toml names a difference that there is not: {one.reason}" for one in entries if not one.used]
    return told
