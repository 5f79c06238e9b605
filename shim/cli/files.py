"""Files that commands read and write: OCI configs in, results out, never half of one."""

from __future__ import annotations

import difflib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from shim.cdi.findings import CdiError, Finding


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
        text = sys.stdin.read() if name == "-" else Path(path).read_text(encoding="utf-8")
        config = json.loads(text)
    except OSError as error:
        raise _error(path, f"it cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise _error(path, f"it is not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise _error(path, "it is not a JSON object")
    return path, config


def replace(name: str, text: str) -> None:
    """Write a file through a temporary one in the same directory, with the mode and owner of the one it replaces.

    Raises:
        CdiError: CONFIG_WRITE; an old file is still there.
    """
    path = Path(name).resolve()
    try:
        old = path.stat() if path.exists() else None
        fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fchmod(fd, old.st_mode & 0o7777 if old else 0o644)
                if old and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(fd, old.st_uid, old.st_gid)
                os.fsync(fd)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        text = f"it cannot be written: {error.strerror}"
        raise CdiError([Finding("CONFIG_WRITE", text, path=name)]) from None


def keep_copy(name: str) -> str:
    """Keep a file as it is under its name with .bak, in place of an older copy; the path of the copy.

    The copy is the old file itself, so it has owner and mode of that and cannot be easier to read.

    Raises:
        CdiError: CONFIG_WRITE.
    """
    path = Path(name).resolve()
    copy, temporary = path.with_name(f"{path.name}.bak"), path.with_name(f".{path.name}.bak-{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)
        temporary.hardlink_to(path)
        temporary.replace(copy)
        temporary.unlink(missing_ok=True)  # rename leaves it where both are the same file already
    except OSError as error:
        text = f"no copy of it can be kept: {error.strerror}"
        raise CdiError([Finding("CONFIG_WRITE", text, path=name)]) from None
    return str(copy)


def diff(before: str, after: str, old: str, new: str) -> str:
    """What changes between two texts, in unified form; "" when nothing does."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), old, new)
    return "".join(lines)


def _error(path: str, text: str) -> CdiError:
    return CdiError([Finding("CONFIG_JSON", text, path=path)])
