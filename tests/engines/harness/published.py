"""Specs of fake hosts, published for a sandbox in which the files of the fake host lie below a directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from shim.cdi import versions

from .sandbox import Sandbox


def publish(sandbox: Sandbox, document: dict[str, Any], top: str, name: str) -> None:
    """Write a spec into the sandbox's /etc/cdi.

    Arguments:
        sandbox: the sandbox.
        document: the spec; its paths of the host are changed to those below `top`.
        top: where the fake host lies, as seen inside.
        name: of the file, without suffix.
    """
    for edits in every_edits(document):
        for entry in (*edits.get("deviceNodes", ()), *edits.get("mounts", ())):
            entry["hostPath"] = top + entry.get("hostPath", entry.get("path", ""))
    document["cdiVersion"] = versions.minimum(document)
    (sandbox.scratch / "etc-cdi" / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")


def every_edits(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The edits of a spec: those of the whole and those of each device."""
    yield document.get("containerEdits", {})
    yield from (device["containerEdits"] for device in document["devices"])
