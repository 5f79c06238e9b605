"""Counted system calls of four creates: nothing asked, one of 8, one of 1000, with hooks that are folded.

Each is created twice: the second finds what the first left (an index), which is what a machine does all day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .scenes import BUNDLE, DRIVER, LAUNCHER, LIB, LOGS, ROOT, config, spec

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
QUIET: Json = {"path": "/etc/shim/low-level/shim", "link": "/opt/quiet/runc"}


def _gpus(count: int) -> Json:
    def node(number: int) -> Json:
        return {"path": f"/dev/gpu{number}", "hostPath": "/dev/zero", "permissions": "rw"}

    devices = [{"name": str(number), "containerEdits": {"deviceNodes": [node(number)]}} for number in range(count)]
    mounts = [
        {"hostPath": f"/opt/vendor/lib/lib{n}.so", "containerPath": f"/opt/vendor/lib/lib{n}.so"} for n in range(40)
    ]
    common = {"env": ["DRIVER=1"], "mounts": mounts}
    return {"cdiVersion": "0.6.0", "kind": f"acme.example/{count}", "devices": devices, "containerEdits": common}


def _folded() -> Json:
    mounts = [
        {"hostPath": f"/opt/vendor/lib/{name}", "containerPath": f"{LIB}/{name}"}
        for name in ("libgpu.so.1.2", "libml.so.1.2")
    ]
    links = ["shim", "hook", "create-symlinks", "--link", f"libgpu.so.1.2::{LIB}/libgpu.so"]
    caches = ["shim", "hook", "update-ldcache", "--folder", LIB]
    hooks = [{"hookName": "createContainer", "path": LAUNCHER, "args": args} for args in (links, caches)]
    edits = {"mounts": mounts, "hooks": hooks}
    return {"cdiVersion": "0.6.0", "kind": "acme.example/hooks", "devices": [{"name": "0", "containerEdits": edits}]}


def _bundle(device: str) -> list[Json]:
    value: Json = {"process": {"args": ["sh"], "env": ["PATH=/bin"], "cwd": "/"}, "root": {"path": "rootfs"}}
    return [config({**value, "annotations": {"cdi.k8s.io/x": device}} if device else value), *ROOT]


ASKED = {
    "nothing": "",
    "one-of-8": "acme.example/8=3",
    "one-of-1000": "acme.example/1000=700",
    "hooks": "acme.example/hooks=0",
}


def cases() -> Iterator[Json]:
    """The four."""
    specs = [
        spec("/etc/cdi/8.yaml", _gpus(8)),
        spec("/etc/cdi/1000.yaml", _gpus(1000)),
        spec("/etc/cdi/hooks.json", _folded()),
    ]
    yield {"world": [LOGS, QUIET, *DRIVER, *specs], "name": "calls"}
    argv = ["shim", "--root", "/run/runc", "create", "--bundle", BUNDLE, "c1"]
    for name, device in ASKED.items():
        first: Json = {"name": "first", "argv": argv, "files": _bundle(device)}
        yield {"id": f"calls/{name}", "files": [], "steps": [first, {**first, "name": "counted", "calls": True}]}
