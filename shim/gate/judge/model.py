"""The values that a judgement takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # id or name of a container -> {"HostConfig": ..., "Config": ...} as `GET /containers/ID/json` has it, None: unknown
    Inspect = Callable[[str], dict[str, Any] | None]
    # a path of the host -> the same with all links resolved in the daemon's mount namespace
    RealPath = Callable[[str], str]

_MEBIBYTE = 1 << 20
RELAY, STREAM, TUNNEL = "relay", "stream", "tunnel"


@dataclass(frozen=True)
class Request:
    """An HTTP request whose head was parsed strictly.

    Attributes:
        method: in capitals.
        target: as received.
        headers: (name in small letters, value) in their order.
        body: of a judged route, without the framing of HTTP; None where there is none.
        length: the declared Content-Length, None without.
        is_chunked: whether the body comes in chunks.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    length: int | None = None
    is_chunked: bool = False

    def header(self, name: str) -> list[str]:
        """All values of a header, by its name in small letters."""
        return [value for key, value in self.headers if key == name]

    @property
    def has_body(self) -> bool:
        """Whether the head announces a body that is not empty."""
        return self.is_chunked or bool(self.length)


@dataclass(frozen=True)
class Policy:
    """What an operator allows a subject, apart from grants. The defaults allow what leads to no device.

    Attributes:
        subject: the name to which grants are given.
        min_api: the lowest version of the API that is passed on.
        runtimes: name of an allowed runtime -> the CDI names that its arguments stand for.
        env_live_runtimes: runtimes that read variables of a container's environment at its start.
        bind_roots: the only directories that may be bound; None: any that is not protected.
        never: directories of which nothing may be bound.
        readonly: directories that may be bound for reading.
        self_socket: the gate's socket, which replaces binds of docker.sock; "": no replacement.
        device_paths: nodes that may be given by path.
        annotation_prefixes: beginnings of the keys of allowed annotations.
        volume_types: types of file system that a local volume may mount.
        allow: switches: ipc-host, userns-host, cgroup-parent.
        builder: "classic", "daemon" (BuildKit passes, and the daemon keeps devices from it) or "deny".
        body_limit: bytes of a judged body.
        harden_env: set NVIDIA_VISIBLE_DEVICES=void where a create does not set it.
        harden_mknod: drop MKNOD where a create does not ask for it.
        default_runtime: fills an empty Runtime.
        node_names: path of a device node -> CDI names that give it, for messages.
    """

    subject: str = "default"
    min_api: tuple[int, int] = (1, 40)
    runtimes: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"": (), "runc": (), "io.containerd.runc.v2": ()}
    )
    env_live_runtimes: frozenset[str] = frozenset()
    bind_roots: tuple[str, ...] | None = None
    never: tuple[str, ...] = ("/dev", "/proc", "/sys", "/run", "/var/run", "/var/lib/docker", "/var/lib/containerd")
    readonly: tuple[str, ...] = (
        "/etc", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/boot", "/root",
    )  # fmt: skip
    self_socket: str = ""
    device_paths: frozenset[str] = frozenset()
    annotation_prefixes: tuple[str, ...] = ("cdi.k8s.io/", "org.opencontainers.image.", "com.docker.compose.")
    volume_types: frozenset[str] = frozenset({"tmpfs"})
    allow: frozenset[str] = frozenset()
    builder: str = "classic"
    body_limit: int = 4 * _MEBIBYTE
    harden_env: bool = False
    harden_mknod: bool = False
    default_runtime: str = ""
    node_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Admission:
    """A request whose head passed: where it goes, and what is still to be judged.

    Attributes:
        kind: of the route.
        target: canonical, as the daemon receives it.
        parameters: of the route's pattern, in order.
        query: the pairs of the query, decoded.
        mode: how request and response are passed on.
        reads_body: whether the body must be read and judged before anything is forwarded.
        upgrade: the protocol that is switched to, "" for none.
    """

    kind: str
    target: str
    parameters: tuple[str, ...]
    query: tuple[tuple[bytes, bytes], ...]
    mode: str
    reads_body: bool
    upgrade: str = ""


@dataclass(frozen=True)
class Decision:
    """Allowed, with what the daemon shall receive, or denied with a reason.

    Attributes:
        is_allowed: whether anything is forwarded.
        reason: a key of messages.REASONS.
        status: of the answer to a denied request; 0 where it is allowed.
        message: of the answer to a denied request.
        admission: of an allowed request.
        body: what replaces the received body; None: the received body passes unread, or there is none.
        names: the CDI names that the request gives to a container.
    """

    is_allowed: bool
    reason: str
    status: int = 0
    message: str = ""
    admission: Admission | None = None
    body: bytes | None = None
    names: tuple[str, ...] = ()
