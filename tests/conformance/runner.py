"""The runner: finds vector files, runs each case by the module of its family, and counts.

A family is a module of this package with `run(case, tmpdir)`: the case with its tokens expanded, a directory for it;
None when the result is the expected one, the id of a deviation (a key of deviations.TABLE) when it is exactly what that
deviation says, else a text that says what differs.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.cdi import deviations

if TYPE_CHECKING:
    from collections.abc import Callable

    Case = dict[str, Any]
    Run = Callable[[Case, str], str | None]

_NAME_OPS = ("vendor", "class", "device", "qualified", "kind", "compose")
_FILE_OPS = ("spec_name", "transient_spec_name", "spec_name_for_kind", "transient_spec_name_for_kind")
_INTEL_WORDS = {"gpu", "npu", "gaudi", "--naming=classic", "--naming=machine"}
# Family -> how its cases are told from those of other families, by the members of their input.
FAMILIES: dict[str, Callable[[Case], bool]] = {
    "names": lambda given: given.get("op") in (*_NAME_OPS, *_FILE_OPS),
    "specs": lambda given: "text" in given or "text_b64" in given,
    "annotations": lambda given: given.get("op") in ("parse", "key", "value", "update"),
    "version": lambda given: given.get("op") in ("current", "known", "minimum", "check"),
    "inject": lambda given: "config" in given and "devices" in given,
    "cache": lambda given: "dirs" in given and "queries" in given,
    "generate-intel": lambda given: "tree" in given and {*given["argv"]} <= _INTEL_WORDS,
    "generate-amd": lambda given: "tree" in given and given["argv"][:1] in (["cdi"], ["gpu"], ["gpu-tracker"]),
    "generate-nvidia": lambda given: "root" in given and "argv" in given,
    "labels-nvidia": lambda given: "nvml" in given and "files" in given,
    "gate": lambda given: "grants" in given and ("request" in given or "raw" in given),
}
_NOBODY = 65534
_SHOWN = 5  # failed cases of a file that are told unless all are asked for


class Outcome:
    """What a vector file came to: how many cases passed, by which rules others deviated, and what failed."""

    def __init__(self) -> None:
        self.passed = 0
        self.deviations: Counter[str] = Counter()
        self.failed: list[tuple[str, str]] = []  # id of the case, and why

    def add(self, name: str, verdict: str | None) -> None:
        if verdict is None:
            self.passed += 1
        elif verdict in deviations.TABLE:
            self.deviations[verdict] += 1
        else:
            self.failed.append((name, verdict))

    def line(self) -> str:
        """For example `1021 passed, 0 failed, 12 deviations (null-item 8, hook-relative 4)`."""
        text = f"{self.passed} passed, {len(self.failed)} failed"
        return f"{text}, {_counted(self.deviations)}" if self.deviations else text


def _counted(found: Counter[str]) -> str:
    named = ", ".join(f"{name} {count}" for name, count in found.most_common())
    return f"{found.total()} deviations ({named})"


def run_directory(directory: Path, say: Callable[[str], object], *, verbose: bool = False) -> tuple[int, int]:
    """Run every vector file in a directory, say how it went line by line; how many cases passed and failed."""
    passed = failed = 0
    deviating: Counter[str] = Counter()
    for file in sorted(directory.glob("*.json")):
        cases = read_cases(file)
        family = family_of(file, cases)
        if family is None:
            say(f"{file.name}: unknown vector file, not run")
            continue
        outcome = run_cases(family, cases)
        say(f"{family if file.stem == family else file.name}: {outcome.line()}")
        shown = outcome.failed if verbose else outcome.failed[:_SHOWN]
        for name, why in shown:
            say(f"    {name}: {why}")
        if len(outcome.failed) > len(shown):
            say(f"    and {len(outcome.failed) - len(shown)} more; -v shows all")
        passed += outcome.passed
        failed += len(outcome.failed)
        deviating += outcome.deviations
    say(_counted(deviating) if deviating else "0 deviations")
    say(f"{passed} passed, {failed} failed")
    return passed, failed


def read_cases(file: Path) -> list[Case]:
    """The cases of a vector file; none when it is none."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return []
    cases = content.get("cases") if isinstance(content, dict) else content
    if not isinstance(cases, list):
        return []
    every = [_with_input(case) for case in cases if isinstance(case, dict) and "id" in case]
    with_input = [case for case in every if isinstance(case.get("input"), dict)]
    trees = {case["id"]: case["input"].get("tree") for case in with_input}
    for given in (case["input"] for case in with_input):
        if isinstance(given.get("tree"), dict) and set(given["tree"]) == {"same_as"}:
            given["tree"] = trees[given["tree"]["same_as"]]
    return with_input


def _with_input(case: Case) -> Case:
    """A case of a generator or of the gate has its input beside the result, not in a member of its own."""
    if "input" in case or not {"argv", "grants"} & set(case):
        return case
    given = {name: value for name, value in case.items() if name not in {"id", "expect"}}
    return {"id": case["id"], "input": given, "expect": case.get("expect")}


def family_of(file: Path, cases: list[Case]) -> str | None:
    """The family of a vector file: by its name, else by what all its cases ask; None when it is of no family."""
    if not cases:
        return None
    for family, asks in FAMILIES.items():
        if file.stem == family or all(asks(case["input"]) for case in cases):
            return family
    return None


def run_cases(family: str, cases: list[Case]) -> Outcome:
    """Run cases of one family."""
    run: Run = importlib.import_module("." + family.replace("-", "_"), __package__).run
    outcome = Outcome()
    for case in cases:
        outcome.add(case["id"], run_case(run, case))
    return outcome


def run_case(run: Run, case: Case) -> str | None:
    """Run one case in a directory of its own, as the user whom it asks for."""
    tokens = case["input"].get("expand")
    if tokens:
        case = {**case, "input": expanded(case["input"], tokens), "expect": expanded(case["expect"], tokens)}
    tmpdir = tempfile.mkdtemp(prefix="conformance-")
    try:
        # "root" asks for device nodes of its own; the scene fakes those that it cannot make.
        if "not-root" in case.get("requires", ()) and os.geteuid() == 0:
            os.chown(tmpdir, _NOBODY, _NOBODY)
            return _as_nobody(run, case, tmpdir)
        return _guarded(run, case, tmpdir)
    finally:
        _remove(tmpdir)


def _guarded(run: Run, case: Case, tmpdir: str) -> str | None:
    try:
        return run(case, tmpdir)
    except Exception:  # whatever a case raises is its result
        return traceback.format_exc()


def _as_nobody(run: Run, case: Case, tmpdir: str) -> str | None:
    """Run a case in a child that has given up root, and take its verdict from a pipe."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
            with os.fdopen(writer, "w", encoding="utf-8") as pipe:
                json.dump(_guarded(run, case, tmpdir), pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or not said:
        return f"the child that ran the case ended with status {status}"
    verdict: str | None = json.loads(said)
    return verdict


def _remove(tmpdir: str) -> None:
    """Remove a case's directory with what it made unreadable."""
    for place, directories, _ in os.walk(tmpdir):
        for name in directories:
            if not Path(place, name).is_symlink():
                Path(place, name).chmod(0o700)
    shutil.rmtree(tmpdir)


def expanded(value: Any, tokens: dict[str, dict[str, Any]]) -> Any:
    """A value with each token replaced by its unit repeated, in names and texts at any depth."""
    if isinstance(value, str):
        for token, repeat in tokens.items():
            if token in value:
                value = value.replace(token, repeat["unit"] * repeat["count"])
        return value
    if isinstance(value, list):
        return [expanded(item, tokens) for item in value]
    if isinstance(value, dict):
        return {
            expanded(name, tokens): item if name == "expand" else expanded(item, tokens) for name, item in value.items()
        }
    return value


def difference(got: object, expected: object) -> str | None:
    """None when two values are equal, else both."""
    return None if got == expected else f"got {_short(got)}, expected {_short(expected)}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, default=str)
    return text if len(text) < 2000 else f"{text[:2000]}…"
