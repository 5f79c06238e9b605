"""What the plugin writes down: a JSON line for each event, on standard output, for `kubectl logs` and journald."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING

from shim.base.findings import one_line

if TYPE_CHECKING:
    from shim.base.findings import Finding


class Journal:
    """Appends lines to a descriptor, each in a single write; several threads use it.

    Arguments:
        descriptor: open for writing.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], str] = {}

    def event(self, name: str, message: str, **members: object) -> None:
        """Write an event down.

        Arguments:
            name: of the event.
            message: for people.
            members: for programs.
        """
        entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": name, **members}
        data = json.dumps({**entry, "message": one_line(message)}, ensure_ascii=True).encode("ascii") + b"\n"
        try:
            os.write(self._descriptor, data)
        except OSError:
            return  # a reader that is gone must not stop the service

    def finding(self, finding: Finding) -> None:
        """Write a finding down, unless it was the last one about its file, or about none."""
        text = f"{finding.id}: {finding} ({finding.remedy})"
        self.change("finding", f"{finding.id} {finding.path or finding.text}", text, id=finding.id)

    def change(self, name: str, subject: str, message: str, **members: object) -> None:
        """Write an event down, unless the last of this name and subject had the same message; "" is never written."""
        with self._lock:
            is_same = self._last.get((name, subject), "") == message
            self._last[name, subject] = message
        if message and not is_same:
            self.event(name, message, **members)
