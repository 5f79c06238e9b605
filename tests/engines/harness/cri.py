"""The calls of a kubelet to a CRI runtime: gRPC by curl, protobuf by forty lines, no generated code.

A message is a dict from field number to value: int, str, bytes, a message, or a list of these for a repeated field. The
numbers are those of the public CRI API, runtime.v1; only what the tests need is named.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Union

from . import images, programs
from .sandbox import Sandbox, wait_until

Value = Union[int, str, bytes, "Message", list["Value"]]
Message = dict[int, Value]

NODE, CONTAINER = 2, 1  # NamespaceMode
RUNNING, EXITED = 1, 2  # ContainerState


class CriError(Exception):
    """A call that the runtime refused; the text is what a kubelet would write into the pod's events."""


class Cri:
    """One CRI runtime, called through its socket.

    Arguments:
        directory: a directory for requests, answers and the containers' logs, seen alike inside and outside.
    """

    def __init__(self, sandbox: Sandbox, socket: Path, directory: Path) -> None:
        (self._curl,) = programs.find("curl")
        self._sandbox = sandbox
        self._socket = socket
        self._directory = directory
        directory.mkdir()

    def run_pod(self, name: str, annotations: Mapping[str, str], handler: str = "shim") -> Pod:
        """RunPodSandbox with the host's network and a runtime handler, "" for the default one; a Pod."""
        namespaces: Message = {1: NODE, 2: CONTAINER}  # network, pid
        linux: Message = {1: self._sandbox.cgroup, 2: {1: namespaces}}
        metadata: Message = {1: name, 2: f"uid-{name}", 3: "default"}
        config: Message = {1: metadata, 3: str(self._directory), 7: _map(annotations), 8: linux}
        answer = self.call("RunPodSandbox", {1: config, 2: handler})
        return Pod(self, _text(answer, 1), config)

    def output(self, container: str, beginning: str) -> str:
        """What the container of that name printed, its log without time, stream and tag, once a line begins so."""
        log = self._directory / f"{container}.log"

        def lines() -> list[str]:
            return [line.split(" ", 3)[3] for line in log.read_text(encoding="utf-8").splitlines()]

        wait_until(lambda: any(line.startswith(beginning) for line in lines()), f"{container} has printed {beginning}")
        return "\n".join(lines())

    def call(self, method: str, request: Message) -> dict[int, list[int | bytes]]:
        """One unary call of the RuntimeService; raises CriError with the message of the runtime."""
        body, answer, headers = (self._directory / name for name in ("request", "answer", "headers"))
        message = encode(request)
        body.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)  # gRPC: not compressed, length, message
        answer.write_bytes(b"")
        headers.unlink(missing_ok=True)
        called = self._sandbox.run(
            *(self._curl, "--silent", "--show-error", "--http2-prior-knowledge", "--unix-socket", self._socket),
            *("--header", "content-type: application/grpc", "--header", "te: trailers"),
            *("--data-binary", f"@{body}", "--output", answer, "--dump-header", headers),
            f"http://localhost/runtime.v1.RuntimeService/{method}",
        )
        fields = dict(line.split(": ", 1) for line in headers.read_text(encoding="ascii").splitlines() if ": " in line)
        # A refusal may come with a reset of the stream, which curl calls an error: the status of gRPC decides.
        assert "grpc-status" in fields, called.err
        if fields["grpc-status"] != "0":
            raise CriError(urllib.parse.unquote(fields.get("grpc-message", "")))
        return decode(answer.read_bytes()[5:])


class Pod:
    """A pod sandbox."""

    def __init__(self, cri: Cri, identity: str, config: Message) -> None:
        self._cri = cri
        self.id = identity
        self._config = config

    def create(
        self,
        name: str,
        annotations: Mapping[str, str],
        script: str,
        attempt: int = 0,
        more: Mapping[int, Value] | None = None,
    ) -> str:
        """CreateContainer of the busybox image; the container's id.

        Arguments:
            more: further fields of the configuration, such as mounts (7) and devices (8).
        """
        image: Message = {1: images.BUSYBOX}
        security: Message = {3: {1: NODE, 2: CONTAINER}}
        config: Message = {
            1: {1: name, 2: attempt},
            2: image,
            3: ["/bin/sh", "-c", script],
            10: _map(annotations),
            11: f"{name}.log",
            15: {2: security},
            **(more or {}),
        }
        return _text(self._cri.call("CreateContainer", {1: self.id, 2: config, 3: self._config}), 1)

    def start(self, container: str) -> None:
        """StartContainer."""
        self._cri.call("StartContainer", {1: container})

    def execute(self, container: str, *command: str) -> str:
        """ExecSync; the standard output."""
        return _text(self._cri.call("ExecSync", {1: container, 2: list(command), 3: 10}), 1)

    def update(self, container: str, memory: int) -> None:
        """UpdateContainerResources, with a limit of memory in bytes."""
        self._cri.call("UpdateContainerResources", {1: container, 2: {4: memory}})

    def status(self, container: str) -> tuple[int, int]:
        """ContainerStatus: the state, such as RUNNING, and the exit status."""
        (status,) = self._cri.call("ContainerStatus", {1: container})[1]
        assert isinstance(status, bytes)
        (state,), (code,) = (decode(status).get(number, [0]) for number in (3, 7))
        return int(state), int(code)

    def stop(self, container: str, seconds: int = 0) -> None:
        """StopContainer, by force after so many seconds."""
        self._cri.call("StopContainer", {1: container, 2: seconds})

    def remove_container(self, container: str) -> None:
        """RemoveContainer, stopped before by force."""
        self.stop(container)
        self._cri.call("RemoveContainer", {1: container})

    def remove(self) -> None:
        """StopPodSandbox and RemovePodSandbox, with all containers."""
        self._cri.call("StopPodSandbox", {1: self.id})
        self._cri.call("RemovePodSandbox", {1: self.id})


def encode(message: Message) -> bytes:
    """The wire form of a message."""
    out = b""
    for number, value in message.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int):
                out += _varint(number << 3) + _varint(one)
            else:
                content = one.encode() if isinstance(one, str) else encode(one) if isinstance(one, dict) else one
                assert isinstance(content, bytes), "a list in a list has no wire form"
                out += _varint(number << 3 | 2) + _varint(len(content)) + content
    return out


def decode(data: bytes) -> dict[int, list[int | bytes]]:
    """The fields of a message, each with all its values; raises ValueError at a wire type that CRI does not use."""
    fields: dict[int, list[int | bytes]] = {}
    stream = iter(data)
    for first in stream:
        tag = _read_varint(first, stream)
        value: int | bytes = _read_varint(next(stream), stream)
        if tag & 7 == 2:
            value = bytes(next(stream) for _ in range(int(value)))
        elif tag & 7 != 0:
            raise ValueError(f"wire type {tag & 7}")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(byte: int, stream: Iterator[int]) -> int:
    number, shift = byte & 0x7F, 7
    while byte & 0x80:
        byte = next(stream)
        number |= (byte & 0x7F) << shift
        shift += 7
    return number


def _map(pairs: Mapping[str, str]) -> list[Value]:
    return [{1: key, 2: value} for key, value in pairs.items()]


def _text(fields: dict[int, list[int | bytes]], number: int) -> str:
    (value,) = fields[number]
    assert isinstance(value, bytes)
    return value.decode()
