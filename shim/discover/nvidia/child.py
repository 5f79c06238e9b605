"""Asks a library of the driver in a child process: it may hang, crash, or be loaded only once in a process.

The child is a program of ours, started without `site`, that writes JSON. It has a session of its own, since signals of
the terminal are for us, and is killed at a limit. The kernel may hold a killed process for as long as a device hangs;
that end is not awaited.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_REAPED = 1  # seconds for a killed child to end


def ask(program: Path, arguments: tuple[str, ...], limit: float) -> dict[str, Any] | str:
    """What a program of ours answers.

    Arguments:
        program: its file, beside this one.
        arguments: after the program's name.
        limit: seconds after which it is killed.
    Returns:
        the object that it wrote, or a clause about why there is none.
    """
    argv = [sys.executable, "-I", "-S", "-B", str(program), *arguments]
    child = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        cwd="/", env={"PATH": "/usr/bin:/bin"}, start_new_session=True,
    )  # fmt: skip
    try:
        written, _ = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return f"no answer within {limit:g} s"
    finally:
        _end(child)
    if child.returncode < 0:
        return f"it crashed ({signal.Signals(-child.returncode).name})"
    try:
        answers: dict[str, Any] = json.loads(written)
    except ValueError:
        return f"the process that asks it ended with status {child.returncode} and no answer"
    return answers


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    if child.stdout is not None:
        child.stdout.close()
    try:
        child.wait(_REAPED)
    except subprocess.TimeoutExpired:
        pass
