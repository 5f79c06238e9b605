"""The log of creates, as far as it helps to explain a container that is not there. Only read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.create import log

if TYPE_CHECKING:
    from shim.doctor.machine import Machine

    Json = dict[str, Any]

_CREATES = ("create", "run", "restore")
_END = 256 * 1024  # letters of the log that are looked at


def lines(machine: Machine) -> list[Json]:
    """The last lines of the log, the latest last; none where it is off or cannot be read."""
    usual = log.find(machine.rootful) if machine.host.root == "/" else log.SYSTEM_FILE
    path = machine.settings.log_file if machine.settings.log_file is not None else usual
    found = []
    for line in machine.host.text(path)[-_END:].splitlines() if path else ():
        try:
            members = json.loads(line)
        except ValueError:  # also the first, which is cut
            continue
        if isinstance(members, dict):
            found.append(members)
    return found


def refused(machine: Machine, id: str) -> list[Finding]:
    """CONTAINER_FAILED, where the last create of a container was refused.

    Arguments:
        machine: the machine.
        id: of the container.
    """
    own = [line for line in lines(machine) if line.get("id") == id and line.get("verb") != "hook"]
    last = own[-1] if own else {}
    if last.get("outcome") != "failed":
        return []
    found = [one for one in last.get("findings") or () if isinstance(one, dict)]
    shown = [f"{one.get('id')}: {one.get('text')}" for one in found if one.get("level") == "ERROR"]
    remedy = next((str(one["remedy"]) for one in found if one.get("level") == "ERROR" and one.get("remedy")), "")
    text = f"its last create, at {last.get('time')}, was refused: {'; '.join(shown)}"
    return [Finding("CONTAINER_FAILED", text, remedy)]


def failed_hooks(machine: Machine, id: str) -> list[Finding]:
    """HOOK_FAILED, for each hook that could not do its work since the last create of a container.

    Arguments:
        machine: the machine.
        id: of the container.
    """
    own = [line for line in lines(machine) if line.get("id") == id]
    creates = [number for number, line in enumerate(own) if line.get("verb") in _CREATES]
    later = own[creates[-1] + 1 :] if creates else own
    return [
        Finding(
            "HOOK_FAILED",
            f"the hook {line.get('hook')} could not do its work at {line.get('time')}: {line.get('text')}",
        )
        for line in later
        if line.get("verb") == "hook"
    ]
