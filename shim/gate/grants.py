"""Which devices are granted to a subject: /etc/shim/grants.json, read again when it has changed.

    {"version": 1, "serial": 412, "grants": [{"subject": "repo-a", "device": "nvidia.com/gpu=0", "exclusive": true}]}

The file is replaced by rename; its identity, size and time tell whether it is still the same, so a change holds from
the next request on, without a signal. A file that is missing grants nothing; a file that cannot be read or understood
gives no device at all, and nothing of an earlier state is kept.
"""

from __future__ import annotations

import json
import os

VERSION = 1
DEFAULT = "/etc/shim/grants.json"
_LARGEST = 64 << 20


class GrantsFile:
    """The grants of a subject.

    Arguments:
        path: of the file.
        subject: whose grants are read.
    """

    def __init__(self, path: str, subject: str) -> None:
        self.path = path
        self.subject = subject
        self._key: tuple[int, int, int] | None = None
        self._names: frozenset[str] | None = None

    def names(self) -> frozenset[str] | None:
        """The granted names; None where the file cannot be read."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                key = (status.st_ino, status.st_mtime_ns, status.st_size)
                if key != self._key:
                    self._key, self._names = key, None
                    self._names = parse(file.read(_LARGEST), self.subject)
        except FileNotFoundError:
            self._key = None
            return frozenset()
        except OSError:
            self._key = None
            return None
        return self._names


def parse(content: bytes, subject: str) -> frozenset[str] | None:
    """The names that a file grants to a subject; None where it has no form of this version.

    Arguments:
        content: of the file.
        subject: whose grants are meant.
    """
    try:
        value = json.loads(content)
        if not isinstance(value, dict) or value.get("version") is not VERSION:
            return None
        names = [grant["device"] for grant in value["grants"] if grant["subject"] == subject]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return frozenset(names) if all(isinstance(name, str) for name in names) else None
