"""Metrics as text, and the answer to a client that scrapes them: what all services of ours share.

A service counts with `Counters`, makes lines with `family`, and hands an accepted connection to `answer`.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = 5.0  # for a request
_LARGEST = 8192
Key = TypeVar("Key")
_END = b"\r\n\r\n"


class Counters(Generic[Key]):
    """Numbers by keys; several threads change them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Key] = Counter()

    def add(self, key: Key, count: int = 1) -> None:
        """Change a number.

        Arguments:
            key: its number begins at 0.
            count: is added, and may be negative.
        """
        with self._lock:
            self._counts[key] += count

    def values(self) -> dict[Key, int]:
        """All numbers, as they are at one moment."""
        with self._lock:
            return dict(self._counts)


def family(name: str, kind: str, samples: Iterable[tuple[Mapping[str, str], float | str]]) -> list[str]:
    """The lines of a metric.

    Arguments:
        name: of the metric.
        kind: "counter" or "gauge".
        samples: (labels, value) of each; a text is written as it is.
    """
    return [f"# TYPE {name} {kind}", *(f"{name}{_labels(labels)} {value}" for labels, value in samples)]


def answer(connection: socket.socket, text: str) -> None:
    """Answer any request on a connection with metrics, and close it; a client that sends none gets nothing.

    Arguments:
        connection: accepted; closed at the end.
        text: lines of metrics, with a line end behind the last.
    """
    with connection:
        try:
            connection.settimeout(_SECONDS)
            request = b""
            while _END not in request:
                data = connection.recv(_LARGEST)
                request += data
                if not data or len(request) > _LARGEST:
                    return
            content = text.encode("utf-8")
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(content)}\r\n"
            connection.sendall(f"{head}Connection: close\r\n\r\n".encode("ascii") + content)
        except OSError:
            return  # the client is gone, or sends no request in time


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
