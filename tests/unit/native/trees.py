"""Root directories for the tests of what works below a container's root."""

from __future__ import annotations

import os
import platform
from pathlib import Path

Entry = bytes | str | None  # a file's bytes, a link's target after "-> ", None for a directory

CONF = "include /etc/ld.so.conf.d/*.conf\n"
USR = f"usr/lib/{platform.machine()}-linux-gnu"  # where libraries of this architecture lie in Debian


def build(root: Path, entries: dict[str, Entry]) -> Path:
    """Make a root with these entries, in this order, so that two copies list their directories alike.

    Arguments:
        root: the directory to make.
        entries: path in the root -> contents; text that begins with "-> " is a link, None a directory.
    """
    root.mkdir(parents=True)
    for name, what in {"etc": None, **entries}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if what is None:
            path.mkdir(exist_ok=True)
        elif isinstance(what, str) and what.startswith("-> "):
            path.symlink_to(what[3:])
        else:
            path.write_bytes(what if isinstance(what, bytes) else what.encode())
    return root


def picture(root: Path, without: tuple[str, ...] = ()) -> dict[str, object]:
    """What a tree holds: mode and owner with bytes or target, by path."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder, name)
            key = str(path.relative_to(root))
            status = path.lstat()
            who = (oct(status.st_mode), status.st_uid, status.st_gid)
            if path.is_symlink():
                found[key] = (*who, str(path.readlink()))
            elif path.is_file():
                found[key] = (*who, path.read_bytes())
            else:
                found[key] = who
    return {key: value for key, value in found.items() if not key.startswith(without)} if without else found
