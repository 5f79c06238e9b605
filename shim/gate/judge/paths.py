"""Which paths of the host may be bound into a container, and how.

A source is judged as it is written and once more with its links resolved as the daemon resolves them: the string of a
link proves nothing, and runc resolves the source again at each start.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from shim.gate.judge.json_strict import quoted
from shim.gate.judge.messages import Denied

if TYPE_CHECKING:
    from shim.gate.judge.model import Policy, RealPath

# Below these the NVIDIA runtime reads names of devices from the targets of mounts
_DEVICE_LISTS = ("/var/run/nvidia-container-devices", "/run/nvidia-container-devices")
_DOCKER_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
_ODD = re.compile(r"[\\\x00-\x1f\x7f]")
_VOLUME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SHARED = ("shared", "rshared")
_PROPAGATIONS = ("", "private", "rprivate", "slave", "rslave")


def check_target(target: str) -> None:
    """Refuse a mount target that is an instruction to a runtime. Raises Denied: mount-device-list."""
    normal = _normal("/" + target)
    if any(_is_below(normal, directory) for directory in _DEVICE_LISTS):
        raise Denied("mount-device-list", target=quoted(target))


def check_propagation(mode: str) -> None:
    """Refuse mounts that appear outside of the container. Raises Denied: bind-propagation."""
    if mode not in _PROPAGATIONS:
        raise Denied("bind-propagation", mode=quoted(mode))


def split_bind(bind: str) -> tuple[str, str, list[str]]:
    """The source ("" for an anonymous volume), the target and the options of an entry of Binds.

    Source: volume/mounts of moby, linux_parser.go: three fields at most, and a single one is the target.
    Raises Denied: bind-host-path.
    """
    fields = bind.split(":")
    if len(fields) > 3:
        raise Denied("bind-host-path", source=quoted(bind), why="it has more than three fields")
    if len(fields) == 1:
        return "", fields[0], []
    return fields[0], fields[1], fields[2].split(",") if len(fields) == 3 else []


def check_options(options: list[str]) -> None:
    """Refuse the options of a bind that share mounts with the host. Raises Denied: bind-propagation."""
    for option in options:
        if option in _SHARED:
            check_propagation(option)


def is_docker_socket(source: str) -> bool:
    """Whether a source is the path at which clients expect the daemon's socket."""
    return _normal(source) in _DOCKER_SOCKETS


def is_volume(source: str) -> bool:
    """Whether a source is the name of a volume and no path."""
    return _VOLUME_NAME.fullmatch(source) is not None


def check_source(source: str, policy: Policy, realpath: RealPath, *, is_readonly: bool) -> None:
    """Refuse a path of the host that may not be bound.

    Raises Denied: bind-device, bind-root or bind-host-path.
    """
    if policy.self_socket and source == policy.self_socket:
        return
    if _ODD.search(source) or not source.startswith("/"):
        raise Denied(
            "bind-host-path", source=quoted(source), why="a source is an absolute path or the name of a volume"
        )
    written = _normal(source)
    _check(written, source, policy, is_readonly=is_readonly)
    try:
        resolved = _normal(realpath(written))
    except OSError as error:
        why = f"its links cannot be resolved: {error.strerror}"
        raise Denied("bind-host-path", source=quoted(source), why=why) from None
    if resolved != written:
        _check(resolved, source, policy, is_readonly=is_readonly)


def _check(path: str, source: str, policy: Policy, *, is_readonly: bool) -> None:
    shown = quoted(source) if _normal(source) == path else f"{quoted(source)} (a link to {quoted(path)})"
    if _is_below(path, "/dev"):
        raise Denied("bind-device", source=shown)
    for directory in policy.never:
        if _is_below(path, directory):
            own = "; operator: policy self_socket gives the gate's own" if is_docker_socket(source) else ""
            raise Denied("bind-host-path", source=shown, why=f"nothing below {directory} may be bound{own}")
        if _is_below(directory, path):
            raise Denied("bind-root", source=shown, path=directory)
    if policy.bind_roots is not None:
        if not any(_is_below(path, root) for root in policy.bind_roots):
            raise Denied("bind-host-path", source=shown, why=f"allowed roots: {', '.join(policy.bind_roots) or 'none'}")
    elif not is_readonly and any(_is_below(path, directory) for directory in policy.readonly):
        raise Denied("bind-host-path", source=shown, why="read-only is allowed: add :ro")


def _normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/")) if path.startswith("/") else posixpath.normpath(path)


def _is_below(path: str, directory: str) -> bool:
    return directory in ("/", path) or path.startswith(directory + "/")
