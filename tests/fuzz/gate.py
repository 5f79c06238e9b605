"""`make fuzz FUZZ=gate`: requests in all their spellings, as the gate judges them and as a daemon understands them.

Heads with odd lines, bodies with names in another case, repeated, merged, of other types, with dangerous members
grafted in. What must hold of a request that the gate passes:

    a daemon reads the same method, route and framing from the bytes of the client and from what is forwarded
    neither of the two bodies has anything, as a daemon reads them, that leads to a device without a grant

An input with which that does not hold is written as crash-gate-DIGEST;

    cd tests && python3 -m fuzz.gate FILE...

reads such files once more.
"""

from __future__ import annotations

import collections
import itertools
import json
import posixpath
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conformance import gate as vectors

from fuzz import command, dockerlike
from shim.gate import head, relay
from shim.gate.judge import Decision, Denied, Policy, Request, decide

Random = random.Random
GRANTED = "nvidia.com/gpu=0"
POLICY = Policy("fuzz")
VECTORS = Path(__file__).parent.parent / "conformance/vectors/gate.json"
_HOST = ("/dev/", "/proc/", "/sys/", "/run/", "/var/run/", "/var/lib/docker/")
_CAPABILITIES = {"SYS_ADMIN", "ALL", "BPF", "SYS_RAWIO", "DAC_READ_SEARCH"}


# --- the contract ---


def outcome(data: bytes) -> str:
    """The reason of the gate's decision on a request.

    Raises:
        AssertionError: a daemon would understand a request that passes in another way.
    """
    text, end, rest = data.partition(head.END)
    try:
        if not end:
            head.check_partial(data)
            return "incomplete"
        parsed = head.parse(text)
        body = _dechunked(rest) if parsed.is_chunked else rest[: parsed.length or 0]
    except Denied as denied:
        return denied.reason
    request = Request(parsed.method, parsed.target, parsed.headers, body, parsed.length, parsed.is_chunked)
    decision = decide(request, POLICY, frozenset({GRANTED}), lambda _: None, lambda path: path)
    if decision.is_allowed:
        check(data, request, decision)
    else:
        assert decision.message.isprintable()
        assert decision.message.endswith(f" [{decision.reason}]")
    return decision.reason


def check(data: bytes, request: Request, decision: Decision) -> None:
    """Assert that a daemon understands a request that passes as the gate does."""
    admission = decision.admission
    assert admission is not None
    received = dockerlike.read_head(data)
    sent_bytes = relay.request_head(request, decision)
    sent = dockerlike.read_head(sent_bytes)
    assert sent_bytes.count(head.END) == 1
    assert sent_bytes.isascii() or not data.isascii()
    assert received.method == sent.method == request.method
    assert received.path == sent.path, (received.path, sent.path)
    kind = dockerlike.route(received)
    assert kind in (None, admission.kind), (kind, admission.kind)
    assert (received.length, received.is_chunked) == (request.length or 0, request.is_chunked)
    if decision.body is not None:
        assert (sent.length, sent.is_chunked) == (len(decision.body), False)
    assert ("upgrade" in sent.headers) == bool(admission.upgrade)
    assert len(sent.headers["host"]) == 1
    if kind in dockerlike.BODIES:
        assert decision.body is not None
        try:
            forwarded = dockerlike.decode(kind, decision.body)
            assert dangers(kind, forwarded) == [], dangers(kind, forwarded)
            original = dockerlike.decode(kind, request.body or b"")
        except dockerlike.RefusedError:
            return  # a type that the gate leaves to the daemon, which refuses it
        dropped = ["paths"]  # at the top of a create, where an empty list is a field without a value
        assert [danger for danger in dangers(kind, original) if danger not in dropped] == [], dangers(kind, original)


def dangers(kind: str, body: dict[str, Any]) -> list[str]:
    """What leads to a device in a body as a daemon reads it, written without a look at the judgement."""
    if kind == "exec":
        return ["privileged"] if body.get("Privileged") else []
    if kind == "volume":
        options = body.get("DriverOpts") or {}
        is_bound = "bind" in (options.get("o") or "") or options.get("type") not in (None, "", "tmpfs")
        return ["volume"] if is_bound or body.get("Driver") not in (None, "", "local") else []
    found: list[str] = []
    for host in (body, body.get("HostConfig") or {}) if kind == "create" else (body,):
        found += _of_host(host)
    for variable in body.get("Env") or ():
        name, _, value = str(variable).partition("=")
        if name == "NVIDIA_VISIBLE_DEVICES" and value not in ("", "void", "none", "0", GRANTED):
            found.append(f"variable {variable}")
    return found


def _of_host(host: dict[str, Any]) -> list[str]:
    found = [
        name for name in ("Privileged", "Devices", "DeviceCgroupRules", "Cgroup", "CgroupParent") if host.get(name)
    ]
    for request in host.get("DeviceRequests") or ():
        if (request or {}).get("Driver") != "cdi" or not {GRANTED}.issuperset(request.get("DeviceIDs") or ()):
            found.append(f"request {request}")
    for key, value in (host.get("Annotations") or {}).items():
        if not key.startswith(POLICY.annotation_prefixes) or (key.startswith("cdi.k8s.io/") and value != GRANTED):
            found.append(f"annotation {key}")
    found += [name for name in ("PidMode", "IpcMode", "UsernsMode") if host.get(name) == "host"]
    if host.get("Runtime") not in (None, "", "runc", "io.containerd.runc.v2"):
        found.append("runtime")
    if _CAPABILITIES.intersection(name.upper().removeprefix("CAP_") for name in host.get("CapAdd") or () if name):
        found.append("capability")
    found += ["paths" for name in ("MaskedPaths", "ReadonlyPaths") if host.get(name) == []]
    sources = [bind.split(":")[0] for bind in host.get("Binds") or () if bind and ":" in bind]
    for mount in host.get("Mounts") or ():
        if (mount or {}).get("Type") in (None, "bind", "npipe", "cluster"):
            sources.append((mount or {}).get("Source") or "/")
    for source in sources:
        path = posixpath.normpath(f"/{source}") if source.startswith("/") else ""
        if path in ("/", "/var") or f"{path}/".startswith(_HOST):
            found.append(f"source {source}")
    return found


def _dechunked(data: bytes) -> bytes:
    """The body of chunks as the gate reads it, without a socket. Raises Denied."""
    body = b""
    while True:
        line, end, data = data.partition(b"\r\n")
        if not end or not line or not all(byte in b"0123456789abcdefABCDEF" for byte in line):
            raise Denied("http-framing", what="no chunk")
        size = int(line, 16)
        if data[size : size + 2] != b"\r\n":
            raise Denied("http-framing", what="no end of a chunk")
        body += data[:size]
        data = data[size + 2 :]
        if not size:
            return body


# --- spellings ---

_GRAFTS: tuple[tuple[str, Any], ...] = (
    ("Privileged", True),
    ("Devices", [{"PathOnHost": "/dev/kfd"}]),
    ("Devices", [{}]),
    ("DeviceRequests", [{"Driver": "cdi", "DeviceIDs": [GRANTED]}]),
    ("DeviceRequests", [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=1"]}]),
    ("DeviceRequests", [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]),
    ("DeviceRequests", [{}]),
    ("DeviceCgroupRules", ["a *:* rwm"]),
    ("Annotations", {"cdi.k8s.io/x": "nvidia.com/gpu=1"}),
    ("Annotations", {"run.oci.handler": "krun"}),
    ("Binds", ["/dev:/x"]),
    ("Binds", ["/srv:/x:ro"]),
    ("Binds", ["//proc/../dev/./dri:/x"]),
    ("Mounts", [{"Type": "bind", "Source": "/dev", "Target": "/x"}]),
    ("Mounts", [{"Type": "volume", "Source": "v", "Target": "/x"}]),
    ("CapAdd", ["sys_admin"]),
    ("Runtime", "nvidia"),
    ("PidMode", "host"),
    ("MaskedPaths", []),
    ("HostConfig", {"Privileged": True}),
    ("HostConfig", {}),
    ("HostConfig", None),
    ("Env", ["NVIDIA_VISIBLE_DEVICES=all"]),
    ("DriverOpts", {"type": "none", "o": "bind", "device": "/dev"}),
    ("NewField", {"x": 1}),
    ("NewField", None),
)
_LINES = (
    b"Content-Length: 3", b"Transfer-Encoding: chunked", b"Upgrade: tcp", b"Upgrade: h2c", b"Connection: Upgrade",
    b"Connection: Content-Type", b" folded", b"X: a\nPrivileged: b", b"Content-Type: text/plain", b"Host: x",
    b"Expect: 100-continue", b"Content-Length : 0", b"Content-Type: application/json; charset=utf-8",
)  # fmt: skip
_PATHS = ((b"/", b"%2F"), (b"/", b"//"), (b"/", b"/./"), (b"c", b"%63"), (b"/", b"/x/../"), (b"v1.47", b"v1.24"))


class _Text(str):
    """JSON as it is written."""


def _spelled(source: Random, value: Any) -> str:
    """A value as JSON, with members renamed, repeated, and of other types."""
    if isinstance(value, _Text):
        return value
    if source.random() < 0.01:
        return source.choice(("null", "[]", "{}", '""', "0", "true", "1e0", '"\\ud800"', "NaN", "[null]"))
    if isinstance(value, dict):
        members = list(value.items())
        added = [source.choice(_GRAFTS)] if source.random() < 0.2 else []
        added += [source.choice(members)] if members and source.random() < 0.05 else []
        for name, item in added:
            other = name.lower() if name in value and source.random() < 0.5 else name
            members.insert(source.randrange(len(members) + 1), (other, item))
        return "{" + ",".join(f"{_name(source, name)}:{_spelled(source, item)}" for name, item in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_spelled(source, item) for item in value) + "]"
    return json.dumps(value)


def _name(source: Random, name: str) -> str:
    way = source.random()
    if way < 0.93 or not name:
        return json.dumps(name)
    if way < 0.96:
        return json.dumps("".join(source.choice((char.upper(), char.lower())) for char in name))
    if way < 0.98:
        other = {"s": "\u017f", "k": "\u212a"}
        return json.dumps("".join(other.get(char, char) for char in name), ensure_ascii=source.random() < 0.5)
    at = source.randrange(len(name))
    return f'"{name[:at]}\\u{ord(name[at]):04x}{name[at + 1 :]}"'


def _mutated(source: Random, data: bytes) -> bytes:
    """A request of the pool with another body or head."""
    text, end, body = data.partition(head.END)
    if source.random() < 0.7:
        try:
            value = json.loads(body)
        except ValueError:
            value = {"Image": "a", "HostConfig": {}}
        body = _spelled(source, value).encode("utf-8", "surrogatepass")
        lines = [line for line in text.split(b"\r\n") if not line.lower().startswith((b"content-l", b"transfer-e"))]
        if source.random() < 0.1:
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            lines.append(b"Transfer-Encoding: chunked")
        else:
            lines.append(b"Content-Length: %d" % len(body))
        text = b"\r\n".join(lines)
    if source.random() < 0.2:
        lines = text.split(b"\r\n")
        lines.insert(source.randrange(1, len(lines) + 1), source.choice(_LINES))
        text = source.choice((b"\r\n", b"\r\n", b"\r\n", b"\n")).join(lines)
    if source.random() < 0.1:
        old, new = source.choice(_PATHS)
        text = text.replace(old, new, source.choice((1, 2)))
    data = text + end + body
    if source.random() < 0.15:
        at = source.randrange(len(data) + 1)
        data = (
            data[:at]
            + source.choice((b"", b"\x00", b"\xff", b"\n", b" ", b"\r", data[at : at + 4] * 2))
            + data[at + 1 :]
        )
    return data


def pool(files: list[bytes]) -> list[bytes]:
    """The requests of all vectors, and those of files."""
    cases = json.loads(VECTORS.read_text())
    return [*files, *(wired for wired in map(vectors.wire, cases) if len(wired) < 8192)]


def inputs(seed: int, requests: list[bytes]) -> Iterator[bytes]:
    """Inputs without end."""
    source = Random(seed)
    while True:
        yield _mutated(source, source.choice(requests))


# --- the run ---


def run(seed: int, files: list[bytes], go_on: Callable[[], bool], crashes: Path) -> collections.Counter[str]:
    """Judge inputs as long as `go_on` says; how often each reason came.

    Raises:
        Exception: the gate and a daemon contradict each other; the input lies in `crashes`.
    """
    tally: collections.Counter[str] = collections.Counter()
    requests = pool(files)
    for number, data in enumerate(itertools.chain(requests, inputs(seed, requests))):
        if number >= len(requests) and not go_on():
            break
        with command.kept("gate", data, crashes):
            tally[outcome(data)] += 1
    return tally


def main() -> int:
    """Replay files, or fuzz with the files of a directory to begin with."""
    return command.main("gate", "Requests to the gate.", lambda *given: command.lines(run(*given)))


if __name__ == "__main__":
    raise SystemExit(main())
