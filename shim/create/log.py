"""The log: one line of JSON for each create that injected, warned or failed. HOT.

/var/log/shim.log, and for others than host root $XDG_STATE_HOME/shim/log. A line is appended by one write, so that
lines of creates at the same time do not mix. A log that cannot be written changes nothing. JSON escapes control
characters: whatever stands in a name, it stays one line.
"""

from __future__ import annotations

import posix
import time

from shim.base import fastjson
from shim.host.identity import is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.base.findings import Finding
    from shim.create.invocation import Invocation
    from shim.create.recipe import Decision

SYSTEM_FILE = "/var/log/shim.log"


class Outcome:
    """What came of a create.

    Attributes:
        file: where the log is, "" for nowhere, None for the usual path.
        devices: qualified name -> who asks for it.
        specs: the spec files whose edits are injected.
        findings: warnings, and at the end what stopped it.
        changed: whether config.json was replaced.
        folded: hooks that were done by create itself: hookName, path, args, and the names that were done.
    """

    __slots__ = ("changed", "devices", "file", "findings", "folded", "specs")

    def __init__(self) -> None:
        self.file: str | None = None
        self.devices: dict[str, str] = {}
        self.specs: list[str] = []
        self.findings: list[Finding] = []
        self.changed = False
        self.folded: list[dict[str, Any]] = []

    def take(self, decision: Decision) -> None:
        """Take over what was decided."""
        self.file = decision.settings.log_file
        self.devices = decision.wanted
        self.specs = [origin["spec"] for origin in decision.plan.origins] if decision.plan else []
        self.findings = list(decision.findings)

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings that are not there yet."""
        known = {(finding.id, str(finding)) for finding in self.findings}
        for finding in findings:
            if (finding.id, str(finding)) not in known:
                known.add((finding.id, str(finding)))
                self.findings.append(finding)


def append(call: Invocation, outcome: Outcome, *, rootful: bool, failed: bool = False) -> None:
    """Write the line, if there is anything to say.

    Arguments:
        call: the call that it is about.
        outcome: what came of it.
        rootful: whether we are the host's root (shim.host.identity).
        failed: whether the create is refused.
    """
    if not (outcome.changed or outcome.findings):
        return
    path = find(rootful) if outcome.file is None else outcome.file
    if not path:
        return
    if outcome.file is None and not rootful:
        _make_directory(path.rpartition("/")[0])
    line = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "verb": call.verb,
        "id": call.id,
        "bundle": call.bundle,
        "outcome": "failed" if failed else "injected" if outcome.changed else "unchanged",
        "devices": outcome.devices,
        "specs": list(dict.fromkeys(outcome.specs)),
        "folded": [name for hook in outcome.folded for name in hook["names"]],
        "findings": [finding.to_json() for finding in outcome.findings],
    }
    _append(path, fastjson.dumps(line))


def find(rootful: bool, environ: dict[bytes, bytes] | None = None) -> str:
    """The usual place of the log, "" when there is none.

    Arguments:
        rootful: whether we are the host's root (shim.host.identity).
        environ: the environment as bytes, for tests; the process's own when not given.
    """
    if rootful:
        return SYSTEM_FILE
    variables = posix.environ if environ is None else environ
    home = variables.get(b"XDG_STATE_HOME", b"").decode("utf-8", "surrogateescape")
    return f"{home}/shim/log" if home.startswith("/") and is_ours(home) else ""


def _make_directory(path: str) -> None:
    try:
        posix.mkdir(path, 0o700)
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
