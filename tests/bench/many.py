"""Creates at once: how many of them in a second, and that none gets a wrong answer while a spec is rewritten.

The spec alternates between two contents, each with a variable, a mount and a node of its own. A create must give its
container all of one of them: never parts of both, never what neither has, and never a failure.
"""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
from pathlib import Path
from typing import Any

from bench import specs
from bench.clock import SHIM
from bench.creates import make_bundle

AT_ONCE = (1, 8, 32)
CREATES = 96  # of each measurement
KIND = "bench.example/changing"


def _spec(version: str) -> str:
    """One of the two contents of the spec."""
    edits = {
        "env": [f"CHANGING={version}"],
        "mounts": [{"hostPath": specs.LIBRARIES, "containerPath": f"/opt/{version}", "options": ["ro", "rbind"]}],
        "deviceNodes": [{"path": f"/dev/changing-{version}", "hostPath": "/dev/null"}],
    }
    devices = [{"name": f"d{number}", "containerEdits": edits} for number in range(40)]
    return json.dumps({"cdiVersion": "0.5.0", "kind": KIND, "devices": devices})


class Rewriter(threading.Thread):
    """Replaces the spec again and again until `stop` is set."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self.stop = threading.Event()
        self.times = 0

    def run(self) -> None:
        while not self.stop.is_set():
            spare = self._file.with_name("spare")
            spare.write_text(_spec("ab"[self.times % 2]))
            spare.replace(self._file)
            self.times += 1
            self.stop.wait(0.02)


def check(config: dict[str, Any], device: str) -> str:
    """What a create made of it: "a" or "b". Ends the program where it is anything else."""
    variables = [entry for entry in config["process"]["env"] if entry.startswith("CHANGING=")]
    mounts = [mount["destination"] for mount in config["mounts"] if mount["destination"].startswith("/opt/")]
    nodes = [node["path"] for node in config["linux"].get("devices", [])]
    for version in "ab":
        if (variables, mounts, nodes) == ([f"CHANGING={version}"], [f"/opt/{version}"], [f"/dev/changing-{version}"]):
            return version
    raise SystemExit(f"a wrong answer for {device}: {variables}, {mounts}, {nodes}")


def _start(bundle: Path, number: int) -> int:
    command = [SHIM, "--root", "/run/x", "create", "--bundle", str(bundle), f"many{number}"]
    return os.posix_spawn(SHIM, command, os.environ)


def measure(directory: Path, at_once: int, rounds: int) -> list[float]:
    """Seconds of one create, so many running at once: the time of all divided by their number, for each round."""
    bundles = [Path(make_bundle(directory, f"many{at_once}-{number}", f"{KIND}=d{number}")) for number in range(40)]
    originals = [(bundle / "config.json").read_bytes() for bundle in bundles]
    taken: list[float] = []
    seen: set[str] = set()
    for _ in range(rounds):
        start = time.perf_counter()
        running: dict[int, int] = {}
        free = list(range(len(bundles)))
        for _ in range(CREATES):
            if len(running) == at_once:
                free.append(_finish(running, bundles, seen))
            number = free.pop(0)
            (bundles[number] / "config.json").write_bytes(originals[number])
            running[_start(bundles[number], number)] = number
        while running:
            _finish(running, bundles, seen)
        taken.append((time.perf_counter() - start) / CREATES)
    if seen != {"a", "b"}:
        raise SystemExit(f"only the content {seen} of the spec was ever served: it was not rewritten meanwhile")
    return taken


def _finish(running: dict[int, int], bundles: list[Path], seen: set[str]) -> int:
    """Wait for one create and check its bundle; the bundle's number."""
    child, status = os.waitpid(-1, 0)
    number = running.pop(child)
    if status:
        raise SystemExit(f"a create for d{number} failed: status {status}")
    seen.add(check(json.loads((bundles[number] / "config.json").read_bytes()), f"d{number}"))
    return number


def many(directory: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds of one create by how many run at once; prints creates a second, and how often the spec was replaced."""
    file = Path("/etc/cdi/changing.json")
    file.parent.mkdir(exist_ok=True)
    file.write_text(_spec("a"))
    Path(specs.LIBRARIES).mkdir(exist_ok=True)
    taken = {}
    rewriter = Rewriter(file)
    rewriter.start()
    try:
        for at_once in AT_ONCE:
            taken[f"creates, {at_once} at once"] = measure(directory, at_once, rounds)
    finally:
        rewriter.stop.set()
        rewriter.join()
    for name, times in taken.items():
        print(f"{name:46} {1 / statistics.median(times):7.0f} a second, each a right answer")
    print(f"the spec was replaced {rewriter.times} times meanwhile")
    return taken
