"""Ask a dockerd that runs what it knows, over its own socket: GET /info of the Engine API.

The file says what dockerd will know, this says what it does know. It is only ever read, and whatever is odd (no socket,
no answer in time, no JSON) means that nobody can be asked.

Source: https://docs.docker.com/reference/api/engine/, System, Get system information
"""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_PATIENCE = 3.0  # seconds
_LARGEST = 4 * 1024 * 1024  # bytes of an answer


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PATIENCE)
        self.sock.connect(self._path)


def info(paths: Iterable[str]) -> dict[str, Any] | None:
    """What the daemon says about itself.

    Arguments:
        paths: of Unix sockets; the first that answers counts.
    Returns:
        the members of the answer, among them Runtimes, DefaultRuntime, ServerVersion and, since docker 25, CDISpecDirs;
        None when nobody answers.
    """
    for path in paths:
        connection = _Connection(path)
        try:
            connection.request("GET", "/info")
            answer = connection.getresponse()
            value = json.loads(answer.read(_LARGEST)) if answer.status == http.client.OK else None
        except (OSError, http.client.HTTPException, ValueError, RecursionError):
            continue
        finally:
            connection.close()
        if isinstance(value, dict):
            return value
    return None
