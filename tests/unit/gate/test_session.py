"""A gate on sockets: what is passed on, how connections end, and what is written down."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from conformance.gate_wire import FakeGrants, Received, Setup, read_answer, running

from shim.gate import server
from shim.gate.connection import Reader
from shim.gate.judge import Policy

GPU = "nvidia.com/gpu=0"


def post(target: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {target} HTTP/1.1", "Host: d", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


GET = b"GET /_ping HTTP/1.1\r\nHost: d\r\n\r\n"
PRIVILEGED = post("/v1.41/containers/create", b'{"Image":"a","HostConfig":{"Privileged":true}}')
WANTS_GPU = json.dumps({"Image": "a", "HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [GPU]}]}})


def entries(setup: Setup) -> list[dict[str, object]]:
    return [json.loads(line) for line in setup.journal.read_text().splitlines()]


def test_a_connection_carries_requests_one_after_the_other_also_behind_a_refused_one(tmp_path: Path) -> None:
    with running(tmp_path) as setup, setup.connect() as connection:
        reader = Reader(connection)
        connection.sendall(GET + PRIVILEGED + GET)  # pipelined
        assert [read_answer(reader)[0] for _ in range(3)] == [200, 403, 200]
        assert len(setup.daemon.received) == 2


def test_headers_of_a_connection_stay_behind_and_others_pass(tmp_path: Path) -> None:
    with running(tmp_path) as setup:
        setup.ask(
            b"GET /_ping HTTP/1.1\r\nHost: evil\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 1\r\n"
            b"Proxy-Authorization: x\r\nTE: trailers\r\nUser-Agent: test\r\nX-Registry-Auth: secret\r\n\r\n"
        )
        assert setup.daemon.received[0].headers == [
            ("host", "docker"), ("user-agent", "test"), ("x-registry-auth", "secret"), ("connection", "close"),
        ]  # fmt: skip


def test_what_reaches_the_daemon_is_encoded_anew(tmp_path: Path) -> None:
    with running(tmp_path) as setup:
        setup.ask(post("/v1.41/containers%2Fcreate?name=a%62", b' {"image" : "a", "hostconfig": null} '))
        received = setup.daemon.received[0]
        assert received.line == "POST /v1.41/containers/create?name=ab HTTP/1.1"
        assert received.body == b'{"Image":"a","HostConfig":null}'


def test_a_start_goes_to_the_container_that_was_judged(tmp_path: Path) -> None:
    """Between judgement and start another container could get the name."""
    identity = "c" * 64
    stored = {"web": {"Id": identity, "HostConfig": {"Runtime": "runc"}}}
    with running(tmp_path, containers=stored) as setup:
        setup.ask(b"POST /v1.41/containers/web/start HTTP/1.1\r\nHost: d\r\n\r\n")
        assert setup.daemon.received[0].line == f"POST /v1.41/containers/{identity}/start HTTP/1.1"


def test_a_body_is_asked_for_only_where_it_may_come(tmp_path: Path) -> None:
    body = b'{"Image":"a"}'
    with running(tmp_path) as setup, setup.connect() as connection:
        raw = post("/containers/create", body, "Expect: 100-continue")
        connection.sendall(raw[: -len(body)])
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read_answer(Reader(connection))[0] == 200
        assert "expect" not in dict(setup.daemon.received[0].headers)


def test_a_long_body_that_is_refused_is_read_so_that_the_answer_is(tmp_path: Path) -> None:
    with running(tmp_path) as setup:
        status, headers, _ = setup.ask(post("/containers/create", b" " * (6 << 20)))
        assert (status, headers["x-shim-gate"]) == (413, "http-too-large")
        assert setup.daemon.received == []


def test_chunks_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    body = b"%x\r\n%s\r\n" % (2000, b" " * 2000) * 2
    raw = b"POST /containers/create HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n"
    with running(tmp_path, Policy("s", body_limit=3000)) as setup:
        assert setup.ask(raw + b"Transfer-Encoding: chunked\r\n\r\n" + body)[1]["x-shim-gate"] == "http-too-large"


def test_http_2_gets_an_answer_that_it_does_not_understand(tmp_path: Path) -> None:
    with running(tmp_path) as setup:
        status, headers, _ = setup.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert (status, headers["x-shim-gate"]) == (505, "http-version")


def test_a_stream_is_passed_on_while_it_comes(tmp_path: Path) -> None:
    with running(tmp_path) as setup, setup.connect() as connection:
        connection.sendall(b"POST /v1.41/build HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        wait(lambda: setup.daemon.received and setup.daemon.received[0].body == b"abc")
        connection.sendall(b"4\r\ndefg\r\n0\r\n\r\n")
        assert read_answer(Reader(connection))[0] == 200
        assert setup.daemon.received[0].body == b"abcdefg"


def test_an_answer_may_come_before_the_end_of_the_request(tmp_path: Path) -> None:
    """A build prints while its context is still sent."""
    early = threading.Event()

    def serve(_: Received, connection: socket.socket) -> None:
        assert early.is_set()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with running(tmp_path, serve=serve) as setup, setup.connect() as connection:
        connection.sendall(b"POST /v1.41/images/load HTTP/1.1\r\nHost: d\r\nContent-Length: 10\r\n\r\n12345")
        wait(lambda: bool(setup.daemon.received))
        early.set()
        connection.sendall(b"67890")
        assert read_answer(Reader(connection))[0] == 200


def test_an_answer_without_framing_ends_with_the_connection(tmp_path: Path) -> None:
    def serve(_: Received, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nlog line\n")

    with running(tmp_path, serve=serve) as setup, setup.connect() as connection:
        connection.sendall(b"GET /v1.41/containers/c/logs HTTP/1.1\r\nHost: d\r\n\r\n")
        answer = everything(connection)
        assert b"\r\nConnection: close\r\n" in answer
        assert answer.endswith(b"\r\n\r\nlog line\n")


@pytest.mark.parametrize("upgrade", [True, False])
def test_a_tunnel_has_two_ends(tmp_path: Path, *, upgrade: bool) -> None:
    """`printf x | docker run -i`: the client has no more to send, and still reads."""

    def serve(_: Received, connection: socket.socket) -> None:
        line = b"101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp" if upgrade else b"200 OK"
        connection.sendall(b"HTTP/1.1 " + line + b"\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\nfirst ")
        given = everything(connection)
        connection.sendall(b"then " + given[::-1])

    with running(tmp_path, serve=serve) as setup, setup.connect() as connection:
        switch = "Connection: Upgrade\r\nUpgrade: tcp\r\n" if upgrade else ""
        connection.sendall(f"POST /v1.41/containers/c/attach?stdin=1 HTTP/1.1\r\nHost: d\r\n{switch}\r\nabc".encode())
        reader = Reader(connection)
        assert reader.head(None) is not None
        connection.sendall(b"def")
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection, reader.pending) == b"first then fedcba"


def test_the_daemon_cannot_be_made_to_switch_where_no_tunnel_is(tmp_path: Path) -> None:
    def serve(_: Received, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")

    with running(tmp_path, serve=serve) as setup:
        assert setup.ask(GET)[0] == 502


def test_a_client_that_is_gone_ends_an_endless_answer(tmp_path: Path) -> None:
    ended = threading.Event()

    def serve(_: Received, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        everything(connection)
        ended.set()

    with running(tmp_path, serve=serve) as setup:
        with setup.connect() as connection:
            connection.sendall(b"GET /v1.41/events HTTP/1.1\r\nHost: d\r\n\r\n")
            assert Reader(connection).head(None)
        assert ended.wait(5)


def test_a_half_closed_client_still_gets_its_answer(tmp_path: Path) -> None:
    def serve(_: Received, connection: socket.socket) -> None:
        time.sleep(0.1)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with running(tmp_path, serve=serve) as setup, setup.connect() as connection:
        connection.sendall(GET)
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection).endswith(b"ok")


def test_an_answer_that_is_cut_off_ends_the_connection(tmp_path: Path) -> None:
    """Else the client would take the next answer for the rest of this."""

    def serve(_: Received, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")

    with running(tmp_path, serve=serve) as setup, setup.connect() as connection:
        connection.sendall(GET)
        assert everything(connection).endswith(b"5\r\nab")


def test_clients_negotiate_no_version_whose_fields_are_unknown_and_no_buildkit(tmp_path: Path) -> None:
    def serve(_: Received, connection: socket.socket) -> None:
        versions = b"Api-Version: 1.99\r\nBuilder-Version: 2\r\nContent-Length: 2"
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + versions + b"\r\n\r\nOK")

    with running(tmp_path, serve=serve) as setup:
        headers = setup.ask(GET)[1]
        assert (headers["api-version"], headers["builder-version"]) == ("1.56", "1")


def test_a_daemon_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with running(tmp_path) as setup:
        (tmp_path / "upstream").unlink()
        status, headers, body = setup.ask(GET)
        assert (status, headers["x-shim-gate"]) == (502, "upstream-unreachable")
        assert b"the Docker daemon does not answer (No such file or directory)" in body
        assert 'shim_gate_upstream_errors_total{subject="repo-a"} 1' in setup.gate.metrics.text(grants_readable=True)


def test_connections_beyond_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    with running(tmp_path) as setup, setup.connect() as first:
        first.sendall(GET)
        read_answer(Reader(first))
        status, headers, _ = setup.ask(GET)
        assert (status, headers["x-shim-gate"]) == (503, "connections-limit")


def test_refusals_and_devices_are_written_down_without_bodies(tmp_path: Path) -> None:
    with running(tmp_path, grants=FakeGrants(frozenset({GPU}))) as setup:
        setup.ask(GET)
        setup.ask(PRIVILEGED)
        setup.ask(post("/v1.41/containers/create?name=x", WANTS_GPU.encode(), "X-Registry-Auth: secret"))
        denied, granted = entries(setup)
        assert {key: denied[key] for key in ("decision", "reason", "method", "target", "pid", "uid")} == {
            "decision": "deny",
            "reason": "privileged",
            "method": "POST",
            "target": "/v1.41/containers/create",
            "pid": os.getpid(),
            "uid": os.getuid(),
        }
        assert granted["devices"] == [GPU]
        assert granted["sha256"] == hashlib.sha256(WANTS_GPU.encode()).hexdigest()
        assert "secret" not in setup.journal.read_text()


def test_an_end_closes_idle_connections_at_once(tmp_path: Path) -> None:
    with running(tmp_path) as setup, setup.connect() as connection:
        connection.sendall(GET)
        read_answer(Reader(connection))
        setup.server.stop()
        began = time.monotonic()
        assert connection.recv(10) == b""
        assert time.monotonic() - began < 3


def everything(connection: socket.socket, data: bytes = b"") -> bytes:
    while piece := connection.recv(65536):
        data += piece
    return data


def wait(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
