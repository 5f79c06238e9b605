"""The listener of a gate: a thread for each connection, counters on a socket of their own, an end in bounded time.

Threads fit: a subject's daemon sees tens of connections, most of them streams that wait, and code that blocks reads
from top to bottom.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

from shim.base import prometheus
from shim.gate.journal import Peer
from shim.gate.judge.messages import Denied
from shim.gate.session import Gate, Session, refused_bytes
from shim.host.sockets import peer

if TYPE_CHECKING:
    from types import FrameType

MAX_CONNECTIONS = 512
_STACK = 8 << 20  # addresses, not memory: C code of Python 3.13 needs 2 MiB to refuse JSON that is nested too deeply
_GRACE = 10.0  # seconds for streams after SIGTERM
_REFUSED = 1.0  # seconds for a connection beyond the limit
_REQUEST = 65536


class Server:
    """Serves a gate on sockets.

    Arguments:
        gate: what the connections share.
        listener: of the clients.
        counters: of the metrics, None for none.
    """

    def __init__(self, gate: Gate, listener: socket.socket, counters: socket.socket | None = None) -> None:
        self._gate = gate
        self._listener = listener
        self._counters = counters
        self._sessions: set[Session] = set()
        self._lock = threading.Lock()
        self._wake_reader, self._wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def stop(self) -> None:
        """Let `run` end; callable from a signal handler and from another thread."""
        os.write(self._wake_writer, b"x")

    def handle_signals(self) -> None:
        """End on SIGTERM and SIGINT."""

        def handler(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the interface of signal
            self.stop()

        signal.signal(signal.SIGTERM, handler)
        signal.signal(signal.SIGINT, handler)

    def run(self) -> bool:
        """Serve until `stop` is called, then close idle connections, and give the others 10 seconds.

        Returns: whether all connections have ended.
        """
        threading.stack_size(_STACK)
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        poll.register(self._listener, select.POLLIN)
        if self._counters is not None:
            poll.register(self._counters, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._wake_reader in ready:
                break
            if self._listener.fileno() in ready:
                self._accept()
            if self._counters is not None and self._counters.fileno() in ready:
                self._accept_scrape(self._counters)
        return self._end()

    def _end(self) -> bool:
        self._listener.close()
        if self._counters is not None:
            self._counters.close()
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            with self._lock:
                sessions = list(self._sessions)
            if not sessions:
                return True
            for session in sessions:
                if session.is_idle:
                    _shut(session.socket)
            time.sleep(0.02)
        return False

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # the client is gone, or there are no descriptors left for now
        with self._lock:
            is_full = len(self._sessions) >= MAX_CONNECTIONS
        if is_full:
            self._gate.metrics.add("refused")
            threading.Thread(target=self._refuse, args=(connection,), daemon=True).start()
            return
        session = Session(self._gate, connection, Peer(*peer(connection)))
        with self._lock:
            self._sessions.add(session)
        self._gate.metrics.add("connections")
        threading.Thread(target=self._serve, args=(session,), daemon=True).start()

    def _serve(self, session: Session) -> None:
        try:
            session.run()
        finally:
            with self._lock:
                self._sessions.discard(session)
            self._gate.metrics.add("connections", -1)

    def _refuse(self, connection: socket.socket) -> None:
        """Answer, and let the client send its request, so that it reads the answer instead of failing to write."""
        with connection:
            connection.settimeout(_REFUSED)
            try:
                connection.sendall(refused_bytes(Denied("connections-limit", limit=MAX_CONNECTIONS)))
                connection.shutdown(socket.SHUT_WR)
                connection.recv(_REQUEST)
            except OSError:
                return  # it does not read, or sends nothing

    def _accept_scrape(self, counters: socket.socket) -> None:
        try:
            connection, _ = counters.accept()
        except OSError:
            return
        threading.Thread(target=self._scrape, args=(connection,), daemon=True).start()

    def _scrape(self, connection: socket.socket) -> None:
        readable = self._gate.grants.names() is not None
        prometheus.answer(connection, self._gate.metrics.text(grants_readable=readable))


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is closed already
