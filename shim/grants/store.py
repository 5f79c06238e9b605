"""Changes of the grants file: each a transaction, whole or not at all.

Under the lock: read; check (shim.grants.changes); append the line of the log, and fsync; write grants.json.new, fsync,
rename, fsync the directory. A process that is killed at any of these steps leaves the old or the new file, whole, and
at most a line of the log without its change, which the next writer closes (shim.grants.audit). The temporary file has
a fixed name, since only the holder of the lock writes it, so none are left over.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.base import files
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.grants import changes, lock, reader
from shim.grants.audit import ABANDONED, FILE, Audit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shim.cdi.types import Served
    from shim.grants.changes import Change, Entry
    from shim.grants.reader import Grants
    from shim.host.trust import Trust

_MODE = 0o644  # `shim grant list` needs no root


class Outcome:
    """What a change did, or would do.

    Attributes:
        before, after: the text of the file; equal where nothing changes.
        serial: of the state behind the change.
        changed: the grants that were added, changed or removed: (subject, device).
    """

    def __init__(self, before: str, after: str, serial: int, changed: list[tuple[str, str]]) -> None:
        self.before = before
        self.after = after
        self.serial = serial
        self.changed = changed


class Store:
    """The grants of a machine, for changing them.

    Each change raises CdiError: GRANTS_UNREADABLE, GRANTS_BUSY, GRANTS_WRITE, and what its function in
    shim.grants.changes raises. With dry_run it is only checked, without the lock, and nothing is written.

    Arguments:
        path: the grants file; the lock file lies beside it.
        audit: the log of changes.
        trust: judges who could have written the file; the rules of all configuration when not given.
        patience: seconds to wait for another writer.
    """

    def __init__(
        self,
        path: str = reader.FILE,
        audit: str = FILE,
        trust: Trust | None = None,
        patience: float = lock.PATIENCE,
    ) -> None:
        self.path = path
        self.audit = audit
        self._trust = trust
        self._patience = patience

    def add(
        self,
        subject: str,
        devices: Sequence[str],
        specs: Callable[[], Served],
        *,
        exclusive: bool | None = None,
        name_only: bool = False,
        dry_run: bool = False,
    ) -> Outcome:
        """Grant devices to a subject, all or none. What is granted already is no change.

        Arguments:
            subject: the name.
            devices: qualified names.
            specs: reads what the specs serve; called under the lock.
            exclusive: whether no other subject may have the same hardware; None: as it is, at first not.
            name_only: compare names alone, not hardware, now and when others are added later.
            dry_run: see above.
        """

        def change(grants: Grants) -> Change:
            return changes.add(grants, specs(), subject, devices, exclusive=exclusive, name_only=name_only)

        return self._change(change, dry_run=dry_run)

    def revoke(self, subject: str, devices: Sequence[str], *, dry_run: bool = False) -> Outcome:
        """Take devices from a subject, all or none.

        Arguments:
            subject: the name.
            devices: qualified names, all of which are granted.
            dry_run: see above.
        """
        return self._change(lambda grants: changes.revoke(grants, subject, devices), dry_run=dry_run)

    def purge(self, subject: str, *, dry_run: bool = False) -> Outcome:
        """Take everything from a subject, which has something. Arguments as of `revoke`."""
        return self._change(lambda grants: changes.purge(grants, subject), dry_run=dry_run)

    def rename(self, subject: str, new: str, *, dry_run: bool = False) -> Outcome:
        """Move the grants of a subject to another name, which has none.

        Arguments:
            subject, new: the names.
            dry_run: see above.
        """
        return self._change(lambda grants: changes.rename(grants, subject, new), dry_run=dry_run)

    def _change(self, change: Callable[[Grants], Change], *, dry_run: bool) -> Outcome:
        if dry_run:
            return self._outcome(change)[0]
        with lock.held(f"{self.path.removesuffix('.json')}.lock", self._patience):
            return self._write(change)

    def _outcome(self, change: Callable[[Grants], Change], serial: int = 0) -> tuple[Outcome, Entry]:
        """The outcome of a change that is not written yet, and its line of the log.

        Arguments:
            change: the change.
            serial: the last that is used.
        """
        grants = reader.read(self.path, self._trust)
        entries, line = change(grants)
        before = text_of(grants.document)
        if not line["devices"]:
            return Outcome(before, before, grants.serial, []), line
        serial = max(serial, grants.serial) + 1
        entries.sort(key=lambda entry: (entry["subject"], entry["device"]))
        after = {**grants.document, "serial": serial, "grants": entries}
        changed = [(line["subject"], device) for device in line["devices"]]
        return Outcome(before, text_of(after), serial, changed), line

    def _write(self, change: Callable[[Grants], Change]) -> Outcome:
        known = reader.read(self.path, self._trust).serial
        self._remove_temporary()
        audit = Audit(self.audit)
        try:
            outcome, line = self._outcome(change, _close_abandoned(audit, known))
            if outcome.changed:
                audit.append({"serial": outcome.serial, **_stamp(), **line})
                self._replace(outcome.after.encode())
            return outcome
        finally:
            audit.close()

    def _replace(self, data: bytes) -> None:
        temporary = f"{self.path}.new"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(fd, _MODE)
                os.fsync(fd)
            Path(temporary).replace(self.path)
        except OSError as error:
            self._remove_temporary()
            text = f"the grants cannot be written, so nothing is changed: {reason(error)}"
            raise CdiError([Finding("GRANTS_WRITE", text, path=self.path)]) from None
        files.sync(Path(self.path).parent)

    def _remove_temporary(self) -> None:
        with suppress(OSError):
            Path(f"{self.path}.new").unlink()


def text_of(document: dict[str, Any]) -> str:
    """The text of the grants file: a grant a line, so that differences can be read."""
    grants = ",\n".join(f"    {json.dumps(entry)}" for entry in document["grants"])
    texts = {name: json.dumps(value) for name, value in document.items()}
    texts["grants"] = f"[\n{grants}\n  ]" if grants else "[]"
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {text}" for name, text in texts.items()) + "\n}\n"


def _close_abandoned(audit: Audit, serial: int) -> int:
    """Close the line of a change that did not happen.

    Arguments:
        audit: the log.
        serial: of the last change in force.
    Returns:
        the last serial that is used.
    """
    lines = audit.last_lines(serial)
    closed = {line.get("of") for line in lines if line["op"] == ABANDONED}
    last = max([serial, *(int(line["serial"]) for line in lines)])
    for line in lines:
        if line["op"] != ABANDONED and line["serial"] not in closed:
            last += 1
            audit.append({"serial": last, **_stamp(), "op": ABANDONED, "of": line["serial"]})
    return last


def _stamp() -> Entry:
    return {"time": changes.now(), "by": changes.user(), "pid": os.getpid()}
