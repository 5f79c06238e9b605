"""The parser of heads, and the reader of bodies."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from shim.gate import head
from shim.gate.connection import ClosedError, Reader
from shim.gate.judge import Denied, Request

CHUNKED = Request("POST", "/", is_chunked=True)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, Reader]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(5)
        yield ours, Reader(theirs)


def refused(raw: bytes) -> str:
    with pytest.raises(Denied) as caught:
        head.parse(raw)
    return caught.value.reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b"GET / HTTP/1.0\r\nHost: d", "http-version", id="HTTP/1.0"),
        pytest.param(b"PRI * HTTP/2.0", "http-version", id="preface of HTTP/2"),
        pytest.param(b"GET / HTTP/2.0\r\nHost: d", "http-version", id="HTTP/2.0"),
        pytest.param(b"GET  / HTTP/1.1\r\nHost: d", "http-malformed", id="two blanks"),
        pytest.param(b"GET / HTTP/1.1 \r\nHost: d", "http-malformed", id="blank at the end"),
        pytest.param(b"\r\nGET / HTTP/1.1\r\nHost: d", "http-malformed", id="leading line end"),
        pytest.param(b"GET / HTTP/1.1", "http-malformed", id="no Host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nHost: d", "http-malformed", id="two Hosts"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\n: x", "http-malformed", id="no name"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nX\x0b: x", "http-malformed", id="control character in a name"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nX: \x00", "http-malformed", id="control character in a value"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nX: a\rb", "http-malformed", id="bare carriage return"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nX: a\nb", "http-malformed", id="bare line feed"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nExpect: x", "http-malformed", id="another expectation"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nContent-Length:", "http-framing", id="empty length"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nContent-Length: 1, 1", "http-framing", id="list of lengths"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nContent-Length: 0x1", "http-framing", id="hexadecimal length"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: Chunked", "http-framing", id="capital letters"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: d\r\nX: " + b"a" * 65536, "http-head", id="too long"),
    ],
)
def test_a_head_is_refused(raw: bytes, reason: str) -> None:
    assert refused(raw) == reason


def test_a_head_is_read() -> None:
    request = head.parse(b"PUT /a?b HTTP/1.1\r\nHOST:d\r\nX-Y: \t a b \r\nContent-Length: 12")
    assert request == Request("PUT", "/a?b", (("host", "d"), ("x-y", "a b"), ("content-length", "12")), None, 12)


def test_a_head_comes_in_pieces_and_what_follows_is_kept(pair: tuple[socket.socket, Reader]) -> None:
    ours, reader = pair
    for piece in (b"GET / HT", b"TP/1.1\r\nHost: d\r", b"\n\r\nrest"):
        ours.sendall(piece)
    assert reader.head(5) == b"GET / HTTP/1.1\r\nHost: d"
    assert reader.some() == b"rest"


def test_a_head_that_does_not_end_is_given_up(pair: tuple[socket.socket, Reader]) -> None:
    ours, reader = pair
    ours.sendall(b"GET / HT")
    with pytest.raises(Denied, match="http-timeout"):
        reader.head(0.05)


def test_the_end_of_a_connection_in_front_of_a_head_and_inside(pair: tuple[socket.socket, Reader]) -> None:
    ours, reader = pair
    ours.shutdown(socket.SHUT_WR)
    assert reader.head(5) is None
    reader.pending = b"GET"
    with pytest.raises(ClosedError):
        reader.head(5)


def test_chunks_are_joined(pair: tuple[socket.socket, Reader]) -> None:
    ours, reader = pair
    ours.sendall(b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nnext")
    assert b"".join(reader.body(CHUNKED)) == b"abc0123456789"
    assert reader.some() == b"next"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"3;a=b\r\nabc\r\n0\r\n\r\n", id="extension"),
        pytest.param(b"3\r\nabcd\r\n0\r\n\r\n", id="longer than its size"),
        pytest.param(b"0\r\nX: y\r\n\r\n", id="trailer"),
        pytest.param(b"0x3\r\nabc\r\n0\r\n\r\n", id="prefix"),
        pytest.param(b"-1\r\nabc\r\n0\r\n\r\n", id="negative"),
        pytest.param(b"3\nabc\n0\n\n", id="bare line feeds"),
        pytest.param(b"\r\n", id="empty size"),
        pytest.param(b"1" * 80, id="endless size"),
    ],
)
def test_chunks_of_another_form_are_refused(raw: bytes, pair: tuple[socket.socket, Reader]) -> None:
    ours, reader = pair
    ours.sendall(raw)
    with pytest.raises(Denied, match="http-framing"):
        list(reader.body(CHUNKED))
