"""Cases of generate-nvidia.json: a fake host each, what the reference wrote for it, and what we write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from shim.base.findings import CdiError
from shim.discover import nvidia, vendors
from shim.discover.nvidia import dxcore, nvml, nvml_child
from shim.host.host import Host
from shim.host.tree import Tree

from . import generate_modes, generate_rules, hosts, wishes
from .fakenvml import FakeNvml

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.base.findings import Finding
    from shim.discover.model import Wish

WORDS = {
    "{ROOT}": "/run/nvidia/driver",
    "{ROOT_REL}": "run/nvidia/driver",
    "{DEVROOT}": "/mnt/hostdev",
    "{OUT}": "/srv/out",
    "{HOOK}": "/usr/bin/nvidia-cdi-hook",
    "{KREL}": os.uname().release,
}


def run(case: dict[str, Any], tmpdir: str) -> str | None:
    """None: as expected. Else the id of a deviation, or what differs."""
    given = hosts.replaced(case["input"], WORDS)
    expected = hosts.replaced(case["expect"], WORDS)
    hosts.build(given["root"], Path(tmpdir))
    environment = given.get("env") or {}
    host = Host(tmpdir, environment=environment)
    try:
        wish, _ = wishes.wish_of(given["argv"], host.environment, host)
    except wishes.UsageError as error:
        return None if expected["status"] else _usage(str(error))
    documents, findings = generate(given, wish, host)
    theirs, rule = generate_modes.as_ours(wish, generate_rules.specs(expected))
    if rule:
        expected = {"status": expected["status"], "specs": theirs}
    verdict = generate_rules.verdict(documents, findings, expected, Tree(host), given)
    if verdict is None:
        return rule
    return generate_modes.deviation(given, wish, documents, theirs, findings, Tree(host)) or verdict


def _usage(error: str) -> str:
    """The verdict on a command line that the reference takes and we refuse."""
    return "unknown-word" if error.endswith(": no such hook") else f"it is refused: {error}"


def generate(given: dict[str, Any], wish: Wish, host: Host) -> tuple[list[dict[str, Any]], list[Finding]]:
    """What we write for a host, and what we report."""
    with patch.object(nvml, "ask", _answers(given)), patch.object(dxcore, "ask", _adapters(given)):
        try:
            discovery = nvidia.discover(host, wish)
            return [document for _, document in vendors.documents(discovery, wish)], list(discovery.findings)
        except CdiError as error:
            return [], list(error.findings)


def _answers(given: dict[str, Any]) -> Callable[..., dict[str, Any] | nvml.Failure]:
    """NVML as the case has it, in place of the child process; only the entry that stands for NVML answers."""
    stubs = {entry["path"] for entry in given["root"] if entry.get("role") == "nvml"}

    def ask(host: Host, library: str, **_: object) -> dict[str, Any] | nvml.Failure:
        with open(library, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return {"unloadable": "file too short"}
        if library.removeprefix(host.root) not in stubs:
            return {"error": ["Init", 13]}  # a library without the functions
        return nvml_child.collect(FakeNvml(given["nvml"] or {"error": {"Init": 999}}))

    return ask


def _adapters(given: dict[str, Any]) -> Callable[..., dict[str, Any] | str]:
    """libdxcore as the case has it, in place of the child process."""
    stubs = {entry["path"] for entry in given["root"] if entry.get("role") == "dxcore"}

    def ask(host: Host, library: str, limit: float = 0) -> dict[str, Any] | str:  # noqa: ARG001 - as dxcore.ask
        if library.removeprefix(host.root) not in stubs:
            return {"unloadable": "undefined symbol"}
        return {"adapters": (given.get("dxcore") or {}).get("adapters", [])}

    return ask
