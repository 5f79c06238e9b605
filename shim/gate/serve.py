"""The process that serves: sockets first, then no privileges, then clients.

`shim gate serve` checks its options and becomes this process, which imports nothing of the command line: it stays, and
most of its memory would be modules that it never uses.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass, field, replace
from typing import NoReturn

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.gate import daemon_view, policy_file, upstream
from shim.gate.grants import GrantsFile
from shim.gate.journal import Journal
from shim.gate.metrics import Metrics
from shim.gate.server import Server
from shim.gate.session import Gate
from shim.host import privileges
from shim.host.sockets import inherited, listen

_LOG_MODE = 0o640


@dataclass(frozen=True)
class Settings:
    """The options of `shim gate serve`.

    Attributes:
        subject: the name to which grants are given.
        upstream: path of the daemon's socket.
        listen: path of the gate's socket; "": the first socket of systemd.
        metrics: path of the metrics' socket; "": none, or the second socket of systemd.
        group: id of the group that owns both sockets, -1: the process's.
        policy: path of the policy file.
        grants: path of the grants file.
        log: path of the decisions' file; "": standard output.
        pid_file: of the daemon.
        node_names: path of a device node -> CDI names of the specs, for messages.
    """

    subject: str
    upstream: str
    listen: str = ""
    metrics: str = ""
    group: int = -1
    policy: str = ""
    grants: str = ""
    log: str = ""
    pid_file: str = ""
    node_names: dict[str, tuple[str, ...]] = field(default_factory=dict)


def become(settings: Settings) -> NoReturn:
    """Replace this process by the one that serves. Raises OSError: Python cannot be executed."""
    descriptor = os.memfd_create("shim-gate", 0)  # inherited
    os.write(descriptor, json.dumps(asdict(settings)).encode("ascii"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    program = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", program, "gate", str(descriptor)])  # noqa: S606 (our own program, by its path)


def main(words: list[str]) -> NoReturn:
    """Serve until SIGTERM.

    Arguments:
        words: the descriptor of the settings.
    """
    with open(int(words[0]), "rb") as file:
        settings = Settings(**json.load(file))
    try:
        server = prepare(settings)
    except CdiError as error:
        for finding in error.findings:
            sys.stderr.write(f"shim: {finding.id}: {finding} ({finding.remedy})\n")
        sys.exit(1)
    server.handle_signals()
    server.run()
    os._exit(0)  # threads of streams that did not end in time are left


def prepare(settings: Settings) -> Server:
    """Read the policy, open all sockets and files, and give up privileges.

    Arguments:
        settings: the options.

    Raises CdiError: GATE_POLICY, GATE_PODMAN, GATE_LISTEN or GATE_PRIVILEGE.
    """
    policy = policy_file.read(settings.policy, settings.subject)
    policy = replace(
        policy,
        runtimes=daemon_view.Runtimes(policy.runtimes, settings.upstream),
        never=(*policy.never, *_directory_of(settings.upstream)),
        node_names=settings.node_names,
    )
    _check_engine(settings.upstream)
    listener, counters = _sockets(settings)
    journal = Journal(_open_log(settings.log), settings.subject)
    drop_privileges(settings.subject)
    view = daemon_view.View(settings.upstream, settings.pid_file)
    grants = GrantsFile(settings.grants, settings.subject)
    gate = Gate(policy, grants, settings.upstream, view.realpath, journal, Metrics(settings.subject))
    journal.event("start", upstream=settings.upstream, builder=policy.builder)
    return Server(gate, listener, counters)


def drop_privileges(subject: str) -> None:
    """Keep what opens /proc/PID/root of the daemon, and what follows links in directories of users.

    Arguments:
        subject: names the process.

    Raises CdiError: GATE_PRIVILEGE.
    """
    try:
        privileges.drop(f"gate-{subject}", ("SYS_PTRACE", "DAC_READ_SEARCH"))
    except OSError as error:
        raise CdiError([Finding("GATE_PRIVILEGE", f"privileges cannot be dropped: {reason(error)}")]) from None
    except ImportError as error:
        text = f"privileges cannot be dropped without python-prctl: {error}"
        raise CdiError([Finding("GATE_PRIVILEGE", text, privileges.install())]) from None


def _check_engine(path: str) -> None:
    """Refuse podman, where it answers already; a daemon that starts later is the business of `shim gate verify`."""
    try:
        version = upstream.ask(path, "/version") or {}
    except OSError:
        return
    if daemon_view.is_podman(version):
        raise CdiError([Finding("GATE_PODMAN", daemon_view.PODMAN, path=path)])


def _directory_of(path: str) -> tuple[str, ...]:
    """The directory of the daemon's socket, under both of its names where links lead there."""
    directory = os.path.dirname(path)
    names = dict.fromkeys((directory, os.path.realpath(directory)))
    return tuple(name for name in names if name != "/")


def _sockets(settings: Settings) -> tuple[socket.socket, socket.socket | None]:
    given = inherited()
    path = settings.listen
    try:
        if path:
            listener = listen(path, group=settings.group)
        elif given:
            listener = given.pop(0)
        else:
            text = "there is no socket: neither --listen nor one of systemd's"
            raise CdiError([Finding("GATE_LISTEN", text, "add --listen SOCKET, or start shim-gate@SUBJECT.socket")])
        path = settings.metrics
        counters = listen(path, group=settings.group) if path else given.pop(0) if given else None
    except OSError as error:
        raise CdiError([Finding("GATE_LISTEN", f"nothing can listen there: {reason(error)}", path=path)]) from None
    return listener, counters


def _open_log(path: str) -> int:
    if not path:
        return sys.stdout.fileno()
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _LOG_MODE)
    except OSError as error:
        raise CdiError([Finding("GATE_LISTEN", f"it cannot be written: {reason(error)}", path=path)]) from None
