"""A request that passed, on its way to the daemon, and the daemon's answer on its way back.

The head is written anew: what concerns a single connection is not passed on (RFC 9110 section 7.6.1), and the framing
is that of the body which is sent. There is no limit of time: `/events` and `logs --follow` stay silent for hours.
"""

from __future__ import annotations

import select
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.gate.connection import ClosedError, Reader
from shim.gate.judge.messages import Denied
from shim.gate.judge.model import TUNNEL
from shim.gate.judge.target import HIGHEST_API

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.gate.judge.model import Decision, Policy, Request

_OF_A_CONNECTION = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length", "expect"}
)
_BUFFER = 1 << 18
_RAW = ("application/vnd.docker.raw-stream", "application/vnd.docker.multiplexed-stream")
_NO_BODY = frozenset({204, 304})
_LAST_CHUNK = b"0\r\n\r\n"


class UnansweredError(Exception):
    """The daemon does not answer, and nothing was sent to the client yet."""


@dataclass
class Answer:
    """The head of an answer of the daemon.

    Attributes:
        line: the status line.
        status: its number.
        headers: (name, value) in their order.
    """

    line: str
    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)

    def header(self, name: str) -> str:
        """The first value of a header, by its name in small letters; "" for none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


def parse_answer(head: bytes) -> Answer:
    """The head of an answer. Raises UnansweredError: it is none."""
    line, *fields = head.decode("latin-1").split("\r\n")
    words = line.split(" ", 2)
    if len(words) < 2 or not words[1].isdecimal():
        raise UnansweredError("the daemon's answer is not HTTP/1.1")
    pairs = (item.partition(":") for item in fields)
    return Answer(line, int(words[1]), [(name.strip(), value.strip()) for name, _, value in pairs])


def request_head(request: Request, decision: Decision) -> bytes:
    """The head that the daemon receives."""
    admission = decision.admission
    assert admission is not None, "only what is allowed is forwarded"  # noqa: S101 - for the type checker
    named = {word.strip().lower() for value in request.header("connection") for word in value.split(",")}
    dropped = _OF_A_CONNECTION | named
    lines = [f"{request.method} {admission.target} HTTP/1.1", "Host: docker"]
    for name, value in request.headers:
        if name not in dropped and not name.startswith("proxy-"):
            lines.append(f"{name}: {value}")
    if decision.body is not None:
        lines.append(f"Content-Length: {len(decision.body)}")
    elif request.is_chunked:
        lines.append("Transfer-Encoding: chunked")
    elif request.length is not None:
        lines.append(f"Content-Length: {request.length}")
    switch = f"Connection: Upgrade\r\nUpgrade: {admission.upgrade}" if admission.upgrade else "Connection: close"
    return "\r\n".join([*lines, switch, "", ""]).encode("latin-1")


def forward(
    request: Request,
    decision: Decision,
    client: Reader,
    upstream: socket.socket,
    policy: Policy,
    tunnels: Callable[[int], object],
) -> bool:
    """Send a request to the daemon and its answer to the client.

    Arguments:
        request: its body is still to be read from the client where the decision has none.
        decision: on it.
        client: the connection to the client.
        upstream: a new connection to the daemon.
        policy: of the subject.
        tunnels: called with 1 when a tunnel begins, and -1 at its end.

    Returns: whether the connection to the client can carry another request.
    Raises UnansweredError. ClosedError or OSError: one of both is gone, and the connection to the client has ended.
    """
    try:
        upstream.sendall(request_head(request, decision) + (decision.body or b""))
    except OSError as error:
        raise UnansweredError(error.strerror) from None
    sender = None
    if decision.body is None and request.has_body:
        sender = threading.Thread(target=_send_body, args=(request, client, upstream), daemon=True)
        sender.start()
    reader = Reader(upstream)
    watch = _Watch(upstream, client.socket)
    answer = _answer(reader, watch)
    admission = decision.admission
    is_tunnel = admission is not None and admission.mode == TUNNEL and _switches(answer, admission.upgrade)
    if answer.status == 101 and not is_tunnel:
        raise UnansweredError("the daemon switched to another protocol where nothing was to be switched")
    if is_tunnel:
        client.socket.sendall(_head_of_tunnel(answer))
        tunnels(1)
        try:
            _tunnel(client, reader, watch)
        finally:
            tunnels(-1)
        return False
    has_body = request.method != "HEAD" and answer.status not in _NO_BODY
    length, is_chunked = answer.header("content-length"), "chunked" in answer.header("transfer-encoding").lower()
    is_framed = not has_body or length.isdecimal() or is_chunked
    closes = any("close" in value.lower() for value in request.header("connection")) or not is_framed
    client.socket.sendall(_head_of_answer(answer, policy, closes=closes))
    announced = int(length) if length.isdecimal() and not is_chunked else None
    complete = not has_body or _copy_body(reader, client.socket, announced, watch, is_chunked=is_chunked)
    if sender is not None:
        sender.join(0.2)
        complete = complete and not sender.is_alive()
    return complete and not closes


def _switches(answer: Answer, upgrade: str) -> bool:
    """Whether the connection is no more HTTP: after 101, or, as clients before 1.12 have it, 200 with a raw stream."""
    if answer.status == 101:
        return bool(upgrade)
    is_framed = answer.header("content-length") or answer.header("transfer-encoding")
    return answer.status == 200 and answer.header("content-type") in _RAW and not is_framed


def _answer(reader: Reader, watch: _Watch) -> Answer:
    """The daemon's final answer; interim ones are dropped, since the gate answers `Expect` itself."""
    while True:
        if not reader.pending:
            watch.wait()
        try:
            head = reader.head(None)
        except (ClosedError, OSError):
            head = None
        if head is None:
            raise UnansweredError("the daemon closed the connection without an answer")
        answer = parse_answer(head)
        if answer.status >= 200 or answer.status == 101:
            return answer


class _Watch:
    """Waits for the daemon while the client is there.

    Arguments:
        upstream: of the daemon.
        client: POLLHUP says that it has closed both directions; one that only sends no more still reads.
    """

    def __init__(self, upstream: socket.socket, client: socket.socket) -> None:
        self._upstream = upstream.fileno()
        self._poll = select.poll()
        self._poll.register(upstream, select.POLLIN)
        self._poll.register(client, 0)

    def wait(self) -> None:
        """Wait until the daemon sends something, or closes. Raises ClosedError: the client is gone."""
        if self._upstream not in dict(self._poll.poll()):
            raise ClosedError


def _send_body(request: Request, client: Reader, upstream: socket.socket) -> None:
    """The body of a stream, framed as it came. The daemon answers meanwhile, or has no more use for it."""
    try:
        for data in client.body(request):
            upstream.sendall(b"%x\r\n%s\r\n" % (len(data), data) if request.is_chunked else data)
        if request.is_chunked:
            upstream.sendall(_LAST_CHUNK)
    except (OSError, ClosedError, Denied):
        _shut(upstream, socket.SHUT_WR)  # an incomplete body, which the daemon notices


def _copy_body(reader: Reader, client: socket.socket, length: int | None, watch: _Watch, *, is_chunked: bool) -> bool:
    """The body of an answer; whether its end came as announced.

    Chunks are copied as they are: the daemon closes the connection behind them, as it was asked to.
    """
    copied, end = 0, b""
    buffer = memoryview(bytearray(_BUFFER))
    view = memoryview(reader.some() if reader.pending else b"")
    while length is None or copied < length:
        if not view:
            watch.wait()
            view = buffer[: reader.socket.recv_into(buffer)]
            if not view:
                return is_chunked and end == _LAST_CHUNK
        client.sendall(view)
        copied += len(view)
        end = (end + bytes(view[-len(_LAST_CHUNK) :]))[-len(_LAST_CHUNK) :]
        view = buffer[:0]
    return copied == length


def _head_of_answer(answer: Answer, policy: Policy, *, closes: bool) -> bytes:
    lines = [answer.line]
    for name, value in answer.headers:
        key = name.lower()
        if key in ("connection", "keep-alive", "upgrade", "trailer"):
            continue
        lines.append(f"{name}: {_of_ping(key, value, policy)}")
    if closes:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _of_ping(name: str, value: str, policy: Policy) -> str:
    """What clients negotiate by: no version whose fields are unknown here, no BuildKit where it is off."""
    if name == "api-version":
        major, _, minor = value.partition(".")
        if major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) > HIGHEST_API:
            return "{}.{}".format(*HIGHEST_API)
    if name == "builder-version" and policy.builder != "daemon":
        return "1"
    return value


def _head_of_tunnel(answer: Answer) -> bytes:
    return "\r\n".join([answer.line, *(f"{name}: {value}" for name, value in answer.headers), "", ""]).encode("latin-1")


def _tunnel(client: Reader, upstream: Reader, watch: _Watch) -> None:
    """Bytes in both directions, each with an end of its own (`printf x | docker run -i` closes only its own)."""
    back = threading.Thread(target=_pump, args=(client, upstream.socket), daemon=True)
    back.start()
    try:
        _pump(upstream, client.socket, watch)
    except ClosedError:
        _shut(upstream.socket, socket.SHUT_RDWR)
    poll = select.poll()
    poll.register(upstream.socket, 0)
    while back.is_alive():
        if poll.poll(0):  # POLLHUP: the daemon has closed both directions
            _shut(client.socket, socket.SHUT_RDWR)
        back.join(0.25)


def _pump(source: Reader, target: socket.socket, watch: _Watch | None = None) -> None:
    try:
        if source.pending:
            target.sendall(source.some(len(source.pending)))
        buffer = memoryview(bytearray(_BUFFER))
        while True:
            if watch is not None:
                watch.wait()
            count = source.socket.recv_into(buffer)
            if not count:
                break
            target.sendall(buffer[:count])
    except OSError:
        _shut(source.socket, socket.SHUT_RD)
    _shut(target, socket.SHUT_WR)


def _shut(connection: socket.socket, how: int) -> None:
    try:
        connection.shutdown(how)
    except OSError:
        return  # the peer was faster
