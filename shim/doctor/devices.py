"""Result: what a create would make of each device, by the decision of create itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.create.explain import Explanation
from shim.create.question import Question
from shim.create.recipe import decide
from shim.doctor.model import REQUEST, RESULT, Check, devices_of
from shim.engines import launcher
from shim.host import device_files
from shim.host.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.doctor.hardware import Hardware
    from shim.doctor.machine import Machine
    from shim.host.host import Host

    Json = dict[str, Any]

_READ_WRITE = 0o6
_SYSTEMD = "/run/systemd/system"  # sd_booted(3)
# The container that asks: as engines make them, without anything that a device could depend on
_CONTAINER: Json = {
    "process": {"cwd": "/", "env": [], "user": {"uid": 0, "gid": 0}},
    "root": {"path": "rootfs"},
    "linux": {"namespaces": [{"type": "mount"}], "resources": {"devices": []}},
}


def checks(machine: Machine, hardware: Hardware) -> Iterator[Check]:
    """One check for each spec that serves a device: each of its devices is asked for."""
    by_path: dict[str, list[str]] = {}
    for name in machine.served.devices():
        serving = machine.served.get(name)
        if serving:
            by_path.setdefault(serving[0].path, []).append(name)
    for path, names in by_path.items():
        vendor = hardware.vendor_of(names[0].partition("=")[0])
        found = [finding for name in names for finding in explained(machine, name).findings]
        findings = [hardware.refreshed(finding) for finding in found]
        evidence = f"{len(names)} asked for"
        yield Check(RESULT, devices_of(path), evidence, findings, (vendor, path) if vendor else (path,))


def device(machine: Machine, hardware: Hardware, name: str) -> Check:
    """The check of one device by its name, as a container asks for it."""
    serving = machine.served.get(name)
    explanation = explained(machine, name)
    vendor = hardware.vendor_of(name.partition("=")[0])
    counts: dict[str, int] = {}
    for edit in explanation.edits:
        counts[edit.kind] = counts.get(edit.kind, 0) + 1
    gets = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    evidence = f"{serving[0].path}: {gets or 'nothing'}" if serving else "no spec serves it"
    refused = tuple(machine.served.findings)
    after = (vendor, serving[0].path) if serving else refused
    findings = [hardware.refreshed(finding) for finding in explanation.findings]
    return Check(RESULT if serving else REQUEST, name, evidence, findings, after)


def explained(machine: Machine, name: str) -> Explanation:
    """What a create of a container that asks for a device would do."""
    program = machine.launcher
    question = Question.from_json(
        {
            **dict.fromkeys(Question.__slots__, ""),
            "verb": "create",
            "name": "shim",
            "launcher": program,
            "low": launcher.low_level_of(machine.host, program),
            "bundle": "/nonexistent",
            "path": "/nonexistent/config.json",
            "id": "doctor",
            "devices": [name],
            "config": _CONTAINER,
            "misspelt": [],
            "rootful": machine.rootful,
            "user": machine.host.user,
        }
    )
    return Explanation(question, decide(question, machine.world))


def rights(machine: Machine, name: str = "") -> Iterator[Check]:
    """NODE_DENIED, for each node that a user without root may not open: no container of this user can either.

    Arguments:
        machine: the machine.
        name: of the device whose nodes are looked at, "" for all nodes that specs name.
    """
    if machine.host.user == 0:
        return
    denied = [path for path in machine.nodes(name) if machine.world.node(path) and not _may_open(machine.host, path)]
    findings = []
    for path in denied:
        node = machine.world.node(path) or ("c", 0, 0, 0, 0, 0)
        text = f"user {machine.host.user} may not open {path} (mode {node[3] & 0o777:04o}, owner {node[4]}:{node[5]})"
        findings.append(Finding("NODE_DENIED", text))
    yield Check(
        RESULT, f"rights of user {machine.host.user}", f"{len(machine.nodes(name)) - len(denied)} nodes", findings
    )


def _may_open(host: Host, path: str) -> bool:
    """Whether the user may read and write a file: by access(2), and on another machine by its mode."""
    if host.root == "/":
        return os.access(path, os.R_OK | os.W_OK)
    status = host.status(path)
    shift = 6 if status and status.st_uid == host.user else 0
    return status is not None and status.st_mode >> shift & _READ_WRITE == _READ_WRITE


def links(machine: Machine, name: str = "") -> Iterator[Check]:
    """DEVCHAR_MISSING, where systemd resolves the rules of device cgroups and cannot find a node by its numbers.

    Arguments: as of `rights`.
    """
    if not machine.host.exists(_SYSTEMD):
        return
    try:
        changes = device_files.link_changes(Tree(machine.host), machine.nodes(name))
    except CdiError as error:  # something else is in the place of a link
        yield Check(RESULT, "/dev/char", "", error.findings)
        return
    lacking = [change.path for change in changes if change.changes]
    findings = []
    if lacking:
        shown = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
        verb = "is" if len(lacking) == 1 else "are"
        text = f"systemd does not find device nodes by their numbers: {shown} {verb} missing"
        findings.append(Finding("DEVCHAR_MISSING", text))
    yield Check(RESULT, "/dev/char", f"{len(changes) - len(lacking)} of {len(changes)} links", findings)
