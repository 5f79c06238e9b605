"""Specs for the tests of this directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KIND = "acme.example/gpu"


def document(
    devices: dict[str, dict[str, Any]], edits: dict[str, Any] | None = None, kind: str = KIND
) -> dict[str, Any]:
    """A spec with these devices and spec-level edits."""
    listed = [{"name": name, "containerEdits": block} for name, block in devices.items()]
    spec: dict[str, Any] = {"cdiVersion": "1.1.0", "kind": kind, "devices": listed}
    if edits is not None:
        spec["containerEdits"] = edits
    return spec


def put(path: Path, *names: str, kind: str = KIND, mark: str = "x") -> Path:
    """Write a spec with devices of these names, each setting FROM to `mark`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    devices = {name: {"env": [f"FROM={mark}"]} for name in names}
    path.write_text(json.dumps(document(devices, kind=kind)))
    return path
