"""Cases of inject.json: names are resolved, and their edits put into a config.json."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.cdi import deviations, directories, edits, plan, spec, unresolved

from .scene import FATAL, difference, host, placed, pruned, scene

if TYPE_CHECKING:
    from shim.host.nodes import Lookup


def run(case: dict[str, Any], tmpdir: str) -> str | None:
    """None: as expected. Else the id of a deviation, or what differs."""
    given, expected = placed({**case["input"], "entries": []}, tmpdir), placed(case["expect"], tmpdir)
    facts = expected.pop("host", {})
    with scene(case["input"]["entries"], tmpdir) as missing:
        lookup = host(facts, missing)
        got = outcome(given, lookup)
        wrong = _compare(got, expected)
        if wrong is None:
            return None
        return _deviation(got, expected, given, lookup) or wrong


def outcome(given: dict[str, Any], lookup: Lookup) -> dict[str, Any]:
    """What we make of the case, in the form of `expect`."""
    before = copy.deepcopy(given["config"])
    try:
        made = plan.make(given["devices"], directories.read(given["dirs"]), lookup=lookup)
        result: dict[str, Any] = {"config": edits.apply(made, given["config"])}
    except plan.UnresolvedError as error:
        result = {"unresolved": error.names}
    except plan.NodeError as error:
        result = {"error": error.findings[0].rule, "node": error.node}
    changed = difference(given["config"], before)
    return {"changed": changed} if changed else result


def _compare(got: dict[str, Any], expected: dict[str, Any]) -> str | None:
    if "config" in got and "config" in expected:
        return difference(typed(got["config"]), typed(expected["config"]), "config")
    return difference(got, expected)


def typed(config: dict[str, Any]) -> dict[str, Any]:
    """The config as the reference's types write it: a process section always has a user and a directory."""
    full = copy.deepcopy(config)
    if full.get("process") is not None:
        process = full["process"]
        process["user"] = {"uid": 0, "gid": 0, **(process.get("user") or {})}
        process.setdefault("cwd", "")
    result = pruned(full)
    assert isinstance(result, dict)
    return result


def _deviation(got: dict[str, Any], expected: dict[str, Any], given: dict[str, Any], lookup: Lookup) -> str | None:
    """The deviation that gives exactly our result; None when none does."""
    if "config" in expected:
        if _compare(got, {"config": _without_empty_rules(expected["config"])}) is None:
            return "permissions-none"
        negative = [node for node in expected["config"]["linux"].get("devices", ()) if min(_numbers(node)) < 0]
        if negative and got == {"error": "node-negative-number", "node": negative[0]["path"]}:
            return "node-negative-number"
        if "unresolved" in got:
            return _refused(got["unresolved"], given)
    found = directories.read(given["dirs"])
    if "unresolved" in expected and "config" in got:
        listed = [path for path, state in found.searched if state in (directories.OK, directories.MISSING)]
        if listed != found.dirs:
            return "unlistable-directory" if outcome({**given, "dirs": listed}, lookup) == got else None
        disputed = [path for name in expected["unresolved"] for path in found.conflicts.get(name, ())]
        return "conflict-below" if disputed and _same_without(disputed, got, given, lookup) else None
    if expected.get("error") in FATAL:
        refused = [finding.path for finding in unresolved.refused(found.findings)]
        return FATAL[expected["error"]] if refused and _same_without(refused, got, given, lookup) else None
    return None


def _same_without(paths: list[str], got: dict[str, Any], given: dict[str, Any], lookup: Lookup) -> bool:
    """Whether the result is the same when these files are not there."""
    for path in set(paths):
        Path(path).unlink()
    return outcome(given, lookup) == got


def _refused(unresolved: list[str], given: dict[str, Any]) -> str | None:
    """The deviation that alone made us refuse the files which define these names."""
    rules, names = set(), set()
    for path, findings in directories.read(given["dirs"]).findings.items():
        document, _ = spec.examine(Path(path).read_bytes())
        rules |= {finding.rule for finding in findings}
        names |= {f"{document['kind']}={device['name']}" for device in document["devices"]}
    if len(rules) == 1 and rules <= deviations.TABLE.keys() and names.issuperset(unresolved):
        return str(rules.pop())
    return None


def _numbers(node: dict[str, Any]) -> tuple[int, int]:
    return node.get("major", 0), node.get("minor", 0)


def _without_empty_rules(config: dict[str, Any]) -> dict[str, Any]:
    """The config without cgroup rules that allow nothing."""
    changed = copy.deepcopy(config)
    resources = changed.get("linux", {}).get("resources", {})
    if "devices" in resources:
        resources["devices"] = [rule for rule in resources["devices"] if not rule["allow"] or rule.get("access")]
    return changed
