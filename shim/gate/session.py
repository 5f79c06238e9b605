"""A connection of a client: requests, one after the other, each judged and then passed on or refused."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from shim.gate import grpc_refusal, head, relay, upstream
from shim.gate.connection import ClosedError, Reader
from shim.gate.judge import Decision, Denied, Request, admit, decide
from shim.gate.judge.decision import refusal
from shim.host.sockets import connect

if TYPE_CHECKING:
    from shim.gate.grants import GrantsFile
    from shim.gate.journal import Journal, Peer
    from shim.gate.judge.model import Admission, Policy, RealPath
    from shim.gate.metrics import Metrics

_HEAD = 30.0  # seconds for a head, from its first byte on
_BODY = 60.0  # seconds without a byte of a body that is judged
_DRAIN = 2.0  # seconds for the rest of a refused request
_DRAINED = 64 << 20
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NEED_GRANTS = frozenset({"create", "update", "start"})
_BROKEN = frozenset({"http-framing", "http-malformed", "http-version", "http-head", "http-timeout"})


@dataclass(frozen=True)
class Gate:
    """What all connections of a gate share.

    Attributes:
        policy: of the subject.
        grants: of the subject.
        upstream: path of the daemon's socket.
        realpath: resolves links as the daemon does.
        journal: where decisions are written down.
        metrics: where they are counted.
    """

    policy: Policy
    grants: GrantsFile
    upstream: str
    realpath: RealPath
    journal: Journal
    metrics: Metrics


class Session:
    """A client's connection.

    Arguments:
        gate: shared with other connections.
        connection: of the client.
        peer: the client.
    """

    def __init__(self, gate: Gate, connection: socket.socket, peer: Peer) -> None:
        self.is_idle = True  # between two requests: may be closed at once
        self.socket = connection
        self._gate = gate
        self._peer = peer
        self._reader = Reader(connection)

    def run(self) -> None:
        """Serve requests until the client or a broken request ends the connection."""
        try:
            while self._serve():
                self.is_idle = True
        except (ClosedError, OSError):
            return  # the client is gone
        finally:
            self.socket.close()

    def _serve(self) -> bool:
        try:
            text = self._reader.head(_HEAD)
            if text is None:
                return False
            self.is_idle = False
            request = head.parse(text)
        except Denied as denied:
            return self._refuse(refusal(denied), None, None)
        try:
            admission = admit(request, self._gate.policy)
        except Denied as denied:
            return self._refuse(refusal(denied), request, None)
        return self._answer(request, admission)

    def _answer(self, request: Request, admission: Admission) -> bool:
        gate = self._gate
        if request.has_body and request.header("expect"):
            self.socket.sendall(_CONTINUE)
        if admission.reads_body and request.has_body:
            try:
                request = self._with_body(request)
            except Denied as denied:
                return self._refuse(refusal(denied), request, None)
        grants = gate.grants.names() if admission.kind in _NEED_GRANTS else frozenset()
        try:
            decision = decide(request, gate.policy, grants, self._inspect, gate.realpath)
            if not decision.is_allowed:
                return self._refuse(decision, request, request.body)
            self._note(decision, request, request.body)
            connection = connect(gate.upstream)
        except OSError as error:
            gate.metrics.add("unanswered")
            unreachable = Denied("upstream-unreachable", what=error.strerror or str(error))
            return self._refuse(refusal(unreachable), request, request.body)
        try:
            return self._forward(request, decision, connection)
        finally:
            connection.close()

    def _inspect(self, name: str) -> dict[str, Any] | None:
        return upstream.container(self._gate.upstream, name)

    def _forward(self, request: Request, decision: Decision, connection: socket.socket) -> bool:
        gate = self._gate
        try:
            return relay.forward(
                request,
                decision,
                self._reader,
                connection,
                gate.policy,
                lambda count: gate.metrics.add("tunnels", count),
            )
        except relay.UnansweredError as error:
            gate.metrics.add("unanswered")
            unreachable = Denied("upstream-unreachable", what=str(error))
            self._send(refusal(unreachable), request.method, closes=True)
            return False

    def _with_body(self, request: Request) -> Request:
        """The request with its body, of at most the policy's limit. Raises Denied, ClosedError."""
        limit = self._gate.policy.body_limit
        body = bytearray()
        self.socket.settimeout(_BODY)
        for data in self._reader.body(request):
            body += data
            if len(body) > limit:
                raise Denied("http-too-large", limit=limit)
        self.socket.settimeout(None)
        return Request(request.method, request.target, request.headers, bytes(body), request.length, request.is_chunked)

    def _refuse(self, decision: Decision, request: Request | None, body: bytes | None) -> bool:
        """Answer a request that is not passed on; whether the connection can carry another one."""
        self._note(decision, request, body)
        if request is not None and decision.reason == "builder-grpc" and grpc_refusal.is_understood(request):
            grpc_refusal.serve(self._reader, request, decision.message)
            self._drain()
            return False
        closes = request is None or decision.reason in _BROKEN or (body is None and request.has_body)
        self._send(decision, request.method if request else "", closes=closes)
        if closes:
            self._drain()
        return not closes

    def _send(self, decision: Decision, method: str, *, closes: bool) -> None:
        self.socket.sendall(_answer_bytes(decision, closes=closes, has_content=method != "HEAD"))

    def _drain(self) -> None:
        """Read what the client still sends, so that it reads the answer instead of failing to write."""
        self.socket.shutdown(socket.SHUT_WR)
        deadline, drained = time.monotonic() + _DRAIN, 0
        while drained < _DRAINED and time.monotonic() < deadline:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            data = self.socket.recv(1 << 18)
            if not data:
                return
            drained += len(data)

    def _note(self, decision: Decision, request: Request | None, body: bytes | None) -> None:
        gate = self._gate
        gate.metrics.decided(is_allowed=decision.is_allowed, reason=decision.reason)
        target = decision.admission.target if decision.admission else request.target if request else ""
        gate.journal.decision(decision, request.method if request else "", target, self._peer, body)


def refused_bytes(denied: Denied) -> bytes:
    """The whole answer to a connection that is not served."""
    return _answer_bytes(refusal(denied), closes=True, has_content=True)


def _answer_bytes(decision: Decision, *, closes: bool, has_content: bool) -> bytes:
    content = json.dumps({"message": decision.message}).encode("ascii") + b"\n"
    lines = [f"HTTP/1.1 {decision.status} {HTTPStatus(decision.status).phrase}", "Content-Type: application/json"]
    lines += [f"X-Shim-Gate: {decision.reason}", f"Content-Length: {len(content)}"]
    lines += ["Connection: close"] if closes else []
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (content if has_content else b"")
