"""Cases of cache.json: what a list of spec directories serves.

Where the reference does what we do not want, the result is compared with `by_our_rule`, a second and simpler writing of
our rule, and counts as a deviation only when both agree and the cause is there.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.base.paths import clean
from shim.cdi import deviations, directories, spec

from .scene import FATAL, difference, placed, pruned, scene

if TYPE_CHECKING:
    from shim.base.findings import Finding


def run(case: dict[str, Any], tmpdir: str) -> str | None:
    """None: as expected. Else the id of a deviation, or what differs."""
    given, expected = case["input"], placed(case["expect"], tmpdir)
    dirs = placed(given["dirs"], tmpdir)
    with scene(given["entries"], tmpdir):
        found = directories.read(dirs)
        queries = sorted({*placed(given["queries"], tmpdir), *expected.get("get", ())})
        got, rule = describe(found, queries), by_our_rule(dirs, queries)
    if "error" in expected:
        refused = [one for findings in found.findings.values() for one in findings]
        wrong = difference(got, rule) or (None if refused else "the file is not refused")
        return wrong or FATAL[expected["error"]]
    unwatched = {path for path, state in found.searched if state == directories.OK} & set(expected["watch_dir_errors"])
    if unwatched:
        return f"searched: {sorted(unwatched)} should have a hindrance"
    wrong = _compare(got, expected)
    if wrong and difference(got, rule) is None:
        return _cause(found, expected) or wrong
    return wrong


def _compare(got: dict[str, Any], expected: dict[str, Any]) -> str | None:
    wanted = {member: expected[member] for member in got}
    wanted["errors"] = {
        path: sorted(((e["error"], e.get("device"), e.get("with")) for e in errors), key=str)
        for path, errors in expected["errors"].items()
    }
    wanted["get"] = pruned(wanted["get"])
    return difference({**got, "get": pruned(got["get"])}, wanted)


def _cause(found: directories.Directories, expected: dict[str, Any]) -> str | None:
    """The deviation that explains why the result is another one; None when none does."""
    states = [state for _, state in found.searched]
    broken = [place for place, state in enumerate(states) if state not in (directories.OK, directories.MISSING)]
    if broken and directories.OK in states[broken[0] :]:
        return "unlistable-directory"
    rules = {each[0].rule for path, each in found.findings.items() if path not in expected["errors"]}
    if len(rules) == 1 and rules <= deviations.TABLE.keys():
        return str(rules.pop())
    more = set(found.devices()) - set(expected["devices"])
    if more and more <= set(found.conflicts) and set(expected["devices"]) <= set(found.devices()):
        return "conflict-below"
    return None


def describe(found: directories.Directories, queries: list[str]) -> dict[str, Any]:
    """The directories in the form of `expect`, errors as (class, device, other file)."""
    rivals = {name: _by_directory(paths) for name, paths in found.conflicts.items()}
    errors: dict[str, list[tuple[str, str | None, str | None]]] = {}
    for path, findings in found.findings.items():
        if findings[0].id == "SPEC_CONFLICT":
            errors[path] = sorted((_error(one, rivals) for one in findings), key=str)
        elif findings[0].id != "SPEC_DIR_UNREADABLE":  # the reference records files only
            # We tell every fault of a file, the reference the first; a directory given twice is read twice.
            errors[path] = [(findings[0].rule, None, None)] * found.dirs.count(str(Path(path).parent))
    return {
        "vendors": found.vendors(),
        "classes": found.classes(),
        "devices": found.devices(),
        "errors": errors,
        "specs": _specs(found.specs, Counter({path: len(each) for path, each in errors.items()})),
        "get": {name: _served(found.get(name)) for name in queries},
    }


def _error(finding: Finding, rivals: dict[str, list[list[str]]]) -> tuple[str, str | None, str | None]:
    for name, groups in rivals.items():
        for group in groups:
            for other in group:
                if f"device {name} " in finding.text and other != finding.path and f" {other}," in finding.text:
                    return finding.rule, name, other
    return finding.rule, None, finding.text


def _by_directory(paths: list[str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(str(Path(path).parent), []).append(path)
    return list(groups.values())


def _specs(specs: list[spec.Spec], errors: Counter[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in specs:
        described = {"path": one.path, "priority": one.priority, "class": one.klass, "errors": errors[one.path]}
        found.setdefault(one.vendor, []).append(described)
    return found


def _served(found: tuple[spec.Spec, str] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    one, device = found
    return {"path": one.path, "priority": one.priority, "edits": one.devices[device]}


def by_our_rule(dirs: list[str], queries: list[str]) -> dict[str, Any]:
    """Our rule, written a second time: the highest directory that names a device decides, if one file there does."""
    specs: list[spec.Spec] = []
    errors: dict[str, list[tuple[str, str | None, str | None]]] = {}
    definers: dict[str, dict[int, list[tuple[spec.Spec, str]]]] = {}
    for priority, directory in enumerate(dirs):
        try:
            files = sorted(Path(directory).iterdir(), key=bytes)
        except OSError:
            continue
        for file in files:
            if file.suffix not in (".json", ".yaml") and file.name not in (".json", ".yaml"):
                continue
            if _is_directory(file):
                continue
            path = f"{clean(directory)}/{file.name}"
            try:
                one = spec.read(path, priority)
            except spec.SpecError as error:
                errors.setdefault(path, []).append((error.findings[0].rule, None, None))
                continue
            specs.append(one)
            for device in one.devices:
                definers.setdefault(f"{one.kind}={device}", {}).setdefault(priority, []).append((one, device))
    served = {}
    for name, levels in definers.items():
        for level in levels.values():
            first = level[0][0].path
            for one, _ in level[1:]:
                errors.setdefault(first, []).append(("conflict", name, one.path))
                errors.setdefault(one.path, []).append(("conflict", name, first))
        top = levels[max(levels)]
        if len(top) == 1:
            served[name] = top[0]
    counts = Counter({path: len(each) for path, each in errors.items()})
    return {
        "vendors": sorted({one.vendor for one in specs}),
        "classes": sorted({one.klass for one in specs}),
        "devices": sorted(served),
        "errors": {path: sorted(each, key=str) for path, each in errors.items()},
        "specs": _specs(specs, counts),
        "get": {name: _served(served.get(name)) for name in queries},
    }


def _is_directory(file: Path) -> bool:
    try:
        return file.is_dir() and not file.is_symlink()
    except OSError:
        return False
