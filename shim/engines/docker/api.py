"""What a running dockerd knows, over its own socket: GET /info of the Engine API.

The file is what dockerd will know after a restart, this is what it knows now. Nothing is changed, and whatever goes
wrong (no socket, no answer in time, no JSON) means that there is no answer.

Source: https://docs.docker.com/reference/api/engine/, System, Get system information
"""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.engines.texts.values import Table

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


def info(paths: Iterable[str]) -> Table | None:
    """What the daemon reports about itself.

    Arguments:
        paths: of Unix sockets; the first that answers counts.
    Returns:
        the members of the answer, among them Runtimes, DefaultRuntime, ServerVersion and, since docker 25, CDISpecDirs;
        None when there is no answer.
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
