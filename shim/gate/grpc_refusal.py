"""A refusal that clients of BuildKit print.

They switch to HTTP/2 by `POST /grpc` with `Upgrade: h2c`. Of a refused switch they show the status alone, and buildx
then starts a builder of its own in a privileged container. So the gate switches, and answers each call itself, by a
status of gRPC with the message. Nothing of it reaches the daemon. `POST /session` is the other direction, in which the
daemon would call the client: there the connection stays silent until the client ends it.

The client's headers need not be decoded: each call gets the same answer, whose own headers need no compression table.

Source: RFC 9113 sections 3.4, 4.1, 5.1, 6, 8.1; RFC 7541 section 6.2.2; https://github.com/grpc/grpc, PROTOCOL-HTTP2.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    import socket

    from shim.gate.connection import Reader
    from shim.gate.judge.model import Request

_SECONDS = 60.0  # for all calls of a connection
_LARGEST = 1 << 20  # bytes that a client may send on it
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = 9  # bytes of a frame's own header
_HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 1, 3, 4, 6, 7
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_PERMISSION_DENIED = "7"
_STATUS_200 = b"\x88"  # entry 8 of HPACK's static table
_PRINTABLE = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def is_understood(request: Request) -> bool:
    """Whether a refused request comes from a client that reads such an answer.

    Go's clients of Docker name themselves by User-Agent. Whoever sends the bare request gets the ordinary refusal.

    Arguments:
        request: refused as builder-grpc.
    """
    return request.header("upgrade") == ["h2c"] and bool(request.header("user-agent")) and not request.has_body


def serve(reader: Reader, request: Request, message: str) -> None:
    """Switch, and answer until the client ends the connection, or for a minute.

    Arguments:
        reader: of the client.
        request: to /grpc or /session.
        message: of the refusal.

    Raises OSError: the client is gone.
    """
    reader.socket.sendall(
        b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nX-Shim-Gate: builder-grpc\r\n\r\n"
    )
    received = _Received(reader)
    if request.target.partition("?")[0].endswith("/session"):
        while received.take(1):
            pass
        return
    if received.take(len(_PREFACE)) != _PREFACE:
        return
    reader.socket.sendall(_frame(_SETTINGS))
    while head := received.take(_HEAD):
        kind, flags, stream = head[3], head[4], head[5:9]
        payload = received.take(int.from_bytes(head[:3], "big"))
        if payload is None or kind == _GOAWAY:
            return
        _answer(reader.socket, kind, flags, stream, payload, message)


def _answer(connection: socket.socket, kind: int, flags: int, stream: bytes, payload: bytes, message: str) -> None:
    if kind in (_SETTINGS, _PING) and not flags & _ACK:
        connection.sendall(_frame(kind, _ACK, payload=payload if kind == _PING else b""))
    elif kind == _HEADERS:
        trailers = _trailers(message)
        reset = b"" if flags & _END_STREAM else _frame(_RST_STREAM, stream=stream, payload=bytes(4))
        connection.sendall(_frame(_HEADERS, _END_STREAM | _END_HEADERS, stream, trailers) + reset)


def _frame(kind: int, flags: int = 0, stream: bytes = bytes(4), payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream + payload


def _trailers(message: str) -> bytes:
    """Headers of an answer without content, which carry the status of the call."""
    fields = (
        ("content-type", "application/grpc"),
        ("grpc-status", _PERMISSION_DENIED),
        ("grpc-message", quote(message, safe=_PRINTABLE)),
    )
    return _STATUS_200 + b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)


def _text(value: str) -> bytes:
    """A string of HPACK: its length with a prefix of seven bits, and its letters without Huffman's code."""
    content = value.encode("ascii")
    length, prefix = len(content), 0x7F
    if length < prefix:
        return bytes((length,)) + content
    length -= prefix
    coded = bytearray((prefix,))
    while length >= 128:
        coded.append(length % 128 + 128)
        length //= 128
    return bytes((*coded, length)) + content


class _Received:
    """The bytes of a client, in limits of time and number."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._end = time.monotonic() + _SECONDS
        self._left = _LARGEST

    def take(self, count: int) -> bytes | None:
        """The next bytes, all of them; None at the end, and beyond a limit."""
        data = b""
        while len(data) < count:
            seconds = self._end - time.monotonic()
            if seconds <= 0 or count > self._left:
                return None
            self._reader.socket.settimeout(seconds)
            try:
                more = self._reader.some(count - len(data))
            except TimeoutError:
                return None
            if not more:
                return None
            self._left -= len(more)
            data += more
        return data
