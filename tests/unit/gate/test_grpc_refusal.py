"""The refusal of BuildKit, as its clients read it: calls of gRPC over HTTP/2, recorded from buildx 0.29."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from conformance.gate_wire import Setup, running

from shim.gate import grpc_refusal
from shim.gate.connection import Reader
from shim.gate.judge import Policy

SWITCH = b"POST /grpc HTTP/1.1\r\nHost: \r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 0\r\n" + (
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, SETTINGS_ACK = b"\0\0\0\4\0\0\0\0\0", b"\0\0\0\4\1\0\0\0\0"
MESSAGE = "BuildKit is off for this repository; use DOCKER_BUILDKIT=0 docker build"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        assert more, data
        data += more
    return data


def read_frame(connection: socket.socket) -> tuple[int, int, int, bytes]:
    head = exactly(connection, 9)
    return head[3], head[4], int.from_bytes(head[5:], "big"), exactly(connection, int.from_bytes(head[:3], "big"))


def fields(block: bytes) -> dict[str, str]:
    """What the gate sends: `:status: 200` by its index, and literals that are not indexed."""
    assert block[0] == 0x88
    texts: list[str] = []
    position = 1
    while position < len(block):
        if len(texts) % 2 == 0:
            assert block[position] == 0
            position += 1
        length, position = block[position], position + 1
        if length == 0x7F:
            shift = 0
            while True:
                length += (block[position] & 0x7F) << shift
                shift, position = shift + 7, position + 1
                if block[position - 1] < 0x80:
                    break
        texts.append(block[position : position + length].decode("ascii"))
        position += length
    return dict(zip(texts[::2], texts[1::2], strict=True))


def switched(setup: Setup, switch: bytes = SWITCH) -> socket.socket:
    connection = setup.connect()
    connection.sendall(switch)
    text = Reader(connection).head(None)
    assert text is not None
    assert text.startswith(b"HTTP/1.1 101 ")
    assert b"X-Shim-Gate: builder-grpc" in text
    return connection


def test_each_call_gets_the_message_and_nothing_reaches_the_daemon(tmp_path: Path) -> None:
    with running(tmp_path, Policy("repo-a")) as setup, switched(setup) as connection:
        headers = b"\x83\x86"  # of a call; they are not decoded
        connection.sendall(PREFACE + SETTINGS + SETTINGS_ACK + frame(1, 4, 1, headers) + frame(0, 1, 1, b"\0\0\0\0\0"))
        assert read_frame(connection) == (4, 0, 0, b"")
        assert read_frame(connection) == (4, 1, 0, b"")
        kind, flags, stream, block = read_frame(connection)
        assert (kind, flags, stream) == (1, 5, 1), "headers that end the stream"
        answer = fields(block)
        assert (answer["content-type"], answer["grpc-status"]) == ("application/grpc", "7")
        assert answer["grpc-message"].startswith(MESSAGE)
        assert answer["grpc-message"].endswith("[builder-grpc]")
        assert read_frame(connection) == (3, 0, 1, bytes(4)), "the rest of the call is not needed"
        connection.sendall(frame(6, 0, 0, b"12345678") + frame(1, 5, 3, headers))
        assert read_frame(connection) == (6, 1, 0, b"12345678")
        assert read_frame(connection)[:3] == (1, 5, 3)
        connection.sendall(frame(7, 0, 0, bytes(8)))
        assert connection.recv(1) == b""
        assert setup.daemon.received == []
        noted = json.loads(setup.journal.read_text().splitlines()[-1])
        assert (noted["decision"], noted["reason"]) == ("deny", "builder-grpc")


def test_a_session_stays_silent_until_the_client_ends_it(tmp_path: Path) -> None:
    with running(tmp_path) as setup, switched(setup, SWITCH.replace(b"/grpc", b"/v1.47/session?x=y")) as connection:
        connection.sendall(SETTINGS)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
        assert setup.daemon.received == []


@pytest.mark.parametrize(
    "switch",
    [
        SWITCH.replace(b"User-Agent: Go-http-client/1.1\r\n", b""),
        SWITCH.replace(b"Upgrade: h2c\r\n", b""),
        SWITCH.replace(b"Content-Length: 0", b"Content-Length: 1").replace(b"\r\n\r\n", b"\r\n\r\nx"),
    ],
    ids=["unnamed", "no switch", "a body"],
)
def test_others_get_the_ordinary_refusal(switch: bytes, tmp_path: Path) -> None:
    with running(tmp_path) as setup:
        status, headers, body = setup.ask(switch)
        assert (status, headers["x-shim-gate"]) == (403, "builder-grpc")
        assert json.loads(body)["message"].startswith(MESSAGE)


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\nHost: d\r\n\r\n..", PREFACE + b"\xff\xff\xff\0\0\0\0\0\0"],
    ids=["no preface", "a frame beyond all limits"],
)
def test_what_is_no_http_2_ends_the_connection(sent: bytes, tmp_path: Path) -> None:
    with running(tmp_path) as setup, switched(setup) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while data := connection.recv(100):
            received += data
        assert received in (b"", SETTINGS)


def test_a_silent_client_is_left_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_refusal, "_SECONDS", 0.1)
    with running(tmp_path) as setup, switched(setup) as connection:
        assert connection.recv(1) == b""
