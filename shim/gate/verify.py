"""Whether a deployment keeps what the gate promises: the daemon behind it, its sockets, runtimes and builder.

The gate judges requests that come through it. What leads around it, or gives devices without a request, is in the
daemon's configuration: each check below is such a way.

Source: https://docs.docker.com/reference/cli/dockerd/; docs/gate.md.
"""

from __future__ import annotations

import json
import os
import posixpath
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.gate import daemon_view, upstream
from shim.grants import reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shim.gate.judge import Policy

_PLAIN_RUNTIMES = frozenset({"runc", "crun", "io.containerd.runc.v2"})
_HAS_CDI = 25  # engine 25.0 reads names of CDI devices from --device
_READS_TOP = 27  # engines before 27.0 read the fields of a HostConfig at the top of a create
_AUTOMATIC = b"org.mobyproject.buildkit.device.autoallow"
_VENDORS = ("nvidia-container-runtime", "amd-container-runtime", "habana-container-runtime", "ascend-docker-runtime")


@dataclass(frozen=True)
class Deployment:
    """What was found out about a daemon and the subject in front of it.

    Attributes:
        policy: of the subject.
        socket: path of the daemon's socket.
        info: `GET /info`.
        version: `GET /version`.
        config: the daemon's daemon.json, {} where it has none.
        words: the daemon's command line, () where it cannot be read.
        spec_dirs: spec directories against which grants are checked.
        open_sources: whether the shim believes variables and mount lists of images.
        automatic: specs with devices that BuildKit gives without an entitlement.
    """

    policy: Policy
    socket: str
    info: dict[str, Any]
    version: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    spec_dirs: tuple[str, ...] = ()
    open_sources: bool = False
    automatic: tuple[str, ...] = ()

    @property
    def release(self) -> int:
        """The first number of the engine's version, 0 where it has none."""
        text = str(self.info.get("ServerVersion") or "").partition(".")[0]
        return int(text) if text.isdecimal() else 0


def look(
    policy: Policy,
    socket: str,
    pid_file: str,
    spec_dirs: tuple[str, ...],
    *,
    open_sources: bool,
    automatic: tuple[str, ...],
) -> Deployment:
    """Look at the daemon behind a socket.

    Arguments:
        policy, socket, spec_dirs, open_sources, automatic: as of Deployment.
        pid_file: of the daemon, where systemd listens for it.

    Raises CdiError: GATE_UPSTREAM.
    """
    try:
        info, version = upstream.ask(socket, "/info") or {}, upstream.ask(socket, "/version") or {}
        root = daemon_view.View(socket, pid_file).root()
    except OSError as error:
        raise CdiError(
            [Finding("GATE_UPSTREAM", f"the daemon cannot be asked: {reason(error)}", path=socket)]
        ) from None
    words = _command_line(f"{posixpath.dirname(root)}/cmdline") if root else ()
    path = _option(words, "--config-file") or "/etc/docker/daemon.json"
    return Deployment(policy, socket, info, version, _json(root + path), words, spec_dirs, open_sources, automatic)


def check(deployment: Deployment) -> list[Finding]:
    """Everything that is wrong with a deployment."""
    return [finding for ask in CHECKS for finding in ask(deployment)]


def _engine(deployment: Deployment) -> Iterator[Finding]:
    if daemon_view.is_podman(deployment.version):
        yield Finding("GATE_PODMAN", daemon_view.PODMAN)
    elif 0 < deployment.release < _HAS_CDI:
        text = (
            f"engine {deployment.info.get('ServerVersion')} takes no CDI names: --device NAME does not work behind it"
        )
        yield Finding("GATE_ENGINE", text)
    elif 0 < deployment.release < _READS_TOP:
        text = f"engine {deployment.info.get('ServerVersion')} reads HostConfig fields also at the top of a request"
        yield Finding("GATE_ENGINE", text, "nothing need be done: the gate refuses such requests; 27 reads none")


def _listeners(deployment: Deployment) -> Iterator[Finding]:
    hosts = [str(host) for host in deployment.config.get("hosts") or ()]
    hosts += _options(deployment.words, "--host", "-H")
    for host in hosts:
        if host.startswith("tcp:"):
            yield Finding("GATE_TCP", f"the daemon listens on {host}, where no gate is", path=deployment.socket)


def _socket(deployment: Deployment) -> Iterator[Finding]:
    """Who can connect: everybody who may search the directories and write the socket."""
    try:
        own = os.stat(deployment.socket)
        directory = os.stat(os.path.dirname(os.path.realpath(deployment.socket)))
    except OSError as error:
        yield Finding("GATE_SOCKET", f"it cannot be looked at: {reason(error)}", path=deployment.socket)
        return
    for bit, search, whose, is_open in (
        (stat.S_IWGRP, stat.S_IXGRP, f"group {own.st_gid}", own.st_gid != 0),
        (stat.S_IWOTH, stat.S_IXOTH, "every user", True),
    ):
        others_enter = directory.st_mode & stat.S_IXOTH or (
            directory.st_mode & search and directory.st_gid == own.st_gid
        )
        if own.st_mode & bit and is_open and others_enter:
            yield Finding("GATE_SOCKET", f"{whose} can connect without the gate", path=deployment.socket)


def _runtimes(deployment: Deployment) -> Iterator[Finding]:
    """A runtime that gives devices which no request names."""
    known = deployment.info.get("Runtimes") or {}
    default = str(deployment.info.get("DefaultRuntime") or "runc")
    names = dict.fromkeys((default, *(name for name in _listed(deployment) if name)))
    for name in names:
        runtime = known.get(name) or {}
        program = posixpath.basename(str(runtime.get("path") or runtime.get("runtimeType") or name))
        whose = "the default runtime" if name == default else "a runtime of the policy"
        devices = [word for word in runtime.get("runtimeArgs") or () if str(word).startswith("--device")]
        if program.startswith(_VENDORS):
            text = f"{name}, {whose}, reads devices from the environment of images"
            yield Finding("GATE_RUNTIME", text)
        elif program == "shim" or program.startswith("shim-"):
            if deployment.open_sources:
                text = f"{name}, {whose}, believes variables or mount lists of images, by the configuration of shim"
                yield Finding("GATE_RUNTIME", text, 'set environment and mounts of [sources] to "off"')
            if devices and name == default:
                text = f"{name}, the default runtime, gives {' '.join(devices)} to every container"
                yield Finding("GATE_RUNTIME", text, "take --device out of its runtimeArgs, or use another default")
        elif program not in _PLAIN_RUNTIMES:
            text = f"what {name}, {whose}, gives to containers is unknown (program {program})"
            yield Finding("GATE_RUNTIME", text)
    if default not in deployment.policy.runtimes and default not in daemon_view.of_info(deployment.info):
        text = f"{default}, the default runtime, is not in the policy: containers can be created and not started"
        yield Finding("GATE_RUNTIME", text, f'add it to [runtimes] of the policy: "{default}" = []')


def _listed(deployment: Deployment) -> list[str]:
    """The runtimes of the policy that the daemon knows."""
    return [name for name in deployment.policy.runtimes if name in (deployment.info.get("Runtimes") or {})]


def _spec_dirs(deployment: Deployment) -> Iterator[Finding]:
    theirs = deployment.info.get("CDISpecDirs")
    if theirs and deployment.spec_dirs and set(theirs) != set(deployment.spec_dirs):
        ours = ", ".join(deployment.spec_dirs)
        text = f"the daemon reads specs of {', '.join(theirs)}, grants are checked against {ours}"
        yield Finding("GATE_SPEC_DIRS", text)


def _cgroups(deployment: Deployment) -> Iterator[Finding]:
    if deployment.info.get("CgroupDriver") == "none":
        yield Finding("GATE_CGROUP", "the daemon uses no cgroups, so nothing stops a container that finds a node")


def _binds(deployment: Deployment) -> Iterator[Finding]:
    roots = deployment.policy.bind_roots
    if roots is None:
        yield Finding("GATE_BINDS", "the policy has no bind_roots: every path that is not protected may be bound")
    for root in roots or ():
        try:
            is_nodev = bool(os.statvfs(root).f_flag & os.ST_NODEV)
        except OSError as error:
            yield Finding("GATE_NODEV", f"it cannot be looked at: {reason(error)}", path=root)
            continue
        if not is_nodev:
            yield Finding(
                "GATE_NODEV", "its file system is mounted without nodev: `docker cp` can leave nodes", path=root
            )


def _builder(deployment: Deployment) -> Iterator[Finding]:
    if deployment.policy.builder != "daemon":
        return
    builder = deployment.config.get("builder")
    given = builder.get("entitlements") if isinstance(builder, dict) else None
    entitlements = given if isinstance(given, dict) else {}
    if entitlements.get("device") is not False:
        text = "BuildKit passes, and daemon.json does not keep devices from it"
        yield Finding("GATE_BUILDER", text, 'set {"builder": {"entitlements": {"device": false}}} in daemon.json')
    if entitlements.get("security-insecure") is True:
        text = "daemon.json lets builds run with all privileges"
        yield Finding("GATE_BUILDER", text, "take builder.entitlements.security-insecure out of daemon.json")
    for path in deployment.automatic:
        text = "its devices need no entitlement: they are given to every build"
        remedy = "take the annotation org.mobyproject.buildkit.device.autoallow out of it"
        yield Finding("GATE_BUILDER", text, remedy, path=path)


def _swarm(deployment: Deployment) -> Iterator[Finding]:
    """A manager answers `GET /swarm` with the tokens by which other managers join."""
    swarm = deployment.info.get("Swarm")
    if isinstance(swarm, dict) and swarm.get("ControlAvailable") is True:
        text = (
            "the daemon is a manager of a swarm: a subject reads its tokens, and managers place services without a gate"
        )
        yield Finding("GATE_SWARM", text)


def _live_restore(deployment: Deployment) -> Iterator[Finding]:
    if deployment.info.get("LiveRestoreEnabled"):
        yield Finding("GATE_LIVE_RESTORE", "containers go on while the daemon is restarted, with what they have")


def automatic(paths: list[str]) -> tuple[str, ...]:
    """The spec files with devices that BuildKit gives without an entitlement.

    Source: github.com/moby/buildkit, the chapter on CDI of its documents.
    """
    found: list[str] = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                found += [path] if _AUTOMATIC in file.read() else []
        except OSError:
            continue  # it is gone since it was listed
    return tuple(found)


def grants(path: str) -> list[Finding]:
    """What is wrong with the grants file."""
    try:
        reader.read(path)
    except CdiError as error:
        return error.findings
    return []


CHECKS: tuple[Callable[[Deployment], Iterator[Finding]], ...] = (
    _engine, _listeners, _socket, _runtimes, _spec_dirs, _cgroups, _binds, _builder, _swarm, _live_restore,
)  # fmt: skip


def _command_line(path: str) -> tuple[str, ...]:
    try:
        with open(path, "rb") as file:
            return tuple(file.read().decode("utf-8", "replace").split("\0"))
    except OSError:
        return ()


def _options(words: tuple[str, ...], *names: str) -> list[str]:
    found: list[str] = []
    for index, word in enumerate(words):
        for name in names:
            if word == name:
                found += words[index + 1 : index + 2]
            elif word.startswith(f"{name}="):
                found.append(word[len(name) + 1 :])
            elif len(name) == 2 and word.startswith(name):  # -Htcp://ADDRESS
                found.append(word[2:])
    return found


def _option(words: tuple[str, ...], name: str) -> str:
    return next(iter(_options(words, name)), "")


def _json(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
