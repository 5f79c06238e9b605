"""A vendor of tests: its devices are the nodes /dev/acme/N of a fake machine; files there say what else it has."""

from __future__ import annotations

import os
from pathlib import Path

from shim.base.findings import Finding
from shim.discover.edits import Edits
from shim.discover.model import Device, Discovery, Draft, DraftDevice, Wish
from shim.host.host import Host
from shim.host.tree import Tree

MODULE = "unit.discover.acme"
KIND = "acme.example/gpu"
LIBRARIES = "/usr/lib/acme"
BROKEN = "/run/acme/broken"  # a finding of level ERROR, as text
WAITS = "/run/acme/waits"  # what is not ready yet
CALLED = "/run/acme/called"  # how often the vendor was asked


def is_present(host: Host, wish: Wish) -> bool:
    return host.exists("/dev/acme") or bool(wish.features)


def discover(host: Host, wish: Wish) -> Discovery:
    tree = Tree(host, wish.driver_root)
    host.real(CALLED).parent.mkdir(parents=True, exist_ok=True)
    host.real(CALLED).write_text(str(int(host.text(CALLED) or "0") + 1))
    common = Edits()
    common.add_node(tree, "/dev/acmectl")
    for name in tree.names(LIBRARIES):
        common.add_mount(tree, f"{LIBRARIES}/{name}")
        common.add_folder(LIBRARIES)
    devices = []
    for name in tree.names("/dev/acme"):
        edits = Edits()
        edits.add_node(tree, f"/dev/acme/{name}")
        devices.append(DraftDevice((name, f"id-{name}") if "uuid" not in wish.names else (f"id-{name}",), edits))
    text = host.text(BROKEN)
    return Discovery(
        "acme",
        (Draft(KIND, common, tuple(devices)),) if devices else (),
        tuple(Device(name, "acme", nodes=(f"/dev/acme/{name}",)) for name in tree.names("/dev/acme")),
        (Finding("DISCOVERY_INCOMPLETE", text),) if text else (),
        host.text(WAITS),
    )


def machine(top: Path, *names: str, mode: int = 0o666, gid: int = 0) -> Host:
    """A machine with these devices of the vendor, and a launcher."""
    for directory in ("dev", "var/run", "run", "etc", "usr/local/bin", LIBRARIES[1:]):
        (top / directory).mkdir(parents=True, exist_ok=True)
    program = top / "usr/local/bin/shim"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    node(top, "acmectl", 0, mode, gid)
    for name in names:
        node(top, f"acme/{name}", int(name) + 1, mode, gid)
    return Host(str(top))


def node(top: Path, name: str, minor: int, mode: int = 0o666, gid: int = 0) -> None:
    """Make a device node below /dev."""
    path = top / "dev" / name
    path.parent.mkdir(exist_ok=True)
    os.mknod(path, 0o020000 | mode, os.makedev(240, minor))
    os.chown(path, 0, gid)
    path.chmod(mode)
