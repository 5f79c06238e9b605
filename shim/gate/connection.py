"""The bytes of a connection: heads, and bodies by their framing, from a socket and what was read of it too early."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from shim.gate import head
from shim.gate.judge.messages import Denied

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from shim.gate.judge.model import Request

_READ = 1 << 18
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
_MAX_LINE = 64


class ClosedError(Exception):
    """The peer closed the connection before the end of a message."""


class Reader:
    """Reads messages from a socket.

    Arguments:
        connection: blocking.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.pending = b""  # read from the socket, and not yet taken

    def head(self, seconds: float | None) -> bytes | None:
        """The next head, without its closing line ends; None where the peer closed the connection in front of it.

        Arguments:
            seconds: for a head, from its first byte on; None: without limit.

        Raises Denied: http-timeout, or as head.check_partial; ClosedError.
        """
        deadline = None
        while True:
            end = self.pending.find(head.END)
            if end >= 0:
                found, self.pending = self.pending[:end], self.pending[end + len(head.END) :]
                return found
            if self.pending and seconds is not None:
                head.check_partial(self.pending)
                deadline = deadline or time.monotonic() + seconds
                self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self.socket.recv(_READ)
            except TimeoutError:
                if deadline is None:
                    raise
                raise Denied("http-timeout", seconds=int(seconds or 0)) from None
            finally:
                if deadline is not None:
                    self.socket.settimeout(None)
            if not data:
                if self.pending:
                    raise ClosedError
                return None
            self.pending += data

    def some(self, most: int = _READ) -> bytes:
        """The next bytes, at most `most`; b"" at the end."""
        if self.pending:
            data, self.pending = self.pending[:most], self.pending[most:]
            return data
        return self.socket.recv(min(most, _READ))

    def body(self, request: Request) -> Iterator[bytes]:
        """The body of a request, by its framing. Raises Denied: http-framing; ClosedError."""
        return self._chunks() if request.is_chunked else self._counted(request.length or 0)

    def _counted(self, length: int) -> Iterator[bytes]:
        while length:
            data = self.some(length)
            if not data:
                raise ClosedError
            length -= len(data)
            yield data

    def _chunks(self) -> Iterator[bytes]:
        """Without extensions and trailers, which nothing of the API needs."""
        while True:
            line = self._line()
            if not _SIZE.fullmatch(line):
                raise Denied("http-framing", what="the size of a chunk is no hexadecimal number")
            size = int(line, 16)
            yield from self._counted(size)
            if self._line():
                raise Denied("http-framing", what="a chunk is longer than its size, or trailers follow the last one")
            if not size:
                return

    def _line(self) -> bytes:
        while b"\r\n" not in self.pending:
            if len(self.pending) > _MAX_LINE or b"\n" in self.pending:
                raise Denied("http-framing", what="a line between chunks does not end")
            data = self.socket.recv(_READ)
            if not data:
                raise ClosedError
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\r\n")
        return line
