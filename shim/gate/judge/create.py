"""The body of a create: judged, and rewritten where the policy asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.gate.judge import devices, host, paths
from shim.gate.judge.structure import canonical

if TYPE_CHECKING:
    from shim.gate.judge.model import Inspect, Policy, RealPath

_VOID = "NVIDIA_VISIBLE_DEVICES"


def judge(
    value: Any, policy: Policy, grants: frozenset[str] | None, inspect: Inspect, realpath: RealPath
) -> tuple[dict[str, Any], list[str]]:
    """Judge the decoded body of a create.

    Returns: what the daemon shall receive, and the names that it asks for, granted or not.
    Raises Denied: the reason.
    """
    body = canonical(value, "create")
    given = body.get("HostConfig")
    if given:
        _replace_sockets(given, policy)
    if given is not None and policy.default_runtime and not given.get("Runtime"):
        given["Runtime"] = policy.default_runtime
    elif policy.default_runtime and given is None:
        given = body["HostConfig"] = {"Runtime": policy.default_runtime}
    for target in body.get("Volumes") or ():
        paths.check_target(target)
    names = host.judge(given or {}, body.get("Env") or [], policy, grants, inspect, realpath)
    _harden(body, policy)
    return body, names


def _replace_sockets(given: dict[str, Any], policy: Policy) -> None:
    """The gate's own socket in place of the daemon's, so that a client in the container stays behind the gate."""
    if not policy.self_socket:
        return
    for index, bind in enumerate(given.get("Binds") or ()):
        source, colon, rest = bind.partition(":")
        if colon and paths.is_docker_socket(source):
            given["Binds"][index] = f"{policy.self_socket}:{rest}"
    for mount in given.get("Mounts") or ():
        if mount.get("Type") == "bind" and paths.is_docker_socket(mount.get("Source") or ""):
            mount["Source"] = policy.self_socket


def _harden(body: dict[str, Any], policy: Policy) -> None:
    if policy.harden_env:
        variables = body.get("Env") or []
        if not any(variable.partition("=")[0] == _VOID for variable in variables):
            body["Env"] = [*variables, f"{_VOID}=void"]
    if policy.harden_mknod:
        given = body.get("HostConfig") or {}
        added = {host.capability(written) for written in given.get("CapAdd") or ()}
        dropped = given.get("CapDrop") or []
        if "MKNOD" not in added:
            body["HostConfig"] = {**given, "CapDrop": [*dropped, "MKNOD"]}


def judge_stored(
    stored: dict[str, Any], policy: Policy, grants: frozenset[str] | None, inspect: Inspect, realpath: RealPath
) -> list[str]:
    """Judge a container as the daemon has stored it: revoked grants and changed links count at its next start.

    Variables count only where the runtime reads them at a start, since they are those of the image as well.
    Returns: the names that it gets. Raises Denied: the reason.
    """
    given = canonical(stored.get("HostConfig"), "HostConfig", is_stored=True)
    config = canonical(stored.get("Config"), "create", is_stored=True)
    for target in config.get("Volumes") or ():
        paths.check_target(target)
    reads = (given.get("Runtime") or "") in policy.env_live_runtimes
    names = host.judge(given, config.get("Env") or [] if reads else [], policy, grants, inspect, realpath)
    devices.check_granted(names, policy, grants)
    return names
