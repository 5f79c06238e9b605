"""A fake host has every kind of entry as it was described."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from conformance import hosts
from shim.host.host import Host
from shim.host.tree import Tree

SONAME = "libx.so.1"
ENTRIES: list[dict[str, Any]] = [
    {"kind": "ldcache", "dirs": ["{LIB}"], "entries": []},
    {"path": "{LIB}/libx.so.1.2", "kind": "elf", "soname": SONAME},
    {"path": "{LIB}/libx.so.1", "kind": "l", "target": "libx.so.1.2"},
    {"path": "/usr/lib32/liby.so", "kind": "elf", "bits": 32},
    {"path": "/usr/lib/libnvidia-ml.so.1", "kind": "elf", "soname": "other", "role": "nvml"},
    {"path": "/etc/x", "kind": "f", "content": "in {LIB}\n", "mode": "0600"},
    {"path": "/empty", "kind": "d"},
    {"path": "/run/a/socket", "kind": "s"},
    {"path": "/dev/x", "kind": "c", "major": 195, "minor": 3, "mode": "0660", "gid": 44},
    {"path": "/dev/y", "kind": "b", "major": 8, "minor": 0},
]


def test_every_kind_of_entry(tmp_path: Path) -> None:
    before = Path.cwd()
    hosts.build(ENTRIES, tmp_path, {"{LIB}": "/opt/lib"})
    tree = Tree(Host(str(tmp_path)))
    assert tree.resolve("/opt/lib/libx.so.1") == "/opt/lib/libx.so.1.2"
    assert tree.text("/etc/x") == "in /opt/lib"
    assert (tree.is_directory("/empty"), tree.is_socket("/run/a/socket")) == (True, True)
    assert tree.node("/dev/x") == ("c", 195, 3, 0o660, 0, 44)
    assert tree.node("/dev/y") == ("b", 8, 0, 0o600, 0, 0)
    assert stat.S_IMODE((tmp_path / "etc/x").stat().st_mode) == 0o600
    for path, soname in (("opt/lib/libx.so.1.2", SONAME), ("usr/lib/libnvidia-ml.so.1", "libnvidia-ml.so.1")):
        assert soname.encode() + b"\0" in (tmp_path / path).read_bytes()
    assert (tmp_path / "usr/lib32/liby.so").read_bytes()[4] == 1  # ELFCLASS32
    assert b"/opt/lib/libx.so.1\0" in (tmp_path / "etc/ld.so.cache").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["dev", "empty", "etc", "opt", "run", "usr"]
    assert Path.cwd() == before
