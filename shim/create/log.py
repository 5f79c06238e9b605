"""The log: one line of JSON for each create that injected, warned or failed. HOT.

/var/log/shim.log, and for others than host root shim/log in $XDG_STATE_HOME, by default ~/.local/state. A line is
appended by one write, so that
lines of creates at the same time do not mix. A log that cannot be written changes nothing. JSON escapes control
characters: whatever stands in a name, it stays one line.
"""

from __future__ import annotations

import posix
import time

from shim.base import fastjson
from shim.base.paths import parent
from shim.base.replace import exists
from shim.host.identity import is_ours, user_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.cdi.plan import Plan
    from shim.create.invocation import Invocation
    from shim.create.outcome import Outcome

SYSTEM_FILE = "/var/log/shim.log"


def append(call: Invocation, outcome: Outcome, *, rootful: bool) -> None:
    """Write the line, if there is anything to report.

    Arguments:
        call: the call that it is about.
        outcome: what came of it.
        rootful: whether we are the host's root (shim.host.identity).
    """
    findings, decision = outcome.findings, outcome.decision
    if not (outcome.changed or findings):
        return
    configured = decision.settings.log_file if decision else None
    path = find(rootful) if configured is None else configured
    if not path:
        return
    if configured is None and not rootful:
        _make_directories(path)
    members = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "verb": call.verb,
        "id": call.id,
        "bundle": call.bundle,
        "outcome": "failed" if outcome.refusal else "injected" if outcome.changed else "unchanged",
        "devices": outcome.requests,
        "specs": specs(decision.plan) if decision and decision.plan else [],
        "folded": [name for hook in outcome.folded for name in hook["names"]],
        "findings": [finding.to_json() for finding in findings],
    }
    _append(path, fastjson.dumps(members))


def specs(plan: Plan) -> list[str]:
    """The paths of the specs whose edits a plan has."""
    return list(dict.fromkeys(origin["spec"] for origin in plan.origins))


def find(rootful: bool, environ: dict[bytes, bytes] | None = None) -> str:
    """The usual path of the log, "" when there is none.

    Arguments:
        rootful: whether we are the host's root (shim.host.identity).
        environ: the environment as bytes, for tests; the process's own when not given.
    """
    if rootful:
        return SYSTEM_FILE
    home = user_directory(b"XDG_STATE_HOME", ".local/state", environ)
    nearest = home
    while nearest and not exists(nearest):  # made with the first line
        nearest = parent(nearest)
    return f"{home}/shim/log" if nearest and is_ours(nearest) else ""


def _make_directories(path: str) -> None:
    """Make what is missing of ~/.local/state/shim, with the mode that the XDG specification demands."""
    directory = parent(path)
    for missing in (parent(parent(directory)), parent(directory), directory):
        try:
            posix.mkdir(missing, 0o700)
        except OSError:
            pass  # it is there, or the log cannot be written


def _append(path: str, line: str) -> None:
    # O_NONBLOCK: a FIFO without a reader must not hold us up
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC
    try:
        fd = posix.open(path, flags | posix.O_NONBLOCK | posix.O_NOCTTY, 0o640)
    except (OSError, ValueError):
        return
    try:
        posix.write(fd, f"{line}\n".encode("ascii"))
    except OSError:
        pass
    finally:
        posix.close(fd)
