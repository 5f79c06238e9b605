#!/usr/bin/env python3
"""Compare any program that reads or injects CDI specs with the answers of the reference: run.py [OPTIONS] -- COMMAND...

The command is started for each case, with the case as a JSON object on standard input, and prints its answer as a JSON
object; README.md has the form of both. Only the standard library is needed. The cases lie in vectors/, a file for each
family; a case is in a directory of its own, which is removed afterwards.

An answer may have fewer members than the expectation, but those of REQUIRED; a member that it has is compared.
"""

from __future__ import annotations

import argparse
import base64
import copy
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FAMILIES = ("names", "version", "annotations", "specs", "cache", "inject")
REQUIRED = {"specs": {"accepted"}, "cache": {"devices"}, "inject": {"config"}}  # of other families all
TOKEN = "{DIR}"  # noqa: S105 - the word of the vectors for the directory of a case
SECONDS = 20
NOBODY = 65534
EQUAL, DIFFERS, DOUBTFUL, UNSUPPORTED, NOT_RUN = "equal", "differs", "doubtful", "unsupported", "not run"


class NotRunError(Exception):
    """A case that cannot be made on this machine."""


# --- the scene of a case ----------------------------------------------------------------------------------------------


def replaced(value: Any, old: str, new: str) -> Any:
    """A value with a text replaced in all its texts and names."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [replaced(item, old, new) for item in value]
    if isinstance(value, dict):
        return {replaced(key, old, new): replaced(item, old, new) for key, item in value.items()}
    return value


def make_entry(path: Path, entry: dict[str, Any]) -> None:
    """Make a file, link, pipe, socket or node of a case, without its mode."""
    kind = entry.get("type", "file")
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "file" and "content_b64" in entry:
        path.write_bytes(base64.b64decode(entry["content_b64"]))
    elif kind == "file":
        path.write_text(entry.get("content", ""), encoding="utf-8")
    elif kind == "dir":
        path.mkdir(exist_ok=True)
    elif kind == "symlink":
        path.symlink_to(entry["target"])
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        types = {"socket": stat.S_IFSOCK, "char": stat.S_IFCHR, "block": stat.S_IFBLK}
        try:
            os.mknod(path, types[kind] | 0o600, os.makedev(entry.get("major", 0), entry.get("minor", 0)))
        except PermissionError:
            raise NotRunError("it needs root, for a device node") from None


def make_scene(entries: list[dict[str, Any]], directory: Path) -> None:
    """Make all entries, then set their modes, inner ones first."""
    for entry in entries:
        make_entry(directory / entry["path"], entry)
    for entry in reversed(entries):
        if "mode" in entry:
            (directory / entry["path"]).chmod(int(entry["mode"], 8))


def check_host(facts: dict[str, dict[str, Any]]) -> None:
    """Raise NotRunError where this machine's device nodes are not those on which the expectation depends."""
    for path, fact in facts.items():
        try:
            status = Path(path).lstat()
        except OSError:
            status = None
        same = (status is not None) == fact["exists"]
        if status is not None and same and fact["type"] in ("b", "c"):
            numbers = (os.major(status.st_rdev), os.minor(status.st_rdev))
            kind = "c" if stat.S_ISCHR(status.st_mode) else "b" if stat.S_ISBLK(status.st_mode) else ""
            same = (kind, *numbers) == (fact["type"], fact.get("major", 0), fact.get("minor", 0))
        if not same:
            raise NotRunError(f"{path} is another node here")


# --- what is compared -------------------------------------------------------------------------------------------------


def pruned(value: Any) -> Any:
    """A value without members that are null, an empty list or an empty map: Go's types leave them out."""
    if isinstance(value, dict):
        members = {key: pruned(item) for key, item in value.items()}
        return {key: item for key, item in members.items() if item is not None and item not in ({}, [])}
    if isinstance(value, list):
        return [pruned(item) for item in value]
    return value


def normal(family: str, member: str, value: Any) -> Any:
    """A member in the form in which it is compared."""
    if family == "inject" and member == "config":
        value = copy.deepcopy(value)
        if value.get("process") is not None:
            process = value["process"]
            process["user"] = {"uid": 0, "gid": 0, **(process.get("user") or {})}
            process.setdefault("cwd", "")
    if member in ("unresolved", "errors"):
        return sorted(value)  # of errors the files
    return pruned(value)


def differences(family: str, got: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """The members in which an answer is not the expected one."""
    refused = {"error", "unresolved"} & set(expected)
    if family == "inject" and refused:
        return [] if {"error", "unresolved"} & set(got) and "config" not in got else ["config"]
    needed = REQUIRED.get(family, set(expected) - {"error", "needs"}) & set(expected)
    wrong = sorted(needed - set(got))
    if "error" in expected and not ({"error", "accepted", "valid"} & set(got)):
        wrong.append("error")
    for member in sorted(set(got) & set(expected) - {"error"}):  # the texts of errors are everyone's own
        if normal(family, member, got[member]) != normal(family, member, expected[member]):
            wrong.append(member)
    if "error" in got and "error" not in expected:
        wrong.append("error")
    return wrong


# --- cases ------------------------------------------------------------------------------------------------------------


def answer_of(command: list[str], question: dict[str, Any], *, as_nobody: bool) -> dict[str, Any]:
    """What the command prints; {"error": …} when it ends otherwise than with status 0 and an object."""
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if as_nobody and os.geteuid() == 0 else {}
    try:
        done = subprocess.run(  # type: ignore[call-overload]  # a dictionary of options is not typed
            command,
            input=json.dumps(question),
            text=True,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            **who,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer after {SECONDS} s"}
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if done.returncode or not isinstance(answer, dict):
        last = (done.stderr.strip().splitlines() or ["nothing on standard error"])[-1]
        return {"failed": f"status {done.returncode}, no JSON object: {last}"}
    return answer


def run_case(family: str, case: dict[str, Any], command: list[str]) -> dict[str, str]:
    """Run a case: its id, the outcome, and why."""
    directory = Path(tempfile.mkdtemp(prefix="cdi-conformance-"))
    as_nobody = "not-root" in case.get("requires", ())
    try:
        given, expected = (
            replaced(case["input"], TOKEN, str(directory)),
            replaced(case["expect"], TOKEN, str(directory)),
        )
        for token, repeat in given.pop("expand", {}).items():
            long = repeat["unit"] * repeat["count"]
            given, expected = replaced(given, token, long), replaced(expected, token, long)
        if expected.get("error") in ("crash", "hang"):
            raise NotRunError(f"the reference has no answer, but a {expected['error']}")
        if as_nobody and os.geteuid() == 0:
            os.chown(directory, NOBODY, NOBODY)
        if family == "cache":
            given["queries"] = sorted({*given["queries"], *expected.get("get", ())})
        make_scene(given.pop("entries", []), directory)
        check_host(expected.pop("host", {}))
        got = answer_of(command, {"family": family, "id": case["id"], "input": given}, as_nobody=as_nobody)
        if got.get("unsupported"):
            return {"id": case["id"], "outcome": UNSUPPORTED, "why": ""}
        wrong = [got["failed"]] if "failed" in got else differences(family, got, expected)
    except NotRunError as error:
        return {"id": case["id"], "outcome": NOT_RUN, "why": str(error)}
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", directory], check=False, capture_output=True)
        shutil.rmtree(directory)
    outcome = EQUAL if not wrong else DOUBTFUL if "doubt" in case else DIFFERS
    return {"id": case["id"], "outcome": outcome, "why": ", ".join(wrong)}


def run_family(family: str, vectors: Path, command: list[str], jobs: int) -> list[dict[str, str]]:
    """Run all cases of a file of vectors."""
    cases = json.loads((vectors / f"{family}.json").read_text(encoding="utf-8"))["cases"]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda case: run_case(family, case, command), cases))


def main(arguments: list[str]) -> int:
    """Exit status 0: no case differs but doubtful ones; 1: some do; 2: wrong usage."""
    parser = argparse.ArgumentParser(
        description="Compare a program that reads or injects CDI specs with the answers of the reference.",
        epilog="Example: ./run.py --family inject -- ./my-injector --stdin",
    )
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only these cases; may be repeated")
    parser.add_argument(
        "--vectors", type=Path, default=HERE / "vectors", metavar="DIR", help="another directory of cases"
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="write the outcome of each case as JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="cases at once")
    parser.add_argument("-v", "--verbose", action="store_true", help="list every case that differs or was not run")
    parser.add_argument("command", nargs="+", help="the program to test, with its arguments")
    given = parser.parse_args(arguments)
    results, total = {}, Counter[str]()
    for family in given.family or FAMILIES:
        results[family] = run_family(family, given.vectors, given.command, given.jobs)
        counts = Counter(result["outcome"] for result in results[family])
        print(f"{family}: " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in sorted(counts)))
        for result in results[family]:
            if given.verbose and result["outcome"] not in (EQUAL, UNSUPPORTED):
                print(f"    {result['id']}: {result['outcome']}: {result['why']}")
        total += counts
    print("all: " + ", ".join(f"{total[outcome]} {outcome}" for outcome in sorted(total)))
    if given.results:
        given.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if total[DIFFERS] or not total[EQUAL] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
