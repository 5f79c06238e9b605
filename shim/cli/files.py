"""Files of commands: reads OCI configs, and writes results whole or not at all."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import Any

from shim.base import fastjson, files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason


def read_config(name: str) -> tuple[str, dict[str, Any]]:
    """Read an OCI config.

    Arguments:
        name: a file, a bundle directory, or "-" for standard input.
    Returns:
        the path of the file ("-" for standard input) and the decoded config.
    Raises:
        CdiError: CONFIG_JSON.
    """
    path = str(Path(name) / "config.json") if name != "-" and Path(name).is_dir() else name
    try:
        data = sys.stdin.buffer.read() if name == "-" else files.read(path)
        config, replaced = fastjson.loads_noting(data.decode("utf-8"))
        if replaced:
            raise ValueError(f"the name {replaced[0][0]!r} stands twice in one object")
    except OSError as error:
        raise _error(path, f"it cannot be read: {reason(error)}", remedies.to_read(error)) from None
    except ValueError as error:
        raise _error(path, f"it is not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise _error(path, "it is not a JSON object")
    return path, config


def replace(name: str, text: str) -> None:
    """Write a file through a temporary file in the same directory, with mode and owner of the file that it replaces.

    Raises:
        CdiError: CONFIG_WRITE; the old file is unchanged.
    """
    try:
        files.write(name, text.encode("utf-8"))
    except (OSError, ValueError) as error:
        raise _refused(name, "it cannot be written", error) from None


def keep_copy(name: str) -> str:
    """Keep a file as it is under its name with .bak, instead of an older copy; the path of the copy.

    The copy is a hard link to the old file, so it has the same owner and mode.

    Raises:
        CdiError: CONFIG_WRITE.
    """
    path = Path(name).resolve()
    copy, temporary = path.with_name(f"{path.name}.bak"), path.with_name(f".{path.name}.bak-{os.getpid()}")
    try:
        files.status(name)
        temporary.unlink(missing_ok=True)
        temporary.hardlink_to(path)
        temporary.replace(copy)
        temporary.unlink(missing_ok=True)  # rename does nothing when both are links to the same file
    except (OSError, ValueError) as error:
        raise _refused(name, "no copy of it can be kept", error) from None
    return str(copy)


def diff(before: str, after: str, old: str, new: str) -> str:
    """The difference of two texts, as a unified diff; "" when they are equal."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _error(path: str, text: str, remedy: str = "") -> CdiError:
    return CdiError([Finding("CONFIG_JSON", text, remedy, path=path)])


def _refused(path: str, what: str, error: OSError | ValueError) -> CdiError:
    if str(error) == files.NOT_REGULAR:
        return CdiError([Finding("CONFIG_WRITE", str(error), path=path)])
    return CdiError([Finding("CONFIG_WRITE", f"{what}: {reason(error)}", remedies.to_write(error), path=path)])
