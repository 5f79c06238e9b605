"""An empty root of a distribution with what a first container needs, and a list of all that is in a root.

The list has every path with its type, mode, owner and content, so that an installation that is undone can be compared
with the root before it.
"""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

from matrix.roots import Machine

NAME = "example.com/test=one"
SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "example.com/test",
    "devices": [{"name": "one", "containerEdits": {"env": ["SHIM_TEST=one"]}}],
}
STATE = {"ociVersion": "1.0.2", "id": "c1", "pid": 1, "bundle": "/bundle"}
CONFIG = {"process": {"env": ["A=1"]}, "root": {"path": "rootfs"}}

# What the tests write or mount, and what has no files of its own
NOT_LISTED = ("/bundle", "/src", "/given", "/proc", "/sys", "/dev", "/run", "/tmp")

# Prints a list as JSON: path -> description. The Python of any root runs it.
LISTING = """
import hashlib, json, os, stat, sys
root, skipped = sys.argv[1].rstrip("/"), set(sys.argv[2:])
found = {}
def add(path):
    status = os.lstat(root + path)
    words = [stat.filemode(status.st_mode), f"{status.st_uid}:{status.st_gid}"]
    if stat.S_ISREG(status.st_mode):
        with open(root + path, "rb") as file:
            words.append(hashlib.sha256(file.read()).hexdigest())
    elif stat.S_ISLNK(status.st_mode):
        words.append(os.readlink(root + path))
    found[path] = " ".join(words)
for directory, names, files in os.walk(root or "/"):
    below = directory[len(root):].rstrip("/")
    names[:] = [name for name in names if f"{below}/{name}" not in skipped]
    for name in names + files:
        add(f"{below}/{name}")
print(json.dumps(found))
"""


def write(machine: Machine, path: str, text: str, mode: int = 0o644) -> None:
    """Write a file of the machine, with its directories."""
    file = machine.upper / path.lstrip("/")
    for directory in reversed(file.relative_to(machine.upper).parents):
        (machine.upper / directory).mkdir(mode=0o755, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def equip(machine: Machine, runtime: str = "/usr/local/bin/runc") -> None:
    """Put a spec, a low-level runtime that prints its arguments, and a bundle whose image has a library into it."""
    write(machine, "/etc/cdi/test.json", json.dumps(SPEC))
    write(machine, runtime, '#!/bin/sh\necho "reached: $*"\n', 0o755)
    write(machine, "/bundle/config.json", json.dumps(CONFIG))
    write(machine, "/bundle/state.json", json.dumps(STATE))
    machine.ok("mkdir", "-p", "/bundle/rootfs/opt/lib", "/bundle/rootfs/etc")
    machine.ok("sh", "-c", "cp -L /lib/*/libz.so.1 /bundle/rootfs/opt/lib")


def listing(machine: Machine) -> dict[str, str]:
    """All that is in the root: path -> type with mode, owner, and the hash of a file or the target of a link."""
    machine.ok("true", online=True)  # files to mount the settings of the network on stay
    found: dict[str, str] = json.loads(machine.ok("python3", "-I", "-S", "-B", "-c", LISTING, "/", *NOT_LISTED))
    return found


def differences(before: dict[str, str], after: dict[str, str], spared: tuple[str, ...] = ()) -> list[str]:
    """What a list has that another has not, a line each.

    Arguments:
        before: the one.
        after: the other.
        spared: patterns of paths that may differ; `*` stands for slashes too.
    """
    lines = []
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path) and not any(fnmatch(path, pattern) for pattern in spared):
            lines.append(f"{path}: {before.get(path, 'nothing')} -> {after.get(path, 'nothing')}")
    return lines


def size(machine: Machine, path: str) -> int:
    """The bytes of a file that was written in the machine, links followed inside of it."""
    file = machine.upper / path.lstrip("/")
    while file.is_symlink():
        target = file.readlink()
        file = machine.upper / str(target).lstrip("/") if target.is_absolute() else file.parent / target
    return Path(file).stat().st_size
