"""The grants of a gate's subject, for several threads: one of them reads the file, the others wait for what it read."""

from __future__ import annotations

import threading

from shim.grants.reader import FILE, Reader

__all__ = ["FILE", "GrantsFile"]


class GrantsFile:
    """The grants of a subject.

    Arguments:
        path: of the file of all grants.
        subject: whose grants are read.
    """

    def __init__(self, path: str, subject: str) -> None:
        self._reader = Reader(path)
        self._subject = subject
        self._lock = threading.Lock()

    def names(self) -> frozenset[str] | None:
        """The names that are granted now; None where the file cannot be read, and so no device can be given."""
        with self._lock:
            return self._reader.names(self._subject)
