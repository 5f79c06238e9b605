"""A gate on real sockets, in front of a daemon that records what reaches it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shim.gate import head
from shim.gate.connection import ClosedError, Reader
from shim.gate.grants import GrantsFile
from shim.gate.journal import Journal
from shim.gate.judge import Policy
from shim.gate.metrics import Metrics
from shim.gate.server import Server
from shim.gate.session import Gate
from shim.host.sockets import listen

SECONDS = 20
Serve = Callable[["Received", socket.socket], None]


@dataclass
class Received:
    """A request that reached the daemon."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes


class FakeGrants(GrantsFile):
    """The grants of a case, in place of a file."""

    def __init__(self, names: frozenset[str] | None) -> None:
        super().__init__("", "")
        self._names = names

    def names(self) -> frozenset[str] | None:
        return self._names


def answer_ok(received: Received, connection: socket.socket) -> None:
    """What a daemon answers that has nothing to report: 101 where it was asked to switch, else an empty object."""
    if any(name == "upgrade" for name, _ in received.headers):
        connection.sendall(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
    else:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")


@dataclass
class Daemon:
    """A daemon that records every request but those by which the gate inspects a container.

    Attributes:
        listener: of its socket.
        containers: that it knows.
        serve: answers a request.
    """

    listener: socket.socket
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    serve: Serve = answer_ok
    received: list[Received] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            reader = Reader(connection)
            try:
                text = reader.head(None)
                if text is None:
                    return
                if b" HTTP/1.0" in text:
                    self._answer_gate(text, connection)
                    return
                parsed = head.parse(text)
                entry = Received(text.decode("latin-1").split("\r\n")[0], list(parsed.headers), b"")
                self.received.append(entry)
                for data in reader.body(parsed):
                    entry.body += data
                self.serve(entry, connection)
            except (OSError, ClosedError):
                return

    def _answer_gate(self, text: bytes, connection: socket.socket) -> None:
        """`GET /containers/NAME/json`, `/info` and `/version` of the gate itself."""
        path = text.decode("latin-1").split(" ")[1]
        own = {"/info": self.info, "/version": {"Version": "test"}}
        value = own[path] if path in own else self.containers.get(path.split("/")[2])
        body = json.dumps(value or {"message": "No such container"}).encode()
        line = b"HTTP/1.1 200 OK" if value is not None else b"HTTP/1.1 404 Not Found"
        connection.sendall(line + b"\r\nContent-Type: application/json\r\n\r\n" + body)


@dataclass
class Setup:
    """A running gate and its daemon."""

    path: str
    daemon: Daemon
    gate: Gate
    server: Server
    journal: Path

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(SECONDS)
        connection.connect(self.path)
        return connection

    def ask(self, raw: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to a request, on a connection of its own."""
        with self.connect() as connection:
            connection.sendall(raw)
            return read_answer(Reader(connection), has_body=not raw.startswith(b"HEAD "))


def read_answer(reader: Reader, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
    """An answer with Content-Length, or without a body."""
    text = reader.head(None)
    assert text is not None, "the gate closed the connection without an answer"
    line, *fields = text.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (item.partition(":") for item in fields)}
    body = b""
    length = int(headers.get("content-length", "0")) if has_body else 0
    while len(body) < length:
        body += reader.some(length - len(body))
    return int(line.split(" ")[1]), headers, body


@contextmanager
def running(
    directory: str | Path,
    policy: Policy | None = None,
    grants: GrantsFile | None = None,
    *,
    serve: Serve = answer_ok,
    containers: dict[str, dict[str, Any]] | None = None,
    realpath: Callable[[str], str] = lambda path: path,
) -> Iterator[Setup]:
    """A gate and a daemon in this process, for the duration of the block."""
    upstream = listen(f"{directory}/upstream")
    daemon = Daemon(upstream, containers or {}, serve)
    threading.Thread(target=daemon.run, daemon=True).start()
    policy = policy or Policy("repo-a")
    journal = Path(directory, "journal")
    with journal.open("ab", buffering=0) as file:
        gate = Gate(
            policy,
            grants if grants is not None else FakeGrants(frozenset()),
            f"{directory}/upstream",
            realpath,
            Journal(file.fileno(), policy.subject),
            Metrics(policy.subject),
        )
        server = Server(gate, listen(f"{directory}/gate"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            yield Setup(f"{directory}/gate", daemon, gate, server, journal)
        finally:
            server.stop()
            thread.join(SECONDS)
            upstream.shutdown(socket.SHUT_RDWR)
            upstream.close()
