"""`shim gate`: serves the gate in front of a Docker API, and shows what it decided."""

from __future__ import annotations

import grp
from pathlib import Path

import click

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.cli import completion
from shim.cli.cdi import open_dirs
from shim.gate import grants, policy_file
from shim.gate import serve as serving

_MOST_NODES = 500
_MOST_NAMES = 4
DOCKER = "/var/run/docker.sock"

_subject = click.option(
    "--subject", required=True, metavar="NAME", help="To whom devices are granted: a repository, a user, a team."
)
_upstream = click.option(
    "--upstream", default=DOCKER, metavar="SOCKET", shell_complete=completion.files, help="The daemon's socket."
)
_policy = click.option(
    "--policy", default="", metavar="FILE", help=f"Policy; default: {policy_file.DIRECTORY}/NAME.toml."
)


@click.group()
def gate() -> None:
    """A gate in front of a Docker API: containers get the devices that are granted to a subject, and no others.

    \b
    Example:
      shim gate serve --subject repo-a --listen /run/shim/gate/repo-a.sock
    """


@gate.command()
@_subject
@click.option("--listen", default="", metavar="SOCKET", help="Where clients connect; default: the socket of systemd.")
@_upstream
@_policy
@click.option("--grants", "grants_path", default=grants.FILE, metavar="FILE", help="Grants of all subjects.")
@click.option("--metrics", default="", metavar="SOCKET", help="Serve counters there, in the format of Prometheus.")
@click.option("--group", default="", metavar="GROUP", help="Owns the sockets, which have mode 0660.")
@click.option("--log", default="", metavar="FILE", help="Append decisions to FILE; default: standard output.")
@click.option("--pid-file", default="/run/docker.pid", metavar="FILE", help="Of the daemon, where systemd listens.")
def serve(
    subject: str,
    listen: str,
    upstream: str,
    policy: str,
    grants_path: str,
    metrics: str,
    group: str,
    log: str,
    pid_file: str,
) -> None:
    """Serve the gate of a subject until SIGTERM.

    Clients use its socket as DOCKER_HOST. Each request is judged, and what passes is encoded anew for the daemon;
    docs/gate.md has what is refused, and why. A line of JSON is written for each refusal and each device given.
    Grants are read again when their file changes, the policy at the start.

    \b
    Examples:
      shim gate serve --subject repo-a --listen /run/shim/gate/repo-a.sock --group repo-a
      DOCKER_HOST=unix:///run/shim/gate/repo-a.sock docker run --rm --device nvidia.com/gpu=0 ubuntu nvidia-smi
    """
    policy_path = _policy_path(policy, subject)
    policy_file.read(policy_path, subject)  # reported here, with colours and the exit status of commands
    settings = serving.Settings(
        subject=subject,
        upstream=_absolute(upstream),
        listen=_absolute(listen),
        metrics=_absolute(metrics),
        group=_group(group),
        policy=policy_path,
        grants=_absolute(grants_path),
        log=_absolute(log),
        pid_file=pid_file,
        node_names=_node_names(),
    )
    try:
        serving.become(settings)
    except OSError as error:
        text = f"Python cannot be executed: {reason(error)}"
        raise CdiError([Finding("GATE_LISTEN", text, "install shim again")]) from None


def _policy_path(path: str, subject: str) -> str:
    return _absolute(path) or f"{policy_file.DIRECTORY}/{policy_file.check_subject(subject)}.toml"


def _absolute(path: str) -> str:
    return str(Path(path).absolute()) if path else ""


def _group(name: str) -> int:
    if not name:
        return -1
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise click.UsageError(f"there is no group {name}") from None


def _node_names() -> dict[str, tuple[str, ...]]:
    """Device node -> the CDI names that give it, by the specs that are served now."""
    names: dict[str, tuple[str, ...]] = {}
    try:
        served = open_dirs(())
    except CdiError:
        return names  # they are only for messages
    for device in served.devices():
        spec, name = served.get(device) or (None, "")
        for node in (spec.devices[name] if spec else {}).get("deviceNodes") or ():
            path = node.get("hostPath") or node["path"]
            if len(names) < _MOST_NODES or path in names:
                names[path] = (*names.get(path, ()), device)[:_MOST_NAMES]
    return names
