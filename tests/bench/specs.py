"""Specs of the usual sizes: eight GPUs as a vendor's generator writes them, and a thousand small devices."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import yaml

LIBRARIES = "/etc/bench"  # where the driver's libraries are on the host, in the benchmark's own /etc
NODES = "/run/bench"  # where the device nodes are, in its own /run
_NAMES = [f"libdriver{number}.so.535.1" for number in range(40)]


def make_libraries() -> None:
    """The files that the specs mount: a create refuses a mount whose source is missing."""
    Path(LIBRARIES).mkdir()
    for name in _NAMES:
        (Path(LIBRARIES) / name).touch()


def make_nodes(text: str) -> None:
    """The device nodes of a spec, below NODES: a create warns of one that is missing."""
    document = yaml.load(text, yaml.CSafeLoader)
    for edits in (document.get("containerEdits") or {}, *(device["containerEdits"] for device in document["devices"])):
        for node in edits.get("deviceNodes") or ():
            path = Path(node["hostPath"])
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(node["major"], node["minor"]))


def _node(path: str, major: int, minor: int, **more: Any) -> dict[str, Any]:
    return {"path": path, "hostPath": NODES + path, "type": "c", "major": major, "minor": minor, **more}


def _uuid(number: int) -> str:
    return f"GPU-{number:08x}-1b2c-4d5e-8f90-{number:012x}"


def _gpu(number: int) -> list[dict[str, Any]]:
    names = (f"nvidia{number}", f"dri/card{number}", f"dri/renderD{128 + number}")
    return [_node(f"/dev/{name}", 195, number, fileMode=438) for name in names]


def _mount(path: str, host: str = "") -> dict[str, Any]:
    return {"hostPath": host or path, "containerPath": path, "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]}


def gpus(count: int, kind: str) -> str:
    """A YAML spec of `count` GPUs by index, by UUID and all together, with a driver's libraries (8: some 18 kB)."""
    devices = []
    for number in range(count):
        edits = {"deviceNodes": _gpu(number)}
        devices += [{"name": str(number), "containerEdits": edits}, {"name": _uuid(number), "containerEdits": edits}]
    everything = [node for number in range(count) for node in _gpu(number)]
    devices.append({"name": "all", "containerEdits": {"deviceNodes": everything}})
    common = {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [
            _node(f"/dev/{name}", 195, minor) for name, minor in (("nvidiactl", 255), ("nvidia-modeset", 254))
        ],
        "mounts": [_mount(f"/usr/lib/x86_64-linux-gnu/{name}", f"{LIBRARIES}/{name}") for name in _NAMES],
        "hooks": [
            {"hookName": "createContainer", "path": "/usr/bin/true", "args": ["true"], "env": ["DEBUG=false"]}
            for _ in range(4)
        ],
    }
    document = {"cdiVersion": "0.5.0", "kind": kind, "devices": devices, "containerEdits": common}
    return _yaml(document)


def many(count: int, kind: str) -> str:
    """A YAML spec of `count` devices with two nodes and a mount each (some 330 kB for 1000)."""
    devices = [
        {
            "name": f"d{number}",
            "containerEdits": {
                "deviceNodes": [_node(f"/dev/many/{part}{number}", 240, number) for part in "ab"],
                "mounts": [_mount(f"/opt/many/{number}", LIBRARIES)],
            },
        }
        for number in range(count)
    ]
    return _yaml({"cdiVersion": "0.5.0", "kind": kind, "devices": devices})


def as_json(text: str) -> str:
    """The same spec as JSON."""
    return json.dumps(yaml.safe_load(text), indent=2)


def _yaml(document: dict[str, Any]) -> str:
    class Plain(yaml.SafeDumper):
        """Without anchors: generators write everything out."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the name and its argument are PyYAML's
            return True

    return yaml.dump(document, Dumper=Plain, sort_keys=False)
