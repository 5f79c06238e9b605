"""The lines that a gate has written, read again: of a file, or of systemd's journal."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason

if TYPE_CHECKING:
    from collections.abc import Iterable


def of_file(path: str) -> list[dict[str, Any]]:
    """The entries of a file. Raises CdiError: GATE_LOG."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _entries(file)
    except OSError as error:
        raise CdiError([Finding("GATE_LOG", f"it cannot be read: {reason(error)}", path=path)]) from None


def of_journal(subject: str) -> list[dict[str, Any]]:
    """The entries of the service shim-gate@SUBJECT in systemd's journal. Raises CdiError: GATE_LOG."""
    words = ["journalctl", "--quiet", "--no-pager", "--output=cat", f"--unit=shim-gate@{subject}.service"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise CdiError([Finding("GATE_LOG", f"journalctl cannot be executed: {reason(error)}")]) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise CdiError([Finding("GATE_LOG", f"journalctl failed: {lines[-1]}")])
    return _entries(done.stdout.splitlines())


def _entries(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The decisions among lines; what else a service prints is left out, and so is a line that was cut off."""
    entries: list[dict[str, Any]] = []
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and {"time", "decision", "reason"} <= entry.keys():
            entries.append(entry)
    return entries
