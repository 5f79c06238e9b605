"""The daemon: one connection for each request, and what the gate itself asks it.

Source: Docker Engine API, ContainerInspect and SystemInfo.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from shim.gate.connection import ClosedError, Reader
from shim.host.sockets import connect

_ANSWER = 30.0  # seconds
_LARGEST = 16 << 20


def container(path: str, name: str) -> dict[str, Any] | None:
    """A container as the daemon has stored it, None where it knows none of that name. Raises OSError."""
    return ask(path, f"/containers/{quote(name, safe='')}/json")


def ask(path: str, target: str) -> dict[str, Any] | None:
    """The object that the daemon answers to a GET, None for 404.

    Arguments:
        path: of the daemon's socket.
        target: of the request.

    Raises OSError: it does not answer, or with another status or something else than an object.
    """
    with connect(path) as connection:
        connection.settimeout(_ANSWER)
        connection.sendall(f"GET {target} HTTP/1.0\r\nHost: docker\r\n\r\n".encode("ascii"))
        reader = Reader(connection)
        try:
            head = reader.head(None)
        except ClosedError:
            head = None
        if head is None:
            raise ConnectionError("the daemon closed the connection without an answer")
        connection.settimeout(_ANSWER)
        status = head.split(b" ", 2)[1:2]
        body = bytearray()
        while len(body) < _LARGEST:
            data = reader.some()
            if not data:
                break
            body += data
    if status == [b"404"]:
        return None
    try:
        value = json.loads(bytes(body)) if status == [b"200"] else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConnectionError(f"the daemon answered {target} with status {b''.join(status).decode('latin-1')}")
    return value
