"""What the gate writes down: a JSON line for each refusal and each device that a container is given.

No body and no header is written, only the SHA-256 of a body, by which equal requests are recognised.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import one_line

if TYPE_CHECKING:
    from shim.gate.judge import Decision


@dataclass(frozen=True)
class Peer:
    """The process at the other end of a connection, as the kernel knows it."""

    pid: int
    uid: int
    gid: int


class Journal:
    """Appends lines to a descriptor, each in a single write.

    Arguments:
        descriptor: open for writing; with O_APPEND where it is a file.
        subject: whose gate it is.
    """

    def __init__(self, descriptor: int, subject: str) -> None:
        self._descriptor = descriptor
        self._subject = subject

    def decision(self, decision: Decision, method: str, target: str, peer: Peer, body: bytes | None) -> None:
        """Write a decision down, where it refuses something or gives a device."""
        if decision.is_allowed and not decision.names:
            return
        entry: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "subject": self._subject,
            "decision": "allow" if decision.is_allowed else "deny",
            "reason": decision.reason,
            "method": method,
            "target": one_line(target),
            "pid": peer.pid,
            "uid": peer.uid,
            "gid": peer.gid,
        }
        if decision.names:
            entry["devices"] = list(decision.names)
        if decision.message:
            entry["message"] = one_line(decision.message)
        if body:
            import hashlib  # late: 3 MiB of libcrypto, which a gate without refusals does without

            entry["sha256"] = hashlib.sha256(body).hexdigest()
        self._write(entry)

    def event(self, name: str, **members: object) -> None:
        """Write down what happens to the gate itself."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._write({"time": now, "subject": self._subject, "event": name, **members})

    def _write(self, entry: dict[str, object]) -> None:
        try:
            os.write(self._descriptor, json.dumps(entry, ensure_ascii=True).encode("ascii") + b"\n")
        except OSError:
            return  # a full disk must not stop what was decided
