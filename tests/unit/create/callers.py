"""Who calls, for tests: configs as the engines write them, and a process that stands for conmon."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TRACES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data/engine-traces.json").read_text())
ID = "4f6c0c2b7d1e" * 5 + "abcd"  # of a container
SANDBOX = "9b1f"  # of its pod


def recorded(engine: str, version: str, step: str) -> dict[str, Any]:
    """The annotations of a recorded create, without those by which the recording asked for something.

    Arguments:
        engine, version, step: beginnings of what the trace says.
    """
    for trace in TRACES:
        is_it = trace["engine"] == engine and trace["version"].startswith(version) and trace["step"].startswith(step)
        if is_it and trace["subcommand"] in {"create", "run"} and trace.get("bundle"):
            given = trace["bundle"]["annotations"] or {}
            return {key: value for key, value in given.items() if not key.startswith(("cdi.k8s.io/", "standin.test/"))}
    raise AssertionError(f"no such trace: {engine} {version} {step}")


@contextmanager
def conmon(*words: str) -> Iterator[int]:
    """A process with such a command line; its pid. It ends with the context."""
    # sh reads a line that never comes; the words behind its script are its arguments, as in conmon's command line
    with subprocess.Popen(
        ["conmon", "-c", "read line", *words], executable="/bin/sh", stdin=subprocess.PIPE
    ) as process:
        try:
            while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"conmon\0"):
                pass  # the kernel sets it after the exec that Popen waits for
            yield process.pid
        finally:
            process.kill()
