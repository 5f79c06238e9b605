"""The text format of metrics, and the answer to a client that scrapes them."""

from __future__ import annotations

import socket

import pytest

from shim.base import prometheus


def test_a_family_has_a_type_and_its_labels_are_escaped() -> None:
    lines = prometheus.family("shim_x_total", "counter", [({}, 1), ({"a": 'q"\\\n', "b": "c"}, 2.5)])
    assert lines == ["# TYPE shim_x_total counter", "shim_x_total 1", r'shim_x_total{a="q\"\\\n",b="c"} 2.5']


def test_counters_begin_at_zero() -> None:
    counters: prometheus.Counters[str] = prometheus.Counters()
    assert counters.values() == {}
    counters.add("open")
    counters.add("open")
    counters.add("open", -1)
    assert counters.values() == {"open": 1}


@pytest.mark.parametrize(
    ("request_bytes", "is_answered"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (b"GET /metrics HTTP/1.1\r\nHost", False),
        (b"x" * 9000, False),
        (b"", False),
    ],
    ids=["whole", "half", "endless", "none"],
)
def test_a_request_is_answered_once_it_is_whole(request_bytes: bytes, is_answered: bool) -> None:
    client, server = socket.socketpair()
    with client:
        client.sendall(request_bytes)
        client.shutdown(socket.SHUT_WR)
        prometheus.answer(server, "x 1\n")
        received = b""
        try:
            while data := client.recv(65536):
                received += data
        except ConnectionResetError:
            assert not is_answered, "closed with bytes unread"
    assert server.fileno() == -1
    if is_answered:
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
        assert body == b"x 1\n"
    else:
        assert received == b""
