"""Runs cases on machines: one for each processor, each with a part of the cases, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .normal import normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Json = dict[str, Any]
HERE = Path(__file__).parent
_NAMESPACES = ("--mount", "--pid", "--net", "--ipc", "--uts")
_RECORDS = ("/run/shim/c/", "/run/user/shim/c/")


class BrokenError(Exception):
    """The machine or a case of ours is wrong, not the build."""


def run(lines: Iterable[Json], venv: Path, machines: int | None = None) -> Iterator[Json]:
    """Run cases.

    Arguments:
        lines: worlds and cases, as they are stored (pins.store); a member `made` is not looked at.
        venv: the virtual environment with the build.
        machines: how many at once; one for each processor when not given.
    Yields:
        for each line a dictionary: the world as it was, a case with `made`, by step: part -> text. In the order given.
    Raises:
        BrokenError: the machine cannot be made, or a case cannot be run.
    """
    if os.geteuid() != 0:
        raise BrokenError("cases run in namespaces of their own: please become root")
    given = list(lines)
    shares = _shares(given, machines or os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="pins-") as directory:
        recorder = Path(directory, "recorder")
        subprocess.run(["cc", "-static", "-O1", "-o", str(recorder), str(HERE / "recorder.c")], check=True)
        answers: dict[str, Json] = {}
        threads = [
            threading.Thread(
                target=_serve, args=(share, venv.resolve(), recorder, Path(directory, str(number)), answers)
            )
            for number, share in enumerate(shares)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for line in given:
        if "world" in line:
            yield line
            continue
        answer = answers.get(line["id"], {"error": "the machine ended early; its messages stand above"})
        if "error" in answer:
            raise BrokenError(f"{line['id']}: {answer['error']}")
        made = {step["name"]: _parts(step, one) for step, one in zip(line["steps"], answer["made"], strict=True)}
        yield {**line, "made": made}


def _shares(lines: list[Json], count: int) -> list[list[Json]]:
    """The lines in about equal parts: a world stays together with its cases, those of the empty world do not."""
    groups: list[list[Json]] = []
    for line in lines:
        if "world" in line:
            groups.append([line])
        elif not groups or (not groups[-1][0].get("world") and len(groups[-1]) > 8):
            groups.append([{"world": []}, line])
        else:
            groups[-1].append(line)
    shares: list[list[Json]] = [[] for _ in range(count)]
    for group in sorted(groups, key=len, reverse=True):
        min(shares, key=len).extend(group)
    return [share for share in shares if share]


def _serve(lines: list[Json], venv: Path, recorder: Path, root: Path, answers: dict[str, Json]) -> None:
    root.mkdir()
    script = [str(HERE / "machine.sh"), str(root), str(venv), str(recorder), str(HERE / "machine.py")]
    command = [_program("unshare"), *_NAMESPACES, "--fork", "--kill-child=KILL", "--", "/bin/sh", *script]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", env={}
    ) as process:
        assert process.stdin
        assert process.stdout
        for line in lines:
            asked = {name: line[name] for name in ("world", "id", "files", "steps") if name in line}
            try:
                process.stdin.write(json.dumps(asked) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                return
            if "world" not in asked:
                answer = process.stdout.readline()
                if not answer:
                    return
                answers[asked["id"]] = json.loads(answer)


def _program(name: str) -> str:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if not found:
        raise BrokenError(f"there is no {name} here")
    return found


def _parts(step: Json, made: Json) -> dict[str, str]:
    """What came of a step as part -> text without what differs from run to run."""
    parts = {name: text for name, text in made.items() if name != "files"}
    for path, text in made["files"].items():
        name = _part(step, path)
        key = f"{path.rpartition('/')[2]} " if name == "record" else ""
        parts[f"file:{path}" if name in parts else name] = key + text
    return {name: normal(name, text) for name, text in parts.items()}


def _part(step: Json, path: str) -> str:
    """What a changed file is called, so that differences.toml can name it: by what it is, others by their path."""
    if path.endswith("/config.json"):
        return "config"
    if path == "/var/log/shim.log":
        return "log"
    if path.startswith(_RECORDS):
        return "record"
    logs = (word.removeprefix("file:") for option, word in pairwise(step["argv"]) if option == "--log")
    return "runtime-log" if path in logs else f"file:{path}"
